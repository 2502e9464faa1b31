"""Errors measured on the user's data, with confidence, without forming K."""

from bochner.certificates.component_search import Budget, ComponentSearch
from bochner.certificates.kernels import NORMS, distance_error, kernel_error
from bochner.certificates.predictions import gcv_error, leave_one_out_error, prediction_error
from bochner.certificates.residuals import Certificate, Effort

__all__ = [
    "NORMS",
    "Budget",
    "Certificate",
    "ComponentSearch",
    "Effort",
    "distance_error",
    "gcv_error",
    "kernel_error",
    "leave_one_out_error",
    "prediction_error",
]


def __dir__() -> list[str]:
    return sorted(__all__)
