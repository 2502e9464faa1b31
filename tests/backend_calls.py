"""Calls of every entry of the backend record, with the error that rounding explains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import PROFILES, SLOPES, Backend
from bochner.backends.reference import reference

# not walked: what describes a backend, what moves arrays, and entries with tests of their own
OTHERS = ("name", "xp", "block_bytes", "empty", "place", "keep", "fetch", "nonzeros", "fixed_point", "tiles")
# sums and factorisations, whose arguments are of other shapes: see `linear_calls`
LINEAR = ("gram", "moments", "gram_product", "rank_one", "cholesky", "cholesky_solve", "triangular_inverse", "eigh")
LINEAR += ("cholesky_inverse", "fetch_lower")
ENTRIES = [field.name for field in fields(Backend) if field.name not in (*OTHERS, *LINEAR)]
N_FEATURES = [1, 3, 11, 100, 128]
SCALE, TAIL = 0.125, 0.7


@dataclass
class Call:
    """Arguments of one entry before `out`, and the largest error that rounding explains, in units of u."""

    arguments: tuple[Any, ...]
    n_columns: int
    rounding: Any


def strided(array: np.ndarray) -> np.ndarray:
    """Return a read-only copy whose rows lie apart in a larger array."""
    larger = np.full((2 * array.shape[0], array.shape[1] + 3), np.nan, array.dtype)
    view = larger[::2, 1 : array.shape[1] + 1]
    view[...] = array
    view.flags.writeable = False
    return view


def profiles(r: np.ndarray, total: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Arguments a of the exponential in each kernel, and how fast it falls there, -dk/da; the same of k'(r) / r."""
    a3, a5 = np.sqrt(3.0) * r, np.sqrt(5.0) * r
    found = {
        "gaussian": (0.5 * r * r, np.exp(-0.5 * r * r)),
        "matern12": (r, np.exp(-r)),
        "matern32": (a3, a3 * np.exp(-a3)),
        "matern52": (a5, a5 * (1.0 + a5) / 3.0 * np.exp(-a5)),
        "laplacian": (total, np.exp(-total)),
        "gaussian slope": (0.5 * r * r, np.exp(-0.5 * r * r)),
        "matern12 slope": (r, (1.0 + 1.0 / r) * np.exp(-r) / r),
        "matern32 slope": (a3, 3.0 * np.exp(-a3)),
        "matern52 slope": (a5, 5.0 / 3.0 * a5 * np.exp(-a5)),
    }
    assert found.keys() == {*PROFILES, *SLOPES}
    return found


def calls(entry: str, dtype: type, n: int, d: int, seed: int = 0) -> Iterator[Call]:
    """Yield calls of one entry, with the error bound of each.

    A sum of m products in any order is within m u Σ|terms| of the truth, u the unit roundoff [Higham 2002,
    §3.1]; cosine and sine add the error of the phase and 4 u of their own. Both sides err: twice the bound.
    """
    rng = np.random.default_rng(seed)
    X = strided(rng.standard_normal((n, d)).astype(dtype))
    size = np.abs(X).astype(np.float64)
    norm = np.sqrt((size**2).sum(axis=1, keepdims=True))
    p = 1 << (d - 1).bit_length()
    levels = p.bit_length()
    for T in (1, 5, 16, 2 * p + 3, 40 * p if p < 16 else 3 * p):
        blocks = -(-T // p)
        lengths = rng.uniform(0.5, 3.0, T).astype(np.float32)
        gains = rng.standard_normal((blocks, p)).astype(np.float32)
        signs = rng.choice(np.array([-1, 1], np.int8), (blocks, 3, p))
        order = np.stack([rng.permutation(p) for _ in range(blocks)]).astype(np.int32)
        W = rng.standard_normal((T, d)).astype(dtype)
        Y = rng.standard_normal((T, d)).astype(dtype)
        phases = 30 * rng.standard_normal((n, T)).astype(dtype)
        dense = (d + 2) * (size @ np.abs(W).T.astype(np.float64)) + 4
        # A transform of v errs by levels · u · ‖v‖·√p an entry at most; norms grow by √p a transform.
        structured = (3 * levels + 6) * norm * lengths + 4
        scaled = lengths / np.float32(p)
        fastfood = (2 * levels + 6) * norm * scaled * p * np.repeat(abs(gains).max(axis=1), p)[:T] + 4
        match entry:
            case "fwht":
                V = rng.standard_normal((n, p)).astype(dtype)
                yield Call((V,), 0, levels * abs(V).sum(axis=1, keepdims=True))
            case "cosines":
                offsets = rng.uniform(0, 6.3, T).astype(dtype)
                yield Call((strided(phases), offsets, SCALE), T, SCALE * (abs(phases) + 16))
            case "structured_phases":
                yield Call((X, signs, lengths), T, structured)
            case "fastfood_phases":
                yield Call((X, signs[:, 0].copy(), order, gains, scaled), T, fastfood)
            case "squared_distances" | "absolute_distances":
                power = 2 if entry.startswith("squared") else 1
                distances = (abs(X[:, None].astype(np.float64) - Y[None]) ** power).sum(axis=2)
                yield Call((X, Y), T, (d + 3) * distances)
            case "kernel_values":
                differences = abs(X[:, None].astype(np.float64) - Y[None])
                r = np.sqrt((differences**2).sum(axis=2))
                for profile, (a, slope) in profiles(r, differences.sum(axis=2)).items():
                    value = np.empty(r.shape)
                    reference.kernel_values(X.astype(np.float64), Y.astype(np.float64), profile, value)
                    # of the argument a, whose share (d + 5) u is wrong, and of the value itself
                    yield Call((X, Y, profile), T, (d + 5) * a * slope + (a + 8) * abs(value) + 1e-30)
            case "signed_sums":
                weights = rng.standard_normal((n, T)).astype(dtype)
                rounding = np.broadcast_to((T + 2) * abs(weights).sum(axis=1, keepdims=True), (n, d))
                yield Call((X, np.round(2.0 * Y) / 2.0, weights), d, rounding)
                near = np.resize(X, (T, d)).astype(dtype)  # many equal entries
                yield Call((X, near, weights), d, rounding)
            case "sparse_rows":
                counts = rng.integers(0, min(T, 4) + 1, d)
                places = [rng.permutation(T)[:count] for count in counts]
                indices = np.concatenate([*places, []]).astype(np.int32)
                S = (
                    np.append(0, np.cumsum(counts)).astype(np.int32),
                    indices,
                    rng.choice(np.array([-1, 1], np.int8), len(indices)),
                    lengths.astype(np.float64),
                )
                sums = (d + 2) * size.sum(axis=1, keepdims=True) * lengths
                yield Call((X, *S), T, sums)
                yield Call((scipy.sparse.csr_array((X * rng.integers(0, 2, X.shape)).astype(dtype)), *S), T, sums)
            case "subsampled_hadamard":
                picks = np.concatenate(order)[:T]
                flips = signs[:, 0] * rng.integers(0, 2, (blocks, p), np.int8)
                yield Call((X, flips, picks, lengths.astype(np.float64)), T, (levels + 3) * norm * np.sqrt(p) * lengths)
            case _:
                given: dict[str, tuple[tuple[Any, ...], np.ndarray]] = {
                    "pairs": ((strided(phases),), np.full((n, T), 4.0)),
                    "dense_pairs": ((X, W), dense),
                    "structured_pairs": ((X, signs, lengths), structured),
                    "fastfood_pairs": ((X, signs[:, 0].copy(), order, gains, scaled), fastfood),
                }
                arguments, rounding = given[entry]
                tail_rounding = rounding + (abs(phases) if entry == "pairs" else rounding) + TAIL
                for n_columns in (2 * T, 2 * T - 1):
                    columns = np.repeat(rounding if n_columns % 2 == 0 else tail_rounding, 2, axis=1)
                    yield Call((*arguments, SCALE, TAIL), n_columns, SCALE * columns[:, :n_columns])


def linear_calls(entry: str, dtype: type, m: int) -> Iterator[list[Any]]:
    """Yield arguments of an entry of linear algebra: lists for what belongs to the backend, arrays for what is NumPy's.

    Matrices in the lists are in Fortran order; of a symmetric one everything above the diagonal is wrong.
    """
    rng = np.random.default_rng(m)
    A = rng.standard_normal((2 * m, m))
    L = np.linalg.cholesky(A.T @ A)
    G = np.asfortranarray(np.tril(A.T @ A) + np.triu(np.full((m, m), 1e3), 1))
    for n, k in ((1, 1), (37, 3), (2100, 1), (2100, 20)):
        Z, V = rng.standard_normal((n, m)).astype(dtype), rng.standard_normal((m, k))
        match entry:
            case "gram":
                yield [[Z], [G]]
            case "moments":
                yield [[Z], rng.standard_normal((n, k)), [V]]
            case "gram_product":
                yield [[Z], [V], [rng.random(n)] if k > 1 else None, [rng.standard_normal((m, k))]]
            case "cholesky_solve":
                yield [[np.asfortranarray(L)], [V]]
    match entry:
        case "rank_one":
            yield [[G], rng.standard_normal(m), -0.5]
        case "cholesky":
            yield [[G], 3.0]
        case "eigh":
            yield [[G]]
        case "cholesky_inverse" | "triangular_inverse":
            yield [[np.asfortranarray(L)]]
        case "fetch_lower":
            yield [[G], np.zeros((m, m), order="F")]


def linear_result(
    entry: str,
    function: Callable[..., Any],
    arguments: list[Any],
    there: Callable[[np.ndarray], Any],
    here: Callable[[Any], np.ndarray],
) -> np.ndarray:
    """Return what the entry makes of the arguments, copied first: one matrix, zero where it is not defined."""
    given = [there(a[0]) if isinstance(a, list) else a.copy("K") if isinstance(a, np.ndarray) else a for a in arguments]
    returned = function(*given)
    match entry:
        case "gram" | "fetch_lower":
            return np.tril(here(given[1]))
        case "rank_one":
            return np.tril(here(given[0]))
        case "moments" | "gram_product":
            return here(given[-1])
        case "eigh":
            values, vectors = map(here, returned)
            assert (np.diff(values) >= 0.0).all()
            return (vectors * values) @ vectors.T
        case "cholesky_inverse":
            return np.tril(here(returned))
        case _:
            return here(returned)


def check_linear(
    backend: Backend,
    entry: str,
    dtype: type,
    m: int,
    there: Callable[[np.ndarray], Any],
    here: Callable[[Any], np.ndarray],
) -> None:
    """Compare an entry with that of the reference, in units of the largest entry: errors of sums grow with √n at most.

    A Cholesky factor and what is solved with it have errors of the condition number, which is below 1e3 · m here.
    """
    from bochner.backends.reference import reference

    for arguments in linear_calls(entry, dtype, m):
        expected = linear_result(entry, getattr(reference, entry), arguments, lambda a: a.copy("K"), np.asarray)
        found = linear_result(entry, getattr(backend, entry), arguments, there, here)
        unit = np.finfo(dtype if entry in ("gram", "gram_product") else np.float64).eps
        bound = 1e3 * m if entry.endswith("solve") or entry.startswith("cholesky") else 100.0
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=0, atol=bound * unit * max(1.0, np.abs(expected).max()))
