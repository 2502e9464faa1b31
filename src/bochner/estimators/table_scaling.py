"""Columns of comparable size: standardised or ranked, and directions that combine columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array

_KNOTS = 256  # points at which ranks are kept


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
        out = A - self.centres
        out /= self.sizes
        for j, (knots, ranks) in enumerate(zip(self.knots, self.ranks, strict=True)):
            if len(knots):
                out[:, j] = np.interp(A[:, j], knots, ranks)
        return out if self.directions is None else row_products(out, self.directions)


def row_products(A: Array, B: Array) -> Array:
    """A B, computed row by row: the result for a row does not depend on the other rows, to the last bit."""
    return np.asarray(np.einsum("ij,jk->ik", A, B))


def scale_columns(A: Array, weight: Array, *, ranked: bool) -> Scaling:
    """The scaling of columns: by standard deviations, or by ranks for columns with more than two values.

    A row of weight two counts as two rows.
    """
    centres, sizes = np.array([_centre_and_size(column, weight) for column in A.T]).reshape(-1, 2).T
    knots, ranks = [], []
    for column in A.T:
        values, places = np.unique(column, return_inverse=True) if ranked else (np.empty(0), np.empty(0, int))
        if len(values) <= 2:
            knots.append(np.empty(0))
            ranks.append(np.empty(0))
            continue
        counts = np.bincount(places, weight)
        middle = (np.cumsum(counts) - counts / 2.0) / counts.sum()
        if len(values) > _KNOTS:
            keep = np.unique(np.searchsorted(middle, np.linspace(0.0, 1.0, _KNOTS)).clip(0, len(values) - 1))
            values, middle = values[keep], middle[keep]
        knots.append(values)
        ranks.append(np.sqrt(12.0) * (middle - 0.5))
    return Scaling(centres, sizes, tuple(knots), tuple(ranks))


def _centre_and_size(column: Array, weight: Array) -> tuple[float, float]:
    """The mean of a column and its standard deviation; its largest value if that is zero up to rounding."""
    top = float(np.abs(column).max()) or 1.0  # squares of 1e200 overflow, those of 1e-200 underflow
    small = column / top
    centre = float(np.average(small, weights=weight))
    size = float(np.sqrt(np.average(np.square(small - centre), weights=weight)))
    return centre * top, (size if size > 1e-14 else 1.0) * top
