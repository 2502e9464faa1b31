"""What a worker does with its share of the rows; independent of dask."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array, DType
from bochner.data.devices import on_device_if_there
from bochner.data.execution import Execution
from bochner.data.folds import Fold
from bochner.data.frames import is_frame
from bochner.data.sources import Block, Source, checked_block, positive, regroup
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap
from bochner.kernels.algebra import squared_norms


def run_job(function: Callable[..., Any], arguments: tuple[Any, ...], run: Execution) -> Any:
    """Return the result of a function, called with these threads."""
    with run.threads():
        return function(*arguments)


Columns = str | list[str] | None  # names of columns of a frame


@dataclass(frozen=True)
class Reader:
    """Checks a result of the user's graph and makes a block of it, or says which block is wrong and how."""

    n_features: int
    dtype: DType
    counts: Array
    target_shape: tuple[int, ...]
    columns: list[str] | None = None  # columns of a frame that are features
    target: Columns = None  # columns of a frame that are targets
    weight: Columns = None  # column of a frame with the weights
    functions: tuple[Callable[[Block], Block], ...] = ()  # functions that blocks are passed through

    def __call__(self, raw: object, index: int, start: int = 0, stop: int | None = None) -> Block:
        """Check a block with its number, or its rows from `start` to before `stop`."""
        name = f"block {index} of the dask data"
        X, y, weight = split(raw, self.columns, self.target, self.weight)
        shape = np.shape(X)
        if len(shape) != 2 or shape[1] != self.n_features:
            raise ValueError(f"{name} has shape {shape}, but the first block has {self.n_features} columns.")
        if shape[0] != self.counts[index]:
            raise ValueError(
                f"{name} has {shape[0]} rows where its chunk sizes say {self.counts[index]}. If the data change "
                "each time they are computed, persist() them first."
            )
        if stop is not None and stop - start < shape[0]:
            rows = slice(start, stop)
            for role, array in (("y", y), ("sample_weight", weight)):
                if array is not None and len(array) != shape[0]:
                    raise ValueError(f"{name}: X has {shape[0]} rows and {role} has {len(array)}.")
            X = X.tocsr() if scipy.sparse.issparse(X) else X  # rows of which can be taken
            X, shape = (X.iloc if is_frame(X) else X)[rows], (stop - start, shape[1])
            y, weight = (None if array is None else array[rows] for array in (y, weight))
        if not shape[0]:
            X = X if scipy.sparse.issparse(X) else np.empty(shape)
            return Block(X.astype(self.dtype), np.empty((0, *self.target_shape)), None if weight is None else weight)
        block = checked_block(X, y, weight, name=name)
        if np.shape(block.y)[1:] != self.target_shape and block.y is not None:
            raise ValueError(f"{name} has targets of shape {np.shape(block.y)}, not (n, *{self.target_shape}).")
        block = Block(block.X.astype(self.dtype, copy=False), block.y, block.weight)
        for function in self.functions:
            block = function(block)
        return block


def split(raw: object, columns: list[str] | None, target: Columns, weight: Columns) -> tuple[Any, Any, Any]:
    """Return X, y and weights: the members of a tuple, or the named columns of a frame."""
    X, y, w = (*raw, None, None)[:3] if isinstance(raw, (tuple, list)) else (raw, None, None)
    if isinstance(X, (tuple, list)) and len(X) in (2, 3) and np.ndim(X[0]) == 2:  # a delayed block with everything
        X, y, w = (*X, None)[:3]
    if columns is not None:
        y = y if target is None else X[target]
        w = w if weight is None else X[weight]
        X = X[columns]
    return X, None if y is None else np.asarray(y), None if w is None else np.asarray(w)


class PartitionSource(Source):
    """Blocks that one task adds up, beginning with row `row` of all."""

    def __init__(self, blocks: list[Block], row: int, reader: Reader) -> None:
        self.filled = [block for block in blocks if len(block)]
        self.row, self.n_samples = row, row + sum(map(len, blocks))
        self.n_features, self.dtype = reader.n_features, reader.dtype

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        return regroup(iter(self.filled), rows, start - self.row)

    def sample(self, n: int, key: Key) -> Block:
        raise NotImplementedError("samples are drawn from all rows")


@dataclass(frozen=True)
class FoldTask:
    """Settings that all leaves of a pass share."""

    fold: Fold
    reader: Reader
    rows: int | None
    run: Execution


def cut_rows(task: FoldTask, raw: object, index: int, start: int, stop: int) -> Block:
    """Return some consecutive rows of a block."""
    return task.reader(raw, index, start, stop)


def fold_leaf(
    task: FoldTask, feature_map: FeatureMap | None, raws: list[object], pieces: list[list[int]], row: int
) -> Any:
    """Return the total of consecutive rows, of which the first has the number `row`.

    `raws` are the blocks that they are in; `pieces` are the arguments of the reader for each.
    """
    with task.run.threads():
        given = zip(raws, pieces, strict=True)
        blocks = [raw if isinstance(raw, Block) else task.reader(raw, *piece) for raw, piece in given]
        source = on_device_if_there(PartitionSource(blocks, row, task.reader), task.run.device)
        return task.fold.to_host(source.fold(task.fold, feature_map, rows=task.rows, start=row))


def merge_totals(task: FoldTask, totals: list[Any]) -> Any:
    """Merge totals into one."""
    total = task.fold.zero()  # totals from other tasks must not be changed
    for other in totals:
        total = task.fold.merge(total, other)
    return total


def take_rows(reader: Reader, raw: object, index: int, rows: Array | slice, of_positive: bool = False) -> Block:
    """Return some rows of a block, or of its rows of positive weight."""
    block = reader(raw, index)
    return (positive(block) if of_positive else block)[rows]


def count_positive(reader: Reader, raw: object, index: int) -> int:
    """Count the rows of positive weight."""
    return len(positive(reader(raw, index)))


def longest_row(reader: Reader, raw: object, index: int) -> tuple[float, int]:
    """Return the largest squared norm of a row, and which row has it."""
    squares = squared_norms(reader(raw, index).X)
    return (float(squares.max()), int(squares.argmax())) if len(squares) else (-1.0, 0)


def describe_block(raw: object, names: tuple[list[str] | None, Columns, Columns]) -> tuple[Any, ...]:
    """Return the numbers of rows and columns, dtype, shape of the targets, and a frame without rows if X is one."""
    X, y, _ = split(raw, *names)
    shape = np.shape(X)
    if len(shape) != 2:
        raise ValueError(f"a block of the dask data has {len(shape)} dimensions; rows and columns were expected.")
    dtype, empty = (np.result_type(*X.dtypes), X[:0]) if is_frame(X) else (X.dtype, None)
    return shape[0], shape[1], dtype, None if y is None else np.shape(y)[1:], empty


def lightened(model: Any) -> Any:
    """Copy a fitted model without what predictions do not need."""
    model = copy.copy(model)
    if "_fit" in vars(model):
        model._fit = model._fit.without_sums()
    elif "statistics_" in vars(model):
        model.statistics_ = model.statistics_.without_gram()
    if "ridge_" in vars(model):
        model.ridge_ = lightened(model.ridge_)
    vars(model).pop("labels_", None)
    return model


def apply_method(
    rows: Any, shared: tuple[Any, Any, tuple[Any, ...], dict[str, Any], Any], pick: int | None = None
) -> Any:
    """Call the method of a model on one block; for no rows, return an empty array of the right shape."""
    model, name, arguments, options, empty = shared
    if isinstance(rows, (tuple, list)):
        rows = rows[0]
    if not np.shape(rows)[0]:
        return empty if pick is None else empty[pick]
    with Execution.of(model).on_worker().threads():
        found = getattr(model, name)(rows, *arguments, **options)
    return found if pick is None else found[pick]


@dataclass(frozen=True)
class Predictions:
    """The predictions of a model, as a function of rows."""

    model: Any

    def __call__(self, X: Array) -> Array:
        return self.model.predict(X)
