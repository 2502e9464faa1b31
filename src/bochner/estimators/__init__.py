"""The public interface: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.dot_products import MaclaurinFeatures, MonomialFeatures, TensorSketchFeatures
from bochner.estimators.exact import exact_gaussian_process, exact_kernel_classifier, exact_kernel_ridge
from bochner.estimators.fourier import AdditiveChi2Features, FourierFeatures, KernelFeatures, RandomBinningFeatures
from bochner.estimators.gaussian_process import GaussianProcessRegressor
from bochner.estimators.kernel_kmeans import KernelKMeans
from bochner.estimators.kernel_pca import KernelPCA
from bochner.estimators.kitchen_sinks import GreedyFit, KitchenSinkFeatures, greedy_kitchen_sinks, kitchen_sinks
from bochner.estimators.learned import LearnedFeatures
from bochner.estimators.mmd import MMDResult, exact_mmd, mmd_test
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.projected_mixture import ProjectedMixture
from bochner.estimators.projections import CompactFeatures, RandomProjection
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.tabular import TabularClassifier, TabularRegressor

__all__ = [
    "AdditiveChi2Features",
    "CompactFeatures",
    "FourierFeatures",
    "GaussianProcessRegressor",
    "GreedyFit",
    "KernelClassifier",
    "KernelFeatures",
    "KernelKMeans",
    "KernelPCA",
    "KernelRidge",
    "KitchenSinkFeatures",
    "LearnedFeatures",
    "MMDResult",
    "MaclaurinFeatures",
    "MonomialFeatures",
    "NystromFeatures",
    "ProjectedMixture",
    "RandomBinningFeatures",
    "RandomProjection",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSketchFeatures",
    "exact_gaussian_process",
    "exact_kernel_classifier",
    "exact_kernel_ridge",
    "exact_mmd",
    "greedy_kitchen_sinks",
    "kitchen_sinks",
    "mmd_test",
]


def __dir__() -> list[str]:
    return sorted(__all__)
