"""Laws: a model warns if it is a constant, or is worse than one on fresh rows by more than chance.

A classifier is compared with the class frequencies, by its own loss. Models of tables say it in `held_out_`.
"""

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

from bochner import RBF, GaussianProcessRegressor, KernelClassifier, KernelRidge, TabularClassifier
from bochner.checks import ConstantModelWarning
from bochner.newton.losses import as_loss
from bochner.tables.members import fit_globally
from laws import ESTIMATORS, TABLES

FRESH = 2000
MODELS = [
    KernelRidge(random_state=0),
    KernelRidge("rbf", 64, features="fourier", random_state=0),
    KernelRidge("matern32", 64, solver="cg", random_state=0),
    GaussianProcessRegressor(n_components=256, random_state=0),
    GaussianProcessRegressor("matern32", 64, features="fourier", random_state=0),
    KernelClassifier(random_state=0),
    *TABLES,
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


def fit(model, X, y):
    """Return a fitted model, and True if it warns that it is no better than a constant."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = clone(model).fit(X, y)
    return model, any(warning.category is ConstantModelWarning for warning in told)


def check(model, name, n, d, seed=0):
    """Compare squared errors of predictions, or of probabilities of the upper half of the targets, on fresh rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + FRESH, d))
    y = TARGETS[name](X, rng)
    if is_classifier(model):
        order = np.lexsort((rng.random(len(y)), y))  # ties are broken at random
        y = np.where(order.argsort() < len(y) // 2, 0.0, 1.0)
    model, warned = fit(model, X[:n], y[:n])
    predicted = model.predict_proba(X[n:])[:, 1] if is_classifier(model) else model.predict(X[n:])
    more = (predicted - y[n:]) ** 2 - (y[:n].mean() - y[n:]) ** 2
    # n rows, left out one at a time, tell the difference of errors with an error of their own
    error = more.std() * np.sqrt(1.0 / n + 1.0 / FRESH)
    assert warned or more.mean() <= 4.0 * error
    assert warned or predicted.std() >= 1e-5 * y[:n].std()


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


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_model_that_learned_something_or_has_nothing_to_learn_does_not_warn(model):
    for noise in (0.0, 0.5):
        X, y = rows(lambda X, rng, noise=noise: np.sin(X[:, 0]) + noise * rng.normal(size=len(X)))
        assert not fit(model, X, y > 0 if is_classifier(model) else y)[1]
    assert is_classifier(model) or not fit(model, X, np.full(len(X), 0.1))[1]


def test_a_process_says_that_it_is_no_better_than_a_constant():
    model = GaussianProcessRegressor(RBF(3.0), 200, random_state=0)
    with pytest.warns(ConstantModelWarning, match="the model is no better than a constant: on rows left out"):
        model.fit(*rows(lambda X, rng: np.exp(3.0 * rng.normal(size=len(X)))))


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence"])
def test_a_ridge_says_that_its_penalty_is_the_largest_one(alpha):
    X, y = rows(lambda X, rng: np.where(np.arange(len(X)) == 0, 1e4, 0.0))
    with pytest.warns(ConstantModelWarning, match=f"alpha='{alpha}' chose the largest penalty"):
        KernelRidge("rbf", 64, alpha=alpha, random_state=0).fit(X, y)
    assert not fit(KernelRidge("rbf", 64, alpha=1e9, random_state=0), X, y)[1]


def test_a_member_of_a_table_does_not_warn():
    X, y = rows(TARGETS["an outlier"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_globally(X, y[:, None], RBF(2.0), 64, np.ones(len(X)), random_state=0)


def test_the_variance_of_the_prior_is_not_many_orders_above_that_of_the_targets():
    X, y = rows(lambda X, rng: np.exp(2.0 * X[:, 0]))  # without a bound, 340,000 times
    model = GaussianProcessRegressor(RBF(20.0), 400, random_state=0).fit(X, y)
    K = model.kernel_(X)
    variance = model.amplitude_ * (1.0 - K.mean())
    assert 10.0 * y.var() < variance < 1100.0 * y.var()


CLASSIFIERS = [
    KernelClassifier(random_state=0),
    *(model for model in ESTIMATORS if isinstance(model, KernelClassifier) and isinstance(model.kernel, str)),
    KernelClassifier(n_components=30, loss="squared_hinge", random_state=0),
    *(model for model in TABLES if isinstance(model, TabularClassifier)),
]
SHARES = {"two classes": (0.6, 0.4), "a rare class": (0.95, 0.05), "20 classes": (0.05,) * 20}


def losses_of(model, y, X_new, y_new):
    """Return losses of fresh rows: those of a classifier, and those of the class frequencies it has seen."""
    codes, frequencies = np.searchsorted(model.classes_, y_new), np.array([np.mean(y == c) for c in model.classes_])
    if hasattr(model, "predict_proba"):
        return -np.log(model.predict_proba(X_new)[np.arange(len(codes)), codes]), -np.log(frequencies[codes])
    signs, level = 2.0 * (codes[:, None] == np.arange(len(frequencies))) - 1.0, 2.0 * frequencies - 1.0
    signs, level = (signs[:, 1:], level[1:]) if len(level) == 2 else (signs, level)
    loss, scores = as_loss(model.loss), model.decision_function(X_new).reshape(signs.shape)
    return loss.value(scores, signs), loss.value(np.broadcast_to(level, signs.shape), signs)


def check_classifier(model, kind, n, seed):
    """Labels have nothing to do with the rows."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n + FRESH, 4)), rng.choice(len(SHARES[kind]), n + FRESH, p=SHARES[kind])
    known = np.isin(y, y[:n])
    X, y = X[known], y[known]
    if len(np.unique(y)) < 2:
        return
    model = clone(model).set_params(random_state=seed)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X[:n], y[:n])
    warned = any(warning.category is ConstantModelWarning for warning in told)
    if isinstance(model, TabularClassifier):
        warned = not model.held_out_.beats_constant
    found, constant = losses_of(model, y[:n], X[n:], y[n:])
    more = found - constant
    assert warned or more.mean() <= 2.0 * more.std() * np.sqrt(1.0 / n + 1.0 / FRESH)


@pytest.mark.parametrize(("n", "seeds"), [(20, 6), (60, 2), (400, 1)])
@pytest.mark.parametrize("kind", SHARES)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_a_classifier_is_not_worse_than_the_class_frequencies_without_a_warning(model, kind, n, seeds):
    for seed in range(1 if isinstance(model, TabularClassifier) else seeds):
        check_classifier(model, kind, n, seed)


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 30, 60, 120, 400])
@pytest.mark.parametrize("kind", SHARES)
@pytest.mark.parametrize("model", CLASSIFIERS, ids=repr)
def test_a_classifier_is_not_worse_than_the_class_frequencies_in_many_cases(model, kind, n):
    for seed in range(20):
        check_classifier(model, kind, n, seed)
