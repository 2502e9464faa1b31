"""Arrow tables and Parquet files or folders as sources. The only file that imports pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bochner.backends import FLOATS
from bochner.data.sources import Block, Source, checked_block, joined, merged, positive, read_ahead, regroup
from bochner.draws.keys import Key

_SAMPLE_GROUPS = 64  # row groups a sample is drawn from


def _pyarrow() -> Any:
    try:
        import pyarrow.dataset
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("reading Parquet or Arrow data needs pyarrow: pip install 'bochner[parquet]'.") from error
    return pyarrow


def _open_parquet(path: str | os.PathLike[str]) -> Any:
    """Open a Parquet file, or all files of a folder in the order of their names, as a dataset."""
    pa, here = _pyarrow(), Path(path)
    if not here.exists():
        raise ValueError(f"there is no file or folder {str(here)!r}.")
    paths = sorted(here.rglob("*.parquet")) if here.is_dir() else [here]
    if not paths:
        raise ValueError(f"the folder {str(here)!r} has no files that end in .parquet.")
    with _readable(here):
        return pa.dataset.dataset([str(p) for p in paths], format="parquet")


@contextmanager
def _readable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file cannot be read as Parquet, and why."""
    pa = _pyarrow()
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise ValueError(f"{str(path)!r} cannot be read as Parquet: {error}") from None


def _is_parquet(piece: object) -> bool:
    """Return True for a Parquet file, or a row group of one."""
    return isinstance(piece, _pyarrow().dataset.ParquetFileFragment)


class ArrowSource(Source):
    """A Parquet file, a folder of them, or an Arrow table; row groups are read one at a time, chosen columns only.

    Parameters
    ----------
    data : path, pyarrow.Table or pyarrow.dataset.Dataset
        Files of a folder are read in the order of their names.
    target : str, list of str or None
        The column or columns to learn.
    columns : list of str or None
        The features; None means every column that is neither target nor weight.
    weight : str or None
        The column of sample weights.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bochner.data.arrow import ArrowSource
    >>> source = ArrowSource(pa.table({"a": [1.0, 2.0, 3.0], "b": [0.0, 1.0, 0.0], "y": [1, 2, 3]}), target="y")
    >>> source.feature_names, source.n_samples
    (['a', 'b'], 3)
    """

    feature_names: list[str]

    def __init__(
        self,
        data: Any,
        target: str | Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        weight: str | None = None,
    ) -> None:
        pa = _pyarrow()
        if isinstance(data, (str, os.PathLike)):
            dataset = _open_parquet(data)
        else:
            try:
                dataset = data if isinstance(data, pa.dataset.Dataset) else pa.dataset.dataset(data)
            except (TypeError, pa.ArrowInvalid) as error:
                raise ValueError(f"data must be a path, an Arrow table or an Arrow dataset: {error}") from None
        for role, value in (("target", target), ("columns", columns), ("weight", weight)):
            listed = isinstance(value, (list, tuple)) and role != "weight"
            if value is not None and not all(isinstance(name, str) for name in (value if listed else [value])):
                raise ValueError(f"{role} must name columns, got {value!r}.")
        self.target = target
        targets = [] if target is None else [target] if isinstance(target, str) else list(target)
        names = list(dataset.schema.names)
        if columns is None:
            columns = [name for name in names if name not in targets and name != weight]
        self.feature_names = list(columns)
        self.targets, self.weight = targets, weight
        self.wanted = [*self.feature_names, *targets, *([weight] if weight else [])]
        self._require(names, "the data")
        self.n_features = len(self.feature_names)
        if not self.n_features:
            raise ValueError("the data has no columns besides the target.")
        self.pieces = list(self._pieces(dataset))
        # of a piece of a file, count_rows() counts the whole file
        self.counts = [
            sum(group.num_rows for group in piece.row_groups) if _is_parquet(piece) else piece.count_rows()
            for piece in self.pieces
        ]
        self.n_samples = int(sum(self.counts))
        if not self.n_samples:
            raise ValueError("the data has no rows.")
        types = {dataset.schema.field(name).type for name in self.feature_names}
        self.dtype = np.dtype(np.float32 if types == {pa.float32()} else np.float64)

    def _require(self, names: Sequence[str], what: str) -> None:
        missing = [name for name in self.wanted if name not in names]
        if missing:
            raise ValueError(f"{what} has no column {missing[0]!r}; its columns are {', '.join(map(repr, names))}.")

    def _pieces(self, dataset: Any) -> Iterator[Any]:
        for fragment in dataset.get_fragments():
            if _is_parquet(fragment):
                self._require(fragment.physical_schema.names, str(fragment.path))
                yield from fragment.split_by_row_group()
            else:
                yield fragment

    def _name(self, index: int) -> str:
        piece = self.pieces[index]
        in_file = isinstance(piece, _pyarrow().dataset.FileFragment)
        return f"row group {index}" + (f" ({piece.path})" if in_file else "")

    def _read(self, index: int) -> Block:
        """Read a row group as arrays that were not checked, on the thread of `read_ahead`."""
        table = self.pieces[index].to_table(columns=self.wanted)
        try:
            columns = [table[c].to_numpy() for c in self.feature_names]
            dates = [c for c, column in zip(self.feature_names, columns, strict=True) if column.dtype.kind in "mM"]
            if dates:  # of which NumPy would make numbers in any unit, and -9.2e18 of a gap
                raise TypeError(f"{dates[0]!r} holds dates or times")
            columns = [column.astype(self.dtype) for column in columns]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{self._name(index)}: every feature must be a number; {error}.") from None
        X = np.empty((table.num_rows, len(columns)), self.dtype)
        for j, column in enumerate(columns):
            X[:, j] = column
        ys = [table[c].to_numpy() for c in self.targets]
        y = None if not ys else ys[0] if isinstance(self.target, str) else np.column_stack(ys)
        return Block(X, y, table[self.weight].to_numpy() if self.weight else None)

    def _checked(self, block: Block, index: int) -> Block:
        # not on the thread of `read_ahead`: scikit-learn's checks change the filters of warnings, which threads share
        return checked_block(block.X, block.y, block.weight, name=self._name(index), dtype=FLOATS)

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        first = 0
        while first < len(self.counts) and start >= self.counts[first]:  # not read at all
            start -= self.counts[first]
            first += 1
        filled = [i for i in range(first, len(self.pieces)) if self.counts[i]]
        return regroup(map(self._checked, read_ahead(map(self._read, filled)), filled), rows, start)

    def head(self) -> Block:
        first = next(i for i, count in enumerate(self.counts) if count)
        return self._checked(self._read(first), first)[:1]

    def sample(self, n: int, key: Key) -> Block:
        draw = key.generator()
        filled = np.flatnonzero(self.positive)
        if not len(filled):
            raise ValueError("every row of the data has weight zero.")
        groups = np.sort(draw.choice(filled, min(len(filled), _SAMPLE_GROUPS), replace=False))
        share = min(1.0, n / sum(self.positive[i] for i in groups))
        blocks = []
        for i in groups:
            keep = np.flatnonzero(draw.random(self.positive[i]) < share) if share < 1.0 else slice(None)
            blocks.append(positive(self._checked(self._read(int(i)), int(i)))[keep])
        return merged(joined([block for block in blocks if len(block)] or blocks[:1]), sum(self.positive))

    @cached_property
    def positive(self) -> Sequence[int]:
        """Count the rows of positive weight in each piece; only the column of weights is read."""
        if not self.weight:
            return self.counts
        columns = (piece.to_table(columns=[self.weight])[self.weight].to_numpy() for piece in self.pieces)
        return [int(np.count_nonzero(column > 0)) for column in columns]


def read_frame(path: str | os.PathLike[str], *, max_rows: int | None = None, key: Key | None = None) -> Any:
    """Read a Parquet file or folder as a pandas.DataFrame; return it and whether it is a sample.

    Of more than `max_rows` rows only some row groups are read, drawn with `key`.
    """
    pa = _pyarrow()
    dataset = _open_parquet(path)
    with _readable(path):
        groups = [group for fragment in dataset.get_fragments() for group in fragment.split_by_row_group()]
        counts = [sum(part.num_rows for part in group.row_groups) for group in groups]
        chosen = np.arange(len(groups))
        if max_rows is not None and sum(counts) > max_rows:
            order = (key or Key(0)).child("row groups").generator().permutation(len(groups))
            needed = int(np.searchsorted(np.cumsum([counts[i] for i in order]), max_rows)) + 1
            chosen = np.sort(order[:needed])
        tables = [groups[i].to_table(schema=dataset.schema) for i in chosen]
        table = pa.concat_tables(tables) if tables else dataset.to_table()
        return table.to_pandas(), len(chosen) < len(groups)


def batch_table(batch: Any) -> Any:
    """Return a record batch as a table."""
    import pyarrow

    return pyarrow.Table.from_batches([batch])


def write_frame(frame: Any, file: BinaryIO) -> None:
    """Write a pandas.DataFrame as Parquet."""
    pa = _pyarrow()
    pa.parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), file)
