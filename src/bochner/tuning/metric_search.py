"""``metric=`` and ``kernel="auto"`` of models: the kernel and its metric, learned on a sample of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.data.progress import show
from bochner.data.validation import usual_rows
from bochner.draws.keys import Key
from bochner.kernels.algebra import Kernel, Projected
from bochner.kernels.stationary import RadialKernel, StationaryKernel
from bochner.ridge.spectrum import leave_one_out
from bochner.tuning.deadline import NO_LIMIT, Deadline
from bochner.tuning.metrics import (
    FAMILIES,
    LEFT_OUT,
    Criterion,
    LearnedMetric,
    MetricLearner,
    Rows,
    mean_distance,
    standardised,
    with_scales,
)
from bochner.tuning.policies import MetricPolicy, StartPolicy

METRICS = ("auto", "isotropic", "diagonal", "full")
POLICY, METRIC = StartPolicy(), MetricPolicy.for_models()


@dataclass(frozen=True)
class ColumnMetric:
    """A kernel of length scale one, and the weights that rows are multiplied by first.

    Attributes
    ----------
    kernel : StationaryKernel
    weights : ndarray of shape (), (n_features,) or (n_features, n_features)
        One over a length scale; one over the length scale of each column; or a matrix with a direction in each column.
    spreads : ndarray of shape (n_features,)
        Standard deviations of the columns.
    """

    kernel: StationaryKernel
    weights: Array
    spreads: Array

    def rows(self, X: Any) -> Any:
        """Rows times the weights, as the kernel takes them."""
        if self.weights.ndim == 2:
            return np.asarray(X @ self.weights)
        return X.multiply(self.weights).tocsr() if scipy.sparse.issparse(X) else X * self.weights

    def scaled(self, scale: float) -> Kernel:
        """Return the kernel of unscaled rows that equals the kernel of `rows` with the length scale `scale`."""
        if self.weights.ndim == 2:
            return with_scales(self.kernel, 1.0).along(self.weights / scale)
        scales = scale / self.weights
        return with_scales(self.kernel, scales if scales.ndim else float(scales))


def families_for(metric: str) -> list[StationaryKernel]:
    """Return the kernels of ``kernel="auto"``, rough to smooth; a full metric needs Euclidean distances."""
    return [kernel for kernel in FAMILIES.values() if metric != "full" or isinstance(kernel, RadialKernel)]


def chooses_kernel(metric: str, X: Any) -> bool:
    """Return True if ``kernel="auto"`` compares kernels; with ``metric="auto"`` only if rows are many enough."""
    return metric != "auto" or (learns_scales(metric, X) and X.shape[0] >= 2 * POLICY.sample_rows)


def learns_scales(metric: str, X: Any) -> bool:
    """Return True if columns have length scales of their own; with "auto" if they are few enough for the sample."""
    if metric != "auto":
        return metric != "isotropic"
    return 1 < X.shape[1] <= POLICY.auto_columns and X.shape[0] >= POLICY.least_rows


def metric_of(kernel: Kernel, n_features: int) -> Array:
    """M of the squared distance (x - y)ᵀ M (x - y) that a kernel measures; (n_features,) if it is diagonal."""
    if isinstance(kernel, Projected):
        U = kernel.matrix(n_features) / kernel.kernel.scales(n_features)
        return np.asarray(U @ U.T)
    assert isinstance(kernel, StationaryKernel)
    return np.asarray(np.ones(n_features) / kernel.scales(n_features) ** 2)


def search_metric(
    kernels: Sequence[StationaryKernel],
    X: Any,
    Y: Array,
    weight: Array | None = None,
    *,
    metric: str,
    key: Key,
    criterion: Criterion = LEFT_OUT,
    deadline: Deadline = NO_LIMIT,
    verbose: int = 0,
) -> ColumnMetric:
    """Choose one of the kernels, and learn its metric, by the leave-one-out error of exact fits.

    Scales are learned on a sample of standardised columns, starting from equal ones, and from short ones if those are
    long. They are then shrunk towards equal scales, by the amount that has the least error on other rows. Directions
    start from the learned scales, and are shrunk towards them in the same way.

    Parameters
    ----------
    kernels : sequence of StationaryKernel
        From rough to smooth; their length scales are ignored.
    X : array or CSR matrix of shape (n_samples, n_features)
        A few thousand rows; a tenth as many will do.
    Y : ndarray of shape (n_samples, n_targets)
    weight : ndarray of shape (n_samples,) or None
    metric : {"auto", "isotropic", "diagonal", "full"}
        "auto" is "diagonal", or "isotropic" if one scale for the columns in their own units has less error on the other
        rows. Of rows too few for others, no scales are learned, and equal ones of standardised columns are compared
        with one of the columns in their own units by their leave-one-out errors.
    key : Key
        For the rows of the sample.
    criterion : Criterion
        What is minimised; the default is the leave-one-out error.
    deadline : Deadline
        When to stop and return the best metric found.
    verbose : int
        Above zero, a terminal shows progress.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, Laplacian
    >>> from bochner.tuning.metric_search import search_metric
    >>> from bochner.draws.keys import Key
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> found = search_metric([Laplacian(), RBF()], X, np.sin(2.0 * X[:, 1:2]), metric="diagonal", key=Key(0))
    >>> type(found.kernel).__name__, int(found.weights.argmax())
    ('RBF', 1)
    """
    check_size(X, metric)
    problem = _MetricProblem.of(X, Y, weight, key)
    varying, isotropic = problem.varying, not learns_scales(metric, problem.X)
    one, d = ColumnMetric(kernels[0], np.ones(()), problem.spreads), len(varying)
    if not varying.any():
        return one if isotropic else replace(one, weights=np.eye(d) if metric == "full" else np.ones(d))
    learner = MetricLearner(METRIC, deadline, criterion)
    units = np.full(d, problem.unit) if isotropic else np.where(varying, problem.spreads, 1.0)
    show("metric: equal length scales", verbose > 0)
    few = problem.rows(problem.few, units)
    fresh = problem.rows(problem.fresh, units) if len(problem.fresh) else None
    kernel, known = kernels[-1], list[LearnedMetric]()
    if len(kernels) > 1:
        show("metric: kernels", verbose > 0)
        kernel, known = _best_kernel(learner, kernels, few, per_column=not isotropic)
    one = replace(one, kernel=kernel)
    if isotropic:
        return one
    equal, *known = known or [learner.equal(few, kernel)]
    rows, found = few, equal
    if metric != "auto" or fresh is not None:
        show(f"metric: learned on {len(problem.learn):,} rows", verbose > 0)
        rows = problem.rows(problem.learn, units)
        if len(problem.learn) > len(problem.few):
            found = learner.further(rows, _from_starts(learner, few, fresh, equal, *known))
        else:
            together = replace(METRIC, first_evaluations=METRIC.first_evaluations + METRIC.evaluations)
            found = _from_starts(replace(learner, policy=together), rows, fresh, equal)
    if fresh is not None:
        show(f"metric: compared on {len(fresh.Y):,} rows", verbose > 0)
        found = learner.shrunk(found, equal, fresh)
    if metric == "auto" and _prefers_common_unit(learner, problem, kernel, found):
        return one
    scales = found.kernel.scales(int(varying.sum())) * np.ones(int(varying.sum()))
    if metric != "full":
        return replace(one, weights=problem.weights(1.0 / (_three_digits(scales) * units[varying])))
    U = np.diag(1.0 / scales) if fresh is None else learner.directions(rows, found, fresh)[0]
    return replace(one, weights=problem.weights(_three_digits(U) / units[varying, None]))


@dataclass(frozen=True)
class _MetricProblem:
    """Rows to learn a metric from, sizes of their columns, and a division of the rows.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, n_features)
    Y : ndarray of shape (n, n_targets)
    weight : ndarray of shape (n,) or None
    spreads, sizes : ndarray of shape (n_features,)
        Standard deviations and largest absolute values of the columns.
    few, learn, fresh : ndarray of int
        Rows that first scales are learned on, all rows that scales are learned on, and other rows.
    """

    X: Any
    Y: Array
    weight: Array | None
    spreads: Array
    sizes: Array
    few: Array
    learn: Array
    fresh: Array

    @classmethod
    def of(cls, X: Any, Y: Array, weight: Array | None, key: Key) -> _MetricProblem:
        """Leave out outliers and rows of weight zero, and divide the others at random."""
        positive = slice(None) if weight is None else weight > 0
        X, Y, weight = X[positive], Y[positive], None if weight is None else weight[positive]
        usual = usual_rows(X)  # in the spread of a column with an outlier all other rows are equal
        X, Y, weight = X[usual], Y[usual], None if weight is None else weight[usual] / weight[usual].mean()
        order = key.child("metric").generator().permutation(X.shape[0])
        n_learn, n_fresh = _division(len(order))
        few = order[: min(n_learn, max(METRIC.first_rows, n_learn // 2))]
        return cls(X, Y, weight, *_spreads(X, weight), few, order[:n_learn], order[n_learn : n_learn + n_fresh])

    @property
    def varying(self) -> Array:
        """Columns that are not constant up to rounding."""
        return self.spreads > POLICY.constant * self.sizes

    @property
    def unit(self) -> float:
        """Return the root of the mean variance of the columns."""
        largest = self.spreads.max()  # no overflow
        return float(largest * np.sqrt(np.mean((self.spreads[self.varying] / largest) ** 2)))

    @property
    def same_unit(self) -> bool:
        """True if the spreads of all columns are nearly equal."""
        return bool(np.ptp(self.spreads[self.varying]) <= POLICY.alike * self.spreads.max())

    def rows(self, numbers: Array, units: Array) -> Rows:
        """Return some rows, with the columns that vary centred and divided by units."""
        numbers = np.sort(numbers)
        part = self.X[numbers][:, self.varying]
        part = (part.toarray() if scipy.sparse.issparse(part) else part).astype(np.float64)
        part -= part.mean(axis=0)
        weight = None if self.weight is None else self.weight[numbers]
        return Rows(part / units[self.varying], self.Y[numbers], weight)

    def weights(self, of_varying: Array) -> Array:
        """Return weights of all columns, or a matrix, from those of the columns that vary."""
        weights = np.full(len(self.sizes), POLICY.constant_weight) / np.where(self.sizes > 0, self.sizes, 1.0)
        if of_varying.ndim == 1:
            weights[self.varying] = of_varying
            return weights
        directions = np.diag(weights)
        directions[np.ix_(self.varying, self.varying)] = of_varying
        return directions


def _prefers_common_unit(
    learner: MetricLearner, problem: _MetricProblem, kernel: StationaryKernel, found: LearnedMetric
) -> bool:
    """Return True if one scale for the columns in their own units has less error than the scales found.

    Errors are those on fresh rows, or leave-one-out errors if there are none.
    """
    units = np.full(len(problem.spreads), problem.unit)
    if problem.same_unit:  # the same as equal scales
        return not len(problem.fresh) or bool(np.ptp(found.kernel.scales(int(problem.varying.sum()))) == 0.0)
    own = learner.equal(problem.rows(problem.few, units), kernel)
    if not len(problem.fresh):
        return own.error <= found.error
    return learner.error(own, problem.rows(problem.fresh, units)) < found.error


def _best_kernel(
    learner: MetricLearner, kernels: Sequence[StationaryKernel], rows: Rows, *, per_column: bool
) -> tuple[StationaryKernel, list[LearnedMetric]]:
    """Choose one of the kernels, with the scales that the middle one learns from few rows, up to a common factor.

    If that is the middle one, also return what it has learned: equal scales, and scales of columns learned from them.
    Kernels are ordered from rough to smooth; rough ones beyond one that is no better are left out. The smoothest is
    taken unless another one is clearly better: functions that are nearly linear are learned best with it.
    """
    middle, smooth = len(kernels) // 2, len(kernels) - 1
    known = [learner.equal(rows, kernels[middle])]
    if per_column:
        known.append(learner.first(rows, kernels[middle], known[0]))
    learned = known[-1]
    scales = learned.kernel.scales(rows.X.shape[1]) * np.ones(rows.X.shape[1])
    distance = mean_distance(learned.kernel, rows.X / scales, rows.weight)

    def error(kernel: StationaryKernel) -> float:
        unit = mean_distance(kernel, rows.X / scales, rows.weight) / (distance or 1.0) or 1.0
        start = replace(learned, kernel=with_scales(kernel, unit * scales))
        return learner.learn(rows, kernel, POLICY.kernel_evaluations, start=start, per_column=False).error

    errors = {middle: learned.error, **{i: error(kernels[i]) for i in range(middle + 1, len(kernels))}}
    for i in range(middle - 1, -1, -1):
        errors[i] = error(kernels[i])
        if errors[i] > min(errors.values()):
            break
    best = min(errors, key=errors.__getitem__)
    best = best if errors[best] < POLICY.better * errors[smooth] else smooth
    return kernels[best], known if best == middle else []


def _from_starts(
    learner: MetricLearner,
    rows: Rows,
    fresh: Rows | None,
    equal: LearnedMetric,
    found: LearnedMetric | None = None,
) -> LearnedMetric:
    """Learn scales of columns from equal ones, or from other starts if fresh rows prefer them.

    `found` is what is learned from equal ones, if that is known. With long scales the model is nearly linear, and no
    scale seems to matter, even if some columns do in another way: then short scales are another start. For short scales
    of many columns, however, no row is near another one. If little is explained there are two more starts: scales by
    what each column explains alone, and those of a Laplacian kernel, which is nearly a sum over columns and pairs,
    up to a factor that makes them short.
    """
    X, kernel = rows.X, equal.kernel
    most = 0.5 * mean_distance(kernel, X, rows.weight)
    found = found or learner.first(rows, kernel, equal)
    if fresh is None:
        return found
    starts = []
    if 0.0 < most < float(np.max(kernel.scales(X.shape[1]))):
        starts.append(with_scales(kernel, most))
    if found.error > POLICY.large_error:
        shares = np.maximum(explained_alone(X, rows.Y, rows.weight), POLICY.least_explained)
        halves = np.array([0.5 * mean_distance(kernel, X[:, [j]], rows.weight) for j in range(X.shape[1])])
        halves[halves == 0.0] = 1.0  # columns that are equal in nearly all rows
        starts.append(with_scales(kernel, halves * np.sqrt(shares.max() / shares)))
        rough = learner.first(rows, FAMILIES["laplacian"]).kernel.scales(X.shape[1])
        starts.append(with_scales(kernel, 0.5 * mean_distance(kernel, X / rough, rows.weight) * rough))
    least = learner.error(found, fresh) if starts else 0.0
    for start in starts:
        short = replace(equal, kernel=start, alpha=max(equal.alpha, POLICY.short_alpha))
        other = learner.first(rows, kernel, short)
        reached = learner.error(other, fresh)
        if reached < POLICY.better * least:
            found, least = other, reached
    return found


def explained_alone(X: Array, Y: Array, weight: Array | None = None) -> Array:
    """Return the share of the variance of Y (n, k) that each column of X (n, d) explains by itself, (d,).

    Each row is predicted by the mean of the other rows with values nearby; shares of columns that say nothing are below
    zero.
    """
    Y, w, shares = standardised(Y, weight), np.ones(len(X)) if weight is None else weight, []
    for column in X.T:
        edges = np.unique(np.quantile(column, np.arange(1, POLICY.groups) / POLICY.groups))
        groups = np.searchsorted(edges, column)
        totals = np.bincount(groups, w)
        sums = np.array([np.bincount(groups, w * y) for y in Y.T]).T
        errors = leave_one_out(Y - sums[groups] / totals[groups, None], w / totals[groups], 1.0 / len(X))
        shares.append(1.0 - np.average((errors**2).mean(axis=1), weights=w))
    return np.array(shares)


def check_size(X: Any, metric: str) -> None:
    """Refuse rows with too many columns to learn a metric."""
    n, d = min(X.shape[0], POLICY.sample_rows), X.shape[1]
    if metric == "full" and scipy.sparse.issparse(X):
        raise ValueError(
            "metric='full' has directions across columns, along which sparse rows are not sparse; use "
            "metric='diagonal', or give the rows as an array."
        )
    if metric == "full" and d > METRIC.most_directions:
        raise ValueError(
            f"metric='full' would learn {d} × {d} numbers from {n} rows; it takes up to {METRIC.most_directions} "
            "columns. Use metric='diagonal', or fewer columns (RandomProjection, or scikit-learn's PCA, before)."
        )
    if metric == "diagonal" and n * d > POLICY.most_numbers:
        raise ValueError(
            f"metric='diagonal' would learn scales of {d} columns from {n} rows. Use metric='isotropic', or fewer "
            "columns (RandomProjection, or scikit-learn's TruncatedSVD, before)."
        )


def _division(n: int) -> tuple[int, int]:
    """Numbers of rows to learn on and to compare on."""
    n_fresh = min(POLICY.sample_rows, max(n - POLICY.sample_rows, n // 3))
    return (min(POLICY.sample_rows, n - n_fresh), n_fresh) if n_fresh >= METRIC.fresh_rows else (n, 0)


def _spreads(X: Any, weight: Array | None) -> tuple[Array, Array]:
    """Standard deviations of the columns, and the largest absolute values, the units in which squares are taken."""
    sizes = abs(X).max(axis=0)
    sizes = np.asarray(sizes.toarray() if scipy.sparse.issparse(sizes) else sizes, dtype=np.float64).ravel()
    units = np.where(sizes > 0, sizes, 1.0)
    w = np.full(X.shape[0], 1.0 / X.shape[0]) if weight is None else weight / weight.sum()
    if scipy.sparse.issparse(X):
        Z = X.multiply(1.0 / units).tocsr()
        mean = np.asarray(w @ Z).ravel()
        variance = np.maximum(np.asarray(w @ Z.multiply(Z).tocsr()).ravel() - mean**2, 0.0)
        variance[variance < 1e-14] = 0.0  # the rounding error for constant columns
    else:
        Z = X / units
        variance = w @ (Z - w @ Z) ** 2
    return np.sqrt(variance) * units, sizes


def _three_digits(values: Array) -> Array:
    """Three digits: more than the data determine, and few enough not to depend on where a search stopped."""
    digits = 10.0 ** (np.floor(np.log10(np.maximum(np.abs(values), 1e-300))) - 2.0)
    return np.asarray(np.rint(values / digits) * digits)
