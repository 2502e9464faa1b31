"""Exact left-out errors, their derivatives, and the metrics learned by them."""

import numpy as np
import pytest

from bochner import RBF, Cauchy, Laplacian, RationalQuadratic
from bochner.estimators.exact_leaves import exact_ridge
from bochner.estimators.metrics import (
    FAMILIES,
    average_outer_product,
    choose_family,
    importances,
    learn_metric,
    left_out_error,
    with_scales,
)
from bochner.keys import Key

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


def test_a_matrix_that_is_not_positive_definite_says_so():
    with pytest.raises(ValueError, match="raise alpha"):
        exact_ridge(-np.eye(3), np.ones((3, 1)), 0.1)


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_of_the_left_out_error_are_those_of_finite_differences(name):
    X, Y = table(40)
    scales, alpha, h = np.array([1.5, 2.0, 3.0, 0.7]), 0.3, 1e-5

    def error(logarithms, log_alpha):
        fit = exact_ridge(with_scales(KERNELS[name], scales * np.exp(logarithms))(X), Y, alpha * np.exp(log_alpha))
        return fit.error

    _, slopes, slope = left_out_error(with_scales(KERNELS[name], scales), X, Y, alpha)
    steps = h * np.eye(4)
    expected = [(error(step, 0.0) - error(-step, 0.0)) / (2.0 * h) for step in steps]
    np.testing.assert_allclose(slopes, expected, rtol=1e-5, atol=1e-8)
    expected = (error(np.zeros(4), h) - error(np.zeros(4), -h)) / (2.0 * h)
    assert slope == pytest.approx(expected, rel=1e-5)


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
    for Y, winner in ((smooth, "rbf"), (steps, "laplacian")):
        metric, errors = choose_family(X, Y, ("laplacian", "rbf"), n_rows=250, max_evaluations=15, key=Key(0))
        assert errors[winner] == min(errors.values()) == metric.error


def test_the_average_outer_product_is_that_of_the_gradients():
    X, Y = table(50, k=1)
    kernel = RBF(2.0)
    fit = exact_ridge(kernel(X), Y, 0.1)
    G = kernel.gradient(X, X, fit.coefficients)[:, 0]
    np.testing.assert_allclose(average_outer_product(kernel, X, fit, Key(0)), G.T @ G / 50, atol=1e-12)
    X, Y = table(50, k=3)
    fit = exact_ridge(kernel(X), Y, 0.1)
    G = kernel.gradient(X, X, fit.coefficients)
    expected = np.einsum("ikl,ikm->lm", G, G) / 50
    draws = np.mean([average_outer_product(kernel, X, fit, Key(0).child(i)) for i in range(300)], axis=0)
    np.testing.assert_allclose(draws, expected, atol=0.05 * np.abs(expected).max())


def test_targets_and_columns_without_variation_are_no_error():
    X, _ = table(30)
    X[:, 1] = 2.0
    metric = learn_metric(X, np.ones((30, 1)), max_evaluations=3)
    assert np.isfinite(metric.kernel.scales(4)).all()
    assert importances(metric, np.ones((3, 4))) == pytest.approx(0.25)
    learn_metric(np.ones((30, 2)), np.arange(30.0)[:, None], max_evaluations=3)
