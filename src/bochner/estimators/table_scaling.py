"""Numbers of comparable size: standardised columns or ranks, and directions across columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array

_KNOTS = 256  # points at which ranks are kept


@dataclass(frozen=True)
class Scaling:
    """Columns of comparable size: over their standard deviation, or ranks among the rows of `fit`.

    Attributes
    ----------
    centres, sizes : ndarray of shape (d,)
    knots, ranks : tuple of ndarray
        For each column values and their ranks, empty where it is not ranked.
    directions : ndarray of shape (d, d) or None
        What the scaled rows are multiplied by.
    """

    centres: Array
    sizes: Array
    knots: tuple[Array, ...]
    ranks: tuple[Array, ...]
    directions: Array | None = None

    def __call__(self, A: Array) -> Array:
        out = (A - self.centres) / self.sizes
        for j, (knots, ranks) in enumerate(zip(self.knots, self.ranks, strict=True)):
            if len(knots):
                out[:, j] = np.interp(A[:, j], knots, ranks)
        return out if self.directions is None else row_products(out, self.directions)


def row_products(A: Array, B: Array) -> Array:
    """A B, each row by itself: the same bits whatever rows come with it."""
    return np.asarray(np.einsum("ij,jk->ik", A, B))


def scale_columns(A: Array, weight: Array, *, ranked: bool) -> Scaling:
    """The scaling of numbers: standard deviations, or ranks of the columns with more than two values.

    Rows of weight two count as two.
    """
    tops = np.abs(A).max(axis=0)  # squares of 1e200 or 1e-200 are no numbers
    tops = np.where(tops > 0, tops, 1.0)
    small = A / tops
    centres = np.average(small, axis=0, weights=weight)
    sizes = np.sqrt(np.average(np.square(small - centres), axis=0, weights=weight))
    centres, sizes = centres * tops, np.where(sizes > 1e-12, sizes, 1.0) * tops
    knots, ranks = [], []
    for column in A.T:
        values, places = np.unique(column, return_inverse=True) if ranked else (np.empty(0), np.empty(0))
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
