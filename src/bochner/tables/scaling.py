"""Columns of comparable size: standardised or ranked, and directions that combine columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array, n_threads
from bochner.backends.threads import each
from bochner.landmarks.grams import row_slices
from bochner.tuning.policies import TablePolicy

POLICY = TablePolicy()


@dataclass(frozen=True)
class Scaling:
    """Columns of comparable size: divided by their standard deviation, or replaced by ranks among the rows of `fit`.

    Attributes
    ----------
    centres, sizes : ndarray of shape (d,)
    knots, ranks : tuple of ndarray
        Values of each column and their ranks; empty for a column that is not ranked.
    directions : ndarray of shape (d, d) or None
        What the scaled rows are multiplied by.
    """

    centres: Array
    sizes: Array
    knots: tuple[Array, ...]
    ranks: tuple[Array, ...]
    directions: Array | None = None

    def __call__(self, A: Array) -> Array:
        out = np.empty(A.shape)

        def scale(rows: slice) -> None:
            part = np.subtract(A[rows], self.centres, out=out[rows])
            part /= self.sizes
            for j, (knots, ranks) in enumerate(zip(self.knots, self.ranks, strict=True)):
                if len(knots):
                    part[:, j] = np.interp(A[rows, j], knots, ranks)
            if self.directions is not None:
                part[...] = row_products(part, self.directions)

        each(scale, row_slices(*A.shape), n_threads())
        return out


def row_products(A: Array, B: Array) -> Array:
    """Return A B, computed row by row: the result for a row does not depend on the other rows, to the last bit."""
    return np.asarray(np.einsum("ij,jk->ik", A, B))


def scale_columns(A: Array, weight: Array, *, ranked: bool) -> Scaling:
    """Return the scaling of columns: by standard deviations, or by ranks for columns with more than two values.

    A row of weight two counts as two rows.
    """
    centres, sizes = np.empty(A.shape[1]), np.empty(A.shape[1])
    knots = [np.empty(0)] * A.shape[1]
    ranks = knots.copy()

    def measure(j: int) -> None:
        column = np.ascontiguousarray(A[:, j])
        centres[j], sizes[j] = _centre_and_size(column, weight)
        if ranked:
            knots[j], ranks[j] = _knots_and_ranks(column, weight)

    each(measure, range(A.shape[1]), n_threads())
    return Scaling(centres, sizes, tuple(knots), tuple(ranks))


def _knots_and_ranks(column: Array, weight: Array) -> tuple[Array, Array]:
    """Values of a column and their ranks, scaled to variance one; empty for a column of two values."""
    if ((column == column.min()) | (column == column.max())).all():
        return np.empty(0), np.empty(0)
    values, places = np.unique(column, return_inverse=True)
    counts = np.bincount(places, weight)
    middle = (np.cumsum(counts) - counts / 2.0) / counts.sum()
    if len(values) > POLICY.knots:
        keep = np.unique(np.searchsorted(middle, np.linspace(0.0, 1.0, POLICY.knots)).clip(0, len(values) - 1))
        values, middle = values[keep], middle[keep]
    return values, np.sqrt(12.0) * (middle - 0.5)


def _centre_and_size(column: Array, weight: Array) -> tuple[float, float]:
    """Return the mean of a column and its standard deviation; its largest value if that is zero up to rounding."""
    top = float(np.abs(column).max()) or 1.0  # squares of 1e200 overflow, those of 1e-200 underflow
    small = column / top
    centre = float(np.average(small, weights=weight))
    size = float(np.sqrt(np.average(np.square(small - centre), weights=weight)))
    return centre * top, (size if size > 1e-14 else 1.0) * top
