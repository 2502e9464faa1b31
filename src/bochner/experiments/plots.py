"""Pictures of fitted models."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from bochner.checks import check_count

_POINTS = 200  # of a curve
_MARGIN = 0.05  # by which it goes on at both ends of the data, as a share


def plot_intervals(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    column: int = 0,
    coverage: float = 0.9,
    n_functions: int = 0,
    random_state: Any = 0,
    ax: Any = None,
) -> Any:
    """Draw predictions of a fitted model along one column, with the intervals of new observations.

    The curve goes from the least to the largest value of the column and a little beyond; the other columns are kept at
    their medians. Of a Gaussian process the interval of the function itself, without noise, is drawn as a second band.

    Parameters
    ----------
    model : fitted regressor with `predict_interval`
        Such as `GaussianProcessRegressor` and `TabularRegressor`, for one target.
    X : array-like of shape (n_samples, n_features)
        Rows of numbers, such as those of the training.
    y : array-like of shape (n_samples,), optional
        Their targets, drawn as points.
    column : int, default=0
        Number of the column along which the curve goes.
    coverage : float, default=0.9
        What the intervals should contain.
    n_functions : int, default=0
        Functions drawn from the posterior of a Gaussian process.
    random_state : int, RandomState, Generator or None
        For the functions.
    ax : matplotlib.axes.Axes, optional
        Where to draw; None makes a new figure.

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
    if not hasattr(model, "predict_interval"):
        raise ValueError(
            f"expected a model with predict_interval, such as GaussianProcessRegressor; got {type(model).__name__}."
        )
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or not len(X):
        raise ValueError(f"expected X of shape (n_samples, n_features), got {X.shape}.")
    if not -X.shape[1] <= column < X.shape[1]:
        raise ValueError(f"expected a column from 0 to {X.shape[1] - 1}, got {column}.")
    count = check_count("n_functions", n_functions, least=0)
    if count and not hasattr(model, "sample_functions"):
        raise ValueError(f"{type(model).__name__} has no functions to draw: leave n_functions at 0.")
    low, high = X[:, column].min(), X[:, column].max()
    beyond = _MARGIN * (high - low)
    x = np.linspace(low - beyond, high + beyond, _POINTS)
    rows = np.tile(np.median(X, axis=0), (_POINTS, 1))
    rows[:, column] = x
    mean = model.predict(rows)
    if mean.ndim != 1:
        raise ValueError(f"expected a model of one target, got one of {mean.shape[1]}.")
    axes = pyplot.subplots(layout="constrained")[1] if ax is None else ax
    bands: dict[str, dict[str, bool]] = {f"{coverage:.0%} of observations": {}}
    if "include_noise" in signature(model.predict_interval).parameters:
        bands["the function"] = {"include_noise": False}
    for name, options in bands.items():
        ends = model.predict_interval(rows, coverage=coverage, **options).T
        # the second lies on the first, and has the darker shade in the legend too
        axes.fill_between(x, *ends, color="C0", alpha=0.35 if options else 0.18, linewidth=0, label=name)
    if count:
        drawn = model.sample_functions(count, random_state=random_state)(rows)
        axes.plot(x, drawn, color="C1", linewidth=0.8, label=["drawn from the posterior", *[None] * (count - 1)])
    axes.plot(x, mean, color="C0", label="prediction")
    if y is not None:
        axes.plot(X[:, column], np.asarray(y), "k.", markersize=4, zorder=1)
    axes.legend(frameon=False)
    return axes
