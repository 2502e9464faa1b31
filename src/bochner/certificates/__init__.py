"""Errors measured on the user's data, with confidence, without forming K."""

from bochner.certificates.distances import distance_error
from bochner.certificates.growths import Budget, grow
from bochner.certificates.kernels import NORMS, kernel_error
from bochner.certificates.predictions import gcv_error, leave_one_out_error, prediction_error
from bochner.certificates.records import Certificate, Effort

__all__ = [
    "NORMS",
    "Budget",
    "Certificate",
    "Effort",
    "distance_error",
    "gcv_error",
    "grow",
    "kernel_error",
    "leave_one_out_error",
    "prediction_error",
]
