"""A convex loss of linear scores, minimised over streamed features in memory that no row count moves.

Quasi-Newton steps in the metric of a sketched Hessian (Pilanci & Wainwright 2017): that of a sample of rows, drawn in
proportion to their curvature, and corrected by the changes of the gradient that the last steps have seen (L-BFGS,
Nocedal 1980). A step costs one pass, and the metric is drawn again where steps get slow. Scores and gradients are
linear in the features: the matrix of a map that is a linear one after a cheaper one, such as the root of Nyström
features, is multiplied with the few coefficients and never with the rows.
"""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, backend_of, is_host
from bochner.features import FeatureMap, Identity, LinearAfter, row_blocks
from bochner.keys import Key
from bochner.linalg.line_searches import line_search
from bochner.losses import Loss
from bochner.solvers import Cholesky, Factor, Report
from bochner.statistics import RidgeStatistics
from bochner.streaming.devices import DeviceSource
from bochner.streaming.folds import Fold
from bochner.streaming.progress import Progress
from bochner.streaming.sources import ArraySource, Block, Source, joined

KEPT_BYTES = 1 << 28  # of features held from pass to pass, and of metrics
_SECANTS = 30  # pairs of steps and changes of the gradient that are remembered
_SLOW = 0.6  # a step that leaves more than this share of what is to be gained is slow
_LEVEL = 0.3  # of the bound of the curvature: the least that is taken for its mean
_WORTH = 100  # passes that a metric for every score saves, at most
_PATIENCE = 2  # slow steps one after the other before the metric is drawn again
_MOST_TRIES = 30  # of one line search
_SAMPLE_TOL = 1e-2  # of the start, found on a sample of the rows


@dataclass(frozen=True)
class State:
    """A point P (m + 1, k), the intercepts last, with the objective and its gradient there."""

    P: Array
    value: float
    gradient: Array
    curvature: Array  # (k,): Σ w × curvature over the rows
    weight: float  # Σ w
    n_samples: int


@dataclass(frozen=True)
class Problem:
    """Σ w ℓ(Zv + b, y) + alpha / 2 ‖v‖² over a source whose targets are signs (n, k)."""

    source: Source
    feature_map: FeatureMap
    loss: Loss
    alpha: float
    n_scores: int
    fit_intercept: bool = True
    rows: int | None = None
    verbose: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        """(m + 1, k)."""
        return (self.feature_map.n_components + 1, self.n_scores)

    @cached_property
    def _factors(self) -> tuple[FeatureMap, Array | None]:
        """The map of a pass, and the matrix that comes after it."""
        return self.feature_map.factored()

    @property
    def _wide(self) -> bool:
        """Whether products of float32 features are made in float64; on a device only where it is needed."""
        return self._factors[1] is not None or not isinstance(self.source, DeviceSource)

    @property
    def precision(self) -> float:
        """Of the objective: float32 products round it, and no line search can see below that."""
        return 8.0 * float(np.finfo(np.float64 if self._wide else self.source.dtype).eps)

    def _before(self, P: Array) -> Array:
        """Coefficients of the map of a pass, the intercepts last."""
        matrix = self._factors[1]
        return P if matrix is None else np.vstack([matrix.astype(np.float64, copy=False) @ P[:-1], P[-1:]])

    def fold(self, fold: Fold) -> Any:
        """One pass."""
        progress = Progress(self.source.n_samples, "fit", self.verbose > 0)
        try:
            return self.source.fold(fold, self._factors[0], rows=self.rows, after=lambda _, row: progress.reach(row))
        finally:
            progress.close()

    def state(self, P: Array) -> State:
        """One pass: the objective and its gradient."""
        value, curvature, weight, n, gradient = self.fold(GradientFold(self.loss, self._before(P), self._wide))
        matrix = self._factors[1]
        if matrix is not None:
            gradient = np.vstack([matrix.T.astype(np.float64, copy=False) @ gradient[:-1], gradient[-1:]])
        value += 0.5 * self.alpha * float((P[:-1] ** 2).sum())
        gradient[:-1] += self.alpha * P[:-1]
        if not self.fit_intercept:
            gradient[-1] = 0.0
        return State(P, value, gradient, curvature, weight, n)

    def metric(self, state: State, n_rows: int, key: Key) -> tuple[Metric, float]:
        """The Hessian of about n_rows rows for each score, drawn with probability ∝ their curvature in it.

        Returns the metric and what it cost, in passes.
        """
        k, m, n = self.n_scores, self.feature_map.n_components, state.n_samples
        one, passes = min(n_rows, n) * m, n * (k + 25)  # what products with the rows of a metric, and a pass, cost
        # a metric for every score, where it costs less than the passes that it saves, and little memory
        apart = k > 1 and k * one <= _WORTH * passes and 8 * k * m * m <= KEPT_BYTES
        # of all scores together, a row has the mean of its curvatures
        shares = np.divide(n_rows, state.curvature, out=np.zeros(k), where=state.curvature > 0)
        if not apart:
            shares[:] = n_rows / max(float(state.curvature.sum()), np.finfo(float).tiny)
        of, scale, drawn = self.source, 1.0, []
        if n_rows < n:
            drawn = self.fold(DrawFold(self.loss, self._before(state.P), self._wide, shares, key))
        if drawn:
            rows = joined(drawn)
            assert rows.weight is not None
            scale = float(rows.weight.max())
            of = self._sample(replace(rows, weight=rows.weight / scale))
        else:
            shares[:] = 1e150  # all rows, and none of them thinned out
        fold = CurvatureFold(self.loss, state.P, False, scale, shares if apart else None, key.child("thin"))
        sums = of.fold(fold, self.feature_map, rows=self.rows)
        floor = self.loss.curvature_bound(k) * state.weight if self.fit_intercept else None
        coupling = self.loss.coupling(k) if apart else 1.0
        metric = Metric.of(sums, self.alpha, floor, scale=coupling, balanced=self.loss.ignores_shifts(k))
        return metric, 1.0 + len(metric.parts) * one / passes

    def _sample(self, block: Block) -> Source:
        """A few rows as a source, on the device of ours."""
        found = ArraySource(block.X, block.y, block.weight)
        return DeviceSource(found, self.source.device) if isinstance(self.source, DeviceSource) else found

    def sampled(self, n_rows: int, key: Key) -> Problem | None:
        """The problem of some of the rows; None where there are no more than these."""
        n = self.source.n_samples
        if n is not None and n <= 2 * n_rows:
            return None
        block = self.source.sample(n_rows, key)
        return replace(self, source=self._sample(block), verbose=0).kept() if len(block) == n_rows else None

    def kept(self, budget: float = KEPT_BYTES) -> Problem:
        """The problem with the features of a pass made once and held, where they fit into so many bytes."""
        n, (inner, matrix) = self.source.n_samples, self._factors
        if n is None or self.source.remote or isinstance(self.source, DeviceSource) or isinstance(inner, Identity):
            return self
        wide = np.dtype(inner.dtype_of(self.source.dtype))
        if n * inner.n_components * wide.itemsize > budget:
            return self
        block = self.source.sample(n, Key(0))
        Z = np.empty((n, inner.n_components), wide)
        for rows in row_blocks(Z):
            inner.into(block.X[rows], Z[rows])
        features: FeatureMap = Identity(inner.n_components)
        if matrix is not None:
            features = LinearAfter(features, matrix)
        return replace(self, source=ArraySource(Z, block.y, block.weight), feature_map=features)


@dataclass(frozen=True)
class ScoreFold(Fold):
    """A pass at a point P (m + 1, k)."""

    loss: Loss
    P: Array
    wide: bool  # whether sums of float32 features are made in float64: a matrix after them may magnify what is lost

    runs_on_device: ClassVar[bool] = True

    def features(self, Z: Any) -> Any:
        """Features in the precision in which they are multiplied."""
        return _widened(Z) if self.wide else Z

    def scores(self, Z: Any, block: Block) -> tuple[Any, Any, Any]:
        """Scores, signs and weights in float64, where the features are."""
        backend = backend_of(Z)
        F = _widened(Z @ backend.place(np.ascontiguousarray(self.P[:-1]), Z))
        weight = np.ones(len(Z)) if block.weight is None else block.weight
        level, Y, weight = (backend.place(np.asarray(a, np.float64), F) for a in (self.P[-1], block.y, weight))
        return F + level, Y, weight


class GradientFold(ScoreFold):
    """Σ w ℓ, Σ w × curvature (k,), Σ w, n and the gradient of the first."""

    def zero(self) -> list[Any]:
        return [0.0, np.zeros(self.P.shape[1]), 0.0, 0, np.zeros(self.P.shape)]

    def add(self, total: list[Any], Z: Any, block: Block, row: int) -> list[Any]:
        Z = self.features(Z)
        F, Y, w = self.scores(Z, block)
        value, curvature, weight, n, gradient = total
        value += float(w @ self.loss.value(F, Y))
        curvature = curvature + backend_of(Z).fetch(w @ self.loss.curvature(F, Y))
        add_moment(gradient, Z, self.loss.slope(F, Y) * w[:, None])
        return [value, curvature, weight + float(w.sum()), n + len(Z), gradient]


@dataclass(frozen=True)
class DrawFold(ScoreFold):
    """Blocks of rows drawn with probability min(1, Σ share × curvature), their weights divided by it."""

    shares: Array  # (k,)
    key: Key

    def zero(self) -> list[Block]:
        return []

    def add(self, total: list[Block], Z: Any, block: Block, row: int) -> list[Block]:
        F, Y, weight = self.scores(self.features(Z), block)
        fetch = backend_of(Z).fetch
        weight, curvature = fetch(weight), fetch(self.loss.curvature(F, Y))
        chance = np.minimum(1.0, weight * (curvature @ self.shares))
        rows = np.flatnonzero(self.key.uniforms(row, len(chance)) < chance)
        if len(rows):
            total.append(Block(block.X[rows], block.y[rows], weight[rows] / chance[rows]))
        return total

    def merge(self, total: list[Block], other: list[Block]) -> list[Block]:
        return total + other


@dataclass(frozen=True)
class CurvatureFold(ScoreFold):
    """Σ h zzᵀ for the mean curvature h over the scores, or for that of each score, over as many of the rows as matter.

    For a score, rows are kept with probability min(1, share × curvature), and count for as many.
    """

    scale: float  # of the weights
    shares: Array | None  # (k,) for sums of each score
    key: Key

    def zero(self) -> list[RidgeStatistics]:
        return [RidgeStatistics(len(self.P) - 1, 0) for _ in ([0] if self.shares is None else self.shares)]

    def add(self, total: list[RidgeStatistics], Z: Any, block: Block, row: int) -> list[RidgeStatistics]:
        F, Y, w = self.scores(Z, block)
        none, fetch = np.empty((len(Z), 0)), backend_of(Z).fetch
        if self.shares is None:
            h = self.scale * fetch(self.loss.mean_curvature(F, Y) * w)
            return [total[0].update(Z, none, h, overwrite=True)]
        H = self.scale * fetch(self.loss.curvature(F, Y) * w[:, None])
        for j, sums in enumerate(total):
            chance = np.minimum(1.0, self.shares[j] * H[:, j])
            rows = np.flatnonzero(self.key.child(j).uniforms(row, len(chance)) < chance)
            if len(rows):
                part = Z[backend_of(Z).place(rows, Z)]
                sums.update(part, none[rows], H[rows, j] / chance[rows], overwrite=True)
        return total

    def merge(self, total: list[RidgeStatistics], other: list[RidgeStatistics]) -> list[RidgeStatistics]:
        return [a.merge(b) for a, b in zip(total, other, strict=True)]

    def to_host(self, total: list[RidgeStatistics]) -> list[RidgeStatistics]:
        return [sums.to_host() for sums in total]


def _widened(A: Any) -> Any:
    """An array of any backend in float64."""
    return A.astype(np.float64, copy=False) if is_host(A) else A.double()


def add_moment(total: Array, Z: Any, slope: Any) -> None:
    """Add [Zᵀ slope; Σ slope], in units in which float32 keeps its digits whatever the weights are."""
    backend = backend_of(Z)
    unit = float(np.exp2(np.frexp(float(abs(slope).max()) if len(Z) else 0.0)[1]))
    small = slope / unit
    small = small.astype(Z.dtype, copy=False) if is_host(Z) else small.to(Z.dtype)
    total[:-1] += backend.fetch(Z.T @ small) * unit
    total[-1] += backend.fetch(slope.sum(0))


@dataclass(frozen=True)
class Metric:
    """H⁻¹ of a Hessian that is the same for every score, or one for each: [G + alpha, s; sᵀ, w], intercepts last."""

    parts: list[tuple[Factor, Array, float]]  # a factor of G - s sᵀ / w + alpha, s and w; w is 0 without an intercept
    floor: float | None  # w of an intercept whose scores bend nowhere; None where intercepts are zero
    scale: float = 1.0  # by which all of them are to be multiplied
    balanced: bool = False  # whether the sum over the scores stays zero, since the loss does not change with it

    @classmethod
    def of(
        cls,
        sums: list[RidgeStatistics],
        alpha: float,
        floor: float | None,
        *,
        scale: float = 1.0,
        balanced: bool = False,
    ) -> Metric:
        """The metric scale × (sums of features) + alpha. The list of sums is used up."""
        parts: list[tuple[Factor, Array, float]] = []
        while sums:  # which are given up one by one: a factor takes as much memory
            statistics = sums.pop(0)
            centred = floor is not None and statistics.weight > 0
            factor = Cholesky().factor(statistics.operator(centred), alpha / scale)
            parts.append((factor, statistics.feature_sum, statistics.weight if centred else 0.0))
        return cls(parts, None if floor is None else floor / scale, scale, balanced)

    def __call__(self, R: Array) -> Array:
        R = R / self.scale
        if len(self.parts) == 1:
            return self._solve(*self.parts[0], R)
        out = np.column_stack([self._solve(*part, R[:, [j]]) for j, part in enumerate(self.parts)])
        return out - out.mean(axis=1, keepdims=True) if self.balanced else out

    def _solve(self, factor: Factor, total: Array, weight: float, R: Array) -> Array:
        out = np.zeros(R.shape)
        if not weight:
            out[:-1] = factor.solve(R[:-1])
            out[-1] = R[-1] / self.floor if self.floor else 0.0
            return out
        out[:-1] = factor.solve(R[:-1] - np.outer(total, R[-1] / weight))
        out[-1] = (R[-1] - total @ out[:-1]) / weight
        return out


class Secants:
    """The last steps s and the changes y of the gradient along them: what they tell of H⁻¹ (L-BFGS)."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_SECANTS)

    def add(self, s: Array, y: Array) -> None:
        """Remember a step, unless rounding hides the curvature along it."""
        bent = float(np.vdot(s, y))
        if bent > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.pairs.append((s, y, bent))

    def penalised(self, more: float) -> None:
        """Let them be those of the same loss with a penalty alpha that is larger by `more`, which may be negative."""
        pairs, self.pairs = self.pairs, deque(maxlen=_SECANTS)
        for s, y, _ in pairs:
            change = y.copy()
            change[:-1] += more * s[:-1]
            self.add(s, change)

    def direction(self, gradient: Array, metric: Any) -> Array:
        """-H⁻¹ gradient, starting from the metric's H⁻¹."""
        q, shares = gradient.copy(), []
        for s, y, bent in reversed(self.pairs):
            shares.append(float(np.vdot(s, q)) / bent)
            q -= shares[-1] * y
        d = metric(q)
        for (s, y, bent), share in zip(self.pairs, reversed(shares), strict=True):
            d += (share - float(np.vdot(y, d)) / bent) * s
        return -d


def newton(
    problem: Problem,
    key: Key,
    start: Array | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 200,
    sums: RidgeStatistics | None = None,
    secants: Secants | None = None,
) -> tuple[Array, Report, int]:
    """Minimise the objective of a problem: P (m + 1, k), the intercepts last, how it went, and the steps taken.

    Parameters
    ----------
    problem : Problem
        With alpha > 0.
    key : Key
        Of the sketches; the minimum does not depend on it.
    start : ndarray of shape (m + 1, k) or None
        None begins with the minimum of a sample of the rows.
    tol : float
        Stop when the next steps will not lower the objective by more than this share of it.
    max_iter : int
        Steps.
    sums : RidgeStatistics or None
        Of all features, where they are known: times the mean curvature they are the metric, which costs no pass.
    secants : Secants or None
        Of other points, to begin with; those of this minimum are added.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features import Identity
    >>> from bochner.keys import Key
    >>> from bochner.losses import LogLoss
    >>> from bochner.streaming import ArraySource, Problem, newton
    >>> Z = np.array([[-1.0], [0.0], [1.0], [2.0]])
    >>> source = ArraySource(Z, np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    >>> P, report, _ = newton(Problem(source, Identity(1), LogLoss(), 0.1, 1), Key(0), tol=1e-10)
    >>> report.converged, P.round(3).ravel().tolist()
    (True, [0.815, -0.408])
    """
    size = 2 * problem.feature_map.n_components + 1000
    if start is None:
        few = problem.sampled(size, key.child("sample"))
        start = np.zeros(problem.shape)
        if few is not None:
            start = _descend(few, key, start, None, Secants(), size, _SAMPLE_TOL, max_iter)[0]
    P, passes, step, converged, n = _descend(
        problem, key, start, sums, Secants() if secants is None else secants, size, tol, max_iter
    )
    if not converged:
        warnings.warn(
            f"Newton's method stopped after {step} steps before reaching tol={tol:g}. Raise max_iter or alpha.",
            ConvergenceWarning,
            stacklevel=4,
        )
    sketched = f"Hessian sketched with about {size} of {n} rows" if size < n else "Hessian of all rows"
    report = Report("newton", iterations=passes, converged=converged, notes=(f"{step} quasi-Newton steps", sketched))
    return P, report, step


def _descend(
    problem: Problem,
    key: Key,
    start: Array,
    sums: RidgeStatistics | None,
    secants: Secants,
    size: int,
    tol: float,
    max_iter: int,
) -> tuple[Array, int, int, bool, int]:
    """The minimum, passes, steps, whether it converged, and the number of rows."""
    if problem.loss.ignores_shifts(problem.n_scores):  # the penalty is least where the scores add up to zero
        start = start - start.mean(axis=1, keepdims=True)
    state = problem.state(start)
    blur = problem.precision
    metric: Metric | None = None
    promises = [np.inf]
    passes, slow, step, fresh = 1, 0, 0, False
    worn = cost = 0.0  # passes since the metric was made, and what it cost
    for step in range(1, max_iter + 1):
        if metric is None:
            if sums is None:
                metric, cost = problem.metric(state, size, key.child(step))
                passes += 1
            else:
                k = problem.n_scores
                level = max(state.curvature.mean() / state.weight, _LEVEL * problem.loss.curvature_bound(k))
                metric = Metric.of([sums], problem.alpha, sums.weight if problem.fit_intercept else None, scale=level)
            slow, fresh, worn = 0, True, 0.0
        direction = secants.direction(state.gradient, metric)
        promise = -float(np.vdot(state.gradient, direction))  # twice what the model would gain
        rounding = blur * abs(state.value)
        found, t, tried = None, 1.0, 0
        if promise > 0:
            found, t, tried = line_search(
                lambda t, P=state.P, d=direction: problem.state(P + t * d),  # type: ignore[misc]
                state,
                promise,
                rounding,
                _MOST_TRIES,
            )
        passes, worn = passes + tried, worn + tried
        if found is None:  # the end of the precision, or of what this metric can do
            if not fresh and promise > rounding:
                metric = None
                secants.pairs.clear()
                continue
            converged = promise <= max(100.0 * blur, 1e-10, 2.0 * tol) * abs(state.value)
            return state.P, passes, step, converged, state.n_samples
        secants.add(found.P - state.P, found.gradient - state.gradient)
        state = found
        slow = slow + 1 if promise > _SLOW * promises[-1] and not fresh else 0
        promises.append(promise)
        # what the steps to come will gain, if they go on as the slowest of the last three
        rate = min(max(0.5, *(after / before for before, after in pairwise(promises[-4:]))), 0.95)
        if t == 1.0 and promise * rate / (1.0 - rate) <= tol * abs(state.value):
            return state.P, passes, step, True, state.n_samples
        fresh = False
        if slow >= _PATIENCE and worn >= cost and sums is None:
            metric = None
    return state.P, passes, step, False, state.n_samples
