"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner import certificates, datasets, diagnostics, linalg, sketches, theory
from bochner.estimators import (
    AdditiveChi2Features,
    CompactFeatures,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelFeatures,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KitchenSinkFeatures,
    LearnedFeatures,
    MaclaurinFeatures,
    NystromFeatures,
    RandomBinningFeatures,
    RandomProjection,
    TabularClassifier,
    TabularRegressor,
    TensorSketchFeatures,
    exact_gaussian_process,
    exact_kernel_classifier,
    exact_kernel_ridge,
    exact_mmd,
    greedy_kitchen_sinks,
    kitchen_sinks,
    mmd_test,
)
from bochner.experiments.compare import compare
from bochner.exports import export_onnx
from bochner.kernels import Custom, CyclicInvariant, Kernel, as_kernel, dot_products, stationary
from bochner.kernels.dot_products import *  # noqa: F403 - every kernel that its module lists
from bochner.kernels.stationary import *  # noqa: F403
from bochner.persistence import ModelFileError, load, save
from bochner.recommendations import Recommendation, recommend
from bochner.version import __version__ as __version__

__all__ = [
    "AdditiveChi2Features",
    "CompactFeatures",
    "Custom",
    "CyclicInvariant",
    "FourierFeatures",
    "GaussianProcessRegressor",
    "Kernel",
    "KernelClassifier",
    "KernelFeatures",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "KitchenSinkFeatures",
    "LearnedFeatures",
    "MaclaurinFeatures",
    "ModelFileError",
    "NystromFeatures",
    "RandomBinningFeatures",
    "RandomProjection",
    "Recommendation",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSketchFeatures",
    "as_kernel",
    "certificates",
    "compare",
    "datasets",
    "diagnostics",
    "exact_gaussian_process",
    "exact_kernel_classifier",
    "exact_kernel_ridge",
    "exact_mmd",
    "export_onnx",
    "greedy_kitchen_sinks",
    "kitchen_sinks",
    "linalg",
    "load",
    "mmd_test",
    "recommend",
    "save",
    "sketches",
    "theory",
]
__all__ += dot_products.__all__
__all__ += stationary.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
