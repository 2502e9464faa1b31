"""Models of tables: columns of every kind, trees, intervals, probabilities, and input that is none."""

import datetime
import io
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from sklearn.inspection import partial_dependence
from sklearn.metrics import r2_score
from sklearn.multioutput import MultiOutputRegressor

import bochner
from bochner import RBF, KernelRidge, Laplacian, TabularClassifier, TabularRegressor
from bochner.data import progress
from bochner.ridge.dense import exact_ridge
from bochner.tables import columns as table_columns
from bochner.tables import leaves as local_models
from bochner.tables import members as table_members
from bochner.tables import plans as table_plans
from bochner.tables.leaves import fit_leaves, grow_tree
from bochner.tables.links import fit_link
from bochner.tuning.policies import TablePolicy


def mixed(n=400, seed=0):
    """A frame with columns of every kind, and a target that each informative one takes part in."""
    rng = np.random.default_rng(seed)
    number, heavy = rng.normal(size=n), np.exp(2.0 * rng.normal(size=n))
    colour = rng.choice(["red", "green", "blue"], n)
    town = rng.integers(0, 30, n)
    day = np.datetime64("2024-01-01") + rng.integers(0, 365, n).astype("timedelta64[D]")
    flag = rng.random(n) < 0.5
    month = day.astype("datetime64[M]").astype(int) % 12
    y = np.sin(2.0 * number) + 0.2 * np.log(heavy) + (colour == "red") + 0.05 * town + 0.5 * flag + 0.1 * month
    frame = pandas.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, number),
            "heavy": heavy,
            "colour": pandas.Categorical(colour),
            "town": [f"town {i}" for i in town],
            "day": day.astype("datetime64[ns]"),
            "flag": flag,
            "constant": 3,
        }
    )
    return frame, y + 0.05 * rng.normal(size=n)


FAST = {"max_seconds": 2.0, "random_state": 0}


@pytest.fixture(autouse=True)
def no_fit_is_late(monkeypatch):
    """On a busy machine a fit may take longer than planned; a hurried one differs from one that is not."""
    monkeypatch.setattr(table_plans, "POLICY", TablePolicy(least_seconds=np.inf))


# -- trees and leaves ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_every_row_falls_in_a_leaf_that_learns_from_it(overlap):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=(1000, 2)), rng.integers(0, 3, 1000)])
    tree, members = grow_tree(X, np.array([1.0, 0.1, 2.0]), 150, overlap)
    assert tree.n_leaves == len(members) > 6
    assert max(map(len, members)) <= 150
    home = tree.leaves(X)
    for number, rows in enumerate(members):
        assert set(np.flatnonzero(home == number)) <= set(rows)
        if not overlap:
            assert set(np.flatnonzero(home == number)) == set(rows)
    np.testing.assert_array_equal(tree.leaves(X[::7]), home[::7])


def test_rows_that_are_equal_are_not_cut():
    tree, members = grow_tree(np.ones((50, 2)), np.ones(2), 10, 0.25)
    assert tree.n_leaves == 1
    assert len(members[0]) == 50
    X = np.r_[np.zeros(45), np.ones(5)][:, None]
    tree, members = grow_tree(X, np.ones(1), 10, 0.0)
    assert sorted(map(len, members)) == [5, 45]


def test_trees_may_be_deep(monkeypatch):
    """As those of a thousand columns, each of which is zero in nearly every row: every cut separates a few rows."""
    X = np.arange(1500.0)[:, None]
    monkeypatch.setattr(local_models, "_cut", lambda X, rows, weights: (0, X[rows, 0].min() + 0.5))
    tree, members = grow_tree(X, np.ones(1), 1)
    assert tree.n_leaves == len(members) == 1500
    np.testing.assert_array_equal(tree.leaves(X), np.arange(1500))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_leaf_of_equal_rows_is_their_mean_and_its_errors_are_of_models_without_the_row(weighted):
    rng = np.random.default_rng(0)
    X, Y = np.r_[np.zeros(40), np.ones(3)][:, None], rng.normal(size=(43, 2))
    weight = rng.exponential(size=43) if weighted else None
    tree, members = grow_tree(X, np.ones(1), 10)
    model, left_out = fit_leaves(X, Y, RBF(1.0), 0.3, tree, members, weight)
    assert sorted(map(len, members)) == [3, 40]
    assert len(model.rows) == len(model.coefficients) == 2
    rows = np.arange(40)
    whole = exact_ridge(RBF(1.0)(X[rows]), Y[rows], 0.3, None if weight is None else weight[rows])
    np.testing.assert_allclose(left_out[rows], np.asarray(whole.left_out))
    new = np.array([[0.0], [0.3]])
    np.testing.assert_allclose(model.predict(new), RBF(1.0)(new, X[rows]) @ whole.coefficients + whole.intercept)
    for i in rows:
        rest = np.delete(rows, i)
        fit = exact_ridge(RBF(1.0)(X[rest]), Y[rest], 0.3, None if weight is None else weight[rest])
        np.testing.assert_allclose(left_out[i], Y[i] - fit.intercept)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_row_alone_in_its_leaf_is_left_out_by_the_mean_of_the_others(weighted):
    rng = np.random.default_rng(0)
    X, Y = np.r_[np.zeros(9), 1.0][:, None], rng.normal(size=(10, 2))
    weight = rng.exponential(size=10) if weighted else np.ones(10)
    tree, members = grow_tree(X, np.ones(1), 5)
    assert sorted(map(len, members)) == [1, 9]
    left_out = fit_leaves(X, Y, RBF(1.0), 0.3, tree, members, weight if weighted else None)[1]
    np.testing.assert_allclose(left_out[9], Y[9] - np.average(Y[:9], axis=0, weights=weight[:9]))
    model = TabularRegressor(leaf_size=1, **FAST).fit(rng.normal(size=(60, 2)), Y := rng.normal(size=60))
    assert model.held_out_.score < 0.0


@pytest.mark.parametrize("level", [0.0, 1e8, 1e12])
def test_scores_do_not_depend_on_the_level_of_the_targets(level):
    X = np.random.default_rng(0).normal(size=(150, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.2 * np.random.default_rng(1).normal(size=150)
    found, expected = (TabularRegressor(n_members=1, **FAST).fit(X, target) for target in (y + level, y))
    assert found.held_out_.score == pytest.approx(expected.held_out_.score, abs=0.02)


def test_memory_for_equal_rows_is_that_of_the_table(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, size=(12_000, 2)) * 1.0
    y = X.sum(axis=1) + rng.normal(size=12_000)
    model = TabularRegressor("rbf", "standard", leaf_size=100, n_members=1, **FAST)
    tracemalloc.start()
    model.fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3e7  # a kernel matrix of 3,000 equal rows alone has 7e7 bytes
    assert 2900 < max(model.report_.leaf_sizes) < 3100
    means = [y[(corner == X).all(axis=1)].mean() for corner in ([0, 0], [0, 1], [1, 0], [1, 1])]
    np.testing.assert_allclose(model.predict([[0, 0], [0, 1], [1, 0], [1, 1]]), means)
    low, high = model.predict_interval(X, 0.8).T
    assert np.mean((low <= y) & (y <= high)) == pytest.approx(0.8, abs=0.01)
    bochner.save(model, tmp_path / "model.bochner")
    np.testing.assert_array_equal(bochner.load(tmp_path / "model.bochner").predict(X), model.predict(X))


def test_every_leaf_has_rows_of_its_own_where_many_rows_are_equal():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(1500) < 0.03, rng.random(1500) < 0.5, rng.integers(0, 2, 1500)]) * 1.0
    X[:, :2] *= rng.integers(1, 3, (1500, 2))
    tree, members = grow_tree(X, np.ones(3), 150, 0.25)
    leaves = tree.leaves(X)
    assert np.array_equal(np.unique(leaves), np.arange(tree.n_leaves))
    for number, rows in enumerate(members):
        assert len(np.unique(rows)) == len(rows)
        assert np.isin(np.flatnonzero(leaves == number), rows).all()
        assert len(rows) <= max(150, np.count_nonzero(leaves == number))


def test_intervals_in_a_leaf_that_has_no_errors_of_its_own():
    X, y = np.linspace(0.0, 1.0, 300)[:, None], np.zeros(300)
    model = TabularRegressor(**FAST).fit(X, y + np.random.default_rng(0).normal(size=300))
    model._residuals = replace(model._residuals, leaves=np.full(300, -1))  # as of rows that were all lent by neighbours
    low, high = model.predict_interval(X).T
    assert (high > low).all()


def test_a_single_leaf_is_exact_kernel_ridge_regression():
    rng = np.random.default_rng(0)
    X, Y, new = rng.normal(size=(80, 3)), rng.normal(size=(80, 2)), rng.normal(size=(9, 3))
    kernel = Laplacian(2.0)
    model, left_out = fit_leaves(X, Y, kernel, 0.3, *grow_tree(X, np.ones(3), 100))
    fit = exact_ridge(kernel(X), Y, 0.3)
    np.testing.assert_allclose(model.predict(new), kernel(new, X) @ fit.coefficients + fit.intercept)
    np.testing.assert_allclose(left_out, fit.left_out)


def test_leaves_with_overlap_agree_at_their_border():
    """The jump of the prediction across the cut, over the deviation of the targets, is smaller than without."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(2000, 2))
    Y = np.sin(4.0 * X[:, :1]) + X[:, 1:] + 0.1 * rng.normal(size=(2000, 1))
    jumps = {}
    for overlap in (0.0, 0.5):
        tree, members = grow_tree(X, np.array([1.0, 0.01]), 1500, overlap)
        model, _ = fit_leaves(X, Y, Laplacian(1.0), 0.1, tree, members)
        cut = tree.cuts[0]
        line = np.linspace(-0.9, 0.9, 50)
        sides = [np.column_stack([np.full(50, cut + side), line]) for side in (0.0, 1e-9)]
        jumps[overlap] = np.abs(model.predict(sides[1]) - model.predict(sides[0])).mean()
    assert jumps[0.5] < 0.5 * jumps[0.0]


# -- columns ---------------------------------------------------------------------------------------------------------


def test_a_frame_as_it_is():
    X, y = mixed()
    new, truth = mixed(200, seed=1)
    model = TabularRegressor(**FAST).fit(X, y)
    assert r2_score(truth, model.predict(new)) > 0.85
    assert model.feature_importances_.shape == (7,)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[6] == 0.0
    report = str(model.report_)
    for words in ("constant: left out: every value is the same", "3 levels", "30 levels", "missing, filled", "month"):
        assert words in report


@pytest.mark.parametrize("kind", ["polars", "arrow", "batch", "objects"])
def test_polars_arrow_and_objects_give_what_pandas_gives(kind):
    X, y = mixed(150)
    expected = TabularRegressor(**FAST).fit(X, y)
    if kind == "objects":
        made = np.column_stack([np.array(X[name].tolist(), dtype=object) for name in X])
        found, again = TabularRegressor(**FAST).fit(made, y).predict(made), expected.predict(X)
    else:
        table = pytest.importorskip("pyarrow").Table.from_pandas(X, preserve_index=False)
        table = pytest.importorskip("polars").from_arrow(table) if kind == "polars" else table
        table = table.to_batches()[0] if kind == "batch" else table
        found, again = TabularRegressor(**FAST).fit(table, y).predict(table), expected.predict(X)
        with pytest.raises(ValueError, match="must be in the same order"):
            TabularRegressor(**FAST).fit(table, y).predict(table.select(list(X)[::-1]))
    np.testing.assert_allclose(found, again, atol=1e-8)


def test_masked_entries_are_gaps():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    gaps = rng.random(X.shape) < 0.2
    y, masked, holes = X.sum(axis=1), np.ma.array(np.where(gaps, -9999.0, X), mask=gaps), np.where(gaps, np.nan, X)
    model = TabularRegressor(**FAST).fit(masked, y)
    expected = TabularRegressor(**FAST).fit(holes, y)
    np.testing.assert_array_equal(model.predict(masked), expected.predict(holes))
    np.testing.assert_array_equal(expected.predict(np.ma.array(X)), expected.predict(X))  # nothing is masked


@pytest.mark.parametrize(
    "X", [[{"a": 1.0}, {"a": 2.0}], {"a": [1.0, 2.0]}, np.zeros(2, [("a", float)])], ids=["list", "dict", "array"]
)
def test_records_are_refused_with_what_to_do(X):
    with pytest.raises(ValueError, match=r"pandas.DataFrame\(X\)"):
        TabularRegressor(**FAST).fit(X, [1.0, 2.0])


def test_the_target_may_be_the_name_of_a_column():
    X, y = mixed(120)
    expected = TabularRegressor(**FAST).fit(X, y).predict(X)
    frame = X.assign(price=y)
    model = TabularRegressor(**FAST).fit(frame, "price")
    np.testing.assert_allclose(model.predict(X), expected)
    assert model.score(frame, "price") == pytest.approx(model.score(X, y))
    with pytest.raises(ValueError, match="no column 'prize'"):
        TabularRegressor(**FAST).fit(frame, "prize")
    with pytest.raises(ValueError, match="names a column of a frame"):
        TabularRegressor(**FAST).fit(np.ones((5, 2)), "price")


def test_new_categories_and_gaps_are_predicted():
    X, y = mixed(200)
    model = TabularRegressor(**FAST).fit(X, y)
    new = X.head(20).copy()
    new["colour"], new["town"], new["number"], new["day"] = "violet", None, np.nan, pandas.NaT
    assert np.isfinite(model.predict(new)).all()


def test_means_of_targets_are_not_of_the_row_itself():
    """A category of pure noise with few rows a level: with its own target among its features it would look perfect."""
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"noise": rng.integers(0, 150, 400).astype(str), "number": rng.normal(size=400)})
    y = X["number"].to_numpy() + rng.normal(size=400)
    model = TabularRegressor(**FAST).fit(X, y)
    assert model.held_out_.score < 0.5 + 3.0 * model.held_out_.error  # half of the variance is noise


def test_columns_of_other_names_numbers_and_kinds_are_refused():
    X, y = mixed(100)
    model = TabularRegressor(**FAST).fit(X, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"heavy": "light"}))
    with pytest.raises(ValueError, match=r"feature names|features"):
        model.predict(X.drop(columns="heavy"))
    with pytest.raises(ValueError, match="'number' held a number in `fit` and holds a category now"):
        model.predict(X.assign(number="seven"))
    with pytest.raises(ValueError, match="infinity in column 'heavy'"):
        model.predict(X.assign(heavy=np.inf))
    with pytest.raises(ValueError, match="infinity in column 'heavy'"):
        TabularRegressor(**FAST).fit(X.assign(heavy=np.inf), y)
    with pytest.raises(TypeError, match="must be a string or a number"):
        TabularRegressor(**FAST).fit(X.assign(heavy=[{"a": 1}] * 100), y)


def test_identifiers_are_left_out_with_a_warning_and_empty_columns_with_a_report():
    X, y = mixed(150)
    X = X.assign(name=[f"person {i}" for i in range(150)], empty=np.nan, nothing=None)
    with pytest.warns(UserWarning, match=r"columns left out.*'name'"):
        model = TabularRegressor(**FAST).fit(X, y)
    assert "150 different texts in 150 rows" in str(model.report_)
    assert str(model.report_).count("every value is missing") == 2
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(("n", "n_names"), [(13, 13), (40, 40), (50, 50), (51, 50), (60, 46)])
def test_names_of_most_rows_are_identifiers_in_small_tables_too(n, n_names):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"x": rng.normal(size=n), "name": [f"person {i % n_names}" for i in range(n)]})
    y = 2.0 * X["x"] + 0.3 * rng.normal(size=n)
    with pytest.warns(UserWarning, match=r"columns left out.*'name'"):
        model = TabularRegressor(**FAST).fit(X, y)
    assert f"{n_names} different texts in {n} rows, an identifier" in str(model.report_)
    without = TabularRegressor(**FAST).fit(X[["x"]], y)
    np.testing.assert_array_equal(model.predict(X), without.predict(X[["x"]]))


def test_mean_targets_of_levels_that_hardly_repeat_are_nearly_the_mean_of_all_rows():
    Y = np.random.default_rng(0).normal(size=(20, 1))
    for codes in (np.arange(20), np.r_[np.arange(18), 0, 1]):
        means = table_columns._level_means(codes, Y, np.ones(20), 20)
        np.testing.assert_allclose(means, means[-1:].repeat(21, axis=0), atol=0.05)
    exact = table_columns._level_means(np.arange(20) % 5, 3.0 + np.arange(20)[:, None] % 5, np.ones(20), 6)
    np.testing.assert_allclose(exact.ravel(), [3.0, 4.0, 5.0, 6.0, 7.0, 5.0, 5.0])  # the sixth level has no row


@pytest.mark.parametrize("n_levels", [5, 200, 500])
def test_one_long_text_takes_its_own_memory_only(n_levels, tmp_path):
    rng, n = np.random.default_rng(0), 800
    text = np.array([f"topic {i % n_levels}" for i in range(n)], dtype=object)
    text[5] = "z" * 100_000
    X = pandas.DataFrame({"x": rng.normal(size=n), "text": text})
    model = TabularRegressor("rbf", "standard", n_members=1, **FAST)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 501 levels are an identifier
        model.fit(X, X["x"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e7
    bochner.save(model, tmp_path / "model.bochner")
    assert (tmp_path / "model.bochner").stat().st_size < 1e6
    np.testing.assert_array_equal(bochner.load(tmp_path / "model.bochner").predict(X), model.predict(X))


def test_as_many_categories_as_rows():
    n = 4_000
    names = pandas.Series(np.arange(n)).map("{:07d}".format)
    with pytest.warns(UserWarning, match="columns left out"):
        model = TabularRegressor(leaf_size=500, n_members=1, kernel="laplacian", **FAST).fit(
            pandas.DataFrame({"name": names, "number": np.arange(n) % 7}), np.arange(n) % 7 * 1.0
        )
    assert model.held_out_.score > 0.98


def test_dates_without_pandas_and_times_of_day():
    start = datetime.datetime(2024, 1, 1)
    when = [start + datetime.timedelta(hours=7 * i) for i in range(300)]
    X = np.array([[w, None if i % 50 == 0 else 1.0] for i, w in enumerate(when)], dtype=object)
    y = np.array([np.sin(2.0 * np.pi * w.hour / 24.0) for w in when])
    model = TabularRegressor(**FAST).fit(X, y)
    assert model.score(X, y) > 0.95
    assert "hour" in str(model.report_)


def test_the_same_moment_in_any_time_zone_and_frame_is_the_same_number():
    when = pandas.date_range("2024-01-01", periods=200, freq="7h", tz="Europe/Berlin")
    X = pandas.DataFrame({"when": when, "x": np.random.default_rng(0).normal(size=200)})
    model = TabularRegressor(**FAST).fit(X, np.sin(np.arange(200) / 10.0) + when.hour.to_numpy() / 24.0)
    expected = model.predict(X)
    objects = pandas.Series([moment.to_pydatetime() for moment in when], dtype=object)
    same = [X.assign(when=when.tz_convert("Asia/Tokyo")), X.assign(when=objects)]
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    same += [pyarrow.Table.from_pandas(X), polars.from_pandas(X)]
    same += [X.assign(when=pandas.array(when, dtype=pandas.ArrowDtype(pyarrow.timestamp("us", "Asia/Tokyo"))))]
    for table in same:
        np.testing.assert_array_equal(model.predict(table), expected)


def test_truth_values_that_were_categories_or_texts_are_known_again():
    rng = np.random.default_rng(0)
    flag, x = rng.random(150) < 0.5, rng.normal(size=150)
    for values in (pandas.Categorical(flag), np.where(flag, "True", "False")):
        X = pandas.DataFrame({"flag": values, "x": x})
        model = TabularRegressor(**FAST).fit(X, 2.0 * flag + x)
        for same in (flag, flag.astype(object), pandas.array(flag, dtype="boolean"), flag * 1):
            np.testing.assert_array_equal(model.predict(X.assign(flag=same)), model.predict(X))
    dates = np.where(flag, np.datetime64("2024-01-01"), np.datetime64("2024-02-01")).astype("datetime64[s]")
    X = pandas.DataFrame({"date": pandas.Categorical(dates), "x": x})
    model = TabularRegressor(**FAST).fit(X, 2.0 * flag + x)
    with pytest.raises(ValueError, match="column 'date' held a category in `fit` and holds a date now"):
        model.predict(X.assign(date=dates))


@pytest.mark.parametrize("texts", [["01", "02", "10"], ["1.0", "2.0", "3.5"], ["1e3", "7", "nan"], ["7", "07", "8"]])
def test_texts_that_are_numbers_are_known_again_as_numbers(texts):
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"plant": rng.choice(texts, 150), "x": rng.normal(size=150)})
    model = TabularRegressor(**FAST).fit(X, X["plant"].map({text: i for i, text in enumerate(texts)}) + X["x"])
    given = X[X["plant"] != "07"]  # the number 7 is the text "7"
    for numbers in (given["plant"].astype(float), given["plant"].astype(float).astype("Float64")):
        expected = model.predict(given.assign(plant=given["plant"].replace("nan", "unseen")))
        np.testing.assert_array_equal(model.predict(given.assign(plant=numbers)), expected)


def test_numbers_that_cannot_be_the_texts_of_fit_are_refused():
    rng = np.random.default_rng(0)
    for texts, number in ((["a", "b"], 3.0), (["nan", "inf"], 3.0), (["07", "7.0"], 7.0)):
        X = pandas.DataFrame({"plant": rng.choice(texts, 60), "x": rng.normal(size=60)})
        model = TabularRegressor(**FAST).fit(X, X["x"])
        with pytest.raises(ValueError, match="'plant' held a category in `fit` and holds a number now"):
            model.predict(X.assign(plant=number))
        assert np.isfinite(model.predict(X.assign(plant=np.nan))).all()


def test_columns_of_a_categorical_type_are_categories_whatever_they_hold():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 5, 200)
    y = np.array([3.0, -1.0, 2.0, 0.0, 5.0])[codes]
    frame = pandas.DataFrame({"code": pandas.Categorical(codes), "cut": pandas.cut(rng.normal(size=200), 3)})
    model = TabularRegressor(**FAST).fit(frame, y)
    assert model.report_.columns == {"code": "5 levels, a column each", "cut": "3 levels, a column each"}
    for same in (frame.assign(code=codes), frame.assign(code=codes * 1.0), frame.assign(code=codes.astype(str))):
        np.testing.assert_array_equal(model.predict(same), model.predict(frame))
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"code": pyarrow.array(codes).dictionary_encode()})
    assert TabularRegressor(**FAST).fit(table, y).report_.columns == {"code": "5 levels, a column each"}


def test_pandas_columns_of_arrow_types_are_what_arrow_columns_are():
    pyarrow, n = pytest.importorskip("pyarrow"), 100
    rng = np.random.default_rng(0)
    day, code = rng.integers(0, 300, n), rng.integers(0, 3, n)
    gap = rng.random(n) < 0.1
    columns = {
        "date32": pyarrow.array(day, pyarrow.int32(), mask=gap).cast(pyarrow.date32()),
        "date64": pyarrow.array(day * 86_400_000, mask=gap).cast(pyarrow.date64()),
        "code": pyarrow.array(code, mask=gap).dictionary_encode(),
        "name": pyarrow.array(code.astype(str), mask=gap).dictionary_encode(),
        "number": pyarrow.array(day, mask=gap),
    }
    table = pyarrow.table(columns)
    frame = table.to_pandas(types_mapper=pandas.ArrowDtype)
    model = TabularRegressor(**FAST).fit(frame, day * 1.0)
    assert model.report_.columns["code"] == "4 levels, a column each"
    assert model.report_.columns["date32"].startswith("a date: time, month, weekday; ")
    assert model.report_.columns == TabularRegressor(**FAST).fit(table, day * 1.0).report_.columns
    for same in (table, table.to_pandas()):
        np.testing.assert_array_equal(model.predict(same), model.predict(frame))


def test_numbers_beside_texts_in_lists_stay_numbers():
    X, y = mixed(150)
    rest = X.drop(columns="day")
    lists = rest.astype(object).to_numpy().tolist()
    found = TabularRegressor(**FAST).fit(lists, y)
    np.testing.assert_allclose(found.predict(lists), TabularRegressor(**FAST).fit(rest, y).predict(rest))


def test_a_single_column_is_no_table():
    polars = pytest.importorskip("polars")
    for values in (pandas.Series([1.0, 2.0, 3.0]), polars.Series([1.0, 2.0, 3.0])):
        with pytest.raises(ValueError, match=r"Expected.*2"):
            TabularRegressor(**FAST).fit(values, [1.0, 2.0, 3.0])


def test_times_of_day_are_seconds():
    hours = np.random.default_rng(0).integers(0, 24, 200)
    X = pandas.DataFrame({"time": [None if i == 7 else datetime.time(h, 30) for i, h in enumerate(hours)]})
    model = TabularRegressor(**FAST).fit(X, np.sin(hours / 4.0))
    assert model.score(X, np.sin(hours / 4.0)) > 0.9
    table = pytest.importorskip("pyarrow").Table.from_pandas(X, preserve_index=False)
    np.testing.assert_array_equal(model.predict(table), model.predict(X))


def test_two_columns_of_one_name_are_refused():
    X = pandas.DataFrame(np.random.default_rng(0).normal(size=(20, 3)), columns=["x", "y", "x"])
    with pytest.raises(ValueError, match="2 columns are called 'x'"):
        TabularRegressor(**FAST).fit(X, np.arange(20.0))


def test_sparse_rows_are_dense_rows_or_refused_with_what_to_do():
    X = scipy.sparse.random(80, 6, 0.3, format="csr", random_state=0)
    y = X.toarray() @ np.arange(6.0)
    sparse, dense = TabularRegressor(**FAST).fit(X, y), TabularRegressor(**FAST).fit(X.toarray(), y)
    np.testing.assert_array_equal(sparse.predict(X), dense.predict(X.toarray()))
    wide = scipy.sparse.random(80, 5000, 0.01, format="csr", random_state=0)
    with pytest.raises(ValueError, match=r"sparse and has 5000 columns.*TruncatedSVD.*KernelRidge"):
        TabularRegressor(**FAST).fit(wide, y)


def test_no_column_that_varies():
    model = TabularRegressor(**FAST).fit(np.ones((20, 2)), np.arange(20.0))
    np.testing.assert_allclose(model.predict(np.zeros((3, 2))), 9.5)
    assert "no column varies" in str(model.report_)


def test_targets_that_are_none():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30.0)
    for model in (TabularRegressor(**FAST), TabularClassifier(**FAST)):
        with pytest.raises(ValueError, match="NaN"):
            model.fit(X, np.where(y == 3, np.nan, y > 10))
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            model.fit(X, y[:5] > 2)
    labels = pandas.array([pandas.NA, *["a", "b"] * 14, "a"], dtype="string")
    with pytest.raises(ValueError, match="NaN or None in 1 rows"):
        TabularClassifier(**FAST).fit(X, labels)
    with pytest.raises(ValueError, match="dates or times; give numbers"):
        TabularRegressor(**FAST).fit(X, pandas.date_range("2020-01-01", periods=30))
    with pytest.raises(ValueError, match="one class, 1;"):
        TabularClassifier(**FAST).fit(X, np.ones(30, int))
    with pytest.raises(ValueError, match="several types"):
        TabularClassifier(**FAST).fit(X, np.array(["a", 1] * 15, dtype=object))


@pytest.mark.filterwarnings("ignore:Support for labels represented as bytes:FutureWarning")  # before scikit-learn 1.7
def test_labels_that_are_bytes_are_refused_in_those_words():
    labels = np.array([b"no", b"yes"] * 10)
    for y in (labels, labels.astype(object)):
        with pytest.raises(ValueError, match="the targets are bytes; make them texts"):
            TabularClassifier(**FAST).fit(np.arange(20.0)[:, None], y)
    mixed = np.array([b"no", "yes"] * 10, dtype=object)
    with pytest.raises(ValueError, match="of several types"):
        TabularClassifier(**FAST).fit(np.arange(20.0)[:, None], mixed)


def test_two_rows():
    X = np.array([[0.0], [1.0]])
    assert TabularRegressor(**FAST).fit(X, [1.0, 2.0]).predict(X).shape == (2,)
    assert TabularClassifier(**FAST).fit(X, ["a", "b"]).predict_proba(X).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "value"),
    [("kernel", "cubic"), ("kernel", []), ("scaling", "log"), ("leaf_size", 0), ("n_members", 0), ("max_seconds", 0)],
)
def test_parameters_that_are_none(name, value):
    with pytest.raises(ValueError, match=name):
        TabularRegressor(**{name: value}).fit(np.ones((5, 1)), np.arange(5.0))


# -- what the models say ---------------------------------------------------------------------------------------------


def test_intervals_cover_as_often_as_they_say():
    """Noise of two sizes; the share of 3,000 new rows inside is within four standard errors, and two of 400 rows'."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3400, 3))
    y = np.sin(2.0 * X[:, 0]) + np.where(X[:, 1] > 0, 0.1, 0.5) * rng.normal(size=3400)
    model = TabularRegressor(kernel="laplacian", n_members=1, **FAST).fit(X[:400], y[:400])
    for coverage in (0.5, 0.9):
        low, high = model.predict_interval(X[400:], coverage).T
        assert (low <= high).all()
        error = np.sqrt(coverage * (1.0 - coverage))
        inside = np.mean((low <= y[400:]) & (y[400:] <= high))
        assert abs(inside - coverage) < error * (4.0 / np.sqrt(3000) + 4.0 / np.sqrt(400))
    with pytest.raises(ValueError, match="coverage must be"):
        model.predict_interval(X[:3], 1.5)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_calibrated(n_classes):
    """Where a class has probability p by the model, it occurs p of the time: within bins, by binomial errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4600, 2))
    logits = np.column_stack([np.zeros(4600), 2.0 * X[:, 0], 1.5 * X[:, 1]])[:, :n_classes]
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    model = TabularClassifier(n_members=1, kernel="exponential", **FAST).fit(X[:600], labels[:600])
    p = model.predict_proba(X[600:])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X[600:]), p.argmax(axis=1))
    for k in range(n_classes):
        bins = np.minimum((5 * p[:, k]).astype(int), 4)
        for b in range(5):
            rows = bins == b
            if rows.sum() >= 100:
                off = abs(p[rows, k].mean() - np.mean(labels[600:][rows] == k))
                assert off < 4.0 * 0.5 / np.sqrt(rows.sum()) + 0.1  # and the error of a model of 600 rows


def test_the_link_finds_slope_and_level_and_stays_finite():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20_000, 1))
    codes = (rng.random(20_000) < 1.0 / (1.0 + np.exp(-(3.0 * scores[:, 0] - 1.0)))).astype(int)
    link = fit_link(scores, codes, np.ones(20_000))
    assert link.slope == pytest.approx(3.0, abs=0.15)
    assert link.levels[0] == pytest.approx(-1.0, abs=0.1)
    assert 0.0 <= link.bend < 0.1  # log odds are a line here
    p = 0.5 + 0.5 * rng.uniform(-0.95, 0.95, 20_000)  # scores of the squared loss: 2p - 1
    link = fit_link(2.0 * p[:, None] - 1.0, (rng.random(20_000) < p).astype(int), np.ones(20_000))
    found = 1.0 / (1.0 + np.exp(-link(2.0 * p - 1.0)))
    assert np.abs(found - p).mean() < 0.01  # a line alone is off by 0.02
    separate = fit_link(np.array([[-1.0], [1.0]] * 10), np.array([0, 1] * 10), np.ones(20))
    assert 2.0 < separate(np.ones(1))[0] - separate.levels[0] < 20.0


def test_several_targets_are_predicted_together():
    X, y = mixed(150)
    model = TabularRegressor(**FAST).fit(X, np.column_stack([y, -y]))
    assert model.predict(X).shape == (150, 2)
    assert model.predict_interval(X).shape == (150, 2, 2)
    np.testing.assert_allclose(model.predict(X).sum(axis=1), 0.0, atol=1e-6)


def test_targets_of_different_columns_are_learned_better_by_models_of_their_own():
    """As the documentation says: several targets of one model share their length scales."""
    X = np.random.default_rng(0).uniform(-1.0, 1.0, size=(500, 4))
    Y, model = np.sin(6.0 * X[:, [0, 2]]), TabularRegressor("rbf", n_members=1, random_state=0)
    jointly, alone = (m.fit(X[:300], Y[:300]).predict(X[300:]) - Y[300:] for m in (model, MultiOutputRegressor(model)))
    assert np.abs(alone).mean() < 0.5 * np.abs(jointly).mean()


@pytest.mark.parametrize("leaf_size", [500, 60])
def test_a_target_does_not_depend_on_the_units_of_the_others(leaf_size):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    a, b = np.sin(2.0 * X[:, 0]) + 0.3 * rng.normal(size=300), 3.0 * (X[:, 1] > 0) + 0.1 * rng.normal(size=300)
    models = [
        TabularRegressor(leaf_size=leaf_size, **FAST).fit(X, np.column_stack([a, unit * b, np.full(300, 0.1)]))
        for unit in (1.0, 1e-3, 1e3)
    ]
    for model in models:
        np.testing.assert_allclose(model.predict(X)[:, 0], models[0].predict(X)[:, 0], atol=1e-6)
        assert model.held_out_.score == pytest.approx(models[0].held_out_.score)


def test_directions_are_used_where_they_predict_rows_they_were_not_fitted_to():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2200, 5))
    y = np.sin(X.sum(axis=1)) + 0.05 * rng.normal(size=2200)
    options = {"kernel": "exponential", "scaling": "standard", "max_seconds": 5.0, "n_members": 2, "random_state": 0}
    full = TabularRegressor(**options).fit(X, y)
    columns = TabularRegressor(metric="diagonal", **options).fit(X, y)
    assert "directions" in full.report_.used[0]
    assert 1.0 - full.held_out_.score < 0.5 * (1.0 - columns.held_out_.score)
    np.testing.assert_allclose(full.feature_importances_, 0.2, atol=0.05)
    with pytest.raises(ValueError, match="metric must be"):
        TabularRegressor(metric="curved").fit(X, y)
    with pytest.raises(ValueError, match="adds up single columns"):
        TabularRegressor("laplacian", metric="full").fit(X, y)


def test_many_rows_have_leaves_and_the_answer_does_not_depend_on_threads():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    options = {"leaf_size": 200, "kernel": "laplacian", "n_members": 1, **FAST}
    models = [TabularRegressor(n_jobs=n_jobs, **options).fit(X, y) for n_jobs in (1, 2)]
    assert len(models[0].report_.leaf_sizes) > 6
    np.testing.assert_allclose(models[0].predict(X), models[1].predict(X), atol=1e-10)
    assert models[0].score(X, y) > 0.97


def test_a_fit_holds_the_table_a_few_times_however_often_leaves_share_rows():
    def peak(n):
        X = np.random.default_rng(0).normal(size=(n, 20))
        model = TabularRegressor("laplacian", "standard", leaf_size=30, n_members=1, n_jobs=1, **FAST)
        tracemalloc.start()
        model.fit(X, X[:, 0])
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        local = model._members[0].model
        assert local.points.shape == X.shape
        assert len(local.rows) > 3 * n
        return found

    few, many = 1_000, 4_000
    peak(few)  # what is allocated once
    # numbers, scaled numbers and one passing copy: 3 × 160 bytes a row; indices, coefficients and targets: some 160
    assert peak(many) - peak(few) < 5 * 160 * (many - few)


def test_leave_one_out_errors_of_landmarks_are_those_of_models_without_the_row():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(120, 2)), rng.uniform(0.3, 2.0, 120)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(120, 2))
    model, errors = table_members.fit_globally(X, Y, RBF(1.0), 20, weight, random_state=0)
    options = {"kernel": RBF(1.0), "features": "nystrom", "n_components": 20, "random_state": 0}
    ridge = KernelRidge(alpha="loo", **options).fit(X, Y, weight)
    np.testing.assert_allclose(model.predict(X), ridge.predict(X), atol=1e-10)
    Z = ridge.feature_map_(X)
    for i in range(0, 120, 7):
        rest = np.delete(np.arange(120), i)
        # the same landmarks; a constant column instead of an intercept, without a penalty
        A = np.column_stack([Z[rest], np.ones(119)]) * np.sqrt(weight[rest, None])
        penalty = ridge.alpha_ * np.diag(np.r_[np.ones(Z.shape[1]), 0.0])
        P = np.linalg.solve(A.T @ A + penalty, A.T @ (Y[rest] * np.sqrt(weight[rest, None])))
        np.testing.assert_allclose(errors[i], Y[i] - np.r_[Z[i], 1.0] @ P, atol=1e-8)


def test_noise_is_averaged_over_all_rows_and_not_over_those_of_a_leaf():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 6))
    y = X.sum(axis=1) + 5.0 * rng.normal(size=3000)
    options = {"kernel": "rbf", "scaling": "standard", "leaf_size": 200, **FAST}
    both, one = (TabularRegressor(n_members=n, **options).fit(X, y) for n in (2, 1))
    assert "landmarks" in both.report_.used[0]
    assert both.held_out_.score > one.held_out_.score
    assert not any("landmarks" in name for name in one.report_.used)
    assert len(one.report_.leaf_sizes) > 10


@pytest.mark.parametrize("classifies", [False, True])
def test_model_files_give_back_what_was_saved(classifies, tmp_path):
    X, y = mixed(150)
    X["colour"] = X["colour"].astype(object)
    X.loc[::9, "colour"] = None
    y = np.where(y > 1.0, "high", "low") if classifies else y
    model = (TabularClassifier if classifies else TabularRegressor)(leaf_size=60, **FAST).fit(X, y)
    bochner.save(model, tmp_path / "model")
    again = bochner.load(tmp_path / "model")
    assert again.report_ == model.report_
    np.testing.assert_array_equal(again.feature_importances_, model.feature_importances_)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    for name in ("predict_proba", "predict_interval"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(again, name)(X), getattr(model, name)(X))


def test_forged_trees_and_leaves_in_files_are_refused(tmp_path):
    """A tree whose nodes lead back would keep a reader walking for ever; points that are none would be read."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = TabularRegressor("laplacian", "standard", leaf_size=20, n_members=1, **FAST).fit(X, X[:, 0])
    member = model._members[0]
    local = member.model
    changes = [
        {"tree": replace(local.tree, children=children)}
        for children in (np.zeros_like(local.tree.children), local.tree.children + 100)
    ]
    changes += [
        {"rows": local.rows + 60},
        {"rows": local.rows - 60},
        {"rows": local.rows[:-1]},
        {"starts": local.starts[::-1].copy()},
        {"starts": local.starts + 1},
        {"points": local.points[:, :0]},
        {"coefficients": local.coefficients[1:]},
        {"intercepts": local.intercepts[1:]},
    ]
    for change in changes:
        model._members = (replace(member, model=replace(local, **change)),)
        with pytest.raises(TypeError, match="could not be loaded again"):
            bochner.save(model, tmp_path / "model")


# -- time ------------------------------------------------------------------------------------------------------------


def test_a_fit_that_is_late_stops_learning_and_says_so(monkeypatch):
    """With no grace at all everything is late: one member, of scales from the first screen, in small leaves."""
    monkeypatch.setattr(table_plans, "POLICY", TablePolicy(least_seconds=0.0))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=1500)
    model = TabularRegressor(max_seconds=1e-3, random_state=0).fit(X, y)
    assert len(model._members) == 1
    assert max(model.report_.leaf_sizes) <= 200
    for words in ("longer than planned", "smaller sample", "leaves have 200 rows"):
        assert words in str(model.report_)
    assert model.score(X, y) > 0.5
    given = TabularRegressor(max_seconds=1e-3, leaf_size=700, random_state=0).fit(X, y)
    assert max(given.report_.leaf_sizes) > 300


def test_a_plan_that_holds_is_not_changed(monkeypatch):
    """Where no time passes, a fit without any grace is on time."""
    monkeypatch.setattr(table_plans, "POLICY", TablePolicy(least_seconds=0.0))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: 0.0)
    X, y = mixed(150)
    report = TabularRegressor(**FAST).fit(X, y).report_
    assert not any("longer than planned" in note for note in report.notes)


def test_leaves_get_as_small_as_the_time_needs():
    """A leaf of half the rows takes an eighth of the seconds, and there are twice as many."""
    assert table_plans.smaller_leaves(2000, 100_000, 0.2, 2000, left=100.0) == 2000
    for left in (10.0, 3.0, 1.0):
        size = table_plans.smaller_leaves(2000, 100_000, 0.2, 2000, left)
        assert size < 2000
        assert 0.2 * (size / 2000) ** 3 * 200_000 / size <= left


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_a_line_on_a_terminal_and_silence_elsewhere(terminal, monkeypatch):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr("sys.stderr", stream)
    X, y = mixed(150)
    TabularRegressor(verbose=1, **FAST).fit(X, y)
    text = stream.getvalue()
    assert ("leaves" in text and "100 %" in text and text.endswith("\n")) if terminal else not text


def test_an_interrupted_fit_leaves_no_half_model(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    X, y = mixed(150)
    model = TabularRegressor(**FAST).fit(X, y)
    monkeypatch.setattr(table_members, "fit_leaves", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("classifies", [False, True])
def test_partial_dependence_of_scikit_learn(classifies):
    X, y = mixed(150)
    model = (TabularClassifier if classifies else TabularRegressor)(**FAST)
    model.fit(X, np.where(y > np.median(y), "high", "low") if classifies else y)
    found = partial_dependence(model, X, ["number"], grid_resolution=5)["average"]
    assert found.shape == (1, 5)
    assert np.isfinite(found).all()
    assert partial_dependence(model, X, ["colour"], categorical_features=["colour"])["average"].shape == (1, 3)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("kind", [TabularRegressor, KernelRidge])
def test_targets_and_weights_may_be_columns_of_any_frame(kind, library):
    library = pytest.importorskip(library)
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=80) for name in "abyz"} | {"w": rng.uniform(1.0, 2.0, 80)}
    frame, model = library.DataFrame(columns), kind(random_state=0)
    X, Y, w = (np.column_stack([columns[name] for name in names]) for names in ("ab", "yz", "w"))
    found = model.fit(frame, ["y", "z"], "w")
    assert list(found.feature_names_in_) == ["a", "b"]
    expected = kind(random_state=0).fit(library.DataFrame({name: columns[name] for name in "ab"}), Y, w[:, 0])
    np.testing.assert_allclose(found.predict(frame[["a", "b"]]), expected.predict(frame[["a", "b"]]), rtol=1e-9)
    assert found.score(frame, ["y", "z"], "w") == pytest.approx(expected.score(frame[["a", "b"]], Y, w[:, 0]), rel=1e-9)
    for y, weight in (("q", None), (["y", "q"], None), ("y", "q")):
        with pytest.raises(ValueError, match="has no column 'q'; its columns are 'a', 'b'"):
            model.fit(frame, y, weight)
    with pytest.raises(ValueError, match="y='y' names a column of a frame, but X is a ndarray"):
        model.fit(X, "y")


@pytest.mark.parametrize("kind", [TabularRegressor, KernelRidge])
def test_a_class_derived_from_a_frame_is_a_frame(kind):
    class Mine(pandas.DataFrame):
        pass

    x = np.random.default_rng(0).normal(size=80)
    found = kind(random_state=0).fit(Mine({"a": x, "b": -x, "y": x}), "y")
    assert list(found.feature_names_in_) == ["a", "b"]
