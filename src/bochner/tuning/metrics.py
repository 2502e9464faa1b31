"""Learned metrics: length scales of the columns, and the choice of kernel, by the leave-one-out error.

The leave-one-out error of an exact kernel ridge regression has a closed form, and so has its derivative in the length
scale of every column; on a sample of the rows, both cost a few matrix products. Gradient descent finds better scales
than the average gradient outer product (Radhakrishnan et al. 2024): see `docs/guide/tables.md` for a comparison.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bochner.backends import Array, backend_of, n_threads
from bochner.backends.native import without_subnormals
from bochner.backends.threads import each, one_thread
from bochner.backends.tiled import add_outer
from bochner.kernels.stationary import RBF, Exponential, Laplacian, Matern, StationaryKernel
from bochner.ridge.dense import LEAST_WEIGHT, ExactRidge, exact_ridge
from bochner.tuning.deadline import NO_LIMIT, Deadline
from bochner.tuning.policies import DescentPolicy, MetricPolicy

FAMILIES: dict[str, StationaryKernel] = {
    "laplacian": Laplacian(),
    "exponential": Exponential(),
    "matern32": Matern(nu=1.5),
    "matern52": Matern(nu=2.5),
    "rbf": RBF(),
}
POLICY = DescentPolicy()


@dataclass(frozen=True)
class LearnedMetric:
    """A stationary kernel with a length scale for every column, and the penalty that goes with it.

    Attributes
    ----------
    kernel : StationaryKernel
    alpha : float
    error : float
        Leave-one-out mean squared error, for targets of variance one.
    n_evaluations : int
    """

    kernel: StationaryKernel
    alpha: float
    error: float
    n_evaluations: int


def with_scales(kernel: StationaryKernel, scales: Any) -> StationaryKernel:
    """Return a copy of the kernel with these length scales."""
    return kernel.__class__(**{**kernel.get_params(deep=False), "length_scale": scales})


class Criterion(ABC):
    """What a metric is learned to minimise: a positive number E of a fit to targets of variance one.

    The noise of a row of weight w has a variance of alpha / w. Weights and penalty may have any common factor.
    """

    #: whether float32 suffices if the penalty is large compared with its rounding errors
    takes_single: bool

    @abstractmethod
    def value(self, fit: ExactRidge, Y: Any, w: Any) -> float:
        """E; w are weights (n, 1), or 1.0."""

    @abstractmethod
    def slopes(self, fit: ExactRidge, Y: Any, w: Any) -> Any:
        """S (n, n) with dE = Σ_ij S_ij dA_ij for a change of A = K + alpha / w."""

    def of(self, kernel: StationaryKernel, X: Any, Y: Array, alpha: float, weight: Array | None = None) -> float:
        """E of an exact fit; 0 of no targets."""
        if not Y.shape[1]:
            return 0.0
        fit, Y, w, _ = self._fitted(kernel, X, Y, alpha, weight)
        return self.value(fit, Y, w)

    @without_subnormals()
    def gradient(
        self, kernel: StationaryKernel, X: Any, Y: Array, alpha: float, weight: Array | None = None
    ) -> tuple[float, Array, float]:
        """E, half of ∂E/∂x_i (n, d) for a stationary kernel, and ∂E/∂log(alpha).

        For a stationary kernel dk(x_i, x_j) = ∇k(x_i, x_j)·(dx_i - dx_j), so that dE = 2 Σ_i g_i·dx_i with
        g_i = Σ_j S_ij ∇k(x_i, x_j).
        """
        fit, Z, w, X = self._fitted(kernel, X, Y, alpha, weight, with_inverse=True)
        S = self.slopes(fit, Z, w)
        at_alpha = float((S.diagonal()[:, None] / w).sum())
        gradient = kernel.weighted_gradient(X, X, S)
        gradient = gradient.astype(np.float64, copy=False) if isinstance(gradient, np.ndarray) else gradient
        return self.value(fit, Z, w), gradient, alpha * at_alpha

    def _fitted(
        self,
        kernel: StationaryKernel,
        X: Any,
        Y: Array,
        alpha: float,
        weight: Array | None,
        *,
        with_inverse: bool = False,
    ) -> tuple[ExactRidge, Any, Any, Any]:
        """Return the fit, with targets, weights and rows in its float type and on its device."""
        weight = None if weight is None else np.clip(weight, LEAST_WEIGHT, 1.0 / LEAST_WEIGHT)

        def of(Z: Any) -> tuple[ExactRidge, Any, Any, Any]:
            place = backend_of(Z).place
            w: Any = 1.0 if weight is None else place(weight[:, None], Z)
            return exact_ridge(kernel(Z), Y, alpha, weight, with_inverse=with_inverse), place(Y, Z), w, Z

        single = self.takes_single and alpha >= POLICY.single_alpha and len(X) >= POLICY.single_rows
        if single and isinstance(X, np.ndarray):
            with suppress(ValueError):  # rounding may make the matrix indefinite
                return of(X.astype(np.float32))
        return of(X)


def _count(w: Any, n: int) -> float:
    return float(n) if isinstance(w, float) else float(w.sum())


class LeftOut(Criterion):
    """The leave-one-out mean squared error; a row is left out with all its weight.

    With c = B y, row i is left out at an error of e = c_i / B_ii. A change dA changes B by -B dA B, and so E by
    S = B diag(Σ_k w e_k² / B_ii) B - Σ_k (p_k c_kᵀ + c_k p_kᵀ) / 2 up to factors, p = B (w e / B_ii).
    """

    takes_single = True

    def value(self, fit: ExactRidge, Y: Any, w: Any) -> float:
        return float((w * fit.left_out * fit.left_out).sum()) / (_count(w, len(Y)) * Y.shape[1])

    def slopes(self, fit: ExactRidge, Y: Any, w: Any) -> Any:
        B, c, e, diagonal = fit.inverse, fit.coefficients, fit.left_out, fit.diagonal[:, None]
        assert B is not None
        scale = 2.0 / (_count(w, len(Y)) * Y.shape[1])
        place, xp = backend_of(B).place, backend_of(B).xp  # so that products are in the float type of B
        p = B @ place(w * e / diagonal, B)
        R = B * place((scale * (w * e * e / diagonal).sum(axis=1)) ** 0.5, B)
        S = R @ R.T  # NumPy multiplies half of it, without Python's lock
        left, right = xp.concatenate([p, c], axis=1), xp.concatenate([c, p], axis=1) * (-scale / 2.0)
        if isinstance(S, np.ndarray):
            add_outer(S, place(left, S), place(right, S))
        else:
            S += place(left @ right.T, S)
        return S


class Evidence(Criterion):
    """The geometric mean, over rows, of the variance with which a Gaussian process predicts each from those before it.

    Up to constants, that is evidence^(-2/n) at the likeliest amplitude Q / (n - 1) with Q = yᵀBy. A change dA changes Q
    by -cᵀ dA c, and log |A| + log 1ᵀA⁻¹1 by tr B dA.
    """

    takes_single = False

    def value(self, fit: ExactRidge, Y: Any, w: Any) -> float:
        n, squares = len(Y), self._squares(fit, Y)
        logs = np.log(backend_of(Y).fetch(squares)).mean()
        return float(np.exp(((n - 1.0) * logs + fit.log_determinant) / n))

    def slopes(self, fit: ExactRidge, Y: Any, w: Any) -> Any:
        B, c, (n, k) = fit.inverse, fit.coefficients, Y.shape
        return (B - (c * ((n - 1.0) / (k * self._squares(fit, Y)))) @ c.T) * (self.value(fit, Y, w) / n)

    @staticmethod
    def _squares(fit: ExactRidge, Y: Any) -> Any:
        return (Y * fit.coefficients).sum(axis=0).clip(np.finfo(float).tiny)


LEFT_OUT, EVIDENCE = LeftOut(), Evidence()


@dataclass(frozen=True)
class Rows:
    """Rows, targets and weights (of mean one) that a metric is learned from or judged on."""

    X: Any
    Y: Array
    weight: Array | None


@dataclass(frozen=True)
class MetricLearner:
    """Learn a metric on few rows, then on more of them, and shrink it by its error on fresh ones."""

    policy: MetricPolicy
    deadline: Deadline = NO_LIMIT
    criterion: Criterion = LEFT_OUT

    def learn(
        self,
        rows: Rows,
        kernel: StationaryKernel,
        max_evaluations: int,
        *,
        start: LearnedMetric | None = None,
        per_column: bool = True,
    ) -> LearnedMetric:
        """Call `learn_metric` with the criterion and the deadline."""
        return learn_metric(
            rows.X,
            rows.Y,
            kernel,
            rows.weight,
            start=start,
            max_evaluations=max_evaluations,
            per_column=per_column,
            criterion=self.criterion,
            deadline=self.deadline,
        )

    def first(self, rows: Rows, kernel: StationaryKernel, start: LearnedMetric | None = None) -> LearnedMetric:
        """Learn scales of columns on few rows."""
        return self.learn(rows, kernel, self.policy.first_evaluations, start=start)

    def equal(self, rows: Rows, kernel: StationaryKernel) -> LearnedMetric:
        """Learn a common scale on few rows."""
        return self.learn(rows, kernel, self.policy.first_evaluations, per_column=False)

    def further(self, rows: Rows, start: LearnedMetric) -> LearnedMetric:
        """Learn on more rows, from what few of them taught."""
        return self.learn(rows, start.kernel, self.policy.evaluations, start=start)

    def error(self, metric: LearnedMetric, rows: Rows) -> float:
        """Return the criterion on other rows."""
        return self.criterion.of(metric.kernel, rows.X, standardised(rows.Y, rows.weight), metric.alpha, rows.weight)

    def shrunk(self, metric: LearnedMetric, equal: LearnedMetric, fresh: Rows) -> LearnedMetric:
        """Return the mixture of learned and equal scales with the least error on fresh rows."""
        return shrink_metric(metric, equal, fresh.X, fresh.Y, fresh.weight, self.criterion)

    def directions(self, rows: Rows, start: LearnedMetric, fresh: Rows | None) -> tuple[Array, LearnedMetric]:
        """Learn a full metric from scales of columns, and shrink it towards them by its error on fresh rows, if any."""
        steps: dict[str, Any] = {"max_evaluations": self.policy.direction_evaluations, "deadline": self.deadline}
        U, full = learn_directions(rows.X, rows.Y, start, rows.weight, criterion=self.criterion, **steps)
        if fresh is not None:
            U = shrink_directions(U, full, start, fresh.X, fresh.Y, fresh.weight, self.criterion)
        return U, full


def learn_metric(
    X: Array,
    Y: Array,
    family: str | StationaryKernel = "laplacian",
    weight: Array | None = None,
    *,
    start: LearnedMetric | None = None,
    max_evaluations: int = 20,
    per_column: bool = True,
    criterion: Criterion = LEFT_OUT,
    deadline: Deadline = NO_LIMIT,
) -> LearnedMetric:
    """Length scales and penalty that minimise the leave-one-out error on a sample of rows; the start for constant Y.

    Parameters
    ----------
    X : array of shape (n, d), float64
        Columns of comparable size, in host memory or on a device, which then does the work; a few thousand rows at
        most, as each evaluation costs about 4 n³ operations.
    Y : ndarray of shape (n, k)
    family : {"laplacian", "exponential", "matern32", "matern52", "rbf"} or StationaryKernel
    weight : ndarray of shape (n,) or None
        Of mean one; the noise of a row of weight w has a variance of alpha / w.
    start : LearnedMetric or None
        Where to begin; None: equal length scales.
    max_evaluations : int
        The most evaluations of the error and its derivative.
    per_column : bool
        False: one length scale for all columns.
    criterion : Criterion
        What is minimised; the default is the leave-one-out error.
    deadline : Deadline
        When to stop and return the best scales found.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.tuning.metrics import importances, learn_metric
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> metric = learn_metric(X, np.sin(3.0 * X[:, :1]))
    >>> bool(importances(metric, X)[0] > 0.9)
    True
    """
    kernel = FAMILIES[family] if isinstance(family, str) else family
    Y, n_features = standardised(Y, weight), X.shape[1]
    if start is None:
        distance = mean_distance(kernel, X, weight)
        origin, alpha = np.full(n_features, distance or 1.0), 0.1
    else:
        origin, alpha = np.broadcast_to(start.kernel.scales(n_features), n_features), start.alpha
    if not Y.shape[1]:
        return LearnedMetric(with_scales(kernel, origin), alpha, 0.0, 0)

    best: list[Any] = [np.inf, origin, alpha]

    def objective(parameters: Array) -> tuple[float, Array]:
        shifts = parameters[:-1] if per_column else np.repeat(parameters[:1], n_features)
        scales, penalty = origin * np.exp(-shifts), float(np.exp(parameters[-1]))
        error, G, slope = criterion.gradient(with_scales(kernel, scales), X, Y, penalty, weight)
        if error < best[0]:
            best[:] = [error, scales, penalty]
        slopes = 2.0 * backend_of(X).fetch((X * G).sum(axis=0))  # derivatives in log(1 / scale)
        slopes = slopes if per_column else slopes.sum(keepdims=True)
        return _log(error), np.r_[slopes, slope] / max(error, 1e-300)

    bounds = [POLICY.log_weights] * (n_features if per_column else 1) + [tuple(np.log(POLICY.penalties))]
    start_at = np.r_[np.zeros(len(bounds) - 1), np.log(alpha)]
    n_evaluations = _minimise(objective, start_at, bounds, max_evaluations, deadline)
    return LearnedMetric(with_scales(kernel, best[1]), float(best[2]), float(best[0]), n_evaluations)


def mean_distance(kernel: StationaryKernel, X: Any, weight: Array | None = None) -> float:
    """Return the mean distance of some of the rows for a kernel; a row of weight w counts as w rows."""
    step = max(1, len(X) // POLICY.distance_rows)
    few = slice(0, POLICY.distance_rows * step, step)
    pairs = kernel.distances(X[few], X[few])
    if weight is None:
        return float(pairs.mean())
    return float(np.average(backend_of(X).fetch(pairs), weights=np.outer(weight[few], weight[few])))


def shrink_metric(
    metric: LearnedMetric,
    equal: LearnedMetric,
    X: Array,
    Y: Array,
    weight: Array | None = None,
    criterion: Criterion = LEFT_OUT,
) -> LearnedMetric:
    """Return the mixture of learned and equal scales with the least error on rows that neither was learned on.

    With many columns, learned scales overfit the sample. Logarithms of scales and penalty are interpolated.
    """
    learned, ones = metric.kernel.scales(X.shape[1]), np.ones(X.shape[1])
    other = equal.kernel.scales(X.shape[1])

    def mixed(share: float) -> tuple[StationaryKernel, Any]:
        return with_scales(metric.kernel, (learned**share * other ** (1.0 - share)) * ones), X

    return _shrunk(mixed, metric, equal, Y, weight, criterion)[1]


def learn_directions(
    X: Array,
    Y: Array,
    metric: LearnedMetric,
    weight: Array | None = None,
    *,
    max_evaluations: int = 20,
    criterion: Criterion = LEFT_OUT,
    deadline: Deadline = NO_LIMIT,
) -> tuple[Array, LearnedMetric]:
    """Learn a full metric: U (d, d) and the same kernel on the rows x U, starting from the scales of a learned metric.

    It has d² parameters where the scales have d, and may overfit the sample: compare the two on rows that neither was
    learned on.
    """
    d = X.shape[1]
    backend, origin = backend_of(X), np.diag(1.0 / (metric.kernel.scales(d) * np.ones(d)))
    Y, kernel = standardised(Y, weight), with_scales(metric.kernel, np.ones(1))
    if not Y.shape[1]:
        return origin, LearnedMetric(kernel, metric.alpha, 0.0, 0)
    size = float(np.linalg.norm(origin)) / np.sqrt(d)
    best: list[Any] = [np.inf, origin, metric.alpha]

    def objective(parameters: Array) -> tuple[float, Array]:
        U, penalty = size * parameters[:-1].reshape(d, d), float(np.exp(parameters[-1]))
        error, G, slope = criterion.gradient(kernel, X @ backend.place(U, X), Y, penalty, weight)
        if error < best[0]:
            best[:] = [error, U, penalty]
        return _log(error), np.r_[2.0 * size * backend.fetch(X.T @ G).ravel(), slope] / max(error, 1e-300)

    bounds = [(None, None)] * (d * d) + [tuple(np.log(POLICY.penalties))]
    start_at = np.r_[(origin / size).ravel(), np.log(metric.alpha)]
    n_evaluations = _minimise(objective, start_at, bounds, max_evaluations, deadline)
    return best[1], LearnedMetric(kernel, float(best[2]), float(best[0]), n_evaluations)


def _minimise(
    objective: Callable[[Array], tuple[float, Array]],
    start: Array,
    bounds: Sequence[Any],
    max_evaluations: int,
    deadline: Deadline,
) -> int:
    """Search for a minimum of an objective that keeps the best it has seen; returns the number of evaluations.

    Steps magnify rounding errors, and threads of BLAS round differently for each number of them. A line search near the
    minimum may see nothing but rounding errors, and would go on for twenty evaluations.
    """
    n_evaluations = 0

    def evaluated(parameters: Array) -> tuple[float, Array]:
        nonlocal n_evaluations
        if n_evaluations and (n_evaluations >= max_evaluations or deadline.is_late()):
            raise _EnoughError
        n_evaluations += 1
        return objective(parameters)

    with one_thread(), suppress(_EnoughError):
        minimize(evaluated, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"ftol": POLICY.least_gain})
    return n_evaluations


class _EnoughError(Exception):
    """There have been enough evaluations, or the time is up."""


def shrink_directions(
    U: Array,
    full: LearnedMetric,
    metric: LearnedMetric,
    X: Array,
    Y: Array,
    weight: Array | None = None,
    criterion: Criterion = LEFT_OUT,
) -> Array:
    """Directions between the learned ones and the columns: those of least error on rows that neither was learned on."""
    columns = np.diag(1.0 / (metric.kernel.scales(len(U)) * np.ones(len(U))))

    def directions(share: float) -> Array:
        return np.asarray(share * U + (1.0 - share) * columns)

    def mixed(share: float) -> tuple[StationaryKernel, Any]:
        return full.kernel, X @ directions(share)

    return directions(_shrunk(mixed, full, metric, Y, weight, criterion)[0])


def _shrunk(
    mixed: Callable[[float], tuple[StationaryKernel, Any]],
    learned: LearnedMetric,
    simple: LearnedMetric,
    Y: Array,
    weight: Array | None,
    criterion: Criterion,
) -> tuple[float, LearnedMetric]:
    """Return the share of the learned metric with the least error, and the mixture; ties go to the larger share.

    `mixed` gives kernel and rows for a share of the learned metric; the rest is the simple one.
    """
    Y, found = standardised(Y, weight), []
    for share in POLICY.shares:
        (kernel, X), alpha = mixed(share), learned.alpha**share * simple.alpha ** (1.0 - share)
        with one_thread():
            error = criterion.of(kernel, X, Y, alpha, weight)
        found.append((share, LearnedMetric(kernel, alpha, error, learned.n_evaluations + simple.n_evaluations)))
    return min(found, key=lambda item: item[1].error)


def deviations(A: Array, weight: Array | None = None) -> Array:
    """Standard deviations of columns of weighted rows."""
    variances = np.empty(A.shape[1])

    def measure(j: int) -> None:
        column = np.ascontiguousarray(A[:, j])
        variances[j] = np.average(np.square(column - np.average(column, weights=weight)), weights=weight)

    each(measure, range(A.shape[1]), n_threads())  # one by one, as all would need twice the memory of A
    return np.sqrt(variances)


def standardised(Y: Array, weight: Array | None) -> Array:
    """Return the columns that vary, with mean zero and variance one; nothing can be learned from the others."""
    spread = deviations(Y, weight)
    varying = spread > POLICY.constant * np.abs(Y).max(axis=0)
    return np.asarray((Y - np.average(Y, axis=0, weights=weight))[:, varying] / spread[varying])


def _log(error: float) -> float:
    return float(np.log(error)) if error > 0 else -700.0


def importances(metric: LearnedMetric, X: Array, weight: Array | None = None) -> Array:
    """Return the share of each column in the distances: standard deviation over length scale, summing to one."""
    weights = deviations(X, weight) / metric.kernel.scales(X.shape[1])
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights)))
