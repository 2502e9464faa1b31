"""Tables of numbers, for models that take nothing else.

A recipe turns the columns of a table into numbers, and is kept beside a model so that new rows go the same way.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.checks import power_of_two
from bochner.cli.errors import DataError, check_column, nearest
from bochner.cli.files import Raw, TextFormat, looks_numeric, pandas_module, read
from bochner.cli.screen import counted
from bochner.outputs import replacing

if TYPE_CHECKING:  # a mistake in the data is told before scikit-learn and SciPy are imported
    from bochner.backends import Array
    from bochner.data.sources import Block, Source

_FAR = 1.0  # widths of the range of training beyond which new numbers are reported
_PROPORTION = 1e9  # numbers this many times larger than usual are reported
_MANY_CATEGORIES = 256  # more than this many categories get no column each


@dataclass(frozen=True)
class Recipe:
    """How columns become features: which, how text is encoded, and what is subtracted and divided by.

    Of a model that takes columns as they are: which, their texts, and how dates are written. Of both: how the file of
    training was read, where a new file may leave that open, and the least and largest of each column of numbers.
    """

    columns: tuple[str, ...]
    target: str | None = None
    encode: str | None = None
    categories: dict[str, list[str]] | None = None
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None
    dates: dict[str, str] | None = None
    texts: tuple[str, ...] = ()
    gaps: tuple[str, ...] | None = None
    decimal: str | None = None
    ranges: dict[str, tuple[float, float]] | None = None

    @classmethod
    def of(cls, frame: Any, target: str | None, encode: str | None, texts: Sequence[str] = ()) -> Recipe:
        """The recipe for a frame, without scaling; `texts` are text whatever they look like."""
        names = [name for name in frame.columns if name != target]
        if not names:
            raise DataError("there is no column besides the target.")
        categories: dict[str, list[str]] = {}
        for name in names:
            if not is_numeric(frame[name]):
                if name not in texts:
                    refuse_mixed(frame[name], name)
                categories[name] = _categories(frame[name], name, encode)
        return cls(tuple(names), target, encode, categories)

    def of_file(self, raw: Raw, text: TextFormat | None) -> Recipe:
        """The same with how its file was read, and the ranges of its numbers."""
        ranges = {}
        for name in self.columns:
            values = raw.frame[name]
            if values.dtype.kind in "iuf" and values.notna().any():
                ranges[name] = (float(values.min()), float(values.max()))
        gaps = None if text is None else text.gaps
        texts = tuple(name for name in raw.texts if name in (*self.columns, self.target))
        decimal = None if raw.layout is None else raw.layout.decimal
        return replace(self, texts=texts, gaps=gaps, decimal=decimal, ranges=ranges)

    def text_format(self, text: TextFormat) -> TextFormat:
        """How new files are read: as the user says, or else as in training."""
        gaps = self.gaps if text.gaps is None else text.gaps
        return replace(text, texts=self.texts, gaps=gaps, usual_decimal=self.decimal, codes=False)

    def beyond(self, frame: Any) -> dict[str, tuple[int, float]]:
        """Of each column with numbers far beyond those of training: in how many rows, and the first."""
        found = {}
        for name, (low, high) in (self.ranges or {}).items():
            if name in frame.columns and frame[name].dtype.kind in "iuf":
                margin = _FAR * (high - low)
                far = frame[name][(frame[name] < low - margin) | (frame[name] > high + margin)]
                if len(far):
                    found[name] = (len(far), float(far.iloc[0]))
        return found

    def scaled(self, X: Any) -> Recipe:
        """The same with the means and standard deviations of X; constant columns are left as they are."""
        # squares of very large or small numbers would overflow or vanish; a power of two rounds nothing
        largest = abs(X).max(axis=0)
        largest = np.ravel(largest.toarray() if is_sparse(largest) else largest).astype(np.float64)
        units = power_of_two(largest)
        if is_sparse(X):  # divided only, so that zeros stay zeros
            mean = np.zeros(X.shape[1])
            from scipy.sparse import diags

            S = X @ diags(1.0 / units)
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
        if is_sparse(X):
            from scipy.sparse import diags

            return (X @ diags(1.0 / np.asarray(self.scale))).astype(dtype).tocsr()
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

    def unseen(self, frame: Any) -> dict[str, dict[str, int]]:
        """Of each column of text, the values that were not there in training, and how often they are here."""
        found = {}
        for name, known in (self.categories or {}).items():
            if name in frame.columns:
                texts = frame[name].dropna().astype(str)
                counts = texts[~texts.isin(known)].value_counts()
                found[name] = {str(value): int(count) for value, count in counts.items()}
        return {name: counts for name, counts in found.items() if counts}

    def save(self, path: Path) -> None:
        """Write as JSON."""
        text = json.dumps({"format": 1, **asdict(self)}, indent=1) + "\n"
        with replacing(path) as file:
            file.write(text.encode())

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read what `save` wrote."""
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found.pop("format") != 1:
                raise DataError(f"{path} was written by a later version of bochner; update bochner.")
            tuples = ("columns", "mean", "scale", "texts", "gaps")
            lists = {name: tuple(found[name]) for name in tuples if found.get(name) is not None}
            return cls(**{**found, **lists})
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a recipe of columns: {error!r}") from None


def is_sparse(X: Any) -> bool:
    """Whether rows are a matrix of SciPy."""
    return hasattr(X, "tocsr")


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
        raise DataError(f"column {name!r} {what} in {place(row, line)}{more}; correct it or --drop-missing.")
    return numbers


def refuse_mixed(values: Any, name: str, recipe: Recipe | None = None) -> None:
    """Refuse text most of which are numbers: most rows, or most of the different texts; or, with a recipe, were."""
    texts = values.dropna().astype(str)
    numeric = texts.map(looks_numeric).astype(bool)
    if recipe is not None and name in (recipe.ranges or {}) and not numeric.all():
        row = int(np.flatnonzero(values.notna())[np.flatnonzero(~numeric)[0]])
        raise DataError(
            f"column {name!r} held numbers in training, but row {row + 1} has {values.iloc[row]!r}; correct the file, "
            f"or say --gap {shlex.quote(str(values.iloc[row]))} if it is a gap."
        )
    if not len(texts) or max(numeric.mean(), numeric[~texts.duplicated()].mean()) <= 0.5:
        return
    if numeric.all():
        raise DataError(
            f"column {name!r} is text that looks like numbers ({texts.iloc[0]!r}); say which decimal sign the file has "
            f"with --decimal , or --decimal ., or what the column is: --text {shlex.quote(name)} or --drop "
            f"{shlex.quote(name)}."
        )
    row = int(np.flatnonzero(values.notna())[np.flatnonzero(~numeric)[0]])
    raise DataError(
        f"column {name!r} should be numbers, but row {row + 1} has {values.iloc[row]!r}; correct the file, or say what "
        f"it is: --gap {shlex.quote(str(values.iloc[row]))} (a gap), --text {shlex.quote(name)} (the column is text) "
        f"or --drop {shlex.quote(name)}."
    )


def extremes(frame: Any) -> list[str]:
    """Of each column of numbers with one that is out of all proportion, a sentence about it."""
    notes = []
    for name in frame.columns:
        if frame[name].dtype.kind in "iuf":
            sizes = np.abs(frame[name].to_numpy(dtype=np.float64))
            usual = np.median(sizes[sizes > 0]) if (sizes > 0).any() else np.inf
            if np.nanmax(sizes, initial=0.0) > _PROPORTION * usual:
                row = int(np.nanargmax(sizes))
                notes.append(
                    f"column {name!r} has {frame[name].iloc[row]:g} in row {row + 1}, usually some {usual:.3g}"
                )
    return notes


def _categories(values: Any, name: str, encode: str | None) -> list[str]:
    present = values.dropna()
    distinct = sorted(set(present.astype(str)))
    if encode is None:
        shown = ", ".join(map(repr, distinct[:3]))
        raise DataError(
            f"column {name!r} is text ({len(distinct)} distinct: {shown}{', …' if len(distinct) > 3 else ''}). "
            "Add --encode one-hot (a column for each) or --encode ordinal (numbers 0, 1, …), or "
            f"--drop {shlex.quote(name)}."
        )
    if encode == "one-hot" and len(distinct) > _MANY_CATEGORIES:
        raise DataError(
            f"column {name!r} has {len(distinct):,} distinct values, too many for --encode one-hot: use --encode "
            f"ordinal, or --drop {shlex.quote(name)}."
        )
    return distinct


_SAMPLE_ROWS = 500_000  # of a Parquet file


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
    n_dropped: int = 0  # rows left out


@dataclass(frozen=True)
class ScaledBlocks:
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
    drop: Sequence[str] | None = None,
    text: TextFormat | None = None,
    drop_missing: bool = False,
    standardize: bool = True,
    all_rows: bool = False,
) -> Table:
    """Read DATA and make a table of numbers of it.

    Of a Parquet file with many rows a sample is read; with `all_rows` the others follow as a stream, or are read too
    where their text must be encoded first.
    """
    raw = read(data, text, max_rows=_SAMPLE_ROWS)
    gaps = raw.sampled and target in raw.frame.columns and raw.frame[target].isna().any()
    if all_rows and raw.sampled and (encode is not None or drop_missing or gaps):
        raw = read(data, text)
    notes, drop, left_out = list(raw.notes), drop or (), 0
    if raw.frame is None:
        X, y, recipe = from_arrays(raw, target, drop)
        present = np.ones(X.shape[0], dtype=bool) if y is None else with_target(y)
        if drop_missing and not is_sparse(X):
            keep = np.isfinite(X).all(axis=1)
            left_out = int((~keep).sum())
            X, y, present = X[keep], None if y is None else y[keep], present[keep]
        y = None if y is None else y[present]
    else:
        frame = raw.frame
        for name in drop:
            check_column(name, list(frame.columns), "--drop")
        frame = frame.drop(columns=list(drop))
        if target is not None:
            check_column(target, list(frame.columns))
        if drop_missing:
            frame, left_out = without_missing(frame, target, raw.texts)
        recipe = Recipe.of(frame, target, encode, raw.texts).of_file(raw, text)
        line = None if drop_missing else raw.line
        X = recipe(frame, line)
        y, present = None, np.ones(len(frame), dtype=bool)
        if target is not None:
            y, present = target_of(frame[target], target, line, task)
        notes += extremes(frame)
        if recipe.categories:
            notes.append(f"text as numbers ({encode}): {', '.join(recipe.categories)}")
    if left_out:
        notes.append(f"{counted(left_out, 'row')} with missing values left out")
    if not present.all():
        X, left_out = X[present], left_out + int(np.count_nonzero(~present))
        notes += without_target(present, target)
    if y is not None:
        y, why = as_task(y, task, target)
        notes.append(why)
    if standardize:
        recipe = recipe.scaled(X)
        X = recipe.scale_rows(X)
        notes.append("columns are standardised; --no-standardize takes them as they are")
    source: Source | None = None
    if all_rows and raw.sampled:
        from bochner.data.arrow import ArrowSource
        from bochner.data.sources import MappedSource

        source = MappedSource(ArrowSource(str(data), target=target, columns=list(recipe.columns)), ScaledBlocks(recipe))
    return Table(raw.name, X, y, recipe, tuple(notes), source, left_out)


def from_arrays(raw: Raw, target: str | None, drop: Sequence[str]) -> tuple[Any, Array | None, Recipe]:
    """Rows, targets and which columns the rows are, of an array."""
    X, y = raw.X, raw.y
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{raw.name} holds values of type {X.dtype} and shape {X.shape}; expected a table of numbers.")
    names = [str(j) for j in range(X.shape[1])]
    if target is not None and not (y is not None and target == "y"):
        j = _index(target, names)
        y = np.asarray(X[:, [j]].todense()).ravel() if is_sparse(X) else np.asarray(X[:, j])
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


def with_target(y: Array) -> Array:
    """Which rows have a target."""
    return ~np.isnan(y) if y.dtype.kind == "f" and y.ndim == 1 else np.ones(len(y), dtype=bool)


def _index(name: str, names: Sequence[str]) -> int:
    try:
        return range(len(names))[int(name)]
    except (ValueError, IndexError):
        raise DataError(
            f"the columns of an array are numbered 0 to {len(names) - 1} (or -1 for the last); there is no {name!r}."
        ) from None


def without_missing(frame: Any, target: str | None, texts: Sequence[str] = ()) -> tuple[Any, int]:
    """Rows in which nothing is missing and every number is one; `texts` are no numbers whatever they look like."""
    pandas = pandas_module()
    keep = frame.notna().all(axis=1)
    for name in frame.columns:
        if name == target or name in texts or pandas.api.types.is_datetime64_any_dtype(frame[name].dtype):
            continue
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        if numbers.notna().sum() > 0.5 * frame[name].notna().sum():
            keep &= np.isfinite(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
    if not keep.any():
        raise DataError("--drop-missing leaves no rows: every row has a missing value.")
    kept = frame[keep].reset_index(drop=True)
    for name in kept.columns:  # text that was numbers but for what is gone
        if not pandas.api.types.is_numeric_dtype(kept[name].dtype) and name != target and name not in texts:
            numbers = pandas.to_numeric(kept[name], errors="coerce")
            if numbers.notna().all():
                kept[name] = numbers
    return kept, int((~keep).sum())


def target_of(values: Any, name: str, line: int | None, task: str | None = None) -> tuple[Array, Array]:
    """Return the targets, numbers or texts, of the rows that have one, and these rows (a mask)."""
    present = values.notna().to_numpy()
    if not present.any():
        raise DataError(f"the target {name!r} is empty in every row; name another column with --target.")
    values = values[present]
    if is_numeric(values):
        return np.asarray(values.to_numpy()), present
    texts = np.asarray(values.astype(str).to_numpy(dtype=str))
    numeric = np.array([looks_numeric(text) for text in texts])
    if task != "classification" and numeric.mean() > 0.5:
        row = int(np.flatnonzero(~numeric)[0]) if not numeric.all() else 0
        where = place(int(np.flatnonzero(present)[row]), line)
        example = f" ({str(texts[0])!r})" if numeric.all() else f", but {where} has {str(texts[row])!r},"
        raise DataError(
            f"the target {name!r} looks like numbers{example} and is text; correct the file, say which decimal sign it "
            "has with --decimal, or take it as labels with --task classification."
        )
    return texts, present


def without_target(present: Array, name: str | None) -> list[str]:
    """Say how many rows are dropped since they have no target."""
    n_dropped = int(np.count_nonzero(~present))
    return [f"{counted(n_dropped, 'row')} dropped: the target {name!r} is missing there"] if n_dropped else []


def as_task(y: Array, task: str | None, name: str | None = None) -> tuple[Array, str]:
    """Numbers for regression and labels for classification, and what was decided, in words."""
    n_values, what = len(np.unique(y)), "the target" if name is None else f"the target {name!r}"
    if n_values == len(y) and y.dtype.kind not in "biufc":
        raise DataError(f"{what} has another text in each of the {n_values:,} rows: there is nothing to learn.")
    if n_values == 1:
        raise DataError(f"{what} is {y.ravel()[0]!s} in every row: there is nothing to learn.")
    from bochner.comparison.references import task_of

    if task is not None:
        why = f"{what}: {task}, as --task says"
    elif task_of(y) == "regression":
        why = f"{what}: numbers, so regression; --task classification takes them as labels"
    elif y.dtype.kind in "iu":
        why = f"{what}: whole numbers, only {n_values} different ones, so classification; --task regression overrules"
    else:
        why = f"{what}: {n_values} different labels, so classification"
    if task == "regression":
        try:
            return y.astype(np.float64), why
        except ValueError:
            raise DataError("--task regression needs numbers as targets; these are text.") from None
    if task == "classification" and y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.round(y)).all():
        y = y.astype(np.int64)
    if task == "classification" and task_of(y) == "regression":
        return y.astype(str), why  # labels that look like numbers
    return y, why
