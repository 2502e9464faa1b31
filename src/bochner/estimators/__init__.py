"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.kernels import KernelFeatures
from bochner.estimators.kitchen_sinks import GreedyFit, KitchenSinkFeatures, greedy_kitchen_sinks, kitchen_sinks
from bochner.estimators.maclaurin import MaclaurinFeatures
from bochner.estimators.projections import RandomProjection
from bochner.estimators.tensor_sketch import TensorSketchFeatures

__all__ = [
    "FourierFeatures",
    "GreedyFit",
    "KernelFeatures",
    "KitchenSinkFeatures",
    "MaclaurinFeatures",
    "RandomProjection",
    "TensorSketchFeatures",
    "greedy_kitchen_sinks",
    "kitchen_sinks",
]
