"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.kernels import KernelFeatures
from bochner.estimators.kitchen_sinks import (
    GreedyFit,
    KitchenSinkFeatures,
    greedy_kitchen_sinks,
    kitchen_sinks,
)
from bochner.estimators.maclaurin import MaclaurinFeatures

__all__ = [
    "FourierFeatures",
    "GreedyFit",
    "KernelFeatures",
    "KitchenSinkFeatures",
    "MaclaurinFeatures",
    "greedy_kitchen_sinks",
    "kitchen_sinks",
]
