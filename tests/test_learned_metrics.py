"""``metric=`` and ``kernel="auto"``: what is learned; units, streams, weights and layouts make no difference."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeCV

import bochner
from bochner import (
    RBF,
    Custom,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelPCA,
    KernelRidge,
    Linear,
    Matern,
    as_kernel,
)
from bochner.data.validation import usual_rows
from bochner.draws.keys import Key
from bochner.tuning.deadline import Deadline
from bochner.tuning.metric_search import explained_alone, search_metric
from bochner.tuning.metrics import FAMILIES, learn_metric
from bochner.tuning.scales import tune_length_scale

MODELS = {
    "ridge": KernelRidge(random_state=0),
    "ridge fourier": KernelRidge(n_components=200, random_state=0),
    "classifier": KernelClassifier(n_components=60, features="nystrom", random_state=0),
    "classifier auto": KernelClassifier(random_state=0),
    "squared classifier": KernelClassifier(n_components=60, loss="squared", random_state=0),
    "gaussian process": GaussianProcessRegressor(n_components=60, random_state=0),
}
DIRECTION = np.array([1.0, -1.0, 1.0, 1.0]) / 2.0


def data(name, n=400, d=6, seed=0, rotated=False):
    """Columns 1 and 3 matter, or one direction of the first four."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.sin(3.0 * X[:, :4] @ DIRECTION) if rotated else np.sin(2.0 * X[:, 1]) + np.abs(X[:, 3]) - 0.8
    return X, np.where(f > 0, "above", "below") if "classifier" in name else f + 0.05 * rng.normal(size=n)


def outputs(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.mark.parametrize("metric", ["diagonal", "full"])
@pytest.mark.parametrize("name", MODELS)
def test_columns_that_do_not_matter_get_no_weight(name, metric):
    X, y = data(name)
    model = clone(MODELS[name]).set_params(kernel="matern32", metric=metric).fit(X[:300], y[:300])
    shares = model.feature_importances_
    assert set(np.argsort(shares)[-2:]) == {1, 3}
    assert shares[[1, 3]].sum() > 0.7
    assert shares.sum() == pytest.approx(1.0)
    equal = clone(MODELS[name]).set_params(kernel="matern32", metric="isotropic").fit(X[:300], y[:300])
    assert model.score(X[300:], y[300:]) > equal.score(X[300:], y[300:])


@pytest.mark.parametrize("name", ["ridge", "ridge fourier", "classifier", "gaussian process"])
def test_a_direction_across_columns_is_found(name):
    X, y = data(name, n=900, rotated=True)
    models = [
        clone(MODELS[name]).set_params(kernel="matern32", metric=metric).fit(X[:600], y[:600])
        for metric in ("diagonal", "full")
    ]
    M = models[1].metric_
    assert M.shape == (6, 6)
    np.testing.assert_allclose(M, M.T)
    assert abs(np.linalg.eigh(M)[1][:4, -1] @ DIRECTION) > 0.95
    errors = [1.0 - model.score(X[600:], y[600:]) for model in models]
    assert errors[1] < (0.7 if "classifier" in name else 0.5) * errors[0]


@pytest.mark.parametrize("metric", ["diagonal", "full"])
@pytest.mark.parametrize("name", MODELS)
def test_units_of_columns_make_no_difference(name, metric):
    X, y = data(name, n=250)
    model = clone(MODELS[name]).set_params(metric=metric)
    expected = outputs(model.fit(X[:200], y[:200]), X[200:])
    shares = model.feature_importances_
    units = 2.0 ** np.array([0.0, 9.0, -7.0, 0.0, 3.0, -20.0])  # exact, so that no search stops elsewhere
    found = outputs(model.fit(X[:200] * units, y[:200]), X[200:] * units)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.ptp(expected))
    np.testing.assert_allclose(model.feature_importances_, shares, rtol=1e-9)


def test_a_product_of_two_columns_is_found_beside_a_linear_part_of_all():
    """Equal scales are then so long that the model is linear, where no scale seems to matter."""

    def errors(seed):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(3000, 20))
        level = np.sin(2.0 * X[:, 0]) * X[:, 1] + X @ rng.normal(size=20) / 4.0
        y = np.where(level + 0.5 * rng.normal(size=len(X)) > 0, 1.0, -1.0)
        models = KernelRidge(random_state=seed), RidgeCV(np.geomspace(1e-3, 1e5, 17))
        return [np.mean(np.sign(model.fit(X[:1000], y[:1000]).predict(X[1000:])) != y[1000:]) for model in models]

    ours, linear = np.array([errors(seed) for seed in range(6)]).T
    assert np.sum(ours > 0.9 * linear) <= 1  # the sample may be an unlucky one, but three of six were linear models


@pytest.mark.parametrize("spread", [1.0, 10.0])
def test_constant_columns_change_no_metric(spread):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 5)) * np.geomspace(1.0, spread, 5)
    y = np.sin(2.0 * np.linalg.norm(X / X.std(axis=0), axis=1))[:, None] + 0.3 * rng.normal(size=(900, 1))
    plain = search_metric([RBF()], X, y, metric="auto", key=Key(0)).weights
    for n_constant in (5, 45):
        more = np.column_stack([X, np.ones((900, n_constant))])
        found = search_metric([RBF()], more, y, metric="auto", key=Key(0)).weights
        assert found.ndim == plain.ndim
        np.testing.assert_allclose(found[:5] if found.ndim else found, plain, rtol=1e-12)


def test_an_isotropic_metric_is_one_tuned_length_scale():
    X, y = data("ridge")
    model = KernelRidge("rbf", n_components=50, metric="isotropic", random_state=0).fit(X, y)
    expected = tune_length_scale(as_kernel("rbf"), X, y[:, None], key=Key.from_random_state(0), n_components=50)
    assert model.features_.kernel_.length_scale == expected.length_scale
    again = KernelRidge(RBF(expected.length_scale), n_components=50, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), again.predict(X))


@pytest.mark.parametrize("name", MODELS)
def test_auto_learns_scales_where_they_help(name):
    X, y = data(name)
    model, given = (
        clone(MODELS[name]).set_params(kernel="rbf", metric=metric).fit(X, y) for metric in ("auto", "diagonal")
    )
    assert MODELS[name].metric == "auto"
    np.testing.assert_array_equal(model.feature_importances_, given.feature_importances_)
    np.testing.assert_array_equal(outputs(model, X), outputs(given, X))


@pytest.mark.parametrize(
    "kind", ["units that matter", "few rows", "many columns", "one column", "a kernel with numbers"]
)
@pytest.mark.parametrize("name", MODELS)
def test_auto_keeps_one_scale_elsewhere(name, kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 80)) / (1.0 + np.arange(80.0)) ** 2  # a function of distances in these units
    y = np.sin(3.0 * X[:, :20].sum(axis=1)) + 0.01 * rng.normal(size=300)
    options = {"kernel": RBF(2.0)} if kind == "a kernel with numbers" else {}
    X = {"few rows": X[:170, :6], "many columns": rng.normal(size=(300, 301)), "one column": X[:, :1]}.get(kind, X)
    y = np.where(y > 0, "above", "below")[: len(X)] if "classifier" in name else y[: len(X)]
    model, given = (
        clone(MODELS[name]).set_params(metric=metric, **options).fit(X, y) for metric in ("auto", "isotropic")
    )
    assert not hasattr(model, "feature_importances_")
    np.testing.assert_array_equal(outputs(model, X), outputs(given, X))


@pytest.mark.parametrize("name", MODELS)
def test_only_learned_metrics_have_importances(name):
    X, y = data(name, n=120)
    model = clone(MODELS[name]).set_params(metric="diagonal").fit(X, y)
    assert model.metric_.shape == model.feature_importances_.shape == (6,)
    np.testing.assert_allclose(model.metric_, model.features_.kernel_.length_scale**-2.0)
    model.set_params(metric="isotropic").fit(X, y)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="fit with metric='diagonal' or metric='full'"):
        _ = model.metric_
    assert not hasattr(KernelPCA(), "metric_")


@pytest.mark.parametrize("metric", ["isotropic", "diagonal", "full"])
@pytest.mark.parametrize("name", ["ridge", "gaussian process"])
def test_auto_takes_a_smooth_kernel_for_a_smooth_function_and_a_rough_one_for_steps(name, metric):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(400, 2))
    smooth = np.sin(3.0 * X[:, 0] * X[:, 1]) + 0.01 * rng.normal(size=400)
    steps = (X[:, 0] > 0.1) + 1.0 * (X[:, 1] > -0.3)
    for y, expected in ((smooth, ("rbf", "matern52")), (steps, ("laplacian", "exponential"))):
        model = clone(MODELS[name]).set_params(kernel="auto", metric=metric).fit(X, y)
        kernel = model.features_.kernel_
        kernel = clone(getattr(kernel, "kernel", kernel)).set_params(length_scale=1.0)
        assert repr(kernel) in [repr(FAMILIES[family]) for family in expected]


@pytest.mark.parametrize("metric", ["auto", "isotropic", "diagonal", "full"])
@pytest.mark.parametrize("name", ["ridge fourier", "classifier", "gaussian process"])
def test_streams_have_the_metric_of_arrays(name, metric):
    X, y = data(name, n=250)
    model = clone(MODELS[name]).set_params(kernel="auto", metric=metric)
    expected = outputs(model.fit(X, y), X[:20])
    blocks = [(X[i : i + 60], y[i : i + 60]) for i in range(0, 250, 60)]
    np.testing.assert_allclose(outputs(model.fit(blocks), X[:20]), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("metric", ["diagonal", "full"])
def test_dask_has_the_metric_of_arrays(metric):
    da = pytest.importorskip("dask.array")
    X, y = data("ridge", n=250)
    model = KernelRidge(n_components=60, metric=metric, random_state=0)
    expected = model.fit(X, y).predict(X[:20])
    found = model.fit(da.from_array(X, chunks=(70, 6)), da.from_array(y, chunks=70))
    np.testing.assert_allclose(found.predict(X[:20]), expected, rtol=1e-6)


@pytest.mark.parametrize("metric", ["diagonal", "full"])
@pytest.mark.parametrize("name", ["ridge fourier", "squared classifier", "gaussian process"])
def test_weights_have_any_unit(name, metric):
    X, y = data(name, n=70)
    weight = np.random.default_rng(1).uniform(0.0, 3.0, 70)
    model = clone(MODELS[name]).set_params(metric=metric)
    found = model.fit(X, y, sample_weight=weight).feature_importances_
    other = model.fit(X, y, sample_weight=100.0 * weight).feature_importances_
    np.testing.assert_allclose(other, found, rtol=1e-3, atol=1e-4)


def test_float32_several_targets_and_constant_columns():
    X, y = data("ridge")
    Y = np.column_stack([y, np.cos(2.0 * X[:, 0])])
    model = KernelRidge(n_components=60, metric="diagonal", random_state=0)
    assert set(np.argsort(model.fit(X, Y).feature_importances_)[-3:]) == {0, 1, 3}
    expected = model.fit(X, y).predict(X[:9])
    single = model.fit(X.astype(np.float32), y).predict(X[:9].astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=2e-3 * np.ptp(y))
    for metric in ("diagonal", "full"):
        model = KernelRidge(metric=metric, random_state=0).fit(X, y)
        expected, shares = model.predict(X[:9]), model.feature_importances_
        constant = np.column_stack([np.full(400, 0.1), X, np.zeros(400)])
        model.fit(constant, y)
        np.testing.assert_allclose(model.predict(constant[:9]), expected, atol=1e-5 * np.ptp(y))
        np.testing.assert_allclose(model.feature_importances_, np.r_[0.0, shares, 0.0], atol=1e-6)
        moved = constant[:9] + np.r_[5.0, np.zeros(6), 1.0]  # what was constant in `fit` counts for nothing
        np.testing.assert_allclose(model.predict(moved), expected, atol=1e-3 * np.ptp(y))
    for metric in ("diagonal", "full"):  # nothing varies
        model = KernelRidge(n_components=10, metric=metric).fit(np.ones((50, 2)), np.arange(50.0))
        assert model.predict(np.ones((1, 2)))[0] == pytest.approx(24.5)
        assert model.feature_importances_ == pytest.approx(0.5)


def test_sparse_rows():
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(300, 20, 0.3, format="csr", random_state=0)
    y = 3.0 * X[:, [2]].toarray()[:, 0] ** 2 + 0.01 * rng.normal(size=300)
    model = KernelRidge(n_components=80, metric="diagonal", random_state=0).fit(X, y)
    assert model.feature_importances_.argmax() == 2
    np.testing.assert_allclose(
        model.feature_importances_, clone(model).fit(X.toarray(), y).feature_importances_, rtol=0.02, atol=1e-3
    )
    with pytest.raises(ValueError, match=r"sparse rows are not sparse; use\s+metric='diagonal'"):
        KernelRidge(n_components=80, metric="full").fit(X, y)
    wide = scipy.sparse.csr_matrix((np.ones(300), np.arange(300), np.arange(301)), shape=(300, 200_000))
    with pytest.raises(ValueError, match=r"200000 columns from 300 rows. Use metric='isotropic'"):
        KernelRidge(n_components=80, metric="diagonal").fit(wide, y)
    with pytest.raises(ValueError, match="up to 1000 columns"):
        KernelRidge(n_components=80, metric="full").fit(rng.normal(size=(50, 1001)), np.arange(50.0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": RBF(1.0) + Matern(2.0)}, "single stationary kernel.*of Sum kernels give the parts"),
        ({"kernel": RBF("auto") * 2.0}, "of Multiple kernels"),
        ({"kernel": Linear()}, "single stationary kernel"),
        ({"kernel": Custom(lambda X, Y: X @ Y.T)}, "single stationary kernel"),
        ({"kernel": RBF(2.0)}, "by name, or with length_scale='auto'"),
        ({"kernel": RBF("median")}, "by name, or with length_scale='auto'"),
        ({"metric": "half"}, "metric must be"),
    ],
)
@pytest.mark.parametrize("name", ["ridge", "classifier", "squared classifier", "gaussian process"])
def test_what_has_no_metric_to_learn_says_so(name, options, message):
    X, y = data(name, n=40)
    with pytest.raises(ValueError, match=f"(?s){message}"):
        clone(MODELS[name]).set_params(**{"metric": "diagonal", **options}).fit(X, y)


def test_any_stationary_kernel_and_transformers_with_auto():
    X, y = data("ridge")
    model = KernelRidge(bochner.Radial(lambda r: 1.0 / (1.0 + r * r), "auto"), 60, metric="diagonal", random_state=0)
    assert set(np.argsort(model.fit(X, y).feature_importances_)[-2:]) == {1, 3}
    given = FourierFeatures(RBF(2.0), 50, random_state=0)
    found = KernelRidge("auto", metric="full", features=given, alpha=0.1).fit(X, y).predict(X[:5])
    np.testing.assert_array_equal(found, KernelRidge(features=given, alpha=0.1).fit(X, y).predict(X[:5]))


def test_time_that_is_up_ends_a_search():
    X, y = data("ridge", n=300)
    found = learn_metric(X, y[:, None], max_evaluations=1000, deadline=Deadline(0.0))
    assert found.n_evaluations < 10
    assert KernelRidge("auto", metric="full", max_seconds=1e-9, n_components=40).fit(X, y).metric_.shape == (6, 6)


def test_rows_of_any_size():
    """Squares of these would overflow or vanish."""
    X, y = data("ridge", n=200)
    expected = search_metric([RBF()], X, y[:, None], metric="diagonal", key=Key(0)).weights
    for size in (2.0**500, 2.0**-500):
        found = search_metric([RBF()], X * size, y[:, None], metric="diagonal", key=Key(0)).weights
        np.testing.assert_allclose(found * size, expected, rtol=1e-6)


@pytest.mark.parametrize("model", [KernelRidge(n_components=128), KernelRidge(), GaussianProcessRegressor()])
@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e6, 1e9])
def test_one_outlier_does_not_matter(model, outlier):
    """Rows far from all others, such as those with 9999 for a gap, have no part in the choice of scales and penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=len(X))
    plain = clone(model).set_params(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:])
    X[5, 0] = outlier
    assert clone(model).set_params(random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:]) > plain - 0.05


HIDDEN = {
    "sine": lambda X: np.sin(5.0 * X[:, 0]),
    "two sines": lambda X: np.sin(3.0 * X[:, 0]) + np.sin(3.0 * X[:, 1]),
    "sine beside a line": lambda X: X.mean(axis=1) * X.shape[1] ** 0.5 + np.sin(4.0 * X[:, 0]),
    "product": lambda X: np.sin(2.0 * X[:, 0]) * X[:, 1],
}


@pytest.mark.parametrize("name", HIDDEN)
@pytest.mark.parametrize(
    ("kind", "least"), [(KernelRidge, 0.95), (GaussianProcessRegressor, 0.95), (KernelClassifier, 0.8)]
)
def test_few_columns_among_many_are_found(kind, least, name):
    """Where all columns count as much no row is near another one, and the best model is a constant or linear."""
    X = np.random.default_rng(0).normal(size=(2000, 20))
    X[:, 19] = np.arange(2000) % 997 == 3  # nearly constant
    y = HIDDEN[name](X) + 0.05 * np.random.default_rng(1).normal(size=len(X))
    y = y > 0 if kind is KernelClassifier else y
    assert kind(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > least


def test_what_a_column_explains_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 3] = rng.uniform(size=600) < 0.3
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), 3.0 * X[:, 3], np.ones(600)])
    shares = explained_alone(X, Y)
    np.testing.assert_allclose(shares, [0.5, 0.0, 0.0, 0.5], atol=0.06)  # the constant says nothing
    weight = np.repeat([1.0, 1e-9], 300)
    np.testing.assert_allclose(explained_alone(X, Y, weight), explained_alone(X[:300], Y[:300]), atol=0.06)


def test_outliers_are_few_and_apart():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    X[::20, 1], X[3, 0] = 9999.0, -1e5
    outliers = (X[:, 1] == 9999.0) | (X[:, 0] == -1e5)
    for rows in (X, X.astype(np.float32), scipy.sparse.csr_matrix(X)):
        np.testing.assert_array_equal(usual_rows(rows), ~outliers)
    for rows in (rng.standard_cauchy((4000, 3)), (rng.uniform(size=(4000, 3)) < 0.1) * 1e6, X[:0], X[:1]):
        assert usual_rows(rows).all()  # heavy tails, counts that are mostly zero, and too few to tell
    assert usual_rows(np.where(rng.uniform(size=(4000, 12)) < 0.08, 9999.0, rng.normal(size=(4000, 12)))).all()


def test_units_of_columns_are_compared_on_few_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3)) * [1.0, 1.0, 1000.0]
    y = np.sin(X[:, 0]) + X[:, 1]
    model = KernelRidge(random_state=0).fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.95
    # units that say something: small columns hardly matter
    X = rng.normal(size=(1100, 8)) * [1.0, *[1e-3] * 7]
    y = np.sin(3.0 * X[:, 0])
    model = KernelRidge(random_state=0).fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > 0.95
    assert np.ndim(model.features_.kernel_.length_scale) == 0
