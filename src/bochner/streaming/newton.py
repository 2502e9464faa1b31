"""Newton's method on streamed features: a convex loss of linear scores, minimised in memory that no row count moves.

Each step solves the exact Newton system by conjugate gradients, whose products regenerate the features block by
block. The preconditioner is a Newton sketch (Pilanci & Wainwright 2017): the Hessian of a random sample of rows,
drawn in proportion to their curvature. The sample doubles when the iterations say that it is too small (Lacotte,
Wang & Pilanci 2021), so that its size follows the effective dimension without knowing it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, backend_of, is_host
from bochner.features import FeatureMap
from bochner.keys import Key
from bochner.linalg.krylov import IndefiniteError
from bochner.losses import Loss
from bochner.operators import PSDOperator
from bochner.solvers import Cholesky, ConjugateGradient, Factor, Report
from bochner.statistics import RidgeStatistics
from bochner.streaming.folds import Fold
from bochner.streaming.sources import Block, Source

_PATIENCE = 10  # passes of one solve after which the sketch is drawn again
_MOST_PASSES = 100  # of one solve
_MOST_HALVINGS = 30


@dataclass(frozen=True)
class State:
    """A point P (m + 1, k), the intercepts last, with the objective and its gradient there."""

    P: Array
    value: float
    gradient: Array
    curvature: float  # Σ w × curvature over the rows
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

    @property
    def shape(self) -> tuple[int, int]:
        """(m + 1, k)."""
        return (self.feature_map.n_components + 1, self.n_scores)

    def fold(self, fold: Fold) -> Any:
        """One pass."""
        return self.source.fold(fold, self.feature_map, rows=self.rows)

    def state(self, P: Array) -> State:
        """One pass: the objective and its gradient."""
        value, curvature, n, gradient = self.fold(GradientFold(self.loss, P))
        return State(P, value + self.penalty(P), self._penalised(gradient, P), curvature, n)

    def penalty(self, P: Array) -> float:
        """The second part of the objective."""
        return 0.5 * self.alpha * float((P[:-1] ** 2).sum())

    def _penalised(self, gradient: Array, P: Array) -> Array:
        gradient[:-1] += self.alpha * P[:-1]
        if not self.fit_intercept:
            gradient[-1] = 0.0
        return gradient

    def sketch(self, state: State, n_rows: int, key: Key) -> SketchedHessian:
        """One pass: the Hessian of about n_rows rows, each drawn with probability ∝ its curvature."""
        share = n_rows / state.curvature if state.curvature > 0 and n_rows < state.n_samples else np.inf
        statistics = self.fold(CurvatureFold(self.loss, state.P, share, key))
        centred = self.fit_intercept and statistics.weight > 0
        factor = Cholesky().factor(statistics.operator(centred), self.alpha)
        return SketchedHessian(factor, statistics.feature_sum, statistics.weight if centred else 0.0, self.shape)


@dataclass(frozen=True)
class ScoreFold(Fold):
    """A pass at a point P (m + 1, k)."""

    loss: Loss
    P: Array

    runs_on_device: ClassVar[bool] = True

    def scores(self, Z: Any, block: Block) -> tuple[Array, Array, Array]:
        """Scores in float64, signs and weights."""
        weight = np.ones(len(Z)) if block.weight is None else block.weight
        return times(Z, self.P), block.y, weight


class GradientFold(ScoreFold):
    """Σ w ℓ, Σ w × curvature, n and the gradient of the first."""

    def zero(self) -> list[Any]:
        return [0.0, 0.0, 0, np.zeros(self.P.shape)]

    def add(self, total: list[Any], Z: Any, block: Block, row: int) -> list[Any]:
        F, Y, weight = self.scores(Z, block)
        value, curvature, n, gradient = total
        value += float(weight @ self.loss.value(F, Y))
        add_moment(gradient, Z, self.loss.slope(F, Y) * weight[:, None])
        curvature += float(weight @ self.loss.mean_curvature(F, Y))
        return [value, curvature, n + len(Z), gradient]


@dataclass(frozen=True)
class CurvatureFold(ScoreFold):
    """Σ h zzᵀ over rows drawn with probability min(1, share × curvature); all of them if share is infinite."""

    share: float
    key: Key

    def zero(self) -> RidgeStatistics:
        return RidgeStatistics(len(self.P) - 1, 0)

    def add(self, total: RidgeStatistics, Z: Any, block: Block, row: int) -> RidgeStatistics:
        F, Y, weight = self.scores(Z, block)
        h = weight * self.loss.mean_curvature(F, Y)
        if np.isfinite(self.share):
            chance = np.minimum(1.0, self.share * h)
            drawn = self.key.uniforms(row, len(h)) < chance
            h = np.where(drawn, h / np.maximum(chance, np.finfo(float).tiny), 0.0)
        if not is_host(Z):  # few rows are drawn
            rows = np.flatnonzero(h > 0.0)
            Z, h = backend_of(Z).fetch(Z[rows]), h[rows]
        return total.update(Z, np.empty((len(Z), 0)), h, overwrite=True) if len(Z) else total

    def merge(self, total: RidgeStatistics, other: RidgeStatistics) -> RidgeStatistics:
        return total.merge(other)


@dataclass(frozen=True)
class HessianProductFold(ScoreFold):
    """The Hessian without its penalty, times a direction D (m + 1, k)."""

    D: Array

    def zero(self) -> list[Array]:
        return [np.zeros(self.P.shape)]

    def add(self, total: list[Array], Z: Any, block: Block, row: int) -> list[Array]:
        F, Y, weight = self.scores(Z, block)
        bent = self.loss.curvature_product(F, Y, times(Z, self.D))
        add_moment(total[0], Z, bent * weight[:, None])
        return total


def times(Z: Any, P: Array) -> Array:
    """Z P[:-1] + P[-1] in float64, for features Z on any device."""
    backend = backend_of(Z)
    return backend.fetch(Z @ backend.place(np.ascontiguousarray(P[:-1]), Z)).astype(np.float64) + P[-1]


def add_moment(total: Array, Z: Any, slope: Array) -> None:
    """Add [Zᵀ slope; Σ slope], in units in which float32 keeps its digits whatever the weights are."""
    unit = np.exp2(np.frexp(np.abs(slope).max(initial=0.0))[1])
    backend = backend_of(Z)
    total[:-1] += backend.fetch(Z.T @ backend.place(slope / unit, Z)) * unit
    total[-1] += slope.sum(axis=0)


@dataclass(frozen=True)
class StreamedHessian(PSDOperator):
    """The exact Hessian at a point, penalty included, acting on flattened (m + 1, k) directions."""

    problem: Problem
    P: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (self.P.size, self.P.size)

    def __matmul__(self, V: Array) -> Array:
        D = V.reshape(self.P.shape)
        (total,) = self.problem.fold(HessianProductFold(self.problem.loss, self.P, D))
        return self.problem._penalised(total, D).reshape(V.shape)

    def to_dense(self) -> Array:
        return np.column_stack([self @ column for column in np.eye(self.shape[0])])


@dataclass(frozen=True)
class SketchedHessian:
    """P⁻¹ of a Hessian that is the same for every score: [G + alpha, s; sᵀ, w] bordered by the intercepts."""

    factor: Factor  # of G - s sᵀ / w + alpha, or of G + alpha when weight is 0
    total: Array
    weight: float
    shape: tuple[int, int]

    def __call__(self, V: Array) -> Array:
        R = V.reshape(self.shape)
        out = np.zeros(self.shape)
        if not self.weight:
            out[:-1] = self.factor.solve(R[:-1])
            return out.reshape(V.shape)
        out[:-1] = self.factor.solve(R[:-1] - np.outer(self.total, R[-1] / self.weight))
        out[-1] = (R[-1] - self.total @ out[:-1]) / self.weight
        return out.reshape(V.shape)


def newton(
    problem: Problem,
    key: Key,
    start: Array | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 50,
) -> tuple[Array, Report, int]:
    """Minimise the objective of a problem: P (m + 1, k), the intercepts last, how it went, and the steps taken.

    Parameters
    ----------
    problem : Problem
        With alpha > 0.
    key : Key
        Of the sketches; the minimum does not depend on it.
    start : ndarray of shape (m + 1, k) or None
    tol : float
        Stop when Newton's model promises to lower the objective by less than this share of it.
    max_iter : int
        Newton steps.

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
    state = problem.state(np.zeros(problem.shape) if start is None else start)
    m, n = problem.feature_map.n_components, state.n_samples
    size = 2 * m + 1000
    # float32 scores round the objective itself: no line search can see below this
    blur = float(np.finfo(problem.source.dtype).eps) * 8.0
    preconditioner: SketchedHessian | None = None
    passes, stale, forcing, converged = 1, True, 0.1, False
    step = 0
    for step in range(1, max_iter + 1):
        if stale or preconditioner is None:
            preconditioner = problem.sketch(state, size, key.child(step))
            passes += 1
        direction, used = _direction(problem, state, preconditioner, forcing)
        passes += used
        promise = -float((state.gradient * direction).sum())  # twice what Newton's model would gain
        found, tried = _search(problem, state, direction, promise, blur)
        passes += tried
        if found is None:  # the end of the precision, or of what this sketch can do
            converged = promise <= max(100.0 * blur, 1e-10, 2.0 * tol) * abs(state.value)
            break
        forcing = min(0.1, max(np.sqrt(promise / max(abs(state.value), np.finfo(float).tiny)), 1e-8))
        state = found
        if promise <= 2.0 * tol * abs(state.value):
            converged = True
            break
        stale = used > _PATIENCE
        if used > 2 * _PATIENCE and size < n:
            size *= 2
    if not converged:
        warnings.warn(
            f"Newton's method stopped after {step} steps before reaching tol={tol:g}. Raise max_iter or alpha.",
            ConvergenceWarning,
            stacklevel=4,
        )
    sketched = f"Hessian sketched with about {size} of {n} rows" if size < n else "Hessian of all rows"
    report = Report("newton", iterations=passes, converged=converged, notes=(f"{step} Newton steps", sketched))
    return state.P, report, step


def _direction(problem: Problem, state: State, P: SketchedHessian, forcing: float) -> tuple[Array, int]:
    """Solve the Newton system to a relative residual `forcing`, and count the passes."""
    rule = ConjugateGradient(tol=forcing, max_iter=_MOST_PASSES, preconditioner=P)
    factor = rule.factor(StreamedHessian(problem, state.P), 0.0)
    with warnings.catch_warnings():  # an inexact step is a step
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            found = factor.solve(-state.gradient.reshape(-1, 1))
        except IndefiniteError:  # at rounding level of the Hessian the sketched step is as good
            return P(-state.gradient.reshape(-1, 1)).reshape(state.P.shape), 1
    return found.reshape(state.P.shape), factor.report.iterations


def _search(problem: Problem, state: State, direction: Array, promise: float, blur: float) -> tuple[State | None, int]:
    """Halve the step until the objective falls as it should (Armijo)."""
    t = 1.0
    if not promise > 0:
        return None, 0
    for tried in range(1, _MOST_HALVINGS + 1):
        found = problem.state(state.P + t * direction)
        if found.value <= state.value - 1e-4 * t * promise or (
            t == 1.0 and promise < blur * abs(state.value) and found.value <= state.value * (1.0 + blur)
        ):
            return found, tried
        t /= 2.0
        if t * promise < 1e-3 * blur * abs(state.value):
            return None, tried
    return None, _MOST_HALVINGS
