"""Kernels: what is approximated. Exact Gram blocks, algebra, and the laws that make a kernel random.

Kernels are scikit-learn parameter objects: they store what they were given and are never changed by the library;
``length_scale="median"`` becomes a number in a copy made by `Kernel.resolve`.
"""

from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Restricted, Sum, as_points
from bochner.kernels.conversion import Custom, as_kernel
from bochner.kernels.dot_products import (
    AdditiveChi2,
    ArcCosine,
    DotProduct,
    DotProductKernel,
    ExponentialDot,
    Linear,
    MaclaurinSeries,
    Polynomial,
)
from bochner.kernels.invariant import CyclicInvariant
from bochner.kernels.stationary import (
    RBF,
    Cauchy,
    Exponential,
    Laplacian,
    Matern,
    Radial,
    RadialKernel,
    RationalQuadratic,
    Separable,
    SeparableKernel,
    StationaryKernel,
    squared_distances,
)

__all__ = [
    "RBF",
    "AdditiveChi2",
    "ArcCosine",
    "Cauchy",
    "Custom",
    "CyclicInvariant",
    "DotProduct",
    "DotProductKernel",
    "Exponential",
    "ExponentialDot",
    "Kernel",
    "Laplacian",
    "Linear",
    "MaclaurinSeries",
    "Matern",
    "Multiple",
    "Polynomial",
    "Power",
    "Product",
    "Radial",
    "RadialKernel",
    "RationalQuadratic",
    "Restricted",
    "Separable",
    "SeparableKernel",
    "StationaryKernel",
    "Sum",
    "as_kernel",
    "as_points",
    "squared_distances",
]


def __dir__() -> list[str]:
    return sorted(__all__)
