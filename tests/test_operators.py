import pickle

import numpy as np
import pytest

from bochner.keys import Key
from laws import LINEAR_MAPS


@pytest.fixture(params=LINEAR_MAPS)
def make(request):
    return LINEAR_MAPS[request.param]


def close(a, b, dtype, size):
    """Rounding of a sum of `size` products of size about 1, doubled for the three stages of a structured map."""
    tolerance = 8.0 * np.sqrt(size) * np.finfo(dtype).eps * (1.0 + np.abs(b).max())
    np.testing.assert_allclose(a, b, atol=tolerance, rtol=0)


@pytest.mark.parametrize("d", [2, 3, 8, 11, 100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_map_agrees_with_its_matrix(make, d, dtype):
    W = make(d, Key(d))
    X = np.random.default_rng(0).normal(size=(7, d)).astype(dtype)
    A = W(X)
    assert A.shape == (7, W.shape[0])
    assert A.dtype == dtype
    close(A, X @ W.to_dense().T, dtype, d)


@pytest.mark.parametrize("d", [2, 11])
def test_adjoint(make, d):
    W = make(d, Key(1))
    rng = np.random.default_rng(1)
    X, A = rng.normal(size=(5, d)), rng.normal(size=(5, W.shape[0]))
    # <Wx, a> = <x, Wᵀa>
    np.testing.assert_allclose(np.sum(W(X) * A), np.sum(X * W.adjoint(A)), rtol=1e-6)


def test_scale_rows(make):
    W = make(5, Key(2))
    factors = np.linspace(0.25, 4.0, W.shape[0])
    np.testing.assert_allclose(W.scale_rows(factors).to_dense(), factors[:, None] * W.to_dense(), rtol=2e-7, atol=1e-7)


@pytest.mark.parametrize("odd", [0, 1])
def test_pairs_are_cosines_and_sines_of_the_phases(make, odd):
    W = make(6, Key(3))
    X = np.random.default_rng(2).normal(size=(4, 6))
    A = X @ W.to_dense().T
    out = np.full((4, 2 * len(A[0]) - odd), np.nan)
    W.pairs_into(X, 0.5, 0.3, out)
    expected = np.empty((4, 2 * len(A[0])))
    expected[:, 0::2], expected[:, 1::2] = np.cos(A), np.sin(A)
    if odd:
        expected = expected[:, :-1]
        expected[:, -1] = np.cos(A[:, -1] + 0.3)
    np.testing.assert_allclose(out, 0.5 * expected, atol=1e-6)


def test_maps_pickle_and_leave_their_input_alone(make):
    W = pickle.loads(pickle.dumps(make(4, Key(4))))
    X = np.random.default_rng(3).normal(size=(3, 4))
    X.flags.writeable = False
    np.testing.assert_array_equal(W(X), make(4, Key(4))(X))
