"""Sums of signed columns: rows of sparse-sign and CountSketch matrices.

On tensor cores zeros are cheap: unless there are very many, a product with the whole matrix is faster than sums of what
is not zero (`dense_pays`). It is exact but for the rounding of sums: signs are bfloat16 numbers, and a float32 number
is the sum of three.
"""

from __future__ import annotations

import numpy as np
import triton
import triton.language as tl

from bochner.backends import Array
from bochner.backends.plans import Tile
from bochner.backends.torch.memory import Tensor

_OUTPUTS = 64  # columns of the result in a tile
_CACHED = 1 << 18  # bytes of the rows that a program caches
_PROGRAMS = 2048  # programs that keep a device busy


@triton.jit(do_not_specialize=("n", "per_program"))
def _sums(X, terms, starts, lengths, out, n, T, x_stride, out_stride, per_program, ROWS: tl.constexpr,  # type: ignore[no-untyped-def]
          OUTPUTS: tl.constexpr):  # fmt: skip
    """Write all results of some rows, tile by tile; X (d, n) is transposed, so that a warp reads adjacent numbers.

    The rows' columns are read from memory once and from the cache for every further term.
    """
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    place = tl.arange(0, OUTPUTS)
    first = tl.program_id(1) * per_program
    for tile in range(first, tl.minimum(first + per_program, tl.cdiv(T, OUTPUTS))):
        total = tl.zeros((OUTPUTS, ROWS), X.dtype.element_ty)
        for at in range(tl.load(starts + tile), tl.load(starts + tile + 1)):
            term = tl.load(terms + at * OUTPUTS + place)  # twice the column, and one for a minus; or -1
            there = (term >= 0)[:, None] & (row < n)[None, :]
            x = tl.load(X + (term >> 1).to(tl.int64)[:, None] * x_stride + row[None, :], mask=there, other=0.0)
            total += tl.where((term & 1)[:, None] == 1, -x, x)
        j = tile * OUTPUTS + place
        total *= tl.load(lengths + j, mask=j < T, other=0.0)[:, None]
        tl.store(out + row[None, :] * out_stride + j[:, None], total, mask=(row < n)[None, :] & (j < T)[:, None])


@triton.jit
def _cut(x):  # type: ignore[no-untyped-def]
    """Split a float32 number into its first eight bits, as a bfloat16, and the rest."""
    bits = x.to(tl.int32, bitcast=True)
    return (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True), x - (bits & -65536).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=("n",))
def _products(X, W, lengths, out, n, d, T, x_stride, w_stride, out_stride, ROWS: tl.constexpr, OUTPUTS: tl.constexpr,  # type: ignore[no-untyped-def]
              K: tl.constexpr):  # fmt: skip
    """Multiply a tile of X by W and lengths; W is padded with zeros. Tiles of the same rows come together."""
    n_tiles = tl.cdiv(T, OUTPUTS)
    row = (tl.program_id(0) // n_tiles).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    j = tl.program_id(0) % n_tiles * OUTPUTS + tl.arange(0, OUTPUTS)
    place = tl.arange(0, K)
    x_at = X + row[:, None] * x_stride + place[None, :]
    w_at = W + place[:, None] * w_stride + j[None, :]
    high = tl.zeros((ROWS, OUTPUTS), tl.float32)
    rest = tl.zeros((ROWS, OUTPUTS), tl.float32)  # apart, so that the few bits of either are summed without an error
    for start in range(0, d, K):
        x = tl.load(x_at, mask=(row < n)[:, None] & (start + place < d)[None, :], other=0.0)
        w = tl.load(w_at)
        first, x = _cut(x)
        second, x = _cut(x)
        third, x = _cut(x)
        high = tl.dot(first, w, high)
        rest = tl.dot(second, w, rest)
        rest = tl.dot(third, w, rest)
        x_at += K
        w_at += K * w_stride
    total = (high + rest) * tl.load(lengths + j, mask=j < T, other=0.0)[None, :]
    tl.store(out + row[:, None] * out_stride + j[None, :], total, mask=(row < n)[:, None] & (j < T)[None, :])


_DENSE_TILE = 128  # rows and columns of the padded matrix are multiples of it, and it is a multiple of tile sizes
_DENSE_SIZE = 1 << 26  # largest number of entries of the matrix


def dense_pays(n_columns: int, n_rows: int, n_nonzeros: int) -> bool:
    """Return True if the product with the whole matrix is faster for float32 rows.

    Sums were measured, on an H200, to take some 7.5 ps for every column of X and of the result and 0.9 ps for every
    term; products take about 0.015 ps for every entry of the matrix.
    """
    entries = n_columns * n_rows
    return entries <= min(_DENSE_SIZE, 500 * (n_columns + n_rows) + 60 * n_nonzeros)


def dense_signs(indptr: Array, indices: Array, signs: Array, n_rows: int) -> Array:
    """Return the transpose of a matrix given by its columns, padded with zeros, as small integers."""
    d = len(indptr) - 1
    W = np.zeros([_DENSE_TILE * -(-size // _DENSE_TILE) for size in (d, n_rows)], np.int8)
    W[np.repeat(np.arange(d), np.diff(indptr)), indices] = signs
    return W


def dense_rows(X: Tensor, W: Tensor, lengths: Tensor, out: Tensor, plan: Tile) -> None:
    """Write X W times lengths of a float32 X, whose columns are adjacent, and signs W in bfloat16."""
    (n, d), T = X.shape, len(lengths)
    rows, outputs = plan.rows, min(plan.columns, 64) if T <= 64 else plan.columns
    _products[(-(-n // rows) * -(-T // outputs),)](
        X, W, lengths, out, n, d, T, X.stride(0), W.stride(0), out.stride(0), rows, outputs, plan.depth,
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip


def pack_terms(indptr: Array, indices: Array, signs: Array, n_rows: int) -> tuple[Array, Array]:
    """Pack the terms of a matrix given by its columns by tiles of rows: (terms (depth, 64) of all tiles, starts).

    A tile is as deep as the row of most terms in it. Terms are in the order of the columns.
    """
    columns = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=n_rows)
    depths = np.zeros((-(-n_rows // _OUTPUTS), _OUTPUTS), np.int64)
    depths.flat[:n_rows] = counts
    starts = np.concatenate([[0], np.cumsum(depths.max(axis=1, initial=0))])
    rows = indices[order]
    places = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    terms = np.full((max(1, int(starts[-1])), _OUTPUTS), -1, np.int32)
    terms[starts[rows // _OUTPUTS] + places, rows % _OUTPUTS] = 2 * columns[order] + (signs[order] < 0)
    return terms, starts.astype(np.int32)


def sparse_rows(X: Tensor, terms: Tensor, starts: Tensor, lengths: Tensor, out: Tensor) -> None:
    """Write sums of signed columns of X times lengths, in the order of the columns."""
    (n, d), T = X.shape, len(lengths)
    rows = _CACHED // max(1, d * X.element_size())  # so that the columns of a program's rows fit the cache
    rows = 128 if rows >= 128 else 64 if rows >= 64 else 32
    n_rows, n_tiles = -(-n // rows), -(-T // _OUTPUTS)
    per_program = -(-n_tiles // min(n_tiles, max(1, _PROGRAMS // n_rows)))
    turned = X.T.contiguous()
    _sums[(n_rows, -(-n_tiles // per_program))](
        turned, terms, starts, lengths, out, n, T, n, out.stride(0), per_program, rows, _OUTPUTS, num_warps=4
    )
