"""How much fewer components raise the prediction error, measured from the sums of a model with many components."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg
from scipy import stats

from bochner.backends import Array
from bochner.backends.threads import one_thread
from bochner.backends.tiled import factor_in_place
from bochner.certificates.records import Certificate, Effort
from bochner.data.folds import margin_errors
from bochner.data.progress import Stopwatch
from bochner.data.sources import ArraySource, Block, Source, limit_weights, positive
from bochner.data.validation import usual_rows
from bochner.draws.keys import Key
from bochner.ridge.spectrum import leave_one_out
from bochner.ridge.statistics import RidgeStatistics

_BLOCK_ROWS = 1024  # rows in a block of triangular solves
_MEASURED_ROWS = 2048  # the most rows on which errors are measured
_MEASURED_SHARE = 1 / 3  # the least share of few rows on which errors are measured
_FEATURE_ROWS = 20_000  # rows among which landmarks are chosen
_SMALL_ERROR = 1e-3  # of the variance of a target: smaller errors count as this one when the excess is divided by them
_TINY = np.finfo(float).tiny
_EXPLAINED = 1e-3  # of the kernel's trace: landmarks that leave no more than this unexplained are taken as exact
FAR = 0.75  # above this share of all components, the excess is extrapolated from half of them
_LEAST_ERROR = 0.1  # of the error of all components: the least that the exact kernel is assumed to have
# Left-out predictions divide by 1 - h. Its lower limit is high here, so that a few rows of leverage 1 do not dominate.
_LEAST_FREEDOM = 1e-3
# The excess is taken to fall like this power of the number of components, of Fourier features and of landmarks, unless
# `unexplained_share` says that they are far too few. In 70 doublings on eight datasets of 2,000 rows (none of them in
# the table of benchmarks/bench_tolerance.py) the median share that remained was 0.61 for Fourier features and 0.28 for
# landmarks; a power of 1.5 leaves 0.35.
FOURIER_POWER, LANDMARK_POWER = 0.75, 1.5
_STEP_COMPONENTS = 256  # with fewer components, a quarter of them are too few to detect a step
_SLOPE = 0.9  # the least power, from the distances of a quarter and of half, that does not count as a step
_STEP_POWER = 0.5  # the power on a step: a quarter of the components predict nearly what half of them do


@dataclass(frozen=True)
class NestedRidge:
    """Ridge regression with the first m of M components, for any m, from the sums of all M.

    Parameters
    ----------
    statistics : RidgeStatistics
        Sums of all rows with M components.
    Z : ndarray of shape (n_rows, M)
        Features of the training rows on which errors are measured. These rows must not be landmarks: a landmark is
        closer to itself than any unseen row will be.
    Y : ndarray of shape (n_rows, k)
        Their targets.
    weight : ndarray of shape (n_rows,) or None
        Their weights.
    alpha : float
    fit_intercept : bool
    diagonal : ndarray of shape (n_rows,) or None
        The kernel of each row with itself where ZZᵀ is a sum over components that grows towards the kernel (Nyström).
        None where ZZᵀ is an average over components, so that m of them must be scaled by M / m (Fourier features).
    n_requested : int
        Components asked for. If M is smaller, there are no more of them.
    """

    statistics: RidgeStatistics
    Z: Array
    Y: Array
    weight: Array | None
    alpha: float
    fit_intercept: bool
    diagonal: Array | None
    n_requested: int

    @property
    def n_components(self) -> int:
        """M."""
        return self.statistics.n_components

    @cached_property
    def shares(self) -> Array | None:
        """The weights with which the errors of the rows are averaged."""
        return None if self.weight is None else limit_weights(self.weight)

    @cached_property
    def unexplained_share(self) -> float:
        """How far M components are from being enough, from 0 to 1; near 1, twice as many help little.

        For Fourier features it is d / M with the effective dimension d: the average model with M random components is
        the exact one with the penalty alpha / (1 - d / M) (Jacot et al. 2020, "Implicit regularization of random
        feature models"). For landmarks it is the share of the kernel's trace that they leave unexplained.
        """
        if self.diagonal is not None:
            lengths = np.einsum("ij,ij->i", self.Z, self.Z, dtype=np.float64)
            rest = float(np.average(self.diagonal - lengths, weights=self.shares))
            return min(1.0, max(0.0, rest / max(float(np.average(self.diagonal, weights=self.shares)), _TINY)))
        values = scipy.linalg.eigvalsh(self.statistics.operator(self.fit_intercept).to_dense(), check_finite=False)
        values = np.maximum(values, 0.0)
        return float(np.mean(values / (values + self._penalty(1.0))))

    @property
    def exact(self) -> bool:
        """Whether M components reproduce the kernel exactly; if rows are repeated, few landmarks can do so."""
        fewer = self.n_requested > self.n_components
        return fewer and (self.diagonal is None or self.unexplained_share <= _EXPLAINED)

    def _penalty(self, scale: float) -> float:
        """The penalty, raised above the rounding errors of the sums, whose eigenvalues may be negative."""
        return max(self.alpha, 4.0 * self.statistics.rounding * scale, _TINY)

    def left_out_predictions(self, n_components: int) -> Array:
        """Predictions (n_rows, k) of the first components for each row, by the model fitted without that row."""
        m, s = n_components, self.statistics
        if self.diagonal is None and m < self.n_components:
            V, right = self._solved(m, self.n_components / m)
        else:  # the Cholesky factor of the first components, and what is solved with it, are parts of those of all
            V, right = (of_all[:m] for of_all in self._solved_all)
        leverage = np.einsum("ij,ij->j", V, V) + (1.0 / s.weight if self.fit_intercept else 0.0)
        leverage = leverage if self.weight is None else leverage * self.weight
        level = s.target_mean if self.fit_intercept else np.zeros(s.n_targets)
        return self.Y - leave_one_out(self.Y - level - V.T @ right, leverage, _LEAST_FREEDOM)

    @property
    def effective_dimension(self) -> float:
        """The effective dimension for all rows and all M components, estimated from the leverages of these rows."""
        V, _ = self._solved_all
        return self.statistics.weight * float(np.average(np.einsum("ij,ij->j", V, V), weights=self.weight))

    def left_out_errors(self, margins: bool = False) -> Array:
        """Leave-one-out errors (n_rows,) with all M components: `squares`, or `margin_errors`."""
        residual = self.Y - self.all_predictions
        return margin_errors(self.Y, residual[:, None, :])[:, 0, 0] if margins else self.squares(residual)

    @cached_property
    def all_predictions(self) -> Array:
        """`left_out_predictions` of all M components."""
        return self.left_out_predictions(self.n_components)

    @cached_property
    def _solved_all(self) -> tuple[Array, Array]:
        return self._solved(self.n_components, 1.0)

    @cached_property
    def _lower(self) -> Array:
        """The lower triangle of the Gram matrix."""
        return self.statistics.to_host().operator(self.fit_intercept).lower()

    def _solved(self, m: int, scale: float) -> tuple[Array, Array]:
        """L⁻¹Zᵀ (m, n_rows) and L⁻¹c (m, k), with LLᵀ = G + alpha I of the first components and the right side c."""
        s = self.statistics
        L = np.multiply(self._lower[:m, :m], scale, order="F")
        np.einsum("ii->i", L)[:] += self._penalty(scale)
        if not factor_in_place(L):
            raise ValueError("the Gram matrix of the features is far from positive definite.")
        root, centre = math.sqrt(scale), s.feature_mean[:m] if self.fit_intercept else np.zeros(m)
        options = {"lower": True, "check_finite": False}
        V = np.empty((m, len(self.Y)), order="F")
        with one_thread():  # OpenBLAS 0.3.28 crashes here with more threads than it was started with
            right = scipy.linalg.solve_triangular(L, root * s.right_side(self.fit_intercept)[:m], **options)
            for start in range(0, len(self.Y), _BLOCK_ROWS):
                rows = slice(start, start + _BLOCK_ROWS)
                centred = root * (self.Z[rows, :m].astype(np.float64) - centre)
                V[:, rows] = scipy.linalg.solve_triangular(L, centred.T, overwrite_b=True, **options)
        return V, right

    def with_penalty(self, alpha: float) -> NestedRidge:
        """The same with another penalty."""
        made = replace(self, alpha=alpha)
        made.__dict__["_lower"] = self._lower  # centring it again would take as long as factoring
        return made

    def first_rows(self, n_rows: int) -> NestedRidge:
        """The same model, with errors measured on the first rows only."""
        weight = None if self.weight is None else self.weight[:n_rows]
        diagonal = None if self.diagonal is None else self.diagonal[:n_rows]
        return replace(self, Z=self.Z[:n_rows], Y=self.Y[:n_rows], weight=weight, diagonal=diagonal)

    def squares(self, differences: Array) -> Array:
        """Squares (n_rows,) in units of the variance of each target, averaged over targets."""
        statistics = self.statistics.to_host()  # these rows may have equal targets
        variance = statistics.total_squares() / statistics.weight + (1e-12 * np.abs(self.Y).max(axis=0)) ** 2 + _TINY
        return np.asarray((differences**2 / variance).mean(axis=1))

    @cached_property
    def _power(self) -> float:
        """The power p with which the excess falls, as m^-p for m components: the usual one, or that of a step.

        If predictions of m components are at a squared distance of m^-p - M^-p from those of all M, the distances of a
        quarter and of half of them have the ratio 2^p + 1. The excess may fall in steps (with many columns, polynomials
        are learned one degree after another). On a step the ratio is small, and more components may help much.
        """
        usual, M = FOURIER_POWER if self.diagonal is None else LANDMARK_POWER, self.n_components
        if M < _STEP_COMPONENTS:
            return usual
        parts = (self.left_out_predictions(M // k) - self.all_predictions for k in (4, 2))
        far, near = (float(np.average(self.squares(part), weights=self.shares)) for part in parts)
        return usual if far > (2.0**_SLOPE + 1.0) * near else _STEP_POWER

    def _extrapolation(self, n_components: int) -> tuple[int, float, float]:
        """Which model to compare with all M components, and how the excess follows from the difference of errors.

        Returns
        -------
        n_compared : int
            Components of the model to compare with.
        of_all : float
            The excess of all M components over the exact kernel, as a multiple of the difference.
        of_few : float
            The excess of `n_components`, as a multiple of the difference.
        """
        M = self.n_components
        if self.exact:
            return min(n_components, M), 0.0, 1.0
        m = min(n_components, M) if self.n_requested > M else n_components
        compared = m if m <= FAR * M else max(1, M // 2)
        # the excess of all M over that of the compared model
        remaining = max(self.unexplained_share, (compared / M) ** self._power)
        of_all = remaining / max(1.0 - remaining, 1e-3)
        of_few = 1.0 + of_all
        if compared != m and M > 1:  # the power law through both numbers of components
            of_few *= (m / compared) ** (math.log(remaining) / math.log(M / compared))
        return compared, of_all, of_few


def excess_risk(
    references: Sequence[NestedRidge],
    n_components: int,
    candidates: Sequence[NestedRidge] = (),
    *,
    confidence: float = 0.95,
) -> Certificate:
    """The share by which the mean squared error on unseen rows exceeds that of exact kernel ridge regression.

    Parameters
    ----------
    references : sequence of NestedRidge
        Models with many components. Several of them measure errors on different rows, which are pooled.
    n_components : int
        The number of components in question: the first ones of each reference.
    candidates : sequence of NestedRidge
        Models with `n_components` components to measure instead, one for each reference and on the same rows.
    confidence : float

    Notes
    -----
    Let d be the difference of the left-out predictions of the two models for a row, and r the residual of the
    reference. Their squared errors differ by d² - 2dr. The mean of d² is precise even with few rows, that of -2dr is
    mostly noise: it is shrunk towards zero, like a normal mean with prior standard deviation mean d². The reference is
    not exact either: what it lacks is extrapolated, by a power of the number of components, and subtracted from its
    error.
    """
    started = Stopwatch()
    parts = []
    for i, reference in enumerate(references):
        n_compared, *multiples = reference._extrapolation(n_components)
        best = reference.all_predictions
        if candidates and n_compared == min(n_components, reference.n_components):
            few = candidates[i].all_predictions
        else:
            few = reference.left_out_predictions(n_compared)
        rows = len(reference.Y)
        w = np.ones(rows) if reference.shares is None else reference.shares
        differences = (reference.Y - best, few - best, reference.Y - few)
        parts.append((w, *map(reference.squares, differences), *(np.full(rows, value) for value in multiples)))
    w, errors, distances, more, of_all, of_few = map(np.concatenate, zip(*parts, strict=True))
    count = w.sum() ** 2 / (w @ w)

    def mean(values: Array) -> float:
        return float(np.average(values, weights=w))

    crosses = more - errors - distances  # -2dr
    prior = mean(distances)
    noise = mean((crosses - mean(crosses)) ** 2) / max(count - 1.0, 0.5)
    trust = prior**2 / max(prior**2 + noise, _TINY)
    gains = distances + trust * crosses
    limit = errors - of_all * gains if mean(gains) > 0.0 else errors
    unit = max(mean(limit), _LEAST_ERROR * mean(errors), _SMALL_ERROR)
    value = mean(of_few * gains) / unit
    deviations = (of_few * gains - value * limit) / unit  # of a ratio of means
    spread = math.hypot(
        math.sqrt(mean((deviations - mean(deviations)) ** 2) / max(count - 1.0, 0.5)),
        mean(of_few * distances) * (1.0 - trust) / unit,
    )
    reach = float(stats.t.ppf((1.0 + confidence) / 2.0, max(count - 1.0, 1.0))) * spread
    how = (
        f"{len(w)} training rows left out one at a time, none of them a landmark: predictions with {n_compared} and "
        f"with {references[-1].n_components} components are compared, and the difference of their squared errors is "
        "extrapolated to the exact kernel"
    )
    cost = Effort(0, len(w), started.seconds())
    return Certificate("excess mean squared", value, (value - reach, value + reach), confidence, how, cost)


def exact_excess_risk(n_components: int) -> Certificate:
    """The certificate of as many landmarks as rows."""
    how = f"each of the {n_components} rows is a landmark: this is exact kernel ridge regression"
    return Certificate("excess mean squared", 0.0, (0.0, 0.0), 1.0, how, Effort(0, 0, 0.0))


@dataclass(frozen=True)
class RowSplit:
    """A random sample of the rows in random order: the first `n_measured` for errors, the others for landmarks."""

    pool: Block
    n_measured: int = 0

    @classmethod
    def of(cls, source: Source, key: Key) -> RowSplit:
        """Sample rows of positive weight."""
        pool = positive(source.sample(_MEASURED_ROWS + _FEATURE_ROWS, key))
        if not len(pool):
            raise ValueError("every row has weight zero.")
        pool = pool[np.flatnonzero(usual_rows(pool.X))]  # no model predicts an outlier from the others
        return cls(pool[key.child("order").generator().permutation(len(pool))])

    @property
    def measured(self) -> Block:
        """The rows on which errors are measured."""
        return self.pool[: self.n_measured]

    @property
    def others(self) -> ArraySource:
        """The rows that features may be fitted on; all rows if there are no others."""
        others = self.pool[self.n_measured :] if self.n_measured < len(self.pool) else self.pool
        return ArraySource(others.X, others.y, others.weight)

    @property
    def most_landmarks(self) -> int:
        """The most landmarks that can be chosen while enough rows remain to measure errors on."""
        return max(1, len(self.pool) - self._fewest_measured)

    @property
    def _fewest_measured(self) -> int:
        return min(_MEASURED_ROWS, math.ceil(_MEASURED_SHARE * len(self.pool)))

    def for_landmarks(self, n_landmarks: int) -> RowSplit:
        """Leave four times as many rows to choose from as landmarks, if enough remain to measure errors on."""
        n_measured = max(self._fewest_measured, len(self.pool) - 4 * n_landmarks)
        return replace(self, n_measured=min(_MEASURED_ROWS, n_measured))

    def for_fourier(self) -> RowSplit:
        """Measure on all rows: Fourier features are fitted on none."""
        return replace(self, n_measured=min(_MEASURED_ROWS, len(self.pool)))

    def folds(self) -> list[RowSplit]:
        """Splits that measure on different rows, enough of them to measure on most rows; the last may be shorter.

        A single split if it measures on enough rows by itself.
        """
        n = len(self.pool)
        starts = range(0, n, self.n_measured)[: max(1, round(min(_MEASURED_ROWS, n) / self.n_measured))]
        return [RowSplit(self.pool[np.roll(np.arange(n), -start)], min(self.n_measured, n - start)) for start in starts]
