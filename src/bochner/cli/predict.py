"""`bochner predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bochner.cli import OK
from bochner.cli.errors import DataError, check_column, nearest
from bochner.cli.files import (
    Raw,
    TextFormat,
    check_outputs,
    columns_file,
    pandas_module,
    read,
    table_kind,
    write_table,
    written,
)
from bochner.cli.options import (
    CharactersOption,
    DataArgument,
    DecimalOption,
    GapOption,
    JsonOption,
    MissingOption,
    SeparatorOption,
)
from bochner.cli.screen import counted, print_json, say

_SHOWN = 3  # values that a note names
_STDOUT = Path("-")


def predict(
    model: Annotated[Path, typer.Argument(help="What `bochner fit` or `bochner.save` wrote.")],
    data: DataArgument,
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
    gap: GapOption = None,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: CharactersOption = None,
    as_json: JsonOption = False,
) -> int:
    """Predict the target of every row, in their order.

    Text, dates, gaps and numbers are read as in training. Missing values, values that were not there in training, and
    numbers far beyond those of training are reported. If the file contains the target, so is the score.
    """
    text = TextFormat(sep, decimal, encoding, gaps=None if gap is None else tuple(gap)).check(data)
    if out != _STDOUT:
        check_outputs([out], [model, columns_file(model), Path(data)])
        table_kind(out)
    elif as_json:
        raise DataError("--json and the predictions would both go to standard output: say where with --out FILE.")
    if not model.exists():
        siblings = sorted(path.name for path in model.parent.glob("*")) if model.parent.is_dir() else []
        raise DataError(f"there is no model {str(model)!r}; {nearest(model.name, siblings, 'file')}")
    pandas = pandas_module()
    from bochner.cli.tables import Recipe
    from bochner.persistence import load

    found = load(model)
    if not hasattr(found, "predict"):
        raise DataError(f"{model} is a {type(found).__name__}, which predicts nothing.")
    described = columns_file(model)
    recipe = Recipe.load(described) if described.exists() else None
    text = text if recipe is None else recipe.text_format(text)
    raw = read(data, text)
    say(*raw.notes)
    for name in keep or ():
        if raw.frame is None:
            raise DataError(f"--keep: {data} has no named columns.")
        check_column(name, list(raw.frame.columns), "--keep")
    kept = {name: column.to_numpy() for name, column in _as_written(raw, data, keep or ())}
    raw, rows, left_out = _without_gaps(raw, recipe, found) if drop_missing else (raw, None, 0)
    X, notes = _rows(raw, recipe, found, data)
    say(*notes)
    columns = {name: values if rows is None else values[rows - 1] for name, values in kept.items()}
    if rows is not None and "row" not in columns:
        columns["row"] = rows
    columns |= _predictions(found, X, probabilities, coverage)
    frame = pandas.DataFrame(columns)
    score = _score(raw, recipe, found, X)
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


def _as_written(raw: Raw, data: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Columns of a file; those of a text file as they are written, but for numbers that lose nothing."""
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


def _predictions(model: Any, X: Any, probabilities: bool, coverage: float | None) -> dict[str, Any]:
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


def _names(recipe: Any, model: Any) -> list[str] | None:
    """The columns that a model takes, if they have names."""
    if recipe is not None:
        return list(recipe.columns)
    return getattr(model, "feature_names_in_", None)


def _without_gaps(raw: Raw, recipe: Any, model: Any) -> tuple[Raw, Any, int]:
    """Rows without gaps in what the model takes, their numbers in the file, from 1, and how many others there are."""
    from dataclasses import replace

    import numpy as np

    if raw.frame is None:
        keep = np.isfinite(raw.X).all(axis=1)
        kept = replace(raw, X=raw.X[keep])
    else:
        names = [name for name in _names(recipe, model) or raw.frame.columns if name in raw.frame.columns]
        keep = raw.frame[names].notna().all(axis=1).to_numpy()
        kept = replace(raw, frame=raw.frame[keep].reset_index(drop=True), line=None)
    if not keep.any():
        raise DataError("--drop-missing leaves no rows: every row has a missing value.")
    left_out = int((~keep).sum())
    say(f"{counted(left_out, 'row')} with missing values left out")
    return kept, np.flatnonzero(keep) + 1, left_out


def _rows(raw: Raw, recipe: Any, model: Any, data: str) -> tuple[Any, list[str]]:
    """Rows as the model takes them, and what is unlike the training rows, in words."""
    from bochner.cli.columns import model_columns
    from bochner.tables.estimators import TabularClassifier, TabularRegressor

    notes = []
    if raw.frame is not None and recipe is not None:
        for name, counts in recipe.unseen(raw.frame).items():
            shown = ", ".join(map(repr, list(counts)[:_SHOWN])) + (", …" if len(counts) > _SHOWN else "")
            rows = counted(sum(counts.values()), "row")
            notes.append(f"column {name!r}: {rows} with values that training had not: {shown}")
        for name, (count, first) in recipe.beyond(raw.frame).items():
            low, high = recipe.ranges[name]
            rows = counted(count, "row")
            notes.append(f"column {name!r}: {rows} far beyond training's {low:g} to {high:g}, such as {first:g}")
    if not isinstance(model, (TabularClassifier, TabularRegressor)):
        return _numbers(raw, recipe, model, data), notes
    X, of_dates = model_columns(raw, recipe, model, data)
    notes += of_dates
    if hasattr(X, "isna"):
        gaps = X.isna().sum()
        filled = gaps[gaps > 0].items()
        notes += [f"column {name!r}: {counted(count, 'gap')}, filled as in training" for name, count in filled]
    return X, notes


def _numbers(raw: Raw, recipe: Any, model: Any, data: str) -> Any:
    """Rows as a model of numbers was trained on them."""
    import numpy as np
    import scipy.sparse

    from bochner.cli.tables import Recipe

    n_features = model.n_features_in_
    if raw.frame is not None:
        X = (recipe or Recipe.of(raw.frame, None, None))(raw.frame, raw.line)
    else:
        X = raw.X
        if recipe is not None and X.shape[1] > len(recipe.columns) and all(c.isdigit() for c in recipe.columns):
            X = X[:, [int(c) for c in recipe.columns]]  # the target is still among them
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float32 if X.dtype.itemsize < 4 else np.float64)
        X = X if recipe is None or X.shape[1] != n_features else recipe.scale_rows(X)
    if X.shape[1] != n_features:
        raise DataError(f"the model was trained on {n_features} features, and {data} gives {X.shape[1]}.")
    values = X.data if scipy.sparse.issparse(X) else X
    if not np.isfinite(values).all():
        raise DataError(f"{data} contains NaN or infinity; fill the gaps or --drop-missing.")
    names = getattr(model, "feature_names_in_", None)
    return X if names is None or scipy.sparse.issparse(X) else pandas_module().DataFrame(X, columns=names)


def _score(raw: Raw, recipe: Any, model: Any, X: Any) -> dict[str, Any] | None:
    """The score of the predictions of the rows whose target the file holds."""
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
