"""The torch backend against its specification, and tensors through every transformer. Skips where torch is missing."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import laws
from bochner import RBF, FourierFeatures, Laplacian, Matern, NystromFeatures, Polynomial, RationalQuadratic
from bochner.backends import FLOATS, backend_of
from bochner.backends.reference import reference
from bochner.rows import ROW_LAWS
from test_backends import ENTRIES, N_FEATURES, Call, calls

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
)
DEVICES = ["cpu", GPU]
TRANSFORMERS = [e for e in laws.ESTIMATORS if hasattr(type(e), "transform")]


def tensor(array: np.ndarray, device: str) -> Any:
    return torch.from_numpy(np.array(array)).to(device)


def on(device: str, entry: str, call: Call, dtype: type) -> np.ndarray:
    """Return what the entry writes into an `out` whose rows lie apart; X and Y are data, the rest is host arrays."""
    data = 2 if entry.endswith("distances") else 1
    arguments = [tensor(a, device) for a in call.arguments[:data]] + list(call.arguments[data:])
    backend = backend_of(arguments[0])
    if call.n_columns == 0:
        backend.fwht(arguments[0])
        return arguments[0].cpu().numpy()
    n = call.arguments[0].shape[0]
    around = tensor(np.full((2 * n, call.n_columns + 5), np.nan, dtype), device)
    out = around[::2, 2 : call.n_columns + 2]
    getattr(backend, entry)(*arguments, out)
    assert torch.isnan(around[:, :2]).all()
    assert torch.isnan(around[:, -3:]).all()
    assert torch.isnan(around[1::2]).all()
    return out.cpu().numpy()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", N_FEATURES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_torch_agrees_with_reference(entry: str, dtype: type, d: int, device: str) -> None:
    for n in (0, 1, 13):
        for call in calls(entry, dtype, n, d):
            if scipy.sparse.issparse(call.arguments[0]):
                continue
            got = on(device, entry, call, dtype)
            out = call.arguments[0].copy() if call.n_columns == 0 else np.empty((n, call.n_columns), dtype)
            getattr(reference, entry)(*(() if call.n_columns == 0 else call.arguments), out)
            # CUDA's sine and cosine of phases below 100 err by 2^-20.5 at most after their reduction
            own = 0.125 * 2.0**-20 if device == "cuda" and "pairs" in entry and dtype is np.float32 else 0.0
            bound = 2 * np.finfo(dtype).eps * call.rounding + own
            assert got.dtype == dtype
            assert (abs(got.astype(np.float64) - out) <= bound).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_gram_and_nonzeros(dtype: type, device: str) -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((501, 70)).astype(dtype)
    start = rng.standard_normal((70, 70))
    out = tensor(start, device)
    backend = backend_of(out)
    backend.gram(tensor(Z, device), out)
    exact = start + Z.T.astype(np.float64) @ Z.astype(np.float64)
    sizes = np.sqrt(np.outer(*[np.square(Z).sum(axis=0, dtype=float)] * 2))
    error = np.tril(abs(out.cpu().numpy() - exact) / sizes)
    assert error.max() <= (1e-6 if dtype is np.float32 else 1e-13)
    A = Z * (Z > 0.5)
    expected = scipy.sparse.csr_array(A)
    columns = tensor(np.empty(expected.nnz, np.int32), device)
    values = tensor(np.empty(expected.nnz, dtype), device)
    backend.nonzeros(tensor(A, device), expected.indptr, columns, values)
    np.testing.assert_array_equal(columns.cpu(), expected.indices)
    np.testing.assert_array_equal(values.cpu(), expected.data)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("estimator", TRANSFORMERS, ids=lambda e: repr(e)[:60])
def test_tensors_in_tensors_out(estimator: Any, dtype: type, device: str) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random((60, 11)).astype(dtype), np.arange(60) % 2
    fixed = {"random_state": 0} if "random_state" in estimator.get_params() else {}
    host = clone(estimator).set_params(**fixed).fit(X, y)
    T = tensor(X, device)
    there = clone(estimator).set_params(**fixed).fit(T, y)
    # learned on a host copy: the same to the bit, and picklable
    assert pickle.dumps(getattr(there, "feature_map_", None)) == pickle.dumps(getattr(host, "feature_map_", None))
    Z, expected = there.transform(T), host.transform(X)
    assert Z.device == T.device
    assert Z.dtype == T.dtype
    if scipy.sparse.issparse(expected):
        Z, expected = Z.to_dense(), expected.toarray()
    size = abs(expected).max()
    np.testing.assert_allclose(Z.cpu().numpy(), expected, rtol=0, atol=size * (1e-4 if dtype is np.float32 else 1e-9))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("form", ["pairs", "offset", "complex"])
@pytest.mark.parametrize("rows", sorted(ROW_LAWS))
def test_every_law_of_rows_on_tensors(rows: str, form: str, device: str) -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((37, 19)).astype(np.float32)
    model = FourierFeatures(RBF(3.0), 75, rows=rows, form=form, random_state=3).fit(X)
    Z = model.transform(tensor(X, device)).cpu().numpy()
    exact = model.transform(X.astype(np.float64))
    assert np.linalg.norm(Z - exact) <= 2e-6 * np.linalg.norm(exact)


KERNELS = [RBF(2.0), Matern(2.0, nu=1.5), Matern(2.0, nu=2.5), Laplacian(5.0), Polynomial(2), RationalQuadratic(2.0)]
KERNELS += [RBF(2.0) + 2.0 * Laplacian(3.0), RBF(2.0) * Polynomial(2), Matern(2.0, nu=0.7), RBF(1.0).on([0, 3])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_of_tensors(kernel: Any, device: str) -> None:
    rng = np.random.default_rng(4)
    X, Y = rng.standard_normal((23, 5)), rng.standard_normal((9, 5))
    K = kernel(X, Y)
    for Q in (tensor(Y, device), Y):
        np.testing.assert_allclose(kernel(tensor(X, device), Q).cpu().numpy(), K, rtol=1e-10, atol=1e-13)
    model = NystromFeatures(kernel, 8, random_state=0).fit(X)
    np.testing.assert_allclose(model.transform(tensor(X, device)).cpu(), model.transform(X), rtol=1e-7, atol=1e-9)


def test_errors_about_tensors() -> None:
    X = torch.zeros((4, 3))
    model = FourierFeatures(RBF(1.0), 8, random_state=0).fit(X)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.transform(torch.zeros((4, 2)))
    with pytest.raises(ValueError, match="2-D tensor"):
        model.transform(torch.zeros(3))
    with pytest.raises(ValueError, match="NaN or infinity"):
        model.transform(torch.full((4, 3), float("nan")))
    with pytest.raises(ValueError, match="Complex"):
        model.transform(torch.zeros((4, 3), dtype=torch.complex64))
    assert model.transform(torch.zeros((4, 3), dtype=torch.int64)).dtype == torch.float64
    assert model.transform(torch.zeros((4, 3), dtype=torch.float16)).dtype == torch.float32


def test_copies_on_a_device_live_as_long_as_the_map() -> None:
    from bochner.backends.torch import _placed

    before = len(_placed._made)
    model = FourierFeatures(RBF(1.0), 8, rows="iid", random_state=0).fit(np.zeros((2, 3)))
    X = torch.zeros((4, 3))
    model.transform(X)
    held = len(_placed._made)
    model.transform(X)
    assert before < len(_placed._made) == held
    del model
    assert len(_placed._made) == before
