"""Sketches of polynomial kernels: unbiased for every variant, the same on sparse rows, exact along the direction."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

from bochner import RBF, Linear, Polynomial, TensorSketchFeatures
from bochner.draws.keys import Key
from bochner.features.tensor_sketch import (
    FACTORS,
    allocate_columns,
    append_offset,
    convolve,
    tensor_sketch,
    trace_shares,
)
from bochner.sketches import CountSketch
from laws import assert_unbiased

VARIANTS = [(factors, False) for factors in FACTORS] + [("count_sketch", True), ("srht", True)]


def rows(d, dtype=np.float64):
    """Rows on and off the axes, one of them doubled; of moderate size, so that high powers stay comparable."""
    X = np.random.default_rng(d).normal(size=(5, d)) / np.sqrt(d) + 0.3
    X[2] = 0.0
    X[2, 0] = 1.0
    X[3] = X[0]
    return X.astype(dtype)


def grams(n_draws, degree, coef0, d, n_components, **options):
    X = rows(d)
    gram = []
    for seed in range(n_draws):
        Z = tensor_sketch(degree, 0.7, coef0, d, n_components, Key(seed), **options)(X)
        assert Z.shape == (len(X), n_components)
        gram.append(Z @ Z.T)
    return np.array(gram), (0.7 * X @ X.T + coef0) ** degree


@pytest.mark.parametrize(("factors", "tree"), VARIANTS)
@pytest.mark.parametrize(("degree", "d"), [(1, 3), (2, 1), (2, 11), (3, 3), (5, 3)])
@pytest.mark.parametrize("coef0", [0.0, 0.5])
def test_sketches_are_unbiased(factors, tree, degree, d, coef0):
    # 3^degree grows, and with it the skewness of a column: more columns, so that the mean is normal
    gram, truth = grams(120, degree, coef0, d, 33 * degree, factors=factors, tree=tree)
    assert_unbiased(gram, truth, floor=1e-10)


@pytest.mark.parametrize(("factors", "tree"), VARIANTS)
@pytest.mark.parametrize(("degree", "d"), [(1, 3), (2, 1), (3, 11), (5, 3)])
@pytest.mark.parametrize("coef0", [0.0, 0.5])
def test_sketches_with_a_direction_are_unbiased(factors, tree, degree, d, coef0):
    u = np.random.default_rng(1).normal(size=d + (coef0 > 0)) + 0.5
    gram, truth = grams(120, degree, coef0, d, 60 * degree, factors=factors, tree=tree, direction=u)
    assert_unbiased(gram, truth, floor=1e-10)


@pytest.mark.parametrize(("factors", "tree"), VARIANTS)
@pytest.mark.parametrize("direction", [None, "mean"])
def test_error_falls_like_the_square_root_of_the_columns(factors, tree, direction):
    X, kernel = rows(11), Polynomial(3, gamma=0.5, coef0=0.3)
    K = kernel(X)

    def mean_square(m):
        options = {"factors": factors, "tree": tree, "direction": direction}
        draws = [TensorSketchFeatures(kernel, m, **options, random_state=seed).fit_transform(X) for seed in range(40)]
        return np.mean([np.sum((Z @ Z.T - K) ** 2) for Z in draws])

    # sixteen times the columns, a sixteenth of the squared error; a mean of 40 squares is right within a factor 2
    assert mean_square(64 * 16) < mean_square(64) / 16 * 4


def test_the_kernel_is_exact_on_the_direction_whatever_the_draw():
    u = np.array([1.0, 2.0, -1.0])
    X = np.outer([0.5, 1.0, -2.0], u)
    Z = tensor_sketch(3, 1.0, 0.0, 3, 12, Key(0), direction=u)(X)
    np.testing.assert_allclose(Z @ Z.T, (X @ X.T) ** 3, rtol=1e-10, atol=1e-10)
    # equal rows lie on their mean, offset included
    for coef0 in (0.0, 2.0):
        kernel = Polynomial(4, gamma=1.0, coef0=coef0)
        Z = TensorSketchFeatures(kernel, 9, random_state=0).fit_transform(np.ones((3, 5)))
        np.testing.assert_allclose(Z @ Z.T, (5.0 + coef0) ** 4, rtol=1e-9)


def test_degree_one_is_exact_with_enough_columns():
    X = rows(11)
    for n_components in (12, 20):
        Z = TensorSketchFeatures(Linear(), n_components, random_state=0).fit_transform(X)
        assert Z.shape == (5, n_components)
        np.testing.assert_allclose(Z @ Z.T, X @ X.T, atol=1e-12)


def test_direction_lowers_the_error_on_data_with_a_mean():
    X = np.random.default_rng(0).uniform(size=(200, 30))
    kernel = Polynomial(2, gamma=1.0, coef0=0.0)
    K = kernel(X)

    def error(direction):
        draws = [
            TensorSketchFeatures(kernel, 64, direction=direction, random_state=seed).fit_transform(X)
            for seed in range(10)
        ]
        return np.mean([np.linalg.norm(Z @ Z.T - K) for Z in draws])

    plain = error(None)
    # three quarters of every row lie along the mean: the sketched rest has a sixteenth of the squared norm and more
    assert error("mean") < plain / 2
    assert error("ones") < plain / 2


@pytest.mark.parametrize(("factors", "tree"), [("count_sketch", False), ("count_sketch", True), ("rademacher", False)])
@pytest.mark.parametrize("coef0", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("direction", [None, "mean", "ones"])
def test_sparse_rows_give_the_same_features(factors, tree, coef0, dtype, direction):
    X = scipy.sparse.random_array((40, 60), density=0.1, rng=np.random.default_rng(0), dtype=dtype).tocsr()
    features = TensorSketchFeatures(
        Polynomial(3, gamma=0.5, coef0=coef0), 50, factors=factors, tree=tree, direction=direction, random_state=1
    )
    dense = features.fit_transform(X.toarray())
    for form in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        sparse = features.fit_transform(form(X))
        np.testing.assert_allclose(sparse, dense, atol=200 * np.finfo(dtype).eps)
    assert dense.dtype == sparse.dtype == dtype
    np.testing.assert_allclose(sparse, dense, atol=200 * np.finfo(dtype).eps)
    np.testing.assert_allclose(features.transform(scipy.sparse.csr_matrix(X)), dense, atol=200 * np.finfo(dtype).eps)


def test_transforms_on_sparse_rows_say_what_to_use():
    X = scipy.sparse.eye_array(8).tocsr()
    with pytest.raises(ValueError, match="count_sketch"):
        TensorSketchFeatures(factors="srht", n_components=8).fit(X)
    features = TensorSketchFeatures(factors="complex_srht", n_components=8).fit(np.eye(8))
    with pytest.raises(ValueError, match="count_sketch"):
        features.transform(X)


def test_sparse_rows_are_never_densified():
    n, d = 4000, 40_000  # 1.3 GB dense
    X = scipy.sparse.random_array((n, d), density=1e-4, rng=np.random.default_rng(0)).tocsr()
    features = TensorSketchFeatures(Polynomial(2, coef0=1.0), 16, random_state=0)
    tracemalloc.start()
    features.fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6


def test_append_offset():
    X = scipy.sparse.random_array((6, 5), density=0.4, rng=np.random.default_rng(0)).tocsr()
    expected = np.hstack([X.toarray(), np.full((6, 1), 2.0)])
    np.testing.assert_array_equal(append_offset(X, 2.0).toarray(), expected)
    np.testing.assert_array_equal(append_offset(X.toarray(), 2.0), expected)
    assert append_offset(X, 0.0) is X


def test_convolution_of_count_sketches_is_the_count_sketch_of_the_product():
    x, y = np.random.default_rng(0).normal(size=(2, 6))
    S, T = (CountSketch().sample(6, 7, Key(seed)) for seed in (0, 1))
    expected = np.zeros(7)
    for i in range(6):
        for j in range(6):
            expected[(S.indices[i] + T.indices[j]) % 7] += S.signs[i] * T.signs[j] * x[i] * y[j]
    np.testing.assert_allclose(convolve([S(x[None]), T(y[None])])[0], expected, atol=1e-12)


@pytest.mark.parametrize("n_components", range(3, 60))
@pytest.mark.parametrize("width", [2, 1000])
def test_columns_are_all_used(n_components, width):
    for shares in ([1.0, 2.0, 3.0], [0.0, 0.0, 1.0], [1.0, 1e-9, 0.0], [0.0, 0.0, 0.0]):
        columns = allocate_columns(np.array(shares), n_components, width, fast=True)
        assert sum(columns) == n_components
        assert min(columns) >= 1
        assert columns[0] <= width


def test_shares_are_the_traces_of_the_terms():
    X, u = rows(3), np.array([1.0, -1.0, 0.5, 2.0])
    B = append_offset(X, 0.8)
    a = B @ u / np.linalg.norm(u)
    rest = np.sum(B * B, axis=1) - a**2
    expected = np.array([np.mean(a**4), np.mean(2 * a**2 * rest), np.mean(rest**2)])
    shares = trace_shares(2, X, u, 0.8)
    np.testing.assert_allclose(shares / shares.sum(), expected / expected.sum())
    np.testing.assert_allclose(trace_shares(2, scipy.sparse.csr_array(X), u, 0.8), shares)
    # no overflow, no underflow
    assert np.isfinite(trace_shares(8, 1e60 * X, u, 0.8)).all()
    np.testing.assert_allclose(trace_shares(2, 1e-60 * X, u, 0.8e-60), shares)


@pytest.mark.parametrize("n_components", [1, 2, 3, 4, 5])
def test_few_columns(n_components):
    Z = TensorSketchFeatures(Polynomial(3), n_components, random_state=0).fit_transform(rows(4))
    assert Z.shape == (5, n_components)
    assert np.isfinite(Z).all()


def test_data_without_a_mean_or_without_anything():
    X = np.array([[1.0, -2.0], [-1.0, 2.0]])
    assert TensorSketchFeatures(Polynomial(2, coef0=0.0), 8, random_state=0).fit(X).feature_map_.direction is None
    Z = TensorSketchFeatures(Polynomial(2, coef0=0.0), 8, random_state=0).fit_transform(np.zeros((3, 4)))
    np.testing.assert_array_equal(Z, 0.0)
    Z = TensorSketchFeatures(Polynomial(2, coef0=3.0), 8, random_state=0).fit_transform(np.zeros((3, 4)))
    np.testing.assert_allclose(Z @ Z.T, 9.0)


def test_errors_name_the_remedy():
    X = rows(3)
    for options, message in [
        ({"kernel": RBF(1.0)}, "KernelFeatures"),
        ({"factors": "gaussian"}, "complex_srht"),
        ({"factors": "complex_srht", "tree": True}, "factors='srht'"),
        ({"tree": "yes"}, "tree must be"),
        ({"direction": "up"}, "'mean'"),
        ({"direction": [1.0, 2.0]}, "3 finite numbers"),
        ({"n_components": 0}, "positive integer"),
    ]:
        with pytest.raises(ValueError, match=message):
            TensorSketchFeatures(**options).fit(X)
