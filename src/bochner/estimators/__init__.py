"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.binning import RandomBinningFeatures
from bochner.estimators.classifier import KernelClassifier, exact_kernel_classifier
from bochner.estimators.compact import CompactFeatures
from bochner.estimators.exact import exact_gaussian_process, exact_kernel_ridge
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.gaussian_process import GaussianProcessRegressor
from bochner.estimators.histograms import AdditiveChi2Features
from bochner.estimators.kernel_kmeans import KernelKMeans
from bochner.estimators.kernel_pca import KernelPCA
from bochner.estimators.kernels import KernelFeatures
from bochner.estimators.kitchen_sinks import GreedyFit, KitchenSinkFeatures, greedy_kitchen_sinks, kitchen_sinks
from bochner.estimators.learned import LearnedFeatures
from bochner.estimators.maclaurin import MaclaurinFeatures
from bochner.estimators.mmd import MMDResult, exact_mmd, mmd_test
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.projections import RandomProjection
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.tabular import TabularClassifier, TabularRegressor
from bochner.estimators.tensor_sketch import TensorSketchFeatures

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
    "NystromFeatures",
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
