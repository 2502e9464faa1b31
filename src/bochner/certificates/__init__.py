"""Errors measured on the user's data, with confidence, without forming K."""

from bochner.certificates.kernels import NORMS, kernel_error
from bochner.certificates.records import Certificate, Effort

__all__ = ["NORMS", "Certificate", "Effort", "kernel_error"]
