"""KernelFeatures: any kernel tree has a map, without bias and with error falling as columns^-1/2."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bochner import (
    RBF,
    ArcCosine,
    Custom,
    CyclicInvariant,
    ExponentialDot,
    KernelFeatures,
    Laplacian,
    Linear,
    MaclaurinSeries,
    Matern,
    Polynomial,
    Sobolev,
)
from bochner.draws.keys import Key
from bochner.features import maclaurin
from bochner.features.compositions import ConvolvedMap, ProductMap, ShiftedMap, StackedMap
from bochner.features.kitchen_sinks import threshold_map
from bochner.features.trees import kernel_map
from laws import HISTOGRAM_KERNELS, KERNELS, assert_unbiased, points


@pytest.fixture(autouse=True)
def plan_once(monkeypatch):
    """Many draws of one map: how its columns are spent is the same each time, and is worked out once."""
    plans = {}

    def allocate(a, sample, n_components, allocate=maclaurin._allocate):
        rows = sample.toarray() if scipy.sparse.issparse(sample) else sample
        address = (a.tobytes(), rows.tobytes(), rows.shape, n_components)
        if address not in plans:
            plans[address] = allocate(a, sample, n_components)
        return plans[address]

    monkeypatch.setattr(maclaurin, "_allocate", allocate)


def data(name, n, d, scale=0.6):
    X = points(n, d, seed=d, scale=scale)
    return np.abs(X) if name in HISTOGRAM_KERNELS else X


def draws(kernel, X, n_components, n_draws, seed=0):
    for i in range(n_draws):
        Z = kernel_map(kernel, X, n_components, Key(seed).child(i), X.dtype).feature_map(X)
        assert Z.shape == (len(X), n_components)
        yield Z @ Z.T


def rms(kernel, X, n_components, n_draws, seed):
    K = kernel(X)
    return np.sqrt(np.mean([np.mean((G - K) ** 2) for G in draws(kernel, X, n_components, n_draws, seed)]))


@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_approximated_without_bias(name, d):
    X = data(name, 6, d)
    samples = np.array(list(draws(KERNELS[name], X, 24, 150)))
    assert_unbiased(samples, KERNELS[name](X), floor=1e-9, delta=1e-8)


@pytest.mark.parametrize("name", KERNELS)
def test_error_falls_with_the_root_of_the_columns(name):
    X = data(name, 10, 3)
    few, many = (rms(KERNELS[name], X, n, 60, seed) for n, seed in ((16, 1), (256, 2)))
    # 16 times the columns are a quarter of the error; a half leaves room for chance
    assert many <= 0.5 * few + 1e-9


LEAVES = [
    RBF(1.0),
    Matern(1.5, nu=1.5),
    Laplacian(2.0),
    Linear(),
    Polynomial(2, gamma=0.5, coef0=1.0),
    ExponentialDot(0.5),
    MaclaurinSeries([0.5, 0.0, 1.0]),
    ArcCosine(0),
    ArcCosine(1),
    CyclicInvariant(RBF(1.0)),
]


def grown(children):
    return st.one_of(
        st.builds(lambda a, b: a + b, children, children),
        st.builds(lambda a, b: a * b, children, children),
        st.builds(lambda a, c: c * a, children, st.sampled_from([0.5, 2.0])),
        st.builds(lambda a: a**2, children),
        st.builds(lambda a, c: a.on(c), children, st.sampled_from([[0, 1, 2], [2, 0], [1]])),
    )


def trees(depth):
    tree = st.sampled_from(LEAVES)
    for _ in range(depth - 1):
        tree = st.one_of(tree, grown(tree))
    return tree


def fits(kernel, d):
    """Whether restrictions of restrictions still find their columns."""
    try:
        kernel(np.zeros((1, d)))
    except ValueError:
        return False
    return True


def check_tree(kernel, seed):
    X = points(5, 3, seed=seed, scale=0.4)
    K = kernel(X)
    samples = np.array(list(draws(kernel, X, 48, 150, seed)))
    assert_unbiased(samples, K, floor=1e-9 * (1.0 + np.abs(K).max()), delta=1e-10)
    many = np.array(list(draws(kernel, X, 768, 20, seed + 1)))
    assert np.sqrt(((many - K) ** 2).mean()) <= 0.6 * np.sqrt(((samples - K) ** 2).mean()) + 1e-9


SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=4, **SETTINGS)
@given(kernel=trees(3).filter(lambda k: fits(k, 3)), seed=st.integers(0, 1000))
def test_random_trees(kernel, seed):
    check_tree(kernel, seed)


@pytest.mark.slow
@settings(max_examples=100, **SETTINGS)
@given(kernel=trees(3).filter(lambda k: fits(k, 3)), seed=st.integers(0, 10**6))
def test_many_random_trees(kernel, seed):
    check_tree(kernel, seed)


# what is built


def test_products_of_stationary_kernels_add_frequencies_and_others_are_sketched():
    X = points(20, 3)

    def build(kernel):
        return kernel_map(kernel, X, 16, Key(0), X.dtype)

    assert type(build(RBF(1.0) * Matern(2.0)).feature_map).__name__ == "Fourier"
    mixed = build(RBF(1.0) * Linear() * Laplacian(1.0) * Polynomial(2))
    assert isinstance(mixed.feature_map, ProductMap)
    assert len(mixed.parts) == 2  # the stationary factors are one, those of x·y the other
    assert isinstance(build(RBF(1.0) + Linear()).feature_map, StackedMap)


def test_columns_follow_the_trace_or_are_equal():
    X = np.random.default_rng(0).normal(size=(50, 4))
    kernel = 9.0 * RBF(1.0) + ArcCosine(0)
    by_trace = KernelFeatures(kernel, 100, random_state=0).fit(X).tree_.parts
    equally = KernelFeatures(kernel, 100, division="equal", random_state=0).fit(X).tree_.parts
    assert [part.feature_map.n_components for part in by_trace] == [90, 10]
    assert [part.feature_map.n_components for part in equally] == [50, 50]


def test_fewer_columns_than_terms_are_unbiased():
    X = points(4, 3, scale=0.4)
    kernel = RBF(1.0) + ArcCosine(1) + Linear().on([0]) + (RBF(1.0) * ArcCosine(0))
    for n_components in (1, 3):
        samples = np.array(list(draws(kernel, X, n_components, 500)))
        assert_unbiased(samples, kernel(X), delta=1e-8)


def test_explain_names_every_part():
    X = np.random.default_rng(0).normal(size=(40, 4))
    kernel = 2.0 * RBF(1.0) * Linear() + CyclicInvariant(RBF(1.0)) + ArcCosine(1).on([0, 2]) ** 2
    text = KernelFeatures(kernel, 64, random_state=0).fit(X).explain()
    for words in ("TensorSketch", "Fourier", "cyclic shifts, by FFT", "relu", "2 of 4 features", "stacked"):
        assert words in text
    assert text.count("\n") == len(text.split("\n")) - 1 >= 8


@pytest.mark.parametrize("kernel", [Custom(lambda x, y: float(x @ y)), RBF(1.0) + Custom(lambda x, y: float(x @ y))])
def test_kernels_without_a_map_name_the_remedy(kernel):
    with pytest.raises(ValueError, match="NystromFeatures"):
        KernelFeatures(kernel, 8).fit(np.ones((3, 2)))


@pytest.mark.parametrize("name", KERNELS)
def test_sparse_rows_float32_and_batches(name):
    X = np.abs(points(12, 6)) if name in HISTOGRAM_KERNELS else points(12, 6)
    X[np.abs(X) < 0.3] = 0.0
    features = KernelFeatures(KERNELS[name], 15, random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_allclose(features.transform(scipy.sparse.csr_matrix(X)), Z, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(np.vstack([features.transform(row[None]) for row in X]), Z, rtol=1e-8, atol=1e-10)
    single = features.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, rtol=1e-3, atol=1e-3 * np.abs(Z).max())
    again = KernelFeatures(KERNELS[name], 15, random_state=0).fit_transform(scipy.sparse.csr_matrix(X))
    np.testing.assert_allclose(again, Z, rtol=1e-8, atol=1e-10)


# cyclic invariance


@pytest.mark.parametrize("shape", [None, (2, 3), (3, 2)])
@pytest.mark.parametrize("kernel", [RBF(1.5), Polynomial(2, gamma=1.0), RBF([1.0, 2, 3, 4, 5, 6]), Linear().on([0, 3])])
def test_the_invariant_kernel_is_the_mean_over_shifts_of_both_arguments(kernel, shape):
    X = points(5, 6, scale=0.6)
    invariant = CyclicInvariant(kernel, shape)
    grid = (6,) if shape is None else shape
    axes = tuple(range(1, 1 + len(grid)))
    moved = [np.roll(X.reshape(-1, *grid), s, axes).reshape(X.shape) for s in np.ndindex(*grid)]
    np.testing.assert_allclose(invariant(X), np.mean([kernel(A, B) for A in moved for B in moved], axis=0), rtol=1e-10)
    np.testing.assert_allclose(invariant(moved[1], moved[-1]), invariant(X), rtol=1e-10)
    assert np.linalg.eigvalsh(invariant(X)).min() > -1e-10


def test_only_the_sum_over_the_group_is_a_kernel():
    X = np.random.default_rng(0).normal(size=(6, 5))
    kernel = RBF(1.0)
    term = kernel(X, np.roll(X, 1, axis=1))
    assert np.abs(term - term.T).max() > 1e-3
    total = sum(kernel(X, np.roll(X, s, axis=1)) for s in range(5))
    np.testing.assert_allclose(total, 5.0 * CyclicInvariant(kernel)(X), rtol=1e-10)


@pytest.mark.parametrize("shape", [None, (2, 3)])
@pytest.mark.parametrize("kernel", [RBF(1.5), ArcCosine(1), RBF(1.5) + 2.0 * Linear(), RBF(1.0) * Linear()])
def test_features_under_shifts_by_fft_are_those_one_by_one(kernel, shape):
    X = points(7, 6)
    node = kernel_map(CyclicInvariant(kernel, shape), X, 14, Key(3), X.dtype)
    inner = kernel_map(kernel, X, 14, Key(3), X.dtype).feature_map
    grid = (6,) if shape is None else shape
    np.testing.assert_allclose(node.feature_map(X), ShiftedMap(inner, grid)(X), rtol=1e-9, atol=1e-12)
    if kernel.stationary or isinstance(kernel, ArcCosine):
        assert isinstance(node.feature_map, ConvolvedMap)


@pytest.mark.parametrize(("shape", "message"), [((2, 2), "holds 4 values"), ((1, 2, 3), "shape"), ((0,), "shape")])
def test_bad_shapes(shape, message):
    with pytest.raises(ValueError, match=message):
        CyclicInvariant(RBF(1.0), shape)(np.ones((2, 6)))


@pytest.mark.parametrize("d", [1, 3])
def test_thresholds_have_no_bias_beyond_the_rows_they_were_drawn_for(d):
    sample = np.random.default_rng(0).uniform(size=(20, d))
    X = np.vstack([sample[:3], 4.0 * sample[3:6], np.zeros((1, d))])
    maps = [threshold_map(sample, 64, Key(seed)) for seed in range(600)]
    # a point that is on the other side of a row in fewer than ln(1e6) of 600 draws may be so in none
    floor = np.log(1e6) / 600 * np.median([f.weights**2 for f in maps])
    assert_unbiased(np.array([f(X) @ f(X).T for f in maps]), Sobolev()(X), floor=floor)
