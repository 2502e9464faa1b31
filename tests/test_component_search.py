"""n_components="auto": the tolerance is met, few components are wasted, and budgets are kept and said."""

import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import binom
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import PolynomialFeatures

from bochner import RBF, CompactFeatures, FourierFeatures, KernelRidge, KitchenSinkFeatures, Laplacian, RandomProjection
from bochner.certificates import Budget, Certificate, ComponentSearch, Deadline, Effort, distance_error
from bochner.data import progress
from bochner.estimators.models import KernelModel
from bochner.tuning import scales as tuning
from laws import ESTIMATORS, assert_unbiased

MODELS = [e for e in ESTIMATORS if isinstance(e, KernelModel)]
TRANSFORMERS = [e for e in ESTIMATORS if "max_bytes" in e.get_params() and e not in MODELS]


def relative_error(features, X):
    Z, K = features.transform(X), features.kernel_(X)
    return np.linalg.norm((Z @ Z.conj().T).real - K) / np.linalg.norm(K)


@pytest.fixture(scope="module", name="X")
def rows_of_data():
    return np.random.default_rng(0).normal(size=(1500, 5))


def test_the_tolerance_is_met_as_often_as_promised(X):
    trials, met = 12, 0
    for seed in range(trials):
        features = FourierFeatures(n_components="auto", tol=0.1, rows="iid", random_state=seed).fit(X)
        assert features.certificate_.high <= 0.1
        met += relative_error(features, X) <= 0.1
    assert binom.cdf(met, trials, 0.95) > 1e-6


@pytest.mark.parametrize("rows", ["iid", "orthogonal", "quasi"])
def test_few_components_are_wasted(X, rows):
    X = X[:800]  # all entries are looked at, so the error is known exactly
    features = FourierFeatures(n_components="auto", tol=0.07, rows=rows, random_state=1).fit(X)
    assert features.certificate_.exact
    assert relative_error(features, X) == pytest.approx(features.certificate_.value, rel=1e-6)
    sizes = range(16, features.n_components_, 16)
    errors = [relative_error(FourierFeatures(n_components=m, rows=rows, random_state=1).fit(X), X) for m in sizes]
    enough = [m for m, error in zip(sizes, errors, strict=True) if error <= 0.07]
    # the error is not monotone in the components, so a smaller number may do by luck; not by half
    assert not enough or features.n_components_ <= 2 * enough[0] + 32


def test_it_is_the_same_draw(X):
    auto = FourierFeatures(n_components="auto", tol=0.1, random_state=3).fit(X)
    fixed = FourierFeatures(n_components=auto.n_components_, rows=auto.rows_, random_state=3).fit(X)
    np.testing.assert_array_equal(auto.transform(X[:5]), fixed.transform(X[:5]))
    assert auto.n_components == "auto"
    assert auto.transform(X).shape == (len(X), auto.n_components_)


@pytest.mark.parametrize(
    "options", [{"form": "offset"}, {"form": "complex"}, {"kernel": Laplacian(4.0)}, {"kernel": RBF(2.0) + RBF(5.0)}]
)
def test_every_form_and_kernel(X, options):
    features = FourierFeatures(n_components="auto", tol=0.15, random_state=0, **options).fit(X[:600])
    assert relative_error(features, X[:600]) <= 0.15


@pytest.mark.parametrize(
    ("budget", "name"),
    [({"max_components": 50}, "max_components=50"), ({"max_bytes": 1500 * 8 * 70}, "max_bytes"),
     ({"max_seconds": 1e-9}, "max_seconds")],
)  # fmt: skip
def test_budgets_warn_with_what_was_reached(X, budget, name):
    with pytest.warns(ConvergenceWarning, match=f"relative Frobenius error is .* {name}"):
        features = FourierFeatures(n_components="auto", tol=1e-3, random_state=0, **budget).fit(X)
    assert features.certificate_.value > 1e-3
    assert features.n_components_ <= 70


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": "many"}, "n_components must be a positive integer or 'auto'"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"tol": "small"}, "tol must be a positive number"),
        ({"max_components": 0}, "max_components must be a positive integer"),
        ({"max_seconds": -1}, "max_seconds must be a positive number"),
        ({"max_bytes": float("inf")}, "max_bytes must be a positive number"),
    ],
)
def test_errors(X, options, message):
    with pytest.raises(ValueError, match=message):
        FourierFeatures(**{"n_components": "auto", **options}).fit(X)


def test_one_row_and_equal_rows():
    for X in (np.zeros((1, 3)), np.ones((50, 2))):
        assert FourierFeatures(RBF(1.0), n_components="auto", random_state=0).fit(X).certificate_.high <= 0.05


def test_every_estimator_of_the_registry_grows():
    exact = [e for e in ESTIMATORS if "n_components" not in e.get_params()]  # all components that there are
    assert len(TRANSFORMERS) + len(MODELS) + len(exact) == len(ESTIMATORS)


@pytest.fixture(scope="module", name="histograms")
def positive_rows():
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(300, 6))
    return X, np.sin(9.0 * X[:, 0] * X[:, 1]) + rng.normal(size=300)


def fixed_like(estimator, grown):
    """The same estimator with the number of components that was found, and what else "auto" decides."""
    size = {"n_components": grown.n_components_}
    if hasattr(grown, "sample_steps"):
        size = {"sample_steps": (grown.n_components_ // grown.n_features_in_ + 1) // 2, "n_components": None}
    if hasattr(grown, "n_grids"):
        size["n_grids"] = len(grown.feature_map_.salts)
    if hasattr(grown, "rows_"):
        size["rows"] = grown.rows_
    if hasattr(grown, "landmarks_law_"):
        size["landmarks"] = grown.landmarks_law_
    return clone(estimator).set_params(**size)


def arrays(Z):
    return Z.toarray() if scipy.sparse.issparse(Z) else Z


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=repr)
def test_every_transformer_stops_at_an_easy_tolerance(estimator, histograms):
    X, y = histograms
    if isinstance(estimator, RandomProjection):
        X = np.random.default_rng(2).normal(size=(300, 400))
    if getattr(estimator, "variant", "") == "meka":
        with pytest.raises(ValueError, match="tol goes with variant='projection'"):
            clone(estimator).set_params(n_components="auto").fit(X)
        return
    easy = {"RandomProjection": 0.9, "LearnedFeatures": 0.5}.get(type(estimator).__name__, 0.3)
    auto = clone(estimator).set_params(n_components="auto", tol=easy)
    grown = auto.fit(X, y)
    assert grown.certificate_.high <= easy
    assert grown.n_components == "auto"
    Z = grown.transform(X)
    assert Z.shape == (len(X), grown.n_components_)
    fixed = fixed_like(estimator, grown).fit(X, y)
    np.testing.assert_allclose(arrays(fixed.transform(X)), arrays(Z), rtol=1e-9, atol=1e-12)
    # a new number of components is a new beginning
    assert not hasattr(grown.set_params(n_components=2, tol=None).fit(X, y), "certificate_")


@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=repr)
def test_every_transformer_says_what_it_reached(estimator, histograms):
    X, y = histograms
    if getattr(estimator, "variant", "") == "meka":
        return
    most = 64 if hasattr(estimator, "n_grids") else 6
    auto = clone(estimator).set_params(n_components="auto", tol=1e-12, max_components=most)
    if "max_iter" in auto.get_params():
        auto.set_params(max_iter=100)  # so that more components have the time to be better
    with pytest.warns(ConvergenceWarning, match="tol=1e-12 is not reached") as caught:
        grown = auto.fit(X, y)
    assert grown.n_components_ <= most
    assert f"{grown.certificate_.value:.3g}" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_distances_are_kept_as_promised():
    X = np.random.default_rng(0).normal(size=(400, 300))
    grown = RandomProjection(tol=0.8, random_state=0).fit(X)
    assert grown.certificate_.exact
    Z = grown.transform(X)
    given, kept = (((A[:, None] - A[None, :200]) ** 2).sum(-1) for A in (X[:200], Z[:200]))
    apart = given > 0
    assert abs(kept[apart] / given[apart] - 1.0).max() <= grown.certificate_.value * (1 + 1e-9) <= 0.8
    assert RandomProjection(grown.n_components_ // 3, random_state=0).fit(X).transform(X).shape[1] > 1
    worse = distance_error(RandomProjection(grown.n_components_ // 3, random_state=0).fit(X), X)
    assert worse.value > 0.8  # a third of the components does not do


def test_random_pairs_bound_all_but_a_share():
    X = np.random.default_rng(0).normal(size=(3000, 50)).astype(np.float32)
    features = RandomProjection(20, random_state=0).fit(X)
    found = distance_error(features, X, random_state=1)
    everything = distance_error(features, X[:500], max_pairs=1 << 20)
    assert "share" in found.how
    assert 0.5 * everything.value < found.value  # the worst of 8192 pairs is not far from the worst of 124,750


def test_an_activation_of_ones_own_has_no_kernel(X):
    with pytest.raises(ValueError, match="the kernel of the activation"):
        KitchenSinkFeatures(np.tanh, n_components="auto").fit(X)


def test_compact_features_need_a_kernel(X):
    with pytest.raises(ValueError, match="has no kernel_"):
        CompactFeatures(PolynomialFeatures(2), n_components="auto", expansion=None).fit(X)


@pytest.mark.parametrize("activation", ["cos", "relu", "squared_relu", "step", "sign", "gaussian"])
@pytest.mark.parametrize("bias", [0.0, 0.7])
def test_kernels_of_random_layers(activation, bias):
    X = np.random.default_rng(0).normal(size=(30, 3))
    options = {"rows": "iid", "length_scale": 1.7, "bias": bias}
    draws = []
    for seed in range(200):
        features = KitchenSinkFeatures(activation, 40, random_state=seed, **options).fit(X)
        draws.append(features.transform(X) @ features.transform(X).T)
    draws = np.array(draws)
    assert_unbiased(draws, features.kernel_(X))
    np.testing.assert_allclose(np.diagonal(features.kernel_(X)), features.kernel_.diagonal(X), atol=1e-12)


def test_budgets_say_which_limit_it_was():
    def certify(n_components, sample):
        value = 1.0 / n_components
        return Certificate("toy", value, (value, value), 0.95, "", Effort(0, 0, 0.0))

    assert ComponentSearch(certify, tol=0.5, budget=Budget(10**6)).run()[0] == 16
    budget = Budget(1000, max_bytes=800.0, bytes_for=lambda n_components: 8.0 * n_components)
    with pytest.warns(ConvergenceWarning, match="max_bytes=800"):
        assert ComponentSearch(certify, tol=1e-6, budget=budget).run()[0] == 100
    with pytest.warns(ConvergenceWarning, match="there are no more"):
        assert ComponentSearch(certify, tol=1e-6, budget=Budget(1000, ceiling=77)).run()[0] == 77
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        n_components, _ = ComponentSearch(certify, tol=1e-3, budget=Budget(10**6)).run()
    assert 1000 <= n_components <= 1100
    with pytest.warns(ConvergenceWarning, match="tol=0.1 is not certified: with 8 components the toy error is 0.01"):
        Budget(8).warn(0.1, 8, Certificate("toy", 0.01, (0.0, np.inf), 0.95, "", Effort(0, 0, 0.0)))


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("most", [1, 2, 99, 100, 101, 4096])
def test_a_budget_of_bytes_allows_what_fits_and_no_more(power, most):
    def bytes_for(n_components):
        return 8.0 * n_components**power

    for max_bytes in (bytes_for(100), np.nextafter(bytes_for(100), 0.0), np.nextafter(bytes_for(100), np.inf)):
        fitting = [m for m in range(1, most + 1) if bytes_for(m) <= max_bytes]
        assert Budget(most, max_bytes=max_bytes, bytes_for=bytes_for).most == max(fitting)
    assert Budget(most, max_bytes=1.0, bytes_for=bytes_for).most == 1  # less than one component cannot be had


@pytest.mark.parametrize("better", [0.5, 0.7, 0.9, 1.0, 1.3, 1.6])
def test_final_tries_find_what_the_final_certificate_needs(better):
    """Where the final components are better or worse than those searched, by a factor the search does not know."""
    tried = []

    def certify(n_components, sample):
        value = (better if sample == "final" else 1.0) / n_components
        tried.extend([n_components] if sample == "final" else [])
        return Certificate("toy", value, (value, value), 0.95, "", Effort(0, 0, 0.0))

    n_components, found = ComponentSearch(certify, tol=1e-3, budget=Budget(10**6), rate=1.0, repeats=2).run()
    assert found.high == better / n_components <= 1e-3
    assert 1000 * better <= n_components <= 1000 * better / 0.7
    assert len(tried) == len(set(tried)) <= 3


# -- models ---------------------------------------------------------------------------------------------------------


def number_of(model):
    return "n_feature_components" if hasattr(model, "n_feature_components") else "n_components"


def components_of(model):
    return model.feature_map_.n_components


@pytest.fixture(scope="module", name="curve")
def regression_rows():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, size=(400, 3))
    y = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=400)
    return X, y


def targets_for(model, y):
    return (y > 0).astype(int) if hasattr(model, "decision_function") else y


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_model_stops_at_an_easy_tolerance(model, curve):
    X, y = curve
    grown = clone(model).set_params(**{number_of(model): "auto"}, tol=0.5).fit(X, targets_for(model, y))
    found = next(c for c in (getattr(m, "certificate_", None) for m in found_in(grown)) if c is not None)
    assert found.high <= 0.5
    assert components_of(grown) < 512
    fixed = clone(model).set_params(features=fixed_features(grown)).fit(X, targets_for(model, y))
    assert components_of(fixed) == components_of(grown)
    if hasattr(grown, "alpha_") and not hasattr(grown, "noise_variance") and not hasattr(grown, "decision_function"):
        np.testing.assert_allclose(fixed.predict(X), grown.predict(X), rtol=1e-6, atol=1e-6)


def found_in(model):
    return (model, getattr(model, "ridge_", None), model.features_)


def fixed_features(grown):
    features = clone(grown.features_).set_params(n_components=components_of(grown))
    if hasattr(grown.features_, "rows_"):
        features.set_params(rows=grown.features_.rows_, kernel=grown.features_.kernel_)
    if getattr(grown.features_, "landmarks_", None) is not None and grown.features_.tol is None:
        features.set_params(landmarks=grown.features_.landmarks_)
    return features


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_model_says_what_it_reached(model, curve):
    X, y = curve
    options = {number_of(model): "auto", "tol": 1e-9, "max_components": 16}
    with pytest.warns(
        ConvergenceWarning, match="tol=1e-09 is not reached: with 16 components .* max_components=16"
    ) as caught:
        grown = clone(model).set_params(**options).fit(X, targets_for(model, y))
    assert components_of(grown) <= 16
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("budget", "name"), [({"max_seconds": 1e-9}, "max_seconds=1e-09"), ({"max_bytes": 8.0 * 48**2}, "max_bytes=18432")]
)
def test_limits_of_ridge_regression(curve, budget, name):
    with pytest.warns(ConvergenceWarning, match=name):
        grown = KernelRidge(RBF(1.0), tol=1e-6, random_state=0, **budget).fit(*curve)
    assert grown.n_components_ <= 64


def test_a_weight_counts_rows(curve):
    X, y = curve
    twice = KernelRidge(RBF(1.0), tol=0.2, alpha=0.1, random_state=0)
    weighted = clone(twice).fit(X, y, np.full(len(y), 2.0)).certificate_.value
    assert 0.0 < weighted < 0.2


def test_seconds_count_from_the_first_one(curve, monkeypatch):
    """A clock on which every look at it takes a second: tuning stops, and so does the search."""
    now = iter(range(10**6))
    monkeypatch.setattr(progress.time, "perf_counter", lambda: float(next(now)))
    tried = []
    left_out = tuning._left_out

    def counted(*arguments):
        tried.append(arguments)
        return left_out(*arguments)

    monkeypatch.setattr(tuning, "_left_out", counted)
    with pytest.warns(ConvergenceWarning, match="max_seconds=5 allows no more"):
        hurried = KernelRidge(tol=1e-6, max_seconds=5, n_jobs=1, random_state=0).fit(*curve)
    assert len(tried) <= 5
    assert hurried.n_components_ <= 64
    assert next(now) < 50  # and not because the clock was never looked at


def test_no_model_is_begun_that_the_time_left_cannot_finish():
    size, left = 100, 9.0
    budget = Budget(10**6, Deadline(1.0), affordable=lambda: int(size * np.sqrt(left)))
    assert budget.most == 300
    with pytest.warns(ConvergenceWarning, match="max_seconds=1 allows no more"):
        budget.warn(1e-3, 300, Certificate("toy", 0.1, (0.1, 0.1), 0.95, "", Effort(0, 0, 0.0)))


def test_a_model_with_every_row_as_landmark_predicts():
    """So rough a kernel asks for all rows, more landmarks than any model of the search has: some rows are measured."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = KernelRidge(RBF(0.3), random_state=0).fit(X, np.sin(X))
    assert model.n_components_ == len(model.component_weights_.T) == 200
    assert np.isfinite(model.predict(X)).all()
