"""Errors measured on the user's data, with confidence, without forming K."""

from typing import TYPE_CHECKING, Any

from bochner.certificates.component_search import Budget, ComponentSearch
from bochner.certificates.kernels import NORMS, distance_error, kernel_error
from bochner.certificates.predictions import gcv_error, leave_one_out_error, prediction_error
from bochner.certificates.residuals import Certificate, Effort
from bochner.deprecations import old_names

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


def _grow(certify: Any, **options: Any) -> tuple[int, Certificate]:
    return ComponentSearch(certify, **options).run()


if not TYPE_CHECKING:  # a type checker would take it for a promise that every name exists
    __getattr__ = old_names(__name__, {"grow": ("ComponentSearch(certify, tol, budget).run()", _grow)})
