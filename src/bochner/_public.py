"""The public names of the package; `import bochner` imports this when the first of them is used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bochner import certificates, linalg, sketches, theory
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
    MonomialFeatures,
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
from bochner.features import FeatureMatrix
from bochner.kernels import Custom, CyclicInvariant, Kernel, as_kernel, dot_products, stationary
from bochner.kernels.dot_products import *  # noqa: F403 - every kernel that its module lists
from bochner.kernels.stationary import *  # noqa: F403
from bochner.operators import fwht

if TYPE_CHECKING:
    from bochner import datasets, diagnostics
    from bochner.experiments.compare import compare
    from bochner.exports import export_onnx
    from bochner.persistence import ModelFileError, load, save
    from bochner.recommendations import Recommendation, recommend

# What no estimator needs is imported when it is first used: public name -> module.
_LATER = {
    "ModelFileError": "persistence",
    "Recommendation": "recommendations",
    "compare": "experiments.compare",
    "datasets": "datasets",
    "diagnostics": "diagnostics",
    "export_onnx": "exports",
    "load": "persistence",
    "recommend": "recommendations",
    "save": "persistence",
}

__all__ = [
    "AdditiveChi2Features",
    "CompactFeatures",
    "Custom",
    "CyclicInvariant",
    "FeatureMatrix",
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
    "MonomialFeatures",
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
    "fwht",
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


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'bochner' has no attribute {name!r}")
    module = import_module(f"bochner.{_LATER[name]}")
    found = globals()[name] = module if name == _LATER[name] else getattr(module, name)
    return found
