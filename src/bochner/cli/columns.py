"""Files for models of tables: columns as they are, but for dates, which text files hold as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner.backends import Array
from bochner.cli.tables import (
    DataError,
    Recipe,
    as_task,
    from_arrays,
    nearest,
    pandas_module,
    read,
    refuse_mixed,
    target_of,
    without_missing,
)

_MOST_ROWS = 20_000  # that a linear model is tried on


@dataclass(frozen=True)
class Columns:
    """A frame or an array as a model of a table takes it, and its targets."""

    X: Any
    y: Array | None
    recipe: Recipe | None = None  # of an array: which of its columns
    notes: tuple[str, ...] = ()


def load_columns(
    data: str,
    target: str | None,
    *,
    task: str | None = None,
    drop: Sequence[str] = (),
    drop_missing: bool = False,
) -> Columns:
    """Read DATA and take the target out of it."""
    raw = read(data)
    if raw.frame is None:
        X, y, recipe = from_arrays(raw, target, drop)
        return Columns(X, None if y is None else as_task(y, task), recipe)
    frame, notes = raw.frame, tuple[str, ...]()
    for name in (*drop, *([] if target is None else [target])):
        if name not in frame.columns:
            raise DataError(f"there is no column {name!r}; {nearest(name, list(frame.columns))}")
    frame = frame.drop(columns=list(drop))
    if drop_missing:
        frame, left_out = without_missing(frame, target, None)
        notes = (f"{left_out:,} rows with missing values were left out",) if left_out else ()
    if target is None:
        return Columns(with_dates(frame), None, notes=notes)
    y = as_task(target_of(frame[target], target, None if drop_missing else raw.line), task)
    frame = frame.drop(columns=target)
    if not frame.shape[1]:
        raise DataError("there is no column besides the target.")
    return Columns(with_dates(frame), y, notes=notes)


def with_dates(frame: Any) -> Any:
    """The frame with columns of text that are all dates (ISO 8601) as dates; text among numbers is refused."""
    pandas = pandas_module()
    found = {}
    for name in frame.columns:
        values = frame[name]
        if pandas.api.types.is_numeric_dtype(values.dtype) or not len(values.dropna()):
            continue
        if not isinstance(values.dropna().iloc[0], str):
            continue
        refuse_mixed(values, name)
        try:
            found[name] = pandas.to_datetime(values, format="ISO8601")
        except (ValueError, TypeError):
            continue
    return frame.assign(**found)


def table_rows(data: str, recipe_path: Path, model: Any) -> Any:
    """Rows with the columns that a model of a table was trained on."""
    raw = read(data)
    names = getattr(model, "feature_names_in_", None)
    if raw.frame is not None and names is not None:
        missing = [name for name in names if name not in raw.frame.columns]
        if missing:
            raise DataError(f"there is no column {missing[0]!r}; {nearest(missing[0], list(raw.frame.columns))}")
        return with_dates(raw.frame[list(names)])
    X = raw.X if raw.frame is None else raw.frame.to_numpy()
    n_features = model.n_features_in_
    recipe = Recipe.load(recipe_path) if recipe_path.exists() else None
    if X.shape[1] > n_features and recipe is not None and recipe.target is not None:
        X = X[:, [int(name) for name in recipe.columns]]  # the target is still among them
    if X.shape[1] != n_features:
        raise DataError(f"the model was trained on {n_features} features, and {data} gives {X.shape[1]}.")
    return X if names is None else pandas_module().DataFrame(X, columns=names)


def plain_scores(A: Array, y: Array, classifies: bool) -> tuple[float, float]:
    """What a linear model and a constant score on rows left out (five folds): share of right labels, or R²."""
    rows = np.random.default_rng(0).permutation(len(A))[:_MOST_ROWS]
    A, y = A[rows], y[rows]
    linear = LogisticRegression(max_iter=300) if classifies else RidgeCV(np.logspace(-3, 3, 7))
    counts = np.unique(y, return_counts=True)[1] if classifies else np.array([len(y)])
    folds = int(min(5, counts.min() if classifies else len(y) // 2))
    constant = float(counts.max() / len(y)) if classifies else 0.0
    if folds < 2:
        return float("nan"), constant
    return float(np.mean(cross_val_score(make_pipeline(StandardScaler(), linear), A, y, cv=folds))), constant
