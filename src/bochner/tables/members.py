"""The members of a table model: kernels and scalings are screened on a sample, the best are fitted and averaged."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.optimize import nnls

from bochner.backends import Array, backend_of, n_threads
from bochner.backends.threads import each
from bochner.data.execution import Execution
from bochner.data.progress import Progress, Stopwatch
from bochner.draws.keys import Key
from bochner.estimators.ridge import KernelRidge
from bochner.features.nystrom import Nystrom
from bochner.kernels.stationary import StationaryKernel
from bochner.landmarks.grams import row_slices
from bochner.ridge.dense import LEAST_WEIGHT, exact_ridge
from bochner.ridge.solvers import Cholesky
from bochner.ridge.spectrum import leave_one_out
from bochner.tables.leaves import LocalModel, Tree, fit_leaves, grow_tree, in_threads, placed
from bochner.tables.plans import Plan, late_note, overlap, smaller_leaves
from bochner.tables.scaling import Scaling, scale_columns
from bochner.tuning.deadline import Deadline
from bochner.tuning.metrics import FAMILIES, LearnedMetric, MetricLearner, Rows, deviations, importances
from bochner.tuning.policies import MetricPolicy, TablePolicy

SCALINGS = {"standard": False, "quantile": True}  # whether columns are replaced by ranks
POLICY, METRIC = TablePolicy(), MetricPolicy.for_tables()
Name = tuple[str, str]  # a scaling and a kernel
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Member:
    """One local model on the scaled columns, and its share in the prediction."""

    name: str
    scaling: Scaling
    model: LocalModel
    share: float

    def predict(self, A: Array, device: str | None = None) -> Array:
        """Predictions (n, k) for rows of the numeric columns."""
        return self.model.predict(self.scaling(A), device)

    def leaves(self, A: Array) -> Array:
        """Return the leaves that rows fall in."""
        return self.model.tree.leaves(self.scaling(A))

    def homes(self, n: int) -> Array:
        """Return the leaves that the n rows of `fit` fall in; a model of several leaves is made of these rows."""
        tree = self.model.tree
        return np.zeros(n, dtype=np.intp) if tree.n_leaves == 1 else tree.leaves(self.model.points)


@dataclass(frozen=True)
class Members:
    """The result of `fit_members`.

    Attributes
    ----------
    members : tuple of Member
        In the order of their shares, the largest first.
    left_out : ndarray of shape (n, k)
        Leave-one-out predictions.
    unseen : ndarray of int
        Rows that no metric was learned on; empty if their weight is small.
    held_out : ndarray of shape (n_unseen, k)
        Leave-one-out predictions of these rows, with shares that other rows chose.
    importances : ndarray of shape (d,)
        The share of each column in the distances.
    tried : dict
        Leave-one-out mean squared error on the sample for screening, by (scaling, kernel).
    leaf_sizes : tuple of int
        Leaf sizes of the member with the most leaves.
    notes : tuple of str
        What there was no time for.
    """

    members: tuple[Member, ...]
    left_out: Array
    unseen: Array
    held_out: Array
    importances: Array
    tried: dict[Name, float]
    leaf_sizes: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Fitted:
    """A member with its leave-one-out predictions, the shares of the columns in its distances, and sizes of leaves."""

    member: Member
    left_out: Array
    columns: Array
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class TableTask:
    """A table as numbers, and what fits of its members need.

    Attributes
    ----------
    A : ndarray of shape (n, d)
    Y : ndarray of shape (n, k)
    weight : ndarray of shape (n,)
        Weights of mean one.
    plan : Plan
    key : Key
    deadline : Deadline
    progress : Progress
    device : str or None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are.
    workers : Execution or None
        If given, leaves are fitted by the workers of a Dask client.
    """

    A: Array
    Y: Array
    weight: Array
    plan: Plan
    key: Key
    deadline: Deadline
    progress: Progress
    device: str | None = None
    workers: Execution | None = None

    @property
    def learning(self) -> Deadline:
        """When no further metric is learned."""
        return self.deadline.share(POLICY.learned_share)


@dataclass(frozen=True)
class _Learning:
    """Scalings of a table, and samples of its rows that metrics are learned and compared on."""

    task: TableTask
    maps: dict[str, Scaling]
    few: Sample
    many: Sample
    fresh: Sample
    learner: MetricLearner

    @classmethod
    def of(cls, task: TableTask, scalings: Sequence[str]) -> _Learning:
        """Scale the columns, and draw the samples."""
        maps = {name: scale_columns(task.A, task.weight, ranked=SCALINGS[name]) for name in scalings}
        most = task.plan.metric_rows
        samples = draw_samples(task.weight, (min(METRIC.first_rows, most), most), task.key.child("sample"))
        return cls(task, maps, *samples, MetricLearner(METRIC, task.learning))

    def rows(self, way: str, sample: Sample) -> Rows:
        """Return the scaled rows of a sample."""
        X = placed(self.maps[way](self.task.A[sample.rows]), self.task.device)
        return Rows(X, self.task.Y[sample.rows], sample.weight)

    def first(self, name: Name) -> LearnedMetric:
        """Learn scales of columns on few rows."""
        return self.learner.first(self.rows(name[0], self.few), FAMILIES[name[1]])

    def equal(self, name: Name) -> LearnedMetric:
        """Learn a common scale on few rows."""
        return self.learner.equal(self.rows(name[0], self.few), FAMILIES[name[1]])

    def of_all(self, work: Callable[[T], LearnedMetric], names: Sequence[T]) -> dict[T, LearnedMetric]:
        """Call a function for several names, with one thread for each."""

        def counted(name: T) -> LearnedMetric:
            metric = work(name)
            self.task.progress.advance(0)
            return metric

        return dict(zip(names, in_threads(counted, names, self.task.device), strict=True))


@dataclass(frozen=True)
class _Candidate:
    """A kernel with its metric on scaled columns."""

    name: str
    scaling: Scaling
    metric: LearnedMetric


def fit_members(
    task: TableTask, *, families: Sequence[str], scalings: Sequence[str], metric: str, keeps_size: bool = False
) -> Members:
    """Choose among kernels and scalings, and fit local models of the best.

    Parameters
    ----------
    task : TableTask
    families, scalings : sequences of str
        Names to choose from.
    metric : {"auto", "diagonal", "full"}
    keeps_size : bool
        Whether the size of leaves was given, so that it is kept even if time runs out.
    """
    learning = _Learning.of(task, scalings)
    tried = _screen(learning, families, scalings)
    candidates, notes = _candidates(learning, tried, metric)
    size = task.plan.leaf_size
    if not keeps_size and task.device is None and task.workers is None and len(task.A) > size:
        size = _affordable_leaves(task, candidates[0], learning.many.rows)
    if size < task.plan.leaf_size:
        notes.append(late_note(f"leaves have {size} rows instead of {task.plan.leaf_size}"))
    parts, n_local = _fit_parts(task, candidates, size)
    if n_local < len(candidates):
        notes.append(late_note(f"{n_local} of {len(candidates)} members were fitted"))
        task.progress.total = task.progress.done
    errors = {name: found.error for name, found in tried.items()}
    return _average(task, parts, np.setdiff1d(np.arange(len(task.A)), learning.many.rows), errors, tuple(notes))


def _best(tried: dict[Name, LearnedMetric], n_best: int) -> list[Name]:
    return sorted(tried, key=lambda name: (tried[name].error, name))[:n_best]


def _screen(learning: _Learning, families: Sequence[str], scalings: Sequence[str]) -> dict[Name, LearnedMetric]:
    """Learn metrics of all kernels with the first scaling, and of the best kernels with the others."""
    tried = learning.of_all(learning.first, [(scalings[0], family) for family in families])
    for way in scalings[1:]:
        best = _best(tried, max(2, learning.task.plan.n_members))
        tried |= learning.of_all(learning.first, [(way, family) for _, family in best])
    return tried


def _candidates(
    learning: _Learning, tried: dict[Name, LearnedMetric], metric: str
) -> tuple[list[_Candidate], list[str]]:
    """Choose the members, and learn their metrics on more rows; also return notes about what there was no time for."""
    task, many, notes = learning.task, learning.many, list[str]()
    (n, d), n_members, late = task.A.shape, task.plan.n_members, task.learning.is_late()
    # a full metric has d² parameters, so it is compared with the others on rows that none was learned on
    fits = n_members > 1 and d <= METRIC.most_directions and n >= 2 * len(many.rows)
    directions = metric == "full" or (metric == "auto" and fits)
    task.progress.label = "scales of columns"
    names = _best(tried, 1 if late else max(1, n_members - directions))
    round_ones = [name for name in _best(tried, len(tried)) if name[1] != "laplacian"]
    if late:
        notes.append(late_note("scales of columns were learned on a smaller sample, in fewer steps, for one member"))
    learned = {name: tried[name] for name in names} if late else _learn(learning, tried, names)
    if not late and task.learning.is_late():
        notes.append(late_note("scales of columns were learned in fewer steps"))
    candidates = [
        _Candidate(f"{family} kernel of {way} columns", learning.maps[way], learned[way, family])
        for way, family in names
    ]
    if directions and round_ones and not task.learning.is_late():
        way, family = round_ones[0]
        U, full = learning.learner.directions(learning.rows(way, many), {**tried, **learned}[way, family], None)
        name = f"{family} kernel of directions of {way} columns"
        candidates.append(_Candidate(name, replace(learning.maps[way], directions=U), full))
    return candidates, notes


def _learn(learning: _Learning, tried: dict[Name, LearnedMetric], names: list[Name]) -> dict[Name, LearnedMetric]:
    """Learn metrics on more rows, and shrink them towards equal scales by their error on fresh rows."""
    learner, many, fresh = learning.learner, learning.many, learning.fresh
    compares, more = len(fresh.rows) >= METRIC.fresh_rows, len(many.rows) > len(learning.few.rows)

    def learned(name: Name) -> LearnedMetric:
        return learner.further(learning.rows(name[0], many), tried[name]) if more else tried[name]

    works = {"learned": learned, "equal": learning.equal}
    jobs = [(work, name) for work in works if compares or work == "learned" for name in names]
    found = learning.of_all(lambda job: works[job[0]](job[1]), jobs)
    if not compares or learning.task.learning.is_late():
        return {name: found["learned", name] for name in names}
    return learning.of_all(
        lambda name: learner.shrunk(found["learned", name], found["equal", name], learning.rows(name[0], fresh)), names
    )


def _affordable_leaves(task: TableTask, candidate: _Candidate, rows: Array) -> int:
    """Return the leaf size that the time left allows, judged by the fit of an exact model of some rows."""
    X, clock = candidate.scaling(task.A[rows]), Stopwatch()
    exact_ridge(candidate.metric.kernel(X), task.Y[rows], candidate.metric.alpha)
    seconds = clock.seconds() / n_threads()
    return smaller_leaves(task.plan.leaf_size, len(task.A), seconds, len(rows), max(task.deadline.left(), 0.0))


def _fit_parts(task: TableTask, candidates: list[_Candidate], leaf_size: int) -> tuple[list[_Fitted], int]:
    """Fit the candidates and the model of all rows, as far as time allows; also return how many candidates were."""
    scaled: dict[int, Array] = {}  # rows that several members share are in memory once
    for candidate in candidates:
        if id(candidate.scaling) not in scaled:
            scaled[id(candidate.scaling)] = candidate.scaling(task.A)
    task.progress.label, task.progress.total = "leaves", len(candidates) * len(task.A)
    parts: list[_Fitted | None] = [None] * (len(candidates) + bool(task.plan.n_landmarks))
    seconds = [0.0]  # how long each fit took

    def fit(number: int) -> None:
        if number == len(candidates):
            if not task.learning.is_late():
                parts[number] = _fit_landmarks(task, candidates[0], scaled[id(candidates[0].scaling)])
        elif seconds[-1] <= max(task.deadline.left(), 0.0):
            clock, candidate = Stopwatch(), candidates[number]
            parts[number] = _fit_locally(task, candidate, scaled[id(candidate.scaling)], leaf_size)
            seconds.append(clock.seconds())

    # while a device works on the leaves of one member, the rows of another are divided and copied
    each(fit, range(len(parts)), 1 if task.device is None else POLICY.members_on_device)
    return [part for part in parts if part is not None], len(seconds) - 1


def _fit_locally(task: TableTask, candidate: _Candidate, X: Array, leaf_size: int) -> _Fitted:
    """Fit an exact model in each leaf."""
    kernel, alpha, d = candidate.metric.kernel, candidate.metric.alpha, X.shape[1]
    tree, rows = grow_tree(X, np.ones(d) / kernel.scales(d), leaf_size, overlap(len(X), leaf_size))
    model, errors = fit_leaves(
        X, task.Y, kernel, alpha, tree, rows, task.weight, task.device, task.workers, task.progress.advance
    )
    columns = _column_weights(candidate, task.A, X, task.weight)
    return _Fitted(Member(candidate.name, candidate.scaling, model, 1.0), task.Y - errors, columns, (*map(len, rows),))


def _fit_landmarks(task: TableTask, candidate: _Candidate, X: Array) -> _Fitted:
    """Fit a model of all rows with some of them as landmarks."""
    task.progress.label = "landmarks"
    n_landmarks, kernel = task.plan.n_landmarks, candidate.metric.kernel
    seed = int(task.key.child("landmarks").generator().integers(2**31))
    model, errors = fit_globally(X, task.Y, kernel, n_landmarks, task.weight, device=task.device, random_state=seed)
    member = Member(f"{n_landmarks} landmarks of the {candidate.name}", candidate.scaling, model, 1.0)
    return _Fitted(member, task.Y - errors, _column_weights(candidate, task.A, X, task.weight), (len(task.A),))


def _average(
    task: TableTask, parts: list[_Fitted], unseen: Array, tried: dict[Name, float], notes: tuple[str, ...]
) -> Members:
    """Average the members with the shares of least leave-one-out error, on unseen rows if their weight allows."""
    Y, weight = task.Y, task.weight
    unseen = unseen if weight[unseen].sum() >= POLICY.unseen_rows else unseen[:0]  # heavy rows tend to be sampled
    judged = unseen if len(unseen) else slice(None)
    units = scale_columns(Y, weight, ranked=False).sizes  # so that shares do not depend on units
    residuals = [(Y[judged] - part.left_out[judged]) / units for part in parts]
    shares = _shares(residuals, weight[judged])
    order = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    held_out = np.empty((len(unseen), Y.shape[1]))
    for half in (0, 1) if len(unseen) else ():  # each with the shares that are best for the other
        own, others = slice(half, None, 2), slice(1 - half, None, 2)
        found = _shares([residual[others] for residual in residuals], weight[unseen[others]])
        held_out[own] = np.einsum("m,mij->ij", found, np.array([part.left_out[unseen[own]] for part in parts]))
    return Members(
        tuple(replace(parts[i].member, share=float(shares[i])) for i in order),
        np.einsum("m,mij->ij", shares, np.array([part.left_out for part in parts])),
        unseen,
        held_out,
        shares @ np.array([part.columns for part in parts]),
        tried,
        max((parts[i].sizes for i in order), key=len),
        notes,
    )


def fit_globally(
    X: Array,
    Y: Array,
    kernel: StationaryKernel,
    n_landmarks: int,
    weight: Array,
    *,
    device: str | None = None,
    random_state: int | None = None,
) -> tuple[LocalModel, Array]:
    """Fit a model of all rows, with some of them as landmarks, and return its leave-one-out errors (n, k) as well.

    It averages noise over all rows, where the model of a leaf has its own rows alone. It is not the model that users
    fit, so that `partial_fit` is called, which does not warn if it is no better than a constant.
    """
    ridge = KernelRidge(
        kernel=kernel,
        features="nystrom",
        n_components=n_landmarks,
        alpha="loo",
        device=device,
        random_state=random_state,
    ).partial_fit(X, Y, weight)
    nystrom, sums = ridge.feature_map_, ridge.statistics_
    assert isinstance(nystrom, Nystrom)
    used = len(nystrom.root)
    model = LocalModel(
        Tree(np.array([-1]), np.zeros(1), np.zeros((1, 2), dtype=np.intp)),
        kernel,
        np.asarray(nystrom.landmarks),
        np.arange(used),
        np.array([0, used]),
        nystrom.root @ ridge.component_weights_.reshape(Y.shape[1], -1).T[: nystrom.rank],
        np.reshape(ridge.intercept_, (1, -1)),
    )
    L, like = Cholesky().factor(sums.operator(True), ridge.alpha_).L, placed(X[:1], device)
    backend = backend_of(like)
    M = backend.fetch(backend.triangular_inverse(backend.place(L, like)))[: nystrom.rank, : nystrom.rank]
    whitened = replace(nystrom, root=nystrom.root @ M.T)  # features with a second root, in one product
    centre = backend.place(M @ sums.feature_mean[: nystrom.rank], like)
    leverage = np.empty(len(X))
    for rows in row_slices(len(X), nystrom.n_components):
        Z = whitened(placed(X[rows], device))[:, : nystrom.rank] - centre
        leverage[rows] = backend.fetch((Z * Z).sum(1)) + 1.0 / sums.weight
    residual = Y - model.predict(X, device)
    return model, leave_one_out(residual[:, None, :], (weight * leverage)[:, None])[:, 0, :]


@dataclass(frozen=True)
class Sample:
    """Rows, and how much weight each of them represents."""

    rows: Array
    totals: Array

    @property
    def weight(self) -> Array:
        """Weights of mean one."""
        return np.asarray(self.totals / self.totals.mean())


def draw_samples(weight: Array, sizes: tuple[int, int], key: Key) -> tuple[Sample, Sample, Sample]:
    """Draw a small sample, a larger one that contains it, and a third of other rows, as large as the second.

    Rows are ordered by exponential random times with their weights as rates, so that heavy ones tend to come first, and
    each represents one over its probability of being sampled (Efraimidis & Spirakis 2006; Horvitz & Thompson 1952).
    """
    times = key.generator().standard_exponential(len(weight)) / np.maximum(weight, LEAST_WEIGHT)
    order = np.argsort(times, kind="stable")

    def sample(start: int, stop: int) -> Sample:
        rows = np.sort(order[start:stop])
        since = times[order[start - 1]] if 0 < start <= len(order) else 0.0
        until = times[order[stop]] if stop < len(order) else np.inf
        w = np.maximum(weight[rows], LEAST_WEIGHT)
        return Sample(rows, w / -np.expm1(-w * (until - since)))

    return sample(0, sizes[0]), sample(0, sizes[1]), sample(sizes[1], 2 * sizes[1])


def _column_weights(candidate: _Candidate, A: Array, X: Array, weight: Array) -> Array:
    """Return the share of each column in the distances; with directions, its contribution to their lengths."""
    scaling = candidate.scaling
    if scaling.directions is None:
        return importances(candidate.metric, X, weight)
    weights = np.linalg.norm(scaling.directions, axis=1) * deviations(replace(scaling, directions=None)(A), weight)
    total = float(weights.sum())
    return np.asarray(weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights)))


def _shares(residuals: list[Array], weight: Array) -> Array:
    """Shares of the members, with sum one, of least leave-one-out error."""
    if len(residuals) == 1:
        return np.ones(1)
    # as shares sum to one, the residual of the average is the average of the residuals
    R = np.column_stack([(np.sqrt(weight)[:, None] * residual).ravel() for residual in residuals])
    R = np.asarray(np.linalg.qr(R, mode="r"))  # of the same norms
    heavy = 1e3 * (float(np.linalg.norm(R)) or 1.0)  # the weight of the equation that shares sum to one
    shares = nnls(np.vstack([R, np.full(R.shape[1], heavy)]), np.r_[np.zeros(len(R)), heavy])[0]
    shares[shares < POLICY.least_share * shares.sum()] = 0.0
    total = shares.sum()
    return np.asarray(shares / total if total > 0 else np.full(len(shares), 1.0 / len(shares)))
