"""How few of a model's columns would do: ridge regression on the first columns of one draw, from the sums of all."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy import stats

from bochner.backends import Array
from bochner.backends.tiled import factor_in_place
from bochner.certificates import Certificate, Effort
from bochner.keys import Key
from bochner.statistics import RidgeStatistics
from bochner.streaming import ArraySource, Block, Source

_ROWS = 1024  # looked at together
_LEFT_OUT_ROWS = 2048  # at most, on which errors are measured
_SHARE = 1 / 3  # at least, of few rows
_FEATURE_ROWS = 20_000  # among which landmarks are chosen
_SMALL_ERROR = 1e-3  # of the variance of a target: an error below it is as good as none
_TINY = np.finfo(float).tiny
_NOTHING = 1e-3  # of the kernel's trace: landmarks that leave no more explain it
_FAR = 0.75  # share of all columns beyond which what is left to gain is not measured but taken on from half of them
_LEAST_ERROR = 0.1  # of the error of all columns: less is not believed of infinitely many
# The excess falls like this power of the number of columns, of waves and of landmarks, unless `shortage` says that they
# are far too few. Of 70 doublings of columns of eight datasets of 2,000 rows (none of them of the table) waves leave
# 0.61 of it in the median, landmarks 0.28; a power of 1.5 leaves 0.35.
_POWERS = {True: 0.75, False: 1.5}


@dataclass(frozen=True)
class Truncations:
    """Kernel ridge regression with the first columns of a draw of M, for any number of them.

    Parameters
    ----------
    statistics : RidgeStatistics
        The sums of M columns.
    Z : ndarray of shape (n_rows, M)
        Features of some of the training rows, which are left out one at a time. The features must not know them: a
        landmark is nearer to itself than any unseen row will be.
    Y : ndarray of shape (n_rows, k)
        Their targets.
    weight : ndarray of shape (n_rows,) or None
    alpha : float
    fit_intercept : bool
    diagonal : ndarray of shape (n_rows,) or None
        The kernel of every row with itself, where ZZᵀ is a sum over columns and grows towards it. None where it is a
        mean over columns, so that m of them are to be scaled by M / m.
    asked : int
        Columns asked for: where there are fewer, and the kernel has nothing left, M of them are exact.
    """

    statistics: RidgeStatistics
    Z: Array
    Y: Array
    weight: Array | None
    alpha: float
    fit_intercept: bool
    diagonal: Array | None
    asked: int

    @property
    def n_components(self) -> int:
        """M."""
        return self.statistics.n_components

    @cached_property
    def _everything(self) -> Array:
        return self.left_out(self.n_components)

    @cached_property
    def shortage(self) -> float:
        """How far M columns are from being enough, from 0 to 1: then twice as many leave nearly all of the excess.

        Of waves that is the share of the columns in use, d / M with the effective dimension d: M random columns are, on
        average, the kernel itself with the penalty alpha / (1 - d / M) (Jacot et al. 2020, "Implicit regularization of
        random feature models"). Of landmarks it is the share of the kernel's trace that they do not explain.
        """
        if self.diagonal is not None:
            lengths = np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64)
            rest = float(np.average(self.diagonal - lengths, weights=self.weight))
            return min(1.0, max(0.0, rest / max(float(np.average(self.diagonal, weights=self.weight)), _TINY)))
        values = scipy.linalg.eigvalsh(self.statistics.operator(self.fit_intercept).to_dense(), check_finite=False)
        values = np.maximum(values, 0.0)
        return float(np.mean(values / (values + self._penalty(1.0))))

    @property
    def exact(self) -> bool:
        """Whether M columns are all there are; landmarks may also be fewer than asked because rows are doubled."""
        return self.asked > self.n_components and (self.diagonal is None or self.shortage <= _NOTHING)

    def _penalty(self, scale: float) -> float:
        """Eigenvalues below the rounding of the sums may be negative."""
        return max(self.alpha, 4.0 * self.statistics.rounding * scale, _TINY)

    def left_out(self, n_components: int) -> Array:
        """The prediction of every row by the model of the first columns without that row, (n_rows, k).

        That is y - (y - ŷ) / (1 - h) with the leverage h = zᵀ(G + alpha I)⁻¹z: one Cholesky factor, no refitting.
        """
        m, s = n_components, self.statistics
        if self.diagonal is None:
            V, right = self._solved(m, self.n_components / m)
        else:  # the factor of the first columns is a part of that of all, and so is what is solved with it
            V, right = (of_all[:m] for of_all in self._solved_all)
        leverage = np.einsum("ij,ij->j", V, V) + (1.0 / s.weight if self.fit_intercept else 0.0)
        level = s.target_mean if self.fit_intercept else np.zeros(s.n_targets)
        residual = self.Y - level - V.T @ right
        return self.Y - residual / np.maximum(1.0 - leverage, 1e-3)[:, None]

    @cached_property
    def _solved_all(self) -> tuple[Array, Array]:
        return self._solved(self.n_components, 1.0)

    def _solved(self, m: int, scale: float) -> tuple[Array, Array]:
        """L⁻¹Zᵀ (m, n_rows) and L⁻¹c (m, k), with LLᵀ = G + alpha I of the first columns and c the right side."""
        s = self.statistics
        G = s.operator(self.fit_intercept).to_dense()[:m, :m] * scale
        G[np.diag_indices_from(G)] += self._penalty(scale)
        L = np.asfortranarray(G)
        if not factor_in_place(L):
            raise ValueError("the Gram matrix of the features is far from positive definite.")
        root, centre = math.sqrt(scale), s.feature_mean[:m] if self.fit_intercept else np.zeros(m)
        right = scipy.linalg.solve_triangular(
            L, root * s.right_side(self.fit_intercept)[:m], lower=True, check_finite=False
        )
        V = np.empty((m, len(self.Y)))
        for start in range(0, len(self.Y), _ROWS):
            rows = slice(start, start + _ROWS)
            centred = root * (self.Z[rows, :m].astype(np.float64) - centre)
            V[:, rows] = scipy.linalg.solve_triangular(L, centred.T, lower=True, overwrite_b=True, check_finite=False)
        return V, right

    def _squares(self, differences: Array) -> Array:
        """Of every row, in units of the variance of the targets, (n_rows,)."""
        variance = self.Y.var(axis=0) + (1e-12 * np.abs(self.Y).max(axis=0)) ** 2 + _TINY
        return np.asarray((differences**2 / variance).mean(axis=1))

    def _ahead(self, n_components: int) -> tuple[int, float, float]:
        """Columns to compare with all M, and what their distance says: of the excess of M, and of that asked for.

        Both as multiples of the difference of errors.
        """
        M = self.n_components
        if self.exact:
            return min(n_components, M), 0.0, 1.0
        m = min(n_components, M) if self.asked > M else n_components
        fewer = m if m <= _FAR * M else max(1, M // 2)
        left = max(self.shortage, (fewer / M) ** _POWERS[self.diagonal is None])
        beyond = left / max(1.0 - left, 1e-3)
        share = 1.0 + beyond
        if fewer != m and M > 1:  # like the power of m that goes through both
            share *= (m / fewer) ** (math.log(left) / math.log(M / fewer))
        return fewer, beyond, share


def excess(
    draws: Sequence[Truncations],
    n_components: int,
    others: Sequence[Truncations] = (),
    *,
    confidence: float = 0.95,
) -> Certificate:
    """By what share the mean squared error of unseen rows exceeds that of infinitely many columns.

    Of the first columns, or of all those of other draws for the same rows, which are as many. Several draws leave out
    rows of their own, and are looked at together.

    With d the distance of the predictions of both models and r the residual of the better one, squared errors differ by
    d² - 2dr. The mean of d² is known well from few rows, and that of dr is all noise but for what the penalty shrinks
    too much or too little; so it counts as far as it can be told from zero. What M columns are short of the limit
    themselves is taken to follow a power of their number, and is no part of the error of the limit.
    """
    started = time.perf_counter()
    parts = []
    for i, draw in enumerate(draws):
        fewer, *ahead = draw._ahead(n_components)
        all_of_them = draw._everything
        few = (
            others[i]._everything if others and fewer == min(n_components, draw.n_components) else draw.left_out(fewer)
        )
        rows = len(draw.Y)
        w = np.ones(rows) if draw.weight is None else draw.weight
        differences = (draw.Y - all_of_them, few - all_of_them, draw.Y - few)
        parts.append((w, *map(draw._squares, differences), *(np.full(rows, value) for value in ahead)))
    w, errors, squares, more, beyond, share = map(np.concatenate, zip(*parts, strict=True))
    count = w.sum() ** 2 / (w @ w)

    def mean(values: Array) -> float:
        return float(np.average(values, weights=w))

    crosses = more - errors - squares
    leaning = mean(squares)  # before looking, errors grow by this, give or take as much
    noise = mean((crosses - mean(crosses)) ** 2) / max(count - 1.0, 0.5)
    trust = leaning**2 / max(leaning**2 + noise, _TINY)
    gains = squares + trust * crosses
    limit = errors - beyond * gains if mean(gains) > 0.0 else errors
    unit = max(mean(limit), _LEAST_ERROR * mean(errors), _SMALL_ERROR)
    value = mean(share * gains) / unit
    deviations = (share * gains - value * limit) / unit  # of a ratio of means
    spread = math.hypot(
        math.sqrt(mean((deviations - mean(deviations)) ** 2) / max(count - 1.0, 0.5)),
        mean(share * squares) * (1.0 - trust) / unit,
    )
    reach = float(stats.t.ppf((1.0 + confidence) / 2.0, max(count - 1.0, 1.0))) * spread
    how = (
        f"{len(w)} rows left out, one at a time, by the models of {fewer} and of {draws[-1].n_components} columns, "
        "which do not know them; the mean squared distance of their predictions, corrected by the difference of their "
        "squared errors as far as that is no noise, taken on to infinitely many columns"
    )
    cost = Effort(0, len(w), time.perf_counter() - started)
    return Certificate("excess mean squared", value, (value - reach, value + reach), confidence, how, cost)


@dataclass(frozen=True)
class Division:
    """A sample of the rows in random order: the first to measure errors on, the others for features to look at."""

    pool: Block
    cut: int = 0

    @classmethod
    def of(cls, source: Source, key: Key) -> Division:
        """Of rows that count."""
        pool = source.sample(_LEFT_OUT_ROWS + _FEATURE_ROWS, key)
        if pool.weight is not None:
            pool = pool[pool.weight > 0]
        if not len(pool):
            raise ValueError("every row has weight zero.")
        return cls(pool[key.child("order").generator().permutation(len(pool))])

    @property
    def rows(self) -> Block:
        """To measure errors on."""
        return self.pool[: self.cut]

    @property
    def others(self) -> ArraySource:
        """For features to look at; all where there are no others."""
        others = self.pool[self.cut :] if self.cut < len(self.pool) else self.pool
        return ArraySource(others.X, others.y, others.weight)

    @property
    def most(self) -> int:
        """Landmarks that can be chosen."""
        return max(1, len(self.pool) - self._least)

    @property
    def _least(self) -> int:
        return min(_LEFT_OUT_ROWS, math.ceil(_SHARE * len(self.pool)))

    def for_landmarks(self, n_landmarks: int) -> Division:
        """Four times as many rows to choose from as landmarks, where enough remain to measure errors on."""
        return replace(self, cut=min(_LEFT_OUT_ROWS, max(self._least, len(self.pool) - 4 * n_landmarks)))

    def folds(self) -> list[Division]:
        """The same with other rows in front, where few are left out at a time: as many as cover those that are wanted.

        The last may have fewer.
        """
        n = len(self.pool)
        starts = range(0, n, self.cut)[: max(1, round(min(_LEFT_OUT_ROWS, n) / self.cut))]
        return [Division(self.pool[np.roll(np.arange(n), -start)], min(self.cut, n - start)) for start in starts]

    def for_waves(self) -> Division:
        """Waves are the same for all rows."""
        return replace(self, cut=min(_LEFT_OUT_ROWS, len(self.pool)))


def exact_excess(n_components: int) -> Certificate:
    """Of as many landmarks as there are rows."""
    how = f"every one of the {n_components} rows is a landmark: this is exact kernel ridge regression"
    return Certificate("excess mean squared", 0.0, (0.0, 0.0), 1.0, how, Effort(0, 0, 0.0))
