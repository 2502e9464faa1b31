"""Randomised linear algebra on arrays, CSR matrices and anything with a shape and a product.

Low rank (`randomized_svd`, `randomized_eigh`, `range_finder`, `nystrom`, `generalized_nystrom`, `cx`, `cur`), least
squares and ridge regression (`lstsq`, `ridge`, `gram_solve`, `sketched_kernel_ridge`, `conjugate_gradient`,
`nystrom_preconditioner`), generalised linear models (`newton_sketch`), and numbers (`trace`, `log_determinant`,
`effective_dimension`). Every function returns a frozen result that unpacks as NumPy's would, with a `report`.
"""

from bochner.linalg.factorizations import SVD, Eigh, Range, randomized_eigh, randomized_svd, range_finder
from bochner.linalg.krylov import conjugate_gradient
from bochner.linalg.least_squares import lstsq
from bochner.linalg.low_rank import (
    CUR,
    CX,
    Factors,
    NystromPreconditioner,
    cur,
    cx,
    generalized_nystrom,
    nystrom,
    nystrom_preconditioner,
)
from bochner.linalg.newton_sketches import newton_sketch
from bochner.linalg.reports import Estimate, LowRank, Report, Result, Solution
from bochner.linalg.ridges import gram_solve, ridge, sketched_kernel_ridge
from bochner.linalg.traces import Number, effective_dimension, log_determinant, trace
from bochner.losses import LOSSES, Huber, LogLoss, Loss, Poisson, Squared, SquaredHinge, as_loss

__all__ = [
    "CUR",
    "CX",
    "LOSSES",
    "SVD",
    "Eigh",
    "Estimate",
    "Factors",
    "Huber",
    "LogLoss",
    "Loss",
    "LowRank",
    "Number",
    "NystromPreconditioner",
    "Poisson",
    "Range",
    "Report",
    "Result",
    "Solution",
    "Squared",
    "SquaredHinge",
    "as_loss",
    "conjugate_gradient",
    "cur",
    "cx",
    "effective_dimension",
    "generalized_nystrom",
    "gram_solve",
    "log_determinant",
    "lstsq",
    "newton_sketch",
    "nystrom",
    "nystrom_preconditioner",
    "randomized_eigh",
    "randomized_svd",
    "range_finder",
    "ridge",
    "sketched_kernel_ridge",
    "trace",
]


def __dir__() -> list[str]:
    return sorted(__all__)
