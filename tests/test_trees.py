"""KernelFeatures: any kernel tree has a map, without bias and with error falling as columns^-1/2."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bochner import (
    RBF,
    ArcCosine,
    CyclicInvariant,
    ExponentialDot,
    Laplacian,
    Linear,
    MaclaurinSeries,
    Matern,
    Polynomial,
)
from bochner.features import kernel_map
from bochner.keys import Key
from laws import HISTOGRAM_KERNELS, KERNELS, assert_unbiased, points


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


@settings(max_examples=6, **SETTINGS)
@given(kernel=trees(3).filter(lambda k: fits(k, 3)), seed=st.integers(0, 1000))
def test_random_trees(kernel, seed):
    check_tree(kernel, seed)


@pytest.mark.slow
@settings(max_examples=100, **SETTINGS)
@given(kernel=trees(3).filter(lambda k: fits(k, 3)), seed=st.integers(0, 10**6))
def test_many_random_trees(kernel, seed):
    check_tree(kernel, seed)
