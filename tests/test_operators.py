import pickle

import numpy as np
import pytest
import scipy.linalg

from bochner import fwht
from bochner.draws.keys import Key
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


# -- the Walsh-Hadamard transform ------------------------------------------------------------------------------------

LAYOUTS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=0)[::2],
    "backwards": lambda A: A[::-1].copy()[::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("shape", "axis"), [((16,), 0), ((1,), -1), ((8, 5), 0), ((5, 64), -1), ((3, 4, 2), 1)])
def test_fwht_is_the_product_with_hadamards_matrix(shape, axis, dtype, layout):
    X = LAYOUTS[layout](np.random.default_rng(0).normal(size=shape).astype(dtype))
    kept, p = X.copy(), shape[axis]
    expected = np.apply_along_axis(scipy.linalg.hadamard(p).__matmul__, axis, X.astype(np.float64))
    found = fwht(X, axis)
    assert found.dtype == dtype
    close(found, expected, dtype, p)
    np.testing.assert_array_equal(X, kept)
    normal = fwht(X, axis, orthonormal=True)
    close(normal, expected / np.sqrt(p), dtype, p)
    close(fwht(normal, axis, orthonormal=True), X, dtype, p)
    np.testing.assert_array_equal(fwht(X, axis, n_jobs=1), found)
    assert fwht(X, axis, out=X) is X
    np.testing.assert_array_equal(X, found)


def test_fwht_of_many_rows_on_any_number_of_threads():
    X = np.random.default_rng(0).normal(size=(4096, 1024)).astype(np.float32)
    found = fwht(X, n_jobs=4)
    np.testing.assert_array_equal(found, fwht(X, n_jobs=1))
    np.testing.assert_allclose((found**2).sum(axis=1), 1024 * (X**2).sum(axis=1), rtol=1e-4)


def test_fwht_of_integers_and_of_nothing():
    np.testing.assert_array_equal(fwht(np.array([1, 2, 3, 4], dtype=np.int8)), [10.0, -2.0, -4.0, 0.0])
    assert fwht(np.empty((0, 8))).shape == (0, 8)


def test_fwht_says_what_it_takes():
    for call, message in (
        (lambda: fwht(np.ones(6)), "must be a power of two, got 6; append zeros up to 8"),
        (lambda: fwht(np.ones((4, 0))), "must be a power of two, got 0"),
        (lambda: fwht(np.ones(4), 1), "out of bounds"),
        (lambda: fwht(3.0), "a single number has none"),
        (lambda: fwht(np.ones(4, complex)), "takes real numbers"),
        (lambda: fwht(["a", "b"]), "takes real numbers"),
        (lambda: fwht(np.ones(4), out=np.ones(5)), r"out must be an array of float64 and of shape \(4,\)"),
        (lambda: fwht(np.ones(4, np.float32), out=np.ones(4)), "out must be an array of float32"),
        (lambda: fwht(np.ones(4), out=[1.0]), "got list"),
        (lambda: fwht(np.ones(4), orthonormal="yes"), "orthonormal must be"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
