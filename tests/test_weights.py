"""A row of weight zero is no row, and a row of weight w is w rows: for every estimator that takes weights."""

import tracemalloc
import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.utils.validation import has_fit_parameter

from bochner import RBF, Cauchy, GaussianProcessRegressor, KernelClassifier, KernelRidge, Matern, TabularRegressor
from bochner.data.arrow import ArrowSource
from bochner.data.copies import weigh_copies
from bochner.data.sources import ArraySource, Block, BlockSource, limit_weights, representative
from bochner.draws.keys import Key
from bochner.ridge.dense import exact_ridge
from bochner.tables.columns import plan_column
from bochner.tables.held_out import conformal_widths
from bochner.tables.links import fit_link
from bochner.tables.members import draw_samples
from bochner.tables.scaling import scale_columns
from bochner.tuning.policies import ScalePolicy
from bochner.tuning.scales import tune_length_scale
from laws import ESTIMATORS, STATIONARY_KERNELS, TABLES, assert_unbiased

WEIGHTED = [estimator for estimator in (*ESTIMATORS, *TABLES) if has_fit_parameter(estimator, "sample_weight")]
AUTO = KernelRidge(tol=4.0, random_state=0)
SUPERVISED = [model for model in (*WEIGHTED, AUTO) if is_classifier(model) or is_regressor(model)]


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
        if "solver_tol" in estimator.get_params():
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
        found = fitted.predict(new if names is None else pytest.importorskip("pandas").DataFrame(new, columns=names))
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


@pytest.mark.parametrize("n_landmarks", [0, 60])
def test_tuned_scales_do_not_depend_on_the_unit_of_weights(n_landmarks):
    X, y, _ = table(200)
    weight = np.random.default_rng(2).uniform(0.1, 4.0, 200)
    scales = [
        tune_length_scale(RBF(), X, y[:, None], unit * weight, key=Key(0), n_landmarks=n_landmarks).length_scale
        for unit in (1e-3, 1.0, 1e3)
    ]
    assert scales[0] == pytest.approx(scales[1], rel=0.01)  # rounded to three digits
    assert scales[2] == pytest.approx(scales[1], rel=0.01)


@pytest.mark.parametrize("unit", [1e-3, 2.0, 1e3])
@pytest.mark.parametrize(
    "model",
    [
        KernelRidge(random_state=0),
        KernelRidge(n_components=60, random_state=0),
        KernelRidge(n_components=60, alpha="gcv", random_state=0),
        KernelRidge(n_components=60, alpha="evidence", random_state=0),
        GaussianProcessRegressor(random_state=0),
        KernelClassifier(loss="squared", random_state=0),
        KernelClassifier(random_state=0),
    ],
    ids=["ridge", "fourier", "gcv", "evidence", "process", "squared", "logistic"],
)
def test_weights_have_any_unit(model, unit):
    """One over the variance of the noise, a number of copies, shares: what a fit chooses is the same."""
    X, y, new = table(300)
    y = (y > np.median(y)).astype(int) if isinstance(model, KernelClassifier) else y
    weight = np.random.default_rng(2).uniform(0.1, 4.0, 300)
    score = "decision_function" if isinstance(model, KernelClassifier) else "predict"
    found, expected = (getattr(clone(model).fit(X, y, w), score)(new) for w in (unit * weight, weight))
    np.testing.assert_allclose(found, expected, atol=0.02 * np.std(expected))


@pytest.mark.parametrize("alpha", ["loo", "gcv"])
@pytest.mark.parametrize("components", [60, "auto"])
def test_errors_of_penalties_do_not_depend_on_the_unit_of_weights(components, alpha):
    X, y, _ = table(300)
    weight = np.random.default_rng(2).uniform(0.1, 4.0, 300)
    errors = [
        KernelRidge(RBF(1.0), components, alpha=alpha, random_state=0)
        .fit(X, y, unit * weight)
        .alpha_path_["criterion"]
        .min()
        for unit in (1e-3, 1.0, 1e3)
    ]
    assert errors[1] < 1.0
    np.testing.assert_allclose(errors, errors[1], rtol=1e-3)


def test_weights_that_are_one_over_the_variance_of_the_noise_help():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1400, 3))
    truth = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
    sigma = np.where(rng.random(400) < 0.5, 0.1, 2.0)
    y = truth[:400] + sigma * rng.normal(size=400)
    for model in (KernelRidge(random_state=0), GaussianProcessRegressor(random_state=0)):
        errors = [
            np.mean((clone(model).fit(X[:400], y, w).predict(X[400:]) - truth[400:]) ** 2) for w in (None, sigma**-2)
        ]
        assert errors[1] < 0.5 * errors[0]


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


# -- rows of huge weight ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heavy", [1, 3])
@pytest.mark.parametrize(
    "estimator",
    [model(random_state=0) for model in (KernelRidge, KernelClassifier, GaussianProcessRegressor)] + TABLES,
    ids=repr,
)
def test_rows_of_huge_weight_do_not_ruin_predictions_of_others(estimator, n_heavy):
    """Functions may go through these rows, and scales and penalties are still chosen by all rows."""
    X, y, _ = table(300)
    new = np.random.default_rng(5).normal(size=(500, 3))
    truth = np.sin(2.0 * new[:, 0])
    if is_classifier(estimator):
        y, truth = (y > 0) + 0, (truth > 0) + 0
    weight = np.ones(300)
    weight[:n_heavy] = 1e6
    plain, weighted = clone(estimator).fit(X, y), clone(estimator).fit(X, y, sample_weight=weight)
    # to a process such rows have no noise, and its function bends to go through them
    lost = 0.2 if isinstance(estimator, GaussianProcessRegressor) else 0.1
    assert weighted.score(new, truth) > plain.score(new, truth) - lost
    if estimator in TABLES:
        assert weighted.held_out_.score == pytest.approx(plain.held_out_.score, abs=0.1)


def test_limited_weights():
    rng = np.random.default_rng(0)
    for n in (8, 79, 80, 1000):
        for power in (0.0, 1.0, 3.0, 20.0):
            weight = rng.exponential(size=n) ** power
            found, share = limit_weights(weight), max(0.05, 4.0 / n)
            assert found.max() <= share * found.sum() * (1.0 + 1e-12)
            below = found < found.max()
            np.testing.assert_array_equal(found[below], weight[below])
            if weight.max() <= share * weight.sum():
                assert found is weight
            else:
                assert found.max() == pytest.approx(share * found.sum())
            np.testing.assert_allclose(limit_weights(1e9 * weight), 1e9 * found)
    assert limit_weights(np.r_[np.full(20, 1e6), np.ones(500)]).max() == 1e6  # enough rows to choose by
    assert len(limit_weights(np.empty(0))) == 0


# -- copies are weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [1.0, 0.5], ids=["all", "half"])
@pytest.mark.parametrize("estimator", SUPERVISED, ids=repr)
def test_rows_that_occur_twice_have_weight_two(estimator, copied):
    """Whatever is held out is held out with its copies, so that predictions and scores are those of weighted rows."""
    X, y, new = table(120)
    y = (y > 0) + 0 if is_classifier(estimator) else y
    rows = np.random.default_rng(3).permutation(120)[: int(copied * 120)]
    rows = np.r_[np.arange(120), rows]
    weighted = clone(estimator).fit(X, y, sample_weight=np.bincount(rows).astype(float))
    repeated = clone(estimator).fit(X[rows], y[rows])
    np.testing.assert_allclose(repeated.predict(new), weighted.predict(new), rtol=1e-9, atol=1e-9)
    if estimator in TABLES:
        assert repeated.held_out_.score == pytest.approx(weighted.held_out_.score)
        if copied == 1.0:
            assert repeated.held_out_.score == pytest.approx(clone(estimator).fit(X, y).held_out_.score)
    if hasattr(repeated, "alpha_"):
        assert repeated.alpha_ == pytest.approx(weighted.alpha_)


def test_rows_that_occur_twice_have_weight_two_whatever_they_come_in(tmp_path):
    X, y, _ = table(200)
    rows = np.r_[np.arange(200), np.arange(200)]
    model = KernelRidge("rbf", 60, random_state=0)
    weighted = clone(model).fit(X, y, np.full(200, 2.0))
    for name, source in sources(X[rows], y[rows], np.ones(400), tmp_path):
        found = clone(model).fit(source)
        assert found.alpha_ == pytest.approx(weighted.alpha_, rel=0.05), name
    sparse = clone(model).fit(scipy.sparse.csr_matrix(X[rows]), y[rows])
    assert sparse.alpha_ == pytest.approx(weighted.alpha_, rel=0.5)  # other scales of columns, as they are not centred


def test_samples_of_a_stream_that_lack_copies_are_told(monkeypatch):
    monkeypatch.setattr("bochner.estimators.kernel_spec.POLICY", ScalePolicy(rows=500))
    X, y, _ = table(1000)
    X, y = np.repeat(X, 3, axis=0), np.repeat(y, 3)
    model = KernelRidge("rbf", 50, alpha=0.1, random_state=0)
    with pytest.warns(UserWarning, match="many rows occur several times"):
        model.fit([(X[:2000], y[:2000]), (X[2000:], y[2000:])])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(X, y)  # all rows are compared
        model.fit([(X[::3], y[::3])])


def test_equal_rows_that_are_no_copies_stay_as_they_are():
    """Rows of a grid, points of many rows, equal rows of other targets or labels: new rows will equal them, too."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(600, 2)), rng.normal(size=600)
    grid = rng.integers(0, 8, size=(600, 2)) * 1.0
    bits = rng.integers(0, 2, size=(600, 6)) * 1.0
    point = X * (np.arange(600) % 3 > 0)[:, None]
    twice = np.repeat(X[:300], 2, axis=0)
    for A, y in (
        (X, noise),
        (grid, noise),
        (grid, grid[:, 0] * grid[:, 1]),
        (grid, np.where(grid[:, 0] > grid[:, 1], "above", "below")),
        (grid, rng.random(600) < 0.02),
        (bits, bits.sum(axis=1) % 2),
        (np.eye(64)[rng.integers(64, size=600)], None),
        (point, point[:, 0]),
        (np.repeat(X[:5], 120, axis=0), None),
        (twice, noise),
        (twice, noise > 0),
        (twice, rng.poisson(3.0, 600)),
    ):
        for form in (A, scipy.sparse.csr_matrix(A)):
            assert weigh_copies(form, y, None) is None
    pd = pytest.importorskip("pandas")
    towns = pd.DataFrame({"town": [f"town {i}" for i in rng.integers(40, size=600)]})
    model = TabularRegressor(max_seconds=1.0, n_members=1, random_state=0)
    assert model.fit(towns, towns.town.map(len) + towns.town.str[-1].astype(int)).held_out_.score > 0.99


def test_copies_are_found_among_rows_of_any_kind():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 40)), rng.normal(size=300)
    X[::4, ::2], rows = 0.0, np.r_[np.arange(300), rng.integers(300, size=200)]
    count = np.bincount(rows)
    expected = np.r_[count, np.zeros(200)]
    letters = rng.integers(0, 16, size=(300, 16)) * 1.0
    mixed = np.column_stack([X[:, 1], letters[:, :2] > 7])
    for A in (X, X.astype(np.float32), X[:, 1:2], np.asfortranarray(X), letters, mixed, scipy.sparse.csr_matrix(X)):
        for targets in (y, y[:, None], (y > 0).astype(str), (y > 0).astype(object), None):
            found = weigh_copies(A[rows], None if targets is None else targets[rows], None)
            np.testing.assert_array_equal(found, expected)
    minus = X[rows]
    minus[300:][minus[300:] == 0.0] = -0.0
    np.testing.assert_array_equal(weigh_copies(minus, y[rows], None), expected)
    weight = rng.integers(0, 3, 500) / 4.0
    found = weigh_copies(X[rows], y[rows], weight)
    np.testing.assert_allclose(np.bincount(rows, found), np.bincount(rows, weight))
    assert np.count_nonzero(found) == np.count_nonzero(np.bincount(rows, weight))
    # replicates: equal rows with other targets stay, and their copies are found
    replicated, other = np.repeat(X, 2, axis=0), rng.normal(size=600)
    both = np.r_[np.arange(600), np.arange(600)]
    found = weigh_copies(replicated[both], other[both], None)
    np.testing.assert_array_equal(found, np.repeat([2.0, 0.0], 600))


def test_looking_for_copies_needs_little_memory():
    X = np.random.default_rng(0).normal(size=(1000, 4000))
    X[::2] = X[1::2]
    tracemalloc.start()
    assert np.count_nonzero(weigh_copies(X, X[:, 1:2], None)) == 500
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 3


# -- models of tables: what is chosen is chosen by leaving weighted rows out, so that laws are of the parts -----------


def repeated(n=60, seed=0):
    """Rows, targets, integer weights, and which rows stand for them."""
    rng = np.random.default_rng(seed)
    weight = rng.integers(1, 4, n)
    return rng.normal(size=(n, 2)), rng.normal(size=(n, 2)), weight.astype(float), np.repeat(np.arange(n), weight)


def test_exact_models_of_weighted_rows_are_those_of_repeated_rows():
    X, Y, weight, rows = repeated()
    new, kernel = np.random.default_rng(1).normal(size=(9, 2)), Matern(1.2)
    weighted, plain = exact_ridge(kernel(X), Y, 0.3, weight), exact_ridge(kernel(X[rows]), Y[rows], 0.3)
    found, expected = (
        kernel(new, points) @ fit.coefficients + fit.intercept for points, fit in ((X, weighted), (X[rows], plain))
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)
    for i in range(0, len(X), 7):  # a row is left out with all its weight
        rest = np.arange(len(X)) != i
        fit = exact_ridge(kernel(X[rest]), Y[rest], 0.3, weight[rest])
        truth = Y[i] - kernel(X[i : i + 1], X[rest])[0] @ fit.coefficients - fit.intercept
        np.testing.assert_allclose(weighted.left_out[i], truth, atol=1e-9)
    assert weighted.error == pytest.approx(np.average(np.square(weighted.left_out).mean(axis=1), weights=weight))


def test_columns_and_scales_of_weighted_rows_are_those_of_repeated_rows():
    X, Y, weight, rows = repeated(200)
    gaps = np.where(np.random.default_rng(3).random(200) < 0.2, np.nan, X[:, 0])
    names = np.array([f"town {int(i)}" for i in 3.0 * np.abs(X[:, 1]) + 9 * (X[:, 0] > 0)], dtype=object)
    for kind, values in (("number", gaps), ("category", names)):
        weighted = plan_column("x", kind, values, Y, weight, 0)[0]
        plain = plan_column("x", kind, values[rows], Y[rows], np.ones(len(rows)), 0)[0]
        np.testing.assert_allclose(weighted.fills, plain.fills)
        assert weighted.plan == plain.plan
        if weighted.plan == "target":
            np.testing.assert_allclose(weighted.encodings, plain.encodings)
    assert weighted.plan == "target"
    for ranked in (False, True):
        weighted, plain = (
            scale_columns(X, weight, ranked=ranked),
            scale_columns(X[rows], np.ones(len(rows)), ranked=ranked),
        )
        np.testing.assert_allclose(weighted(X), plain(X), atol=1e-9)


def test_probabilities_and_intervals_of_weighted_rows_are_those_of_repeated_rows():
    X, Y, weight, rows = repeated(300)
    codes = (Y[:, 0] + X[:, 0] > 0).astype(int)
    weighted, plain = fit_link(X[:, :1], codes, weight), fit_link(X[rows, :1], codes[rows], np.ones(len(rows)))
    # Platt's one row is another share of them
    np.testing.assert_allclose(weighted(X[:, :1]), plain(X[:, :1]), rtol=0.02, atol=0.05)
    for coverage in (0.05, 0.5, 0.9, 0.999):
        found = conformal_widths(np.abs(Y), weight / weight.mean(), coverage)
        errors = np.sort(np.abs(Y[rows]), axis=0)
        places = [int(np.ceil((len(rows) + extra) * coverage)) - 1 for extra in (0, weight.mean())]
        low, high = (errors[min(place, len(rows) - 1)] for place in places)
        assert ((low <= found) & (found <= high)).all()


@pytest.mark.parametrize("estimator", TABLES, ids=repr)
def test_models_of_tables_depend_on_ratios_of_weights(estimator):
    pd = pytest.importorskip("pandas")
    X, y, new = table(120)
    y = (y > 0) + 0 if is_classifier(estimator) else y
    expected = clone(estimator).fit(X, y)
    found = clone(estimator).fit(X, y, sample_weight=np.full(120, 8.0))
    np.testing.assert_array_equal(found.predict(new), expected.predict(new))
    frame = pd.DataFrame({**{f"x{j}": X[:, j] for j in range(3)}, "y": y, "w": np.arange(120.0) % 5})
    named = clone(estimator).fit(frame, "y", "w").predict(pd.DataFrame(new, columns=["x0", "x1", "x2"]))
    np.testing.assert_array_equal(named, clone(estimator).fit(X, y, np.arange(120.0) % 5).predict(new))


def test_models_of_tables_learn_where_the_weight_is():
    """Two laws in one table; the weights say which one counts, even where its rows are few."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2))
    which = np.arange(3000) % 15 == 0
    y = np.where(which, X[:, 0], -X[:, 0]) + 0.01 * rng.normal(size=3000)
    model = TabularRegressor("laplacian", "standard", n_members=1, max_seconds=1.0, random_state=0)
    model.fit(X, y, sample_weight=np.where(which, 1.0, 1e-6))
    new = rng.normal(size=(200, 2))
    assert np.corrcoef(model.predict(new), new[:, 0])[0, 1] > 0.98
    assert model.held_out_.score > 0.9


def test_samples_of_weighted_rows_stand_for_the_table():
    """Weighted sums over the sample are those of the table, without bias: by z-scores over draws."""
    rng = np.random.default_rng(0)
    weight = rng.exponential(size=400) ** 3
    values = rng.normal(size=400) + weight
    draws = [draw_samples(weight, (30, 60), Key(seed)) for seed in range(300)]
    sums = np.array([[s.totals @ v[s.rows] for v in (values, np.ones(400))] for s, _, _ in draws])
    assert_unbiased(sums, np.array([weight @ values, weight.sum()]))
    for few, many, fresh in draws[:3]:
        assert set(few.rows) <= set(many.rows)
        assert not set(many.rows) & set(fresh.rows)
        assert [len(s.rows) for s in (few, many, fresh)] == [30, 60, 60]
