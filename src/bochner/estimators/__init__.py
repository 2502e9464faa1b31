"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures

__all__ = ["FourierFeatures"]
