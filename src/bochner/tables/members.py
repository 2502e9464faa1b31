"""The members of a table model: kernels and scalings are screened on a sample, the best are fitted and averaged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from bochner.backends import Array, backend_of, n_threads
from bochner.backends.threads import each
from bochner.data.execution import Execution
from bochner.data.progress import Progress
from bochner.draws.keys import Key
from bochner.estimators.ridge import KernelRidge
from bochner.features.nystrom import Nystrom
from bochner.kernels.stationary import StationaryKernel
from bochner.landmarks.grams import row_slices
from bochner.ridge.dense import LEAST_WEIGHT, exact_ridge
from bochner.ridge.solvers import Cholesky
from bochner.ridge.spectrum import leave_one_out
from bochner.tables.leaves import LocalModel, Tree, fit_leaves, grow_tree, in_threads, placed
from bochner.tables.plans import Clock, Plan, overlap, smaller_leaves
from bochner.tables.scaling import Scaling, scale_columns
from bochner.tuning.metrics import LearnedMetric, deviations, importances, learn_directions, learn_metric, shrink_metric
from bochner.tuning.policies import MetricPolicy, TablePolicy

SCALINGS = {"standard": False, "quantile": True}  # whether columns are replaced by ranks
POLICY, METRIC = TablePolicy(), MetricPolicy.for_tables()


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
        """The leaves that rows fall in."""
        return self.model.tree.leaves(self.scaling(A))

    def homes(self, n: int) -> Array:
        """The leaves that the n rows of `fit` fall in; a model of several leaves is made of these rows."""
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
    """

    members: tuple[Member, ...]
    left_out: Array
    unseen: Array
    held_out: Array
    importances: Array
    tried: dict[tuple[str, str], float]
    leaf_sizes: tuple[int, ...]


@dataclass(frozen=True)
class _Fitted:
    """A member with its leave-one-out predictions, the shares of the columns in its distances, and sizes of leaves."""

    member: Member
    left_out: Array
    columns: Array
    sizes: tuple[int, ...]


def fit_members(
    A: Array,
    Y: Array,
    weight: Array,
    plan: Plan,
    *,
    families: Sequence[str],
    scalings: Sequence[str],
    metric: str,
    key: Key,
    clock: Clock,
    progress: Progress,
    keeps_size: bool = False,
    device: str | None = None,
    workers: Execution | None = None,
) -> Members:
    """Choose among kernels and scalings, and fit local models of the best.

    Parameters
    ----------
    A : ndarray of shape (n, d)
        The columns of a table as numbers.
    Y : ndarray of shape (n, k)
    weight : ndarray of shape (n,)
        Of mean one.
    plan : Plan
    families, scalings : sequences of str
        To choose from.
    metric : {"auto", "diagonal", "full"}
    key : Key
    clock : Clock
    progress : Progress
    keeps_size : bool
        Whether the size of leaves was given, so that it is kept even if time runs out.
    device : str or None
        Where metrics are learned and leaves fitted.
    workers : Execution or None
        If given, leaves are fitted by the workers of a Dask client.
    """
    maps = {name: scale_columns(A, weight, ranked=SCALINGS[name]) for name in scalings}
    few, many, fresh = draw_samples(
        weight, (min(METRIC.first_rows, plan.metric_rows), plan.metric_rows), key.child("sample")
    )
    tried: dict[tuple[str, str], LearnedMetric] = {}
    learned: dict[tuple[str, str], LearnedMetric] = {}
    equal: dict[tuple[str, str], LearnedMetric] = {}

    def rows_of(way: str, sample: Sample) -> Any:
        return placed(maps[way](A[sample.rows]), device)

    def screen(name: tuple[str, str]) -> None:
        X = rows_of(name[0], few)
        sample = X, Y[few.rows], name[1], few.weight
        tried[name] = learn_metric(*sample, max_evaluations=METRIC.first_evaluations, until=clock.learned_by)
        progress.advance(0)

    def learn(name: tuple[str, str]) -> None:
        way, family = name
        learned[name] = tried[name]
        if len(many.rows) > len(few.rows):
            sample = rows_of(way, many), Y[many.rows], family, many.weight
            limits: dict[str, Any] = {"max_evaluations": METRIC.evaluations, "until": clock.learned_by}
            learned[name] = learn_metric(*sample, start=tried[name], **limits)
        progress.advance(0)

    def learn_equal(name: tuple[str, str]) -> None:
        way, family = name
        sample = rows_of(way, few), Y[few.rows], family, few.weight
        limits: dict[str, Any] = {"max_evaluations": METRIC.first_evaluations, "until": clock.learned_by}
        equal[name] = learn_metric(*sample, per_column=False, **limits)

    def shrink(name: tuple[str, str]) -> None:
        sample = rows_of(name[0], fresh), Y[fresh.rows], fresh.weight
        learned[name] = shrink_metric(learned[name], equal[name], *sample)

    def best(n_best: int) -> list[tuple[str, str]]:
        return sorted(tried, key=lambda name: (tried[name].error, name))[:n_best]

    in_threads(screen, [(scalings[0], family) for family in families], device)
    for way in scalings[1:]:  # for the best kernels only
        in_threads(screen, [(way, family) for _, family in best(max(2, plan.n_members))], device)
    # a full metric has d² parameters, so it is compared with the others on rows that none was learned on
    directions = metric == "full" or (
        metric == "auto"
        and plan.n_members > 1
        and A.shape[1] <= METRIC.most_directions
        and len(A) >= 2 * len(many.rows)
    )
    if clock.is_late():
        clock.note("scales of columns were learned on a smaller sample, in fewer steps, for one member")
    progress.label = "scales of columns"
    ranking = best(1 if clock.is_late() else max(1, plan.n_members - directions))
    round_ones = [name for name in best(len(tried)) if name[1] != "laplacian"]
    if clock.is_late():
        learned.update({name: tried[name] for name in ranking})
    else:
        jobs = [(learn, name) for name in ranking]
        if len(fresh.rows) >= METRIC.fresh_rows:
            jobs += [(learn_equal, name) for name in ranking]
        in_threads(lambda job: job[0](job[1]), jobs, device)
        if equal and not clock.is_late():
            in_threads(shrink, ranking, device)
        if clock.is_late():
            clock.note("scales of columns were learned in fewer steps")
    candidates = [(f"{family} kernel of {way} columns", maps[way], learned[way, family]) for way, family in ranking]
    if directions and round_ones and not clock.is_late():
        way, family = round_ones[0]
        start = {**tried, **learned}[way, family]
        sample = rows_of(way, many), Y[many.rows]
        limits: dict[str, Any] = {"max_evaluations": METRIC.evaluations, "until": clock.learned_by}
        U, found = learn_directions(*sample, start, many.weight, **limits)
        candidates.append((f"{family} kernel of directions of {way} columns", replace(maps[way], directions=U), found))
    scaled: dict[int, Array] = {}  # rows that several members share are in memory once
    for _, scaling, _ in candidates:
        if id(scaling) not in scaled:
            scaled[id(scaling)] = scaling(A)
    leaf_size, taken = plan.leaf_size, 0.0
    if not keeps_size and device is None and workers is None and len(A) > leaf_size:
        seconds = _ridge_seconds(candidates[0][2], candidates[0][1](A[many.rows]), Y[many.rows])
        leaf_size = smaller_leaves(leaf_size, len(A), seconds / n_threads(), len(many.rows), max(clock.left(), 0.0))
        if leaf_size < plan.leaf_size:
            clock.note(f"leaves have {leaf_size} rows instead of {plan.leaf_size}")
    progress.label, progress.total = "leaves", len(candidates) * len(A)
    fitted: dict[int, _Fitted] = {}

    def fit_locally(number: int) -> None:
        nonlocal taken
        if taken > max(clock.left(), 0.0):
            return
        begun, (name, scaling, found) = time.perf_counter(), candidates[number]
        X = scaled[id(scaling)]
        scales = found.kernel.scales(X.shape[1])
        tree, rows = grow_tree(X, np.ones(X.shape[1]) / scales, leaf_size, overlap(len(X), leaf_size))
        model, errors = fit_leaves(
            X, Y, found.kernel, found.alpha, tree, rows, weight, device, workers, progress.advance
        )
        taken = time.perf_counter() - begun
        columns = _column_weights(scaling, found, A, X, weight)
        fitted[number] = _Fitted(Member(name, scaling, model, 1.0), Y - errors, columns, tuple(map(len, rows)))

    def fit_landmarks(number: int) -> None:
        if clock.is_late():
            return
        progress.label = "landmarks"
        name, scaling, found = candidates[0]
        X, name = scaled[id(scaling)], f"{plan.n_landmarks} landmarks of the {name}"
        seed = int(key.child("landmarks").generator().integers(2**31))
        model, errors = fit_globally(X, Y, found.kernel, plan.n_landmarks, weight, device=device, random_state=seed)
        columns = _column_weights(scaling, found, A, X, weight)
        fitted[number] = _Fitted(Member(name, scaling, model, 1.0), Y - errors, columns, (len(A),))

    fits = [fit_locally] * len(candidates) + [fit_landmarks] * bool(plan.n_landmarks)
    # while a device works on the leaves of one member, the rows of another are divided and copied
    each(lambda number: fits[number](number), range(len(fits)), 1 if device is None else POLICY.members_on_device)
    n_fitted = sum(number in fitted for number in range(len(candidates)))
    if n_fitted < len(candidates):
        clock.note(f"{n_fitted} of {len(candidates)} members were fitted")
        progress.total = progress.done
    parts = [fitted[number] for number in sorted(fitted)]
    unseen = np.setdiff1d(np.arange(len(A)), many.rows)
    unseen = unseen if weight[unseen].sum() >= POLICY.unseen_rows else unseen[:0]  # heavy rows tend to be sampled
    judged = unseen if len(unseen) else slice(None)
    units = scale_columns(Y, weight, ranked=False).sizes  # so that shares do not depend on units
    residuals = [(Y[judged] - part.left_out[judged]) / units for part in parts]
    shares = _shares(residuals, weight[judged])
    order = [int(i) for i in np.argsort(-shares, kind="stable") if shares[i] > 0]
    held_out = np.empty((len(unseen), Y.shape[1]))
    for half in (0, 1) if len(unseen) else ():  # each with the shares that are best for the other
        own, others = slice(half, None, 2), slice(1 - half, None, 2)
        found_shares = _shares([residual[others] for residual in residuals], weight[unseen[others]])
        held_out[own] = np.einsum("m,mij->ij", found_shares, np.array([part.left_out[unseen[own]] for part in parts]))
    return Members(
        tuple(replace(parts[i].member, share=float(shares[i])) for i in order),
        np.einsum("m,mij->ij", shares, np.array([part.left_out for part in parts])),
        unseen,
        held_out,
        shares @ np.array([part.columns for part in parts]),
        {name: found.error for name, found in tried.items()},
        max((parts[i].sizes for i in order), key=len),
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
    """A model of all rows with some of them as landmarks, as a tree of one leaf, and its leave-one-out errors (n, k).

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


def _ridge_seconds(metric: LearnedMetric, X: Array, Y: Array) -> float:
    """How long fitting an exact model takes on this machine."""
    begun = time.perf_counter()
    exact_ridge(metric.kernel(X), Y, metric.alpha)
    return time.perf_counter() - begun


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
    """A small sample, a larger one that contains it, and a third of other rows, as large as the second.

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


def _column_weights(scaling: Scaling, metric: LearnedMetric, A: Array, X: Array, weight: Array) -> Array:
    """The share of each column in the distances of a member; with directions, its contribution to their lengths."""
    if scaling.directions is None:
        return importances(metric, X, weight)
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
