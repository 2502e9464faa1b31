"""n_components="auto": the tolerance is met, few columns are wasted, and budgets are kept and said."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning

from bochner import RBF, FourierFeatures, Laplacian


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
def test_few_columns_are_wasted(X, rows):
    X = X[:800]  # all entries are looked at, so the error is known exactly
    features = FourierFeatures(n_components="auto", tol=0.07, rows=rows, random_state=1).fit(X)
    assert features.certificate_.exact
    assert relative_error(features, X) == pytest.approx(features.certificate_.value, rel=1e-6)
    sizes = range(16, features.n_components_, 16)
    errors = [relative_error(FourierFeatures(n_components=m, rows=rows, random_state=1).fit(X), X) for m in sizes]
    enough = [m for m, error in zip(sizes, errors, strict=True) if error <= 0.07]
    # the error is not monotone in the columns, so a smaller number may do by luck; not by half
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
        ({"n_components": "many"}, "n_components must be one of 'auto'"),
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
