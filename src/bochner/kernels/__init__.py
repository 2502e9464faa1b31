"""Kernels: what is approximated. Exact Gram blocks, algebra, and the distributions of their random frequencies.

Kernels are scikit-learn parameter objects: they store what they were given and are never changed by the library;
``length_scale="median"`` becomes a number in a copy made by `Kernel.resolve`.
"""

from bochner.kernels import dot_products, stationary
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Projected, Restricted, Sum, as_points
from bochner.kernels.conversion import Custom, as_kernel
from bochner.kernels.dot_products import *  # noqa: F403 - kernels are listed beside their classes
from bochner.kernels.dot_products import DotProductKernel
from bochner.kernels.invariant import CyclicInvariant
from bochner.kernels.stationary import *  # noqa: F403
from bochner.kernels.stationary import RadialKernel, SeparableKernel, StationaryKernel, squared_distances

__all__ = [
    "Custom",
    "CyclicInvariant",
    "DotProductKernel",
    "Kernel",
    "Multiple",
    "Power",
    "Product",
    "Projected",
    "RadialKernel",
    "Restricted",
    "SeparableKernel",
    "StationaryKernel",
    "Sum",
    "as_kernel",
    "as_points",
    "squared_distances",
]
__all__ += dot_products.__all__
__all__ += stationary.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
