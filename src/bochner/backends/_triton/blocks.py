"""Features of blocks of transforms, structured and Fastfood: a row is read once and its features are written once.

Sines and cosines are the hardware's own (error 2^-20.5) after an exact reduction to half a turn. Phases are float32 at
first: what additions round makes them err by some 1.3e-7 (128 columns) to 1.8e-7 (8,192 columns) of their usual size.
Every thread looks among its own numbers for one that the largest factor of the block would make a phase beyond 11, and
marks the tile of rows and block of columns where it finds one; a second launch makes those again in float64, and ends
at once where nothing is marked.
"""

from __future__ import annotations

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bochner.backends import Array
from bochner.backends._triton.layouts import Tile, tile_of
from bochner.backends._triton.transforms import (
    column,
    exchange,
    flip,
    in_a,
    in_b,
    in_c,
    index,
    joined,
    read,
    registers_part,
    threads_part,
)
from bochner.backends.plans import Plans
from bochner.backends.torch.memory import Tensor

_TURN = 2.0 * np.pi
_LARGE = 11.0 / _TURN  # turns from which on phases are computed in float64
_MARKS = gl.constexpr(128)  # largest number of marks that a program of the second launch reads
_ANY_COUNT = ("n", "per_program", "n_marks")  # arguments whose values do not trigger a new compilation


@gluon.jit
def whole(turns):  # type: ignore[no-untyped-def]
    """Round turns to integers, exactly, by adding 1.5 · 2^23 or 1.5 · 2^52."""
    if turns.dtype == gl.float64:
        number = (turns + 6755399441055744.0) - 6755399441055744.0
    else:
        number = (turns + 12582912.0) - 12582912.0
    return number


@gluon.jit
def cos_sin(turns):  # type: ignore[no-untyped-def]
    """Return cosine and sine of at most half a turn."""
    angle = turns * 6.283185307179586
    c = gl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    s = gl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    return c, s


@gluon.jit
def _mark(v, mark, limit):  # type: ignore[no-untyped-def]
    """Store a one if a thread finds a large number among its own: layout C has all but axes 3 and 4 in registers."""
    largest = gl.max(gl.max(gl.max(gl.max(gl.abs(v), 5), 2), 1), 0)
    gl.store(mark + gl.zeros_like(largest).to(gl.int32), gl.full_like(largest, 1).to(gl.int32), mask=largest > limit)


@gluon.jit
def _write(v, out, marks, limits, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape: gl.constexpr,  # type: ignore[no-untyped-def]
           C: gl.constexpr, D: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    """Write pairs of v times factors, in turns, or the products themselves; mark float32 numbers that are too large."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    col = column(C, shape, 2)
    t = v * gl.load(factors + block * P + threads_part(C, shape, 2) + registers_part(C, shape, 2))
    base = out + row0 * out_stride
    if PAIRS:
        if ODD:
            t += gl.where(2 * (block * P + col) == n_columns - 1, tail, 0.0)
        if v.dtype == gl.float32:
            _mark(v, marks, gl.load(limits + block))
        c, s = cos_sin((t - whole(t)).to(gl.float32))
        z = gl.reshape(gl.join(c * scale, s * scale), [shape[0], shape[1], shape[2], shape[3], 32, 4])
        z = gl.convert_layout(z, D, assert_trivial=True)
        row, threads, registers = index(D, 0, shape[0]), threads_part(D, shape, 4), registers_part(D, shape, 4)
        start = block * (2 * P)
        at = base + start + row * out_stride + threads + registers
        if WHOLE:
            gl.store(at, z, cache_modifier=".cs")
        elif shape[0] == 1:
            gl.store(at, z, mask=registers < n_columns - start - threads, cache_modifier=".cs")
        else:
            gl.store(at, z, mask=(registers < n_columns - start - threads) & (row < rows), cache_modifier=".cs")
    else:
        row = index(C, 0, shape[0])
        at = base + block * P + row * out_stride + threads_part(C, shape, 2) + registers_part(C, shape, 2)
        gl.store(at, t, mask=(row < rows) & (col < n_columns - block * P))


@gluon.jit
def _flip_c(x, words, shape: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return signs in layout C, which has a word for every 32 of a thread's registers."""
    N: gl.constexpr = shape[3] * 32
    word = index(C, 3, shape[3]) * 32 + index(C, 4, 32)
    place = (index(C, 1, shape[1]) * shape[2] + index(C, 2, shape[2])) * 2 + index(C, 5, 2)
    w = gl.load(words + word)
    for i in gl.static_range(1, 4):
        if 32 * i < shape[1] * shape[2] * 2:
            w = gl.where(place >= 32 * i, gl.load(words + i * N + word), w)
    return flip(x, w, place & 31)


@gluon.jit
def _a_word(shape: gl.constexpr, A: gl.constexpr):  # type: ignore[no-untyped-def]
    top = (index(A, 1, shape[1]) * shape[2] + index(A, 2, shape[2])) * shape[3] + index(A, 3, shape[3])
    return top * 2 + index(A, 5, 2)


@gluon.jit
def _b_word(shape: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    return (index(B, 2, shape[2]) * 32 + index(B, 4, 32)) * 2 + index(B, 5, 2)


@gluon.jit
def _rows(tile, n, shape: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first row of a tile and the number of rows. The last of several tiles overlaps the one before."""
    row0 = tile.to(gl.int64) * shape[0]
    if shape[0] > 1:
        row0 = gl.maximum(gl.minimum(row0, n - shape[0]), 0)
    return row0, (n - row0).to(gl.int32)


@gluon.jit
def _next(marks, first, start, last, n_warps: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the first marked position from `start` to `last`, or `last`."""
    i = first + gl.arange(0, _MARKS, layout=gl.BlockedLayout([1], [32], [n_warps], [0]))
    mark = gl.load(marks + i, mask=(i >= start) & (i < last), other=0)
    return gl.min(gl.where(mark != 0, i, last), 0)


@gluon.jit
def _rotate(x, X, words, block, row0, rows, d, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr,  # type: ignore[no-untyped-def]
            C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # fmt: skip
    """Compute H D₀ H D₁ H D₂ x of one block, in layout C; x is given in layout A, or None and read from X."""
    H: gl.constexpr = shape[1]
    S: gl.constexpr = shape[2]
    M: gl.constexpr = shape[3]
    NA: gl.constexpr = H * S * M * 2
    NC: gl.constexpr = M * 32 * ((H * S * 2 + 31) // 32)
    a_word = _a_word(shape, A)
    a_place = index(A, 4, 32)
    if B is not None:  # C A B, B C A, A B C; rows are read again for every block
        NB: gl.constexpr = S * 64
        b_place = index(B, 1, H) * M + index(B, 3, M)
        w = words + block * (NC + NB + NA)
        b_signs, a_signs = gl.load(w + NC + _b_word(shape, B)), gl.load(w + NC + NB + a_word)  # early: it takes a while
        v = _flip_c(read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), w, shape, C)
        v = in_a(exchange(in_c(v, shape, C), A), shape, A, B)
        v = in_b(exchange(v, B), shape, B)
        v = in_b(flip(v, b_signs, b_place), shape, B)
        v = in_c(exchange(v, C), shape, C)
    else:  # A C, C A, A C; rows of few columns stay in registers
        w = words + block * (2 * NA + NC)
        v = exchange(read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), A) if x is None else x
        v = in_a(flip(v, gl.load(w + a_word), a_place), shape, A, B)
        v = in_c(exchange(v, C), shape, C)
        v = in_c(_flip_c(v, w + NA, shape, C), shape, C)
        a_signs = gl.load(w + NA + NC + a_word)
    v = in_a(exchange(v, A), shape, A, B)
    v = in_a(flip(v, a_signs, a_place), shape, A, B)
    if B is not None:
        v = in_b(exchange(v, B), shape, B)
    return in_c(exchange(v, C), shape, C)


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _structured(X, words, factors, out, marks, limits, n, d, x_stride, out_stride, n_columns, n_blocks, per_program,  # type: ignore[no-untyped-def]
                scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, D: gl.constexpr,
                KEPT: gl.constexpr, ALONE: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr,
                WHOLE_X: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    row0, rows = _rows(gl.program_id(0), n, shape)
    first = gl.program_id(1) * per_program
    last = first + 1 if ALONE else gl.minimum(first + per_program, n_blocks)
    x = None
    if KEPT:
        x = exchange(read(X, row0, rows, d, x_stride, shape, C, WHOLE_X, gl.float32), A)
    for block in range(first, last):
        v = _rotate(x, X, words, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float32)
        _write(v, out, marks + gl.program_id(0) * n_blocks + block, limits, row0, rows, block, out_stride, n_columns,
               factors, scale, tail, shape, C, D, PAIRS, ODD, WHOLE)  # fmt: skip


@gluon.jit
def _gathered(v, order, gains, word, place, N: gl.constexpr, shape: gl.constexpr, L: gl.constexpr):  # type: ignore[no-untyped-def]
    """Permute the columns of v in layout L, and multiply them by gains."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NI: gl.constexpr = min(8, P // N)  # indices and gains that are read at a time
    NG: gl.constexpr = min(4, P // N)
    source = gl.reshape(gl.permute(v, [0, 1, 2, 3, 5, 4]), [shape[0], P])
    origin = gl.load(order + ((place // NI) * (NI * N) + word * NI + place % NI)).to(gl.int32)
    origin = origin + index(L, 0, shape[0]) * 0  # the same for every row
    origin = gl.reshape(origin, [shape[0], P])
    if v.dtype == gl.float64 and P >= 32768:
        bits = source.to(gl.int64, bitcast=True)
        v = joined(gl.gather(bits.to(gl.int32), origin, 1), gl.gather((bits >> 32).to(gl.int32), origin, 1))
    else:
        v = gl.gather(source, origin, 1)
    v = gl.convert_layout(gl.reshape(v, [shape[0], shape[1], shape[2], shape[3], 32, 2]), L, assert_trivial=True)
    return v * gl.load(gains + ((place // NG) * (NG * N) + word * NG + place % NG)).to(v.dtype)


@gluon.jit
def _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape: gl.constexpr, A: gl.constexpr,  # type: ignore[no-untyped-def]
         B: gl.constexpr, C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # fmt: skip
    """Compute H G Π H D x of one block, in layout C."""
    M: gl.constexpr = shape[3]
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NC: gl.constexpr = M * 32 * ((shape[1] * shape[2] * 2 + 31) // 32)
    v = _flip_c(read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), words + block * NC, shape, C)
    v = in_a(exchange(in_c(v, shape, C), A), shape, A, B)
    order += block * P
    gains += block * P
    if B is None:  # C A, permuted from C to A, A C
        v = exchange(v, C)
        v = _gathered(v, order, gains, _a_word(shape, A), index(A, 4, 32), P // 32, shape, A)
    else:  # C A B, permuted, B A C
        v = in_b(exchange(v, B), shape, B)
        place = index(B, 1, shape[1]) * M + index(B, 3, M)
        v = _gathered(v, order, gains, _b_word(shape, B), place, shape[2] * 64, shape, B)
        v = exchange(in_b(v, shape, B), A)
    return in_c(exchange(in_a(v, shape, A, B), C), shape, C)


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _fastfood(X, words, order, gains, factors, out, marks, limits, n, d, x_stride, out_stride, n_columns, n_blocks,  # type: ignore[no-untyped-def]
              per_program, scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,
              D: gl.constexpr, ALONE: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
              WHOLE: gl.constexpr):  # fmt: skip
    row0, rows = _rows(gl.program_id(0), n, shape)
    first = gl.program_id(1) * per_program
    last = first + 1 if ALONE else gl.minimum(first + per_program, n_blocks)
    for block in range(first, last):
        v = _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float32)
        _write(v, out, marks + gl.program_id(0) * n_blocks + block, limits, row0, rows, block, out_stride, n_columns,
               factors, scale, tail, shape, C, D, PAIRS, ODD, WHOLE)  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _again(X, words, order, gains, factors, out, marks, n, d, x_stride, out_stride, n_columns, n_blocks, n_marks,  # type: ignore[no-untyped-def]
           per_program, scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,
           D: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    """Compute the marked tiles again in float64; structured ones have no order and no gains."""
    first = gl.program_id(0) * per_program
    last = gl.minimum(first + per_program, n_marks)
    i = _next(marks, first, first, last, shape[3])
    while i < last:
        block = i % n_blocks
        row0, rows = _rows(i // n_blocks, n, shape)
        if order is None:
            v = _rotate(None, X, words, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float64)
        else:
            v = _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float64)
        _write(v, out, marks, marks, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, True,
               ODD, WHOLE)  # fmt: skip
        i = _next(marks, first, i + 1, last, shape[3])


def _programs(n: int, t: Tile, n_blocks: int) -> tuple[tuple[int, int], int]:
    """Return a grid of row tiles by groups of blocks that fills the device, and the blocks of a group."""
    n_tiles = -(-n // t.n_rows)
    parts = min(n_blocks, max(1, 4096 // n_tiles))
    per_program = -(-n_blocks // parts)
    return (n_tiles, -(-n_blocks // per_program)), per_program


def _whole(X: Tensor, t: Tile, n_blocks: int, out: Tensor) -> tuple[bool, bool]:
    """Return True if tiles of X, and of pairs, are full of rows and columns: they need no masks then."""
    p, full = t.shape[1] * t.shape[2] * t.shape[3] * 64, len(X) >= t.n_rows
    return full and X.shape[1] == p, full and out.shape[1] == 2 * p * n_blocks


def _options(t: Tile, limit: int | None) -> dict[str, int]:
    return {"num_warps": t.n_warps} | ({} if limit is None else {"maxnreg": limit})


def limits_of(factors: Array) -> Array:
    """Return the sizes of transformed numbers above which phases are large, for factors (blocks, p) in turns."""
    return (_LARGE / np.abs(factors).max(axis=1).clip(1e-30)).astype(np.float32)


def _marks(n: int, t: Tile, n_blocks: int, words: Tensor) -> tuple[Tensor, int]:
    """Return a zero mark for every tile and block, and the number of marks a program reads."""
    n_marks = -(-n // t.n_rows) * n_blocks
    return words.new_zeros(n_marks), min(_MARKS.value, -(-n_marks // 2048))


def structured(
    X: Tensor,
    words: Tensor,
    factors: Tensor,
    wide_factors: Tensor,
    limits: Tensor,
    scale: float,
    tail: float,
    out: Tensor,
    plans: Plans,
    *,
    pairs: bool,
) -> None:
    """Write pairs (or phases) of factors · H D₀ H D₁ H D₂ x; factors are in turns for pairs, padded to whole blocks.

    X may be float64; `factors` are float32, `wide_factors` the same in float64, `limits` what `limits_of` made of them.
    """
    n, n_blocks = len(X), len(words)
    q = (factors.shape[0] // n_blocks).bit_length() - 1
    plan = plans.structured_plan(q)
    t = tile_of(q, plan)
    grid, per_program = _programs(n, t, n_blocks)
    marks, per_check = _marks(n, t, n_blocks, words)
    kept = t.n_warps == 1 and plan.registers == 5
    sizes = (n, X.shape[1], X.stride(0), out.stride(0), out.shape[1], n_blocks)
    odd, whole = pairs and out.shape[1] % 2 == 1, _whole(X, t, n_blocks, out)
    _structured[grid](
        X, words, factors, out, marks, limits, *sizes, per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D,
        kept, per_program == 1, pairs, odd, *whole, **_options(t, plan.limit),
    )  # fmt: skip
    if pairs:
        _again[(-(-len(marks) // per_check),)](
            X, words, None, None, wide_factors, out, marks, *sizes, len(marks), per_check, scale, tail / _TURN, t.shape,
            t.A, t.B, t.C, t.D, odd, *whole, **_options(t, plan.wide_limit),
        )  # fmt: skip


def fastfood(
    X: Tensor,
    packed: Tensor,
    factors: Tensor,
    wide_factors: Tensor,
    limits: Tensor,
    scale: float,
    tail: float,
    out: Tensor,
    plans: Plans,
    *,
    pairs: bool,
) -> None:
    """Write pairs (or phases) of factors · H G Π H B x; `packed` comes from `pack_fastfood`, on the device."""
    n, n_blocks = len(X), len(packed[0])
    q = packed[1].shape[1].bit_length() - 1
    plan = plans.fastfood_plan(q)
    t = tile_of(q, plan)
    grid, per_program = _programs(n, t, n_blocks)
    marks, per_check = _marks(n, t, n_blocks, packed[0])
    sizes = (n, X.shape[1], X.stride(0), out.stride(0), out.shape[1], n_blocks)
    odd, whole = pairs and out.shape[1] % 2 == 1, _whole(X, t, n_blocks, out)
    _fastfood[grid](
        X, *packed, factors, out, marks, limits, *sizes, per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D,
        per_program == 1, pairs, odd, *whole, **_options(t, plan.limit),
    )  # fmt: skip
    if pairs:
        _again[(-(-len(marks) // per_check),)](
            X, *packed, wide_factors, out, marks, *sizes, len(marks), per_check, scale, tail / _TURN, t.shape, t.A, t.B,
            t.C, t.D, odd, *whole, **_options(t, plan.wide_limit),
        )  # fmt: skip
