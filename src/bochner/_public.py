"""The public names of the package; `import bochner` imports this when the first of them is used."""

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
    ProjectedMixture,
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
    "MonomialFeatures",
    "NystromFeatures",
    "ProjectedMixture",
    "RandomBinningFeatures",
    "RandomProjection",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSketchFeatures",
    "as_kernel",
    "certificates",
    "exact_gaussian_process",
    "exact_kernel_classifier",
    "exact_kernel_ridge",
    "exact_mmd",
    "fwht",
    "greedy_kitchen_sinks",
    "kitchen_sinks",
    "linalg",
    "mmd_test",
    "sketches",
    "theory",
]
__all__ += dot_products.__all__
__all__ += stationary.__all__
