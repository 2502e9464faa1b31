"""recommend: sensible choices, budgets that bind, a page that can be read, models that fit."""

import numpy as np
import pytest
import scipy.sparse

import bochner
from bochner import RBF, FourierFeatures, KernelRidge, Matern, NystromFeatures, Polynomial, Recommendation, recommend
from bochner.certificates import kernel_error


@pytest.fixture(scope="module", name="data")
def some_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=3000)


def test_a_smooth_kernel_in_few_dimensions_wants_landmarks(data):
    X, y = data
    advice = recommend(X, y, kernel=RBF(2.0))
    assert isinstance(advice, Recommendation)
    assert advice.features == "nystrom"
    low, high = advice.effective_dimension
    assert 5 < low <= high < 1000
    model = advice.model(random_state=0).fit(X[:2500], y[:2500])
    assert isinstance(model, KernelRidge)
    assert model.score(X[2500:], y[2500:]) > 0.95
    assert model.n_components_ == advice.n_components
    assert set(advice.seconds) == {"features", "map", "sums", "solve", "penalty"}
    assert all(seconds > 0 for seconds in advice.seconds.values())


def test_tol_is_met(data):
    X, _ = data
    advice = recommend(X, kernel=Matern(2.0, nu=1.5), tol=0.1)
    features = advice.transformer(random_state=0).fit(X)
    assert isinstance(features, (FourierFeatures, NystromFeatures))
    assert advice.error <= 0.1
    # measured on 800 other rows, with another draw
    assert kernel_error(features, X, norm="relative_frobenius", random_state=0).value < 0.15
    assert set(advice.seconds) == {"features", "map"}


def test_a_kernel_without_frequencies_gets_landmarks(data):
    X, y = data
    advice = recommend(X, y, kernel=Polynomial(2, coef0=1.0))
    assert advice.features == "nystrom"
    assert advice.rows is None
    assert advice.landmarks == "rpcholesky"
    assert any("no frequencies" in reason for reason in advice.reasons)


def test_budgets_bind_and_say_so(data):
    X, y = data[0][:900], data[1][:900]
    free = recommend(X, y, kernel="exponential")
    hurried = recommend(X, y, kernel="exponential", budget_seconds=free.total_seconds / 8)
    assert hurried.n_components < free.n_components or hurried.features != free.features
    assert hurried.total_seconds <= free.total_seconds / 8 * 1.01
    assert any("do not suffice" in reason for reason in hurried.reasons)
    cramped = recommend(X, y, kernel="exponential", budget_bytes=2**20)
    assert cramped.n_components <= 200
    assert any("of memory hold" in reason for reason in cramped.reasons)


def test_page(data):
    X, y = data
    page = str(recommend(X, y, kernel=RBF(2.0)))
    for words in ("Recommendation for 3000 rows of 3 features", "effective dimension", "processor time", "memory",
                  "Why", "Compared", "columns"):  # fmt: skip
        assert words in page


def test_labels_sparse_rows_and_few_rows(data):
    X, _ = data
    assert recommend(X[:500], np.where(X[:500, 0] > 0, "yes", "no"), kernel=RBF(2.0)).n_components >= 1
    assert recommend(scipy.sparse.csr_matrix(X[:300]), kernel=RBF(2.0)).n_components >= 1
    tiny = recommend(X[:5], X[:5, 0], kernel=RBF(2.0))
    assert tiny.n_components <= 16


def test_errors(data):
    X, y = data
    with pytest.raises(ValueError, match="at least two rows"):
        recommend(X[:1])
    with pytest.raises(ValueError, match="they must agree"):
        recommend(X, y[:10])
    with pytest.raises(ValueError, match="y contains NaN"):
        recommend(X, np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="X contains NaN"):
        recommend(np.full((10, 2), np.nan), kernel=RBF(1.0))
    with pytest.raises(ValueError, match="budget_seconds must be a positive number"):
        bochner.recommend(X, budget_seconds=0)
