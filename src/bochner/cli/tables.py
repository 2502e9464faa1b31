"""Rows as models take them: a frame of columns for a model of tables, and numbers for a model of one kernel.

A recipe says how a file was read and how its columns became numbers; it is kept beside a model, so that new rows are
treated in the same way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.checks import power_of_two
from bochner.cli.columns import extremes, is_text, notes_on, with_dates
from bochner.cli.errors import DataError, check_column
from bochner.cli.files import Raw, TextFormat, looks_numeric, pandas_module, read
from bochner.cli.screen import counted
from bochner.outputs import replacing

if TYPE_CHECKING:  # mistakes in the data are reported before scikit-learn and SciPy are imported
    from pandas import DataFrame, Series

    from bochner.backends import Array
    from bochner.cli.options import RowOptions
    from bochner.cli.predict import Model
    from bochner.data.sources import Block, Source
    from bochner.tables.columns import Column

_FAR = 1.0  # numbers this many widths of the range of training beyond it are reported
_MOST_LEVELS = 1000  # largest number of different texts of a column that are kept to recognise new ones
_SAMPLE_ROWS = 500_000  # rows of a Parquet file that are read at once


@dataclass(frozen=True)
class Recipe:
    """How rows were read and became numbers, so that new rows are treated in the same way.

    Attributes
    ----------
    columns : tuple of str
    target : str or None
    categories : dict
        The texts of each column of texts, to recognise new ones.
    dates : dict
        How the dates of each column of dates were written.
    texts, gaps, decimal
        Options of the file, for new files that leave them open.
    ranges : dict or None
        The least and the largest of each column of numbers. None for an array, whose columns have no names.
    encoded : tuple of Column
        How each column becomes numbers. Empty if the model takes columns as they are.
    mean, scale : tuple of float or None
        What is subtracted from each column of numbers, and what it is divided by.
    """

    columns: tuple[str, ...]
    target: str | None = None
    categories: dict[str, list[str]] = field(default_factory=dict)
    dates: dict[str, str] | None = None
    texts: tuple[str, ...] = ()
    gaps: tuple[str, ...] | None = None
    decimal: str | None = None
    ranges: dict[str, tuple[float, float]] | None = None
    encoded: tuple[Column, ...] = ()
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    @classmethod
    def of_frame(cls, frame: DataFrame, target: str | None, raw: Raw, text: TextFormat | None) -> Recipe:
        """Describe the columns of a frame, and the file that it was read from."""
        texts = {name: sorted(set(frame[name].dropna().astype(str))) for name in frame.columns if is_text(frame[name])}
        ranges = {}
        for name in frame.columns:
            values = raw.frame[name]
            if values.dtype.kind in "iuf" and values.notna().any():
                ranges[name] = (float(values.min()), float(values.max()))
        return cls(
            tuple(frame.columns),
            target,
            categories={name: levels for name, levels in texts.items() if len(levels) <= _MOST_LEVELS},
            texts=tuple(name for name in raw.texts if name in (*frame.columns, target)),
            gaps=None if text is None else text.gaps,
            decimal=None if raw.layout is None else raw.layout.decimal,
            ranges=ranges,
        )

    def text_format(self, text: TextFormat) -> TextFormat:
        """Return how new files are read: as the user says, or else as in training."""
        gaps = self.gaps if text.gaps is None else text.gaps
        return replace(text, texts=self.texts, gaps=gaps, usual_decimal=self.decimal, codes=False)

    def beyond(self, frame: DataFrame) -> dict[str, tuple[int, float]]:
        """Count the rows with numbers far beyond those of training, by column, and return the first such number."""
        found = {}
        for name, (low, high) in (self.ranges or {}).items():
            if name in frame.columns and frame[name].dtype.kind in "iuf":
                margin = _FAR * (high - low)
                far = frame[name][(frame[name] < low - margin) | (frame[name] > high + margin)]
                if len(far):
                    found[name] = (len(far), float(far.iloc[0]))
        return found

    def unseen(self, frame: DataFrame) -> dict[str, dict[str, int]]:
        """Count the texts of each column that training did not have."""
        found = {}
        for name, known in self.categories.items():
            if name in frame.columns:
                texts = frame[name].dropna().astype(str)
                counts = texts[~texts.isin(known)].value_counts()
                found[name] = {str(value): int(count) for value, count in counts.items()}
        return {name: counts for name, counts in found.items() if counts}

    def encoding(self, columns: Sequence[Column]) -> Recipe:
        """Return the recipe for the columns that are not left out, and how they become numbers."""
        used = tuple(column for column in columns if column.plan != "left out")
        names = tuple(column.name for column in used)
        known = {name: levels for name, levels in self.categories.items() if name in names}
        return replace(self, columns=names, categories=known, encoded=used)

    def standardising(self, X: Any) -> Recipe:
        """Return the recipe with the means and standard deviations of X; sparse columns are only divided."""
        if not is_sparse(X):
            from bochner.tables.scaling import scale_columns

            found = scale_columns(X, np.ones(len(X)), ranked=False)
            return replace(self, mean=tuple(found.centres.tolist()), scale=tuple(found.sizes.tolist()))
        from scipy.sparse import diags
        from sklearn.utils.sparsefuncs import mean_variance_axis

        units = power_of_two(np.ravel(abs(X).max(axis=0).toarray()).astype(np.float64))  # squares neither overflow
        centre, variance = mean_variance_axis((X @ diags(1.0 / units)).tocsr(), axis=0)  # nor vanish
        scale = np.where(variance > 1e-24 * np.square(centre), units * np.sqrt(variance), 1.0)
        return replace(self, scale=tuple(scale.tolist()))

    def numbers(self, X: Any) -> Any:
        """Encode and standardise rows; they stay as they are if the model takes them so."""
        if self.encoded:
            from bochner.tables.columns import encode_columns, raw_columns

            X = encode_columns(self.encoded, raw_columns(X))
        if self.scale is None:
            return X
        if is_sparse(X):
            from scipy.sparse import diags

            return (X @ diags(1.0 / np.asarray(self.scale))).astype(X.dtype).tocsr()
        return ((X - np.asarray(self.mean or 0.0)) / np.asarray(self.scale)).astype(X.dtype)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        text = json.dumps({"format": 1, **asdict(self)}, indent=1, default=np.ndarray.tolist) + "\n"
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
            lists["encoded"] = tuple(map(_column, found["encoded"]))
            ranges = found["ranges"] and {name: tuple(values) for name, values in found["ranges"].items()}
            return cls(**{**found, **lists, "ranges": ranges})
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a recipe of columns: {error!r}") from None


def _column(found: dict[str, Any]) -> Column:
    """Read a column that `Recipe.save` wrote."""
    from bochner.tables.columns import Column

    arrays = {
        "levels": np.array(found["levels"], dtype=object),
        "encodings": np.array(found["encodings"], dtype=float, ndmin=2),
        "fills": np.array(found["fills"], dtype=float),
    }
    return Column(**{**found, **arrays, "parts": tuple(found["parts"])})


def is_sparse(X: Any) -> bool:
    """Return True for a matrix of SciPy."""
    return hasattr(X, "tocsr")


# -- tables --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows for a model, and how they were read.

    Attributes
    ----------
    name : str
    X : DataFrame, ndarray or sparse matrix
        Rows as the model takes them.
    y : ndarray or None
    recipe : Recipe
    notes : tuple of str
    n_dropped : int
        Number of rows that were left out.
    left_out : dict
        Why each column that is not used was left out.
    sampled : bool
        Whether the file has more rows than X.
    columns : DataFrame, ndarray or sparse matrix
        Rows before they became numbers.
    source : Source or None
        All rows of a file of which X is a sample.
    """

    name: str
    X: Any
    y: Array | None
    recipe: Recipe
    notes: tuple[str, ...] = ()
    n_dropped: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    sampled: bool = False
    columns: Any = None
    source: Source | None = None


def load_columns(data: str | None, options: RowOptions, *, max_rows: int | None = None) -> Table:
    """Read columns as they are, except for dates, which text files hold as texts, and take the target out of them."""
    text, target = options.text_format, options.target
    raw = read(data, text, max_rows=max_rows)
    if raw.frame is None:
        return _array_table(raw, options)
    frame, notes, n_dropped = raw.frame, list(raw.notes), 0
    for option, names in (("--text", text.texts), ("--drop", options.drop or ())):
        for name in names:
            check_column(name, list(frame.columns), option)
    frame = frame.drop(columns=list(options.drop or ()))
    if target is not None:
        check_column(target, list(frame.columns))
    if options.drop_missing:
        frame, n_dropped = without_missing(frame, target, raw.texts)
        notes += _missing_left_out(n_dropped)
    y, present = None, np.ones(len(frame), dtype=bool)
    if target is not None:
        y, present = target_of(frame[target], target, None if options.drop_missing else raw.line, options.task)
        frame = frame.drop(columns=target)
    if not frame.shape[1]:
        raise DataError("there is no column besides the target.")
    notes += extremes(frame)
    frame, dates, of_dates = with_dates(frame, texts=raw.texts)
    frame, n_dropped = frame[present].reset_index(drop=True), n_dropped + int(np.count_nonzero(~present))
    notes += [*without_target(present, target), *notes_on(frame)]
    if y is not None:
        y, why = as_task(y, options.task, target)
        notes.append(why)
    recipe = replace(Recipe.of_frame(frame, target, raw, text), dates=dates)
    left_out = dict.fromkeys(options.drop or (), "left out, as --drop says")
    return Table(raw.name, frame, y, recipe, (*notes, *of_dates), n_dropped, left_out, raw.sampled, frame)


def load_table(data: str | None, options: RowOptions, *, standardize: bool = True, all_rows: bool = False) -> Table:
    """Read columns as numbers.

    A sample of the rows of a large Parquet file is read. With `all_rows` all rows follow as a stream if every column is
    a number without gaps, and otherwise they are read, too.
    """
    table = load_columns(data, options, max_rows=_SAMPLE_ROWS)
    table = table if is_sparse(table.X) or isinstance(table.X, np.ndarray) else _encoded(table)
    if all_rows and table.sampled and not _streams(table):
        table = _encoded(load_columns(data, options))
    if standardize:
        recipe = table.recipe.standardising(table.X)
        X = replace(recipe, encoded=()).numbers(table.X)
        note = "columns are standardised; --no-standardize takes them as they are"
        table = replace(table, X=X, recipe=recipe, notes=(*table.notes, note))
    if not (all_rows and table.sampled):
        return table
    from bochner.data.arrow import ArrowSource
    from bochner.data.sources import MappedSource

    rows = ArrowSource(str(data), target=options.target, columns=list(table.recipe.columns))
    return replace(table, source=MappedSource(rows, NumberBlocks(table.recipe)))


@dataclass(frozen=True)
class NumberBlocks:
    """Blocks of a stream as a recipe has them."""

    recipe: Recipe

    def __call__(self, block: Block) -> Block:
        return replace(block, X=self.recipe.numbers(block.X))


def _streams(table: Table) -> bool:
    """Return True if each column of a file is one column of numbers, and no row of the sample is left out."""
    return not table.n_dropped and all(column.plan == "number" and not column.gaps for column in table.recipe.encoded)


def _encoded(table: Table) -> Table:
    """Turn the columns of a frame into numbers, as models of tables do."""
    from bochner.tables.columns import plan_columns, raw_columns

    names, n = table.recipe.columns, len(table.X)
    Y = np.zeros((n, 1)) if table.y is None else target_columns(table.y)
    planned, X = plan_columns(names, raw_columns(table.X), Y, np.ones(n), 0)
    left_out = {column.name: column.why for column in planned if column.plan == "left out"}
    texts = [column.name for column in planned if column.plan in ("indicators", "target")]
    for column in planned:
        if table.y is None and column.plan == "target":
            raise DataError(
                f"column {column.name!r} has {len(column.levels)} different texts, which become numbers by the mean "
                f"target of each: name a --target, or --drop {column.name}."
            )
    if not X.shape[1]:
        raise DataError("every column was left out: " + "; ".join(f"{name}: {why}" for name, why in left_out.items()))
    notes = [f"column {name!r} is {why}" for name, why in left_out.items()]
    notes += [f"text as numbers: {', '.join(texts)}"] if texts else []
    return replace(
        table,
        X=X,
        recipe=table.recipe.encoding(planned),
        notes=(*table.notes, *notes),
        left_out=table.left_out | left_out,
    )


def target_columns(y: Array) -> Array:
    """Return targets as columns of numbers; a label is -1 or 1 for every class, or for the second of two."""
    from bochner.comparison.references import task_of

    if task_of(y) == "regression":
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)
    classes, codes = np.unique(y, return_inverse=True)
    signs = np.where(codes[:, None] == np.arange(len(classes)), 1.0, -1.0)
    return signs[:, 1:] if len(classes) == 2 else signs


def model_columns(raw: Raw, recipe: Recipe | None, model: Model, data: str) -> tuple[DataFrame | Array, list[str]]:
    """Return the columns that a model was trained on, and notes on what was assumed about their dates."""
    names = getattr(model, "feature_names_in_", None)
    names = recipe.columns if recipe is not None and recipe.ranges is not None else names
    if raw.frame is not None and names is not None:
        for name in names:
            check_column(name, list(raw.frame.columns))
        frame, _, notes = with_dates(raw.frame[list(names)], recipe, raw.texts)
        return frame, list(notes)
    X = as_floats(raw.X if raw.frame is None else raw.frame.to_numpy())
    n_columns = len(recipe.columns) if recipe is not None else model.n_features_in_
    if X.shape[1] > n_columns and recipe is not None and recipe.ranges is None and recipe.target is not None:
        X = X[:, [int(name) for name in recipe.columns]]  # the target is still among them
    if X.shape[1] != n_columns:
        raise DataError(f"the model was trained on {n_columns} features, and {data} has {X.shape[1]}.")
    return X, []


def as_floats(X: Any) -> Any:
    """Return rows in their own float type; integers of at most two bytes become float32."""
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float32 if X.dtype.itemsize < 4 else np.float64)


def _array_table(raw: Raw, options: RowOptions) -> Table:
    """Take the target out of an array, and rows with gaps if the user says so."""
    X, y, recipe = from_arrays(raw, options.target, options.drop or ())
    notes, n_rows = list(raw.notes), X.shape[0]
    if options.drop_missing and not is_sparse(X):
        keep = np.isfinite(X).all(axis=1)
        X, y = X[keep], None if y is None else y[keep]
        notes += _missing_left_out(n_rows - len(X))
    if y is not None:
        present = with_target(y)
        X, (y, why) = X[present], as_task(y[present], options.task, options.target)
        notes += [*without_target(present, options.target), why]
    left_out = dict.fromkeys(options.drop or (), "left out, as --drop says")
    return Table(raw.name, X, y, recipe, tuple(notes), n_rows - X.shape[0], left_out, columns=X)


def _missing_left_out(count: int) -> list[str]:
    return [f"{counted(count, 'row')} with missing values left out"] if count else []


def from_arrays(raw: Raw, target: str | None, drop: Sequence[str]) -> tuple[Any, Array | None, Recipe]:
    """Divide an array into rows and targets; the recipe numbers the columns of the rows."""
    X, y = raw.X, raw.y
    if X.ndim != 2 or X.dtype.kind not in "fiub":
        raise DataError(f"{raw.name} holds values of type {X.dtype} and shape {X.shape}; expected a table of numbers.")
    names = [str(j) for j in range(X.shape[1])]
    if target is not None and not (y is not None and target == "y"):
        j = _index(target, names)
        y = np.ravel(X[:, [j]].toarray() if is_sparse(X) else X[:, j])  # type: ignore[union-attr]
        drop = [*drop, names[j]]
    if drop:
        gone = {_index(name, names) for name in drop}
        keep = [j for j in range(X.shape[1]) if j not in gone]
        X, names = X[:, keep], [names[j] for j in keep]
    if not names:
        raise DataError("there is no column besides the target.")
    return as_floats(X), y, Recipe(tuple(names), target)


def with_target(y: Array) -> Array:
    """Return True for each row that has a target."""
    return ~np.isnan(y) if y.dtype.kind == "f" and y.ndim == 1 else np.ones(len(y), dtype=bool)


def _index(name: str, names: Sequence[str]) -> int:
    try:
        return range(len(names))[int(name)]
    except (ValueError, IndexError):
        raise DataError(
            f"the columns of an array are numbered 0 to {len(names) - 1} (or -1 for the last); there is no {name!r}."
        ) from None


def without_missing(frame: DataFrame, target: str | None, texts: Sequence[str] = ()) -> tuple[DataFrame, int]:
    """Drop rows with missing values or infinite numbers; the columns `texts` are never taken for numbers."""
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


def target_of(values: Series, name: str, line: int | None, task: str | None = None) -> tuple[Array, Array]:
    """Return the targets, numbers or texts, of the rows that have one, and these rows (a mask)."""
    present = values.notna().to_numpy()
    if not present.any():
        raise DataError(f"the target {name!r} is empty in every row; name another column with --target.")
    values = values[present]
    types = pandas_module().api.types
    if types.is_datetime64_any_dtype(values.dtype):
        raise DataError(f"the target {name!r} holds dates; give numbers, such as days since the first of them.")
    if types.is_numeric_dtype(values.dtype):
        return np.asarray(values.to_numpy()), present
    texts = np.asarray(values.astype(str).to_numpy(dtype=str))
    numeric = np.array([looks_numeric(text) for text in texts])
    if task != "classification" and numeric.mean() > 0.5:
        row = int(np.flatnonzero(~numeric)[0]) if not numeric.all() else 0
        row_in_file = int(np.flatnonzero(present)[row])
        where = f"row {row_in_file + 1}" + ("" if line is None else f" (line {row_in_file + line})")
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
    """Return numbers for regression or labels for classification, and a note on what was decided."""
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
