"""Pictures of fitted models."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.checks import check_count
from bochner.data.frames import as_table, is_frame, split_frame
from bochner.draws.keys import Seed
from bochner.tables.columns import raw_columns

_POINTS = 200  # points of a curve besides the rows
_MARGIN = 0.05  # length of a curve beyond the rows at both ends, as a share of their range
_GROUP = 0.8  # width of the rows of one category, as a share of the distance between categories


def plot_intervals(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    column: int | str | None = None,
    coverage: float = 0.9,
    n_functions: int = 0,
    random_state: Seed = 0,
    ax: Any = None,
) -> Any:
    """Draw the predictions of a fitted model with their intervals, and the share of the targets inside them.

    The interval of every row is a bar at its prediction, or at its value of `column`. If X is an array of one column,
    the intervals are a band around a curve. For a Gaussian process a second band shows the interval of the function
    itself, without noise.

    Parameters
    ----------
    model : fitted regressor with `predict_interval`
        Such as `GaussianProcessRegressor` and `TabularRegressor`, for one target.
    X : array-like or data frame of shape (n_samples, n_features)
        Rows that the model accepts. Rows that it was not trained on show how well it predicts.
    y : array-like of shape (n_samples,), str or None, default=None
        Targets, drawn as dots; the legend has the share inside the intervals. A name takes that column out of the
        frame X. None draws no dots.
    column : int, str or None, default=None
        Number or name of the column of the horizontal axis. None for the predictions.
    coverage : float, default=0.9
        Share of new targets that the intervals are to contain.
    n_functions : int, default=0
        Number of functions drawn from the posterior of a Gaussian process of one column.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    ax : matplotlib.axes.Axes, optional
        Axes to draw on. None for a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> import bochner
    >>> x = np.linspace(0, 6, 60)[:, None]
    >>> model = bochner.GaussianProcessRegressor(n_components=30, random_state=0).fit(x, np.sin(x[:, 0]))
    >>> ax = bochner.plot_intervals(model, x, np.sin(x[:, 0]))  # doctest: +SKIP
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'bochner[plot]'.") from error
    target = y if isinstance(y, str) else getattr(y, "name", None) or "target"
    X, y, _ = split_frame(as_table(X), y, None)
    X = X if is_frame(X) or scipy.sparse.issparse(X) else np.asarray(X)
    count = check_count("n_functions", n_functions, least=0)
    curve = isinstance(X, np.ndarray) and X.shape[1:] == (1,)
    _check_data(model, X, y, count, curve)
    names = _names(X)
    place = None if column is None else _place(column, names)
    mean = model.predict(X)
    if mean.ndim != 1:
        raise ValueError(f"expected a model of one target, got one of {mean.shape[1]}.")
    low, high = model.predict_interval(X, coverage=coverage).T
    axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    label = f"{coverage:.0%} interval"
    if curve:
        x = X[:, 0]
        _draw_curve(axes, model, x, label, coverage, count, random_state)
        axes.set_xlabel(names[0])
    else:
        x = mean if place is None else _positions(axes, X, place, mean)
        axes.vlines(x, low, high, color="C0", alpha=0.35, linewidth=1, label=label)
        axes.plot(x, mean, "_", color="C0", markersize=4, label="prediction")
        axes.set_xlabel("prediction" if place is None else names[place])
    if y is not None:
        y = np.asarray(y, dtype=np.float64)
        inside = np.mean((low <= y) & (y <= high))
        axes.plot(x, y, "k.", markersize=4, label=f"observed: {inside:.0%} of {len(y):,} inside")
    axes.set_ylabel(str(target))
    axes.legend(frameon=False)
    return axes


def _check_data(model: Any, X: Any, y: Any, n_functions: int, curve: bool) -> None:
    """Refuse a model without intervals, data that do not fit each other, and functions that cannot be drawn."""
    kind = type(model).__name__
    if not hasattr(model, "predict_interval"):
        raise ValueError(f"expected a model with predict_interval, such as GaussianProcessRegressor; got {kind}.")
    if len(X.shape) != 2 or not X.shape[0]:
        raise ValueError(f"expected X of shape (n_samples, n_features), got {X.shape}.")
    if y is not None and np.shape(y) != X.shape[:1]:
        raise ValueError(f"expected one target for each of {X.shape[0]} rows, got y of shape {np.shape(y)}.")
    if n_functions and not hasattr(model, "sample_functions"):
        raise ValueError(f"{kind} has no functions to draw: leave n_functions at 0.")
    if n_functions and not curve:
        raise ValueError(f"functions are drawn for an array of one column, got {X.shape[1]}: leave n_functions at 0.")


def _names(X: Any) -> list[str]:
    if is_frame(X):
        return [str(name) for name in getattr(X, "column_names", None) or X.columns]
    return [f"column {j}" for j in range(X.shape[1])]


def _place(column: int | str, names: list[str]) -> int:
    """Return the number of a column that is given by number or name."""
    if isinstance(column, str):
        if column not in names:
            raise ValueError(f"expected a column among {', '.join(map(repr, names))}, got {column!r}.")
        return names.index(column)
    if not -len(names) <= column < len(names):
        raise ValueError(f"expected a column from 0 to {len(names) - 1}, got {column}.")
    return column % len(names)


def _positions(axes: Any, X: Any, column: int, mean: Array) -> Array:
    """Return the horizontal position of every row. Rows of a category stand side by side, sorted by prediction."""
    kind, values = raw_columns(X.toarray() if scipy.sparse.issparse(X) else X)[column]
    if kind == "number":
        return values
    if kind == "date":
        return (1e3 * values).astype("datetime64[ms]")
    levels, codes, counts = np.unique(
        ["missing" if value is None else str(value) for value in values], return_inverse=True, return_counts=True
    )
    order = np.lexsort((mean, codes))
    rank = np.empty(len(codes))
    rank[order] = np.arange(len(codes)) - (np.cumsum(counts) - counts)[codes[order]]
    axes.set_xticks(np.arange(len(levels)), levels)
    return codes + _GROUP * ((rank + 0.5) / counts[codes] - 0.5)


def _draw_curve(axes: Any, model: Any, x: Array, label: str, coverage: float, count: int, random_state: Seed) -> None:
    """Draw the prediction along the only column, with bands and functions drawn from the posterior."""
    beyond = _MARGIN * (x.max() - x.min())
    grid = np.union1d(np.linspace(x.min() - beyond, x.max() + beyond, _POINTS), x)
    rows = grid[:, None]
    bands: dict[str, dict[str, bool]] = {label: {}}
    if "include_noise" in signature(model.predict_interval).parameters:
        bands[f"{label} of the function"] = {"include_noise": False}
    for name, options in bands.items():
        ends = model.predict_interval(rows, coverage=coverage, **options).T
        # the second lies on the first, and has the darker shade in the legend too
        axes.fill_between(grid, *ends, color="C0", alpha=0.35 if options else 0.18, linewidth=0, label=name)
    if count:
        drawn = model.sample_functions(count, random_state=random_state)(rows)
        axes.plot(grid, drawn, color="C1", linewidth=0.8, label=["drawn from the posterior", *[None] * (count - 1)])
    axes.plot(grid, model.predict(rows), color="C0", label="prediction")
