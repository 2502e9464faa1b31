"""Rows as digits of integers, transposed, and products of those, of which only the lower half is computed."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from bochner.backends.plans import Tile
from bochner.backends.torch.memory import Tensor

_SIZE = 64  # rows and columns of a tile
_MULTIPLE = 32  # numbers of rows and columns are multiples of it, as in torch's `grams`


# m and the sizes of out are multiples of 16, so that a thread reads and writes several numbers at once; n need not be
@triton.jit(do_not_specialize=("n",))
def _split(Z, units, out, n, m, z_stride, n_rows, n_columns, DIGITS: tl.constexpr, BITS: tl.constexpr,  # type: ignore[no-untyped-def]
           SIZE: tl.constexpr):  # fmt: skip
    """Round a tile of Z (n, m) in place, and write its digits to out (DIGITS, n_columns, n_rows), zero beyond Z."""
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    col = tl.program_id(1).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    mask = (row[:, None] < n) & (col[None, :] < m)
    unit = tl.load(units + col, mask=col < m, other=1.0)[None, :]
    at = Z + row[:, None] * z_stride + col[None, :]
    ratio = tl.div_rn(tl.load(at, mask=mask, other=0.0), tl.broadcast_to(unit, SIZE, SIZE))
    whole = (ratio + 12582912.0) - 12582912.0  # rounded to integers, which are below 2^21
    tl.store(at, whole * unit, mask=mask)
    rest = whole.to(tl.int32)
    to = out + col[None, :] * n_rows + row[:, None]
    inside = (row[:, None] < n_rows) & (col[None, :] < n_columns)
    plane = tl.cast(n_rows, tl.int64) * n_columns
    for place in tl.static_range(DIGITS - 1):
        digit = (rest + ((1 << BITS * (DIGITS - 1 - place)) >> 1)) >> BITS * (DIGITS - 1 - place)
        rest -= digit << BITS * (DIGITS - 1 - place)
        tl.store(to + place * plane, digit.to(tl.int8), mask=inside)
    tl.store(to + (DIGITS - 1) * plane, rest.to(tl.int8), mask=inside)


def split(Z: Tensor, units: Tensor, n_digits: int, bits: int) -> Tensor:
    """Split rows into digits, as `grams.Split` specifies."""
    n, m = Z.shape
    rows, columns = (-(-size // _MULTIPLE) * _MULTIPLE for size in (n, m))
    out = units.new_empty(0).char().new_empty((n_digits, columns, rows))
    grid = (-(-rows // _SIZE), -(-columns // _SIZE))
    _split[grid](Z, units, out, n, m, Z.stride(0), rows, columns, n_digits, bits, _SIZE, num_warps=4)
    return out


@triton.jit(do_not_specialize=("depth",))
def _lower(A, B, A_too, B_too, units, out, m, depth, out_stride, factor, CROSS: tl.constexpr, ROWS: tl.constexpr,  # type: ignore[no-untyped-def]
           COLUMNS: tl.constexpr, DEPTH: tl.constexpr):  # fmt: skip
    """Add a tile of factor · A Bᵀ (or A Bᵀ + B Aᵀ) that reaches the lower triangle to out, in float64.

    A and B are read by ROWS rows, A_too and B_too, the same matrices, by COLUMNS rows. Programs are numbered by the
    columns of tiles, so that those that run at the same time share their right side.
    """
    i = tl.program_id(0)
    n_rows = (m + ROWS - 1) // ROWS
    j = 0
    first = 0
    while i >= n_rows - first:
        i -= n_rows - first
        j += 1
        first = j * COLUMNS // ROWS
    i += first
    total = tl.zeros((ROWS, COLUMNS), tl.int32)
    for k in range(0, depth, DEPTH):
        total = tl.dot(A.load([i * ROWS, k]), B_too.load([j * COLUMNS, k]).T, total, out_dtype=tl.int32)
    if CROSS:
        for k in range(0, depth, DEPTH):
            total = tl.dot(B.load([i * ROWS, k]), A_too.load([j * COLUMNS, k]).T, total, out_dtype=tl.int32)
    row = i * ROWS + tl.arange(0, ROWS)
    col = j * COLUMNS + tl.arange(0, COLUMNS)
    mask = (row[:, None] < m) & (col[None, :] < m)
    at = out + row[:, None].to(tl.int64) * out_stride + col[None, :]
    left = tl.load(units + row, mask=row < m, other=0.0) * factor
    right = tl.load(units + col, mask=col < m, other=0.0)
    before = tl.load(at, mask=mask, other=0.0)
    tl.store(at, before + total.to(tl.float64) * (left[:, None] * right[None, :]), mask=mask)


def multiply(a: Tensor, b: Tensor, units: Tensor, factor: float, out: Tensor, plan: Tile) -> None:
    """Multiply digits, as `grams.Multiply` specifies; the factor is a float32 number.

    1,100 TOPS on an H200, where torch's products of panels reach 830.
    """
    m, depth, rows, columns = len(out), a.shape[1], plan.rows, plan.columns
    tall, wide = ([TensorDescriptor.from_tensor(x, [size, plan.depth]) for x in (a, b)] for size in (rows, columns))
    n_rows = -(-m // rows)
    n_tiles = sum(n_rows - j * columns // rows for j in range(-(-m // columns)))
    _lower[(n_tiles,)](
        *tall, *wide, units, out, m, depth, out.stride(0), factor, a is not b, rows, columns, plan.depth,
        num_warps=plan.warps, num_stages=plan.stages,
    )  # fmt: skip
