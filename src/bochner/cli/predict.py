"""`bochner predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from bochner.cli import OK
from bochner.cli.errors import DataError, check_column, nearest
from bochner.cli.files import (
    Raw,
    check_outputs,
    columns_file,
    pandas_module,
    read,
    table_kind,
    write_table,
    written,
)
from bochner.cli.options import DataArgument, JsonOption, MissingOption, TextOptions
from bochner.cli.screen import counted, print_json, say

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from bochner.backends import Array
    from bochner.cli.tables import Recipe
    from bochner.estimators.models import KernelModel
    from bochner.tables.estimators import TableModel

Model: TypeAlias = "KernelModel | TableModel"
Rows: TypeAlias = "DataFrame | Array"

_SHOWN = 3  # new texts that a note names
_STDOUT = Path("-")


def predict(
    model: Annotated[Path, typer.Argument(help="What `bochner fit` or `bochner.save` wrote.")],
    data: DataArgument,
    options: TextOptions,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV, Parquet, Feather, NPZ or NPY file; - is standard output, as CSV.")
    ] = _STDOUT,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", metavar="COLUMN", help="Column to write beside the predictions; may be repeated."),
    ] = None,
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add a column for each class.")] = False,
    coverage: Annotated[
        float | None, typer.Option("--interval", help="Add bounds that hold the target this often, such as 0.9.")
    ] = None,
    drop_missing: MissingOption = False,
    as_json: JsonOption = False,
) -> int:
    """Predict the target of every row, in their order.

    Text, dates, gaps and numbers are read as in training. Missing values, values that training did not have, and
    numbers far beyond those of training are reported. If the file contains the target, so is the score.
    """
    text = options.text_format.check(data)
    if out != _STDOUT:
        check_outputs([out], [model, columns_file(model), Path(data)])
        table_kind(out)
    elif as_json:
        raise DataError("--json and the predictions would both go to standard output: say where with --out FILE.")
    loaded, recipe = _loaded(model)
    raw = read(data, text if recipe is None else recipe.text_format(text))
    say(*raw.notes)
    columns = {name: column.to_numpy() for name, column in _as_written(raw, data, keep or ())}
    left_out = 0
    if drop_missing:
        raw, rows, left_out = _without_gaps(raw, recipe, loaded)
        columns = {name: values[rows - 1] for name, values in columns.items()}
        columns.setdefault("row", rows)
    X, notes = _rows(raw, recipe, loaded, data)
    say(*notes)
    frame = pandas_module().DataFrame(columns | _predictions(loaded, X, probabilities, coverage))
    score = _score(raw, recipe, loaded, X)
    if score is not None:
        say(f"the file holds the target: {score['name']} {score['value']:.4f} over {counted(score['rows'], 'row')}")
    if out == _STDOUT:
        frame.to_csv(sys.stdout, index=False)
        return OK
    write_table(frame, out)
    if as_json:
        print_json({"rows": len(frame), "rows_left_out": left_out, "file": out, "score": score, "notes": notes})
    else:
        say(f"{counted(len(frame), 'prediction')} in {out}")
    return OK


def _loaded(path: Path) -> tuple[Model, Recipe | None]:
    """Load a model, and the recipe of its columns if there is one."""
    if not path.exists():
        siblings = sorted(other.name for other in path.parent.glob("*")) if path.parent.is_dir() else []
        raise DataError(f"there is no model {str(path)!r}; {nearest(path.name, siblings, 'file')}")
    pandas_module()
    from bochner.cli.tables import Recipe
    from bochner.persistence import load

    model, described = load(path), columns_file(path)
    if not hasattr(model, "predict"):
        raise DataError(f"{path} is a {type(model).__name__}, which predicts nothing.")
    return model, Recipe.load(described) if described.exists() else None


def _as_written(raw: Raw, data: str, names: Sequence[str]) -> Iterator[tuple[str, Series]]:
    """Yield columns of a file; in a text file they stay as written, except for numbers that lose nothing."""
    for name in names:
        if raw.frame is None:
            raise DataError(f"--keep: {data} has no named columns.")
        check_column(name, list(raw.frame.columns), "--keep")
    if not names:
        return
    cells = None if raw.layout is None else written(Path(data), raw.layout, names)
    for name in names:
        values = raw.frame[name]
        if cells is not None:
            present = cells[name].dropna().astype(str).str.strip()
            present = present[present != ""]
            padded, whole = present.str.match(r"\+|[+-]?0\d"), present.str.fullmatch(r"[+-]?\d+")
            loses = {"i": padded.any(), "u": padded.any(), "f": whole.all()}.get(values.dtype.kind, True)
            values = cells[name] if loses else values
        yield name, values


def _predictions(model: Model, X: Rows, probabilities: bool, coverage: float | None) -> dict[str, Array]:
    predicted = model.predict(X)
    columns = {"prediction": predicted}
    if predicted.ndim > 1:
        columns = {f"prediction {j}": column for j, column in enumerate(predicted.T)}
    if probabilities:
        if not hasattr(model, "predict_proba"):
            raise DataError(f"a {type(model).__name__} has no probabilities.")
        for label, column in zip(model.classes_, model.predict_proba(X).T, strict=True):
            columns[f"probability of {label}"] = column
    if coverage is not None:
        if not hasattr(model, "predict_interval"):
            raise DataError(f"a {type(model).__name__} has no intervals; a TabularRegressor has.")
        columns["lower"], columns["upper"] = model.predict_interval(X, coverage).T
    return columns


def _without_gaps(raw: Raw, recipe: Recipe | None, model: Model) -> tuple[Raw, Array, int]:
    """Drop rows with gaps in the model's columns; return also the numbers of the others, from 1, and how many went."""
    from dataclasses import replace

    import numpy as np

    if raw.frame is None:
        keep = np.isfinite(raw.X).all(axis=1)
        kept = replace(raw, X=raw.X[keep])
    else:
        known = getattr(model, "feature_names_in_", raw.frame.columns) if recipe is None else recipe.columns
        keep = raw.frame[[name for name in known if name in raw.frame.columns]].notna().all(axis=1).to_numpy()
        kept = replace(raw, frame=raw.frame[keep].reset_index(drop=True), line=None)
    if not keep.any():
        raise DataError("--drop-missing leaves no rows: every row has a missing value.")
    left_out = int((~keep).sum())
    say(f"{counted(left_out, 'row')} with missing values left out")
    return kept, np.flatnonzero(keep) + 1, left_out


def _rows(raw: Raw, recipe: Recipe | None, model: Model, data: str) -> tuple[Rows, list[str]]:
    """Return rows as the model takes them, and notes on how they differ from the training rows."""
    import numpy as np

    from bochner.cli.tables import model_columns

    X, notes = model_columns(raw, recipe, model, data)
    if recipe is not None and raw.frame is not None:
        notes = [*_news(raw.frame, recipe), *notes]
        gaps = raw.frame[[name for name in recipe.columns if name in raw.frame.columns]].isna().sum()
        filled = gaps[gaps > 0].items()
        notes += [f"column {name!r}: {counted(count, 'gap')}, filled as in training" for name, count in filled]
    X = X if recipe is None else recipe.numbers(X)
    names = getattr(model, "feature_names_in_", None)
    named = names is not None and isinstance(X, np.ndarray)
    return pandas_module().DataFrame(X, columns=names) if named else X, notes


def _news(frame: DataFrame, recipe: Recipe) -> Iterator[str]:
    """Report texts that training did not have, and numbers far beyond those of training."""
    for name, counts in recipe.unseen(frame).items():
        shown = ", ".join(map(repr, list(counts)[:_SHOWN])) + (", …" if len(counts) > _SHOWN else "")
        rows = counted(sum(counts.values()), "row")
        yield f"column {name!r}: {rows} with values that training did not have: {shown}"
    for name, (count, first) in recipe.beyond(frame).items():
        low, high = (recipe.ranges or {})[name]
        rows = counted(count, "row")
        yield f"column {name!r}: {rows} far beyond training's {low:g} to {high:g}, such as {first:g}"


def _score(raw: Raw, recipe: Recipe | None, model: Model, X: Rows) -> dict[str, Any] | None:
    """Score the predictions of the rows with a target; None if the file does not hold it."""
    from sklearn.base import is_classifier

    if raw.frame is None or recipe is None or recipe.target not in raw.frame.columns:
        return None
    present = raw.frame[recipe.target].notna().to_numpy()
    y, X = raw.frame[recipe.target][present], X[present]
    if len(y) < 2:
        return None
    classifies = is_classifier(model)
    if classifies and y.dtype.kind == "f" and (y % 1 == 0).all():
        y = y.astype("int64")  # labels are whole numbers that gaps beside them had made 17.0
    try:
        y = y.astype(model.classes_.dtype).to_numpy() if classifies else y.to_numpy(dtype=float)
    except (TypeError, ValueError):
        return None
    return {"name": "accuracy" if classifies else "R²", "value": float(model.score(X, y)), "rows": len(y)}
