"""Features on a GPU against float64, at phases up to a hundred. Skips where there is no CUDA device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bochner import RBF, FourierFeatures, Laplacian, Matern
from bochner.backends import backend_of
from bochner.backends.reference import reference
from bochner.draws.linear_maps import Dense
from bochner.sampling import ROW_LAWS

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),  # of torch's own, on the first call of a process
]
LARGEST = (0.1, 10.0, 30.0, 100.0)  # phases


def tensor(array: np.ndarray) -> Any:
    return torch.from_numpy(np.array(array)).cuda()


def relative_error(Z: Any, exact: np.ndarray) -> float:
    return float(np.linalg.norm(Z.cpu().numpy() - exact) / np.linalg.norm(exact))


def check(model: FourierFeatures, X: np.ndarray, largest: float) -> None:
    """Compare features of X, scaled to a largest phase, with those of float64, and two runs with each other."""
    X = (X * (largest / np.abs(model.feature_map_.frequencies(X)).max())).astype(np.float32)
    Z, exact = model.transform(tensor(X)), model.transform(X.astype(np.float64))
    assert torch.equal(Z, model.transform(tensor(X)))
    assert relative_error(Z, exact) <= 1e-6
    # the hardware's sine errs by 2^-20.5; float32 phases below 11 of 2^15 columns by 5e-7, with outliers
    assert np.abs(Z.cpu().numpy() - exact).max() <= 4e-6 * np.abs(exact).max()


@pytest.mark.parametrize("length_scale", [1.0, 0.3, "per feature"])
@pytest.mark.parametrize("d", [1, 3, 11, 28, 90, 288, 400])
@pytest.mark.parametrize("rows", sorted(ROW_LAWS))
def test_every_law_of_rows_at_phases_up_to_a_hundred(rows: str, d: int, length_scale: Any) -> None:
    rng = np.random.default_rng(d)
    scales = rng.uniform(0.2, 3.0, d) if isinstance(length_scale, str) else np.full(d, length_scale)
    kernel = RBF(scales if d > 1 else scales[0])
    for form in ("pairs", "offset", "complex"):
        model = FourierFeatures(kernel, 501, rows=rows, form=form, random_state=0).fit(np.zeros((2, d)))
        for largest in LARGEST if form == "pairs" else LARGEST[-1:]:
            check(model, rng.standard_normal((301, d)) * scales, largest)


@pytest.mark.parametrize("rows", ["structured", "fastfood"])
@pytest.mark.parametrize("d", [20, 64, 128, 200, 513, 1024, 2049, 4097, 8192, 16385])
def test_transforms_of_every_width_at_phases_up_to_a_hundred(d: int, rows: str) -> None:
    rng = np.random.default_rng(d)
    sizes = np.exp(rng.uniform(-4.0, 0.0, (203, 1)))  # some tiles are made again in float64, others not
    for n_components in (1001, 2 * d + 40):
        model = FourierFeatures(RBF(2.0), n_components, rows=rows, random_state=0).fit(np.zeros((2, d)))
        for largest in LARGEST:
            check(model, rng.standard_normal((203, d)) * sizes, largest)


KERNELS = [
    RBF(2.0) + 2.0 * RBF(0.5),
    RBF(2.0) * RBF(0.7),
    RBF(3.0) ** 3,
    RBF(2.0).on([0, 3]) * Matern(1.0, nu=2.5),
    Matern(2.0, nu=1.5),
]


@pytest.mark.parametrize("rows", ["iid", "orthogonal", "structured", "fastfood", "circulant"])
@pytest.mark.parametrize("d", [19, 100])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_of_kernels_at_phases_up_to_a_hundred(kernel: Any, d: int, rows: str) -> None:
    model = FourierFeatures(kernel, 501, rows=rows, random_state=0).fit(np.zeros((2, d)))
    check(model, np.random.default_rng(d).standard_normal((301, d)), 100.0)


@pytest.mark.parametrize("d", [3, 19])
def test_separable_kernels_at_phases_up_to_a_hundred(d: int) -> None:
    model = FourierFeatures(Laplacian(3.0), 501, rows="iid", random_state=0).fit(np.zeros((2, d)))
    check(model, np.random.default_rng(d).standard_normal((301, d)), 100.0)


@pytest.mark.parametrize("q", range(5, 17))
def test_transforms_alone(q: int) -> None:
    rng = np.random.default_rng(q)
    for n, apart in ((1, 0), (3, 7), (300, 4)):
        X = rng.standard_normal((n, 1 << q)).astype(np.float32)
        around = torch.full((n, (1 << q) + apart), torch.nan, device="cuda")
        out = around[:, : 1 << q]
        out.copy_(tensor(X))
        backend_of(out).fwht(out)
        expected = X.astype(np.float64)
        reference.fwht(expected)
        assert relative_error(out, expected) <= 3e-7
        assert torch.isnan(around[:, 1 << q :]).all()


def test_large_tensors_come_back_as_they_are() -> None:
    Z = torch.randn(3001, 6007, device="cuda")
    for X in (Z, Z.T, Z[::2].double(), Z.view(torch.int32)):
        np.testing.assert_array_equal(backend_of(Z).fetch(X), X.cpu().numpy())


@pytest.mark.parametrize("heavy", [False, True])
def test_dense_features_of_other_matrices(heavy: bool) -> None:
    rng = np.random.default_rng(0)
    W = rng.standard_normal((333, 70))  # 53 bits, not 11
    W *= np.exp(2.0 * rng.standard_normal((333, 1))) if heavy else 1.0
    X = rng.standard_normal((200, 70))
    X = (X * (50.0 / np.abs(X @ W.T).max())).astype(np.float32)
    out, exact = torch.empty((200, 666), device="cuda"), np.empty((200, 666))
    Dense(W).pairs_into(tensor(X), 1.0, 0.0, out)
    Dense(W).pairs_into(X.astype(np.float64), 1.0, 0.0, exact)
    assert np.abs(out.cpu().numpy() - exact).max() <= 3e-6
