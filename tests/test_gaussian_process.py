"""Gaussian processes against the exact process, scikit-learn's and the laws of their own draws."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as ExactProcess
from sklearn.gaussian_process import kernels

from bochner import (
    RBF,
    Custom,
    ExponentialDot,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelFeatures,
    KernelRidge,
    Matern,
    NystromFeatures,
    exact_gaussian_process,
)
from bochner.draws.keys import Key
from bochner.lab.low_rank import NYSTROM_VARIANTS
from bochner.tuning.scales import tune_length_scale
from laws import HISTOGRAM_KERNELS, KERNELS, STATIONARY_KERNELS, assert_unbiased, z_bound

FIXED = {"noise_variance": 0.02, "amplitude": 1.7, "fit_intercept": False, "random_state": 0}


def problem(n=150, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, d))
    y = np.sin(2 * X[:, 0]) * X[:, -1] + 0.15 * rng.normal(size=n)
    return X, y, rng.uniform(-4, 4, size=(25, d))


def test_the_exact_process_is_scikit_learns():
    X, y, X_new = problem()
    kernel = kernels.ConstantKernel(1.7, "fixed") * kernels.RBF(1.2, "fixed")
    truth = ExactProcess(kernel, alpha=0.02, optimizer=None).fit(X, y)
    mean, covariance, evidence = exact_gaussian_process(RBF(1.2), X, y, X_new, 0.02, 1.7)
    expected_mean, expected_covariance = truth.predict(X_new, return_cov=True)
    np.testing.assert_allclose(mean, expected_mean, atol=1e-8)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-8)
    np.testing.assert_allclose(evidence, truth.log_marginal_likelihood(truth.kernel_.theta), rtol=1e-9)


@pytest.mark.parametrize("kernel", [RBF(1.2), Matern(1.5), Matern(2.0, nu=0.5)], ids=["rbf", "matern32", "exponential"])
def test_as_many_landmarks_as_rows_are_exact(kernel):
    X, y, X_new = problem()
    model = GaussianProcessRegressor(kernel, 200, **FIXED).fit(X, y)
    mean, covariance, evidence = exact_gaussian_process(kernel, X, y, X_new, 0.02, 1.7)
    found, spread = model.predict(X_new, return_cov=True)
    # landmarks that others span up to rounding are left out: that is all that is lost
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(spread, covariance, atol=1e-5)
    np.testing.assert_allclose(model.predict(X_new, return_std=True)[1] ** 2, np.diagonal(covariance), atol=1e-5)
    noisy = model.predict(X_new, return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy**2, np.diagonal(covariance) + 0.02, atol=1e-5)
    np.testing.assert_allclose(model.log_marginal_likelihood(), evidence, atol=1e-4)


@pytest.mark.parametrize("weight", [np.ones(80), np.geomspace(1e-3, 1e3, 80)], ids=["equal", "weighted"])
def test_landmarks_leave_what_fitc_says(weight):
    """With few landmarks: the posterior of the prior ZZᵀ + diag(k - ZZᵀ), by dense algebra."""
    X, y, X_new = problem(n=80)
    kernel = Matern(1.0)
    model = GaussianProcessRegressor(kernel, 15, **FIXED).fit(X, y, weight)
    Z, Z_new = model.feature_map_(X), model.feature_map_(X_new)
    rest = 1.0 - (Z * Z).sum(axis=1)
    assert rest.max() > 0.1
    K = 1.7 * (Z @ Z.T + np.diag(rest)) + np.diag(0.02 / weight)
    cross = 1.7 * Z_new @ Z.T
    mean, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(K, y), atol=1e-8)
    variance = 1.7 - np.einsum("ij,ji->i", cross, np.linalg.solve(K, cross.T))
    np.testing.assert_allclose(std**2, variance, atol=1e-8)
    truth = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2.0 * np.pi * K)[1])
    np.testing.assert_allclose(model.log_marginal_likelihood(), truth, rtol=1e-9)


def test_fewer_landmarks_stay_close_and_error_bars_reach_the_prior():
    X, y, X_new = problem(n=400)
    mean, covariance, _ = exact_gaussian_process(RBF(1.2), X, y, X_new, 0.02, 1.7)
    model = GaussianProcessRegressor(RBF(1.2), 100, **FIXED).fit(X, y)
    found, std = model.predict(X_new, return_std=True)
    np.testing.assert_allclose(found, mean, atol=0.02)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(covariance)), atol=0.01)
    far = model.predict(np.full((1, 2), 100.0), return_std=True)[1]
    np.testing.assert_allclose(far, np.sqrt(1.7), rtol=1e-6)


def test_many_features_approach_the_process():
    X, y, _ = problem()
    inside = X[:20] + 0.05
    mean, covariance, _ = exact_gaussian_process(RBF(1.2), X, y, inside, 0.02, 1.7)
    errors = []
    for m in (100, 2000):
        model = GaussianProcessRegressor(RBF(1.2), m, features="fourier", **FIXED).fit(X, y)
        found, spread = model.predict(inside, return_cov=True)
        errors.append((np.abs(found - mean).max(), np.abs(spread - covariance).max()))
    assert errors[1][0] < 0.1
    assert errors[1][1] < 0.01


def test_weight_space_is_the_posterior_of_bayesian_linear_regression():
    X, y, X_new = problem()
    features = FourierFeatures(RBF(1.2), 12, random_state=0)
    Z, Z_new = features.fit_transform(X), features.fit(X).transform(X_new)
    model = GaussianProcessRegressor(features=features, **FIXED).fit(X, y)
    A = Z.T @ Z / 0.02 + np.eye(12) / 1.7
    found, spread = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(found, Z_new @ np.linalg.solve(A, Z.T @ y / 0.02), atol=1e-9)
    np.testing.assert_allclose(spread, Z_new @ np.linalg.solve(A, Z_new.T), atol=1e-9)


def test_a_flat_prior_on_the_level_is_the_limit_of_a_wide_one():
    X, y, X_new = problem(n=60)
    kernel = Matern(1.0)
    model = GaussianProcessRegressor(kernel, 100, **(FIXED | {"fit_intercept": True})).fit(X, y + 5.0)
    wide = 1e5
    K = 1.7 * kernel(X) + wide + 0.02 * np.eye(60)
    cross = 1.7 * kernel(X_new, X) + wide
    mean = cross @ np.linalg.solve(K, y + 5.0)
    covariance = 1.7 * kernel(X_new) + wide - cross @ np.linalg.solve(K, cross.T)
    found, spread = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(found, mean, atol=1e-3)
    # ours gives the level and the centred features their own prior; far from the data the two differ by its covariance
    near = np.abs(X_new).max(axis=1) < 2
    np.testing.assert_allclose(spread[np.ix_(near, near)], covariance[np.ix_(near, near)], atol=2e-3)


@pytest.mark.parametrize("targets", [1, 2])
def test_functions_are_draws_from_the_posterior(targets):
    """Means and covariances of 1,000 drawn functions, each entry within its z-bound, far from the data included."""
    X, y, X_new = problem(n=100)
    Y = y if targets == 1 else np.column_stack([y, -2.0 * y])
    # the kernel of the features is the exact one up to 1 / sqrt(n_components)
    model = GaussianProcessRegressor(Matern(1.5), 100, **FIXED).fit(X, Y)
    functions = model.sample_functions(1000, random_state=1, n_components=8000)
    draws = functions(X_new)
    assert draws.shape == ((25, 1000) if targets == 1 else (25, 2, 1000))
    draws = draws if targets == 1 else draws[:, 1]
    mean, covariance, _ = exact_gaussian_process(Matern(1.5), X, Y.reshape(100, -1)[:, -1], X_new, 0.02, 1.7)
    variance = np.diagonal(covariance)
    floor = 5.0 / np.sqrt(8000)
    bound = z_bound(25) * np.sqrt(variance / 1000) + floor
    assert (np.abs(draws.mean(axis=1) - mean) <= bound).all()
    errors = np.abs(np.cov(draws) - covariance)
    spread = np.sqrt((covariance**2 + np.outer(variance, variance)) / 1000)
    assert (errors <= 1.15 * z_bound(625) * spread + 1.7 * floor).all()
    # a function is a function: the same wherever and however often it is called
    np.testing.assert_allclose(functions(X_new[3:5]), functions(X_new)[3:5], atol=1e-10)


def small_process(name, features, n_targets=1):
    """A process with few landmarks, and rows near the data, between them and far away."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, size=(30, 2))
    X_new = np.vstack([X[:2], rng.uniform(-1.5, 1.5, size=(3, 2)), 1.6 * X[2:3], 6.0 * X[3:5]])
    kernel = KERNELS[name]
    if name in HISTOGRAM_KERNELS:
        X, X_new = np.abs(X), np.abs(X_new)
    Y = np.sin(2 * X[:, :1]) * [1.0, -3.0][:n_targets] + 0.1 * rng.normal(size=(30, n_targets))
    if features == "random":
        features = KernelFeatures(kernel, 12, random_state=0)
    model = GaussianProcessRegressor(kernel, 12, features=features, **(FIXED | {"fit_intercept": True}))
    return model.fit(X, Y if n_targets > 1 else Y[:, 0]), X_new


def assert_draws_of(draws, mean, covariance):
    """Draws (n, s) have this mean and covariance, entry by entry: Isserlis' theorem gives the standard errors."""
    n, s = draws.shape
    variance = np.diagonal(covariance)
    assert (np.abs(draws.mean(axis=1) - mean) <= z_bound(n) * np.sqrt(variance / s) + 1e-9 * np.abs(mean)).all()
    errors = np.abs((draws - mean[:, None]) @ (draws - mean[:, None]).T / s - covariance)
    spread = np.sqrt((covariance**2 + np.outer(variance, variance)) / s)
    assert (errors <= 1.15 * z_bound(n * n) * spread).all()


SAMPLED = [
    *((name, "nystrom") for name in KERNELS),
    *((name, "fourier") for name in STATIONARY_KERNELS),
    *((name, "random") for name in KERNELS),
]


@pytest.mark.parametrize(("name", "features"), SAMPLED)
def test_values_are_drawn_from_what_is_predicted(name, features):
    """Means and covariances of drawn values are those of `predict`, near the data and far away, for every kernel."""
    model, X_new = small_process(name, features)
    mean, covariance = model.predict(X_new, return_cov=True)
    np.testing.assert_allclose(model.predict(X_new, return_std=True)[1] ** 2, np.diagonal(covariance), rtol=1e-6)
    assert_draws_of(model.sample_y(X_new, 4000, 0), mean, covariance)


@pytest.mark.parametrize("variant", ["projection", *NYSTROM_VARIANTS])
def test_values_are_drawn_from_what_is_predicted_of_every_variant(variant):
    X, y, X_new = problem(n=40)
    features = NystromFeatures(Matern(1.0), 12, variant=variant, random_state=0)
    model = GaussianProcessRegressor(features=features, **FIXED).fit(X, y)
    mean, covariance = model.predict(X_new, return_cov=True)
    assert np.linalg.eigvalsh(covariance)[0] > -1e-9
    assert_draws_of(model.sample_y(X_new, 4000, 0), mean, covariance)


def test_values_of_several_targets_and_of_many_rows(monkeypatch):
    model, X_new = small_process("sum", "nystrom", n_targets=2)
    draws = model.sample_y(X_new, 4000, 3)
    mean, covariance = model.predict(X_new, return_cov=True)
    for target in range(2):
        assert_draws_of(draws[:, target], mean[:, target], covariance[:, :, target])
    both = np.concatenate([draws[:, 0], draws[:, 1]])  # the targets are independent
    assert (np.abs(np.corrcoef(both)[:8, 8:]) <= 1.15 * z_bound(64) / np.sqrt(4000)).all()
    monkeypatch.setattr("bochner.estimators.gaussian_process.JOINT_ROWS", 4)
    np.testing.assert_array_equal(model.sample_y(X_new, 3, 7), model.sample_functions(3, 7)(X_new))


@pytest.mark.parametrize("name", KERNELS)
def test_functions_are_drawn_from_what_is_predicted(name):
    """Random features have the right kernel on average: so have covariances, over functions with features of their own.

    Away from the data, as far as the power series of ``exp(x·y)`` reaches.
    """
    model, X_new = small_process(name, "nystrom")
    X_new = X_new[:6]  # the others are out of reach of a few features
    mean, covariance = model.predict(X_new, return_cov=True)
    draws = [model.sample_functions(1, seed, n_components=500)(X_new)[:, 0] for seed in range(100)]
    assert_unbiased(np.array(draws), mean)
    products = np.array([np.outer(f - mean, f - mean) for f in draws])
    assert_unbiased(products, covariance)


def test_functions_that_cannot_be_drawn():
    X, y, X_new = problem(n=40)
    custom = Custom(lambda A, B: np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=2)))
    model = GaussianProcessRegressor(custom, 15, **FIXED).fit(X, y)
    with pytest.raises(ValueError, match="no random features are known"):
        model.sample_functions(1)
    mean, covariance = model.predict(X_new, return_cov=True)
    assert_draws_of(model.sample_y(X_new, 4000, 0), mean, covariance)
    model = GaussianProcessRegressor(ExponentialDot(0.5), 15, **FIXED).fit(X, y)
    with pytest.raises(ValueError, match="do not have the variance"):
        model.sample_functions(1, 0)(10.0 * X)
    with pytest.raises(ValueError, match="n_samples must be"):
        model.sample_y(X, 0)


def test_draws_from_features_alone_are_draws_of_weights():
    X, y, X_new = problem()
    model = GaussianProcessRegressor(RBF(1.2), 40, features="fourier", **FIXED).fit(X, y)
    draws = model.sample_y(X_new, 3000, 0)
    mean, covariance = model.predict(X_new, return_cov=True)
    variance = np.diagonal(covariance)
    assert (np.abs(draws.mean(axis=1) - mean) <= z_bound(25) * np.sqrt(variance / 3000) + 1e-9).all()
    spread = np.sqrt((covariance**2 + np.outer(variance, variance)) / 3000)
    assert (np.abs(np.cov(draws) - covariance) <= 1.15 * z_bound(625) * spread + 1e-9).all()


def test_variances_have_the_most_evidence():
    X, y, _ = problem(n=300)
    options = {"fit_intercept": False, "random_state": 0}
    both = GaussianProcessRegressor(RBF(1.2), 300, **options).fit(X, y)
    assert 0.5 * 0.15**2 < both.noise_variance_ < 2.0 * 0.15**2
    best = both.log_marginal_likelihood()
    assert best == pytest.approx(
        exact_gaussian_process(RBF(1.2), X, y, X[:1], both.noise_variance_, both.amplitude_)[2], abs=1e-2
    )
    for noise, amplitude in ((1.2, 1.0), (0.8, 1.0), (1.0, 1.3), (1.0, 0.75)):
        given = {"noise_variance": noise * both.noise_variance_, "amplitude": amplitude * both.amplitude_}
        other = GaussianProcessRegressor(RBF(1.2), 300, **given, **options).fit(X, y)
        assert other.log_marginal_likelihood() <= best + 1e-2
    for given in ({"noise_variance": both.noise_variance_}, {"amplitude": both.amplitude_}):
        one = GaussianProcessRegressor(RBF(1.2), 300, **given, **options).fit(X, y)
        assert one.noise_variance_ == pytest.approx(both.noise_variance_, rel=0.1)
        assert one.amplitude_ == pytest.approx(both.amplitude_, rel=0.3)


PROCESSES = {
    "exact": (RBF(1.69), {"n_components": 64}),
    "rough": (Matern(1.0), {"n_components": 64, "fit_intercept": True}),
    "landmarks": (RBF(1.69), {"n_components": 5}),
    "fourier": (RBF(1.69), {"n_components": 20, "features": "fourier"}),
}


@pytest.mark.parametrize("given", ["noise_variance", "amplitude"])
@pytest.mark.parametrize("process", PROCESSES)
def test_the_variance_that_is_not_given_has_the_most_evidence(process, given):
    """Over 42 decades, whatever the other one and the units of the targets are."""
    kernel, options = PROCESSES[process]
    X = np.array([[1.0], [3.0], [5.0], [6.0], [7.0], [8.0]])
    y = 10.0 * X[:, 0] * np.sin(X[:, 0])
    asked = {"noise_variance": "amplitude", "amplitude": "noise_variance"}[given]

    def evidence(values, targets):
        model = GaussianProcessRegressor(kernel, **(FIXED | options | values)).fit(X, targets)
        return model.log_marginal_likelihood(), getattr(model, asked + "_")

    for value in (1e-12, 1e-6, 1.0):
        for unit in (1e-6, 1.0, 1e6):
            value_in_units = value if given == "noise_variance" else value * unit**2
            fixed = {given: value_in_units}
            found, best = evidence(fixed | {asked: "auto"}, unit * y)
            others = [*(best * np.array([0.5, 0.8, 1.25, 2.0])), *np.geomspace(1e-18, 1e24, 15)]
            most = max(evidence(fixed | {asked: other}, unit * y)[0] for other in others)
            assert found >= most - 0.05 - 1e-9 * abs(most), (value, unit)


@pytest.mark.parametrize("process", PROCESSES)
@pytest.mark.parametrize("noise", ["auto", 1e-10, 0.1])
def test_units_of_the_targets_do_not_matter(process, noise):
    """c y has c times the means and standard deviations of y, where noise has the units of y²."""
    kernel, options = PROCESSES[process]
    X, y, X_new = problem(n=60)

    def predict(unit):
        given = {"noise_variance": noise if noise == "auto" else noise * unit**2, "amplitude": "auto"}
        model = GaussianProcessRegressor(kernel, **(FIXED | options | given)).fit(X, unit * y)
        return np.array(model.predict(X_new, return_std=True)) / unit

    expected = predict(1.0)
    for unit in (1e-6, 1e-2, 1e6):
        found = predict(unit)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


def test_a_process_without_noise_has_its_amplitude():
    """The likeliest amplitude of a process that interpolates is yᵀK⁻¹y / n."""
    X = np.array([[1.0], [3.0], [5.0], [6.0], [7.0], [8.0]])
    y = 10.0 * X[:, 0] * np.sin(X[:, 0])
    model = GaussianProcessRegressor(RBF(1.69), 64, **(FIXED | {"noise_variance": 1e-10, "amplitude": "auto"})).fit(
        X, y
    )
    amplitude = y @ np.linalg.solve(RBF(1.69)(X), y) / 6
    assert model.amplitude_ == pytest.approx(amplitude, rel=0.01)
    evidence = exact_gaussian_process(RBF(1.69), X, y, X, 1e-10, amplitude)[2]
    assert model.log_marginal_likelihood() == pytest.approx(evidence, abs=1e-3)


@pytest.mark.parametrize("features", ["auto", "fourier"])
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_many_rows_without_noise_leave_the_amplitude_as_it_is(n, features):
    """Of many rows without noise few are signal; the others must not count as a noise that is next to nothing."""
    X = np.random.default_rng(0).uniform(0, 5, size=(n, 1))
    y = np.sin(2 * X[:, 0])
    model = GaussianProcessRegressor(n_components=256, features=features, random_state=0).fit(X, y)
    X_new = np.linspace(0, 5, 200)[:, None]
    np.testing.assert_allclose(model.predict(X_new), np.sin(2 * X_new[:, 0]), atol=1e-4)
    X_new = np.r_[np.linspace(-1, 0, 50), np.linspace(5, 6, 50), 1e3][:, None]
    mean, std = model.predict(X_new, return_std=True)
    assert (np.abs(mean - np.sin(2 * X_new[:, 0]))[:-1] <= 2 * std[:-1]).mean() > 0.9
    assert std[-1] > 0.5 * y.std()


@pytest.mark.parametrize("given", [{}, {"noise_variance": 1e-10}, {"noise_variance": 0.01, "amplitude": 1.0}])
@pytest.mark.parametrize("kernel", [RBF("auto"), Matern("auto")], ids=["rbf", "matern"])
def test_the_scale_of_few_rows_has_the_most_evidence(kernel, given):
    """Whatever the seed, and whichever of noise and amplitude are numbers."""
    X = np.array([[1.0], [3.0], [5.0], [6.0], [7.0], [8.0], [9.5], [11.0]])
    y = X[:, 0] * np.sin(X[:, 0])
    options = {"noise_variance": "auto", "amplitude": "auto", "fit_intercept": False} | given

    def evidence(scale):
        fixed = clone(kernel).set_params(length_scale=scale)
        return GaussianProcessRegressor(fixed, 64, random_state=0, **options).fit(X, y).log_marginal_likelihood()

    for seed in range(3):
        model = GaussianProcessRegressor(kernel, 64, random_state=seed, **options).fit(X, y)
        scale = model.kernel_.length_scale
        most = max(map(evidence, [0.8 * scale, 0.95 * scale, 1.05 * scale, 1.25 * scale, 0.5, 1.0, 2.0, 4.0]))
        assert model.log_marginal_likelihood() >= most - 0.01


def test_values_drawn_do_not_depend_on_the_order_of_landmarks():
    X, y, X_new = problem(n=40)
    one, other = (GaussianProcessRegressor(Matern(1.0), 40, **(FIXED | {"random_state": s})).fit(X, y) for s in (0, 1))
    assert not np.array_equal(one.features_.landmarks_, other.features_.landmarks_)
    np.testing.assert_allclose(one.sample_y(X_new, 5, 3), other.sample_y(X_new, 5, 3), atol=1e-6)


def test_scales_are_fitted_and_restarts_never_hurt():
    X, y, _ = problem(n=400, d=3)
    y = np.sin(3 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=400)
    model = GaussianProcessRegressor(n_components=100, metric="diagonal", random_state=0).fit(X, y)
    scales = model.kernel_.length_scale
    assert (scales[1:] > 3 * scales[0]).all()
    assert model.score(X, y) > 0.95
    options = {"key": Key(0), "n_components": 64}
    plain = tune_length_scale(RBF(), X, y[:, None], **options)
    again = tune_length_scale(RBF(), X, y[:, None], n_restarts=3, **options)

    def evidence(kernel):
        fixed = GaussianProcessRegressor(kernel, 400, fit_intercept=True, random_state=0).fit(X, y)
        return fixed.log_marginal_likelihood()

    assert evidence(again) >= evidence(plain) - 5.0


def test_intervals_cover_what_they_say():
    """New observations of a process with known noise: the 95 % interval holds 95 % of them, within a z-bound."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(4000, 3))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.3 * rng.normal(size=4000)
    model = GaussianProcessRegressor(n_components=200, n_restarts=0, random_state=0).fit(X[:2000], y[:2000])
    mean, std = model.predict(X[2000:], return_std=True, include_noise=True)
    inside = (np.abs(y[2000:] - mean) <= 1.959964 * std).mean()
    low, high = model.predict_interval(X[2000:], 0.95).T
    assert ((low <= y[2000:]) & (y[2000:] <= high)).mean() == inside
    # the model's own error of the noise variance, some 5 %, moves the coverage by half a per cent
    assert abs(inside - 0.95) < 0.005 + 5.0 * np.sqrt(0.95 * 0.05 / 2000)


@pytest.mark.parametrize("two", [False, True])
def test_intervals_end_at_quantiles(two):
    X, y, X_new = problem()
    y = np.stack([y, 3.0 * y], axis=1) if two else y
    model = GaussianProcessRegressor(RBF(1.2), 50, random_state=0).fit(X, y)
    for noise in (True, False):
        mean, std = model.predict(X_new, return_std=True, include_noise=noise)
        interval = model.predict_interval(X_new, 0.8, include_noise=noise)
        assert interval.shape == (*mean.shape, 2)
        np.testing.assert_allclose(interval, norm(mean[..., None], std[..., None]).ppf([0.1, 0.9]), rtol=1e-12)
        quantiles = model.predict_quantiles(X_new, [0.9, 0.5, 0.1], include_noise=noise)
        np.testing.assert_allclose(quantiles[..., [2, 0]], interval, rtol=1e-12)
        np.testing.assert_array_equal(quantiles[..., 1], mean)
    noisy, plain = model.predict_interval(X_new), model.predict_interval(X_new, include_noise=False)
    assert (np.ptp(noisy, axis=-1) > np.ptp(plain, axis=-1)).all()
    with pytest.raises(ValueError, match="coverage must be a number strictly between 0 and 1"):
        model.predict_interval(X_new, 90)
    with pytest.raises(ValueError, match="quantiles must be a number strictly between 0 and 1, got 5"):
        model.predict_quantiles(X_new, [0.5, 5])


def test_quantiles_of_dask_arrays():
    da = pytest.importorskip("dask.array")
    X, y, X_new = problem()
    model = GaussianProcessRegressor(RBF(1.2), 50, random_state=0).fit(X, y)
    found = model.predict_quantiles(da.from_array(X_new, chunks=(7, -1)), [0.2, 0.8])
    np.testing.assert_allclose(np.asarray(found), model.predict_quantiles(X_new, [0.2, 0.8]), rtol=1e-10)


def test_streams_weights_parts_and_dtypes():
    X, y, X_new = problem()
    options = {"features": "fourier", **FIXED}
    whole = GaussianProcessRegressor(RBF(1.2), 30, **options).fit(X, y)
    expected = whole.predict(X_new, return_std=True)
    parts = GaussianProcessRegressor(RBF(1.2), 30, **options).partial_fit(X[:70], y[:70]).partial_fit(X[70:], y[70:])
    blocks = GaussianProcessRegressor(RBF(1.2), 30, **options).fit([(X[:40], y[:40]), (X[40:], y[40:])])
    sparse = GaussianProcessRegressor(RBF(1.2), 30, **options).fit(scipy.sparse.csr_matrix(X), y)
    for model in (parts, blocks, sparse, pickle.loads(pickle.dumps(whole))):
        for found, truth in zip(model.predict(X_new, return_std=True), expected, strict=True):
            np.testing.assert_allclose(found, truth, atol=1e-7)
    single = GaussianProcessRegressor(RBF(1.2), 100, **FIXED).fit(X.astype(np.float32), y)
    mean, std = single.predict(X_new.astype(np.float32), return_std=True)
    assert mean.dtype == std.dtype == single.sample_y(X_new.astype(np.float32)).dtype == np.float32
    truth = GaussianProcessRegressor(RBF(1.2), 100, **FIXED).fit(X, y).predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, truth[0], atol=0.05)
    np.testing.assert_allclose(std, truth[1], atol=0.05)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    a = GaussianProcessRegressor(RBF(1.2), 30, **options).fit(X, y, weight)
    b = GaussianProcessRegressor(RBF(1.2), 30, **options).fit(X[repeated], y[repeated])
    for one, other in zip(a.predict(X_new, return_std=True), b.predict(X_new, return_std=True), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_variance": 0.0}, "noise_variance must be a positive"),
        ({"noise_variance": "loud"}, "noise_variance must be a positive number, got 'loud'. Or pass 'auto'"),
        ({"amplitude": -1}, "amplitude must be a positive"),
        ({"n_restarts": -1}, "n_restarts must be"),
        ({"n_components": "many"}, "n_components must be"),
        ({"features": "sines"}, "features must be"),
    ],
)
def test_bad_parameters(options, message):
    X, y, _ = problem(n=30)
    with pytest.raises(ValueError, match=message):
        GaussianProcessRegressor(**{"kernel": RBF(1.0), "n_components": 10, **options}).fit(X, y)


@pytest.mark.parametrize("level", [3.0, 0.1])
def test_constant_targets_of_many_rows(level):
    """Enough rows for a metric to be learned: alone, and beside a target that varies."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        mean, std = GaussianProcessRegressor(random_state=0).fit(X, np.full(200, level)).predict(X, return_std=True)
        np.testing.assert_allclose(mean, level)
        assert np.isfinite(std).all()
        for model in (GaussianProcessRegressor(random_state=0), KernelRidge(random_state=0)):
            found = model.fit(X, np.column_stack([np.sin(X[:, 0]), np.full(200, level)])).predict(X)
            np.testing.assert_allclose(found[:, 1], level)
            assert np.mean((found[:, 0] - np.sin(X[:, 0])) ** 2) < 1e-3


def test_bad_and_strange_data():
    X, y, X_new = problem(n=30)
    model = GaussianProcessRegressor(RBF(1.0), 20, random_state=0)
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(X, np.where(np.arange(30) == 3, np.nan, y))
    constant = model.fit(X, np.full(30, 4.0))
    mean, std = constant.predict(X_new, return_std=True)
    np.testing.assert_allclose(mean, 4.0)
    assert np.isfinite(std).all()
    one = GaussianProcessRegressor(RBF(1.0), 20, random_state=0, noise_variance=0.1, amplitude=1.0)
    mean, std = one.fit(X[:1], y[:1]).predict(X_new, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    doubled = GaussianProcessRegressor(RBF(1.0), 60, **FIXED).fit(np.vstack([X, X]), np.r_[y, y])
    assert np.isfinite(doubled.predict(X_new, return_std=True)[1]).all()
    with pytest.raises(ValueError, match="not for both"):
        model.predict(X, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="noise_variance must be"):
        exact_gaussian_process(RBF(1.0), np.vstack([X, X]), np.r_[y, y], X_new, -1e-3)
