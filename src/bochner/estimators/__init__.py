"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.classifier import KernelClassifier, exact_kernel_classifier
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.ridge import KernelRidge, exact_kernel_ridge

__all__ = ["FourierFeatures", "KernelClassifier", "KernelRidge", "exact_kernel_classifier", "exact_kernel_ridge"]
