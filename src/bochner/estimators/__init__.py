"""What users touch: scikit-learn estimators around the feature maps and solvers."""

from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.projections import RandomProjection
from bochner.estimators.ridge import KernelRidge, exact_kernel_ridge
from bochner.estimators.tensor_sketch import TensorSketchFeatures

__all__ = [
    "FourierFeatures",
    "KernelRidge",
    "NystromFeatures",
    "RandomProjection",
    "TensorSketchFeatures",
    "exact_kernel_ridge",
]
