"""plot_intervals: what is drawn is what the legend says."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import bochner
from bochner import RBF, GaussianProcessRegressor, TabularRegressor


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20, 120, n),
            "rooms": rng.integers(1, 6, n),
            "city": rng.choice(["Rome", "Oslo", None], n),
            "listed": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D"),
        }
    )
    frame["rent"] = 10 * frame["area"] + 90 * (frame["city"] == "Oslo") + 60 * rng.normal(size=n)
    return frame


@pytest.fixture(scope="module")
def tabular():
    frame = table()
    return TabularRegressor(random_state=0).fit(frame.drop(columns="rent"), frame["rent"])


def said(axes):
    """The share inside and the number of rows, from the legend."""
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    (found,) = filter(None, (re.fullmatch(r"observed: (\d+%) of ([\d,]+) inside", text) for text in texts))
    return found[1], int(found[2].replace(",", ""))


def dots(axes):
    (found,) = (line for line in axes.lines if str(line.get_label()).startswith("observed"))
    return np.asarray(found.get_xdata()), np.asarray(found.get_ydata())


def drawn(axes):
    """The share of the dots inside the bars or the band drawn at their places, and their number."""
    from matplotlib.collections import LineCollection
    from matplotlib.dates import date2num

    x, y = dots(axes)
    shape = axes.collections[0]
    if isinstance(shape, LineCollection):
        ends = np.array(shape.get_segments())
        np.testing.assert_allclose(ends[:, 0, 0], date2num(x) if x.dtype.kind == "M" else x)
        low, high = ends[:, 0, 1], ends[:, 1, 1]
    else:
        corners = shape.get_paths()[0].vertices
        upper = corners[:, 1] >= np.interp(corners[:, 0], *centre(axes))
        low, high = (np.interp(x, *sort(corners[part])) for part in (~upper, upper))
    return f"{np.mean((low <= y) & (y <= high)):.0%}", len(y)


def centre(axes):
    (line,) = (line for line in axes.lines if line.get_label() == "prediction")
    return line.get_data()


def sort(points):
    return points[np.argsort(points[:, 0])].T


@pytest.mark.parametrize("coverage", [0.5, 0.9])
@pytest.mark.parametrize("column", [None, "area", 1, "city", "listed"])
def test_the_legend_has_the_share_of_dots_inside_the_bars(column, coverage, tabular, pyplot):
    frame = table(300, seed=1)
    axes = bochner.plot_intervals(tabular, frame, "rent", column=column, coverage=coverage)
    share, n = said(axes)
    assert (share, n) == drawn(axes) == (drawn(axes)[0], 300)
    assert abs(float(share.rstrip("%")) / 100 - coverage) < 4 * np.sqrt(coverage * (1 - coverage) * (1 / 300 + 1 / 240))
    names = {None: "prediction", 1: "rooms"}
    assert (axes.get_xlabel(), axes.get_ylabel()) == (names.get(column, column), "rent")
    assert f"{coverage:.0%} interval" in [text.get_text() for text in axes.get_legend().get_texts()]
    if column == "city":
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["Oslo", "Rome", "missing"]
        assert len(set(dots(axes)[0])) == 300  # no two on top of each other
    if column == "listed":
        np.testing.assert_array_equal(dots(axes)[0], frame["listed"].to_numpy())


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_the_legend_has_the_share_of_dots_inside_the_band(coverage, pyplot):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 6, (150, 1))
    y = np.sin(x[:, 0]) + 0.3 * rng.normal(size=150)
    model = GaussianProcessRegressor(RBF(1.2), 40, random_state=0).fit(x, y)
    axes = bochner.plot_intervals(model, x, y, coverage=coverage, n_functions=2)
    assert said(axes) == drawn(axes)
    grid, curve = centre(axes)
    assert grid[0] < x.min() < x.max() < grid[-1]
    np.testing.assert_array_equal(curve, model.predict(grid[:, None]))
    observations, function = axes.collections
    for band, noise in ((observations, True), (function, False)):
        heights = band.get_paths()[0].vertices[:, 1]
        ends = model.predict_interval(grid[:, None], coverage, include_noise=noise)
        assert heights.min() == ends.min()
        assert heights.max() == ends.max()
    assert len(axes.lines) == 4  # two functions, the curve, the dots
    assert axes.get_xlabel() == "column 0"
    own = pyplot.subplots()[1]
    assert bochner.plot_intervals(model, x, ax=own) is own
    assert "observed" not in str([text.get_text() for text in own.get_legend().get_texts()])


@pytest.mark.parametrize("kind", [np.asarray, list, scipy.sparse.csr_matrix])
def test_arrays_of_several_columns(kind, pyplot):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = X[:, 1] + 0.3 * rng.normal(size=80)
    model = GaussianProcessRegressor(RBF(1.2), 20, random_state=0).fit(X, y)
    for column in (None, 1, -1):
        axes = bochner.plot_intervals(model, kind(X), y, column=column)
        assert said(axes) == drawn(axes)
        at = model.predict(X) if column is None else X[:, column]
        np.testing.assert_allclose(dots(axes)[0], at)


def test_what_has_no_picture_says_so(tabular, pyplot):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    model = GaussianProcessRegressor(RBF(1.2), 20, random_state=0).fit(X, y)
    two = GaussianProcessRegressor(RBF(1.2), 20, random_state=0).fit(X, np.stack([y, y], axis=1))
    frame = table(20).drop(columns="rent")
    for call, message in (
        (lambda: bochner.plot_intervals(bochner.KernelRidge(), X), "predict_interval.*got KernelRidge"),
        (lambda: bochner.plot_intervals(model, X, column=2), "expected a column from 0 to 1, got 2"),
        (lambda: bochner.plot_intervals(tabular, frame, column="size"), "a column among 'area', .*, got 'size'"),
        (lambda: bochner.plot_intervals(tabular, frame, "rent"), "no column 'rent'"),
        (lambda: bochner.plot_intervals(model, X, y[:-1]), "one target for each of 60 rows"),
        (lambda: bochner.plot_intervals(model, X[:, 0]), "expected X of shape"),
        (lambda: bochner.plot_intervals(two, X), "one target, got one of 2"),
        (lambda: bochner.plot_intervals(tabular, frame, n_functions=1), "has no functions to draw"),
        (lambda: bochner.plot_intervals(model, X, n_functions=1), "an array of one column, got 2"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not pyplot.get_fignums()
