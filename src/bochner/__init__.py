"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner import certificates, datasets, theory
from bochner.estimators import FourierFeatures, NystromFeatures, RandomProjection, TensorSketchFeatures
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
    "Laplacian",
    "Linear",
    "MaclaurinSeries",
    "Matern",
    "NystromFeatures",
    "Polynomial",
    "Radial",
    "RandomProjection",
    "RationalQuadratic",
    "Separable",
    "TensorSketchFeatures",
    "as_kernel",
    "certificates",
    "datasets",
    "theory",
]
