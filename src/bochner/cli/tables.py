"""Files (CSV, Parquet, NPZ, NPY) and datasets as tables of numbers, and predictions as files.

A recipe turns the columns of a table into numbers, and is kept beside a model so that new rows go the same way.
"""

from __future__ import annotations

import csv
import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner import datasets
from bochner.backends import Array
from bochner.keys import Key
from bochner.streaming import ArrowSource, Block, MappedSource, Source
from bochner.streaming.arrow import read_frame, write_frame

ENCODINGS = ("one-hot", "ordinal")
_MANY_CATEGORIES = 256  # of more, one column each is no use


class DataError(ValueError):
    """Something about the user's data or options that they can mend; the message says how."""


def pandas_module() -> Any:
    """The pandas package."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("reading tables needs pandas: pip install 'bochner[cli]'.") from error
    return pandas


def nearest(name: str, names: Sequence[str], what: str = "column") -> str:
    """A sentence that lists the names most like a missing one."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    lower = {other.lower(): other for other in names}
    if name.lower() in lower and lower[name.lower()] not in close:
        close.insert(0, lower[name.lower()])
    if close:
        return f"did you mean {' or '.join(repr(other) for other in close)}?"
    listed = ", ".join(map(repr, names[:12]))
    return f"the {what}s are {listed}{f' and {len(names) - 12} more' if len(names) > 12 else ''}."


@dataclass(frozen=True)
class Recipe:
    """How columns become features: which, how text is encoded, and what is subtracted and divided by."""

    columns: tuple[str, ...]
    target: str | None = None
    encode: str | None = None
    categories: dict[str, list[str]] | None = None
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    @classmethod
    def of(cls, frame: Any, target: str | None, encode: str | None) -> Recipe:
        """The recipe for a frame, without scaling."""
        names = [name for name in frame.columns if name != target]
        if not names:
            raise DataError("there is no column besides the target.")
        categories: dict[str, list[str]] = {}
        for name in names:
            if not is_numeric(frame[name]):
                categories[name] = _categories(frame[name], name, encode)
        return cls(tuple(names), target, encode, categories)

    def scaled(self, X: Any) -> Recipe:
        """The same with the means and standard deviations of X; constant columns are left as they are."""
        # squares of very large or small numbers would overflow or vanish; a power of two rounds nothing
        largest = abs(X).max(axis=0)
        largest = np.ravel(largest.toarray() if scipy.sparse.issparse(largest) else largest).astype(np.float64)
        units = 2.0 ** np.clip(np.frexp(largest)[1], -1000, 1000)
        if scipy.sparse.issparse(X):  # divided only, so that zeros stay zeros
            mean = np.zeros(X.shape[1])
            S = X @ scipy.sparse.diags(1.0 / units)
            centre, second = (np.asarray(A.mean(axis=0)).ravel() for A in (S, S.multiply(S)))
            scale = units * np.sqrt(np.maximum(second - centre**2, 0.0))
            varies = scale > 1e-12 * units * np.abs(centre)
        else:
            S = X / units
            mean, scale = units * S.mean(axis=0, dtype=np.float64), units * S.std(axis=0, dtype=np.float64)
            varies = scale > 1e-12 * np.abs(mean)
        scale = np.where(varies, scale, 1.0)
        return replace(self, mean=tuple(map(float, mean)), scale=tuple(map(float, scale)))

    def scale_rows(self, X: Any) -> Any:
        """Rows with the means subtracted and divided by the standard deviations, in their own float type."""
        if self.scale is None:
            return X
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        if scipy.sparse.issparse(X):
            return (X @ scipy.sparse.diags(1.0 / np.asarray(self.scale))).astype(dtype).tocsr()
        return ((X - np.asarray(self.mean)) / np.asarray(self.scale)).astype(dtype)

    def __call__(self, frame: Any, line: int | None = None) -> Array:
        """Features (n, d), float64, of a frame that has the columns."""
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise DataError(f"there is no column {missing[0]!r}; {nearest(missing[0], list(frame.columns))}")
        parts = [self._column(frame[name], name, line) for name in self.columns]
        return np.asarray(self.scale_rows(np.column_stack(parts)))

    def _column(self, values: Any, name: str, line: int | None) -> Array:
        categories = (self.categories or {}).get(name)
        if categories is None:
            return _numbers(values, name, line)[:, None]
        missing = np.flatnonzero(values.isna().to_numpy())
        if missing.size:
            raise DataError(f"column {name!r} is empty in {place(int(missing[0]), line)}; fill it or --drop-missing.")
        text = values.astype(str).to_numpy(dtype=str)
        table = np.asarray(categories)
        codes = np.minimum(np.searchsorted(table, text), len(table) - 1)
        known = table[codes] == text
        if self.encode == "one-hot":  # a value never seen is none of the known ones
            return ((codes[:, None] == np.arange(len(table))) & known[:, None]).astype(np.float64)
        if not known.all():
            row = int(np.flatnonzero(~known)[0])
            raise DataError(
                f"column {name!r} has {str(text[row])!r} in {place(row, line)}, which was not there in training."
            )
        return codes.astype(np.float64)[:, None]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps({"format": 1, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read what `save` wrote."""
        try:
            found = json.loads(path.read_text())
            if found.pop("format") != 1:
                raise DataError(f"{path} was written by a later version of bochner; update bochner.")
            lists = {name: tuple(found[name]) for name in ("columns", "mean", "scale") if found[name] is not None}
            return cls(**{**found, **lists})
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a recipe of columns: {error!r}") from None


def is_numeric(values: Any) -> bool:
    """Whether a column holds numbers; dates are refused."""
    types = pandas_module().api.types
    if types.is_numeric_dtype(values.dtype):
        return True
    if types.is_datetime64_any_dtype(values.dtype):
        raise DataError(f"column {values.name!r} holds dates; turn them into numbers, or leave them out with --drop.")
    return False


def place(row: int, line: int | None) -> str:
    """Where a row is, counted from one, and on which line of the file."""
    return f"row {row + 1}" + ("" if line is None else f" (line {row + line})")


def _numbers(values: Any, name: str, line: int | None) -> Array:
    pandas = pandas_module()
    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        row = int(bad[0])
        value = values.iloc[row]
        what = "is empty" if pandas.isna(value) else f"has {str(value)!r}"
        more = f" (and {bad.size - 1:,} more)" if bad.size > 1 else ""
        raise DataError(f"column {name!r} {what} in {place(row, line)}{more}; mend it or --drop-missing.")
    return numbers


def refuse_mixed(values: Any, name: str) -> None:
    """Refuse text most of which are numbers."""
    pandas = pandas_module()
    present = values.dropna()
    numbers = pandas.to_numeric(present, errors="coerce")
    if len(present) and 0.5 < numbers.notna().mean() < 1.0:
        row = int(np.flatnonzero(pandas.to_numeric(values, errors="coerce").isna() & values.notna())[0])
        raise DataError(
            f"column {name!r} should be numbers, but row {row + 1} has {values.iloc[row]!r}; mend the file, "
            f"--drop-missing, or leave the column out with --drop {name}."
        )


def _categories(values: Any, name: str, encode: str | None) -> list[str]:
    refuse_mixed(values, name)
    present = values.dropna()
    distinct = sorted(set(present.astype(str)))
    if encode is None:
        shown = ", ".join(map(repr, distinct[:3]))
        raise DataError(
            f"column {name!r} is text ({len(distinct)} distinct: {shown}{', …' if len(distinct) > 3 else ''}). "
            f"Add --encode one-hot (a column for each) or --encode ordinal (numbers 0, 1, …), or --drop {name}."
        )
    if encode == "one-hot" and len(distinct) > _MANY_CATEGORIES:
        raise DataError(
            f"column {name!r} has {len(distinct):,} distinct values, too many for --encode one-hot: use --encode "
            f"ordinal, or --drop {name}."
        )
    return distinct


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
        X, y, recipe = from_arrays(raw, target, drop)
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
            frame, left_out = without_missing(frame, target, encode)
            if left_out:
                notes.append(f"{left_out:,} rows with missing values were left out")
        recipe = Recipe.of(frame, target, encode)
        line = None if drop_missing else raw.line
        X = recipe(frame, line)
        y = None if target is None else target_of(frame[target], target, line)
    if y is not None:
        y = as_task(y, task)
    if standardize:
        recipe = recipe.scaled(X)
        X = recipe.scale_rows(X)
        notes.append("columns are standardised; --no-standardize takes them as they are")
    source: Source | None = None
    if all_rows and raw.sampled:
        source = MappedSource(ArrowSource(str(data), target=target, columns=list(recipe.columns)), Scaled(recipe))
    return Table(raw.name, X, y, recipe, tuple(notes), source)


def from_arrays(raw: Raw, target: str | None, drop: Sequence[str]) -> tuple[Any, Array | None, Recipe]:
    """Rows, targets and which columns the rows are, of an array."""
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


def without_missing(frame: Any, target: str | None, encode: str | None) -> tuple[Any, int]:
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


def target_of(values: Any, name: str, line: int | None) -> Array:
    """A column as targets: numbers or texts without gaps."""
    missing = np.flatnonzero(values.isna().to_numpy())
    if missing.size:
        raise DataError(f"the target {name!r} is empty in {place(int(missing[0]), line)}; fill it or --drop-missing.")
    if is_numeric(values):
        return np.asarray(values.to_numpy())
    return np.asarray(values.astype(str).to_numpy(dtype=str))


def as_task(y: Array, task: str | None) -> Array:
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
