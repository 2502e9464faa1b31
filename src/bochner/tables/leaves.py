"""Local models: a tree divides the rows into leaves, and each leaf has an exact kernel ridge regression of its own.

The spectra of rough kernels decay so slowly that a few thousand components do not approximate them; an exact model of a
few thousand nearby rows needs no approximation. The cost is linear in the number of rows, and each thread has the
kernel matrix of one leaf in memory at a time; rows that are all equal, which no cut separates, need none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from bochner.backends import Array, backend_of, limit_threads, n_threads
from bochner.backends.threads import each, one_thread
from bochner.data.devices import open_device
from bochner.data.execution import Execution
from bochner.data.validation import dask
from bochner.kernels.stationary import StationaryKernel
from bochner.ridge.dense import LEAST_WEIGHT, exact_ridge
from bochner.ridge.spectrum import leave_one_out
from bochner.tuning.policies import TablePolicy

POLICY = TablePolicy()
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Tree:
    """Cuts x_column <= cut, and a number for each leaf.

    Attributes
    ----------
    columns : ndarray of int, shape (n_nodes,)
        -1 in a leaf.
    cuts : ndarray of shape (n_nodes,)
    children : ndarray of int, shape (n_nodes, 2)
        The nodes for rows at or below the cut and above it; for a leaf, its number twice.
    """

    columns: Array
    cuts: Array
    children: Array

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.columns < 0))

    def leaves(self, X: Array) -> Array:
        """Return the number of the leaf of each row, (n,)."""
        nodes = np.zeros(len(X), dtype=np.intp)
        active = np.arange(len(X)) if self.columns[0] >= 0 else np.arange(0)
        while len(active):
            node = nodes[active]
            above = X[active, self.columns[node]] > self.cuts[node]
            nodes[active] = self.children[node, above.astype(np.intp)]
            active = active[self.columns[nodes[active]] >= 0]
        return np.asarray(self.children[nodes, 0])


def grow_tree(X: Array, weights: Array, leaf_size: int, overlap: float = 0.0) -> tuple[Tree, list[Array]]:
    """Cut the rows at medians, each time of the column with the largest weighted spread.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (d,)
        One over the length scale of each column.
    leaf_size : int
        A node with more rows than this is cut, unless its own rows are all equal; `fit_leaves` needs no kernel matrix
        of such rows.
    overlap : float
        Each side of a cut also learns from this share (below one) of the rows on the other side, those nearest to the
        cut, so that the models of neighbouring leaves agree near their border. Such rows count, but are not cut: every
        leaf has rows of its own.

    Returns
    -------
    tree : Tree
    members : list of ndarray
        Rows that each leaf learns from.
    """
    columns: list[int] = []
    cuts: list[float] = []
    children: list[tuple[int, int]] = []
    members: list[Array] = []
    rows = np.arange(len(X), dtype=np.int32 if len(X) < 2**31 else np.int64)
    # the nodes of a level: rows of their own, which are cut, and rows lent by neighbours. No recursion: where most
    # entries are zero, a cut may separate a few rows only, and a path has thousands of nodes.
    level: list[tuple[Array, Array]] = [(rows, rows[:0])]
    while level:
        divided: list[Any] = [None] * len(level)

        def divide(number: int, level: Any = level, divided: Any = divided) -> None:
            own, lent = level[number]
            if len(own) + len(lent) > leaf_size:
                divided[number] = _divided(X, own, lent, weights, overlap)

        each(divide, range(len(level)), n_threads())
        next_level: list[tuple[Array, Array]] = []
        first = len(columns) + len(level)  # the number of the first node of the next level
        for (own, lent), found in zip(level, divided, strict=True):
            if found is None:
                columns.append(-1)
                cuts.append(0.0)
                children.append((len(members), len(members)))
                members.append(np.concatenate([own, lent[: max(0, leaf_size - len(own))]]))
                continue
            column, cut, sides = found
            columns.append(column)
            cuts.append(cut)
            children.append((first + len(next_level), first + len(next_level) + 1))
            next_level += sides
        level = next_level
    return Tree(np.array(columns), np.array(cuts), np.array(children)), members


def _divided(
    X: Array, own: Array, lent: Array, weights: Array, overlap: float
) -> tuple[int, float, list[tuple[Array, Array]]] | None:
    """Return where to cut a node, and the rows of both sides, own and lent; None if its own rows are all equal."""
    found = _cut(X, own, weights)
    if found is None:
        return None
    column, cut = found
    rows = np.concatenate([own, lent])
    values = X[rows, column]
    below, sides = values <= cut, []
    for side in (below, ~below):
        others = np.flatnonzero(~side)
        extra = others[_smallest(np.abs(values[others] - cut), int(overlap * len(others)))]
        sides.append((own[side[: len(own)]], np.concatenate([lent[side[len(own) :]], rows[extra]])))
    return column, cut, sides


def _smallest(values: Array, count: int) -> Array:
    """Return the indices of the `count` smallest values; ties go to the first."""
    if not 0 < count < len(values):
        return np.arange(max(0, min(count, len(values))))
    limit = np.partition(values, count - 1)[count - 1]
    chosen, ties = values < limit, np.flatnonzero(values == limit)
    chosen[ties[: count - np.count_nonzero(chosen)]] = True
    return np.flatnonzero(chosen)


def _cut(X: Array, rows: Array, weights: Array) -> tuple[int, float] | None:
    """Return the column and the value at which to cut some rows, or None if they are all equal."""
    few = X[rows[:: max(1, len(rows) // POLICY.spread_rows)]]
    spread = np.abs(few - np.median(few, axis=0)).mean(axis=0) * weights
    best: tuple[float, int, float] | None = None
    for column in np.argsort(-spread, kind="stable"):
        share, cut = _halves(X[rows, column])
        if share > (0.0 if best is None else best[0]):
            best = share, int(column), cut
        if share >= POLICY.least_side:
            break
    return None if best is None else best[1:]


def _halves(values: Array) -> tuple[float, float]:
    """Find a cut into sides as equal as possible, and the share of the smaller side: zero if all values are equal."""
    middle = (len(values) - 1) // 2
    median = np.partition(values, middle)[middle]
    cuts = []
    for low, high in ((values <= median, values > median), (values < median, values >= median)):
        share = min(int(np.count_nonzero(low)), int(np.count_nonzero(high))) / len(values)
        if share > 0.0:
            below, above = float(values[low].max()), float(values[high].min())
            between = below + (above - below) / 2.0  # not at the value of a row, which rounding could move across
            cuts.append((share, between if between < above else below))
    return max(cuts, default=(0.0, 0.0))


@dataclass(frozen=True)
class Leaf:
    """One exact model: f(x) = k(x, points) coefficients + intercept."""

    points: Array
    coefficients: Array
    intercept: Array


@dataclass(frozen=True)
class LocalModel:
    """A tree, and a model in each of its leaves.

    Attributes
    ----------
    tree : Tree
    kernel : StationaryKernel
    points : ndarray of shape (n, d)
        Rows that the models are made of; neighbouring leaves share some of them.
    rows : ndarray of int, shape (n_used,)
        The points of the first leaf, of the second one, and so on.
    starts : ndarray of int, shape (n_leaves + 1,)
        Where the points of each leaf begin, and where the last ones end.
    coefficients : ndarray of shape (n_used, k)
    intercepts : ndarray of shape (n_leaves, k)
    """

    tree: Tree
    kernel: StationaryKernel
    points: Array
    rows: Array
    starts: Array
    coefficients: Array
    intercepts: Array

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return int(self.intercepts.shape[1])

    def leaf(self, number: int) -> Leaf:
        """Return the model of one leaf."""
        part = slice(int(self.starts[number]), int(self.starts[number + 1]))
        return Leaf(self.points[self.rows[part]], self.coefficients[part], self.intercepts[number])

    def groups(self, X: Array) -> Iterator[tuple[int, Array]]:
        """Each leaf that contains some of the rows, with their indices."""
        numbers = self.tree.leaves(X)
        for number in np.unique(numbers):
            yield int(number), np.flatnonzero(numbers == number)

    def predict(self, X: Array, device: str | None = None) -> Array:
        """Predictions (n, k) in float64, computed in host memory or on a device."""
        out = np.empty((len(X), self.n_targets))

        def work(job: tuple[int, Array]) -> None:
            leaf, rows = self.leaf(job[0]), job[1]
            points = placed(X[rows], device if len(rows) >= POLICY.device_rows else None)
            backend = backend_of(points)
            others, C = (backend.place(array, points) for array in (leaf.points, leaf.coefficients))
            out[rows] = backend.fetch(self.kernel.product(points, others, C)) + leaf.intercept

        in_threads(work, list(self.groups(X)), device)
        return out


def placed(array: Array, device: str | None) -> Any:
    """Return the array in row order in host memory, or a copy of it on a device."""
    return np.ascontiguousarray(array) if device is None else open_device(device).tensor_on(device, array)


def in_threads(work: Callable[[T], R], jobs: Sequence[T], device: str | None = None) -> list[R]:
    """Call `work` on every job, with one thread for each, and return the results.

    On a device each job has its own stream: the small steps of a single factorisation leave most of a GPU idle.
    """
    torch = None if device is None else open_device(device)

    results: dict[int, R] = {}

    def alone(number: int) -> None:
        with limit_threads(1), nullcontext() if torch is None else torch.own_queue(device):
            results[number] = work(jobs[number])

    with one_thread():
        each(alone, range(len(jobs)), n_threads() if torch is None else torch.n_queues(device))
    return [results[number] for number in range(len(jobs))]


def fit_leaf(
    points: Array,
    Y: Array,
    n_left_out: int,
    weight: Array | None,
    kernel: StationaryKernel,
    alpha: float,
    device: str | None,
) -> tuple[Array, Array, Array]:
    """Coefficients, intercept and leave-one-out errors of the last rows of an exact model, in host memory.

    A single point may stand for several rows that are all equal. As coefficients sum to zero, their model is constant,
    the weighted mean of the targets, and the leverage of a row is its share of the weight.
    """
    if len(points) < len(Y):
        share = np.ones(len(Y)) if weight is None else np.maximum(weight, LEAST_WEIGHT)
        share = share / share.sum()
        mean = share @ Y
        return np.zeros((1, Y.shape[1])), mean, leave_one_out(Y - mean, share)[len(Y) - n_left_out :]
    fit = exact_ridge(kernel(placed(points, device)), Y, alpha, weight, n_left_out=n_left_out)
    fetch = backend_of(fit.coefficients).fetch
    return fetch(fit.coefficients), fetch(fit.intercept), fetch(fit.left_out)


def _are_equal(X: Array, rows: Array) -> bool:
    """Return True if rows are all equal; the first and the last tell for almost all that are not."""
    return bool((X[rows[-1]] == X[rows[0]]).all() and (X[rows] == X[rows[0]]).all())


def fit_leaves(
    X: Array,
    Y: Array,
    kernel: StationaryKernel,
    alpha: float,
    tree: Tree,
    members: list[Array],
    weight: Array | None = None,
    device: str | None = None,
    workers: Execution | None = None,
    done: Callable[[int], None] = lambda rows: None,
) -> tuple[LocalModel, Array]:
    """Fit an exact model in every leaf, and return the leave-one-out errors (n, k) of each row in the leaf it falls in.

    Without a row that is alone in its leaf the leaf has no model: the row is predicted by the mean of all others.

    Leaves are fitted by threads of this process or by the workers of a Dask client; the model is the same. Of a leaf
    whose rows are all equal, however many, the model has one point.
    """
    home, share = tree.leaves(X), np.ones(len(Y)) if weight is None else np.maximum(weight, LEAST_WEIGHT)
    share = share / share.sum()
    left_out = leave_one_out(Y - share @ Y, share)
    n_own = np.bincount(home, minlength=len(members))
    members = [rows[np.argsort(home[rows] == number, kind="stable")] for number, rows in enumerate(members)]  # own last
    points = [rows[:1] if _are_equal(X, rows) else rows for rows in members]
    starts = np.cumsum([0, *map(len, points)])
    coefficients, intercepts = np.empty((starts[-1], Y.shape[1])), np.empty((len(members), Y.shape[1]))

    def job(number: int) -> tuple[Any, ...]:
        rows = members[number]
        own = None if weight is None else weight[rows]
        return X[points[number]], Y[rows], int(n_own[number]), own, kernel, alpha, device

    def keep(number: int, found: tuple[Array, Array, Array]) -> None:
        part, own = slice(starts[number], starts[number + 1]), members[number][len(members[number]) - n_own[number] :]
        coefficients[part], intercepts[number], errors = found
        if len(members[number]) > 1:
            left_out[own] = errors
        done(len(own))

    if workers is None:
        in_threads(lambda number: keep(number, fit_leaf(*job(number))), range(len(members)), device)
    else:
        with closing(dask().on_workers(fit_leaf, map(job, range(len(members))), workers)) as results:
            for number, found in enumerate(results):
                keep(number, found)
    return LocalModel(tree, kernel, X, np.concatenate(points), starts, coefficients, intercepts), left_out
