"""Copies among rows: rows that are equal in columns and targets count as one row with their weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import Array, is_sparse
from bochner.draws.keys import Key

_COLUMNS = 16  # columns that are compared first: most tables have no two rows that agree in them
_ELEMENTS = 1 << 18  # numbers whose bits are mixed at a time
_MIXER = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = 0.05  # rows that are more than this share of the table are not copies: new rows will equal them too
_ALIKE = 0.95  # share of the pairs of equal rows that have equal targets if the targets have no noise
_TIMES_CHANCE = 10.0  # copies are this many times as frequent as chance would make them
_COMPARED_ROWS = 1000  # different rows from which chance is estimated


def weigh_copies(X: Array, y: ArrayLike | None, weight: Array | None) -> Array | None:
    """Return weights that count copies once: the first of equal rows has the weight of all, the others have none.

    Copies make noise look like structure, since a row that is left out is still there as its copy. Rows that are equal
    by nature are left as they are, since new rows equal them too: rows of a grid, and rows whose targets often differ
    although few values are possible. Rows are compared by 64 bits: n different rows are all told apart with a
    probability of at least 1 - n² / 2^65.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
    y : array of shape (n,) or (n, k), of any type, or None
    weight : ndarray of shape (n,) or None

    Returns
    -------
    weight : ndarray of shape (n,) or None
        The argument itself if there are no copies.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.copies import weigh_copies
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> weigh_copies(X[[0, *range(50)]], np.r_[1.0, np.arange(1.0, 51.0)], None)[:3]
    array([2., 0., 1.])
    """
    n = X.shape[0]
    known = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
    sparse = is_sparse(X)
    first_look = X if sparse or X.shape[1] <= _COLUMNS else X[:, :: X.shape[1] // _COLUMNS]
    rows = known[_recurring(_digests(first_look, known))]
    _, cells, sizes = np.unique(_digests(X, rows), return_inverse=True, return_counts=True)
    recurs = (sizes[cells] > 1) & (sizes[cells] <= _LARGEST * len(known))
    rows, cells = rows[recurs], cells[recurs]
    if not len(rows):
        return weight
    targets = _codes(y, rows)
    n_targets = int(targets.max(initial=0)) + 1
    _, firsts, groups = np.unique(cells * n_targets + targets, return_index=True, return_inverse=True)
    alike, equal = _pairs(groups), _pairs(cells)
    if alike < _ALIKE * equal:  # targets have noise: how often would two of them be equal?
        chance = equal / n_targets
    else:  # how often would two rows be equal?
        chance = 0.5 * len(known) ** 2 * _agreement(X, known, alike / (_TIMES_CHANCE * 0.5 * len(known) ** 2))
    if alike <= _TIMES_CHANCE * chance:
        return weight
    merged = np.ones(n) if weight is None else np.array(weight, dtype=np.float64)
    totals = np.bincount(groups, merged[rows])
    merged[rows] = 0.0
    merged[rows[firsts]] = totals
    return merged


def _pairs(groups: Array) -> float:
    """Return the number of pairs of rows in the same group."""
    sizes = np.bincount(groups).astype(np.float64)
    return float((sizes * (sizes - 1.0)).sum()) / 2.0


def _recurring(digests: Array) -> Array:
    """Return the indices of the digests that occur more than once."""
    ordered = np.sort(digests)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(digests, twice)) if len(twice) else np.empty(0, dtype=np.intp)


def _mixed(values: Array) -> Array:
    """Return 64 mixed bits of each number; equal numbers have equal bits, and zero has none."""
    numbers = np.array(values, dtype=np.int64 if values.dtype.kind in "iub" else np.float64)
    numbers += 0  # -0.0 becomes 0.0
    bits: Array = numbers.view(np.uint64)
    bits ^= bits >> np.uint64(32)
    bits *= _MIXER
    bits ^= bits >> np.uint64(32)
    return bits


def _digests(A: Array, rows: Array) -> Array:
    """Return 64 bits for each of some rows of an array or CSR matrix: sums of the mixed bits times odd numbers."""
    d = A.shape[1]
    odd = 2 * np.asarray(Key(0).generator().integers(1 << 63, size=d, dtype=np.uint64)) + np.uint64(1)
    out, step = np.empty(len(rows), dtype=np.uint64), max(1, _ELEMENTS // max(1, d))
    for start in range(0, len(rows), step):
        block = A[rows[start : start + step]]
        if is_sparse(block):
            sums = np.zeros(block.nnz + 1, dtype=np.uint64)
            np.cumsum(_mixed(block.data) * odd[block.indices], out=sums[1:])
            out[start : start + step] = sums[block.indptr[1:]] - sums[block.indptr[:-1]]
        else:
            out[start : start + step] = _mixed(block) @ odd
    return out


def _codes(y: ArrayLike | None, rows: Array) -> Array:
    """Return an integer for each of some targets, equal for equal targets."""
    if y is None or not np.size(y):
        return np.zeros(len(rows), dtype=np.intp)
    some = np.asarray(y)[rows].reshape(len(rows), -1)
    if some.dtype.kind in "fiub":
        return np.unique(_digests(some, np.arange(len(rows))), return_inverse=True)[1]
    codes: dict[str, int] = {}
    return np.array([codes.setdefault(repr(row), len(codes)) for row in some.tolist()], dtype=np.intp)


def _agreement(X: Array, known: Array, least: float) -> float:
    """Return the probability that two different rows would agree if columns were independent; at most `least` is exact.

    A column of continuous numbers makes it zero: rows that agree there are copies.
    """
    some = known[:: max(1, len(known) // _COMPARED_ROWS)]
    some = some[np.unique(_digests(X, some), return_index=True)[1]]
    columns = X[some].tocsc() if is_sparse(X) else None
    n, share = len(some), 1.0
    for j in range(X.shape[1]):
        column = X[some, j] if columns is None else columns[:, [j]].toarray()
        sizes = np.unique(column, return_counts=True)[1]
        share *= float((sizes * (sizes - 1)).sum()) / max(1, n * (n - 1))
        if share < least:
            break
    return share
