"""Dask arrays, frames and delayed blocks as a source, and methods on rows applied to them lazily.

This is the only file that imports dask. A pass is a tree of `Fold.merge` over ranges of rows that depend only on the
numbers of rows, columns and components. However the rows are divided into blocks, whichever worker runs a task, and
however often it is repeated, the same numbers are added in the same order: the result is the same to the last bit.
"""

from __future__ import annotations

import copy
import uuid
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from bochner.backends import Array
from bochner.data.checkpoints import fingerprint
from bochner.data.execution import Execution
from bochner.data.frames import is_frame
from bochner.data.progress import Interruptions
from bochner.data.scores import AccuracyFold, DeterminationFold
from bochner.data.sources import Block, Source, default_rows, joined, merged, regroup
from bochner.data.workers import (
    FoldTask,
    Predictions,
    Reader,
    apply_method,
    count_positive,
    cut_rows,
    describe_block,
    fold_leaf,
    lightened,
    longest_row,
    merge_totals,
    run_job,
    take_rows,
)
from bochner.draws.keys import Key

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    from dask.base import get_scheduler
    from dask.delayed import Delayed, delayed
    from dask.optimization import cull
except ImportError as error:
    raise ImportError(
        f"bochner.data.distributed needs dask with arrays and frames: pip install 'bochner[dask]' ({error})."
    ) from error

# These numbers shape the tree. A leaf has at least _LEAF_ROWS rows and, if m × m numbers are added up,
# _LEAF_ROWS_A_COMPONENT for each component: sending a total should cost less than computing it. Leaves of very many
# rows take about a second, which is long compared with the scheduler's work for one, and little if a worker is lost.
# All rows of a leaf are held at once, in at most _LEAF_BYTES.
_LEAVES = 512
_LEAF_ROWS, _MOST_LEAF_ROWS = 8192, 1 << 18
_LEAF_ROWS_A_COMPONENT, _MOST_LEAF_ROWS_A_COMPONENT = 8, 64
_LEAF_PRODUCTS, _LEAF_BYTES = 1 << 36, 1 << 27
_BRANCHES = 8  # number of totals merged in one task
_ROUND = 64  # number of leaves of a tree; trees are added up one after the other, with checkpoints in between
_FIT_ROWS = 20_000  # number of rows that a transformer is fitted on


# -- running ---------------------------------------------------------------------------------------------------------


def _client() -> Any:
    """Return the distributed client in use, or None if dask runs on this machine without one."""
    scheduler = getattr(get_scheduler(), "__self__", None)
    return scheduler if hasattr(scheduler, "scheduler_info") else None


def _name(of: str) -> str:
    """Return a unique name of a task, as the dashboard shows it."""
    return f"bochner-{of}-{uuid.uuid4().hex}"


def _shared(of: str, value: Any) -> Any:
    """Delay a value that is sent only once to each worker that needs it, even if the worker replaces another."""
    made = delayed(value, name=_name(of), traverse=False)
    client = _client()
    if client is None:
        return made
    # the scheduler keeps it, so that it is not lost when a worker dies
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return client.persist(made)


def _task(key: str, tasks: dict[Any, Any], *graphs: Any) -> Any:
    """Make a delayed value from a dict of tasks, in a hundredth of the time of calling `delayed` for each."""
    for graph in graphs:
        tasks.update(graph)
    return Delayed(key, tasks)


def _in_order(tasks: Sequence[Any], leaves: int = 1) -> Generator[Any, None, None]:
    """Yield results of delayed tasks in order; a client gets enough of them at a time to keep its workers busy."""
    client = _client()
    if client is None:
        for task in tasks:
            yield dask.compute(task)[0]
        return
    ahead = 1 + -(-2 * sum(client.nthreads().values()) // leaves)
    futures: list[Any] = []
    try:
        for i in range(len(tasks)):
            while len(futures) < min(len(tasks), i + ahead):
                # earlier tasks have priority
                futures.append(client.compute(tasks[len(futures)], priority=-len(futures)))
            yield futures[i].result()
            futures[i] = None  # frees the memory of the result
    finally:
        waiting = [future for future in futures if future is not None]
        if waiting:
            client.cancel(waiting, force=True)


def has_workers() -> bool:
    """Return True if there is a distributed client, so that jobs can run on its workers."""
    return _client() is not None


def on_workers(
    function: Callable[..., Any], jobs: Iterator[tuple[Any, ...]], run: Execution
) -> Generator[Any, None, None]:
    """Yield the results of a function for the arguments of each job, in order, computed by the client's workers.

    Jobs are made shortly before workers need them, so that few are in memory. A job whose worker dies is repeated.
    """
    client, futures = _client(), deque[Any]()
    ahead = 2 * max(1, sum(client.nthreads().values()))
    try:
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            for job in jobs:
                futures.append(client.submit(run_job, function, job, run, key=_name("job"), pure=False))
                if len(futures) >= ahead:
                    yield futures.popleft().result()
            while futures:
                yield futures.popleft().result()
    finally:
        if futures:
            client.cancel(list(futures), force=True)


def collected(*values: Any) -> tuple[Any, ...]:
    """Load Dask data into memory as frames or arrays, like its blocks; other values are returned unchanged."""
    found = [dask.compute(value)[0] for value in values]  # dask warns if both are mixed
    return tuple(
        _concatenated(value) if is_blocks(given) else value for given, value in zip(values, found, strict=True)
    )


def is_blocks(value: Any) -> bool:
    """Return True for a list of delayed blocks."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], Delayed)


def _concatenated(blocks: Sequence[Any]) -> Any:
    return dd.dispatch.concat(list(blocks)) if is_frame(blocks[0]) else np.concatenate(blocks)


# -- the source ------------------------------------------------------------------------------------------------------


class DaskSource(Source):
    """Rows in a dask array, dask frame or list of delayed blocks; use `dask_source` to make one.

    Parameters
    ----------
    parts : list
        For each block delayed X, y and weight; y and weight may be None.
    reader : Reader
    run : Execution
    meta : array or frame
        A few rows, or none, that show the columns and their names.
    weighted : bool
        Whether rows may have weights.
    """

    n_samples: int
    remote: ClassVar[bool] = True

    def __init__(self, parts: list[Any], reader: Reader, run: Execution, meta: Any, weighted: bool = True) -> None:
        self.parts, self.reader, self.run, self.meta, self.weighted = parts, reader, run, meta, weighted
        self.offsets = np.concatenate([[0], np.cumsum(reader.counts)]).astype(int)
        self.n_samples = int(self.offsets[-1])
        self.n_features, self.dtype, self.feature_names = reader.n_features, reader.dtype, reader.columns
        if not self.n_samples:
            raise ValueError("the data has no rows.")
        # for each block: the keys of X, y and weight, and the tasks that make them
        self._keys = [[None if part is None else part.key for part in block] for block in parts]
        self._tasks = [[dict(part.dask) for part in block if part is not None] for block in parts]
        self._map: tuple[Any, Any] | None = None
        self._head: Block | None = None

    def _leaves(self, n_components: int, with_gram: bool) -> list[range]:
        """Return the ranges of rows that are added up in one task, whatever blocks they are in."""
        least, most = _LEAF_ROWS, _MOST_LEAF_ROWS
        if with_gram:
            least = max(least, _LEAF_ROWS_A_COMPONENT * n_components)
            most = max(min(most, _LEAF_PRODUCTS // n_components**2), _MOST_LEAF_ROWS_A_COMPONENT * n_components)
        most = min(most, _LEAF_BYTES // (self.n_features * np.dtype(self.dtype).itemsize))
        size = max(least, min(self.n_samples // _LEAVES, most))
        whole = default_rows(n_components, self.dtype)  # rows whose features are computed at a time
        size -= size % whole if size > whole else 0
        return [range(row, min(row + size, self.n_samples)) for row in range(0, self.n_samples, size)]

    def _pieces(self, leaf: range) -> list[tuple[int, int, int]]:
        """Return, for each block that has rows of a leaf, its number and the range of those rows in it."""
        i, found = int(np.searchsorted(self.offsets, leaf.start, side="right")) - 1, []
        while i < len(self.parts) and self.offsets[i] < leaf.stop:
            start, stop = np.clip([leaf.start, leaf.stop] - self.offsets[i], 0, self.reader.counts[i]).tolist()
            if stop > start:
                found.append((i, start, stop))
            i += 1
        return found

    def _tree(self, leaves: list[range], what: Any, feature_map: Any) -> Any:
        name, cut = _name("fold"), _name("cut")
        tasks: dict[Any, Any] = {}
        totals: list[str] = []
        used: set[int] = set()
        for leaf in leaves:
            pieces = self._pieces(leaf)
            raws: list[Any] = []
            for i, start, stop in pieces:
                used.add(i)
                raws.append(self._keys[i])
                if len(pieces) > 1 and stop - start < self.reader.counts[i]:  # only these rows need to travel
                    raws[-1] = f"{cut}-{i}-{start}"
                    tasks[raws[-1]] = (cut_rows, what.key, self._keys[i], i, start, stop)
            totals.append(f"{name}-{leaf.start}")
            tasks[totals[-1]] = (fold_leaf, what.key, feature_map.key, raws, list(map(list, pieces)), leaf.start)
        name = _name("merge")
        while len(totals) > 1:
            parts = [totals[i : i + _BRANCHES] for i in range(0, len(totals), _BRANCHES)]
            totals = [f"{name}-{len(tasks) + i}" for i in range(len(parts))]
            tasks.update({key: (merge_totals, what.key, part) for key, part in zip(totals, parts, strict=True)})
        made = [graph for i in sorted(used) for graph in self._tasks[i]]
        return _task(totals[0], tasks, what.dask, feature_map.dask, *made)

    def fold(
        self,
        fold: Any,
        feature_map: Any = None,
        total: Any = None,
        *,
        rows: int | None = None,
        start: int = 0,
        stop: int | None = None,
        after: Callable[[Any, int], None] | None = None,
    ) -> Any:
        if self._map is None or self._map[0] is not feature_map:  # sent in the first of several passes
            self._map = (feature_map, _shared("map", feature_map))
        what = _shared("what", FoldTask(fold, self.reader, rows, self.run))
        leaves = self._leaves(1 if feature_map is None else feature_map.n_components, fold.with_gram)
        rounds = [leaves[i : i + _ROUND] for i in range(0, len(leaves), _ROUND)]
        last = self.n_samples if stop is None else stop
        rounds = [r for r in rounds if r[0].start >= start and r[-1].stop <= last]
        total = fold.zero() if total is None else total
        results = _in_order([self._tree(round_, what, self._map[1]) for round_ in rounds], _ROUND)
        with closing(results), Interruptions() as interruptions:  # after an error no task is left on the workers
            for round_ in rounds:
                with self._explained(round_[0].start, round_[-1].stop):
                    found = next(results)
                with interruptions.held():
                    total = fold.merge(total, found)
                    if after is not None:
                        after(total, round_[-1].stop)
        return total

    @contextmanager
    def _explained(self, first: int, last: int) -> Iterator[None]:
        most = int(np.max(self.reader.counts))
        try:
            yield
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                size = most * self.n_features * np.dtype(self.dtype).itemsize / 2**20
                raise RuntimeError(
                    f"every worker that was given some of the rows {first} to {last} died, most likely because its "
                    f"memory ran out. The largest block has {most} rows, {size:,.0f} MiB, and is held about three "
                    "times over: make smaller blocks (X.rechunk, repartition), or give the workers more memory. With "
                    "checkpoint=… a model goes on from the rows learned when fit is called again."
                ) from error
            error.add_note(f"(in a pass over dask data, among the rows {first} to {last})")
            raise

    def _gather(self, of: str, function: Callable[..., Any], wanted: dict[int, tuple[Any, ...]]) -> list[Any]:
        """Compute ``function(reader, block, its number, …)`` for some of the blocks."""
        name, reader = _name(of), _shared("what", self.reader)
        tasks: dict[Any, Any] = {f"{name}-{i}": (function, reader.key, self._keys[i], i, *wanted[i]) for i in wanted}
        tasks[f"{name}-all"] = (list, list(tasks))
        with self._explained(0, self.n_samples):
            made = [graph for i in wanted for graph in self._tasks[i]]
            return list(dask.compute(_task(f"{name}-all", tasks, reader.dask, *made))[0])

    def _rows(self, wanted: Array, offsets: Array | None = None) -> Block:
        """Load rows by their sorted numbers, which with `offsets` count only the rows of positive weight."""
        takes, rows = {}, self.offsets if offsets is None else offsets
        for i in range(len(self.parts)):
            here = wanted[np.searchsorted(wanted, rows[i]) : np.searchsorted(wanted, rows[i + 1])]
            if len(here):
                # a whole block is not copied
                takes[i] = (slice(None) if len(here) == rows[i + 1] - rows[i] else here - rows[i], offsets is not None)
        return joined(self._gather("sample", take_rows, takes))

    @cached_property
    def _positive(self) -> Array:
        """Offsets of the blocks if only rows of positive weight are counted."""
        if not self.weighted:
            return self.offsets
        counts = self._gather("weights", count_positive, dict.fromkeys(range(len(self.parts)), ()))
        return np.concatenate([[0], np.cumsum(counts)]).astype(int)

    def sample(self, n: int, key: Key) -> Block:
        total = int(self._positive[-1])
        if not total:
            raise ValueError("every row of the dask data has weight zero.")
        wanted = np.arange(total) if total <= n else np.sort(key.generator().choice(total, n, replace=False))
        return merged(self._rows(wanted, self._positive), total)

    def sample_with_longest(self, n: int, key: Key) -> Block:
        """Draw a sample with the row of largest norm, up to which series of kernels have to be accurate."""
        if self.n_samples <= n:
            return self._rows(np.arange(self.n_samples))
        rows = key.generator().choice(self.n_samples, n, replace=False)
        norms = self._gather("norms", longest_row, dict.fromkeys(range(len(self.parts)), ()))
        best = max(range(len(norms)), key=lambda i: norms[i][0])
        return self._rows(np.unique(np.append(rows, self.offsets[best] + norms[best][1])))

    def mapped(self, function: Callable[[Block], Block]) -> DaskSource:
        made = copy.copy(self)
        made.reader, made._head = replace(self.reader, functions=(*self.reader.functions, function)), None
        return made

    def head(self) -> Block:
        if self._head is None:
            self._head = self._rows(np.arange(1))
        return self._head

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        """Yield blocks, fetched to this process one at a time; a `fold` runs where the blocks are, and is faster."""
        first = int(np.searchsorted(self.offsets, start, side="right")) - 1
        wanted = [np.arange(self.offsets[i], self.offsets[i + 1]) for i in range(first, len(self.parts))]
        found = (self._rows(numbers) for numbers in wanted if len(numbers))
        return regroup(found, rows, start - int(self.offsets[first]))

    def layout(self) -> dict[str, Any]:
        # these determine the tree
        sizes = (_LEAVES, _LEAF_ROWS, _MOST_LEAF_ROWS, _LEAF_ROWS_A_COMPONENT, _MOST_LEAF_ROWS_A_COMPONENT)
        tree = fingerprint(self.n_samples, *sizes, _LEAF_PRODUCTS, _LEAF_BYTES, _BRANCHES, _ROUND)
        return {**super().layout(), "tree of sums over dask data, by its digest,": tree}


def dask_source(run: Execution, X: Any, y: Any = None, sample_weight: Any = None) -> DaskSource:
    """Return Dask data as a source. Unknown block sizes are counted in a separate pass.

    Parameters
    ----------
    run : Execution
        Its `n_jobs` is the number of threads that each task uses; None for one.
    X : dask array, dask frame, or list of delayed blocks
        Each delayed block is X, (X, y) or (X, y, weight).
    y, sample_weight : the same kind, an array in memory, the name of a column of a frame, or None
    """
    delayed_blocks = isinstance(X, (list, tuple))
    if delayed_blocks:
        found = _Rows([_delayed_block(block) for block in X])
    elif isinstance(X, dd.DataFrame):
        found, y, sample_weight = _rows_of_frame(X, y, sample_weight)
    elif isinstance(X, dd.Series) or getattr(X, "ndim", 2) != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D dask {type(X).__name__.lower()} instead: rows and columns.")
    else:
        X = _as_array(X, y)
        counts = None if np.isnan(X.chunks[0]).any() else np.array(X.chunks[0], dtype=int)
        found = _Rows(_blocks_of(X), np.empty((1, X.shape[1])), X.dtype, counts)
    if not len(found.parts):
        raise ValueError("the data has no blocks.")
    if found.counts is None:
        found = found.counted()
    ys, weights = _aligned("y", y, found.counts), _aligned("sample_weight", sample_weight, found.counts)
    shape = found.target_shape
    if y is not None:
        whole = dask.compute(delayed(np.shape)(ys[0]))[0] if isinstance(y, (list, tuple)) else np.shape(y)
        shape = tuple(whole[1:])
    named = (found.columns, found.target, found.weight)
    reader = Reader(found.meta.shape[1], _float_like(found.dtype), found.counts, shape, *named)
    weighted = delayed_blocks or found.weight is not None or sample_weight is not None
    return DaskSource(list(zip(found.parts, ys, weights, strict=True)), reader, run.on_worker(), found.meta, weighted)


def checked_source(model: BaseEstimator, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> DaskSource:
    """Return dask data as a source; set the number and names of the columns of a model, or check them."""
    source = dask_source(Execution.of(model), X, y, sample_weight)
    validate_data(model, source.meta, reset=reset, skip_check_array=True)
    return source


@dataclass(frozen=True)
class _Rows:
    """Facts about dask data that are known before its blocks are counted."""

    parts: list[Any]  # a delayed value for each block
    meta: Any = None  # as in `DaskSource`
    dtype: Any = None
    counts: Any = None  # rows in each block
    target_shape: tuple[int, ...] = ()
    columns: list[str] | None = None  # columns of a frame, as in `Reader`
    target: Any = None
    weight: Any = None

    def counted(self) -> _Rows:
        """Add the number of rows in each block and, for delayed blocks, what the first of them shows."""
        sizes = _sizes(self.parts, self.columns, self.target, self.weight)
        counts = np.array([size[0] for size in sizes])
        if self.meta is not None:
            return replace(self, counts=counts)
        _, width, _, shape, frame = next((size for size in sizes if size[0]), sizes[0])
        return replace(
            self,
            counts=counts,
            meta=np.empty((1, width)) if frame is None else frame,
            dtype=np.result_type(*{size[2] for size in sizes}),
            target_shape=tuple(shape or ()),
            columns=None if frame is None else list(frame.columns),
        )


def _rows_of_frame(X: Any, y: Any, sample_weight: Any) -> tuple[_Rows, Any, Any]:
    """Return the rows of a frame, and targets and weights unless they are names of its columns."""
    names = [*_names(y), *_names(sample_weight)]
    for name in names:
        if name not in list(X.columns):
            raise ValueError(f"the frame has no column {name!r}; its columns are {', '.join(map(repr, X.columns))}.")
    columns = [c for c in X.columns if c not in names]
    meta = X._meta[columns]
    _check_columns(meta)
    target, y = (y, None) if _names(y) else (None, y)
    weight, sample_weight = (sample_weight, None) if _names(sample_weight) else (None, sample_weight)
    dtype = np.result_type(*meta.dtypes) if columns else np.dtype(float)
    shape = () if target is None else np.shape(X._meta[target])[1:]
    return _Rows(_blocks_of(X), meta, dtype, None, shape, columns, target, weight), y, sample_weight


def _float_like(dtype: Any) -> Any:
    """Return float32 for float32 of any byte order, and float64 for any other type."""
    return np.dtype(np.float32 if np.dtype(dtype).newbyteorder("=") == np.float32 else np.float64)


def _names(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    return list(value) if isinstance(value, list) and value and all(isinstance(v, str) for v in value) else []


def _check_columns(meta: Any) -> None:
    for name, dtype in zip(meta.columns, meta.dtypes, strict=True):
        if not (getattr(dtype, "kind", "O") in "biufO" and str(dtype) not in ("category", "string", "str")):
            raise ValueError(f"every feature must be a number; the column {name!r} of the frame is of type {dtype}.")


def _delayed_block(block: Any) -> Any:
    if not isinstance(block, Delayed):
        raise ValueError(f"a list of delayed blocks holds a {type(block).__name__}; wrap every block in dask.delayed.")
    return block


def _as_array(X: Any, y: Any) -> Any:
    """Return X as a dask array in which every block has all columns."""
    if not isinstance(X, da.Array):  # X is in memory, and y is not
        if (
            not isinstance(y, (da.Array, dd.Series, dd.DataFrame))
            or np.isnan(getattr(y, "chunks", ((np.nan,),))[0]).any()
        ):
            raise ValueError("X is in memory and y is in dask blocks of unknown size; give X as a dask array too.")
        X = da.from_array(np.asarray(X), chunks=(y.chunks[0], -1))
    if np.isnan(X.shape[1]):
        raise ValueError("the number of columns of X is not known; call X.compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _blocks_of(collection: Any) -> list[Any]:
    """Return a delayed value for each block, with only the part of the graph that it needs."""
    # optimising a graph would lose blocks that workers already hold
    held = any(type(task).__name__ == "Future" for task in dict(collection.__dask_graph__()).values())
    found = list(np.ravel(collection.to_delayed(optimize_graph=not held)))
    graph = dict(found[0].dask) if found else {}
    return [Delayed(block.key, cull(graph, [block.key])[0]) for block in found]


def _aligned(role: str, value: Any, counts: Array) -> list[Any]:
    """Delay targets or weights, divided into the same blocks as X; return a list of None if there are none."""
    if value is None:
        return [None] * len(counts)
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Delayed):
        found = [_delayed_block(block) for block in value]
    elif isinstance(value, (dd.DataFrame, dd.Series)):
        found = _blocks_of(value)
    else:
        if not isinstance(value, da.Array):
            value = np.asarray(value)
            if value.ndim == 0 and role == "sample_weight":
                value = np.full(int(counts.sum()), float(value))
            if len(value) != counts.sum():
                raise ValueError(f"X has {counts.sum()} rows and {role} has {len(value)}.")
            value = da.from_array(value, chunks=(tuple(counts), *value.shape[1:]))
        elif not np.isnan(value.shape[0]):
            if value.shape[0] != counts.sum():
                raise ValueError(f"X has {counts.sum()} rows and {role} has {value.shape[0]}.")
            value = value.rechunk({i: tuple(counts.tolist()) if i == 0 else -1 for i in range(value.ndim)})
        found = _blocks_of(value)
    if len(found) != len(counts):
        raise ValueError(
            f"X has {len(counts)} blocks and {role} has {len(found)}; give both the same (rechunk, repartition)."
        )
    return found


def _sizes(parts: list[Any], columns: Any, target: Any, weight: Any) -> list[Any]:
    name = _name("count")
    named = delayed((columns, target, weight), name=_name("what"), traverse=False)
    tasks: dict[Any, Any] = {f"{name}-{i}": (describe_block, part.key, named.key) for i, part in enumerate(parts)}
    tasks[f"{name}-all"] = (list, list(tasks))
    return list(dask.compute(_task(f"{name}-all", tasks, named.dask, *(part.dask for part in parts)))[0])


def gathered(model: Any, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Load rows to fit a transformer on: all if they are few, else a sample with the row of largest norm."""
    source = dask_source(Execution.of(model), X, y)
    seed = vars(model).get("random_state")
    key = Key(int(seed) if isinstance(seed, (int, np.integer)) and seed >= 0 else 0)
    block = source.sample_with_longest(_FIT_ROWS, key.child("features"))
    if source.feature_names is None:
        return block.X, block.y
    return type(source.meta)(block.X, columns=source.feature_names), block.y


def n_rows(X: Any) -> int:
    """Return the number of rows of dask data."""
    return dask_source(Execution(), X).n_samples


# -- rows to rows, lazily ----------------------------------------------------------------------------------------------


def _check_ready(model: Any) -> None:
    """Compute here what a model would compute at its first use, or raise an error if it is not fitted."""
    check_is_fitted(model)
    if hasattr(model, "_current"):
        model._current()


def _takes_text(model: BaseEstimator) -> bool:
    """Return True for models of tables, which accept columns of any type."""
    return get_tags(model).input_tags.string


def map_rows(method: str, model: Any, X: Any, *arguments: Any, **options: Any) -> Any:
    """Apply a method that maps rows to rows to dask data, lazily and block by block.

    Returns
    -------
    dask array (or a tuple of them), dask frame if the method returns frames, or a list of delayed blocks
    """
    if options.get("return_cov") or (len(arguments) > 1 and arguments[1]):
        raise ValueError("return_cov needs all rows at once: X.compute() them first, if they are few.")
    name = method.replace("_", "-")
    if isinstance(X, (list, tuple)):
        blocks = [_delayed_block(block) for block in X]
        _check_ready(model)
        shared = delayed(
            (lightened(model), method, arguments, options, np.empty(0)), name=_name("model"), traverse=False
        )
        return [delayed(apply_method, pure=False)(block, shared, dask_key_name=_name(name)) for block in blocks]
    frame = isinstance(X, dd.DataFrame)
    if frame and _takes_text(model):
        few = X._meta_nonempty.iloc[:1]
    elif frame:
        _check_columns(X._meta)
        few = X._meta_nonempty.iloc[:1]
        few = type(few)(np.zeros((1, few.shape[1])), columns=few.columns).astype(X._meta.dtypes)
    else:
        if getattr(X, "ndim", 2) != 2:
            raise ValueError(f"Expected 2D array, got {X.ndim}D dask array instead: rows and columns.")
        X = _as_array(X, None)
        few = np.zeros((1, X.shape[1]), _float_like(X.dtype))
        few = scipy.sparse.csr_matrix(few) if scipy.sparse.issparse(X._meta) else few
    if method != "inverse_transform":
        validate_data(model, few, reset=False, skip_check_array=True)  # checks the names and the number of the columns
    example = getattr(model, method)(few, *arguments, **options)
    light = lightened(model)
    empty = tuple(e[:0] for e in example) if isinstance(example, tuple) else example[:0]
    shared = delayed((light, method, arguments, options, empty), name=_name("model"), traverse=False)
    if isinstance(example, tuple):
        return tuple(_mapped(X, name, shared, part, pick) for pick, part in enumerate(empty))
    return _mapped(X, name, shared, empty, None)


def _mapped(X: Any, name: str, shared: Any, empty: Any, pick: int | None) -> Any:
    if isinstance(X, dd.DataFrame):
        return X.map_partitions(apply_method, shared, pick, meta=empty, token=_name(name), enforce_metadata=False)
    options: dict[str, Any] = {"drop_axis": 1} if empty.ndim == 1 else {}
    if empty.ndim == 2:
        options["chunks"] = (X.chunks[0], (empty.shape[1],))
    elif empty.ndim > 2:
        options["chunks"] = (X.chunks[0], *((k,) for k in empty.shape[1:]))
        options["new_axis"] = list(range(2, empty.ndim))
    return X.map_blocks(
        apply_method, shared=shared, pick=pick, name=_name(name), dtype=empty.dtype, meta=empty, **options
    )


def score(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the score of a model on dask data, accuracy or R²; models of tables load the data into memory."""
    if _takes_text(model):
        return float(model.score(*collected(X, y, sample_weight)))
    source = checked_source(model, X, y, sample_weight, reset=False)
    _check_ready(model)
    model = lightened(model)
    vars(model).pop("feature_names_in_", None)  # the names were checked above; blocks have none
    fold: Any = (AccuracyFold if is_classifier(model) else DeterminationFold)(Predictions(model))
    return float(fold.score(source.fold(fold)))
