"""Kernel values of two sets of rows, one tile for each program; and sums in float64 over numbers in float32.

A tile is made of differences (or products) of the rows, a feature at a time, so that close rows do not cancel. It is
stored, or multiplied by a few columns at once: then no kernel value ever leaves the registers. Sums are made in the
same order every time.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

FORMS = ("absolute", "squared", "gaussian", "matern12", "matern32", "matern52", "laplacian", "polynomial")
_ANY_COUNT = ("n", "m", "d", "per_program")  # arguments for whose values no kernel is compiled anew
_PROGRAMS = 2048  # that keep a device busy


@triton.jit
def _values(X, Y, row, col, n, m, d, FORM: tl.constexpr, DEGREE: tl.constexpr, A: tl.constexpr, B: tl.constexpr):  # type: ignore[no-untyped-def]
    """The tile (A, B) of rows of X (d, n) and Y (d, m), which are transposed; FORM is a place in FORMS."""
    total = tl.zeros((A, B), X.dtype.element_ty)
    x_at, y_at = X + row, Y + col
    for _ in range(d):
        x = tl.load(x_at, mask=row < n, other=0.0)
        y = tl.load(y_at, mask=col < m, other=0.0)
        x_at += n
        y_at += m
        if FORM == 7:
            total += x[:, None] * y[None, :]
        else:
            difference = x[:, None] - y[None, :]
            if FORM == 0 or FORM == 6:
                total += tl.abs(difference)
            else:
                total += difference * difference
    if FORM == 2:
        total = tl.exp(-0.5 * total)
    if FORM == 6:
        total = tl.exp(-total)
    if FORM >= 3 and FORM <= 5:
        a = tl.sqrt(total * (2 * FORM - 5))
        a = tl.where(a > 1e8, 1e8, a)  # farther out a · exp(-a) would be ∞ · 0; NaN stays, as it does not in a minimum
        total = tl.exp(-a)
        if FORM == 4:
            total = (1.0 + a) * total
        if FORM == 5:
            total = (1.0 + a + a * a * (1.0 / 3.0)) * total
    if FORM == 7:
        base = total
        for _ in tl.static_range(DEGREE - 1):
            total = total * base
    return total


@triton.jit(do_not_specialize=("n", "d"))  # a width that is a multiple of 16 is stored by vectors
def _stored(X, Y, out, n, m, d, out_stride, FORM: tl.constexpr, DEGREE: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    col = tl.program_id(1).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    total = _values(X, Y, row, col, n, m, d, FORM, DEGREE, SIZE, SIZE)
    at = out + row[:, None] * out_stride + col[None, :]
    tl.store(at, total, mask=(row[:, None] < n) & (col[None, :] < m))


@triton.jit(do_not_specialize=_ANY_COUNT)
def _multiplied(X, Y, V, out, n, m, d, per_program, FORM: tl.constexpr, DEGREE: tl.constexpr,  # type: ignore[no-untyped-def]
                COLUMNS: tl.constexpr, SIZE: tl.constexpr, OTHERS: tl.constexpr):  # fmt: skip
    """Some rows of k(X, Y) V, over a share of the rows of Y. Tiles are (Y, X): sums over Y stay within threads."""
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    first = tl.program_id(1).to(tl.int64) * per_program
    column = tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS, SIZE), tl.float64)
    for start in range(0, per_program, OTHERS):
        other = first + start + tl.arange(0, OTHERS)
        values = _values(Y, X, other, row, m, n, d, FORM, DEGREE, OTHERS, SIZE).to(tl.float64)
        for j in range(COLUMNS):
            v = tl.load(V + other * COLUMNS + j, mask=other < m, other=0.0)
            total += tl.where(column[:, None] == j, tl.sum(values * v[:, None], 0)[None, :], 0.0)
    at = out + (tl.program_id(1).to(tl.int64) * n + row[None, :]) * COLUMNS + column[:, None]
    tl.store(at, total, mask=row[None, :] < n)


def _size(X: Any) -> int:
    return 128 if X.element_size() == 4 else 64


def stored(X: Any, Y: Any, form: str, degree: int, out: Any) -> None:
    """The tiles of all rows of X and Y; distances, or values of a kernel of unit length scale."""
    (n, d), m, size = X.shape, len(Y), _size(X)
    X, Y = X.T.contiguous(), Y.T.contiguous()
    grid, code = (-(-n // size), -(-m // size)), FORMS.index(form)
    # eight warps take five times as long
    _stored[grid](X, Y, out, n, m, d, out.stride(0), code, degree, size, num_warps=4)


def multiplied(X: Any, Y: Any, form: str, degree: int, V: Any) -> Any:
    """The kernel values of X and Y times V (m, k), float64."""
    (n, d), m, k, size = X.shape, len(Y), V.shape[1], _size(X)
    columns, n_tiles = triton.next_power_of_2(k), -(-n // size)
    others = size if columns == 1 or size < 128 else size // 2  # values wait in float64 registers for every column
    parts = min(-(-m // others), max(1, _PROGRAMS // n_tiles))
    per_program = others * -(-m // (parts * others))
    parts = -(-m // per_program)
    wide = V.new_zeros((m, columns), dtype=_double(V))
    wide[:, :k] = V
    X, Y = X.T.contiguous(), Y.T.contiguous()
    out = wide.new_empty((parts, n, columns))
    _multiplied[(n_tiles, parts)](
        X, Y, wide, out, n, m, d, per_program, FORMS.index(form), degree, columns, size, others,
        num_warps=4,
    )  # fmt: skip
    return out.sum(0)[:, :k]


def _double(V: Any) -> Any:
    return V.double().dtype


# ---------------------------------------------------------------------------------- products of float32 in float64


@triton.jit(do_not_specialize=("n",))
def _rows_product(Z, v, out, n, m, z_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some rows of Z times v: Z is read once."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for start in range(0, m, COLUMNS):
        inside = start + col < m
        z = tl.load(
            Z + row[:, None] * z_stride + (start + col)[None, :], mask=(row[:, None] < n) & inside[None, :], other=0.0
        )
        total += z.to(tl.float64) * tl.load(v + start + col, mask=inside, other=0.0)[None, :]
    tl.store(out + row, tl.sum(total, 1), mask=row < n)


@triton.jit(do_not_specialize=("n", "per_program"))
def _columns_product(Z, u, out, n, m, z_stride, per_program, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Some columns of Z times u, over a share of the rows."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1).to(tl.int64) * per_program
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for start in range(0, per_program, ROWS):
        row = first + start + tl.arange(0, ROWS)
        there = row < n
        z = tl.load(Z + row[:, None] * z_stride + col[None, :], mask=there[:, None] & (col[None, :] < m), other=0.0)
        total += z.to(tl.float64) * tl.load(u + row, mask=there, other=0.0)[:, None]
    tl.store(out + tl.program_id(1).to(tl.int64) * m + col, tl.sum(total, 0), mask=col < m)


def rows_product(Z: Any, v: Any) -> Any:
    """Z v of float32 features and a float64 vector, in float64."""
    out = v.new_empty(len(Z))
    _rows_product[(-(-len(Z) // 8),)](Z, v, out, len(Z), Z.shape[1], Z.stride(0), 8, 256, num_warps=4)
    return out


def columns_product(Z: Any, u: Any) -> Any:
    """Zᵀ u of float32 features and a float64 vector, in float64."""
    n, m = Z.shape
    per_program = 8 * max(1, -(-n // 512))
    parts = -(-n // per_program)
    out = u.new_empty((parts, m))
    _columns_product[(-(-m // 256), parts)](Z, u, out, n, m, Z.stride(0), per_program, 8, 256, num_warps=4)
    return out.sum(0)
