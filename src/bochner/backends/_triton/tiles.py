"""Kernel values of two sets of rows, one tile for each program; and sums in float64 over numbers in float32.

A tile is made of differences (or products) of the rows, a feature at a time, so that close rows do not cancel; or, on
tensor cores, of |x|² + |y|² - 2 x·y, with x and y as two half-precision numbers each, 22 bits of the largest, after
their mean was subtracted. The products of high and low parts are added to each other first, so that k(x, y) and k(y, x)
are the same number. Values of rows that are close, whose difference would cancel, are made of differences again.

It is stored, or multiplied by a few columns at once: then no kernel value ever leaves the registers. Sums are made in
the same order every time.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma_wait

from bochner.backends._triton.dense import layout_of, product
from bochner.backends.plans import Plans, Tile
from bochner.backends.torch.memory import Tensor

FORMS = ("absolute", "squared", "gaussian", "matern12", "matern32", "matern52", "laplacian", "polynomial")
SQUARES = ("gaussian", "matern12", "matern32", "matern52", "polynomial")  # kernels computed from products of rows
_PROGRAMS = 2048  # programs that keep a device busy
_CLOSE = gl.constexpr(2.0**-8)  # share of |x|² + |y|² below which squared distances are computed from differences
_COLUMNS = 4  # columns of a product that tensor cores compute at a time
_CHUNK = 32  # features of a shared tile
_LEAST = Tile(64, 64)


@gluon.jit
def _exp(x, factor):  # type: ignore[no-untyped-def]
    """Return exp(factor · x); for float32 by the hardware, with zero in place of subnormal numbers."""
    if x.dtype == gl.float64:
        y = gl.exp(x * factor)
    else:
        y = gl.inline_asm_elementwise(
            "ex2.approx.ftz.f32 $0, $1;", "=f,f", [x * (factor * 1.4426950408889634)], dtype=gl.float32, is_pure=True,
            pack=1,
        )  # fmt: skip
    return y


@gluon.jit
def _profile(total, unit, FORM: gl.constexpr, DEGREE: gl.constexpr):  # type: ignore[no-untyped-def]
    """Turn sums over the features into kernel values, times a unit; FORM is an index of FORMS."""
    if FORM == 2:
        total = _exp(total, unit * -0.5)
    if FORM == 6:
        total = _exp(total, unit * -1.0)
    if FORM >= 3 and FORM <= 5:
        a = gl.sqrt(total * (unit * (2 * FORM - 5)))
        a = gl.where(a > 1e8, 1e8, a)  # farther out a · exp(-a) would be ∞ · 0; NaN stays, as it does not in a minimum
        total = _exp(a, -1.0)
        if FORM == 4:
            total = (1.0 + a) * total
        if FORM == 5:
            total = (1.0 + a + a * a * (1.0 / 3.0)) * total
    if FORM == 7:
        total = total * unit
        base = total
        for _ in gl.static_range(DEGREE - 1):
            total = total * base
    return total


@gluon.jit
def _added(total, x, y, FORM: gl.constexpr):  # type: ignore[no-untyped-def]
    """Add one feature to the sums."""
    if FORM == 7:
        total += x[:, None] * y[None, :]
    else:
        difference = x[:, None] - y[None, :]
        if FORM == 0 or FORM == 6:
            total += gl.abs(difference)
        else:
            total += difference * difference
    return total


@gluon.jit
def _differences(X, Y, n, m, d, FORM: gl.constexpr, A: gl.constexpr, B: gl.constexpr, L: gl.constexpr):  # type: ignore[no-untyped-def]
    """Sum over the features for A rows of X (d + 1, n) and B rows of Y (d + 1, m), transposed; d is even.

    The next feature is read while one is added: there is one after the last.
    """
    total = gl.zeros((A, B), X.dtype.element_ty, layout=L)
    x_at = X + gl.arange(0, A, layout=gl.SliceLayout(1, L))
    y_at = Y + gl.arange(0, B, layout=gl.SliceLayout(0, L))
    x = gl.load(x_at)
    y = gl.load(y_at)
    for _ in range(0, d, 2):
        x_at += n
        y_at += m
        next_x = gl.load(x_at)
        next_y = gl.load(y_at)
        total = _added(total, x, y, FORM)
        x_at += n
        y_at += m
        x = gl.load(x_at)
        y = gl.load(y_at)
        total = _added(total, next_x, next_y, FORM)
    return total


@gluon.jit(do_not_specialize=("d", "n_rows"))  # a width that is a multiple of 16 is stored by vectors
def _stored(X, Y, out, n, m, d, n_rows, n_columns, out_stride, FORM: gl.constexpr, DEGREE: gl.constexpr,  # type: ignore[no-untyped-def]
            A: gl.constexpr, B: gl.constexpr, L: gl.constexpr):  # fmt: skip
    row0 = gl.program_id(0).to(gl.int64) * A
    col0 = gl.program_id(1).to(gl.int64) * B
    total = _profile(_differences(X + row0, Y + col0, n, m, d, FORM, A, B, L), 1.0, FORM, DEGREE)
    row = gl.arange(0, A, layout=gl.SliceLayout(1, L))[:, None]
    col = gl.arange(0, B, layout=gl.SliceLayout(0, L))[None, :]
    there = (row < n_rows - row0) & (col < n_columns - col0)
    gl.store(out + row0 * out_stride + col0 + row * out_stride + col, total, mask=there)


@gluon.jit(do_not_specialize=("d", "n_tiles"))
def _multiplied(X, Y, V, out, n, m, d, n_tiles, FORM: gl.constexpr, DEGREE: gl.constexpr, COLUMNS: gl.constexpr,  # type: ignore[no-untyped-def]
                A: gl.constexpr, B: gl.constexpr, L: gl.constexpr, T: gl.constexpr):  # fmt: skip
    """Compute rows of k(X, Y) V over a share of the rows of Y. Tiles are (Y, X): sums over Y stay within warps."""
    row0 = gl.program_id(0).to(gl.int64) * B
    first = gl.program_id(1).to(gl.int64) * n_tiles * A
    column = gl.arange(0, COLUMNS, layout=gl.SliceLayout(1, T))[:, None]
    other = gl.arange(0, A, layout=gl.SliceLayout(1, L))
    total = gl.zeros((COLUMNS, B), gl.float64, layout=T)
    for tile in range(n_tiles):
        at = first + tile * A
        values = _differences(Y + at, X + row0, m, n, d, FORM, A, B, L)
        values = _profile(values, 1.0, FORM, DEGREE).to(V.dtype.element_ty)
        for j in range(COLUMNS):
            v = gl.load(V + j * m + at + other)
            part = gl.convert_layout(gl.sum(values * v[:, None], 0).to(gl.float64), gl.SliceLayout(0, T))
            total += gl.where(column == j, part[None, :], 0.0)
    row = gl.arange(0, B, layout=gl.SliceLayout(0, T))[None, :]
    gl.store(out + (gl.program_id(1) * COLUMNS + column).to(gl.int64) * n + row0 + row, total)


@gluon.jit(do_not_specialize=("d", "n_tiles"))
def _squares(X, Y, x_halves, y_halves, x_norms, y_norms, units, V, out, n, m, d, n_tiles, FORM: gl.constexpr,  # type: ignore[no-untyped-def]
             DEGREE: gl.constexpr, COLUMNS: gl.constexpr, BM: gl.constexpr, BN: gl.constexpr, NK: gl.constexpr,
             WARPS: gl.constexpr, L: gl.constexpr, B: gl.constexpr):  # fmt: skip
    """Compute rows of k(X, Y) V over a share of the rows of Y, by tensor cores; up to four columns.

    Halves are (n, 2 · 32 NK): the high parts of a row, times the unit, and then the low ones. Norms are of both.
    """
    G: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [WARPS, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    WIDTH: gl.constexpr = 64 * NK
    x = gl.allocate_shared_memory(gl.float16, [2 * NK, BM, 32], shared)
    y = gl.allocate_shared_memory(gl.float16, [2 * NK, BN, 32], shared)
    waiting = gl.allocate_shared_memory(gl.float32, [BM, BN], gl.SwizzledSharedLayout(1, 1, 1, [1, 0]))
    row0 = gl.program_id(0).to(gl.int64) * BM
    first = gl.program_id(1).to(gl.int64) * n_tiles * BN
    k = gl.arange(0, 32, layout=gl.SliceLayout(0, G))[None, :]
    x_at = x_halves + row0 * WIDTH + gl.arange(0, BM, layout=gl.SliceLayout(1, G))[:, None] * WIDTH + k
    y_at = y_halves + first * WIDTH + gl.arange(0, BN, layout=gl.SliceLayout(1, G))[:, None] * WIDTH + k
    for i in gl.static_range(2 * NK):
        x.index(i).store(gl.load(x_at + 32 * i))
    row = gl.arange(0, BM, layout=gl.SliceLayout(1, L))
    col = gl.arange(0, BN, layout=gl.SliceLayout(0, L))
    unit = gl.load(units)
    scale = gl.load(units + 1)
    x_norm = gl.load(x_norms + row0 + row)[:, None]
    v_at = V + first + col
    n_at = y_norms + first + col
    y_rows = Y + first
    total0 = gl.zeros([BM], gl.float64, layout=gl.SliceLayout(1, L))
    total1 = total0
    total2 = total0
    total3 = total0
    for _ in range(n_tiles):
        for i in gl.static_range(2 * NK):
            y.index(i).store(gl.load(y_at + 32 * i))
        y_norm = gl.load(n_at)[None, :]
        fence_async_shared()
        left = product(x, y, 0, NK, NK, gl.zeros([BM, BN], gl.float32, layout=L))
        right = product(x, y, 1, 0, NK, gl.zeros([BM, BN], gl.float32, layout=L))
        left, right = warpgroup_mma_wait(num_outstanding=0, deps=(left, right))
        values = warpgroup_mma_wait(num_outstanding=0, deps=(product(x, y, 0, 0, NK, left + right),))
        if FORM != 7:
            norms = x_norm + y_norm
            values = norms - 2.0 * values
            nearest = gl.min(gl.min(values - _CLOSE * norms, 1), 0)
            if nearest < 0.0:  # what is there already waits in shared memory, as registers are few
                waiting.store(values)
                exact = gl.convert_layout(_differences(X + row0, y_rows, n, m, d, FORM, BM, BN, B), L) * scale
                values = waiting.load(L)
                values = gl.where(values < _CLOSE * (x_norm + y_norm), exact, values)
        values = _profile(values, unit, FORM, DEGREE).to(V.dtype.element_ty)
        total0 += gl.sum(values * gl.load(v_at)[None, :], 1).to(gl.float64)
        if COLUMNS > 1:
            total1 += gl.sum(values * gl.load(v_at + m)[None, :], 1).to(gl.float64)
        if COLUMNS > 2:
            total2 += gl.sum(values * gl.load(v_at + 2 * m)[None, :], 1).to(gl.float64)
        if COLUMNS > 3:
            total3 += gl.sum(values * gl.load(v_at + 3 * m)[None, :], 1).to(gl.float64)
        y_at += BN * WIDTH
        v_at += BN
        n_at += BN
        y_rows += BN
    to = out + gl.program_id(1).to(gl.int64) * COLUMNS * n + row0 + row
    gl.store(to, total0)
    if COLUMNS > 1:
        gl.store(to + n, total1)
    if COLUMNS > 2:
        gl.store(to + 2 * n, total2)
    if COLUMNS > 3:
        gl.store(to + 3 * n, total3)


def _blocked(plan: Tile, itemsize: int) -> tuple[gl.BlockedLayout, gl.BlockedLayout]:
    """Return a layout whose threads hold adjacent rows, for wide reads of either axis; warps count columns.

    And one for sums over rows.
    """
    rows, columns = (8, 4) if itemsize == 4 else (4, 2)
    return tuple(gl.BlockedLayout([size, columns], [4, 8], [1, plan.warps], [1, 0]) for size in (rows, 1))


def _padded(count: int, size: int) -> int:
    return -(-count // size) * size


def _turned(X: Tensor, count: int) -> Tensor:
    """Transpose X and pad it with zeros: (d + 1, count), d even."""
    out = X.new_zeros((_padded(X.shape[1], 2) + 1, count))
    out[: X.shape[1], : len(X)] = X.T
    return out


def stored(X: Tensor, Y: Tensor, form: str, degree: int, out: Tensor, plans: Plans) -> None:
    """Write distances, or values of a kernel of unit length scale, for all rows of X and Y."""
    n, m, plan = len(X), len(Y), _plan(X, plans)
    rows, columns = _padded(n, plan.rows), _padded(m, plan.columns)
    X, Y = _turned(X, rows), _turned(Y, columns)
    _stored[(rows // plan.rows, columns // plan.columns)](
        X, Y, out, rows, columns, len(X) - 1, n, m, out.stride(0), FORMS.index(form), degree, plan.rows, plan.columns,
        _blocked(plan, X.element_size())[0], num_warps=plan.warps,
    )  # fmt: skip


def _plan(X: Tensor, plans: Plans) -> Tile:
    return plans.differences if X.element_size() == 4 else plans.wide_differences


def multiplied(X: Tensor, Y: Tensor, form: str, degree: int, V: Tensor, plans: Plans) -> Tensor:
    """Multiply the kernel values of X and Y by V (m, k), in float64."""
    V = V.double()
    tile = _squares_tile(X.shape[1], plans) if X.element_size() == 4 and form in SQUARES else None
    if tile is not None:
        return _by_squares(X, Y, form, degree, V, tile)
    n, m, k, plan = len(X), len(Y), V.shape[1], _plan(X, plans)
    columns, rows = triton.next_power_of_2(k), _padded(n, plan.columns)
    n_tiles = _share(m, plan.rows, rows // plan.columns)
    others = _padded(m, n_tiles * plan.rows)
    parts = others // (n_tiles * plan.rows)
    out = V.new_empty((parts, columns, rows))
    X, Y = _turned(X, rows), _turned(Y, others)
    _multiplied[(rows // plan.columns, parts)](
        X, Y, _across(V, columns, others), out, rows, others, len(X) - 1, n_tiles,
        FORMS.index(form), degree, columns, plan.rows, plan.columns, *_blocked(plan, X.element_size()),
        num_warps=plan.warps,
    )  # fmt: skip
    return out.sum(0)[:k, :n].T


def _squares_tile(d: int, plans: Plans) -> Tile | None:
    """Return the plan's tile or a smaller one, two of which fit in shared memory; None for too few or many features."""
    if plans.squares is None or d < plans.squares_from:
        return None

    def room(tile: Tile) -> int:
        return 4 * (tile.rows + tile.columns) * _padded(d, _CHUNK) + 8 * tile.rows * tile.columns

    return next((tile for tile in (plans.squares, _LEAST) if room(tile) <= plans.shared // 2), None)


def _share(m: int, size: int, n_programs: int) -> int:
    """Return the number of tiles of m rows that a program adds up, so that the programs keep a device busy."""
    n_tiles = -(-m // size)
    return -(-n_tiles // min(n_tiles, max(1, _PROGRAMS // n_programs)))


def _across(V: Tensor, columns: int, others: int) -> Tensor:
    """Transpose V and pad it with zeros."""
    out = V.new_zeros((columns, others))
    out[: V.shape[1], : len(V)] = V.T
    return out


def _finite(X: Tensor) -> Tensor:
    return X.double().nan_to_num(0.0, 0.0, 0.0)


def _halves(X: Tensor, centre: Tensor, unit: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return centred, scaled rows as high and low halves (count, 2 · 32 n_chunks), and their squared norms."""
    (n, d), width = X.shape, _padded(X.shape[1], _CHUNK)
    X = (X.double() - centre) * unit
    halves = X.new_zeros((count, 2, width)).half()
    high = X.half()
    low = (X - high.double()).half()
    halves[:n, 0, :d], halves[:n, 1, :d] = high, low
    norms = X.new_zeros(count).float()
    norms[:n] = (high.double() + low.double()).square().sum(1)
    return halves, norms


def _by_squares(X: Tensor, Y: Tensor, form: str, degree: int, V: Tensor, plan: Tile) -> Tensor:
    n, m = len(X), len(Y)
    centre = 0.0  # else the mean of all rows, the same for k(Y, X); numbers that are not finite stay in their rows
    if form != "polynomial":
        centre = (_finite(X).sum(0) + _finite(Y).sum(0)) / (n + m)
    largest = (_finite(X) - centre).abs().max().maximum((_finite(Y) - centre).abs().max())
    unit = largest.new_ones(()).ldexp(14 - largest.frexp()[1])
    rows = _padded(n, plan.rows)
    n_tiles = _share(m, plan.columns, rows // plan.rows)
    others = _padded(m, n_tiles * plan.columns)
    n_parts = others // (n_tiles * plan.columns)
    x_halves, x_norms = _halves(X, centre, unit, rows)
    y_halves, y_norms = _halves(Y, centre, unit, others)
    X, Y = _turned(X, rows), _turned(Y, others)
    units, parts = (unit.square() ** unit.new_tensor([-1.0, 1.0])).float(), []
    for start in range(0, V.shape[1], _COLUMNS):
        some = V[:, start : start + _COLUMNS]
        out = V.new_empty((n_parts, some.shape[1], rows))
        _squares[(rows // plan.rows, n_parts)](
            X, Y, x_halves, y_halves, x_norms, y_norms, units, _across(some, some.shape[1], others), out, rows, others,
            len(X) - 1, n_tiles, FORMS.index(form), degree, some.shape[1], plan.rows, plan.columns,
            x_halves.shape[2] // _CHUNK, plan.warps, layout_of(plan.columns, plan.warps),
            gl.BlockedLayout([4, 4], [8, 4], [plan.warps // 2, 2], [1, 0]), num_warps=plan.warps,
        )  # fmt: skip
        parts.append(out.sum(0)[:, :n])
    found = V.new_empty((n, V.shape[1]))
    for i, part in enumerate(parts):
        found[:, i * _COLUMNS : (i + 1) * _COLUMNS] = part.T
    return found


# ---------------------------------------------------------------------------------- products of float32 in float64


@triton.jit(do_not_specialize=("n",))
def _rows_product(Z, v, out, n, m, z_stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):  # type: ignore[no-untyped-def]
    """Multiply rows of Z by v, reading Z once."""
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
    """Multiply columns of Z by u, over a share of the rows."""
    col = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1).to(tl.int64) * per_program
    total = tl.zeros((ROWS, COLUMNS), tl.float64)
    for start in range(0, per_program, ROWS):
        row = first + start + tl.arange(0, ROWS)
        there = row < n
        z = tl.load(Z + row[:, None] * z_stride + col[None, :], mask=there[:, None] & (col[None, :] < m), other=0.0)
        total += z.to(tl.float64) * tl.load(u + row, mask=there, other=0.0)[:, None]
    tl.store(out + tl.program_id(1).to(tl.int64) * m + col, tl.sum(total, 0), mask=col < m)


def rows_product(Z: Tensor, v: Tensor) -> Tensor:
    """Return Z v of float32 features and a float64 vector, in float64."""
    out = v.new_empty(len(Z))
    _rows_product[(-(-len(Z) // 8),)](Z, v, out, len(Z), Z.shape[1], Z.stride(0), 8, 256, num_warps=4)
    return out


def columns_product(Z: Tensor, u: Tensor) -> Tensor:
    """Return Zᵀ u of float32 features and a float64 vector, in float64."""
    n, m = Z.shape
    per_program = 8 * max(1, -(-n // 512))
    parts = -(-n // per_program)
    out = u.new_empty((parts, m))
    _columns_product[(-(-m // 256), parts)](Z, u, out, n, m, Z.stride(0), per_program, 8, 256, num_warps=4)
    return out.sum(0)
