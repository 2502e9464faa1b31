"""The torch backend against its specification, and tensors through every transformer. Skips where torch is missing."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import bochner
import laws
from backend_calls import ENTRIES, LINEAR, N_FEATURES, Call, calls, check_linear
from bochner import (
    RBF,
    FourierFeatures,
    GaussianProcessRegressor,
    KernelClassifier,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    Laplacian,
    Matern,
    NystromFeatures,
    Polynomial,
    RationalQuadratic,
    exact_kernel_ridge,
    mmd_test,
)
from bochner.backends import FLOATS, backend_of
from bochner.backends.reference import reference
from bochner.data import devices
from bochner.data.devices import DeviceSource
from bochner.data.folds import StreamedGram
from bochner.data.sources import ArraySource
from bochner.draws.keys import Key
from bochner.draws.linear_maps import DenseGram
from bochner.estimators import exact_solves, nystrom
from bochner.landmarks import Gram, RPCholesky
from bochner.newton.losses import LOSSES
from bochner.newton.objectives import Problem
from bochner.ridge.solvers import Cholesky, CholeskyFactor, ConjugateGradient, Eigen
from bochner.ridge.statistics import RidgeStatistics
from bochner.sampling import ROW_LAWS
from bochner.sketches import as_sketch_law
from bochner.tables.leaves import fit_leaves, grow_tree
from bochner.tuning import metrics
from bochner.tuning.metrics import FAMILIES, learn_directions, learn_metric, shrink_metric
from bochner.tuning.policies import DescentPolicy
from laws import rounding_squares

torch = pytest.importorskip("torch", reason="torch is not installed: make test-torch")
from bochner.backends import torch as backend  # noqa: E402
from bochner.backends.torch import grams, memory  # noqa: E402

pytestmark = [  # of torch's own, on the first call of a process
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS"),
    pytest.mark.filterwarnings("ignore:Sparse invariant checks"),
]
GPU = pytest.param(
    "cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
)
DEVICES = ["cpu", GPU]
TRANSFORMERS = [e for e in laws.ESTIMATORS if hasattr(type(e), "transform")]


def tensor(array: np.ndarray, device: str) -> Any:
    return torch.from_numpy(np.array(array)).to(device)


def on(device: str, entry: str, call: Call, dtype: type) -> np.ndarray:
    """Return what the entry writes into an `out` whose rows lie apart; X, Y and W are data, the rest host arrays."""
    data = 2 if entry.endswith("distances") or entry == "kernel_values" else 3 if entry == "signed_sums" else 1
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
@pytest.mark.parametrize("m", [1, 70, 300])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", LINEAR)
def test_sums_and_factorisations_agree_with_reference(entry: str, dtype: type, m: int, device: str) -> None:
    check_linear(backend_of(tensor(np.zeros(1), device)), entry, dtype, m, lambda a: tensor(a, device), here)


def here(found: Any) -> np.ndarray:
    return np.asarray(found.cpu() if torch.is_tensor(found) else found)


@pytest.mark.parametrize("device", DEVICES)
def test_matrices_without_a_cholesky_factor(device: str) -> None:
    G = tensor(np.diag([1.0, 1.0, -2.0]), device)
    assert backend_of(G).cholesky(G.clone(), 1.0) is None
    np.testing.assert_array_equal(here(backend_of(G).cholesky(G, 3.0)), np.diag([2.0, 2.0, 1.0]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
def test_nonzeros(dtype: type, device: str) -> None:
    Z = np.random.default_rng(0).standard_normal((501, 70)).astype(dtype)
    backend = backend_of(tensor(Z, device))
    A = Z * (Z > 0.5)
    expected = scipy.sparse.csr_array(A)
    columns = tensor(np.empty(expected.nnz, np.int32), device)
    values = tensor(np.empty(expected.nnz, dtype), device)
    backend.nonzeros(tensor(A, device), expected.indptr, columns, values)
    np.testing.assert_array_equal(columns.cpu(), expected.indices)
    np.testing.assert_array_equal(values.cpu(), expected.data)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("shape", [(1, 100), (701, 64), (5003, 331)])
def test_products_with_a_gram_matrix(shape: tuple[int, int], k: int, dtype: type, device: str) -> None:
    rng = np.random.default_rng(1)
    Z, V, w = rng.standard_normal(shape).astype(dtype), rng.standard_normal((shape[1], k)), rng.random(shape[0])
    for weights in (None, w):
        wide = Z.astype(np.float64)
        expected = 1.0 + wide.T @ ((1.0 if weights is None else w[:, None]) * (wide @ V))
        out = tensor(np.ones((shape[1], k)), device)
        there = None if weights is None else tensor(weights, device)
        backend_of(out).gram_product(tensor(Z, device), tensor(V, device), there, out)
        np.testing.assert_allclose(out.cpu().numpy(), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def same_sums(found: RidgeStatistics, expected: RidgeStatistics, dtype: type) -> None:
    """Compare what follows from sums, whose offset may be another, in units of the largest entry."""
    unit = 1e-5 if dtype is np.float32 else 1e-12
    for of in (RidgeStatistics.right_side, RidgeStatistics.total_squares, lambda s: s.feature_sum, lambda s: s.weight):
        wanted = of(expected)
        np.testing.assert_allclose(of(found), wanted, rtol=0, atol=unit * np.abs(wanted).max())
    if expected.with_gram:
        wanted = expected.operator(False).to_dense()
        np.testing.assert_allclose(found.operator(False).to_dense(), wanted, rtol=0, atol=unit * np.abs(wanted).max())
    assert found.n_samples == expected.n_samples


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("with_gram", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_are_made_where_the_features_are(
    dtype: type, weighted: bool, with_gram: bool, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bochner.ridge.statistics._FLOAT32_COLUMNS", 0)  # the host would multiply few in float64
    rng = np.random.default_rng(18)
    Z, Y = rng.standard_normal((900, 40)).astype(dtype), 100.0 + rng.standard_normal((900, 2))
    w = rng.random(900) * (rng.random(900) < 0.9) if weighted else None

    def sums(*parts: tuple[int, bool]) -> RidgeStatistics:
        """Sums of 900 rows in parts that end with a row each, on the device or not."""
        made, start = RidgeStatistics(40, 2, with_gram=with_gram), 0
        for stop, on_host in parts:
            rows = slice(start, stop)
            part = Z[rows] if on_host else tensor(Z[rows], device)
            made.update(part, Y[rows], None if w is None else w[rows])
            np.testing.assert_array_equal(here(part), Z[rows])  # not to be overwritten
            start = stop
        return made

    expected = sums((900, True))
    there = sums((300, False), (900, False))
    assert torch.is_tensor(there.products)
    assert torch.is_tensor(there.squares) is with_gram
    same_sums(there.copy(), expected, dtype)
    if with_gram:
        assert there.rounding <= 1e-12 * there.trace  # on a device, sums of the features are exact
        assert torch.is_tensor(there.squares)  # nothing so far has asked for it
    # what goes elsewhere is in host memory, and so is what is mixed
    for found in (
        pickle.loads(pickle.dumps(there)),
        sums((300, False), (900, False)).to_host(),
        sums((300, False), (900, True)),
        sums((300, True), (900, False)),
        sums((300, False), (600, True), (900, False)),
    ):
        assert isinstance(found.products, np.ndarray)
        assert isinstance(found.squares, np.ndarray) is with_gram
        same_sums(found, expected, dtype)
    twice = RidgeStatistics(40, 2, with_gram=with_gram).merge(there).merge(sums((900, False)))
    same_sums(twice, expected.copy().merge(expected), dtype)
    with pytest.raises(ValueError, match="of 40 features"):
        there.update(tensor(Z[:, :3], device), Y)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize(("n_digits", "bits"), grams._SCHEMES)
@pytest.mark.parametrize(("n", "m"), [(256, 512), (701, 2081)])
def test_products_of_integers_are_exact(n: int, m: int, n_digits: int, bits: int, uneven: bool, device: str) -> None:
    """Rows move by half a unit at most, which is a float32 number of three bits; their products are exact."""
    rng = np.random.default_rng(n)
    given = np.cos(9.0 * rng.standard_normal((n, m)))
    given[0] = np.sign(given[0])  # the largest integers
    given = (given * np.exp2(rng.integers(-9, 9, m) if uneven else 1)).astype(np.float32)
    given[:, 5] = 0.0
    Z, out = tensor(given, device), torch.ones((m, m), dtype=torch.float64, device=device)
    make = backend_of(Z).fixed_point if device == "cuda" else grams.fixed_point
    variances = [make(Z.clone(), n, budget).noise / n for budget in (np.inf, 0.0)]
    digits = make(Z, n, {14: np.inf, 16: 0.1 * variances[0], 21: 1.001 * variances[1]}[n_digits * bits])
    assert (len(digits.digits), digits.bits) == (n_digits, bits)
    units, rounded = digits.units.double().cpu().numpy(), Z.cpu().numpy().astype(np.float64)
    limit = sum((2 ** (bits - 1) - 1) << bits * place for place in range(n_digits))
    others = np.arange(m) != 5
    assert (np.abs(given).max(axis=0)[others] <= limit * units[others]).all()
    assert (np.abs(given).max(axis=0)[others] >= 0.75 * limit * units[others]).all()
    assert (np.abs(rounded - given) <= 0.5 * units).all()
    q = rounded / units
    np.testing.assert_array_equal(q, np.rint(q))
    assert digits.noise == pytest.approx(n * np.mean(units**2) / 12.0)
    digits.gram(out)
    found, expected = out.cpu().numpy(), 1.0 + rounded.T @ rounded
    np.testing.assert_allclose(np.tril(found), np.tril(expected), rtol=1e-12, atol=1e-12 * np.diagonal(expected).max())
    if not uneven:  # a multiple of the square of one unit, below 2^53
        np.testing.assert_array_equal(np.tril(found), np.tril(expected))


def use_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of integers on the processor too."""
    monkeypatch.setattr(backend, "plain", replace(backend.plain, fixed_point=grams.fixed_point))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
@pytest.mark.parametrize("alpha", [1e-4, 1.0, 100.0, "gcv"])
def test_predictions_from_sums_of_integers_are_those_of_float64(
    alpha: Any, features: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_integers(monkeypatch)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((4000, 5)).astype(np.float32)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * rng.standard_normal(4000)
    model = KernelRidge(RBF(1.5), 600, features=features, alpha=alpha, random_state=0)
    wide = clone(model).fit(X.astype(float), y).predict(X[:500].astype(float))
    found = clone(model).set_params(device=device).fit(X, y).predict(X[:500])
    assert np.linalg.norm(found - wide) <= 1e-4 * np.linalg.norm(wide - wide.mean())


@pytest.mark.parametrize("device", DEVICES)
def test_sums_on_a_device_are_those_of_the_rows_as_rounded(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of equal rows nothing is left by centring, however many there are; a small penalty keeps more digits."""
    use_integers(monkeypatch)
    row = np.cos(np.arange(600.0)).astype(np.float32) / np.float32(17.3)
    made = {}
    for penalty in (None, 1e-6, 1e3):
        sums = RidgeStatistics(600, 1, penalty=penalty)
        for _ in range(3):
            sums.update(tensor(np.tile(row, (400, 1)), device), np.ones((400, 1)))
        centred = sums.operator(True).to_dense()
        assert np.abs(centred).max() <= 1e-12 * sums.trace
        made[penalty] = np.abs(sums.feature_sum / 1200.0 - row).max()
    assert made[None] == made[1e-6] <= 2.0**-20 * np.abs(row).max() < made[1e3] <= 2.0**-13 * np.abs(row).max()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("centred", [False, True])
def test_factors_are_made_where_the_sums_are(centred: bool, device: str) -> None:
    rng = np.random.default_rng(19)
    Z, Y = rng.standard_normal((500, 60)), rng.standard_normal((500, 2))
    host, there = (RidgeStatistics(60, 2).update(rows, Y) for rows in (Z, tensor(Z, device)))
    for rule in (Cholesky(), Eigen()):
        expected, found = (rule.factor(sums.operator(centred), 0.3) for sums in (host, there))
        np.testing.assert_allclose(found.solve(Y[:60]), expected.solve(Y[:60]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.solve(Y[:60, 0]), expected.solve(Y[:60, 0]), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.logdet(), expected.logdet(), rtol=1e-12)
        assert 0.01 <= found.report.condition / expected.report.condition <= 1.001
        if isinstance(found, CholeskyFactor):
            assert found.L.device.type == device
            assert found.report.notes == (f"factored on {found.L.device}",)
    V = rng.standard_normal((60, 3))
    np.testing.assert_allclose(there.operator(centred) @ V, host.operator(centred) @ V, rtol=1e-9, atol=1e-9)
    assert torch.is_tensor(there.squares)
    negative = DenseGram(tensor(-1e9 * np.eye(3), device))
    with pytest.raises(ValueError, match="far from positive definite"):
        Cholesky().factor(negative, 1.0)
    with pytest.raises(ValueError, match="not finite"):
        Eigen().factor(DenseGram(tensor(np.full((3, 3), np.nan), device)), 1.0)


@pytest.mark.parametrize("device", DEVICES)
def test_eigenvalues_that_divide_and_conquer_gives_up(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    A = np.random.default_rng(20).standard_normal((30, 12))

    def gives_up(G: Any) -> None:
        raise torch.linalg.LinAlgError("did not converge")

    monkeypatch.setattr(torch.linalg, "eigh", gives_up)
    found = Eigen().factor(DenseGram(tensor(A.T @ A, device)), 1.0).eigenvalues
    np.testing.assert_allclose(found, np.linalg.eigvalsh(A.T @ A), rtol=1e-10)


FITS: list[Any] = [
    KernelRidge(RBF(2.0), 40, alpha=1.0, random_state=0),
    KernelRidge(RBF(2.0), 40, alpha="loo", random_state=0),
    KernelRidge(RBF(2.0), 40, features="nystrom", alpha=[0.1, 1.0], random_state=0),
    GaussianProcessRegressor(RBF(2.0), 40, noise_variance=0.1, amplitude=1.0, random_state=0),
    KernelPCA(3, kernel=RBF(2.0), n_feature_components=40, random_state=0),
]


@pytest.mark.parametrize("model", FITS, ids=lambda model: repr(model)[:60])
def test_a_fit_brings_its_gram_matrix_to_host_memory_once(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bochner.backends.torch as backend

    copies = []

    def counted(G: Any, out: np.ndarray) -> None:
        copies.append(G.shape)
        backend.fetch_lower(G, out)

    monkeypatch.setattr(backend, "plain", replace(backend.plain, fetch_lower=counted))
    X = np.random.default_rng(21).standard_normal((600, 3))
    fitted = clone(model).set_params(device="cpu").fit(X, X[:, 0])
    m = fitted.feature_map_.n_components
    assert copies == [(m, m)]
    assert isinstance(fitted.statistics_.squares, np.ndarray)
    assert fitted.statistics_.gram is not None
    assert len(copies) == 1
    if getattr(model, "alpha", None) == 1.0:  # factored before that
        assert "factored on cpu" in fitted.report_.notes


def test_what_a_pass_on_a_device_leaves_when_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(22)
    X, y = rng.standard_normal((1000, 3)), rng.standard_normal(1000)
    monkeypatch.setattr(devices, "_SECONDS", 0.0)
    monkeypatch.setattr(devices, "_MOST_ROWS", 256)
    model = KernelRidge(RBF(2.0), 40, alpha=1.0, device="cpu", random_state=0)
    expected = clone(model).fit(X[:256], y[:256])
    update = RidgeStatistics.update

    def struck(self: RidgeStatistics, Z: Any, Y: np.ndarray, *others: Any, **options: Any) -> Any:
        if Y[0] == y[256]:
            raise KeyboardInterrupt
        return update(self, Z, Y, *others, **options)

    monkeypatch.setattr(RidgeStatistics, "update", struck)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert isinstance(model.statistics_.squares, np.ndarray)
    assert model.n_samples_seen_ == 256
    np.testing.assert_allclose(model.component_weights_, expected.component_weights_, rtol=1e-9, atol=1e-12)


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
    from bochner.backends.torch.memory import placed

    before = len(placed._made)
    model = FourierFeatures(RBF(1.0), 8, rows="iid", random_state=0).fit(np.zeros((2, 3)))
    X = torch.zeros((4, 3))
    model.transform(X)
    held = len(placed._made)
    model.transform(X)
    assert before < len(placed._made) == held
    del model
    assert len(placed._made) == before


MODELS: list[dict[str, Any]] = [
    {"alpha": 1.0, "n_components": 200},
    {"alpha": "loo", "n_components": 64},
    {"alpha": [0.1, 1.0, 10.0], "n_components": 64},
    {"alpha": 10.0, "n_components": 200, "solver": "cg"},
    {"alpha": 1.0, "n_components": 50, "features": "nystrom"},
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", MODELS, ids=str)
def test_ridge_on_a_device(options: dict[str, Any], dtype: type, weighted: bool, device: str) -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((2500, 5)).astype(dtype)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(2500)
    w = rng.random(2500) * (rng.random(2500) < 0.9) if weighted else None
    host = KernelRidge(RBF(2.0), random_state=0, **options).fit(X, y, sample_weight=w)
    there = KernelRidge(RBF(2.0), random_state=0, device=device, **options).fit(X, y, sample_weight=w)
    assert pickle.dumps(there.feature_map_) == pickle.dumps(host.feature_map_)
    assert there.n_samples_seen_ == host.n_samples_seen_
    expected = host.predict(X)
    # a penalty that is chosen may be one where float32 features leave directions undecided
    single = 1e-4 if isinstance(options["alpha"], float) else 1e-3
    tolerance = single if dtype is np.float32 else 1e-8
    limit = tolerance * np.linalg.norm(expected)
    root = 1.0 if w is None else np.sqrt(w)
    if host.statistics_.rounding_noise:  # the host rounds what the device does not
        limit += np.sqrt(rounding_squares(host.statistics_, host.alpha_).sum())
    assert np.linalg.norm(root * (there.predict(X) - expected)) <= limit
    # what was learned is host data, on which learning goes on
    again = pickle.loads(pickle.dumps(there)).set_params(device=None)
    assert np.linalg.norm(root * (again.predict(X) - expected)) <= limit
    if options.get("solver") != "cg":
        again.partial_fit(X, y, sample_weight=w)
        assert again.n_samples_seen_ == 2 * host.n_samples_seen_


def test_sums_go_to_host_memory_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    X, y = rng.standard_normal((1000, 3)), rng.standard_normal((1000, 2))
    model = KernelRidge(RBF(2.0), 40, alpha=1.0, device="cpu", random_state=0)
    expected = model.fit(X, y).component_weights_
    monkeypatch.setattr(devices, "_SECONDS", 0.0)
    monkeypatch.setattr(devices, "_MOST_ROWS", 256)
    np.testing.assert_allclose(model.fit(X, y).component_weights_, expected, rtol=1e-9)


def test_memory_that_runs_out_halves_the_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((3000, 3)), rng.standard_normal(3000)
    model = KernelRidge(RBF(2.0), 40, alpha=1.0, device="cpu", random_state=0)
    expected, tried = model.fit(X, y).component_weights_, []
    update = RidgeStatistics.update

    def too_much(self: Any, Z: Any, *others: Any, **options: Any) -> Any:
        tried.append(len(Z))
        if len(Z) > 500:
            raise torch.OutOfMemoryError
        return update(self, Z, *others, **options)

    monkeypatch.setattr(RidgeStatistics, "update", too_much)
    np.testing.assert_allclose(model.fit(X, y).component_weights_, expected, rtol=1e-9)
    assert max(tried) > 500
    monkeypatch.setattr(devices.DeviceSource, "_rows", lambda *_: 64)
    monkeypatch.setattr(RidgeStatistics, "update", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError()))
    with pytest.raises(MemoryError, match="too little memory"):
        model.fit(X, y)


def test_devices_that_are_not_there() -> None:
    X, y = np.zeros((4, 2)), np.zeros(4)
    with pytest.raises(ValueError, match="device must be None"):
        KernelRidge(device="abacus").fit(X, y)
    there = torch.cuda.is_available()
    with pytest.raises(ValueError, match="the last GPU is" if there else "there is none"):
        KernelRidge(device="cuda:99").fit(X, y)


ON_GPU = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def marked(function: Any) -> Any:
    """Return a test that needs a GPU."""
    for mark in ON_GPU:
        function = mark(function)
    return function


TILED = [RBF(1.5), Matern(1.5, nu=0.5), Matern(1.5, nu=1.5), Matern(1.5, nu=2.5), Laplacian(4.0), Polynomial(3, 0.2)]
TILED += [2.0 * RBF(1.0) + Laplacian(3.0), RationalQuadratic(2.0), Polynomial(2, None, 0.0)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", TILED, ids=repr)
def test_products_with_kernel_matrices(kernel: Any, dtype: type, device: str) -> None:
    rng = np.random.default_rng(14)
    tolerance = 2e-5 if dtype is np.float32 else 1e-12
    for n, m, d, k in ((1, 1, 1, 1), (300, 517, 5, 1), (517, 300, 11, 3), (129, 1000, 28, 16), (65, 140, 3, 20)):
        X, Y, V = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)), rng.standard_normal((m, k))
        Y = Y.astype(dtype)
        X[0] = Y[0]  # a distance of zero
        wide = kernel(X.astype(np.float64), Y.astype(np.float64))
        K = kernel(tensor(X, device), tensor(Y, device))
        np.testing.assert_allclose(K.cpu(), wide, rtol=tolerance, atol=tolerance * abs(wide).max())
        product = kernel.product(tensor(X, device), tensor(Y, device), tensor(V, device))
        assert product.dtype == torch.float64
        bound = tolerance * (np.abs(wide) @ np.abs(V))
        assert (np.abs(product.cpu().numpy() - wide @ V) <= bound).all()
        assert torch.equal(product, kernel.product(tensor(X, device), tensor(Y, device), tensor(V, device)))
        np.testing.assert_allclose(kernel.product(X, Y, V), wide @ V, rtol=0, atol=bound.max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("d", [7, 28, 60])
@pytest.mark.parametrize("kernel", TILED, ids=repr)
def test_values_of_products_with_kernel_matrices(kernel: Any, d: int, device: str) -> None:
    """Of rows that are far from zero and some of them close to each other; on a GPU k(x, y) has the bits of k(y, x)."""
    rng = np.random.default_rng(d)
    X = rng.standard_normal((140, d)).astype(np.float32)
    Y = np.vstack([X[:40] + np.float32(1e-3) * rng.standard_normal((40, d)), rng.standard_normal((90, d))])
    shift = 0.0 if isinstance(kernel, Polynomial) else 30.0
    X, Y = (X + shift).astype(np.float32), (Y + shift).astype(np.float32)
    there = [tensor(A, device) for A in (X, Y)]

    def values(A: Any, B: Any) -> Any:
        unit = torch.eye(len(B), dtype=torch.float64, device=device)
        return torch.hstack([kernel.product(A, B, unit[:, j : j + 5].contiguous()) for j in range(0, len(B), 5)])

    K = values(*there)
    wide = kernel(X.astype(np.float64), Y.astype(np.float64))
    np.testing.assert_allclose(K.cpu(), wide, rtol=2e-5, atol=2e-6 * np.abs(wide).max())
    if device != "cpu":
        assert torch.equal(K, values(*there[::-1]).T)


EXACT = [RBF(1.0), Matern(1.0, nu=0.5), Laplacian(2.0), Polynomial(3, 0.2)]


@pytest.mark.parametrize("device", [None, *DEVICES])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", EXACT, ids=repr)
def test_exact_ridge_regression_without_a_matrix(kernel: Any, weighted: bool, device: str | None) -> None:
    rng = np.random.default_rng(21)
    X = rng.normal(size=(700, 3))
    Y = np.column_stack([np.sin(X[:, 0]) + 3.0, X[:, 1] * X[:, 2]]) + 0.1 * rng.normal(size=(700, 2))
    weight = rng.uniform(0.0, 2.0, 700).round() if weighted else None
    for fit_intercept in (True, False):
        options: dict[str, Any] = {"alpha": 0.1, "sample_weight": weight, "fit_intercept": fit_intercept}
        direct = exact_kernel_ridge(kernel, X, Y, X[:90] + 0.1, **options, solver="direct")
        found = exact_kernel_ridge(kernel, X, Y, X[:90] + 0.1, **options, solver="cg", tol=1e-9, device=device)
        np.testing.assert_allclose(found, direct, rtol=0, atol=1e-6 * np.abs(direct).max())


@pytest.mark.parametrize("device", [None, *DEVICES])
def test_random_pivots_make_exact_solves_short(device: str | None) -> None:
    rng = np.random.default_rng(22)
    X = rng.normal(size=(1500, 2))
    y = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(1500, 1))
    there, free = exact_solves.place_rows(device, X)
    gram = Gram(X, RBF(1.0), None if device is None else there)
    steps = [
        exact_solves.solve_exactly(
            gram, y, 1e-3, np.ones(1500), fit_intercept=True, tol=1e-8, free=free, n_pivots=n_pivots
        )[2].iterations
        for n_pivots in (1, None)
    ]
    assert steps[1] <= 10 <= steps[0] / 5


def test_exact_solves_need_a_penalty() -> None:
    with pytest.raises(ValueError, match="positive alpha"):
        exact_kernel_ridge(RBF(1.0), [[0.0], [1.0]], [0.0, 1.0], [[0.5]], alpha=0.0, solver="cg")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", TILED, ids=repr)
def test_kernels_of_rows_that_are_not_finite(kernel: Any, dtype: type, device: str) -> None:
    X = np.random.default_rng(17).standard_normal((150, 5)).astype(dtype)
    Y = X[:70].copy()
    X[3, 1] = np.nan
    finite = np.arange(150) != 3
    K = kernel(tensor(X, device), tensor(Y, device)).cpu().numpy()
    product = kernel.product(tensor(X, device), tensor(Y, device), tensor(np.ones((70, 2)), device)).cpu().numpy()
    for found in (K, product):
        assert np.isnan(found[3]).all()
        assert np.isfinite(found[finite]).all()


@marked
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("law", ["sparse_sign", "count_sketch", "very_sparse", "achlioptas"])
def test_sparse_rows_of_many_columns(law: str, dtype: type) -> None:
    rng = np.random.default_rng(15)
    for n, d, T in ((1, 5000, 100), (333, 1000, 3000), (4097, 90, 64), (100, 3, 1000)):
        X = rng.standard_normal((n, d)).astype(dtype)
        S = as_sketch_law(law).sample(d, T, Key(3))
        out = S(tensor(X, "cuda"))
        assert torch.equal(out, S(tensor(X, "cuda")))
        expected = S(X.astype(np.float64))
        bound = 4 * np.finfo(dtype).eps * (np.abs(X).astype(np.float64) @ np.abs(S.to_dense()).T) * np.sqrt(d)
        assert (np.abs(out.cpu().numpy() - expected) <= bound + 1e-300).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("features", ["nystrom", "fourier"])
def test_gaussian_processes_on_a_device(features: str, dtype: type, weighted: bool, device: str) -> None:
    rng = np.random.default_rng(16)
    X = rng.standard_normal((800, 3)).astype(dtype)
    Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2]]) + 0.3 * rng.standard_normal((800, 2))
    w = rng.integers(0, 3, 800).astype(float) if weighted else None
    new = X[:200]
    for y in (Y, Y[:, 0]) if dtype is np.float64 else (Y[:, 0],):
        options: dict[str, Any] = {"features": features, "noise_variance": 0.09, "amplitude": 1.0, "random_state": 0}
        model = GaussianProcessRegressor(RBF(1.5), 60, **options)
        host, there = (clone(model).set_params(device=d).fit(X, y, w) for d in (None, device))
        assert pickle.dumps(there.feature_map_) == pickle.dumps(host.feature_map_)
        assert there.n_samples_seen_ == host.n_samples_seen_
        assert isinstance(there.statistics_.squares, np.ndarray)
        (mean, std), (expected, own) = (m.predict(new, return_std=True) for m in (there, host))
        tolerance = 1e-3 if dtype is np.float32 else 1e-7
        assert np.linalg.norm(mean - expected) <= tolerance * np.linalg.norm(expected)
        assert np.linalg.norm(std - own) <= tolerance * np.linalg.norm(own)
        likelihood = host.log_marginal_likelihood()
        assert abs(there.log_marginal_likelihood() - likelihood) <= tolerance * abs(likelihood)
        again = pickle.loads(pickle.dumps(there)).set_params(device=None)
        assert np.linalg.norm(again.predict(new) - expected) <= tolerance * np.linalg.norm(expected)
        again.partial_fit(X, y, w)
        there.partial_fit(X, y, w)
        assert there.n_samples_seen_ == 2 * host.n_samples_seen_
        assert np.linalg.norm(there.predict(new) - again.predict(new)) <= tolerance * np.linalg.norm(expected)
        assert np.isfinite(there.sample_functions(2, random_state=0, n_components=64)(new)).all()
    fitted = clone(model).set_params(noise_variance="auto", amplitude="auto", device=device).fit(X, Y[:, 0], w)
    assert 0.05 < fitted.noise_variance_ < 0.5


@pytest.mark.parametrize("device", [None, *DEVICES])
@pytest.mark.parametrize("n_components", [30, 300])
def test_streamed_products_of_nystrom_features(n_components: int, device: str | None) -> None:
    rng = np.random.default_rng(8)
    X, w = rng.standard_normal((200, 3)), rng.random(200)
    feature_map = NystromFeatures(RBF(2.0), n_components, landmarks="uniform", random_state=0).fit(X).feature_map_
    Z = feature_map(X)
    source = devices.on_device(ArraySource(X, np.zeros(200), w), device)
    V = rng.standard_normal((n_components, 4))
    expected = Z.T @ (w[:, None] * (Z @ V))
    np.testing.assert_allclose(StreamedGram(source, feature_map) @ V, expected, rtol=0, atol=1e-8 * abs(expected).max())
    np.testing.assert_allclose(StreamedGram(source, feature_map) @ V[:, 0], expected[:, 0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_products_of_kernel_values_that_are_not_stored(k: int, weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import bochner.backends.torch as backend

    used = []

    def tiles(X: Any, Y: Any, form: Any, V: Any, out: Any) -> None:
        used.append((len(X), len(Y)))
        assert form == ("gaussian", 1)
        K = torch.exp(-0.5 * torch.cdist(X, Y) ** 2)
        out.copy_(K if V is None else K.to(V.dtype) @ V)

    monkeypatch.setattr(backend, "plain", replace(backend.plain, tiles=tiles))
    rng = np.random.default_rng(23)
    X, w = rng.standard_normal((200, 3)), rng.random(200) if weighted else None
    feature_map = NystromFeatures(RBF(2.0), 30, landmarks="uniform", random_state=0).fit(X).feature_map_
    Z, V = feature_map(X), rng.standard_normal((30, k))
    expected = Z.T @ ((1.0 if w is None else w[:, None]) * (Z @ V))
    found = StreamedGram(devices.on_device(ArraySource(X, np.zeros(200), w), "cpu"), feature_map) @ V
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8 * abs(expected).max())
    assert used == ([(200, feature_map.rank), (feature_map.rank, 200)] if k <= 4 else [])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["pooled", "accelerated", "greedy"])
@pytest.mark.parametrize("kernel", [RBF(1.0), Matern(2.0, nu=1.5), RBF(6.0)], ids=repr)
def test_pivots_on_a_device_are_those_of_the_host(kernel: Any, method: str, device: str) -> None:
    X = np.random.default_rng(9).standard_normal((1500, 4))
    for tol in (0.0, 0.05):
        host = RPCholesky(method).factor(Gram(X, kernel), 200, Key(1), tol)
        there = RPCholesky(method).factor(Gram(X, kernel, tensor(X, device)), 200, Key(1), tol)
        np.testing.assert_array_equal(there.pivots, host.pivots)
        # below the floor of 1e-11 a residual is nothing
        np.testing.assert_allclose(there.residual, host.residual, rtol=0, atol=1e-10)
        F = host.F[:, : host.rank]
        np.testing.assert_allclose(there.F[:, : there.rank].cpu().numpy(), F, rtol=0, atol=1e-5)
    with pytest.raises(ValueError, match="not finite"):
        RPCholesky(method).factor(Gram(X, kernel, tensor(X * np.nan, device)), 20, Key(1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("landmarks", ["uniform", "rpcholesky", "kmeans"])
@pytest.mark.parametrize("length_scale", [1.0, 6.0])
def test_landmarks_factored_on_a_device(
    length_scale: float, landmarks: str, dtype: type, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = np.random.default_rng(10).standard_normal((700, 4)).astype(dtype)
    model = NystromFeatures(RBF(length_scale), 150, landmarks=landmarks, random_state=0)
    host = clone(model).fit(X)
    monkeypatch.setattr(nystrom, "_DEVICE_ENTRIES", 0)
    there = clone(model).fit(tensor(X, device))
    pickle.dumps(there)
    wide = X.astype(np.float64)
    K = RBF(length_scale)(wide)
    Z, expected = there.transform(wide), host.transform(wide)
    error, own = (np.trace(K - F @ F.T) / len(K) for F in (Z, expected))
    rounding = 1e-4 if dtype is np.float32 else 1e-8
    assert abs(error - own) <= rounding
    assert abs(there.trace_error_ - error) <= rounding
    assert np.abs(K - Z @ Z.T).max() <= np.abs(K - expected @ expected.T).max() + rounding
    if landmarks != "kmeans" and host.effective_rank_ == 150:
        np.testing.assert_array_equal(np.sort(there.landmark_indices_), np.sort(host.landmark_indices_))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_falkon_on_a_device(dtype: type, weighted: bool, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nystrom, "_DEVICE_ENTRIES", 0)
    rng = np.random.default_rng(11)
    X = rng.standard_normal((4000, 4)).astype(dtype)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(4000)
    w = rng.random(4000) * (rng.random(4000) < 0.9) if weighted else None
    options: dict[str, Any] = {"features": "nystrom", "alpha": 1.0, "random_state": 0}
    expected = KernelRidge(RBF(2.0), 120, **options).fit(X, y, sample_weight=w).predict(X)
    for solver in ("cg", ConjugateGradient(tol=1e-6, max_iter=20)):
        model = KernelRidge(RBF(2.0), 120, solver=solver, device=device, **options).fit(X, y, sample_weight=w)
        assert model.report_.converged
        assert model.report_.iterations <= (60 if solver == "cg" else 20)
        assert np.linalg.norm(model.predict(X) - expected) <= (1e-3 if dtype is np.float32 else 1e-5) * np.linalg.norm(
            y
        )
    again = pickle.loads(pickle.dumps(model)).set_params(device=None)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=0, atol=2e-3 if dtype is np.float32 else 1e-8)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("loss", ["squared", "log_loss", "squared_hinge"])
def test_classifiers_on_a_device(loss: str, n_classes: int, features: str, device: str) -> None:
    rng = np.random.default_rng(12)
    X = rng.standard_normal((1500, 3)).astype(np.float32)
    level = np.sin(2 * X[:, 0]) + X[:, 1] + 0.4 * rng.standard_normal(1500)
    y = np.array(list("abcd"))[np.digitize(level, np.quantile(level, np.linspace(0, 1, n_classes + 1)[1:-1]))]
    w = rng.integers(0, 3, 1500).astype(float)
    model = KernelClassifier(RBF(1.5), 100, loss=loss, features=features, alpha=1.0, solver_tol=1e-8, random_state=0)
    host = clone(model).fit(X, y, w)
    there = clone(model).set_params(device=device).fit(X, y, w)
    scores = host.decision_function(X)
    assert np.linalg.norm(there.decision_function(X) - scores) <= 2e-3 * np.linalg.norm(scores)
    assert np.mean(there.predict(X) == host.predict(X)) > 0.99
    again = pickle.loads(pickle.dumps(there)).set_params(device=None)
    np.testing.assert_array_equal(again.classes_, host.classes_)
    assert np.mean(again.predict(X) == host.predict(X)) > 0.99


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [KernelRidge, KernelClassifier])
def test_models_saved_for_predictions_predict_on_a_device(kind: Any, dtype: type, device: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(600, 3)).astype(dtype)
    model = kind(RBF(2.0), 100, features="nystrom", alpha=0.01, random_state=0).fit(X, np.sin(X[:, 0]) > 0.3)
    bochner.save(model, tmp_path / "model", predict_only=True)
    there = bochner.load(tmp_path / "model").set_params(device=device)
    scores = "predict" if kind is KernelRidge else "decision_function"
    expected = getattr(model, scores)(X)
    for rows in (X, tensor(X, device)):
        found = getattr(there, scores)(rows)
        found = found.cpu().numpy() if torch.is_tensor(found) else found
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_scores", [1, 3])
@pytest.mark.parametrize("name", LOSSES)
def test_objectives_on_a_device_are_those_of_the_host(name: str, n_scores: int, weighted: bool, device: str) -> None:
    """Values, gradients, samples, products with the Hessian and steps; in float64, so that only sums differ."""
    rng = np.random.default_rng(7)
    X, Y = rng.standard_normal((300, 4)), np.where(rng.random((300, n_scores)) < 0.4, 1.0, -1.0)
    Y = np.abs(Y) if name == "poisson" else Y
    w = rng.integers(1, 4, 300).astype(float) if weighted else None
    feature_map = FourierFeatures(RBF(2.0), 30, random_state=0).fit(X).feature_map_
    here = Problem(ArraySource(X, Y, w), feature_map, LOSSES[name], 0.3, n_scores)
    there = replace(here, source=DeviceSource(here.source, device))
    P = 0.3 * rng.standard_normal(here.shape)
    for problem in (there, there.kept()):
        state, expected = problem.state(P), here.state(P)
        assert state.value == pytest.approx(expected.value, rel=1e-10)
        np.testing.assert_allclose(state.gradient, expected.gradient, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(state.curvature, expected.curvature, rtol=1e-10)
        for size in (100, 300):
            rows, like = (p.held(expected, size, Key(1)) for p in (problem, here))
            assert isinstance(rows.Z, torch.Tensor)
            assert len(rows) == len(like)
            for apart in (False, True):
                metric, other = (r.metric(Key(2), apart=apart, floor=1.0) for r in (rows, like))
                R = rng.standard_normal(P.shape)
                found = metric(tensor(R, device)).cpu().numpy()
                np.testing.assert_allclose(found, other(R), rtol=2e-4, atol=2e-5 * np.abs(other(R)).max())
                step, _ = rows.solve(R, metric)
                assert isinstance(step, np.ndarray)
                np.testing.assert_allclose(step, like.solve(R, other)[0], rtol=2e-2, atol=2e-2 * np.abs(step).max())
            product, bent = rows.product(tensor(R, device))
            np.testing.assert_allclose(product.cpu().numpy(), like.product(R)[0], rtol=1e-8, atol=1e-8)
            assert bent == pytest.approx(like.product(R)[1], rel=1e-10)


@pytest.mark.parametrize("loss", ["log_loss", "squared_hinge"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_rows_are_copied_to_a_device_once(loss: str, n_classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((700, 3))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(700), [0.0, 0.5][: n_classes - 1])
    copied = []
    copy = memory.Link.__call__
    monkeypatch.setattr(memory.Link, "__call__", lambda link, rows: copied.append(len(rows)) or copy(link, rows))
    model = KernelClassifier(RBF(1.5), 60, loss=loss, alpha=0.1, device="cpu", random_state=0).fit(X, y)
    assert model.report_.iterations > 2
    assert sum(copied) == 700


@pytest.mark.parametrize("shape", [(0, 3), (1, 700_000), (100_003, 7), (400_000,)])
def test_copies_on_several_threads(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "n_threads", lambda: 4)
    X = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
    for rows in (X, X[::-1], np.asfortranarray(X)):
        out = np.full(shape, np.nan, np.float32)
        memory._copy_rows(rows, out)
        np.testing.assert_array_equal(out, rows)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("weighted", [False, True])
def test_components_and_clusters_on_a_device(weighted: bool, device: str) -> None:
    rng = np.random.default_rng(13)
    X = (rng.standard_normal((900, 3)) + 4.0 * rng.integers(0, 3, (900, 1))).astype(np.float32)
    w = rng.integers(0, 3, 900).astype(float) if weighted else None
    components, clusters = (
        KernelPCA(3, kernel=RBF(3.0), random_state=0),
        KernelKMeans(3, kernel=RBF(3.0), random_state=0),
    )
    host, there = (clone(components).set_params(device=d).fit(X, sample_weight=w) for d in (None, device))
    np.testing.assert_allclose(there.eigenvalues_, host.eigenvalues_, rtol=1e-4)
    np.testing.assert_allclose(there.transform(X), host.transform(X), atol=1e-3)
    np.testing.assert_allclose(
        pickle.loads(pickle.dumps(there)).set_params(device=None).transform(X[:9]), host.transform(X[:9]), atol=1e-3
    )
    host, there = (clone(clusters).set_params(device=d).fit(X, sample_weight=w) for d in (None, device))
    np.testing.assert_array_equal(there.labels_, host.labels_)
    np.testing.assert_allclose(there.inertia_, host.inertia_, rtol=1e-4)
    np.testing.assert_array_equal(there.predict(X), there.labels_)
    np.testing.assert_array_equal(host.predict(torch.from_numpy(X)).numpy(), host.labels_)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("method", ["permutation", "asymptotic"])
@pytest.mark.parametrize("features", ["fourier", "nystrom"])
def test_two_samples_on_a_device(features: str, method: str, device: str) -> None:
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(120, 3)), rng.normal(size=(90, 3)) * [1.0, 1.2, 1.0]
    options: dict[str, Any] = {"features": features, "method": method, "n_permutations": 99, "random_state": 0}
    host, there = (mmd_test(X, Y, RBF(2.0), 40, **options, device=place) for place in (None, device))
    assert 0.01 < host.p_value < 1.0
    np.testing.assert_allclose(there.statistic, host.statistic, rtol=1e-6)
    np.testing.assert_allclose(there.p_value, host.p_value, rtol=1e-2)  # draws near the statistic


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_learned_metrics_and_local_models_on_a_device_are_those_of_the_host(
    device: str, family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float64 on both sides, so that only the order of sums differs; three steps of descent do not enlarge it much."""
    monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=np.inf))
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 4))
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), X[:, 1] * X[:, 2]])
    metric, other = (
        learn_metric(rows, Y, family, max_evaluations=3, per_column=per_column)
        for rows, per_column in ((X, True), (X, False))
    )
    there = learn_metric(tensor(X, device), Y, family, max_evaluations=3)
    np.testing.assert_allclose(there.kernel.scales(4), metric.kernel.scales(4), rtol=1e-6)
    assert there.alpha == pytest.approx(metric.alpha, rel=1e-6)
    mixed = shrink_metric(there, other, tensor(X, device), Y)
    assert mixed.error == pytest.approx(shrink_metric(metric, other, X, Y).error, rel=1e-6)
    if family != "laplacian":
        U, _ = learn_directions(X, Y, metric, max_evaluations=3)
        V, _ = learn_directions(tensor(X, device), Y, metric, max_evaluations=3)
        np.testing.assert_allclose(V, U, rtol=1e-6, atol=1e-6 * np.abs(U).max())
    tree, members = grow_tree(X, np.ones(4), 60, 0.25)
    model, left_out = fit_leaves(X, Y, metric.kernel, metric.alpha, tree, members)
    twin, errors = fit_leaves(X, Y, metric.kernel, metric.alpha, tree, members, device=device)
    np.testing.assert_allclose(errors, left_out, rtol=1e-6, atol=1e-8)
    new = rng.normal(size=(40, 4))
    np.testing.assert_allclose(twin.predict(new, device), model.predict(new), rtol=1e-6, atol=1e-8)
    assert all(isinstance(array, np.ndarray) for array in (twin.points, twin.coefficients, twin.intercepts))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("model", laws.TABLES, ids=lambda m: type(m).__name__)
def test_models_of_tables_on_a_device_are_those_of_the_host(
    device: str, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "POLICY", DescentPolicy(single_alpha=np.inf))
    rng = np.random.default_rng(5)
    X = rng.normal(size=(160, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = (y > 0).astype(int) if hasattr(model, "predict_proba") else y
    here, there = (clone(model).set_params(device=where, leaf_size=60).fit(X, y) for where in (None, device))
    for name in ("predict_proba", "predict_interval", "predict"):
        if hasattr(model, name):
            np.testing.assert_allclose(getattr(there, name)(X), getattr(here, name)(X), rtol=1e-4, atol=1e-4)
