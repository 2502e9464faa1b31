"""Nyström preconditioners for conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.checks import check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.draws.linear_maps import PSDOperator
from bochner.ridge.matrices import Matrix, MatrixLike, as_square, check_symmetric, in_units_with, orthonormal
from bochner.ridge.reports import Estimate, Report

N_PROBES = 10  # random vectors that norms are estimated from


def gaussian_rows(shape: tuple[int, int], A: Matrix, key: Key) -> Array:
    """Draw standard normal rows in the dtype of A; row j does not depend on how many there are."""
    return key.generator().standard_normal(shape, dtype=A.dtype.type)


def gaussian(shape: tuple[int, int], A: Matrix, key: Key) -> Array:
    """Draw standard normal columns in the dtype of A; see `gaussian_rows`."""
    return np.ascontiguousarray(gaussian_rows(shape[::-1], A, key).T)


def shifted_nystrom(omega: Array, Y: Array, slack: float = 0.0) -> tuple[Array, Array]:
    """Return eigenvalues (descending) and vectors of Y (ΩᵀY)⁺ Yᵀ, Y = AΩ, A positive semi-definite, Ω orthonormal.

    A small multiple ν of the identity is added to A and taken off the eigenvalues again: ΩᵀY is singular or a
    little indefinite by rounding whenever the rank of A is below its size (Li et al. 2017; Tropp et al. 2017). A that
    is further from positive semi-definite than rounding, and than `slack`, is refused.
    """
    eps = float(np.finfo(Y.dtype).eps)
    size = float(np.linalg.norm(Y))
    H = omega.T @ Y
    H = (H + H.T) / 2.0
    noise = eps * len(Y) ** 0.5 * size
    lowest = float(scipy.linalg.eigvalsh(H, subset_by_index=[0, 0], check_finite=False)[0]) if size > 0 else 0.0
    if lowest < -max(10.0 * noise, slack):
        raise ValueError(
            f"A is not positive semi-definite: it has an eigenvalue of at most {lowest:.3g}. "
            "Use randomized_eigh, or add a multiple of the identity."
        )
    if size == 0.0:
        return np.zeros(Y.shape[1], Y.dtype), omega
    shift = max(2.0 * noise, noise - 2.0 * lowest)
    C = scipy.linalg.cholesky(H + shift * np.eye(len(H), dtype=H.dtype), lower=False, check_finite=False)
    B = scipy.linalg.solve_triangular(C, (Y + shift * omega).T, trans="T", check_finite=False).T
    U, s, _ = scipy.linalg.svd(B, full_matrices=False, check_finite=False)
    return np.maximum(0.0, s * s - shift), U


@dataclass(frozen=True)
class NystromPreconditioner:
    """P⁻¹ = (l + alpha) U (diag(values) + alpha)⁻¹ Uᵀ + (I - UUᵀ), l the smallest value; call it on residuals.

    The columns of `vectors` are U, and `report` has the effective dimension.
    """

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
    A: MatrixLike, alpha: float, rank: int | None = None, *, max_rank: int | None = None, random_state: Seed = None
) -> NystromPreconditioner:
    """Precondition conjugate gradients for (A + alpha I) x = b, A positive semi-definite.

    With a rank of about twice the effective dimension tr A(A + alpha I)⁻¹ the condition number is a small constant,
    whatever that of A. A smaller rank helps less; the report has both numbers.

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
        Seed of everything random: an int gives the same result every time.

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
    precision = A.precision if isinstance(A, PSDOperator) else np.float64  # of its products, however it is stored
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
        if passes == 0:  # orthonormal columns are Gaussian ones up to their length
            columns = [part[:, :N_PROBES] * n**0.5 for part in parts]
            check_symmetric(A, "A", "A preconditioner needs a positive semi-definite matrix.", *columns)
        if precision == np.float32:
            parts = (parts[0].astype(precision), parts[1].astype(precision))
        # rounding errors of products with features may be larger than those of a matrix; below alpha, they do no harm
        eigen = shifted_nystrom(*parts, slack=0.1 * scaled)
        values, vectors = (part.astype(omega.dtype, copy=False) for part in eigen)
        passes += 1
        if values[-1] <= 10.0 * scaled or size == limit:
            break
        size = min(2 * size, limit)
    enough = bool(values[-1] <= 10.0 * scaled) or size == n
    found = float((values / (values + scaled)).sum())
    # A - Â is positive semi-definite: the value found is a lower bound
    estimates = {"effective_dimension": Estimate(found, 0.0, found, float(n), 0, 1.0)}
    notes = () if enough else (f"rank {size} is below what alpha = {alpha:.3g} asks for: the help is partial",)
    report = Report("Nyström preconditioner", passes, enough, float(values[-1]) / scaled, estimates, notes)
    return NystromPreconditioner(values * values.dtype.type(unit), vectors, alpha, report)
