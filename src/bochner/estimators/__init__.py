"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.ridge import KernelRidge, exact_kernel_ridge

__all__ = ["FourierFeatures", "KernelRidge", "exact_kernel_ridge"]
