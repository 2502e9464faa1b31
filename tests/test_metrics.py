"""Exact left-out errors, their derivatives, and the metrics learned by them."""

import numpy as np
import pytest

from bochner import RBF, Cauchy, Laplacian, RationalQuadratic
from bochner.ridge.dense import exact_ridge
from bochner.tuning import metrics
from bochner.tuning.metrics import (
    EVIDENCE,
    FAMILIES,
    LEFT_OUT,
    LearnedMetric,
    importances,
    learn_directions,
    learn_metric,
    shrink_metric,
    with_scales,
)
from bochner.tuning.policies import DescentPolicy

CRITERIA = {"left out": LEFT_OUT, "evidence": EVIDENCE}
KERNELS = FAMILIES | {"rational": RationalQuadratic(), "cauchy": Cauchy()}


def table(n=60, d=4, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.column_stack([np.sin(2.0 * X[:, 0] + j) for j in range(k)]) + 0.1 * rng.normal(size=(n, k))


def test_left_out_errors_are_those_of_models_without_the_row():
    X, Y = table(25)
    kernel, alpha = Laplacian(3.0), 0.2
    fit = exact_ridge(kernel(X), Y, alpha)
    np.testing.assert_allclose(Y - kernel(X) @ fit.coefficients - fit.intercept, alpha * fit.coefficients, atol=1e-12)
    np.testing.assert_allclose(fit.coefficients.sum(axis=0), 0.0, atol=1e-12)
    for i in range(25):
        rest = np.arange(25) != i
        other = exact_ridge(kernel(X[rest]), Y[rest], alpha)
        predicted = kernel(X[i : i + 1], X[rest]) @ other.coefficients + other.intercept
        np.testing.assert_allclose(fit.left_out[i], Y[i] - predicted[0], rtol=1e-9, atol=1e-12)


def test_the_level_of_targets_changes_the_intercept_alone():
    X = np.random.default_rng(0).normal(size=(400, 2))
    X[:200] = 0.0  # of equal rows the matrix has a large condition number
    K, Y, level = RBF(1.0)(X), np.sin(X), np.array([1e12, -1e10])
    found, expected = exact_ridge(K.copy(), Y + level, 1e-3), exact_ridge(K.copy(), Y, 1e-3)
    errors = np.abs(K @ (found.coefficients - expected.coefficients) + (found.intercept - level - expected.intercept))
    assert errors.max() < 2e-4  # numbers of 1e12 are 1.2e-4 apart
    np.testing.assert_allclose(found.error, expected.error, rtol=0.02)


def test_a_matrix_that_is_not_positive_definite_says_so():
    with pytest.raises(ValueError, match="raise alpha"):
        exact_ridge(-np.eye(3), np.ones((3, 1)), 0.1)


@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_in_float32_are_those_in_float64_beside_rows_that_are_nearly_equal(name, monkeypatch):
    """Slopes over distances are a million there for the exponential kernel, and what is left of them is not."""
    X, Y = table(600, 2, 1)
    X[:300] = X[300:] + 1e-6 * np.random.default_rng(1).normal(size=(300, 2))
    kernel, found = with_scales(FAMILIES[name], 1.5), []
    for limit in (1e-3, np.inf):
        monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=limit))
        found.append((X * LEFT_OUT.gradient(kernel, X, Y, 0.1)[1]).sum(axis=0))
    np.testing.assert_allclose(*found, atol=0.02 * np.abs(found[1]).max())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_of_criteria_are_those_of_finite_differences(name, criterion, weighted, monkeypatch):
    monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=np.inf))
    X, Y = table(40)
    scales, alpha, h = np.array([1.5, 2.0, 3.0, 0.7]), 0.3, 1e-5
    weight = np.random.default_rng(1).uniform(0.2, 4.0, 40) if weighted else None

    def value(logarithms, log_alpha):
        kernel = with_scales(KERNELS[name], scales * np.exp(logarithms))
        return CRITERIA[criterion].of(kernel, X, Y, alpha * np.exp(log_alpha), weight)

    found, G, slope = CRITERIA[criterion].gradient(with_scales(KERNELS[name], scales), X, Y, alpha, weight)
    assert found == pytest.approx(value(np.zeros(4), 0.0), rel=1e-12)
    steps = h * np.eye(4)
    expected = [(value(step, 0.0) - value(-step, 0.0)) / (2.0 * h) for step in steps]
    np.testing.assert_allclose(-2.0 * (X * G).sum(axis=0), expected, rtol=1e-5, atol=1e-8)
    expected = (value(np.zeros(4), h) - value(np.zeros(4), -h)) / (2.0 * h)
    assert slope == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_and_penalty_have_any_unit(criterion):
    X, Y = table(20)
    weight = np.random.default_rng(1).uniform(0.1, 4.0, 20)
    found = [CRITERIA[criterion].of(RBF(1.5), X, Y, 0.2 * unit, unit * weight) for unit in (1e-3, 1.0, 1e3)]
    # the noise of the evidence is alpha / weight: only the weights' own size is a constant of its logarithm
    np.testing.assert_allclose(found, found[1], rtol=1e-9)


def test_the_error_of_weighted_rows_is_that_of_models_without_them():
    X, Y = table(12)
    weight = np.r_[np.full(6, 0.5), 1.0, 1.0, 2.0, 3.0, 2.0, 2.0]
    kernel, alpha, errors = RBF(1.5), 0.3, []
    for i in range(12):
        kept = np.arange(12) != i
        K = kernel(X[kept]) + np.diag(alpha / weight[kept] - alpha)
        fit = exact_ridge(K, Y[kept], alpha)
        errors.append(Y[i] - kernel(X[i : i + 1], X[kept]) @ fit.coefficients - fit.intercept)
    expected = np.average(np.square(np.concatenate(errors)).mean(axis=1), weights=weight)
    assert LEFT_OUT.of(kernel, X, Y, alpha, weight) == pytest.approx(expected, rel=1e-9)


def test_evidence_is_that_of_the_normal_law():
    """Of targets without their mean, which a flat prior on the level integrates out, at the likeliest amplitude."""
    X, Y = table(15, k=1)
    alpha, n = 0.3, 15
    contrasts = np.linalg.svd(np.ones((1, n)))[2][1:]  # orthonormal, of sum zero
    logs = []
    for kernel in (RBF(1.5), RBF(0.7)):
        C = contrasts @ (kernel(X) + alpha * np.eye(n)) @ contrasts.T
        z = contrasts @ Y[:, 0]
        amplitude = z @ np.linalg.solve(C, z) / (n - 1)
        logs.append(-0.5 * (np.linalg.slogdet(amplitude * C)[1] + n - 1))
    found = [-0.5 * n * np.log(EVIDENCE.of(kernel, X, Y, alpha)) for kernel in (RBF(1.5), RBF(0.7))]
    assert found[0] - found[1] == pytest.approx(logs[0] - logs[1], rel=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_learned_metric_finds_the_columns_that_matter_and_predicts_better(family):
    """Of eight columns two matter: with equal scales, rows have hardly any neighbours."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 8))
    y = np.sin(2.0 * X[:, 2]) + 0.5 * np.abs(X[:, 5])
    rows, new = slice(0, 200), slice(200, 400)
    found = {}
    for per_column in (False, True):
        metric = learn_metric(X[rows], y[rows, None], family, per_column=per_column, max_evaluations=25)
        fit = exact_ridge(metric.kernel(X[rows]), y[rows, None], metric.alpha)
        predicted = metric.kernel(X[new], X[rows]) @ fit.coefficients + fit.intercept
        found[per_column] = np.mean(np.square(predicted[:, 0] - y[new])), metric.error
    assert found[True][1] < 0.5 * found[False][1]
    assert found[True][0] < 0.7 * found[False][0]
    shares = importances(metric, X)
    assert set(np.argsort(shares)[-2:]) == {2, 5}
    assert shares.sum() == pytest.approx(1.0)


def test_the_smooth_family_wins_on_a_smooth_function_and_the_rough_one_on_steps():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(250, 2))
    smooth, steps = np.sin(3.0 * X[:, :1] * X[:, 1:]), (X[:, :1] > 0.1) + (X[:, 1:] > -0.3) * 1.0
    for Y, winner, other in ((smooth, "rbf", "laplacian"), (steps, "laplacian", "rbf")):
        errors = [learn_metric(X, Y, family, max_evaluations=15).error for family in (winner, other)]
        assert errors[0] < errors[1]


@pytest.mark.parametrize("name", KERNELS)
def test_single_precision_gives_the_slopes_of_double(name, monkeypatch):
    """At the least penalty that has it, rounding moves an inverse by about eps n / alpha = 6e-8 · 400 / 1e-3."""
    X, Y = table(400)
    kernel, found = with_scales(KERNELS[name], 2.0), {}
    for least in (DescentPolicy().single_alpha, np.inf):
        monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=least))
        error, G, slope = LEFT_OUT.gradient(kernel, X, Y, 1e-3)
        found[least] = error, (X * G).sum(axis=0), slope
    (error, slopes, slope), (true_error, true_slopes, true_slope) = found.values()
    assert error == pytest.approx(true_error, rel=5e-3)
    assert error != true_error  # single precision was used
    np.testing.assert_allclose(slopes, true_slopes, atol=0.03 * np.abs(true_slopes).max())
    assert slope == pytest.approx(true_slope, rel=0.05, abs=0.01 * true_error)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_criteria_in_the_rows_are_those_of_finite_differences(name, criterion, monkeypatch):
    monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=np.inf))
    X, Y = table(30, d=2)
    kernel, alpha, h = with_scales(KERNELS[name], 1.5), 0.3, 1e-6
    G = CRITERIA[criterion].gradient(kernel, X, Y, alpha)[1]
    for i, j in ((0, 0), (7, 1), (29, 0)):
        step = np.zeros_like(X)
        step[i, j] = h
        high, low = (CRITERIA[criterion].of(kernel, X + sign * step, Y, alpha) for sign in (1.0, -1.0))
        assert 2.0 * G[i, j] == pytest.approx((high - low) / (2.0 * h), rel=1e-4, abs=1e-7)


def test_scales_that_fit_noise_are_drawn_to_equal_ones():
    """Of 40 columns all matter alike, 60 rows fit scales to noise, and other rows say that equal ones are better."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(360, 40))
    Y = np.tanh(X.sum(axis=1, keepdims=True) / 3.0) + 0.5 * rng.normal(size=(360, 1))
    few, fresh = slice(0, 60), slice(60, 360)
    metric = learn_metric(X[few], Y[few], max_evaluations=20)
    equal = learn_metric(X[few], Y[few], per_column=False, max_evaluations=10)
    mixed = shrink_metric(metric, equal, X[fresh], Y[fresh])
    assert mixed.kernel.scales(40) == pytest.approx(equal.kernel.scales(40))
    X[:, 1:] *= 0.01  # and where one column matters, the learned ones are kept
    metric = learn_metric(100.0 * X[few, :5], X[few, :1] ** 2, max_evaluations=20)
    equal = learn_metric(100.0 * X[few, :5], X[few, :1] ** 2, per_column=False, max_evaluations=10)
    mixed = shrink_metric(metric, equal, 100.0 * X[fresh, :5], X[fresh, :1] ** 2)
    assert mixed.error <= exact_ridge(metric.kernel(100.0 * X[fresh, :5]), X[fresh, :1] ** 2, metric.alpha).error


def test_directions_are_found_where_columns_do_not_suffice():
    """y depends on one direction across six columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 6))
    w = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0]) / np.sqrt(6.0)
    Y = np.sin(3.0 * X @ w)[:, None]
    rows, new = slice(0, 250), slice(250, 500)
    metric = learn_metric(X[rows], Y[rows], "matern32", max_evaluations=15)
    U, full = learn_directions(X[rows], Y[rows], metric, max_evaluations=40)
    errors = []
    for kernel, alpha, Z in ((metric.kernel, metric.alpha, X), (full.kernel, full.alpha, X @ U)):
        fit = exact_ridge(kernel(Z[rows]), Y[rows], alpha)
        errors.append(np.mean(np.square(kernel(Z[new], Z[rows]) @ fit.coefficients + fit.intercept - Y[new])))
    assert full.error < 0.2 * metric.error
    assert errors[1] < 0.2 * errors[0]
    assert abs(np.linalg.svd(U)[0][:, 0] @ w) > 0.95


@pytest.mark.parametrize("family", ["rbf", "matern32"])
def test_a_search_takes_no_more_evaluations_than_it_may(family):
    """Also from the minimum, where a line search sees rounding errors only."""
    X, Y = table(300)
    metric = learn_metric(X, Y, family, max_evaluations=60)
    for _ in range(4):
        metric = learn_metric(X, Y, family, start=metric, max_evaluations=7)
        assert metric.n_evaluations <= 7


def test_targets_and_columns_without_variation_are_no_error():
    X, _ = table(30)
    X[:, 1] = 2.0
    metric = learn_metric(X, np.ones((30, 1)), max_evaluations=3)
    assert np.isfinite(metric.kernel.scales(4)).all()
    assert importances(metric, np.ones((3, 4))) == pytest.approx(0.25)
    learn_metric(np.ones((30, 2)), np.arange(30.0)[:, None], max_evaluations=3)


@pytest.mark.parametrize("criterion", [LEFT_OUT, EVIDENCE])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("level", [0.0, 0.1, 3.0, -1e9])
def test_constant_targets_teach_nothing(criterion, weighted, level):
    """Beside others they change nothing, alone they leave scales where they began; also if their mean is rounded."""
    X, Y = table(60, k=2)
    weight = np.random.default_rng(1).uniform(0.2, 4.0, 60) if weighted else None
    constant = np.full((60, 1), level)
    options = {"weight": weight, "criterion": criterion, "max_evaluations": 8}
    found, expected = (learn_metric(X, targets, "rbf", **options) for targets in (np.hstack([Y, constant]), Y))
    np.testing.assert_array_equal(found.kernel.scales(4), expected.kernel.scales(4))
    assert found.alpha == expected.alpha
    assert repr(learn_metric(X, constant, "rbf", start=found, **options).kernel) == repr(found.kernel)
    other = LearnedMetric(RBF(np.full(4, 2.0)), 0.1, 0.0, 1)
    assert repr(shrink_metric(found, other, X, constant, weight, criterion).kernel) == repr(found.kernel)
    U, _ = learn_directions(X, constant, found, weight, criterion=criterion)
    np.testing.assert_array_equal(U, np.diag(1.0 / found.kernel.scales(4)))
