"""Law: a model is never worse than a constant on fresh rows, by more than chance, without a warning."""

import warnings

import numpy as np
import pytest

from bochner import RBF, GaussianProcessRegressor, KernelRidge
from bochner.checks import ConstantModelWarning

FRESH = 2000
MODELS = [
    KernelRidge(random_state=0),
    KernelRidge("rbf", 64, features="fourier", random_state=0),
    KernelRidge("matern32", 64, solver="cg", random_state=0),
    GaussianProcessRegressor(n_components=256, random_state=0),
    GaussianProcessRegressor("matern32", 64, features="fourier", random_state=0),
]


def lognormal(X, rng):
    return np.exp(2.0 * X[:, 0] + rng.normal(size=len(X)))


def zero_inflated(X, rng):
    return np.where(rng.random(len(X)) < 0.03, rng.exponential(size=len(X)) * np.exp(X[:, 0]), 0.0)


TARGETS = {
    "shuffled": lambda X, rng: rng.permutation(np.sin(2.0 * X[:, 0]) + X[:, 1]),
    "lognormal": lognormal,
    "lognormal noise": lambda X, rng: np.exp(2.0 * rng.normal(size=len(X))),
    "heavy tails": lambda X, rng: rng.standard_t(1.5, size=len(X)),
    "zero-inflated": zero_inflated,
    "constant": lambda X, rng: 3.0 + 1e-9 * rng.normal(size=len(X)),
    "an outlier": lambda X, rng: X[:, 0] + np.where(np.arange(len(X)) == 0, 1e4, 0.0),
}


def excess(model, targets, n, d, seed):
    """Return by how many standard errors the model is worse than a constant on fresh rows, and if it warns of that."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + FRESH, d))
    y = targets(X, rng)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        predicted = model.fit(X[:n], y[:n]).predict(X[n:])
    more = (predicted - y[n:]) ** 2 - (y[:n].mean() - y[n:]) ** 2
    # n rows, left out one at a time, tell the difference of errors with an error of their own
    error = more.std() * np.sqrt(1.0 / n + 1.0 / FRESH)
    return more.mean() / max(error, 1e-300), any(warning.category is ConstantModelWarning for warning in told)


def check(model, name, n, d, seed=0):
    worse, warned = excess(model, TARGETS[name], n, d, seed)
    assert worse < 4.0 or warned


@pytest.mark.parametrize(("n", "d"), [(20, 2), (200, 10)])
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_is_not_worse_than_a_constant_without_a_warning(model, name, n, d):
    check(model, name, n, d)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), [(20, 20), (60, 5), (500, 4), (1000, 50), (4000, 6)])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_is_not_worse_than_a_constant_in_many_cases(model, name, n, d, seed):
    check(model, name, n, d, seed)


def rows(targets, n=400, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, targets(X, rng)


def test_a_process_says_that_it_is_no_better_than_a_constant():
    model = GaussianProcessRegressor(RBF(3.0), 200, random_state=0)
    X, y = rows(lambda X, rng: np.exp(3.0 * rng.normal(size=len(X))))
    with pytest.warns(ConstantModelWarning, match="the model is no better than a constant"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*rows(lambda X, rng: np.sin(X[:, 0])))
        model.fit(*rows(lambda X, rng: np.sin(X[:, 0]) + 0.5 * rng.normal(size=len(X))))
        model.fit(X, np.full(len(X), 0.1))


def test_the_variance_of_the_prior_is_not_many_orders_above_that_of_the_targets():
    X, y = rows(lambda X, rng: np.exp(2.0 * X[:, 0]))  # without a bound, 340,000 times
    model = GaussianProcessRegressor(RBF(20.0), 400, random_state=0).fit(X, y)
    K = model.kernel_(X)
    variance = model.amplitude_ * (1.0 - K.mean())
    assert 10.0 * y.var() < variance < 1100.0 * y.var()
