"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner import datasets, linalg, sketches, theory
from bochner.estimators import AdditiveChi2Features, CompactFeatures, FourierFeatures, KernelFeatures, KernelRidge, KitchenSinkFeatures, LearnedFeatures, MaclaurinFeatures, NystromFeatures, RandomBinningFeatures, RandomProjection, TensorSketchFeatures, exact_kernel_ridge, from bochner import datasets, greedy_kitchen_sinks, kitchen_sinks, theory from bochner.estimators import
from bochner.kernels import AdditiveChi2, ArcCosine, Cauchy, Custom, CyclicInvariant, DotProduct, Exponential, ExponentialDot, Kernel, Laplacian, Linear, MaclaurinSeries, Matern, Polynomial, RBF, Radial, RationalQuadratic, Separable, as_kernel

__version__ = "0.1.0"

__all__ = ["AdditiveChi2", "AdditiveChi2Features", "ArcCosine", "Cauchy", "CompactFeatures", "Custom", "CyclicInvariant", "DotProduct", "Exponential", "ExponentialDot", "FourierFeatures", "Kernel", "KernelFeatures", "KernelRidge", "KitchenSinkFeatures", "Laplacian", "LearnedFeatures", "Linear", "MaclaurinFeatures", "MaclaurinSeries", "Matern", "NystromFeatures", "Polynomial", "RBF", "Radial", "RandomBinningFeatures", "RandomProjection", "RationalQuadratic", "Separable", "TensorSketchFeatures", "as_kernel", "datasets", "exact_kernel_ridge", "from bochner import datasets", "greedy_kitchen_sinks", "kitchen_sinks", "linalg", "sketches", "theory", "theory from bochner.estimators import",]
