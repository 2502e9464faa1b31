"""Certificates of predictions against exact kernel ridge regression, refits and new rows."""

import numpy as np
import pytest
from scipy.stats import binom

from bochner import RBF, FourierFeatures, KernelRidge, NystromFeatures, exact_kernel_ridge
from bochner.certificates import gcv_error, leave_one_out_error, prediction_error
from bochner.ridge.statistics import RidgeStatistics
from test_certificates import DATASETS


@pytest.mark.parametrize("trials", [15, pytest.param(400, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rows", ["iid", "auto"])
@pytest.mark.parametrize("data", DATASETS)
def test_prediction_error_covers_the_distance_from_the_exact_kernel(data, rows, trials):
    X = DATASETS[data]
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    kernel, new = RBF(1.5 * np.sqrt(X.shape[1])), X[300:400]
    exact = exact_kernel_ridge(kernel, X[:300], y[:300], new, alpha=1.0)
    hits = 0
    for seed in range(trials):
        features = FourierFeatures(kernel, n_components=120, rows=rows, random_state=seed)
        model = KernelRidge(features=features, alpha=1.0).fit(X[:300], y[:300])
        found = prediction_error(model, new)
        error = np.sqrt(np.mean((model.predict(new) - exact) ** 2))
        hits += found.low <= error <= found.high
    assert binom.cdf(hits, trials, 0.95) > 1e-6 / len(DATASETS), f"{hits} of {trials}"


def test_prediction_error_of_the_whole_is_the_models_prediction_and_falls_with_columns():
    X = DATASETS["diabetes"]
    y = np.column_stack([X[:, 0] ** 2, np.cos(X[:, 1])])
    few, many = (
        prediction_error(
            KernelRidge(features=FourierFeatures(RBF(4.0), n_components=m, random_state=0), alpha=0.5).fit(X, y), X
        )
        for m in (60, 1500)
    )
    assert many.high < few.value
    assert "not independent" in many.how


def test_prediction_error_errors():
    X = DATASETS["normal"]
    y = X[:, 0]
    model = KernelRidge(features=FourierFeatures(RBF(1.0), n_components=40, random_state=0), alpha=1.0).fit(X, y)
    with pytest.raises(ValueError, match="fewer blocks or more components"):
        prediction_error(model, X, n_blocks=30)
    with pytest.raises(TypeError, match="fitted KernelRidge"):
        prediction_error(FourierFeatures().fit(X), X)
    other = KernelRidge(features=NystromFeatures(RBF(1.0), n_components=40, random_state=0), alpha=1.0).fit(X, y)
    with pytest.raises(ValueError, match="exchangeable"):
        prediction_error(other, X)


def ridge_fit(Z, Y, alpha, fit_intercept):
    centre, level = (Z.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    Zc = Z - centre
    weights = np.linalg.solve(Zc.T @ Zc + alpha * np.eye(Z.shape[1]), Zc.T @ (Y - level))
    return lambda new: (new - centre) @ weights + level


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_leave_one_out_is_refitting(fit_intercept, n_targets):
    rng = np.random.default_rng(0)
    Z, Y = rng.normal(size=(60, 7)) + 1.0, rng.normal(size=(60, n_targets)) + 3.0
    statistics = RidgeStatistics(7, n_targets).update(Z, Y)
    found = leave_one_out_error(statistics, lambda Z: Z, Z, Y, 0.7, fit_intercept=fit_intercept)
    errors = []
    for i in range(60):
        rest = np.arange(60) != i
        errors.append((ridge_fit(Z[rest], Y[rest], 0.7, fit_intercept)(Z[i]) - Y[i]) ** 2)
    assert found.value == pytest.approx(np.mean(errors), rel=1e-8)


def test_heavy_tails_have_no_upper_end():
    """Squares without a mean: an interval of a mean of them would end somewhere all the same."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 3))
    ends = []
    for noise in (rng.normal(size=2000), rng.standard_cauchy(size=2000)):
        found = leave_one_out_error(RidgeStatistics(3, 1).update(Z, noise), lambda Z: Z, Z, noise, 1.0)
        ends.append(found.high / found.value)
    assert ends[0] < 1.2
    assert ends[1] == np.inf


def test_gcv_is_its_formula():
    rng = np.random.default_rng(0)
    Z, y = rng.normal(size=(50, 4)), rng.normal(size=50)
    H = Z @ np.linalg.solve(Z.T @ Z + 3.0 * np.eye(4), Z.T)
    expected = 50 * np.sum((y - H @ y) ** 2) / (50 - np.trace(H)) ** 2
    found = gcv_error(RidgeStatistics(4, 1).update(Z, y), 3.0, fit_intercept=False)
    assert found.value == pytest.approx(expected, rel=1e-9)
