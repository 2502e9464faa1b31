"""Newton's method for a convex loss of linear scores, over streamed features, in memory independent of the row count.

The Hessian is computed from rows whose features are held in memory: all rows, or a sample drawn with probability
proportional to curvature (Pilanci & Wainwright 2017), which is enlarged if it turns out too small. A step solves with
this Hessian by conjugate gradients. They are preconditioned by a metric: the mean Hessian of the scores or, if that
takes many products, one Hessian for each score. If the rows are a sample, the changes of the gradient along the last
steps correct the Hessian (L-BFGS, Nocedal 1980).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from itertools import pairwise

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array
from bochner.checks import warn
from bochner.draws.keys import Key
from bochner.newton.curvature import METRIC_BYTES, HeldRows, Metric
from bochner.newton.line_search import line_search
from bochner.newton.objectives import Problem, State
from bochner.ridge.reports import Report

_SECANTS = 30  # pairs of steps and changes of the gradient that are remembered
_SLOW = 0.6  # a step is slow if the next one promises more than this share of its gain
_STEPS_AHEAD = 4  # steps, each with as many products as the last, in which metrics of each score should pay
_GROWTH = 4  # factor by which the number of rows held grows if steps are slow
_MOST_TRIES = 30  # points tried in one line search
_SAMPLE_TOL = 1e-2  # tol of the start, which is found on a sample of the rows


class Secants:
    """The last steps s and the changes y of the gradient along them, from which L-BFGS corrects H⁻¹."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=_SECANTS)

    def add(self, s: Array, y: Array) -> None:
        """Store a step, unless its curvature is lost in rounding."""
        bent = float(np.vdot(s, y))
        if bent > 1e-12 * float(np.linalg.norm(s) * np.linalg.norm(y)):
            self.pairs.append((s, y, bent))

    def direction(self, gradient: Array, solve: Callable[[Array], Array]) -> Array:
        """Return -H⁻¹ gradient, where `solve` multiplies by the H⁻¹ that is corrected."""
        q, shares = gradient.copy(), []
        for s, y, bent in reversed(self.pairs):
            shares.append(float(np.vdot(s, q)) / bent)
            q -= shares[-1] * y
        d = solve(q)
        for (s, y, bent), share in zip(self.pairs, reversed(shares), strict=True):
            d += (share - float(np.vdot(y, d)) / bent) * s
        return -d


class Steps:
    """Directions of steps, and what is kept from one step to the next: rows, a metric, secants.

    Attributes
    ----------
    passes : float
        Number of passes over all rows. A product with a part of the rows counts as that part of a pass.
    """

    def __init__(self, problem: Problem, key: Key) -> None:
        self.problem, self.key = problem, key
        # with one score, a few rows approximate the Hessian well enough; with several, all rows that fit are held
        self.size = problem.fewest_rows if problem.n_scores == 1 else problem.most_rows
        self.rows: HeldRows | None = None
        self.metric: Metric | None = None
        self.secants = Secants()
        self.passes = self.products = self.worn = self.drawn = 0.0
        self.count = 0  # number of times that rows or metrics were drawn

    def holds_all(self, state: State) -> bool:
        """Return True if all rows are held."""
        return self.rows is not None and len(self.rows) >= state.n_samples

    def direction(self, state: State) -> tuple[Array, float]:
        """Return the direction of the next step, and an estimate of the best multiple of it."""
        if self.rows is None:
            self.count += 1
            if 2 * self.size >= state.n_samples and state.n_samples <= self.problem.most_rows:
                self.size = state.n_samples
            self.rows = self.problem.held(state, self.size, self.key.child(f"rows {self.count}"))
            self.passes += 1.0 if self.size < state.n_samples else 0.0
            self.drawn = self.passes
        if self.holds_all(state):
            self.secants.pairs.clear()
        self._renew_metric(state)
        direction = self.secants.direction(state.gradient, lambda R: self._solved(R, state))
        self.scores = self.rows.scores(direction)
        slope = float(np.vdot(state.gradient, direction))
        t = 1.0
        if -slope > self.problem.precision * abs(state.value):
            t = self.rows.step_along(self.scores, state.P, direction, slope)
        return direction, t

    def _solved(self, R: Array, state: State) -> Array:
        assert self.rows is not None
        assert self.metric is not None
        found, self.products = self.rows.solve(R, self.metric, state.value)
        self.worn += self.products * self.rows.products_cost()
        self.passes += self.products * len(self.rows) / state.n_samples
        return found

    def _renew_metric(self, state: State) -> None:
        """Make a new metric once the products since the last one cost as much; one for each score if it pays."""
        assert self.rows is not None
        k, m, rows = self.problem.n_scores, self.problem.feature_map.n_components, self.rows
        expected = self.products * rows.products_cost()  # expected cost of the next step
        if self.metric is not None and self.worn + expected < self.metric.cost:
            return
        apart = k > 1 and 4 * k * m * m <= METRIC_BYTES
        if apart and not (self.metric is not None and self.metric.apart):
            apart = _STEPS_AHEAD * expected >= rows.metric_cost(apart=True)
        self.count += 1
        floor = self.problem.loss.curvature_bound(k) * state.weight
        self.metric = rows.metric(self.key.child(f"metric {self.count}"), apart=apart, floor=floor)
        self.worn = 0.0

    def taken(self, before: State, after: State, t: float) -> None:
        """Update rows and secants after a step of t times the direction."""
        assert self.rows is not None
        self.rows = self.rows.moved(t * self.scores)
        if not self.holds_all(after):
            self.secants.add(after.P - before.P, after.gradient - before.gradient)

    def refresh(self, state: State) -> None:
        """Let the next step draw more rows at the current point, or make a new metric.

        As many rows again are drawn only once the passes since the last draw have taken as long as another one takes.
        """
        larger = min(_GROWTH * self.size, self.problem.most_rows)
        worn = self.passes - self.drawn >= self.problem.drawing_cost(self.size, state.n_samples)
        if not self.holds_all(state) and (larger > self.size or worn):
            self.size, self.rows = larger, None
        else:
            self.metric = None


def newton(
    problem: Problem,
    key: Key,
    start: Array | None = None,
    *,
    tol: float = 1e-4,
    max_iter: int = 200,
) -> tuple[Array, Report, int]:
    """Minimise the objective of a problem; return P (m + 1, k), intercepts last, a report and the number of steps.

    Parameters
    ----------
    problem : Problem
        With alpha > 0.
    key : Key
        For the samples of rows; the minimum does not depend on it.
    start : ndarray of shape (m + 1, k) or None
        None for zeros. With many rows, the minimum for a sample of them is found first, from there.
    tol : float
        Stop when further steps are not expected to lower the objective by more than this share of it.
    max_iter : int
        Maximum number of steps.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features.maps import Identity
    >>> from bochner.draws.keys import Key
    >>> from bochner.newton.losses import LogLoss
    >>> from bochner.data.sources import ArraySource
    >>> from bochner.newton.objectives import Problem
    >>> from bochner.newton.minimize import newton
    >>> Z = np.array([[-1.0], [0.0], [1.0], [2.0]])
    >>> source = ArraySource(Z, np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    >>> P, report, _ = newton(Problem(source, Identity(1), LogLoss(), 0.1, 1), Key(0), tol=1e-10)
    >>> report.converged, P.round(3).ravel().tolist()
    (True, [0.815, -0.408])
    """
    start = np.zeros(problem.shape) if start is None else start
    few = problem.sampled(problem.fewest_rows, key.child("sample"))
    if few is not None:
        start = _descend(few, Steps(few, key.child("few")), start, _SAMPLE_TOL, max_iter)[0].P
    steps = Steps(problem, key)
    state, step, converged = _descend(problem, steps, start, tol, max_iter)
    if not converged:
        warn(
            f"Newton's method stopped after {step} steps before reaching tol={tol:g}. Raise max_iter or alpha.",
            ConvergenceWarning,
        )
    n = state.n_samples
    rows = f"Hessian of about {steps.size} of {n} rows" if steps.size < n else "Hessian of all rows"
    passes = math.ceil(steps.passes)
    return state.P, Report("newton", iterations=passes, converged=converged, notes=(f"{step} Newton steps", rows)), step


def _descend(problem: Problem, steps: Steps, start: Array, tol: float, max_iter: int) -> tuple[State, int, bool]:
    """Minimise by steps; return the minimum, the number of steps, and whether they converged."""
    if problem.loss.ignores_shifts(problem.n_scores):  # the penalty is smallest where the scores add up to zero
        start = start - start.mean(axis=1, keepdims=True)
    state, blur = problem.state(start), problem.precision
    steps.passes += 1
    promises, fresh, step = [np.inf], True, 0
    for step in range(1, max_iter + 1):
        direction, length = steps.direction(state)
        promise = -float(np.vdot(state.gradient, direction))  # twice the gain that the quadratic model predicts
        rounding = blur * abs(state.value)
        found, t = None, 1.0
        if promise > 0:
            found, t, tried = line_search(
                lambda t, P=state.P, d=length * direction: problem.state(P + t * d),  # type: ignore[misc]
                state,
                length * promise,
                rounding,
                _MOST_TRIES,
            )
            steps.passes += tried
        if found is None:  # the limit of the precision, or of what this Hessian can achieve
            if not fresh and promise > rounding:
                steps.secants.pairs.clear()
                steps.refresh(state)
                fresh = True
                continue
            return state, step, promise <= max(100.0 * blur, 1e-10, 2.0 * tol) * abs(state.value)
        steps.taken(state, found, t * length)
        state, fresh = found, False
        if state.value <= np.finfo(float).eps * state.weight:  # every row is right up to rounding
            return state, step, True
        slow = promise > _SLOW * promises[-1] or t < 1.0
        promises.append(promise)
        # what further steps will gain, if they converge like the slowest of the last three
        rate = min(max(0.25, *(after / before for before, after in pairwise(promises[-4:]))), 0.95)
        if t == 1.0 and length >= 0.5 and 0.5 * promise * rate / (1.0 - rate) <= tol * abs(state.value):
            return state, step, True
        if slow and not steps.holds_all(state):
            steps.refresh(state)
    return state, step, False
