"""Approximations from one pass: Nyström for positive semi-definite matrices, generalised Nyström for any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.checks import check_count, check_positive
from bochner.keys import Key
from bochner.linalg.factorizations import N_PROBES, Eigh, check_rank, gaussian
from bochner.linalg.matrices import (
    as_matrix,
    as_square,
    check_symmetric,
    diagonal,
    frobenius_norm,
    in_units,
    orthonormal,
)
from bochner.linalg.reports import Estimate, LowRank, Report, error_estimates, met
from bochner.sketches import as_sketch_law


@dataclass(frozen=True)
class Factors(LowRank):
    """A ≈ left · right; unpacks as ``left, right``."""

    left: Array
    right: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("left", "right")
    powers: ClassVar[Mapping[str, int]] = {"left": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.left, self.right


def shifted_nystrom(omega: Array, Y: Array) -> tuple[Array, Array]:
    """Eigenvalues (descending) and vectors of Y (ΩᵀY)⁺ Yᵀ, Y = AΩ, A positive semi-definite, Ω orthonormal.

    A small multiple ν of the identity is added to A and taken off the eigenvalues again: ΩᵀY is singular or a
    little indefinite by rounding whenever the rank of A is below its size (Li et al. 2017; Tropp et al. 2017).
    """
    eps = float(np.finfo(Y.dtype).eps)
    size = float(np.linalg.norm(Y))
    H = omega.T @ Y
    H = (H + H.T) / 2.0
    noise = eps * len(Y) ** 0.5 * size
    lowest = float(scipy.linalg.eigvalsh(H, subset_by_index=[0, 0], check_finite=False)[0]) if size > 0 else 0.0
    if lowest < -10.0 * noise:
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


def nystrom(
    A: Any,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 0,
    random_state: Any = None,
) -> Eigh:
    """Eigenvalues and vectors of a positive semi-definite matrix from a Gaussian sketch, AΩ(ΩᵀAΩ)⁺ΩᵀA.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n), symmetric positive semi-definite
    rank, tol : int or None, float or None
        Exactly one. With `tol` the sketch doubles until the relative Frobenius error is estimated to be below it.
    oversampling : int
        Columns of the sketch beyond `rank`; the approximation is cut back to `rank`.
    n_iter : int
        Subspace iterations before the sketch is used. 0 reads A once.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Eigh
        ``values, vectors``: at most the eigenvalues of A, and A - V diag(values) Vᵀ is positive semi-definite, up to
        rounding. ``report.estimates`` has "relative_error" (Frobenius) and, where the diagonal of A is known, the
        exact "trace_error".

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.linalg import nystrom
    >>> K = RBF(2.0)(np.linspace(0.0, 5.0, 300)[:, None])
    >>> result = nystrom(K, tol=1e-3, random_state=0)
    >>> bool(np.linalg.norm(K - result.to_dense()) <= 2e-3 * np.linalg.norm(K))
    True
    """
    A, unit = in_units(as_square(A))
    n = A.shape[0]
    k, tol = check_rank(rank, tol, n)
    extra = check_count("oversampling", oversampling, least=0, advice="0 adds no columns.")
    n_iter = check_count("n_iter", n_iter, least=0, advice="0 reads the matrix once.")
    key = Key.from_random_state(random_state)
    probes = gaussian((n, N_PROBES), A, key.child("probes"))
    products = A @ probes
    check_symmetric(A, "A", "The Nyström approximation needs a positive semi-definite matrix.", probes, products)
    norm = frobenius_norm(A, products)
    size, passes, look = min(k + extra, n) if tol is None else min(2 * N_PROBES, n), 0, 0
    while True:
        omega = orthonormal(gaussian((n, size), A, key.child("sketch")))
        for _ in range(n_iter):
            omega = orthonormal(A @ omega)
        values, vectors = shifted_nystrom(omega, A @ omega)
        passes, look = passes + n_iter + 1, look + 1
        if tol is not None:
            # most of the tolerance goes to the values cut, without a look at the probes, which judge what is left
            tails = np.sqrt(np.cumsum(values[::-1] ** 2)[::-1])
            k = max(1, int((tails > 0.8 * tol * tails[0]).sum()))
        values, vectors = values[:k], vectors[:, :k]
        difference = products - vectors @ (values[:, None] * (vectors.T @ probes))
        estimates = error_estimates(difference, norm, look=None if tol is None else look)
        if tol is None or size == n or met(estimates["relative_error"].value, tol):
            break
        size = min(2 * size, n)
    d = diagonal(A)
    if d is not None:
        estimates["trace_error"] = Estimate.exact(max(0.0, float(d.sum() - values.sum())))
    residual = estimates["relative_error"].value
    report = Report("Nyström", passes, met(residual, tol), residual, estimates)
    return Eigh(values, vectors, report).times(unit)


def generalized_nystrom(
    A: Any,
    rank: int,
    *,
    oversampling: float = 1.5,
    law: Any = "gaussian",
    random_state: Any = None,
) -> Factors:
    """A ≈ AX (YᵀAX)⁺ YᵀA from one pass over A: sketches from the right and, larger, from the left.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank : int
        Columns of the right sketch, and rank of the approximation.
    oversampling : float
        The left sketch has ``ceil(oversampling * rank)`` rows. 1 would be unstable: 1.5 is Nakatsukasa's (2020).
    law : str or SketchLaw
        Law of both sketches, see `bochner.sketches`.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Factors
        ``left, right`` with A ≈ left @ right. Directions of YᵀAX below rounding are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import generalized_nystrom
    >>> A = np.vander(np.linspace(0.0, 1.0, 50), 30)
    >>> left, right = generalized_nystrom(A, 12, random_state=0)
    >>> bool(np.linalg.norm(A - left @ right) < 1e-4 * np.linalg.norm(A))
    True
    """
    A, unit = in_units(as_matrix(A))
    m, n = A.shape
    k = min(check_count("rank", rank), m, n)
    factor = check_positive("oversampling", oversampling)
    if factor < 1.0:
        raise ValueError(f"oversampling must be at least 1, got {oversampling}; 1.5 is a good choice.")
    law, key = as_sketch_law(law), Key.from_random_state(random_state)
    X = _drawn(law, A.T, k, key.child("right")).astype(A.dtype)  # (k, n)
    Y = _drawn(law, A, min(int(np.ceil(factor * k)), m), key.child("left")).astype(A.dtype)
    probes = gaussian((n, N_PROBES), A, key.child("probes"))
    products = A @ np.hstack([X.T, probes])
    AX, products = products[:, :k], products[:, k:]
    YA = (A.T @ Y.T).T
    # AX (Y A X)⁺ YA with the small directions of the core cut: their inverses would only amplify rounding
    U, s, Vt = scipy.linalg.svd(YA @ X.T, full_matrices=False, check_finite=False)
    kept = s > 5.0 * np.finfo(A.dtype).eps * max(A.shape) ** 0.5 * s.max(initial=0.0)
    left = AX @ (Vt[kept].T / s[kept])
    right = U[:, kept].T @ YA
    estimates = error_estimates(products - left @ (right @ probes), frobenius_norm(A, products))
    cut = k - int(kept.sum())
    notes = (f"{cut} of {k} directions were below rounding and were dropped",) if cut else ()
    report = Report("generalized Nyström", 1, None, estimates["relative_error"].value, estimates, notes)
    return Factors(left, right, report).times(unit)


def _drawn(law: Any, A: Any, size: int, key: Key) -> Array:
    """S as an array of shape (size, rows of A)."""
    return np.asarray(law.resolve(A, key).sample(A.shape[0], size, key).to_dense())
