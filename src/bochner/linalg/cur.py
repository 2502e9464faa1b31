"""Approximations made of the matrix's own columns and rows: CX and CUR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.checks import check_choice, check_count
from bochner.keys import Key
from bochner.linalg.factorizations import N_PROBES, gaussian, randomized_svd
from bochner.linalg.matrices import Operator, as_matrix, columns, frobenius_norm, in_units, left_product, orthonormal
from bochner.linalg.reports import Estimate, LowRank, Report, error_estimates

SELECTIONS = ("pivoted", "leverage", "adaptive", "norm", "uniform")


@dataclass(frozen=True)
class CX(LowRank):
    """A ≈ C X with C = A[:, indices] and X = C⁺A; unpacks as ``C, X``."""

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
    """A ≈ C U R with columns C, rows R and U = C⁺AR⁺; unpacks as ``C, U, R``."""

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


def cx(A: Any, rank: int, *, selection: Any = "pivoted", random_state: Any = None) -> CX:
    """A from `rank` of its columns: C = A[:, indices], X = C⁺A, the best that these columns can do.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (m, n)
    rank : int
        Number of columns, no two the same.
    selection : {"pivoted", "leverage", "adaptive", "norm", "uniform"} or array of int
        Pivots of a QR factorisation of a Gaussian sketch; sampling by leverage scores of the leading singular space,
        by residual norms in rounds, by column norms or uniformly; or the columns themselves.
    random_state : None, int, RandomState, Generator or Key

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
    A: Any,
    rank: int,
    *,
    n_rows: int | None = None,
    selection: Any = "pivoted",
    row_selection: Any = None,
    random_state: Any = None,
) -> CUR:
    """A from some of its columns and rows: C U R with U = C⁺AR⁺, the best that these can do.

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
    # rows that pin down the columns taken also pin down A, up to what the columns miss
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


def _probed(A: Any, key: Key) -> tuple[Array, Array, Estimate]:
    probes = gaussian((A.shape[1], N_PROBES), A, key.child("probes"))
    products = A @ probes
    return probes, products, frobenius_norm(A, products)


def _pseudo_inverse(C: Array) -> tuple[Array, Any]:
    """C⁺ as an orthonormal basis Q of the range and a map: C⁺B = solve(QᵀB). Never CᵀC, which squares the condition."""
    U, s, Vt = scipy.linalg.svd(C, full_matrices=False, check_finite=False)
    kept = s > np.finfo(C.dtype).eps * max(C.shape) * s.max(initial=0.0)
    weights = Vt[kept].T / s[kept]
    return U[:, kept], lambda B: weights @ B


def _selected(A: Any, rank: Any, selection: Any, key: Key) -> tuple[Array, str]:
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


def _squared_norms(A: Any, key: Key) -> Array:
    """Squared norms of the columns; for an operator, from N_PROBES products with its transpose."""
    if isinstance(A, Operator):
        sketch = A.T @ gaussian((A.shape[0], N_PROBES), A, key.child("norms"))
        return np.einsum("ij,ij->i", sketch, sketch)
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->j", A, A)
    return np.asarray(A.multiply(A).sum(axis=0)).ravel()


def _without_repetition(weights: Array, k: int, key: Key) -> Array:
    """K places, one after the other, each in proportion to the weights left (Efraimidis & Spirakis 2006)."""
    weights = np.asarray(weights, np.float64)
    clocks = key.generator().exponential(size=len(weights))
    # zero weights come last, in random order, and only where there is nothing else
    times = np.where(weights > 0, clocks / np.where(weights > 0, weights, 1.0), np.inf)
    return np.lexsort((clocks, times))[:k]


def _adaptive(A: Any, k: int, key: Key) -> Array:
    """Rounds of sampling by the column norms of what the columns taken so far leave (Deshpande et al. 2006)."""
    sketch = left_product(gaussian((A.shape[0], min(A.shape[0], 4 * N_PROBES)), A, key.child("sketch")).T, A)
    exact = isinstance(A, np.ndarray)
    taken: Array = np.zeros(0, np.intp)
    for round_ in range(8):
        residual = A if exact else sketch
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
