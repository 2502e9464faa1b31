"""Sums of signed columns: rows of sparse-sign and CountSketch matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import triton
import triton.language as tl

from bochner.backends import Array

_OUTPUTS = 64  # columns of the result in a tile
CACHED = 1 << 17  # bytes of a program's rows
_PROGRAMS = 2048  # that keep a device busy


@triton.jit(do_not_specialize=("n", "per_program"))
def _sums(X, terms, starts, lengths, out, n, T, x_stride, out_stride, per_program, ROWS: tl.constexpr,  # type: ignore[no-untyped-def]
          OUTPUTS: tl.constexpr):  # fmt: skip
    """All results of some rows, a tile after the other; X (d, n) is transposed, so that a warp reads what is adjacent.

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


def pack_terms(indptr: Array, indices: Array, signs: Array, n_rows: int) -> tuple[Array, Array]:
    """The terms of a matrix given by its columns, for tiles of its rows: (terms (depth, 64) of all tiles, starts).

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


def sparse_rows(X: Any, terms: Any, starts: Any, lengths: Any, out: Any) -> None:
    """Sums of signed columns of X times lengths, in the order of the columns."""
    (n, d), T = X.shape, len(lengths)
    rows = CACHED // max(1, d * X.element_size())  # so that the columns of a program's rows fit the cache
    rows = 128 if rows >= 128 else 64 if rows >= 64 else 32
    n_rows, n_tiles = -(-n // rows), -(-T // _OUTPUTS)
    per_program = -(-n_tiles // min(n_tiles, max(1, _PROGRAMS // n_rows)))
    turned = X.T.contiguous()
    _sums[(n_rows, -(-n_tiles // per_program))](
        turned, terms, starts, lengths, out, n, T, n, out.stride(0), per_program, rows, _OUTPUTS, num_warps=4
    )
