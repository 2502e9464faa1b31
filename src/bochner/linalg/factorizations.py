"""Randomised range finder, singular values and eigenvalues (Halko, Martinsson & Tropp 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.checks import check_choice, check_count, check_fraction
from bochner.draws.keys import Key, Seed
from bochner.linalg.reports import LowRank, error_estimates, exact_error, frobenius_norm, met
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_square,
    check_symmetric,
    in_units,
    known_norm,
    left_product,
    orthonormal_rows,
)
from bochner.ridge.preconditioners import N_PROBES, gaussian_rows
from bochner.ridge.reports import Estimate, Report, Result

ITERATIONS = ("krylov", "subspace")


@dataclass(frozen=True)
class Range(Result):
    """An orthonormal basis `Q` of (nearly) the range of a matrix; unpacks as ``Q, report``."""

    Q: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("Q", "report")


@dataclass(frozen=True)
class SVD(LowRank):
    """A ≈ U diag(s) Vt, singular values descending; unpacks as ``U, s, Vt``. `report` has its error."""

    U: Array
    s: Array
    Vt: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("U", "s", "Vt")
    powers: ClassVar[Mapping[str, int]] = {"s": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.U * self.s, self.Vt


@dataclass(frozen=True)
class Eigh(LowRank):
    """A ≈ V diag(values) Vᵀ, largest magnitudes first; unpacks as ``values, vectors``. `report` has its error."""

    values: Array
    vectors: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("values", "vectors")
    powers: ClassVar[Mapping[str, int]] = {"values": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.vectors * self.values, self.vectors.T


def check_rank(rank: int | None, tol: float | None, limit: int) -> tuple[int, float | None]:
    """Return the rank, at most `limit`, and the tolerance, of which exactly one is given."""
    if (rank is None) == (tol is None):
        raise ValueError("give either a rank or a tol: the rank fixes the cost, the tol the error.")
    if rank is None:
        return limit, check_fraction("tol", tol, advice="It is relative to the Frobenius norm: 0.01 for one per cent.")
    return min(check_count("rank", rank), limit), None


def _grow(
    A: Matrix, Q: Array, B: Array, Y: Array, n_iter: int, iteration: str, *, project: bool
) -> tuple[Array, Array]:
    """Extend the orthonormal rows Q by directions found from Y = (AΩ)ᵀ, and with `project` B = QA with them.

    "subspace" keeps only the last block; "krylov" keeps every block (Musco & Musco 2015), and Q_j A, which the next
    block needs anyway, is a block of B.
    """
    room = min(A.shape) - len(Q)
    block = orthonormal_rows(Y[:room], Q)
    for step in range(n_iter + 1):
        last = step == n_iter
        C = left_product(block, A) if project or not last else np.zeros((0, A.shape[1]), A.dtype)
        if last or iteration == "krylov":
            Q, B = np.vstack([Q, block]), np.vstack([B, C])
        room = min(A.shape) - len(Q)
        if last or room == 0:
            break
        block = orthonormal_rows(left_product(orthonormal_rows(C)[:room], A.T), Q)
        if not len(block):  # Q holds the range of A
            break
    return Q, B


@dataclass(frozen=True)
class _Projection:
    """Orthonormal rows Q, B = QA (or nothing), fresh standard normal rows with their products ΩAᵀ, and ‖A‖_F.

    `look` counts the tests of Q by such rows that decided whether it should grow; None where it had a given size.
    """

    Q: Array
    B: Array
    probes: Array
    products: Array
    norm: Estimate
    passes: int
    look: int | None = None

    def left(self) -> Array:
        """Return the part of the products that is orthogonal to Q."""
        return self.products - (self.products @ self.Q.T) @ self.Q


def _project(
    A: Matrix,
    rank: int,
    tol: float | None,
    oversampling: int,
    n_iter: int,
    iteration: str,
    key: Key,
    *,
    norm: Estimate | None = None,
    probing: bool = True,
    project: bool = True,
) -> _Projection:
    n, limit = A.shape[1], min(A.shape)
    Q, B = np.zeros((0, A.shape[0]), A.dtype), np.zeros((0, n), A.dtype)
    if tol is None:
        k = min(rank + oversampling, limit)
        omega = gaussian_rows((k, n), A, key.child("sketch"))
        probes = gaussian_rows((N_PROBES if probing else 0, n), A, key.child("probes"))
        products = left_product(np.vstack([omega, probes]) if probing else omega, A.T)  # both in one pass over A
        Q, B = _grow(A, Q, B, products[:k], n_iter, iteration, project=project)
        products = products[k:]
        norm = frobenius_norm(A, products.T) if norm is None else norm
        return _Projection(Q, B, probes, products, norm, 2 * n_iter + 1 + project)
    passes, round_ = 0, 0
    while True:
        size = max(N_PROBES, len(Q) // 2)
        omega = gaussian_rows((size, n), A, key.child("sketch").child(round_))
        products = left_product(omega, A.T)
        passes, norm = passes + 1, frobenius_norm(A, products.T) if norm is None else norm
        p = _Projection(Q, B, omega, products, norm, passes, round_ + 1)
        done = np.linalg.norm(p.left()) / np.sqrt(size) <= max(tol, 4.0 * np.finfo(A.dtype).eps) * norm.value
        if done or len(Q) == limit:
            return p
        # the new rows are independent of Q, so the estimate is unbiased; they extend Q if the error is too large
        before = len(Q)
        Q, B = _grow(A, Q, B, products, n_iter, iteration, project=project)
        passes, round_ = passes + 2 * n_iter + project, round_ + 1
        if len(Q) == before:  # only rounding errors remain
            return replace(p, passes=passes)


def range_finder(
    A: MatrixLike,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 0,
    iteration: str = "subspace",
    random_state: Seed = None,
) -> Range:
    """Find orthonormal columns Q with QQᵀA close to A.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank, tol : int or None, float or None
        Exactly one: the basis has ``rank + oversampling`` columns, or grows until the estimated
        ‖A - QQᵀA‖_F / ‖A‖_F is at most `tol`.
    oversampling : int
        Columns of the basis beyond `rank`.
    n_iter : int
        Power iterations, orthonormalised at every half step. 0 reads A once.
    iteration : {"subspace", "krylov"}
        "krylov" keeps all ``n_iter + 1`` blocks, so the basis is that much wider and better.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

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
    A, unit = in_units(as_matrix(A))
    k, tol = check_rank(rank, tol, min(A.shape))
    options = _options(oversampling, n_iter, iteration)
    p = _project(A, k, tol, *options, Key.from_random_state(random_state), project=False)
    estimates = error_estimates(p.left().T, p.norm, look=p.look)
    return Range(p.Q.T, _report(f"range finder, {iteration}", p, estimates, tol)).times(unit)


def randomized_svd(
    A: MatrixLike,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 3,
    iteration: str = "krylov",
    random_state: Seed = None,
) -> SVD:
    """Compute leading singular values and vectors from a few products with A and its transpose.

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
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    SVD
        ``U, s, Vt = randomized_svd(A, 10)``; ``report.estimates["relative_error"]`` is ‖A - U diag(s) Vt‖_F / ‖A‖_F:
        exact for arrays and sparse matrices, otherwise, and where rounding hides it, estimated from products that the
        factors have not seen. The largest entry of each column of U, by absolute value, is positive.

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
    norm = None if isinstance(A, Operator) else known_norm(A)
    A, unit = in_units(A, norm)
    if unit != 1.0:
        norm = known_norm(A)
    k, tol = check_rank(rank, tol, min(A.shape))
    # nine tenths of the tolerance are for the range, the rest (in squares) for the singular values cut off
    target = None if tol is None else 0.9 * tol
    options, key = _options(oversampling, n_iter, iteration), Key.from_random_state(random_state)
    p = _project(A, k, target, *options, key, norm=None if norm is None else Estimate.exact(norm), probing=norm is None)
    R, W = _thin_lq(p.B)
    U, s, Vt = scipy.linalg.svd(R, full_matrices=False, check_finite=False)
    if tol is not None:
        k = _smallest_rank(s, p.left().T, tol * p.norm.value)
    k = min(k, len(s))
    p, estimates = _svd_error(A, p, s, k, key)
    U, s, Vt = (U[:, :k].T @ p.Q).T, s[:k], Vt[:k] @ W
    signs = np.where(U[np.abs(U).argmax(axis=0), np.arange(k)] < 0, -1, 1).astype(U.dtype)
    U, Vt = U * signs, Vt * signs[:, None]
    return SVD(U, s, Vt, _report(f"randomized SVD, {iteration}", p, estimates, tol)).times(unit)


def _svd_error(A: Matrix, p: _Projection, s: Array, k: int, key: Key) -> tuple[_Projection, dict[str, Estimate]]:
    """Return the error ‖A - U diag(s) Vt‖_F of the k leading singular values s of QA.

    By Pythagoras its square is ‖A‖² - ‖s[:k]‖² where ‖A‖ is known; elsewhere, and where that cancels, it is that of
    A - QᵀQA, from probes, and ‖s[k:]‖².
    """
    eps, norm = float(np.finfo(A.dtype).eps), p.norm.value
    if not len(p.probes):
        lost = 1.0 - float(np.square(s[:k].astype(np.float64) / (norm or 1.0)).sum())
        if lost > 1e4 * eps and norm > 0.0:
            return p, exact_error(lost, norm, 100.0 * eps)
        probes = gaussian_rows((N_PROBES, A.shape[1]), A, key.child("probes"))
        p = replace(p, probes=probes, products=left_product(probes, A.T), passes=p.passes + 1)
    return p, error_estimates(p.left().T, p.norm, cut=float(np.linalg.norm(s[k:])), look=p.look)


def _thin_lq(B: Array) -> tuple[Array, Array]:
    """Factor B = L W with orthonormal rows W: the singular values of a wide B are those of the small L."""
    if B.shape[0] >= B.shape[1]:
        return B, np.eye(B.shape[1], dtype=B.dtype)
    W = orthonormal_rows(B)
    return B @ W.T, W


def randomized_eigh(
    A: MatrixLike,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 3,
    iteration: str = "krylov",
    random_state: Seed = None,
) -> Eigh:
    """Compute the eigenvalues of largest magnitude, and their vectors, of a symmetric matrix.

    For a positive semi-definite A, `nystrom` is more accurate from a single pass.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, n)
        Symmetric.
    rank, tol : int or None, float or None
        Exactly one: the number of eigenvalues, or the relative Frobenius error at which the rank is enough.
    oversampling : int
        Columns of the sketch beyond `rank`.
    n_iter : int
        Power iterations: each costs two more passes over A and sharpens a slowly decaying spectrum.
    iteration : {"krylov", "subspace"}
        "krylov" also uses the blocks of the earlier iterations: more accurate for the same passes.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

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
    A, unit = in_units(as_square(A))
    k, tol = check_rank(rank, tol, A.shape[0])
    target = None if tol is None else 0.5 * tol  # half of it, because the part outside Q counts from both sides
    p = _project(A, k, target, *_options(oversampling, n_iter, iteration), Key.from_random_state(random_state))
    check_symmetric(A, "A", "Use randomized_svd, or pass (A + A.T) / 2.", p.probes.T, p.products.T)
    H = p.B @ p.Q.T
    values, V = scipy.linalg.eigh((H + H.T) / 2.0, check_finite=False)
    order = np.argsort(-np.abs(values), kind="stable")
    values, vectors = values[order], (V[:, order].T @ p.Q).T
    # probes measure the error of all values; those cut off are added by Pythagoras
    difference = p.products.T - vectors @ (values[:, None] * (vectors.T @ p.probes.T))
    if tol is not None:
        k = _smallest_rank(values, difference, tol * p.norm.value)
    estimates = error_estimates(difference, p.norm, cut=float(np.linalg.norm(values[k:])), look=p.look)
    report = _report(f"randomized eigh, {iteration}", p, estimates, tol)
    return Eigh(values[:k], vectors[:, :k], report).times(unit)


def _smallest_rank(values: Array, difference: Array, goal: float) -> int:
    """Return the fewest leading terms with a Frobenius error of at most `goal`.

    `difference` is the error of all terms on probes. The terms left out are orthogonal to it, so that squares add up.
    """
    error = np.linalg.norm(difference) ** 2 / difference.shape[1]
    tails = np.append(np.cumsum(values[::-1] ** 2)[::-1], 0.0)
    return max(1, int(np.argmax(tails + error <= max(goal**2, error) * (1 + 1e-12))))


def _options(oversampling: int, n_iter: int, iteration: str) -> tuple[int, int, str]:
    return (
        check_count("oversampling", oversampling, least=0, advice="0 adds no columns."),
        check_count("n_iter", n_iter, least=0, advice="0 reads the matrix once."),
        check_choice("iteration", iteration, ITERATIONS),
    )


def _report(method: str, p: _Projection, estimates: dict[str, Estimate], tol: float | None) -> Report:
    residual = estimates["relative_error"].value
    return Report(
        method=method,
        iterations=p.passes,
        converged=met(residual, tol),
        residual=residual,
        estimates=estimates,
        notes=("the matrix is zero",) if p.norm.value == 0.0 else (),
    )
