"""Errors measured on the user's data, with confidence, without forming K."""

from bochner.certificates.growths import grow
from bochner.certificates.kernels import NORMS, kernel_error
from bochner.certificates.predictions import gcv_error, leave_one_out_error, prediction_error
from bochner.certificates.records import Certificate, Effort

__all__ = [
    "NORMS",
    "Certificate",
    "Effort",
    "gcv_error",
    "grow",
    "kernel_error",
    "leave_one_out_error",
    "prediction_error",
]
