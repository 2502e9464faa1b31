"""Randomised range finder, singular values and eigenvalues (Halko, Martinsson & Tropp 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.keys import Key
from bochner.linalg.matrices import as_matrix, as_square, check_symmetric, frobenius_norm, orthonormal
from bochner.linalg.reports import Estimate, LowRank, Report, Result, error_estimates
from bochner.theory import _arguments as check

N_PROBES = 10
ITERATIONS = ("krylov", "subspace")


@dataclass(frozen=True)
class Range(Result):
    """An orthonormal basis `Q` of (nearly) the range of a matrix; unpacks as ``Q, report``."""

    Q: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("Q", "report")


@dataclass(frozen=True)
class SVD(LowRank):
    """A ≈ U diag(s) Vt, singular values descending; unpacks as ``U, s, Vt``."""

    U: Array
    s: Array
    Vt: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("U", "s", "Vt")

    def factors(self) -> tuple[Array, Array]:
        return self.U * self.s, self.Vt


@dataclass(frozen=True)
class Eigh(LowRank):
    """A ≈ V diag(values) Vᵀ, largest magnitudes first; unpacks as ``values, vectors``."""

    values: Array
    vectors: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("values", "vectors")

    def factors(self) -> tuple[Array, Array]:
        return self.vectors * self.values, self.vectors.T


def check_rank(rank: Any, tol: Any, limit: int) -> tuple[int, float | None]:
    """Exactly one of a rank and a tolerance; the rank at most `limit`."""
    if (rank is None) == (tol is None):
        raise ValueError("give either a rank or a tol: the rank fixes the cost, the tol the error.")
    if rank is None:
        return limit, check.fraction("tol", tol, advice="It is relative to the Frobenius norm: 0.01 for one per cent.")
    return min(check.count("rank", rank), limit), None


def gaussian(shape: tuple[int, int], A: Any, key: Key) -> Array:
    """Standard normal columns in the dtype of A; column j does not depend on how many there are."""
    return np.ascontiguousarray(key.generator().standard_normal(shape[::-1], dtype=A.dtype.type).T)


def _without(Q: Array, Y: Array) -> Array:
    """(I - QQᵀ)Y, twice: once leaves what rounding put back."""
    for _ in range(2):
        Y = Y - Q @ (Q.T @ Y)
    return Y


def _new_directions(Q: Array, Y: Array) -> Array:
    """Orthonormal columns, orthogonal to Q, that span what Y adds to it."""
    if not Q.shape[1]:
        return orthonormal(Y)
    # what was nearly inside Q is noise after the first round, and orthogonal to Q only after the second
    for _ in range(2):
        Y = orthonormal(Y - Q @ (Q.T @ Y))
    return Y


def _grow(A: Any, Q: Array, B: Array, Y: Array, n_iter: int, iteration: str) -> tuple[Array, Array]:
    """Extend the basis Q by directions found from Y = AΩ, and the projection B = (AᵀQ)ᵀ with it.

    "subspace" keeps the last block only; "krylov" keeps every block it has paid for (Musco & Musco 2015), and
    AᵀQ_j, which it needs for the next block anyway, is a block of B.
    """
    room = min(A.shape) - Q.shape[1]
    block = _new_directions(Q, Y[:, :room])
    for step in range(n_iter + 1):
        C = A.T @ block
        if step == n_iter or iteration == "krylov":
            Q, B = np.hstack([Q, block]), np.vstack([B, C.T])
        room = min(A.shape) - Q.shape[1]
        if step == n_iter or room == 0:
            break
        block = _new_directions(Q, A @ orthonormal(C)[:, :room])
    return Q, B


@dataclass(frozen=True)
class _Projection:
    """Q, B = QᵀA, fresh standard normal probes Ω with their products AΩ, and ‖A‖_F."""

    Q: Array
    B: Array
    probes: Array
    products: Array
    norm: float
    passes: int
    converged: bool


def _project(
    A: Any, rank: int, tol: float | None, oversampling: int, n_iter: int, iteration: str, key: Key
) -> _Projection:
    n, limit = A.shape[1], min(A.shape)
    Q, B = np.zeros((A.shape[0], 0), A.dtype), np.zeros((0, n), A.dtype)
    if tol is None:
        k = min(rank + oversampling, limit)
        omega = gaussian((n, k), A, key.child("sketch"))
        probes = gaussian((n, N_PROBES), A, key.child("probes"))
        products = A @ np.hstack([omega, probes])  # one pass for both
        Q, B = _grow(A, Q, B, products[:, :k], n_iter, iteration)
        products = products[:, k:]
        return _Projection(Q, B, probes, products, frobenius_norm(A, products), 2 * n_iter + 2, True)
    passes, round_, norm = 0, 0, 0.0
    while True:
        size = max(N_PROBES, Q.shape[1] // 2)
        omega = gaussian((n, size), A, key.child("sketch").child(round_))
        products = A @ omega
        passes, norm = passes + 1, norm or frobenius_norm(A, products)
        left = np.linalg.norm(_without(Q, products)) / np.sqrt(size)
        done = left <= max(tol, 4.0 * np.finfo(A.dtype).eps) * norm
        if done or Q.shape[1] == limit:
            return _Projection(Q, B, omega, products, norm, passes, True)
        # the new columns are independent of Q, so `left` is unbiased: the estimate costs nothing until it succeeds
        Q, B = _grow(A, Q, B, products, n_iter, iteration)
        passes, round_ = passes + 2 * n_iter + 1, round_ + 1


def range_finder(
    A: Any,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 0,
    iteration: str = "subspace",
    random_state: Any = None,
) -> Range:
    """Orthonormal columns Q with QQᵀA close to A.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank, tol : int or None, float or None
        Exactly one: the basis has ``rank + oversampling`` columns, or grows until the estimated
        ‖A - QQᵀA‖_F / ‖A‖_F is at most `tol`.
    n_iter : int
        Power iterations, orthonormalised at every half step. 0 reads A once.
    iteration : {"subspace", "krylov"}
        "krylov" keeps all ``n_iter + 1`` blocks, so the basis is that much wider and better.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Range
        ``Q, report``; ``report.estimates["relative_error"]`` with probes independent of Q.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import range_finder
    >>> A = np.outer(np.arange(1.0, 31.0), np.ones(20))
    >>> Q, report = range_finder(A, tol=0.01, random_state=0)
    >>> bool(np.allclose(Q @ (Q.T @ A), A)), report.converged
    (True, True)
    """
    A = as_matrix(A)
    k, tol = check_rank(rank, tol, min(A.shape))
    p = _project(A, k, tol, *_options(oversampling, n_iter, iteration), Key.from_random_state(random_state))
    estimates = error_estimates(_without(p.Q, p.products), p.norm)
    return Range(p.Q, _report(f"range finder, {iteration}", p, estimates))


def randomized_svd(
    A: Any,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 3,
    iteration: str = "krylov",
    random_state: Any = None,
) -> SVD:
    """Leading singular values and vectors from a few products with A and its transpose.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank, tol : int or None, float or None
        Exactly one: the number of singular values, or the relative Frobenius error at which the rank is enough.
    oversampling : int
        Columns of the sketch beyond `rank`.
    n_iter : int
        Power iterations: each costs two more passes over A and sharpens a slowly decaying spectrum.
    iteration : {"krylov", "subspace"}
        "krylov" also uses the blocks of the earlier iterations: more accurate for the same passes.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    SVD
        ``U, s, Vt = randomized_svd(A, 10)``; ``report.estimates["relative_error"]`` estimates
        ‖A - U diag(s) Vt‖_F / ‖A‖_F from products that the factors have not seen.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import randomized_svd
    >>> A = np.diag(0.5 ** np.arange(40.0))
    >>> U, s, Vt = randomized_svd(A, 3, random_state=0)
    >>> s.round(6).tolist()
    [1.0, 0.5, 0.25]
    >>> randomized_svd(A, tol=0.01, random_state=0).rank
    7
    """
    A = as_matrix(A)
    k, tol = check_rank(rank, tol, min(A.shape))
    # nine tenths of the tolerance for the range, what is left (in squares) for the singular values cut off
    target = None if tol is None else 0.9 * tol
    p = _project(A, k, target, *_options(oversampling, n_iter, iteration), Key.from_random_state(random_state))
    R, W = _thin_lq(p.B)
    U, s, Vt = scipy.linalg.svd(R, full_matrices=False, check_finite=False)
    if tol is not None:
        left = np.linalg.norm(_without(p.Q, p.products)) ** 2 / p.products.shape[1]
        tails = np.append(np.cumsum(s[::-1] ** 2)[::-1], 0.0)
        k = max(1, int(np.argmax(tails + left <= max(tol * p.norm, np.sqrt(left)) ** 2 * (1 + 1e-12))))
    k = min(k, len(s))
    U, s, Vt = p.Q @ U[:, :k], s[:k], Vt[:k] @ W
    difference = p.products - U @ (s[:, None] * (Vt @ p.probes))
    return SVD(U, s, Vt, _report(f"randomized SVD, {iteration}", p, error_estimates(difference, p.norm)))


def _thin_lq(B: Array) -> tuple[Array, Array]:
    """B = L W, W with orthonormal rows, L no larger than it must be: the SVD of a wide matrix is that of L."""
    if B.shape[0] >= B.shape[1]:
        return B, np.eye(B.shape[1], dtype=B.dtype)
    W = orthonormal(B.T)
    return B @ W, W.T


def randomized_eigh(
    A: Any,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 3,
    iteration: str = "krylov",
    random_state: Any = None,
) -> Eigh:
    """Eigenvalues of largest magnitude, and their vectors, of a symmetric matrix.

    Parameters are those of `randomized_svd`. For a positive semi-definite A, `nystrom` is more accurate from a single
    pass.

    Returns
    -------
    Eigh
        ``values, vectors``, by descending magnitude.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import randomized_eigh
    >>> values, vectors = randomized_eigh(np.diag([1.0, -3.0, 2.0, 0.01]), 2, random_state=0)
    >>> values.round(6).tolist()
    [-3.0, 2.0]
    """
    A = as_square(A)
    k, tol = check_rank(rank, tol, A.shape[0])
    target = None if tol is None else 0.5 * tol  # what is outside Q enters twice, from the left and from the right
    p = _project(A, k, target, *_options(oversampling, n_iter, iteration), Key.from_random_state(random_state))
    check_symmetric(p.probes.T @ p.products, "A", "Use randomized_svd, or pass (A + A.T) / 2.")
    H = p.B @ p.Q
    values, V = scipy.linalg.eigh((H + H.T) / 2.0, check_finite=False)
    order = np.argsort(-np.abs(values), kind="stable")
    if tol is not None:
        k = smallest_rank(p.products, p.probes, values[order], p.Q @ V[:, order], tol * p.norm)
    order = order[:k]
    values, vectors = values[order], p.Q @ V[:, order]
    difference = p.products - vectors @ (values[:, None] * (vectors.T @ p.probes))
    return Eigh(values, vectors, _report(f"randomized eigh, {iteration}", p, error_estimates(difference, p.norm)))


def smallest_rank(products: Array, probes: Array, values: Array, vectors: Array, goal: float) -> int:
    """Fewest leading terms of V diag(values) Vᵀ whose Frobenius error, as the probes see it, is at most goal."""
    D, C = vectors.T @ products, vectors.T @ probes
    outside = np.linalg.norm(products - vectors @ D) ** 2
    inside = np.append(0.0, np.cumsum(np.linalg.norm(D - values[:, None] * C, axis=1) ** 2))
    after = np.append(np.cumsum((np.linalg.norm(D, axis=1) ** 2)[::-1])[::-1], 0.0)
    fine = outside + inside + after <= products.shape[1] * goal**2
    return max(1, int(np.argmax(fine))) if fine.any() else len(values)


def _options(oversampling: Any, n_iter: Any, iteration: Any) -> tuple[int, int, str]:
    return (
        check.count("oversampling", oversampling, minimum=0, advice="0 adds no columns."),
        check.count("n_iter", n_iter, minimum=0, advice="0 reads the matrix once."),
        check.choice("iteration", iteration, ITERATIONS),
    )


def _report(method: str, p: _Projection, estimates: dict[str, Estimate]) -> Report:
    return Report(
        method=method,
        iterations=p.passes,
        converged=p.converged,
        residual=estimates["relative_error"].value,
        estimates=estimates,
        notes=("the matrix is zero",) if p.norm == 0.0 else (),
    )
