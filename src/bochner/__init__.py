"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner.estimators import (
    FourierFeatures,
    KitchenSinkFeatures,
    MaclaurinFeatures,
    greedy_kitchen_sinks,
    kitchen_sinks,
)
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
    "KitchenSinkFeatures",
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
    "greedy_kitchen_sinks",
    "kitchen_sinks",
]
