"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures

__all__ = ["FourierFeatures", "NystromFeatures"]
