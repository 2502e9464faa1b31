"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner.estimators import FourierFeatures, MaclaurinFeatures
from bochner.kernels import (
    RBF,
    AdditiveChi2,
    ArcCosine,
    Cauchy,
    Custom,
    DotProduct,
    Exponential,
    ExponentialDot,
    Kernel,
    Laplacian,
    Linear,
    MaclaurinSeries,
    Matern,
    Polynomial,
    Radial,
    RationalQuadratic,
    Separable,
    as_kernel,
)

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "AdditiveChi2",
    "ArcCosine",
    "Cauchy",
    "Custom",
    "DotProduct",
    "Exponential",
    "ExponentialDot",
    "FourierFeatures",
    "Kernel",
    "Laplacian",
    "Linear",
    "MaclaurinFeatures",
    "MaclaurinSeries",
    "Matern",
    "Polynomial",
    "Radial",
    "RationalQuadratic",
    "Separable",
    "as_kernel",
]
