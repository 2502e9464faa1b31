"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.transformers import FourierFeatures

__all__ = ["FourierFeatures"]
