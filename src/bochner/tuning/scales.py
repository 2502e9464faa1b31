"""Length scales with the most evidence, by exact gradients through Fourier features, or the least leave-one-out error.

The phases of Fourier features are X (W / length_scale)ᵀ with W drawn once, so the evidence is a smooth function of the
scale and of alpha, and its gradient costs about as much as its value: one n × m × m product. The search begins with one
eigendecomposition for each scale of a coarse grid, which gives the evidence at its best alpha.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg import cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from sklearn.base import clone

from bochner.backends import Array, backend_of, limit_threads, n_threads
from bochner.backends.threads import each, one_thread
from bochner.backends.tiled import mirrored
from bochner.data.folds import leave_one_out_errors
from bochner.data.progress import show
from bochner.data.sources import Block
from bochner.draws.keys import Key
from bochner.draws.linear_maps import DenseGram
from bochner.features.fourier import choose_rows, draw_frequencies
from bochner.features.nystrom import nystrom_map
from bochner.kernels.stationary import StationaryKernel
from bochner.landmarks.grams import Gram
from bochner.landmarks.laws import Landmarks
from bochner.ridge.solvers import Cholesky
from bochner.ridge.spectrum import vertex
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.deadline import NO_LIMIT, Deadline
from bochner.tuning.policies import ScalePolicy

POLICY = ScalePolicy()


@dataclass(frozen=True)
class _Evidence:
    """Evidence as a function of (log scale, log alpha): X (n, d), Y (n, k) centred and √w-weighted, W (T, d)."""

    X: Any
    Y: Array
    root: Array  # √w, (n,)
    W: Array
    start: float  # log of the scale to start from
    fit_intercept: bool

    def scale(self, move: float) -> float:
        """Return the length scale for a change of its log."""
        return float(np.exp(self.start + move))

    def features(self, move: float) -> Array:
        """Weighted pairs of cosines and sines."""
        phases = np.ascontiguousarray(self.X @ (self.W / self.scale(move)).T)
        Z = np.empty((len(phases), 2 * len(self.W)))
        backend_of(Z).pairs(phases, 1.0 / np.sqrt(len(self.W)), 0.0, Z)
        return Z if (self.root == 1.0).all() else Z * self.root[:, None]

    def centred(self, Z: Array) -> Array:
        return Z - np.outer(self.root, self.root @ Z / (self.root @ self.root)) if self.fit_intercept else Z

    @property
    def freedom(self) -> float:
        """Number of rows, less one for an intercept."""
        return len(self.root) - float(self.fit_intercept)

    def value_and_gradient(self, parameters: Array) -> tuple[float, Array]:
        """Negative log evidence, at the most likely noise variance, and its gradient in (log scale, log alpha)."""
        move, alpha = float(parameters[0]), float(np.exp(parameters[1]))
        raw = self.features(move)
        Z = self.centred(raw)
        factor = Cholesky().factor(DenseGram(Z.T @ Z), alpha)
        inverse, _ = dpotri(factor.L, lower=1)  # A⁻¹, lower triangle
        coefficients = cho_solve((factor.L, True), Z.T @ self.Y)
        residual = self.Y - Z @ coefficients
        n, (m, k) = self.freedom, coefficients.shape
        norms = (coefficients * coefficients).sum(axis=0)
        Q = np.maximum((residual * residual).sum(axis=0) + alpha * norms, np.finfo(float).tiny)
        # minus `statistics.log_evidence` without its constants, which would change when L-BFGS stops
        value = float(0.5 * (n * np.log(Q).sum() + k * (factor.logdet() - m * np.log(alpha))))
        slope = k * (Z @ mirrored(inverse)) - (residual * (n / Q)) @ coefficients.T
        at_alpha = 0.5 * (n * (norms / Q).sum() + k * (np.trace(inverse) - m / alpha))
        # chain rule: cos and sin, phases, scale
        at_phases = slope[:, 1::2] * raw[:, ::2] - slope[:, ::2] * raw[:, 1::2]
        at_scale = -np.einsum("td,td->d", np.asarray(self.X.T @ at_phases).T, self.W) / self.scale(move)
        return value, np.array([at_scale.sum(), alpha * at_alpha])


def tune_length_scale(
    kernel: StationaryKernel,
    X: Any,
    Y: Array,
    weight: Array | None = None,
    *,
    key: Key,
    n_components: int = 512,
    fit_intercept: bool = True,
    n_restarts: int = 0,
    n_landmarks: int = 0,
    margins: bool = False,
    n_samples: int | None = None,
    start: float | None = None,
    deadline: Deadline = NO_LIMIT,
    verbose: int = 0,
) -> StationaryKernel:
    """Return a copy of a stationary kernel whose length scale, jointly with alpha, has the most evidence.

    Parameters
    ----------
    kernel : StationaryKernel
        Its length scale is ignored.
    X : array or CSR matrix of shape (n_samples, n_features)
        A few thousand rows.
    Y : ndarray of shape (n_samples, n_targets)
    weight : ndarray of shape (n_samples,) or None
    key : Key
        For the frequencies.
    n_components : int
        Number of Fourier components with which the evidence is computed.
    n_restarts : int
        Number of further searches that start from random scales around the best one of the coarse grid.
    n_landmarks : int
        If positive, the scale is chosen by its leave-one-out error with this many landmarks (at most a quarter of
        the rows) instead of by its evidence, which with a few hundred components prefers scales that are too long.
    margins : bool
        Whether Y contains signs of labels and leave-one-out errors are squared hinge losses of margins.
    n_samples : int or None
        Number of rows that X was sampled from. If X has fewer, a scale found with landmarks is made a little shorter
        than the best one for X, because more rows show finer structure.
    start : float or None
        A scale to search near, with landmarks; None starts from the median distance and tries scales far from it first.
    deadline : Deadline
        When to stop and return the best scale found so far, or the one the search starts from if none has been tried.
    verbose : int
        Above zero, a terminal shows progress.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.draws.keys import Key
    >>> from bochner.tuning.scales import tune_length_scale
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> Y = np.sin(X[:, :1] + X[:, 1:]) + 0.1 * rng.normal(size=(500, 1))
    >>> tuned = tune_length_scale(RBF(), X, Y, key=Key(0), n_components=64)
    >>> 0.5 < tuned.length_scale < 2.0
    True
    """
    d = X.shape[1]
    X = X.astype(np.float64)
    weight = np.ones(X.shape[0]) if weight is None else weight
    X, Y, weight = X[weight > 0], Y[weight > 0], weight[weight > 0]
    root = np.sqrt(weight / weight.mean()) if len(weight) else weight
    Y = Y * root[:, None]
    unit = clone(kernel).set_params(length_scale=1.0)
    origin = start
    if origin is None:
        origin = float(clone(kernel).set_params(length_scale="median").resolve(X, key, root * root).length_scale)
    W, by_landmarks = np.empty((0, d)), n_landmarks > 0
    if not by_landmarks:
        n_frequencies = max(1, n_components // 2)
        law = choose_rows(unit, d, 2 * n_frequencies)
        W = draw_frequencies(unit, law, d, n_frequencies, key.child("tuning")).to_dense()
    given, problem = Y, _Evidence(X, Y, root, W, float(np.log(origin)), fit_intercept)
    Y = problem.centred(Y)
    varying = (Y * Y).sum(axis=0) > 1e-26 * (problem.Y**2).sum(axis=0)
    if not varying.any() or len(root) < 3:
        return clone(kernel).set_params(length_scale=origin)
    Y = Y[:, varying] / np.sqrt((Y[:, varying] ** 2).sum(axis=0) / problem.freedom)
    problem = replace(problem, Y=Y)

    asked = 0

    def late() -> bool:  # called before each scale that is tried
        nonlocal asked
        show(f"length scale: {asked} tried", verbose > 0)
        asked += 1
        return deadline.is_late()

    if by_landmarks:
        centred = X if scipy.sparse.issparse(X) else X - np.median(X, axis=0)  # so that float32 suffices
        targets, order = given if margins else Y, key.child("landmarks").generator().permutation(len(root))

        def left_out(half_steps: int, n_rows: int, n_landmarks: int) -> float:
            rows = order[:n_rows]
            scaled = centred[rows] / (origin * np.exp(half_steps * POLICY.half_step))
            if not scipy.sparse.issparse(scaled):  # rows that far away have no neighbours, however far exactly
                scaled = scaled.clip(-POLICY.farthest, POLICY.farthest)
            scaled = scaled.astype(np.float32)
            return _left_out(unit, scaled, targets[rows], root[rows], fit_intercept, np.arange(n_landmarks), margins)

        half_steps = _by_stages(left_out, len(root), n_landmarks, late, near=start is not None)
        if (n_samples or 0) > len(root):
            half_steps -= POLICY.shorter
        scale = float(origin * np.exp(POLICY.half_step * half_steps))
    else:
        scale = _by_evidence(problem, key, n_restarts, late)
    # the data determine fewer than three digits, and rounding hides where exactly the search stopped
    return clone(kernel).set_params(length_scale=float(f"{scale:.3g}"))


class _TimeIsUpError(Exception):
    """There is no time to try another scale."""


def _in_time(function: Callable[[int], Any], late: Callable[[], bool]) -> tuple[Callable[[int], Any], dict[int, Any]]:
    """Return a cached version of the function that raises an error once `late` returns True, and its values so far."""
    values: dict[int, Any] = {}

    def tried(argument: int) -> Any:
        if argument not in values:
            if late():
                raise _TimeIsUpError
            values[argument] = function(argument)
        return values[argument]

    return tried, values


def _by_evidence(problem: _Evidence, key: Key, n_restarts: int, late: Callable[[], bool]) -> float:
    """Return the scale with the most evidence, or the best one found by the time `late` returns True."""
    move, alpha = _on_grid(problem, late)
    if late() or not n_restarts:
        return problem.scale(move)

    def stop_when_late(_: Array) -> None:
        if late():
            raise StopIteration

    draw = key.child("restarts").generator()
    starts = [move, *(move + np.log(3.0) * draw.standard_normal(n_restarts))]
    found = min(
        (
            minimize(
                problem.value_and_gradient,
                np.array([np.clip(start, -POLICY.log_range, POLICY.log_range), np.log(alpha)]),
                jac=True,
                method="L-BFGS-B",
                bounds=[(-POLICY.log_range, POLICY.log_range), (np.log(1e-10), np.log(10.0 * problem.freedom))],
                options={"maxiter": 40, "ftol": 1e-5},
                callback=stop_when_late,
            )
            for i, start in enumerate(starts)
            if not (i and late())
        ),
        key=lambda result: result.fun,
    )
    return problem.scale(float(found.x[0]))


def _stages(n_rows: int, n_landmarks: int) -> list[tuple[int, int]]:
    """Rows and landmarks of each stage: twice as many of both each time, the last one with all rows.

    Never more than a quarter of the rows are landmarks, so that most are left to measure errors on.
    """
    rows = [min(n_rows, max(POLICY.stage_rows, n_rows >> halvings)) for halvings in (2, 1, 0)]
    return list(dict.fromkeys((n, max(1, min(n_landmarks >> i, n // 4))) for n, i in zip(rows, (2, 1, 0), strict=True)))


def _by_stages(
    error: Callable[..., float],
    n_rows: int,
    n_landmarks: int,
    late: Callable[[], bool] = lambda: False,
    *,
    near: bool = False,
) -> float:
    """Half steps from the origin to the scale of least error; ``error(half_steps, n_rows=…, n_landmarks=…)``.

    A few rows with few landmarks find the region quickly, but prefer scales that are too long. Each further stage
    therefore searches for its own minimum, starting from that of the stage before; the first one from zero, if the
    minimum is known to be `near`. Once `late` returns True, the best
    scale known so far is returned.
    """
    found: float | None = 0.0 if near else None
    for rows, landmarks in _stages(n_rows, n_landmarks):
        tried, values = _in_time(partial(error, n_rows=rows, n_landmarks=landmarks), late)
        try:
            if found is None:
                _in_parallel(tried, POLICY.coarse)
                found = min(POLICY.coarse, key=tried)
            found = _local_minimum(tried, round(found))
        except _TimeIsUpError:
            return min(values, key=values.__getitem__, default=0) if found is None else found
    return 0.0 if found is None else found


def _left_out(
    kernel: Any, X: Any, Y: Array, root: Array, fit_intercept: bool, landmarks: Array, margins: bool = False
) -> float:
    """Mean leave-one-out error at the best penalty, with some rows as landmarks; Y is √w-weighted.

    Errors are measured on the rows that are not landmarks: the distance of a landmark to its nearest landmark is zero,
    which is not so for new rows.
    """
    points, weight, Y = X[landmarks], root * root, Y / root[:, None]
    nystrom, _ = nystrom_map(Gram(points, kernel), Landmarks(points, None), len(landmarks))
    Z = nystrom(X)
    statistics = RidgeStatistics(len(landmarks), Y.shape[1], precision="fast").update(Z, Y, weight)
    spectrum = statistics.spectrum(fit_intercept)
    others = np.delete(np.arange(len(root)), landmarks)
    rows = Block(Z[others], Y[others], weight[others])
    options = {"fit_intercept": fit_intercept, "margins": margins}
    errors = leave_one_out_errors(rows, lambda Z: Z, statistics, np.asarray, spectrum, spectrum.grid()[::2], **options)
    return float(errors.mean(axis=1).min())


def _on_grid(problem: _Evidence, late: Callable[[], bool]) -> tuple[float, float]:
    """Return the best scale, as a change of its log from the start, and its best alpha.

    Powers of √2 are tried, and the best one is refined by a parabola. A finer search would find narrow peaks of the
    evidence where one of the frequencies happens to fit the targets.
    """
    root = problem.root[:, None]

    def value(half_steps: int) -> tuple[float, float]:
        Z = problem.features(half_steps * POLICY.half_step) / root
        statistics = RidgeStatistics(Z.shape[1], problem.Y.shape[1]).update(Z, problem.Y / root, problem.root**2)
        spectrum = statistics.spectrum(problem.fit_intercept)
        alpha, *_ = spectrum.best("evidence")
        return float(spectrum.criterion("evidence")(np.array([alpha]))[0]), alpha

    tried, values = _in_time(value, late)
    try:
        _in_parallel(tried, POLICY.coarse)
        best = min(POLICY.coarse, key=tried)
        best = min((best, best - 1, best + 1), key=tried)
        offset = vertex([tried(best + step)[0] for step in (-1, 0, 1)])
    except _TimeIsUpError:
        best, offset = min(values, key=values.__getitem__, default=0), 0.0
        values.setdefault(best, (0.0, 1.0))
    return POLICY.half_step * (best + offset), tried(best)[1]


def _in_parallel(function: Callable[[int], Any], arguments: Iterable[int]) -> None:
    """Call a cached function with all arguments in parallel, one thread each: more hardly speed up `eigh`."""

    def call(argument: int) -> None:
        with limit_threads(1):
            function(argument)

    with one_thread():
        each(call, arguments, n_threads())


def _local_minimum(error: Callable[[int], float], start: int) -> float:
    return start + least(lambda step: error(start + step))


def least(error: Callable[[int], float]) -> float:
    """Find a local minimum of a function of integers near 0, refined by a parabola; at most 16 steps away."""
    best, step = 0, -1 if error(-1) < error(0) else 1
    while abs(best) < POLICY.most_steps and error(best + step) < error(best):
        best += step
    return best + vertex([error(best + step) for step in (-1, 0, 1)])
