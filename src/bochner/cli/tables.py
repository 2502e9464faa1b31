"""Files (CSV, Parquet, NPZ, NPY) and datasets as tables of numbers, and predictions as files."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner import datasets
from bochner.backends import Array
from bochner.cli.recipes import DataError, Recipe, is_numeric, nearest, pandas_module, place
from bochner.keys import Key
from bochner.streaming import ArrowSource, Block, MappedSource, Source
from bochner.streaming.arrow import read_frame, write_frame

SUFFIXES = {".csv": "CSV", ".tsv": "CSV", ".txt": "CSV", ".parquet": "Parquet", ".npz": "NPZ", ".npy": "NPY"}
_SAMPLE_ROWS = 500_000  # of a Parquet file


# -- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raw:
    """What a file holds before anything is decided: a frame of columns, or an array X with perhaps y."""

    name: str
    frame: Any = None
    X: Any = None
    y: Array | None = None
    line: int | None = None  # line of the file on which the first row stands, for text files
    sampled: bool = False  # whether there are more rows than these


def read(data: str | None, *, max_rows: int | None = None, random_state: int = 0) -> Raw:
    """Read a file by its suffix, or a dataset by its name; None is the embedded digits."""
    if data is None:
        data = "digits"
    path = Path(data)
    if path.is_dir() or path.suffix.lower() in SUFFIXES:
        if not path.exists():
            siblings = sorted(p.name for p in path.parent.glob("*")) if path.parent.is_dir() else []
            raise DataError(f"there is no file {data!r}; {nearest(path.name, siblings, 'file')}")
        kind = "Parquet" if path.is_dir() else SUFFIXES[path.suffix.lower()]
        try:
            if kind == "CSV":
                return _read_csv(path)
            if kind == "Parquet":
                frame, sampled = read_frame(path, max_rows=max_rows, key=Key(random_state))
                return Raw(path.name, frame=_named(frame), sampled=sampled)
            return _read_numpy(path)
        except (UnicodeDecodeError, EOFError, OSError) as error:
            raise DataError(f"{data} cannot be read as {kind}: {error}") from None
    if path.exists():
        raise DataError(f"{data}: the suffix {path.suffix!r} is none of {', '.join(SUFFIXES)}.")
    try:
        found = datasets.load(data)
    except datasets.UnknownDatasetError:
        hint = nearest(data, datasets.names(), "dataset")
        raise DataError(f"{data!r} is neither a file nor the name of a dataset; {hint}") from None
    except (OSError, ImportError) as error:
        raise DataError(str(error)) from None
    return Raw(found.name, X=found.X, y=found.y)


def _named(frame: Any) -> Any:
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _read_csv(path: Path) -> Raw:
    pandas = pandas_module()
    with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
        head = file.read(1 << 16)
    if not head.strip():
        raise DataError(f"{path} is empty.")
    first = head.splitlines()[0]
    try:
        separator = csv.Sniffer().sniff(head, delimiters=",;\t| ").delimiter
    except csv.Error:
        separator = "\t" if "\t" in first else ","
    header = 0 if any(not _is_number(cell) for cell in next(csv.reader([first], delimiter=separator))) else None
    try:
        frame = pandas.read_csv(path, sep=separator, header=header, encoding="utf-8-sig", skipinitialspace=True)
    except pandas.errors.ParserError as error:
        raise DataError(f"{path} is not a table: {str(error).replace('C error: ', '').strip()}") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not text in UTF-8; convert it, or save it as Parquet.") from None
    if not len(frame):
        raise DataError(f"{path} has a header and no rows.")
    return Raw(path.name, frame=_named(frame), line=1 if header is None else 2)


def _is_number(cell: str) -> bool:
    try:
        float(cell.strip() or "nan")
    except ValueError:
        return False
    return True


def _read_numpy(path: Path) -> Raw:
    try:
        found = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{path} cannot be read as NumPy data: {error}") from None
    if isinstance(found, np.ndarray):
        if found.ndim != 2:
            raise DataError(f"{path} holds an array of shape {found.shape}; a table has rows and columns.")
        return Raw(path.name, X=found)
    with found:
        names = found.files
        if "indptr" in names:
            parts = (found["data"], found["indices"], found["indptr"])
            X: Any = scipy.sparse.csr_matrix(parts, shape=tuple(found["shape"]))
        elif "X" in names or len(names) == 1:
            X = found["X" if "X" in names else names[0]]
        else:
            raise DataError(f"{path} should hold an array named 'X' (and 'y'); it holds {', '.join(map(repr, names))}.")
        return Raw(path.name, X=X, y=found["y"] if "y" in names else None)


# -- tables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows ready for a kernel: X float, y or None, and the recipe that made X."""

    name: str
    X: Any
    y: Array | None
    recipe: Recipe
    notes: tuple[str, ...] = ()
    source: Source | None = None  # all rows, where X and y are a sample


@dataclass(frozen=True)
class Scaled:
    """Blocks of a stream as a recipe has them."""

    recipe: Recipe

    def __call__(self, block: Block) -> Block:
        return replace(block, X=self.recipe.scale_rows(block.X))


def load_table(
    data: str | None,
    *,
    target: str | None = None,
    task: str | None = None,
    encode: str | None = None,
    drop: Sequence[str] = (),
    drop_missing: bool = False,
    standardize: bool = True,
    all_rows: bool = False,
) -> Table:
    """Read DATA and make a table of numbers of it.

    Of a Parquet file with many rows a sample is read; with `all_rows` the others follow as a stream, or are read too
    where their text must be encoded first.
    """
    raw = read(data, max_rows=_SAMPLE_ROWS)
    if all_rows and raw.sampled and (encode is not None or drop_missing):
        raw = read(data)
    notes: list[str] = []
    if raw.frame is None:
        X, y, recipe = _from_arrays(raw, target, drop)
        if drop_missing and not scipy.sparse.issparse(X):
            keep = np.isfinite(X).all(axis=1)
            if not keep.all():
                notes.append(f"{(~keep).sum():,} rows with missing values were left out")
                X, y = X[keep], None if y is None else y[keep]
    else:
        frame = raw.frame
        for name in drop:
            if name not in frame.columns:
                raise DataError(f"--drop: there is no column {name!r}; {nearest(name, list(frame.columns))}")
        frame = frame.drop(columns=list(drop))
        if target is not None and target not in frame.columns:
            raise DataError(f"there is no column {target!r}; {nearest(target, list(frame.columns))}")
        if drop_missing:
            frame, left_out = _without_missing(frame, target, encode)
            if left_out:
                notes.append(f"{left_out:,} rows with missing values were left out")
        recipe = Recipe.of(frame, target, encode)
        line = None if drop_missing else raw.line
        X = recipe(frame, line)
        y = None if target is None else _target(frame[target], target, line)
    if y is not None:
        y = _as_task(y, task)
    if standardize:
        recipe = recipe.scaled(X)
        X = recipe.scale_rows(X)
        notes.append("columns are standardised; --no-standardize takes them as they are")
    source: Source | None = None
    if all_rows and raw.sampled:
        source = MappedSource(ArrowSource(str(data), target=target, columns=list(recipe.columns)), Scaled(recipe))
    return Table(raw.name, X, y, recipe, tuple(notes), source)


def _from_arrays(raw: Raw, target: str | None, drop: Sequence[str]) -> tuple[Any, Array | None, Recipe]:
    X, y = raw.X, raw.y
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{raw.name} holds values of type {X.dtype} and shape {X.shape}; expected a table of numbers.")
    names = [str(j) for j in range(X.shape[1])]
    if target is not None and not (y is not None and target == "y"):
        j = _index(target, names)
        y = np.asarray(X[:, [j]].todense()).ravel() if scipy.sparse.issparse(X) else np.asarray(X[:, j])
        drop = [*drop, names[j]]
    if drop:
        gone = {_index(name, names) for name in drop}
        keep = [j for j in range(X.shape[1]) if j not in gone]
        X, names = X[:, keep], [names[j] for j in keep]
    if not names:
        raise DataError("there is no column besides the target.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype.itemsize < 4 else np.float64)
    return X, y, Recipe(tuple(names), target)


def _index(name: str, names: Sequence[str]) -> int:
    try:
        return range(len(names))[int(name)]
    except (ValueError, IndexError):
        raise DataError(
            f"the columns of an array are numbered 0 to {len(names) - 1} (or -1 for the last); there is no {name!r}."
        ) from None


def _without_missing(frame: Any, target: str | None, encode: str | None) -> tuple[Any, int]:
    """Rows in which nothing is missing and every number is one."""
    pandas = pandas_module()
    keep = frame.notna().all(axis=1)
    for name in frame.columns:
        if name == target or pandas.api.types.is_datetime64_any_dtype(frame[name].dtype):
            continue
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        if numbers.notna().sum() > 0.5 * frame[name].notna().sum():
            keep &= np.isfinite(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if not keep.any():
        raise DataError("--drop-missing leaves no rows: every row has a missing value.")
    kept = frame[keep].reset_index(drop=True)
    for name in kept.columns:  # text that was numbers but for what is gone
        if not pandas.api.types.is_numeric_dtype(kept[name].dtype) and name != target:
            numbers = pandas.to_numeric(kept[name], errors="coerce")
            if numbers.notna().all():
                kept[name] = numbers
    return kept, int((~keep).sum())


def _target(values: Any, name: str, line: int | None) -> Array:
    missing = np.flatnonzero(values.isna().to_numpy())
    if missing.size:
        raise DataError(f"the target {name!r} is empty in {place(int(missing[0]), line)}; fill it or --drop-missing.")
    if is_numeric(values):
        return np.asarray(values.to_numpy())
    return np.asarray(values.astype(str).to_numpy(dtype=str))


def _as_task(y: Array, task: str | None) -> Array:
    """Numbers for regression and labels for classification, where the user says which."""
    if task == "regression":
        try:
            return y.astype(np.float64)
        except ValueError:
            raise DataError("--task regression needs numbers as targets; these are text.") from None
    if task == "classification" and y.dtype.kind == "f":
        whole = np.isfinite(y).all() and bool((y == np.round(y)).all())
        return y.astype(np.int64) if whole else y.astype(str)
    return y


def write_table(frame: Any, path: Path) -> None:
    """Write a frame by the suffix of the path: CSV, Parquet, NPY or NPZ."""
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise DataError(f"{path}: write predictions to {', '.join(SUFFIXES)}.")
    if path.parent != Path() and not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r}.")
    if kind == "CSV":
        frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    elif kind == "Parquet":
        write_frame(frame, path)
    else:
        columns = {name: np.asarray(frame[name].tolist()) for name in frame.columns}
        if kind == "NPZ":
            np.savez(path, **columns)  # type: ignore[arg-type]
        else:
            np.save(path, columns["prediction"] if len(columns) == 1 else frame.to_numpy())
