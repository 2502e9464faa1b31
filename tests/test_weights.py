"""A row of weight zero is no row, and a row of weight w is w rows: for every estimator that takes weights."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from bochner import RBF, Cauchy, GaussianProcessRegressor, KernelRidge, Matern
from bochner.keys import Key
from bochner.streaming import ArraySource, ArrowSource, Block, BlockSource, representative
from bochner.tuning import tune_length_scale
from laws import ESTIMATORS, STATIONARY_KERNELS

WEIGHTED = [estimator for estimator in ESTIMATORS if has_fit_parameter(estimator, "sample_weight")]
AUTO = KernelRidge(tol=4.0, max_components=64, random_state=0)


def table(n=240, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=n), rng.normal(size=(40, d))


def polluted(X, y, rng):
    """Rows far away, with targets and labels of their own, among the others; and weights that say they are none."""
    n = len(X)
    places = np.sort(rng.permutation(4 * n)[:n])
    everything, targets = 40.0 + 5.0 * rng.normal(size=(4 * n, X.shape[1])), np.full(4 * n, y[0] + 7, y.dtype)
    everything[places], targets[places] = X, y
    weight = np.zeros(4 * n)
    weight[places] = 1.0
    return everything, targets, weight


def answers(estimator, X):
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("estimator", [*WEIGHTED, AUTO], ids=repr)
def test_rows_of_weight_zero_change_nothing(estimator, dtype):
    """Neither landmarks nor length scales, penalties, classes, numbers of components: the same model to rounding."""
    X, y, new = table()
    if is_classifier(estimator):
        y = (y > 0) + 0
        estimator = clone(estimator).set_params(solver_tol=1e-9)
    rows, targets, weight = polluted(X, y, np.random.default_rng(1))
    plain = clone(estimator).fit(X.astype(dtype), y)
    zeros = clone(estimator).fit(rows.astype(dtype), targets, sample_weight=weight)
    if is_classifier(estimator):
        np.testing.assert_array_equal(zeros.classes_, plain.classes_)
        np.testing.assert_allclose(
            zeros.decision_function(new), plain.decision_function(new), atol=1e-4 if dtype == np.float32 else 1e-8
        )
    if hasattr(zeros, "labels_"):  # what is said of every row is said of these too
        np.testing.assert_array_equal(zeros.labels_, zeros.predict(rows.astype(dtype)))
    found, expected = answers(zeros, new.astype(dtype)), answers(plain, new.astype(dtype))
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found, expected, atol=(1e-4 if dtype == np.float32 else 1e-8) * scale)


def sources(X, y, weight, folder):
    """The same rows as every kind of data that can have weights."""
    pa = pytest.importorskip("pyarrow")
    cuts = [0, 7, 100, 101, len(X)]
    yield "array", ArraySource(X, y, weight)
    yield "stream", BlockSource([(X[a:b], y[a:b], weight[a:b]) for a, b in pairwise(cuts)])
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])} | {"y": y, "w": weight}
    pa.parquet = pytest.importorskip("pyarrow.parquet")
    pa.parquet.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=150)
    yield "arrow", ArrowSource(folder / "rows.parquet", target="y", weight="w")


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_rows_of_weight_zero_change_nothing_whatever_they_come_in(features, tmp_path):
    X, y, new = table()
    rows, targets, weight = polluted(X, y, np.random.default_rng(1))
    model = KernelRidge(Matern("median"), 60, features=features, alpha=0.1, random_state=0)
    expected = clone(model).fit(X, y).predict(new)
    for name, source in sources(rows, targets, weight, tmp_path):
        sample = source.sample(100, Key(0))
        assert 0 < len(sample) <= 200, name
        assert (sample.weight > 0).all(), name
        fitted = clone(model).fit(source)
        names = getattr(fitted, "feature_names_in_", None)
        found = fitted.predict(new if names is None else pd.DataFrame(new, columns=names))
        np.testing.assert_allclose(found, expected, atol=1e-8, err_msg=name)


def test_rows_of_weight_zero_change_nothing_on_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    X, y, new = table()
    rows, targets, weight = polluted(X, y, np.random.default_rng(1))
    model = KernelRidge(Matern("median"), 60, features="nystrom", alpha=0.1, random_state=0)
    lazy = [da.from_array(a, chunks=(170, *a.shape[1:])) for a in (rows, targets, weight)]
    expected = clone(model).fit(X, y).predict(new)
    np.testing.assert_allclose(clone(model).fit(*lazy).predict(new), expected, atol=1e-8)


@pytest.mark.parametrize("name", STATIONARY_KERNELS)
@pytest.mark.parametrize("rule", ["median", "mean"])
def test_scales_of_weighted_rows_are_those_of_repeated_rows(name, rule):
    kernel = STATIONARY_KERNELS[name]
    if not hasattr(kernel, "length_scale"):
        kernel = RBF() * Cauchy() if name == "product" else RBF() + 2.0 * Cauchy()
    X = table(90)[0]
    weight = np.random.default_rng(2).integers(0, 4, 90)
    scaled = clone(kernel)
    for parameter in [p for p in scaled.get_params() if p.endswith("length_scale")]:
        scaled.set_params(**{parameter: rule})
    weighted, repeated = scaled.resolve(X, 0, weight), scaled.resolve(np.repeat(X, weight, axis=0))
    for parameter, value in weighted.get_params().items():
        if parameter.endswith("length_scale"):
            np.testing.assert_allclose(value, repeated.get_params()[parameter], rtol=1e-12)


def test_tuned_scales_of_weighted_rows_are_those_of_repeated_rows():
    X, y, _ = table(200)
    weight = np.random.default_rng(2).integers(0, 4, 200)
    rows = np.repeat(np.arange(200), weight)
    scales = [
        tune_length_scale(RBF(), X, y[:, None], weight.astype(float), key=Key(0)).length_scale,
        tune_length_scale(RBF(), X[rows], y[rows, None], None, key=Key(0)).length_scale,
    ]
    assert scales[0] == pytest.approx(scales[1], rel=0.01)  # rounded to three digits


@pytest.mark.parametrize("features", ["fourier", "nystrom"])
@pytest.mark.parametrize("make", [KernelRidge, GaussianProcessRegressor])
def test_a_weight_of_two_is_the_row_twice(make, features):
    """Where nothing is chosen at random from the rows: every row is a landmark, or the frequencies are given."""
    X, y, new = table(80)
    weight = np.random.default_rng(2).integers(1, 3, 80)
    rows = np.repeat(np.arange(80), weight)
    options = {"alpha": 0.1} if make is KernelRidge else {"noise_variance": 0.1, "amplitude": 1.0}
    model = make(RBF(1.0), 160, features=features, random_state=0, **options)
    weighted, repeated = clone(model).fit(X, y, weight), clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighted.predict(new), repeated.predict(new), atol=1e-6)


def test_landmarks_come_from_where_the_weight_is():
    """Rows that weigh next to nothing are next to none: in proportion to the weights, by z-score."""
    rng = np.random.default_rng(0)
    X = np.arange(3000.0)[:, None]
    weight = np.where(X[:, 0] < 1000, 1.0, 1e-9)
    chosen = representative(Block(X, None, weight), 100, Key(0)).X[:, 0]
    assert len(chosen) == 1000
    assert (chosen < 1000).mean() > 0.99
    # without replacement the odds of a heavy row fall as heavy rows are used up: few of many rows show the law
    weight = rng.uniform(0.5, 1.5, 3000)
    weight[::3] = 40.0
    heavy = [(representative(Block(X, None, weight), 0, Key(s)).X[:, 0] % 3 == 0).sum() for s in range(20)]
    size = len(representative(Block(X, None, weight), 0, Key(0)))
    assert size == int(weight.sum() ** 2 / (weight @ weight))
    assert np.mean(heavy) > 0.85 * size
    equal = representative(Block(X, None, np.full(3000, 2.5)), 0, Key(0))
    np.testing.assert_array_equal(equal.X, X)
