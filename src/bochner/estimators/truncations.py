"""How few of a model's columns would do: ridge regression on the first columns of one draw, from the sums of all."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.certificates import Certificate, Effort
from bochner.statistics import RidgeStatistics

_ROWS = 1024  # looked at together
_OUTLIERS = 0.001  # share of the rows, those furthest off, that count no more than the next
_SMALL_ERROR = 1e-3  # of the variance of a target: an error below it is as good as none
_MARGIN = 1.5  # what errors exceed squared distances by, at worst (benchmarks/bench_tolerance.py)


@dataclass(frozen=True)
class Truncations:
    """Kernel ridge regression with the first columns of a draw of M, for any number of them.

    Parameters
    ----------
    statistics : RidgeStatistics
        The sums of M columns.
    Z : ndarray of shape (n_rows, M)
        Features of some of the training rows, which are left out one at a time.
    Y : ndarray of shape (n_rows, k)
        Their targets.
    weight : ndarray of shape (n_rows,) or None
    alpha : float
    fit_intercept : bool
    averaged : bool
        Is ZZᵀ a mean over columns, so that m of them are to be scaled by M / m? Otherwise it is a sum.
    asked : int
        Columns asked for: where there are fewer, there are no others, and M of them are exact.
    """

    statistics: RidgeStatistics
    Z: Array
    Y: Array
    weight: Array | None
    alpha: float
    fit_intercept: bool
    averaged: bool
    asked: int

    @property
    def n_components(self) -> int:
        """M."""
        return self.statistics.n_components

    @cached_property
    def _everything(self) -> Array:
        return self.left_out(self.n_components)

    def left_out(self, n_components: int) -> Array:
        """The prediction of every row by the model of the first columns without that row, (n_rows, k).

        That is y - (y - ŷ) / (1 - h) with the leverage h = zᵀ(G + alpha I)⁻¹z: one Cholesky factor, no refitting.
        """
        m, s = n_components, self.statistics
        scale = self.n_components / m if self.averaged else 1.0
        G = s.operator(self.fit_intercept).to_dense()[:m, :m] * scale
        # eigenvalues below the rounding of the sums may be negative
        G[np.diag_indices_from(G)] += max(self.alpha, 4.0 * s.rounding * scale, np.finfo(float).tiny)
        L = scipy.linalg.cholesky(G, lower=True, overwrite_a=True, check_finite=False)
        root, centre = math.sqrt(scale), s.feature_mean[:m] if self.fit_intercept else np.zeros(m)
        right = scipy.linalg.solve_triangular(
            L, root * s.right_side(self.fit_intercept)[:m], lower=True, check_finite=False
        )
        level = s.target_mean if self.fit_intercept else np.zeros(s.n_targets)
        out = np.empty_like(self.Y)
        for start in range(0, len(out), _ROWS):
            rows = slice(start, start + _ROWS)
            centred = root * (self.Z[rows, :m].astype(np.float64) - centre)
            V = scipy.linalg.solve_triangular(L, centred.T, lower=True, overwrite_b=True, check_finite=False)
            leverage = np.einsum("ij,ij->j", V, V) + (1.0 / s.weight if self.fit_intercept else 0.0)
            residual = self.Y[rows] - level - V.T @ right
            out[rows] = self.Y[rows] - residual / np.maximum(1.0 - leverage, 1e-3)[:, None]
        return out

    def excess(self, n_components: int, confidence: float = 0.95) -> Certificate:
        """By what share the mean squared error of unseen rows exceeds that of infinitely many columns.

        The error of a new draw exceeds that of the limit by the mean squared distance of the predictions, as its
        deviation has no preferred direction. With m columns among M the distance is a share 1 - m / M of that to the
        limit, as for independent columns. Distances need no targets and so have little noise: that of a difference
        of two errors is ten times larger.
        """
        started = time.perf_counter()
        m, M = n_components, self.n_components
        m = min(m, M)
        everything = self._everything
        fewer = m
        if m > 0.9 * M and self.asked == M:
            fewer = max(1, M // 2)
        variance = self.Y.var(axis=0) + (1e-12 * np.abs(self.Y).max(axis=0)) ** 2 + np.finfo(float).tiny
        w = np.ones(len(self.Y)) if self.weight is None else self.weight
        squares = ((self.left_out(fewer) - everything) ** 2 / variance).mean(axis=1)
        errors = ((self.Y - everything) ** 2 / variance).mean(axis=1)
        squares, errors = (np.minimum(a, np.quantile(a, 1.0 - _OUTLIERS)) for a in (squares, errors))
        unit = max(float(np.average(errors, weights=w)), _SMALL_ERROR)
        if self.asked == M:  # there is more beyond M; where m itself is too close to it, by the law 1 / m
            unit *= (1.0 - fewer / M) * m / fewer
        value = float(np.average(squares, weights=w)) / unit
        count = w.sum() ** 2 / (w @ w)
        spread = math.sqrt(float(np.average((squares / unit - value) ** 2, weights=w)) / count)
        how = (
            f"{len(w)} rows left out, one at a time, by the models of {fewer} and of {M} columns of one draw; the "
            "distance of their predictions, taken on to infinitely many columns"
        )
        cost = Effort(0, len(w), time.perf_counter() - started)
        high = _MARGIN * (value + 2.0 * spread)
        return Certificate("excess mean squared", value, (0.0, high), confidence, how, cost)
