"""Derivatives of kernels, feature maps and models are what finite differences say."""

import numpy as np
import pytest
import scipy.sparse

from bochner import (
    RBF,
    Custom,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelFeatures,
    KernelRidge,
    Laplacian,
    Linear,
    Matern,
    NystromFeatures,
    RandomBinningFeatures,
)
from laws import HISTOGRAM_KERNELS, KERNELS, STATIONARY_KERNELS


def rows(n, d, seed=0, positive=False):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return np.abs(X) if positive else X


def differences(function, X, h=1e-6):
    """Central differences of a function of rows, (n, k, d)."""
    columns = []
    for j in range(X.shape[1]):
        step = h * (np.arange(X.shape[1]) == j)
        columns.append((function(X + step) - function(X - step)) / (2.0 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 4])
def test_gradients_of_kernels_are_those_of_finite_differences(name, d):
    kernel, positive = KERNELS[name], name in HISTOGRAM_KERNELS
    X, Y = rows(40, d, positive=positive), rows(30, d, 1, positive=positive)
    C = np.random.default_rng(2).normal(size=(30, 2))
    expected = differences(lambda A: kernel(A, Y) @ C, X)
    found = kernel.gradient(X, Y, C)
    assert found.shape == (40, 2, d)
    # rounding of values over the step, and the third derivative
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-8 * np.abs(kernel(X, Y)).max() * np.abs(C).sum())


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_zero_where_kernels_have_a_kink_and_sum_over_repeated_rows(name):
    """At a centre the slopes of both sides have mean zero for stationary kernels; nothing is infinite anywhere."""
    kernel = KERNELS[name]
    X = rows(6, 3, positive=True)
    Y = np.vstack([X[:3], X[:3]])
    found = kernel.gradient(X, Y, np.ones((6, 1)))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found, 2.0 * kernel.gradient(X, X[:3], np.ones((3, 1))), rtol=1e-9, atol=1e-12)
    if kernel.stationary:
        np.testing.assert_allclose(kernel.gradient(X[:1], X[:1], np.ones((1, 1))), 0.0, atol=1e-9)


@pytest.mark.parametrize("name", STATIONARY_KERNELS)
@pytest.mark.parametrize("far", [1e20, 1e100, 1e160, 1e300])
def test_gradients_far_from_all_centres_are_zero(name, far):
    """Squares of 1e160 are infinite, and infinity times an exponential that is zero is not a number."""
    X = far * np.array([[1.0, 1.0, 1.0], [-1.0, 2.0, 3.0]])
    with np.errstate(over="ignore"):
        found = STATIONARY_KERNELS[name].gradient(X, rows(6, 3), np.ones((6, 1)))
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


@pytest.mark.parametrize("name", STATIONARY_KERNELS)
def test_a_centre_far_away_and_no_centres_change_no_gradient(name):
    """A centre of 1e6 moves the mean of all, and float32 rows less that mean have lost their digits."""
    X, Y, C = (A.astype(np.float32) for A in (rows(9, 3), rows(20, 3, 1), rows(20, 1, 2)))
    kernel = STATIONARY_KERNELS[name]
    expected = kernel.gradient(X, Y, C)
    far = kernel.gradient(X, np.vstack([np.full((1, 3), 1e6, np.float32), Y]), np.vstack([np.zeros_like(C[:1]), C]))
    np.testing.assert_allclose(far, expected, atol=1e-5 * np.abs(C).sum())
    np.testing.assert_array_equal(kernel.gradient(X, Y[:0], C[:0]), 0.0)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_float32_and_sparse_rows(name):
    kernel = KERNELS[name]
    X, Y = rows(20, 5, positive=True), rows(25, 5, 1, positive=True)
    X[X < 0.5] = 0.0
    C = np.random.default_rng(2).normal(size=(25, 1))
    exact = kernel.gradient(X, Y, C)
    single = kernel.gradient(X.astype(np.float32), Y.astype(np.float32), C)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, exact, atol=1e-3 * np.abs(exact).max())
    sparse = kernel.gradient(scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(Y), C)
    np.testing.assert_allclose(sparse, exact, rtol=1e-12)


def test_few_valued_columns_and_blocks_change_nothing():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 2, 500), rng.integers(0, 5, 500), rng.normal(size=(500, 2))]).astype(float)
    Y, C = X[rng.permutation(500)[:400]], rng.normal(size=(400, 1))
    scales = np.array([2.0, 3.0, 1.0, 0.5])
    K = Laplacian(scales)(X, Y)
    signs = np.sign(X[:, None, :] - Y[None]) / scales
    expected = -np.einsum("ij,j,ijl->il", K, C[:, 0], signs)
    np.testing.assert_allclose(Laplacian(scales).gradient(X, Y, C)[:, 0], expected, atol=1e-11)
    W = rng.normal(size=K.shape)
    expected = -np.einsum("ij,ij,ijl->il", K, W, signs)
    np.testing.assert_allclose(Laplacian(scales).weighted_gradient(X, Y, W), expected, atol=1e-11)


def test_kernels_without_a_derivative_say_so():
    kernel = Custom(lambda X, Y: np.minimum(X @ Y.T, 1.0))
    with pytest.raises(ValueError, match="there is no derivative of"):
        kernel.gradient(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="a row for each of the 3 rows"):
        RBF(1.0).gradient(np.ones((2, 2)), np.ones((3, 2)), np.ones((2, 1)))
    with pytest.raises(ValueError, match="equal length"):
        RBF(1.0).gradient(np.ones((2, 3)), np.ones((3, 2)), np.ones((3, 1)))


MAPS = {
    "pairs": FourierFeatures(RBF(1.5), 10, random_state=0),
    "odd": FourierFeatures(Matern(1.5, nu=2.5), 7, random_state=0),
    "offset": FourierFeatures(RBF(1.5), 9, form="offset", random_state=0),
    "structured": FourierFeatures(RBF([1.0, 2.0, 1.0, 3.0]), 17, rows="structured", random_state=0),
    "sum and product": FourierFeatures(RBF(1.0) + RBF(2.0) * Matern(3.0), 16, random_state=0),
    "restricted": FourierFeatures(RBF(1.0).on([3, 1]), 8, random_state=0),
    "nystrom": NystromFeatures(Matern(1.5, nu=2.5), 12, random_state=0),
    "nystrom laplacian": NystromFeatures(Laplacian(3.0), 12, landmarks="rpcholesky", random_state=0),
    "tree": KernelFeatures(2.0 * RBF(1.0) + Matern(1.0).on([0, 2]), n_components=20, random_state=0),
}


@pytest.mark.parametrize("name", MAPS)
def test_gradients_of_feature_maps_are_those_of_finite_differences(name):
    X, new = rows(60, 4), rows(20, 4, 1)
    feature_map = MAPS[name].fit(X).feature_map_
    C = np.random.default_rng(2).normal(size=(feature_map.n_components, 3))
    expected = differences(lambda A: feature_map(np.ascontiguousarray(A)) @ C, new)
    np.testing.assert_allclose(feature_map.gradient(new, C), expected, rtol=1e-4, atol=1e-6)


MODELS = {
    "ridge": KernelRidge(RBF(2.0), 60, alpha=0.1, random_state=0),
    "ridge nystrom": KernelRidge(Matern(2.0), 40, alpha=0.1, features="nystrom", random_state=0),
    "classifier": KernelClassifier(RBF(2.0), 40, alpha=0.1, random_state=0),
    "squared classifier": KernelClassifier(RBF(2.0), 40, alpha=0.1, loss="squared", random_state=0),
    "gaussian process": GaussianProcessRegressor(RBF(2.0), 40, random_state=0),
    "ridge diagonal": KernelRidge("matern52", 40, metric="diagonal", random_state=0),
    "ridge full": KernelRidge("matern52", 40, metric="full", random_state=0),
    "ridge nystrom full": KernelRidge(metric="full", random_state=0),
    "classifier diagonal": KernelClassifier("laplacian", 40, metric="diagonal", random_state=0),
    "classifier nystrom full": KernelClassifier(n_components=40, features="nystrom", metric="full", random_state=0),
    "gaussian process full": GaussianProcessRegressor(n_components=40, metric="full", random_state=0),
    "gaussian process fourier full": GaussianProcessRegressor("matern32", 40, features="fourier", metric="full"),
}


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_models_are_those_of_finite_differences(name, n_targets):
    X, new = rows(200, 3), rows(15, 3, 1)
    rng = np.random.default_rng(2)
    # with noise: without it, penalties are so small that differences of predictions are differences of rounding errors
    scores = np.sin(X @ rng.normal(size=(3, n_targets))) + 0.05 * rng.normal(size=(200, n_targets))
    classifies = "classifier" in name
    y = scores.argmax(axis=1) if classifies and n_targets > 1 else scores[:, 0] > 0 if classifies else scores
    y = y[:, 0] if not classifies and n_targets == 1 else y
    model = MODELS[name].fit(X, y)
    predict = model.decision_function if classifies else model.predict
    expected = differences(lambda A: predict(A).reshape(len(A), -1), new)
    expected = expected[:, 0] if n_targets == 1 else expected
    found = model.predict_gradient(new)
    assert found.shape == ((15, 3) if n_targets == 1 else (15, 3, 3))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert model.predict_gradient(new.astype(np.float32)).dtype == np.float32


def test_a_linear_model_has_its_coefficients_as_gradient():
    X = rows(100, 3)
    w = np.array([1.0, -2.0, 0.5])
    model = KernelRidge(Linear(), 3, features="nystrom", alpha=1e-9, random_state=0).fit(X, X @ w)
    np.testing.assert_allclose(model.predict_gradient(X[:5]), np.tile(w, (5, 1)), atol=1e-6)


def test_features_without_a_derivative_say_so():
    X = rows(50, 3)
    model = KernelRidge(features=RandomBinningFeatures(64, n_grids=20, random_state=0), alpha=0.1).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="there is no derivative of the features"):
        model.predict_gradient(X)
