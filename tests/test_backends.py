"""The native backend against its specification, entry by entry, and what only it promises."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context

import numpy as np
import pytest
import scipy.sparse

import bochner.backends.native as native_module
from backend_calls import ENTRIES, LINEAR, N_FEATURES, SCALE, TAIL, Call, calls, check_linear, strided
from bochner import RBF, FourierFeatures, _native
from bochner.backends import FLOATS, Backend, lapack, limit_threads, n_threads
from bochner.backends.memory import empty_columns
from bochner.backends.native import native, without_subnormals
from bochner.backends.reference import reference
from bochner.backends.threads import each
from bochner.backends.tiled import add_outer, mirrored

LEVELS = native_module.levels()


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run with the kernels of every level of the processor in turn."""
    native_module.use_level(request.param)
    yield request.param
    native_module.use_level(LEVELS[-1])


def output(call: Call, dtype: type) -> np.ndarray:
    """Return an `out` whose rows lie apart, full of NaN."""
    n = call.arguments[0].shape[0]
    return np.full((2 * n, call.n_columns + 5), np.nan, dtype)[::2, 2 : call.n_columns + 2]


def run(function: Callable[..., None], call: Call, dtype: type) -> np.ndarray:
    """Return what the entry writes (`fwht`: the changed copy of its argument)."""
    if call.n_columns == 0:
        V = call.arguments[0].copy()
        function(V)
        return V
    out = output(call, dtype)
    function(*call.arguments, out)
    around = out.base if out.base is not None else out
    assert np.isnan(around[:, :2]).all()
    assert np.isnan(around[:, -3:]).all()
    assert np.isnan(around[1::2]).all()
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_nonzeros(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_module, "_SMALL", 1)
    rng = np.random.default_rng(4)
    for n, T in ((0, 3), (1, 1), (5, 0), (47, 33)):
        A = strided((rng.standard_normal((n, T)) * rng.integers(0, 2, (n, T))).astype(dtype))
        expected = scipy.sparse.csr_array(A)
        for backend in (reference, native):
            columns, values = np.empty(expected.nnz, np.int32), np.empty(expected.nnz, dtype)
            with limit_threads(3):
                backend.nonzeros(A, expected.indptr, columns, values)
            np.testing.assert_array_equal(columns, expected.indices)
            np.testing.assert_array_equal(values, expected.data)


@pytest.mark.parametrize("m", [1, 70, 600, 1100])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", LINEAR)
def test_sums_and_factorisations_agree_with_reference(entry: str, dtype: type, m: int) -> None:
    for threads in (1, 3):
        with limit_threads(threads):
            check_linear(native, entry, dtype, m, lambda a: a.copy("K"), np.asarray)


@pytest.mark.parametrize("backend", [reference, native], ids=lambda backend: backend.name)
@pytest.mark.parametrize("m", [1, 70, 1100])
def test_matrices_without_a_cholesky_factor(backend: Backend, m: int) -> None:
    G = np.asfortranarray(np.eye(m))
    G[-1, -1] = -2.0
    assert backend.cholesky(G.copy("K"), 1.0) is None
    np.testing.assert_array_equal(backend.cholesky(G, 3.0), np.diag([*[2.0] * (m - 1), 1.0]))


def test_every_entry_is_replaced() -> None:
    assert all(getattr(native, entry) is not getattr(reference, entry) for entry in ENTRIES)


@pytest.mark.parametrize("d", N_FEATURES)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.usefixtures("level")
def test_native_agrees_with_reference(entry: str, dtype: type, d: int) -> None:
    for n in (0, 1, 2, 13):
        for call in calls(entry, dtype, n, d):
            got = run(getattr(native, entry), call, dtype)
            expected = run(getattr(reference, entry), call, dtype)
            assert got.dtype == dtype
            bound = 2 * np.finfo(dtype).eps * call.rounding
            assert (abs(got.astype(np.float64) - expected) <= bound).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.usefixtures("level")
def test_rows_do_not_depend_on_batch_or_threads(entry: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_module, "_SMALL", 1)
    function = getattr(native, entry)
    for d in (3, 17, 100, 520):  # rows go abreast, as many as fit into the cache; the last ones by themselves
        *_, call = calls(entry, dtype, 47, d)
        with limit_threads(1):
            expected = run(function, call, dtype)
        for threads in (2, 3, 8):
            with limit_threads(threads):
                np.testing.assert_array_equal(run(function, call, dtype), expected)
        for rows in (slice(0, 1), slice(46, 47), slice(5, 7), slice(13, 40)):
            X, *others = call.arguments
            if entry == "signed_sums":  # weights of every row
                others[1] = others[1][rows]
            part = Call((X[rows], *others), call.n_columns, None)
            np.testing.assert_array_equal(run(function, part, dtype), expected[rows])


# Sums without products: no FMA can round them otherwise.
UNFUSED = {
    *("fwht", "structured_phases", "fastfood_phases", "absolute_distances", "signed_sums", "sparse_rows"),
    "subsampled_hadamard",
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_levels_give_the_same_bits(entry: str, dtype: type, request: pytest.FixtureRequest) -> None:
    """All but the baseline have FMA; where it rounds products and sums at once, the baseline differs by rounding."""
    request.addfinalizer(lambda: native_module.use_level(LEVELS[-1]))
    for d in (1, 3, 11, 100, 520):
        for call in calls(entry, dtype, 13, d):
            found = {}
            for name in LEVELS:
                native_module.use_level(name)
                found[name] = run(getattr(native, entry), call, dtype)
            for name in LEVELS[:-1]:
                if name != "baseline" or entry in UNFUSED:
                    np.testing.assert_array_equal(found[name], found[LEVELS[-1]])
                else:
                    bound = 2 * np.finfo(dtype).eps * call.rounding
                    assert (abs(found[name].astype(np.float64) - found[LEVELS[-1]]) <= bound).all()


FEATURES_AT_A_LEVEL = """
import numpy as np
from bochner import FourierFeatures, RBF
from bochner.backends.native import level
X = np.linspace(-2.0, 2.0, 240).reshape(20, 12)
Z = FourierFeatures(RBF(1.0), 64, random_state=0).fit_transform(X)
print(level(), Z.tobytes().hex())
"""


def run_at(level: str) -> subprocess.CompletedProcess[str]:
    """Features made by another process, where BOCHNER_LEVEL names the level."""
    command = [sys.executable, "-c", FEATURES_AT_A_LEVEL]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "BOCHNER_LEVEL": level})


def test_a_level_can_be_chosen_and_keeps_the_features() -> None:
    """Same seed, same features: to the last bit with FMA, to 14 digits (of a feature of size one) without."""
    best = FourierFeatures(RBF(1.0), 64, random_state=0).fit_transform(np.linspace(-2.0, 2.0, 240).reshape(20, 12))
    for name in LEVELS:
        done = run_at(name)
        used, data = done.stdout.split()
        assert used == name
        Z = np.frombuffer(bytes.fromhex(data)).reshape(20, 64)
        np.testing.assert_allclose(Z, best, rtol=0, atol=1e-14 if name == "baseline" else 0)
    done = run_at("v5")
    assert done.returncode != 0
    assert f"expected BOCHNER_LEVEL to be one of {', '.join(LEVELS)} on this processor, got 'v5'" in done.stderr


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("entry", [entry for entry in ENTRIES if entry.endswith("pairs")])
@pytest.mark.usefixtures("level")
def test_streamed_columns_are_the_same(entry: str, dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    # A large array begins at a cache line, where streaming is possible; far phases are written twice.
    monkeypatch.setattr(native_module, "_STREAMED", 0)
    for d in (3, 100):
        for call in calls(entry, dtype, 13, d):
            rows = 2 * 1_000_000 // (call.n_columns + 8)
            out = empty_columns(rows, -(-call.n_columns // 16) * 16, dtype)[:13, : call.n_columns]
            assert out.ctypes.data % 64 == 0
            X = call.arguments[0].copy()
            X[3] *= dtype(1e5)
            arguments = (X, *call.arguments[1:])
            getattr(native, entry)(*arguments, out)
            unaligned = run(getattr(native, entry), Call(arguments, call.n_columns, None), dtype)
            np.testing.assert_array_equal(out, unaligned)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_dense_pairs_take_w_in_either_order(dtype: type) -> None:
    rng = np.random.default_rng(1)
    X, W = rng.standard_normal((9, 33)).astype(dtype), rng.standard_normal((301, 33)).astype(dtype)
    expected = np.empty((9, 602), dtype)
    native.dense_pairs(X, W, SCALE, TAIL, expected)
    for rows in (slice(0, 9), slice(4, 5)):
        out = np.empty_like(expected[rows])
        native.dense_pairs(X[rows], np.asfortranarray(W), SCALE, TAIL, out)
        np.testing.assert_array_equal(out, expected[rows])


def sincos(phases: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    out = np.empty((1, 2 * phases.size), phases.dtype)
    native.pairs(phases.reshape(1, -1), 1.0, 0.0, out)
    return out[0, 1::2], out[0, 0::2]


def ulps(got: np.ndarray, truth: np.ndarray) -> float:
    """Return the largest error in units of the last place of the truth (an extended-precision array)."""
    unit = np.spacing(abs(truth).astype(got.dtype)).astype(np.longdouble)
    return float((abs(got - truth) / unit).max())


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="needs extended precision for the truth")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_sine_and_cosine_are_within_two_ulp(dtype: type) -> None:
    rng = np.random.default_rng(2)
    quarter_turns = np.arange(-8148, 8149) * (np.pi / 2)
    near = quarter_turns.astype(dtype)
    phases = np.concatenate(
        [
            rng.uniform(-12800, 12800, 500_000),
            rng.uniform(-4, 4, 500_000),
            10.0 ** rng.uniform(-30, 5, 200_000),
            rng.uniform(-1e-3, 1e-3, len(near)) + quarter_turns,
            quarter_turns + np.pi / 4,
            12800 + rng.uniform(-1, 1, 1000),
        ]
    ).astype(dtype)
    infinity = dtype(np.inf)
    phases = np.concatenate([phases, near, np.nextafter(near, infinity), np.nextafter(near, -infinity)])
    sine, cosine = sincos(phases)
    exact = phases.astype(np.longdouble)
    assert ulps(sine, np.sin(exact)) <= 2
    assert ulps(cosine, np.cos(exact)) <= 2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_fused_sine_and_cosine_err_by_the_rounding_of_their_phase(dtype: type) -> None:
    """Phases ±lengths of one feature equal to one, made in quarter turns.

    Three roundings (2/π, its product with x, the product with the length) err by u each, relative to the phase; sine
    and cosine by 2 ulp, 4 u at most.
    """
    rng = np.random.default_rng(5)
    T = 100_000
    lengths = np.concatenate([10.0 ** rng.uniform(-20, 4, T), np.arange(8000) * np.pi / 4]).astype(np.float32)
    signs = rng.choice(np.array([-1, 1], np.int8), (len(lengths), 3, 1))
    out = np.empty((1, 2 * len(lengths)), dtype)
    native.structured_pairs(np.ones((1, 1), dtype), signs, lengths, 1.0, 0.0, out)
    phases = signs.prod(axis=(1, 2)) * lengths.astype(np.longdouble)
    u = np.finfo(dtype).eps / 2
    for got, truth in ((out[0, 0::2], np.cos(phases)), (out[0, 1::2], np.sin(phases))):
        assert (abs(got - truth) <= u * (3 * abs(phases) + 4)).all()
    small = lengths < np.pi / 4  # there nothing is subtracted, and sines keep their digits
    sines = np.sin(phases[small])
    assert (abs(out[0, 1::2][small] - sines) <= u * 7 * abs(sines)).all()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_sine_and_cosine_of_huge_phases(dtype: type) -> None:
    rng = np.random.default_rng(3)
    phases = 10.0 ** rng.uniform(4, np.log10(np.finfo(dtype).max) - 1, 20_001) * rng.choice([-1, 1], 20_001)
    phases = np.append(phases, [np.finfo(dtype).max, -np.finfo(dtype).max]).astype(dtype)
    for got, function in zip(sincos(phases), (np.sin, np.cos), strict=True):
        assert ulps(got, function(phases.astype(np.float64)).astype(np.longdouble)) <= 2


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.usefixtures("level")
def test_sine_and_cosine_of_special_values(dtype: type) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    with np.errstate(all="raise"):
        sine, cosine = sincos(np.array([0.0, -0.0, tiny, np.inf, -np.inf, np.nan, 1e30, 1.0], dtype))
    np.testing.assert_array_equal(sine[:3], [0, 0, tiny])
    np.testing.assert_array_equal(cosine[:3], [1, 1, 1])
    assert np.isnan(sine[3:6]).all()
    assert np.isnan(cosine[3:6]).all()
    assert np.isfinite(sine[6:]).all()  # neighbours of NaN and infinity are untouched
    np.testing.assert_allclose([sine[7], cosine[7]], [np.sin(1.0), np.cos(1.0)], rtol=2 * np.finfo(dtype).eps)


@pytest.mark.parametrize(("q", "dtype"), [*((q, dtype) for q in range(21) for dtype in FLOATS), (24, np.float32)])
@pytest.mark.usefixtures("level")
def test_hadamard_transform_is_an_involution(q: int, dtype: type) -> None:
    # Integers below 2^24 are exact in float32, so H H x = 2^q x exactly.
    p = 1 << q
    X = np.zeros((1 if q > 12 else 3, p), dtype)
    X[:, :: max(1, p // 8)] = np.random.default_rng(q).integers(-1, 2, X[:, :: max(1, p // 8)].shape)
    twice = X.copy()
    native.fwht(twice)
    np.testing.assert_array_equal(twice[:, 0], X.sum(axis=1))
    native.fwht(twice)
    np.testing.assert_array_equal(twice, p * X)


def test_wrong_arguments_are_refused() -> None:
    X = np.zeros((4, 6), np.float32)
    with pytest.raises(ValueError, match="2\\^q"):
        native.fwht(X)
    with pytest.raises(ValueError, match="unit stride"):
        native.fwht(X[:, ::3])
    with pytest.raises(ValueError, match="out"):
        native.pairs(X, 1.0, 0.0, np.zeros((4, 10), np.float32))
    with pytest.raises(TypeError):
        native.pairs(X, 1.0, 0.0, np.zeros((4, 12), np.float64))


HUGE = (2**64 - 1, 2**64 - 16, 2**64 - 32, 2**63, 2**63 - 16, 2**32, 2**31, 32, 16)
# names of arguments that numbers are counted or rows looked up with, and a valid call of 2 rows, 4 columns
INDEXED: dict[str, tuple[tuple[str, ...], dict[str, object]]] = {
    "add_gram": (
        ("bits", "n_rows", "first_row", "first_column"),
        {
            "bits": 16,
            "packed": np.zeros((1, 4096), np.int32),
            "n_rows": 2,
            "units": np.ones(16, np.float32),
            "first_row": 0,
            "first_column": 0,
            "out": np.zeros((16, 16)),
        },
    ),
    "pack_slab": (
        ("bits",),
        {
            "bits": 16,
            "Z": np.ones((2, 4), np.float32),
            "units": np.ones(4, np.float32),
            "inverses": np.ones(4, np.float32),
            "packed": np.zeros((1, 4096), np.int32),
        },
    ),
    "sparse_rows": (
        ("indptr", "indices"),
        {
            "X": np.ones((2, 4)),
            "indptr": np.arange(5, dtype=np.int32),
            "indices": np.arange(4, dtype=np.int32),
            "signs": np.ones(4, np.int8),
            "lengths": np.ones(4),
            "out": np.zeros((2, 4)),
        },
    ),
    "sparse_rows_of_sparse": (
        ("row_stops", "columns", "indptr", "indices"),
        {
            "row_stops": np.array([0, 2, 4], np.int32),
            "columns": np.array([0, 3, 1, 2], np.int32),
            "values": np.ones(4),
            "indptr": np.arange(5, dtype=np.int32),
            "indices": np.arange(4, dtype=np.int32),
            "signs": np.ones(4, np.int8),
            "lengths": np.ones(4),
            "out": np.zeros((2, 4)),
        },
    ),
    "subsampled_hadamard": (
        ("picks",),
        {
            "X": np.ones((2, 4)),
            "signs": np.ones((1, 4), np.int8),
            "picks": np.arange(4, dtype=np.int32),
            "lengths": np.ones(4),
            "out": np.zeros((2, 4)),
        },
    ),
}
# indices that are taken modulo the size of a block, and calls that have none
UNINDEXED = {"fastfood_phases", "fastfood_pairs"} | {
    *("fwht", "pairs", "cosines", "dense_pairs", "structured_phases", "structured_pairs", "squared_distances"),
    *("absolute_distances", "kernel_values", "signed_sums", "mirror", "nonzeros", "extents", "flush_subnormals"),
    *("has_vnni", "level", "levels", "use_level"),
}


def test_every_compiled_function_has_its_indices_checked() -> None:
    compiled = {name for name in dir(_native) if callable(getattr(_native, name)) and not name.startswith("_")}
    assert compiled == INDEXED.keys() | UNINDEXED


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.usefixtures("level")
def test_no_number_leads_out_of_an_array(name: str) -> None:
    """Also where the sum of two numbers is larger than any number, and comes out small."""
    function, (indices, valid) = getattr(_native, name), INDEXED[name]
    function(**valid)
    for index in indices:
        if isinstance(valid[index], int):
            hostile: list[object] = [value for value in HUGE if index != "bits" or value != 16]
            hostile += [-1, -16] if index != "n_rows" else [-1]
            if index == "n_rows":
                hostile = [value for value in hostile if value not in (16, 32)]  # rows that the slab has room for
        else:
            hostile = [np.empty(0, np.int32)]
            for position in range(len(valid[index])):  # type: ignore[arg-type]
                for value in (-1, -(2**31), 2**31 - 1, 5):
                    hostile.append(np.array(valid[index]))
                    hostile[-1][position] = value  # type: ignore[index]
        for value in hostile:
            with pytest.raises((ValueError, TypeError), match=r"expected|incompatible"):
                function(**{**valid, index: value})


def test_orders_of_blocks_are_taken_modulo_their_size() -> None:
    X, out = np.ones((2, 4)), np.zeros((2, 4))
    block = np.ones((1, 4), np.int8), np.array([[-1, 4, 2**31 - 1, -(2**31)]], np.int32), np.ones((1, 4), np.float32)
    native.fastfood_phases(X, *block, np.ones(4, np.float32), out)
    inside = np.array([[3, 0, 3, 0]], np.int32)
    same = np.zeros((2, 4))
    native.fastfood_phases(X, block[0], inside, block[2], np.ones(4, np.float32), same)
    np.testing.assert_array_equal(out, same)


def _columns_in_a_fork() -> float:
    out = np.empty((4096, 256), np.float32)
    with limit_threads(2):
        native.pairs(np.zeros((4096, 128), np.float32), 1.0, 0.0, out)
    return float(out.sum())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_threads_after_a_fork() -> None:
    assert _columns_in_a_fork() == 4096 * 128  # the pool exists in the parent now
    with get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_columns_in_a_fork).get(timeout=60) == 4096 * 128


def test_limit_threads() -> None:
    with limit_threads(3):
        assert n_threads() == 3
    with pytest.raises(ValueError, match="n_jobs"), limit_threads(0):
        pass


def test_jobs_that_have_jobs_of_their_own_keep_the_limits() -> None:
    seen: list[int] = []

    def inner(number: int) -> None:
        time.sleep(0.001)
        seen.append(n_threads())

    def outer(number: int) -> None:
        each(inner, range(5), 3)

    with limit_threads(2):
        each(outer, range(8), 8)  # more than there are threads: all of them wait for jobs of their own
    assert seen == [2] * 40


@pytest.fixture
def integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bochner.backends.native.integers_pay", lambda: True)


@pytest.mark.usefixtures("level", "integers")
@pytest.mark.parametrize(("n", "m"), [(1, 1), (2, 16), (511, 50), (513, 64), (1300, 133)])
def test_fixed_point_products_are_exact(n: int, m: int) -> None:
    """The rows move by half a unit at most; the products of the rounded rows are exact but for the last bit."""
    given = np.cos(9.0 * np.random.default_rng(0).standard_normal((n, m))).astype(np.float32)
    given[0, 0] = 1.0
    Z = given.copy()
    fixed = native.fixed_point(Z)
    assert fixed is not None
    unit = np.sqrt(12.0 * fixed.noise / n)
    assert 1.0 <= 4095.0 * unit <= 1.0 + 2.0**-7
    assert np.abs(Z - given).max() <= 0.501 * unit
    exact = np.rint(Z / unit).astype(np.int64)
    np.testing.assert_array_equal(Z, exact * np.float64(np.float32(unit)))  # float32 holds them to the last bit
    expected = (exact.T @ exact) * unit**2
    for step in (16, 48, 512):
        parts = [slice(start, min(start + step, m)) for start in range(0, m, step)]
        out = np.ones((m, m))
        for j, columns in enumerate(parts):
            for rows in parts[: j + 1]:
                fixed.add(rows, columns, out[rows, columns])
        upper = np.triu_indices(m)
        np.testing.assert_allclose(out[upper], 1.0 + expected[upper], rtol=1e-12, atol=1e-12 * n)


@pytest.mark.usefixtures("integers")
def test_fixed_point_rounds_rows_alike_in_any_company() -> None:
    """However rows are cut into blocks, and whatever the number of columns makes of the scale."""
    for m in (64, 90, 100, 777):
        X = np.random.default_rng(m).standard_normal((1100, 3)).astype(np.float32)
        Z = FourierFeatures(RBF(0.3), m, random_state=0).fit_transform(X)
        whole, parts = Z.copy(), [Z[:300].copy(), Z[300:1000].copy(), Z[1000:].copy()]
        assert native.fixed_point(whole) is not None
        assert all(native.fixed_point(part) is not None for part in parts)
        np.testing.assert_array_equal(np.vstack(parts), whole)


@pytest.mark.usefixtures("level", "integers")
@pytest.mark.parametrize(("n", "m"), [(1, 1), (3, 16), (1023, 50), (1025, 64), (2600, 133)])
def test_products_of_eight_bits_are_exact(n: int, m: int) -> None:
    """The rows move by less than a unit, to 127 of them at most, and their products are exact but for the last bit."""
    given = np.cos(9.0 * np.random.default_rng(0).standard_normal((n, m))).astype(np.float32)
    given[0, 0] = -1.0
    Z = given.copy()
    fixed = native.fixed_point(Z, 0, 1.0)
    assert fixed is not None
    unit = np.sqrt(6.0 * fixed.noise / n)
    assert 1.0 <= 126.0 * unit <= 1.0 + 2.0**-7
    assert np.abs(Z - given).max() <= 1.0001 * unit
    exact = np.rint(Z / np.float32(unit)).astype(np.int64)
    assert np.abs(exact).max() <= 127
    expected = (exact.T @ exact) * unit**2
    out = np.ones((m, m))
    for start in range(0, m, 48):
        columns = slice(start, min(start + 48, m))
        fixed.add(slice(0, columns.stop), columns, out[: columns.stop, columns])
    upper = np.triu_indices(m)
    np.testing.assert_allclose(out[upper], 1.0 + expected[upper], rtol=1e-7, atol=1e-7 * n)


@pytest.mark.usefixtures("level", "integers")
def test_eight_bits_are_right_on_average() -> None:
    """However little a column varies: rounding goes up or down at random. Mean and variance by z-score; equal rows
    are rounded alike, others not, and rows alike in any company."""
    rng = np.random.default_rng(0)
    n, m = 6000, 40
    levels = rng.uniform(-1.0, 1.0, m)
    given = (levels + 1e-4 * rng.standard_normal((n, m))).astype(np.float32)
    given[:, 0] = rng.uniform(-1.0, 1.0, n)
    given[:, 1] = 0.3  # what one-hot features are
    given[:, 2] = 1.0
    given[1] = given[0]
    Z = given.copy()
    fixed = native.fixed_point(Z, 0, 1.0)
    assert fixed is not None
    unit = np.sqrt(6.0 * fixed.noise / n)
    np.testing.assert_array_equal(Z[0], Z[1])
    changes = (Z[1:].astype(np.float64) - given[1:]) / unit
    share = np.mod(given[0] / unit, 1.0)  # of a unit: the probability to go up
    spread = np.sqrt(share * (1.0 - share))
    spread[0] = np.sqrt(1.0 / 6.0)
    assert (np.abs(changes.mean(axis=0)) <= 5.0 * (spread + 0.02) / np.sqrt(n)).all()
    assert abs(changes[:, 0].var() * 6.0 - 1.0) <= 5.0 * np.sqrt(0.8 / n)
    together = np.corrcoef(changes[:, 3:].T)
    np.fill_diagonal(together, 0.0)
    assert np.abs(together).max() <= 6.0 / np.sqrt(n)
    parts = [given[:700].copy(), given[700:2000].copy(), given[2000:].copy()]
    assert all(native.fixed_point(part, 0, 1.0) is not None for part in parts)
    np.testing.assert_array_equal(np.vstack(parts), Z)


@pytest.mark.usefixtures("integers")
def test_eight_bits_are_used_where_their_variance_is_allowed() -> None:
    given = np.cos(9.0 * np.random.default_rng(0).standard_normal((3000, 40))).astype(np.float32)
    given[0, 0] = 1.0
    coarse = native.fixed_point(given.copy(), 0, 1.0).noise / len(given)
    for budget, bits in ((0.0, 16), (0.99 * coarse, 16), (1.01 * coarse, 8), (1.0, 8)):
        fixed = native.fixed_point(given.copy(), 0, budget)
        assert fixed is not None
        assert fixed.bits == bits
        assert bits == 16 or fixed.noise <= budget * len(given)
    large = given.copy()
    large[2999] *= 10.0  # one slab asks for more bits: all have them
    fixed = native.fixed_point(large, 0, 1.01 * coarse)
    assert fixed is None or fixed.bits == 16


@pytest.mark.usefixtures("integers")
def test_fixed_point_is_for_features_of_one_size() -> None:
    """Where rounding would lose something, and where there is nothing to gain, rows stay what they are."""
    rng = np.random.default_rng(0)
    flat = np.cos(9.0 * rng.standard_normal((600, 40))).astype(np.float32)
    uneven = (flat * np.geomspace(1.0, 1e-3, 40)).astype(np.float32)
    missing, infinite = flat.copy(), flat.copy()
    missing[599, 3], infinite[0, 0] = np.nan, np.inf
    huge, tiny, nothing = flat * np.float32(1e20), flat * np.float32(1e-20), np.zeros_like(flat)
    for Z in (uneven, missing, infinite, huge, tiny, nothing, flat.astype(np.float64), flat[:0], flat[:, :0]):
        before = Z.copy()
        assert native.fixed_point(Z) is None
        np.testing.assert_array_equal(Z, before)


@pytest.mark.usefixtures("level", "integers")
@pytest.mark.parametrize("shape", [(1024, 128), (1700, 133)])
def test_uneven_columns_have_units_of_their_own(shape: tuple[int, int]) -> None:
    """Products are exact although integers have all 16 bits, and every column keeps its digits."""
    rng = np.random.default_rng(0)
    m = shape[1]
    given = (rng.standard_normal(shape) * np.geomspace(1.0, 1e-6, m)).astype(np.float32)
    given[:, 1] = 3.0  # as large as 128 squares allow
    given[::400, 2] = 1e3  # few large entries
    given[:, 3] = 0.0
    Z = given.copy()
    fixed = native.fixed_point(Z)
    assert fixed is not None
    wide = Z.astype(np.float64)
    out = np.zeros((m, m))
    fixed.add(slice(0, m), slice(0, m), out)
    upper = np.triu_indices(m)
    lengths = np.linalg.norm(wide, axis=0)
    expected = wide.T @ wide
    # float32 holds the multiples of a unit exactly
    assert (np.abs(out - expected)[upper] <= 1e-14 * len(Z) * np.outer(lengths, lengths)[upper]).all()
    errors = ((wide - given) ** 2).sum(axis=0)
    assert (errors <= 1.5 * 4e-8 * (given.astype(np.float64) ** 2).sum(axis=0)).all()
    assert (Z[:, 3] == 0.0).all()


@pytest.mark.usefixtures("integers")
def test_fixed_point_noise_is_a_twelfth_of_the_unit_squared() -> None:
    """Rounding errors are uniform: their variance within 5 standard errors, their mean too."""
    given = np.random.default_rng(1).uniform(-1.0, 1.0, (5000, 200)).astype(np.float32)
    Z = given.copy()
    fixed = native.fixed_point(Z)
    assert fixed is not None
    changes = (Z.astype(np.float64) - given).ravel()
    v = fixed.noise / len(Z)
    assert abs(changes.mean()) <= 5.0 * np.sqrt(v / changes.size)
    assert abs(changes.var() / v - 1.0) <= 5.0 * np.sqrt(0.8 / changes.size)


def test_subnormal_numbers_are_zero_where_asked_and_nowhere_else():
    least = np.finfo(np.float32).tiny
    small = np.array([least], dtype=np.float32)
    if platform.machine() not in ("x86_64", "AMD64", "aarch64", "arm64"):
        pytest.skip("this processor's flag is not known")
    assert (small / 2)[0] > 0
    with without_subnormals():
        assert (small / 2)[0] == 0
        with without_subnormals():
            pass
        assert (small / 2)[0] == 0
    assert (small / 2)[0] > 0


def test_matrices_without_rows_have_inverses(capfd: pytest.CaptureFixture[str]) -> None:
    """As of a kernel that is zero on all rows, which has no pivots; LAPACK would complain in print."""
    empty = np.empty((0, 0), order="F")
    assert native.triangular_inverse(empty).shape == (0, 0)
    assert native.cholesky_inverse(empty).shape == (0, 0)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [0, 1, 2, 7, 130])
def test_lapack_without_the_lock_is_that_of_scipy(m, dtype):
    """In place, also in a part of a larger matrix, whose other numbers stay."""
    A = np.random.default_rng(m).normal(size=(m, m)).astype(dtype)
    A = A @ A.T + m * np.eye(m, dtype=dtype)
    whole = np.full((m + 3, m + 2), 7.0, dtype, order="F")
    part = whole[1 : m + 1, 2:]
    part[:] = A
    assert lapack.potrf(part)
    tolerance = 100.0 * np.finfo(dtype).eps * max(m, 1)
    np.testing.assert_allclose(part @ part.T, A, rtol=tolerance, atol=tolerance * max(m, 1))
    assert not np.triu(part, 1).any()
    L, B = np.array(part, order="F"), np.asfortranarray(np.ones((m, 3), dtype))
    if m:
        lapack.potrs(L, B)
        np.testing.assert_allclose(A @ B, 1.0, rtol=tolerance)
        inverse = L.copy(order="F")
        lapack.trtri(inverse)
        np.testing.assert_allclose(inverse @ L, np.eye(m), atol=tolerance)
        inverse = L.copy(order="F")
        lapack.potri(inverse)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        np.testing.assert_allclose(inverse @ A, np.eye(m), atol=tolerance)
    whole[1 : m + 1, 2:] = 7.0
    assert (whole == 7.0).all()


def test_lapack_tells_of_a_matrix_without_a_factor():
    assert not lapack.potrf(np.asfortranarray([[1.0, 2.0], [2.0, 1.0]]))
    with pytest.raises(ValueError, match="Fortran order"):
        lapack.potrf(np.ones((3, 3)))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 300])
@pytest.mark.usefixtures("level")
def test_mirrored_is_the_symmetric_matrix_of_its_lower_triangle(n: int, dtype: type) -> None:
    lower = np.tril(np.random.default_rng(n).standard_normal((n, n)).astype(dtype))
    for order in ("C", "F"):
        A = np.array(lower + np.triu(np.full((n, n), np.nan, dtype), 1), order=order)
        np.testing.assert_array_equal(mirrored(A), lower + np.tril(lower, -1).T)


@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_outer_products_are_added_row_after_row(k: int) -> None:
    rng = np.random.default_rng(k)
    A, U, V = rng.standard_normal((200, 150)), rng.standard_normal((200, k)), rng.standard_normal((150, k))
    expected = A + U @ V.T
    add_outer(A, U, V)
    np.testing.assert_allclose(A, expected, rtol=0, atol=1e-13)
