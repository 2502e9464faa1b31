"""Low-rank approximations by products and by columns: Nyström, generalized Nyström, CX, CUR, and a preconditioner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bochner.backends import Array
from bochner.checks import check_choice, check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.linalg.factorizations import Eigh, check_rank, randomized_svd
from bochner.linalg.least_squares import resolved
from bochner.linalg.reports import LowRank, error_estimates, frobenius_norm, met
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_square,
    check_symmetric,
    columns,
    diagonal,
    in_units,
    left_product,
    orthonormal,
)
from bochner.ridge.preconditioners import N_PROBES, gaussian, shifted_nystrom
from bochner.ridge.reports import Estimate, Report
from bochner.sketches import SketchLaw, as_sketch_law


@dataclass(frozen=True)
class Factors(LowRank):
    """A ≈ left · right; unpacks as ``left, right``. `report` has its error."""

    left: Array
    right: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("left", "right")
    powers: ClassVar[Mapping[str, int]] = {"left": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.left, self.right


def nystrom(
    A: MatrixLike,
    rank: int | None = None,
    *,
    tol: float | None = None,
    oversampling: int = 10,
    n_iter: int = 0,
    random_state: Seed = None,
) -> Eigh:
    """Approximate a positive semi-definite matrix by AΩ(ΩᵀAΩ)⁺ΩᵀA with Gaussian Ω, as eigenvalues and vectors.

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
        Seed of everything random: an int gives the same result every time.

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
            # 0.8 of the tolerance is for the values cut off; the probes, which did not choose the rank, measure the
            # error of the rest
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
    A: MatrixLike,
    rank: int,
    *,
    oversampling: float = 1.5,
    law: str | SketchLaw = "gaussian",
    random_state: Seed = None,
) -> Factors:
    """Approximate A by AX (YᵀAX)⁺ YᵀA from one pass over A: a sketch X from the right and a larger Y from the left.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank : int
        Columns of the right sketch, and rank of the approximation.
    oversampling : float
        The left sketch has ``ceil(oversampling * rank)`` rows. 1 would be unstable: 1.5 is Nakatsukasa's (2020).
    law : str or SketchLaw
        Sampling scheme of both sketches, see `bochner.sketches`.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

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
    # small directions of the core YAX are dropped: their inverses would only amplify rounding
    U, s, Vt = scipy.linalg.svd(YA @ X.T, full_matrices=False, check_finite=False)
    kept = s > 5.0 * np.finfo(A.dtype).eps * max(A.shape) ** 0.5 * s.max(initial=0.0)
    left = AX @ (Vt[kept].T / s[kept])
    right = U[:, kept].T @ YA
    estimates = error_estimates(products - left @ (right @ probes), frobenius_norm(A, products))
    cut = k - int(kept.sum())
    notes = (f"{cut} of {k} directions were below rounding and were dropped",) if cut else ()
    report = Report("generalized Nyström", 1, None, estimates["relative_error"].value, estimates, notes)
    return Factors(left, right, report).times(unit)


def _drawn(law: SketchLaw, A: Matrix, size: int, key: Key) -> Array:
    """Draw S as an array of shape (size, rows of A)."""
    return np.asarray(resolved(law, A, key).sample(A.shape[0], size, key).to_dense())


SELECTIONS = ("pivoted", "leverage", "adaptive", "norm", "uniform")


@dataclass(frozen=True)
class CX(LowRank):
    """A ≈ C X with C = A[:, indices] and X = C⁺A; unpacks as ``C, X``. `report` has its error."""

    C: Array
    X: Array
    indices: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("C", "X")
    powers: ClassVar[Mapping[str, int]] = {"C": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.C, self.X


@dataclass(frozen=True)
class CUR(LowRank):
    """A ≈ C U R with columns C, rows R and U = C⁺AR⁺; unpacks as ``C, U, R``.

    C is ``A[:, column_indices]``, R is ``A[row_indices]``, and `report` has the error.
    """

    C: Array
    U: Array
    R: Array
    column_indices: Array
    row_indices: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("C", "U", "R")
    powers: ClassVar[Mapping[str, int]] = {"C": 1, "U": -1, "R": 1}

    def factors(self) -> tuple[Array, Array]:
        return self.C, self.U @ self.R


def cx(A: MatrixLike, rank: int, *, selection: str | ArrayLike = "pivoted", random_state: Seed = None) -> CX:
    """Approximate A by `rank` of its columns: C X with C = A[:, indices] and the best X = C⁺A.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank : int
        Number of columns, no two the same.
    selection : {"pivoted", "leverage", "adaptive", "norm", "uniform"} or array of int
        Pivots of a QR factorisation of a Gaussian sketch; sampling by leverage scores of the leading singular space,
        by residual norms in rounds, by column norms or uniformly; or the columns themselves.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    CX
        ``C, X`` and `indices`. Columns that depend on the others change nothing: C⁺ is the pseudo-inverse.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import cx
    >>> A = np.arange(1.0, 13.0).reshape(4, 3) ** 2
    >>> C, X = cx(A, 3, random_state=0)
    >>> bool(np.allclose(C @ X, A))
    True
    """
    A, unit = in_units(as_matrix(A))
    key = Key.from_random_state(random_state)
    indices, method = _selected(A, rank, selection, key)
    C = columns(A, indices)
    basis, solve = _pseudo_inverse(C)
    X = solve(left_product(basis.T, A))
    probes, products, norm = _probed(A, key)
    estimates = error_estimates(products - C @ (X @ probes), norm)
    report = Report(f"CX, {method} columns", 2, None, estimates["relative_error"].value, estimates)
    return CX(C, X, indices, report).times(unit)


def cur(
    A: MatrixLike,
    rank: int,
    *,
    n_rows: int | None = None,
    selection: str | ArrayLike = "pivoted",
    row_selection: str | ArrayLike | None = None,
    random_state: Seed = None,
) -> CUR:
    """Approximate A by some of its columns C and rows R: C U R with the best U = C⁺AR⁺.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank : int
        Number of columns.
    n_rows : int or None
        Number of rows; None for as many as columns.
    selection, row_selection : as in `cx`
        None chooses rows as columns are chosen, from the columns C already taken ("pivoted") or from Aᵀ.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    CUR
        ``C, U, R``, `column_indices` and `row_indices`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import cur
    >>> A = np.add.outer(np.arange(6.0), np.arange(5.0) ** 2)
    >>> C, U, R = cur(A, 2, random_state=0)
    >>> C.shape, U.shape, R.shape, bool(np.allclose(C @ U @ R, A))
    ((6, 2), (2, 2), (2, 5), True)
    """
    A, unit = in_units(as_matrix(A))
    key = Key.from_random_state(random_state)
    indices, method = _selected(A, rank, selection, key)
    C = columns(A, indices)
    if row_selection is None:
        row_selection = selection if isinstance(selection, str) else "pivoted"
    # rows that determine the chosen columns also determine A, up to the error of the columns
    source = C if isinstance(row_selection, str) and row_selection == "pivoted" else A
    size = len(indices) if n_rows is None else check_count("n_rows", n_rows)
    rows, _ = _selected(source.T, size, row_selection, key.child("rows"))
    R = columns(A.T, rows).T
    basis, solve = _pseudo_inverse(C)
    row_basis, row_solve = _pseudo_inverse(R.T)
    U = row_solve(solve(left_product(basis.T, A) @ row_basis).T).T
    probes, products, norm = _probed(A, key)
    estimates = error_estimates(products - C @ (U @ (R @ probes)), norm)
    report = Report(f"CUR, {method} columns", 3, None, estimates["relative_error"].value, estimates)
    return CUR(C, U, R, indices, rows, report).times(unit)


def _probed(A: Matrix, key: Key) -> tuple[Array, Array, Estimate]:
    probes = gaussian((A.shape[1], N_PROBES), A, key.child("probes"))
    products = A @ probes
    return probes, products, frobenius_norm(A, products)


def _pseudo_inverse(C: Array) -> tuple[Array, Callable[[Array], Array]]:
    """Return an orthonormal basis Q of the range of C, and solve with C⁺B = solve(QᵀB)."""
    U, s, Vt = scipy.linalg.svd(C, full_matrices=False, check_finite=False)
    kept = s > np.finfo(C.dtype).eps * max(C.shape) * s.max(initial=0.0)
    weights = Vt[kept].T / s[kept]
    return U[:, kept], lambda B: weights @ B


def _selected(A: Matrix, rank: int, selection: str | ArrayLike, key: Key) -> tuple[Array, str]:
    n = A.shape[1]
    if not isinstance(selection, str):
        indices = np.asarray(selection)
        if indices.ndim != 1 or indices.size == 0 or not np.issubdtype(indices.dtype, np.integer):
            raise ValueError(f"selection must be a list of indices or one of {', '.join(map(repr, SELECTIONS))}.")
        if indices.min() < 0 or indices.max() >= n:
            raise ValueError(f"selection has indices outside 0 … {n - 1}.")
        return indices, "given"
    k = min(check_count("rank", rank), n)
    method = check_choice("selection", selection, SELECTIONS)
    if method == "pivoted":
        omega = gaussian((A.shape[0], min(k + N_PROBES, A.shape[0])), A, key.child("sketch"))
        sketch = left_product(omega.T, A)
        pivots = scipy.linalg.qr(sketch, mode="r", pivoting=True, check_finite=False)[1]
        return np.sort(pivots[:k]), method
    if method == "adaptive":
        return _adaptive(A, k, key), method
    if method == "leverage":
        Vt = randomized_svd(A, min(k, *A.shape), random_state=key.child("leverage")).Vt
        weights = np.einsum("ij,ij->j", Vt, Vt)
    else:
        weights = _squared_norms(A, key) if method == "norm" else np.ones(n)
    return np.sort(_without_repetition(weights, k, key.child("columns"))), method


def _squared_norms(A: Matrix, key: Key) -> Array:
    """Return the squared norms of the columns; those of an operator are estimated from N_PROBES products."""
    if isinstance(A, Operator):
        sketch = A.T @ gaussian((A.shape[0], N_PROBES), A, key.child("norms"))
        return np.einsum("ij,ij->i", sketch, sketch)
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, A)
    return np.asarray(A.multiply(A).sum(axis=0)).ravel()


def _without_repetition(weights: Array, k: int, key: Key) -> Array:
    """Draw k places without repetition, each in proportion to the weights left (Efraimidis & Spirakis 2006)."""
    weights = np.asarray(weights, np.float64)
    clocks = key.generator().exponential(size=len(weights))
    # zero weights come last, in random order
    times = np.where(weights > 0, clocks / np.where(weights > 0, weights, 1.0), np.inf)
    return np.lexsort((clocks, times))[:k]


def _adaptive(A: Matrix, k: int, key: Key) -> Array:
    """Sample columns in rounds, by the norms of what the columns taken so far leave (Deshpande et al. 2006)."""
    sketch = left_product(gaussian((A.shape[0], min(A.shape[0], 4 * N_PROBES)), A, key.child("sketch")).T, A)
    taken: Array = np.zeros(0, np.intp)
    for round_ in range(8):
        residual = A if isinstance(A, np.ndarray) else sketch
        if len(taken):
            Q = orthonormal(residual[:, taken])
            residual = residual - Q @ (Q.T @ residual)
        weights = np.einsum("ij,ij->j", residual, residual)
        weights[taken] = 0.0
        size = -(-(k - len(taken)) // (8 - round_))
        fresh = _without_repetition(weights, size + len(taken), key.child(round_))
        taken = np.concatenate([taken, fresh[~np.isin(fresh, taken)][:size]])
        if len(taken) == k:
            break
    return np.sort(taken)
