"""The compiled backend: single-threaded C++ on a range of rows, and the threads that ranges are given to.

Every row is computed by the same instructions whatever range it is in, so results depend neither on the
number of threads nor on how the rows are batched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bochner import _native
from bochner.backends import Array, Rows, n_threads
from bochner.backends.reference import reference
from bochner.backends.threads import each, one_thread
from bochner.backends.tiled import tiled, triangle

# x86: baseline, v3 (AVX2), v4 (AVX-512); the last that runs is used
level, levels, use_level = _native.level, _native.levels, _native.use_level


def _use_named_level(name: str) -> None:
    """Use the level that the environment variable BOCHNER_LEVEL names, for other instructions than the best."""
    if name not in levels():
        raise ValueError(f"expected BOCHNER_LEVEL to be one of {', '.join(levels())} on this processor, got {name!r}.")
    use_level(name)


if "BOCHNER_LEVEL" in os.environ:
    _use_named_level(os.environ["BOCHNER_LEVEL"])


@contextmanager
def without_subnormals() -> Iterator[None]:
    """Treat subnormal numbers, below 1e-38 in float32, as zero on this thread.

    Products of the entries of a kernel matrix get that small, and some processors take a hundred times longer for them.
    """
    before = _native.flush_subnormals(True)
    try:
        yield
    finally:
        _native.flush_subnormals(before)


# Below this many operations (of about 0.03 ns: 70 µs) a thread costs more than it saves.
_SMALL = 1 << 21
# Ranges for each thread: enough to balance a busy core, few enough that W is seldom packed again.
_RANGES = 4

# Results of more bytes than caches hold are written past them.
_STREAMED = 1 << 25


def _by_rows(function: Callable[[slice], None], n_rows: int, operations: int) -> None:
    """Call `function` on ranges that cover the rows, on several threads where the operations are many."""
    n = min(n_threads(), n_rows, n_rows * operations // _SMALL + 1)
    if n <= 1:
        function(slice(0, n_rows))
        return
    bounds = np.linspace(0, n_rows, min(n_rows, _RANGES * n) + 1).astype(int)
    each(function, [slice(a, b) for a, b in pairwise(bounds)], n)


def fwht(X: Array) -> None:
    """Apply the Walsh-Hadamard transform to every row, in place."""
    _by_rows(lambda rows: _native.fwht(X[rows]), len(X), X.shape[1] * X.shape[1].bit_length())


def pairs(A: Array, scale: float, tail: float, out: Array) -> None:
    """Write pairs of given phases."""
    stream = out.nbytes >= _STREAMED
    _by_rows(lambda rows: _native.pairs(A[rows], scale, tail, out[rows], stream), len(A), 8 * out.shape[1])


def cosines(A: Array, offsets: Array, scale: float, out: Array) -> None:
    """Write columns scale * cos(a + offset)."""
    shifts = np.ascontiguousarray(offsets, A.dtype)
    _by_rows(lambda rows: _native.cosines(A[rows], shifts, scale, out[rows]), len(A), 8 * out.shape[1])


def dense_pairs(X: Array, W: Array, scale: float, tail: float, out: Array) -> None:
    """Write pairs of X Wᵀ. One row at a time is fastest if W.T is contiguous: W is then read, not packed."""
    stream = out.nbytes >= _STREAMED
    W = W.astype(X.dtype, copy=False)
    _by_rows(
        lambda rows: _native.dense_pairs(X[rows], W, scale, tail, out[rows], stream),
        len(X),
        (8 + X.shape[1] // 3) * out.shape[1],
    )


def structured_phases(X: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Write phases lengths * p^(-3/2) * H D0 H D1 H D2 x."""
    _by_rows(lambda rows: _native.structured_phases(X[rows], signs, lengths, out[rows]), len(X), 16 * out.shape[1])


def structured_pairs(X: Array, signs: Array, lengths: Array, scale: float, tail: float, out: Array) -> None:
    """Write pairs of the structured phases."""
    stream = out.nbytes >= _STREAMED
    _by_rows(
        lambda rows: _native.structured_pairs(X[rows], signs, lengths, scale, tail, out[rows], stream),
        len(X),
        16 * out.shape[1],
    )


def fastfood_phases(X: Array, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Array) -> None:
    """Write phases lengths * H (gains * (H (signs * x))[permutation])."""
    _by_rows(
        lambda rows: _native.fastfood_phases(X[rows], signs, permutations, gains, lengths, out[rows]),
        len(X),
        16 * out.shape[1],
    )


def fastfood_pairs(
    X: Array, signs: Array, permutations: Array, gains: Array, lengths: Array, scale: float, tail: float, out: Array
) -> None:
    """Write pairs of the Fastfood phases."""
    stream = out.nbytes >= _STREAMED
    _by_rows(
        lambda rows: _native.fastfood_pairs(
            X[rows], signs, permutations, gains, lengths, scale, tail, out[rows], stream
        ),
        len(X),
        16 * out.shape[1],
    )


def squared_distances(X: Array, Y: Array, out: Array) -> None:
    """Sum squared differences, in the precision of X."""
    _by_rows(lambda rows: _native.squared_distances(X[rows], Y, out[rows]), len(X), X.shape[1] * len(Y))


def absolute_distances(X: Array, Y: Array, out: Array) -> None:
    """Sum absolute differences, in the precision of X."""
    _by_rows(lambda rows: _native.absolute_distances(X[rows], Y, out[rows]), len(X), X.shape[1] * len(Y))


def kernel_values(X: Array, Y: Array, profile: str, out: Array) -> None:
    """Write a kernel of unit length scale, in the precision of X; subnormal values are zero."""
    cost = (X.shape[1] + 16) * len(Y)
    _by_rows(lambda rows: _native.kernel_values(X[rows], Y, profile, out[rows]), len(X), cost)


def signed_sums(X: Array, Y: Array, W: Array, out: Array) -> None:
    """Write weights times the signs of differences, in the precision of X."""
    _by_rows(lambda rows: _native.signed_sums(X[rows], Y, W[rows], out[rows]), len(X), X.shape[1] * len(Y))


def sparse_rows(X: Rows, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Write sums of signed columns."""
    if indptr.dtype != np.int32:  # more than 2^31 signs
        reference.sparse_rows(X, indptr, indices, signs, lengths, out)
        return
    S = (indptr, indices, signs, np.ascontiguousarray(lengths, X.dtype))
    if isinstance(X, np.ndarray):
        cost = len(signs) + X.shape[1]
        _by_rows(lambda rows: _native.sparse_rows(X[rows], *S, out[rows]), len(X), cost // 2)
        return
    columns = X.indices.astype(np.int32, copy=False)
    if X.nnz > np.iinfo(np.int32).max:
        reference.sparse_rows(X, indptr, indices, signs, lengths, out)
        return
    stops = X.indptr.astype(np.int32, copy=False)
    cost = X.nnz * len(signs) // max(1, X.shape[0] * X.shape[1]) + out.shape[1]
    _by_rows(
        lambda rows: _native.sparse_rows_of_sparse(stops[rows.start : rows.stop + 1], columns, X.data, *S, out[rows]),
        X.shape[0],
        cost,
    )


def nonzeros(A: Array, stops: Array, columns: Array, values: Array) -> None:
    """Write entries that are not zero, row by row."""

    def part(rows: slice) -> None:
        places = slice(stops[rows.start], stops[rows.stop])
        _native.nonzeros(A[rows], columns[places], values[places])

    _by_rows(part, len(A), 2 * A.shape[1])


def subsampled_hadamard(X: Array, signs: Array, picks: Array, lengths: Array, out: Array) -> None:
    """Write some coordinates of Hadamard transforms."""
    scales = np.ascontiguousarray(lengths, X.dtype)
    cost = signs.size * signs.shape[1].bit_length()
    _by_rows(lambda rows: _native.subsampled_hadamard(X[rows], signs, picks, scales, out[rows]), len(X), cost)


integers_pay = _native.has_vnni  # whether this processor multiplies small integers faster than floats
_TILE = 256  # rows and columns of a Gram matrix that one thread adds to at a time
_SLAB_WORDS, _PANEL_COLUMNS = 256, 16  # as in native/grams.hpp: a word has two rows of 16 bits or four of 8
_SMALL_UNITS = 126  # largest 8-bit multiple before rounding up or down at random
_EVEN_UNITS = 4095  # largest multiple if all columns share one unit: any 128 squares stay below 2^31
_MOST_UNITS, _MOST_ROOT = 32766.0, 46290.0  # largest multiple of an entry, and of the root of the sum of 128 squares
# Rounding to one unit may add at most this share to the squares of the features. Fourier features, all of one
# size, gain 1e-8. Units for each column add at most 4e-8, as no entry is larger than the root of its squares.
_ROUNDING_SHARE = 2.5e-8
_MANY_ROWS, _MANY_COLUMNS = 1024, 128  # rows and columns from which on each column has its own unit
# Variance of the rounding error in squared units: up or down at random (8 bits), to the nearest multiple.
_VARIANCES = {8: 1.0 / 6.0, 16: 1.0 / 12.0}


@dataclass(frozen=True)
class Slabs:
    """Rows in fixed point: slabs of 512 rows of 16 bits or 1,024 of 8, each with units of its own."""

    bits: int
    packed: Array  # (slabs, panels, 256 · 16) int32
    units: Array  # (slabs, m) float32
    sizes: list[int]

    @classmethod
    def of(cls, Z: Array, bits: int, units: Array) -> Slabs:
        """Round Z, in place, to multiples of the units."""
        slabs = _slabs(Z, bits)
        packed = np.empty((len(slabs), -(-Z.shape[1] // _PANEL_COLUMNS), _SLAB_WORDS * _PANEL_COLUMNS), np.int32)
        inverses = 1.0 / units
        each(
            lambda i: _native.pack_slab(bits, slabs[i], units[i], inverses[i], packed[i]),
            range(len(slabs)),
            n_threads(),
        )
        return cls(bits, packed, units, [len(slab) for slab in slabs])

    @property
    def noise(self) -> float:
        """Return the number of rows times the variance of the rounding errors of an entry, for the largest units."""
        squares = np.asarray(self.sizes) @ np.square(self.units.max(axis=1), dtype=np.float64)
        return float(squares * _VARIANCES[self.bits])

    def gram(self, out: Array) -> None:
        """Add ZᵀZ to the lower triangle."""

        def add(tile: tuple[slice, slice]) -> None:
            self.add(tile[0], tile[1], out.T[tile])

        with one_thread():
            each(add, triangle(self.units.shape[1], _TILE), n_threads())

    def add(self, rows: slice, columns: slice, out: Array) -> None:
        """Add (ZᵀZ)[rows, columns], on this thread; of a tile on the diagonal, the upper triangle at least."""
        for slab, n, units in zip(self.packed, self.sizes, self.units, strict=True):
            _native.add_gram(self.bits, slab, n, units, rows.start, columns.start, out)


def _slabs(Z: Array, bits: int) -> list[Array]:
    step = _SLAB_WORDS * (32 // bits)
    return [Z[start : start + step] for start in range(0, len(Z), step)]


def _rounded_up(units: Array, bits: int) -> Array:
    """Round up to the next number of `bits` bits. Multiples of 8-bit units, up to 2^16, are exact in float32."""
    mantissas, exponents = np.frexp(units)
    return np.ldexp(np.ceil(np.ldexp(mantissas, bits)), exponents - bits)


def _even_units(tops: Array, most: int) -> Array:
    """Return units in which the largest entries are at most `most`, on a coarse grid, so that they seldom differ."""
    return _rounded_up(_rounded_up(tops, 5) / most, 8)


def fixed_point(Z: Array, seen: int = 0, budget: float = 0.0) -> Slabs | None:
    """Round features to multiples of units, for processors with instructions for products of small integers.

    One unit for all columns where they are of one size, or where rounding to 8 bits adds no more than `budget` to the
    variance of an entry: it is of a coarse grid, so that rows are rounded alike whichever rows they came with.
    Otherwise one a column, as small as sums of 128 rows allow, where there are rows enough, with those `seen` before,
    for rounding errors to average out and columns enough for integers to pay.
    """
    if not (integers_pay() and Z.dtype == np.float32 and Z.size):
        return None
    n, m = Z.shape
    slabs = _slabs(Z, 16)
    found = np.empty((len(slabs), 4, m), np.float32)
    each(lambda i: _native.extents(slabs[i], found[i]), range(len(slabs)), n_threads())
    largest, squares, most, _ = np.moveaxis(found, 1, 0)
    tops = largest.max(axis=1).astype(np.float64)
    if not (tops.min() > 1e-15 and tops.max() < 1e15 and np.isfinite(squares).all()):
        return None  # NaN and infinity cannot be rounded to integers
    units = _even_units(np.maximum.reduceat(tops, np.arange(0, len(tops), 2)), _SMALL_UNITS)
    if (units * units * _VARIANCES[8] <= budget).all():
        return Slabs.of(Z, 8, _a_column(units, m))
    units = _even_units(tops, _EVEN_UNITS)
    sizes = np.array([slab.size for slab in slabs])
    even = sizes * units * units * _VARIANCES[16] <= _ROUNDING_SHARE * squares.sum(axis=1, dtype=np.float64)
    if even.all():
        return Slabs.of(Z, 16, _a_column(units, m))
    if max(n, seen) < _MANY_ROWS or m < _MANY_COLUMNS:
        return None
    own = np.maximum(np.maximum(largest / _MOST_UNITS, np.sqrt(most) / _MOST_ROOT), 1e-18 * tops[:, None])
    return Slabs.of(Z, 16, np.where(even[:, None], units[:, None], _rounded_up(own, 8)).astype(np.float32))


def _a_column(units: Array, m: int) -> Array:
    return np.repeat(units[:, None].astype(np.float32), m, axis=1)


native = replace(
    tiled,
    name="native",
    fwht=fwht,
    pairs=pairs,
    cosines=cosines,
    dense_pairs=dense_pairs,
    structured_phases=structured_phases,
    structured_pairs=structured_pairs,
    fastfood_phases=fastfood_phases,
    fastfood_pairs=fastfood_pairs,
    squared_distances=squared_distances,
    absolute_distances=absolute_distances,
    kernel_values=kernel_values,
    signed_sums=signed_sums,
    sparse_rows=sparse_rows,
    nonzeros=nonzeros,
    subsampled_hadamard=subsampled_hadamard,
    fixed_point=fixed_point,
)
