"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner import datasets, theory
from bochner.estimators import (
    FourierFeatures,
    KernelClassifier,
    KernelRidge,
    exact_kernel_classifier,
    exact_kernel_ridge,
)
from bochner.kernels import (
    RBF,
    AdditiveChi2,
    ArcCosine,
    Cauchy,
    Custom,
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
    "Exponential",
    "ExponentialDot",
    "FourierFeatures",
    "Kernel",
    "KernelClassifier",
    "KernelRidge",
    "Laplacian",
    "Linear",
    "MaclaurinSeries",
    "Matern",
    "Polynomial",
    "Radial",
    "RationalQuadratic",
    "Separable",
    "as_kernel",
    "datasets",
    "exact_kernel_classifier",
    "exact_kernel_ridge",
    "theory",
]
