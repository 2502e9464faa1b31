"""A preconditioner for A + alpha I from a randomised Nyström approximation (Frangella, Tropp & Udell 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.checks import check_count, check_positive
from bochner.keys import Key
from bochner.linalg.approximations import shifted_nystrom
from bochner.linalg.factorizations import N_PROBES, gaussian
from bochner.linalg.matrices import as_square, check_symmetric, in_units_with, orthonormal
from bochner.linalg.reports import Estimate, Report


@dataclass(frozen=True)
class NystromPreconditioner:
    """P⁻¹ = (l + alpha) U (diag(values) + alpha)⁻¹ Uᵀ + (I - UUᵀ), l the smallest value; call it on residuals."""

    values: Array
    vectors: Array
    alpha: float
    report: Report

    @property
    def rank(self) -> int:
        return len(self.values)

    def __call__(self, R: Array) -> Array:
        C = self.vectors.T @ R
        gains = (self.values[-1] + self.alpha) / (self.values + self.alpha) - 1.0
        return R + self.vectors @ (gains.reshape(-1, *(1,) * (R.ndim - 1)) * C)


def nystrom_preconditioner(
    A: Any, alpha: float, rank: int | None = None, *, max_rank: int | None = None, random_state: Any = None
) -> NystromPreconditioner:
    """Precondition conjugate gradients for (A + alpha I) x = b, A positive semi-definite.

    With a rank of about twice the effective dimension tr A(A + alpha I)⁻¹ the condition number is a small constant,
    whatever that of A; below it the help is partial, and the report says where the two stand.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
    alpha : float
        Positive.
    rank : int or None
        None doubles it until the smallest eigenvalue found is at most 10 alpha, or `max_rank` is reached.
    max_rank : int or None
        None for min(n, 1000).
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    NystromPreconditioner
        ``P(R)`` approximates (A + alpha I)⁻¹ R up to a factor. ``report.estimates["effective_dimension"]`` has a
        rigorous lower bound; ``report.converged`` is whether the rank was enough.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.linalg import conjugate_gradient, nystrom_preconditioner
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> K, y = RBF(1.0)(X), np.sin(X[:, 0])
    >>> P = nystrom_preconditioner(K, 1e-4, random_state=0)
    >>> plain = conjugate_gradient(lambda V: K @ V + 1e-4 * V, y).report.iterations
    >>> helped = conjugate_gradient(lambda V: K @ V + 1e-4 * V, y, preconditioner=P).report.iterations
    >>> helped < plain / 4
    True
    """
    precision = getattr(A, "precision", np.float64)  # of its products, whatever they are stored in
    A = as_square(A)
    n = A.shape[0]
    alpha = check_positive("alpha", alpha, advice="Without it, use lstsq or conjugate_gradient.")
    A, scaled, unit = in_units_with(A, alpha, 1)
    scaled = max(scaled, float(np.finfo(np.float64).tiny))
    if rank is not None:
        limit = size = min(check_count("rank", rank), n)
    else:
        limit = min(n, 1000) if max_rank is None else min(n, check_count("max_rank", max_rank))
        size = min(limit, 32)
    key = Key.from_random_state(random_state)
    passes = 0
    while True:
        omega = orthonormal(gaussian((n, size), A, key.child("sketch")))
        parts = (omega, A @ omega)
        if passes == 0:  # orthonormal columns are Gaussian ones but for their length
            columns = [part[:, :N_PROBES] * n**0.5 for part in parts]
            check_symmetric(A, "A", "A preconditioner needs a positive semi-definite matrix.", *columns)
        if precision == np.float32:
            parts = (parts[0].astype(precision), parts[1].astype(precision))
        values, vectors = (part.astype(omega.dtype, copy=False) for part in shifted_nystrom(*parts))
        passes += 1
        if values[-1] <= 10.0 * scaled or size == limit:
            break
        size = min(2 * size, limit)
    enough = bool(values[-1] <= 10.0 * scaled) or size == n
    found = float((values / (values + scaled)).sum())
    # A - Â is positive semi-definite: what was found is a lower bound
    estimates = {"effective_dimension": Estimate(found, 0.0, found, float(n), 0, 1.0)}
    notes = () if enough else (f"rank {size} is below what alpha = {alpha:.3g} asks for: the help is partial",)
    report = Report("Nyström preconditioner", passes, enough, float(values[-1]) / scaled, estimates, notes)
    return NystromPreconditioner(values * values.dtype.type(unit), vectors, alpha, report)
