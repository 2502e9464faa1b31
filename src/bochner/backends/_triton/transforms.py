"""Walsh-Hadamard transforms, and the features made of them: a row is read once and its features are written once.

`layouts` says how a row is spread over threads. Sines and cosines are the hardware's own (error 2^-20.5) after an exact
reduction to half a turn. Phases are float32 at first: what additions round makes them err by some 1.1e-7 (64 columns)
to 1.8e-7 (8,192 columns) of their usual size. Every thread looks for phases beyond 10 among its own and marks the tile
of rows and block of columns where it finds one; a second launch makes those again in float64, whose phases err by
nothing that sine and cosine would show, and leaves at once where nothing is marked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from bochner.backends._triton.layouts import FASTFOOD_PLANS, MOST_BITS, PLANS, Plan, Tile, tile, tile_of

_TURN = 2.0 * np.pi
_LARGE = gl.constexpr(10.0 / _TURN)  # turns, from which on phases are made in float64
_MARKS = gl.constexpr(128)  # tiles that a program of the second launch has at most
_ANY_COUNT = ("n",)  # arguments for whose values no kernel is compiled anew
_ANY_COUNTS = ("n", "n_marks", "per_program")


@gluon.constexpr_function
def _along(layout, axis):  # type: ignore[no-untyped-def]
    """The layout of one axis of a tile."""
    for other in range(5, -1, -1):
        if other != axis:
            layout = gl.SliceLayout(other, layout)
    return layout


@gluon.jit
def _index(layout: gl.constexpr, axis: gl.constexpr, size: gl.constexpr):  # type: ignore[no-untyped-def]
    i = gl.arange(0, size, layout=_along(layout, axis))
    for other in gl.static_range(6):
        if other != axis:
            i = gl.expand_dims(i, other)
    return i


@gluon.jit
def _column(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    """The column of every element, or of every number of a pair (last = 4)."""
    return _threads_part(layout, shape, last) + _registers_part(layout, shape, last)


# In layouts C and D one part is the same for all of a thread's registers, and the other is known to the compiler, which
# needs no address but that of the first where they are added to a pointer one after the other.
@gluon.jit
def _threads_part(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    return (_index(layout, 3, shape[3]) * 32 + _index(layout, 4, 32)) * last


@gluon.jit
def _registers_part(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    top = _index(layout, 1, shape[1]) * shape[2] + _index(layout, 2, shape[2])
    return top * (shape[3] * 32 * last) + _index(layout, 5, last)


@gluon.jit
def _levels(x, pre: gl.constexpr, size: gl.constexpr, post: gl.constexpr, shape: gl.constexpr, layout: gl.constexpr):  # type: ignore[no-untyped-def]
    """Butterflies over one axis of the tile seen as (pre, size, post); its bits must be in registers."""
    for level in gl.static_range(7):
        if (1 << level) < size:
            split = gl.reshape(x, [pre, size >> (level + 1), 2, 1 << level, post])
            a, b = gl.split(gl.permute(split, [0, 1, 3, 4, 2]))
            x = gl.permute(gl.join(a + b, a - b), [0, 1, 4, 2, 3])
    x = gl.reshape(x, [shape[0], shape[1], shape[2], shape[3], 32, 2])
    return gl.convert_layout(x, layout, assert_trivial=True)


@gluon.jit
def _in_c(x, shape: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    x = _levels(x, shape[0] * shape[1] * shape[2] * shape[3] * 32, 2, 1, shape, C)
    return _levels(x, shape[0], shape[1] * shape[2], shape[3] * 64, shape, C)


@gluon.jit
def _in_a(x, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    x = _levels(x, shape[0] * shape[1] * shape[2] * shape[3], 32, 2, shape, A)
    if B is None:
        x = _levels(x, shape[0] * shape[1] * shape[2], shape[3], 64, shape, A)
    return x


@gluon.jit
def _in_b(x, shape: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    return _levels(x, shape[0] * shape[1] * shape[2], shape[3], 64, shape, B)


@gluon.jit
def _exchange(x, layout: gl.constexpr):  # type: ignore[no-untyped-def]
    """X in another layout, through shared memory; what does not fit there goes in two halves."""
    if x.dtype == gl.float64 and x.numel >= 32768:
        bits = x.to(gl.int64, bitcast=True)
        low = gl.convert_layout(bits.to(gl.int32), layout)
        high = gl.convert_layout((bits >> 32).to(gl.int32), layout)
        x = _joined(low, high)
    else:
        x = gl.convert_layout(x, layout)
    return x


@gluon.jit
def _joined(low, high):  # type: ignore[no-untyped-def]
    return ((high.to(gl.int64) << 32) | (low.to(gl.int64) & 4294967295)).to(gl.float64, bitcast=True)


@gluon.jit
def _flip(x, words, places):  # type: ignore[no-untyped-def]
    sign = (words << (31 - places)) & -2147483648
    if x.dtype == gl.float64:
        x = (x.to(gl.int64, bitcast=True) ^ (sign.to(gl.int64) << 32)).to(gl.float64, bitcast=True)
    else:
        x = (x.to(gl.int32, bitcast=True) ^ sign).to(gl.float32, bitcast=True)
    return x


@gluon.jit
def whole(turns):  # type: ignore[no-untyped-def]
    """Turns rounded to integers, exactly: by adding 1.5 · 2^23, or 1.5 · 2^52."""
    if turns.dtype == gl.float64:
        number = (turns + 6755399441055744.0) - 6755399441055744.0
    else:
        number = (turns + 12582912.0) - 12582912.0
    return number


@gluon.jit
def waves(turns):  # type: ignore[no-untyped-def]
    """Cosine and sine of at most half a turn."""
    angle = turns * 6.283185307179586
    c = gl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    s = gl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    return c, s


@gluon.jit
def _mark(turns, mark):  # type: ignore[no-untyped-def]
    """Store a one if a thread finds a large phase among its own: layout C has all but axes 3 and 4 in registers."""
    largest = gl.max(gl.max(gl.max(gl.max(gl.abs(turns), 5), 2), 1), 0)
    gl.store(mark + gl.zeros_like(largest).to(gl.int32), gl.full_like(largest, 1).to(gl.int32), mask=largest > _LARGE)


@gluon.jit
def _write(v, out, marks, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape: gl.constexpr,  # type: ignore[no-untyped-def]
           C: gl.constexpr, D: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    """Pairs of v times factors, in turns, or these products themselves. Pairs of float32 phases are looked at."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    col = _column(C, shape, 2)
    t = v * gl.load(factors + block * P + _threads_part(C, shape, 2) + _registers_part(C, shape, 2))
    base = out + row0 * out_stride
    if PAIRS:
        if ODD:
            t += gl.where(2 * (block * P + col) == n_columns - 1, tail, 0.0)
        if t.dtype == gl.float32:
            _mark(t, marks)
        c, s = waves((t - whole(t)).to(gl.float32))
        z = gl.reshape(gl.join(c * scale, s * scale), [shape[0], shape[1], shape[2], shape[3], 32, 4])
        z = gl.convert_layout(z, D, assert_trivial=True)
        row, threads, registers = _index(D, 0, shape[0]), _threads_part(D, shape, 4), _registers_part(D, shape, 4)
        start = block * (2 * P)
        at = base + start + row * out_stride + threads + registers
        if WHOLE:
            gl.store(at, z, cache_modifier=".cs")
        elif shape[0] == 1:
            gl.store(at, z, mask=registers < n_columns - start - threads, cache_modifier=".cs")
        else:
            gl.store(at, z, mask=(registers < n_columns - start - threads) & (row < rows), cache_modifier=".cs")
    else:
        row = _index(C, 0, shape[0])
        at = base + block * P + row * out_stride + _threads_part(C, shape, 2) + _registers_part(C, shape, 2)
        gl.store(at, t, mask=(row < rows) & (col < n_columns - block * P))


@gluon.jit
def _read(X, row0, rows, d, x_stride, shape: gl.constexpr, C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # type: ignore[no-untyped-def]
    row, threads, registers = _index(C, 0, shape[0]), _threads_part(C, shape, 2), _registers_part(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + threads + registers
    if WHOLE:
        x = gl.load(at)
    elif shape[0] == 1:
        x = gl.load(at, mask=registers < d - threads, other=0.0)
    else:
        x = gl.load(at, mask=(registers < d - threads) & (row < rows), other=0.0)
    return x.to(kind)


@gluon.jit
def _flip_c(x, words, shape: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    """Signs in layout C, which has a word for every 32 of a thread's registers."""
    N: gl.constexpr = shape[3] * 32
    word = _index(C, 3, shape[3]) * 32 + _index(C, 4, 32)
    place = (_index(C, 1, shape[1]) * shape[2] + _index(C, 2, shape[2])) * 2 + _index(C, 5, 2)
    w = gl.load(words + word)
    for i in gl.static_range(1, 4):
        if 32 * i < shape[1] * shape[2] * 2:
            w = gl.where(place >= 32 * i, gl.load(words + i * N + word), w)
    return _flip(x, w, place & 31)


@gluon.jit
def _a_word(shape: gl.constexpr, A: gl.constexpr):  # type: ignore[no-untyped-def]
    top = (_index(A, 1, shape[1]) * shape[2] + _index(A, 2, shape[2])) * shape[3] + _index(A, 3, shape[3])
    return top * 2 + _index(A, 5, 2)


@gluon.jit
def _b_word(shape: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    return (_index(B, 2, shape[2]) * 32 + _index(B, 4, 32)) * 2 + _index(B, 5, 2)


@gluon.jit
def _next(marks, first, start, last, n_warps: gl.constexpr):  # type: ignore[no-untyped-def]
    """The first place that is marked, of those from `start` to `last`; `last` if there is none."""
    i = first + gl.arange(0, _MARKS, layout=gl.BlockedLayout([1], [32], [n_warps], [0]))
    mark = gl.load(marks + i, mask=(i >= start) & (i < last), other=0)
    return gl.min(gl.where(mark != 0, i, last), 0)


@gluon.jit
def _rotate(x, X, words, block, row0, rows, d, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr,  # type: ignore[no-untyped-def]
            C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # fmt: skip
    """H D₀ H D₁ H D₂ x of one block, in layout C; x is the rows in layout A, or None and read from X."""
    H: gl.constexpr = shape[1]
    S: gl.constexpr = shape[2]
    M: gl.constexpr = shape[3]
    NA: gl.constexpr = H * S * M * 2
    NC: gl.constexpr = M * 32 * ((H * S * 2 + 31) // 32)
    a_word = _a_word(shape, A)
    a_place = _index(A, 4, 32)
    if B is not None:  # C A B, B C A, A B C; rows are read again for every block
        NB: gl.constexpr = S * 64
        b_place = _index(B, 1, H) * M + _index(B, 3, M)
        w = words + block * (NC + NB + NA)
        b_signs, a_signs = gl.load(w + NC + _b_word(shape, B)), gl.load(w + NC + NB + a_word)  # early: it takes a while
        v = _flip_c(_read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), w, shape, C)
        v = _in_a(_exchange(_in_c(v, shape, C), A), shape, A, B)
        v = _in_b(_exchange(v, B), shape, B)
        v = _in_b(_flip(v, b_signs, b_place), shape, B)
        v = _in_c(_exchange(v, C), shape, C)
    else:  # A C, C A, A C; rows of few columns stay in registers
        w = words + block * (2 * NA + NC)
        v = _exchange(_read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), A) if x is None else x
        v = _in_a(_flip(v, gl.load(w + a_word), a_place), shape, A, B)
        v = _in_c(_exchange(v, C), shape, C)
        v = _in_c(_flip_c(v, w + NA, shape, C), shape, C)
        a_signs = gl.load(w + NA + NC + a_word)
    v = _in_a(_exchange(v, A), shape, A, B)
    v = _in_a(_flip(v, a_signs, a_place), shape, A, B)
    if B is not None:
        v = _in_b(_exchange(v, B), shape, B)
    return _in_c(_exchange(v, C), shape, C)


@gluon.jit(do_not_specialize=_ANY_COUNT)  # a loop over one block is no loop, if the compiler knows
def _structured(X, words, factors, out, marks, n, d, x_stride, out_stride, n_columns, n_blocks, per_program, scale,  # type: ignore[no-untyped-def]
                tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, D: gl.constexpr,
                KEPT: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
                WHOLE: gl.constexpr):  # fmt: skip
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, n_blocks)
    x = None
    if KEPT:
        x = _exchange(_read(X, row0, rows, d, x_stride, shape, C, WHOLE_X, gl.float32), A)
    for block in range(first, last):
        v = _rotate(x, X, words, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float32)
        _write(v, out, marks + gl.program_id(0) * n_blocks + block, row0, rows, block, out_stride, n_columns, factors,
               scale, tail, shape, C, D, PAIRS, ODD, WHOLE)  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_COUNTS)
def _structured_again(X, words, factors, out, marks, n, d, x_stride, out_stride, n_columns, n_blocks, n_marks,  # type: ignore[no-untyped-def]
                      per_program, scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr,
                      C: gl.constexpr, D: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
                      WHOLE: gl.constexpr):  # fmt: skip
    """Marked tiles in float64."""
    first = gl.program_id(0) * per_program
    last = gl.minimum(first + per_program, n_marks)
    i = _next(marks, first, first, last, shape[3])
    while i < last:
        block = i % n_blocks
        row0 = (i // n_blocks).to(gl.int64) * shape[0]
        rows = (n - row0).to(gl.int32)
        v = _rotate(None, X, words, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float64)
        _write(v, out, marks, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, True, ODD,
               WHOLE)  # fmt: skip
        i = _next(marks, first, i + 1, last, shape[3])


@gluon.jit
def _gathered(v, order, gains, word, place, N: gl.constexpr, shape: gl.constexpr, L: gl.constexpr):  # type: ignore[no-untyped-def]
    """Columns of v in another order, in layout L, times gains."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NI: gl.constexpr = min(8, P // N)  # indices and gains that are read at a time
    NG: gl.constexpr = min(4, P // N)
    source = gl.reshape(gl.permute(v, [0, 1, 2, 3, 5, 4]), [shape[0], P])
    index = gl.load(order + ((place // NI) * (NI * N) + word * NI + place % NI)).to(gl.int32)
    index = index + _index(L, 0, shape[0]) * 0  # the same for every row
    index = gl.reshape(index, [shape[0], P])
    if v.dtype == gl.float64 and P >= 32768:
        bits = source.to(gl.int64, bitcast=True)
        v = _joined(gl.gather(bits.to(gl.int32), index, 1), gl.gather((bits >> 32).to(gl.int32), index, 1))
    else:
        v = gl.gather(source, index, 1)
    v = gl.convert_layout(gl.reshape(v, [shape[0], shape[1], shape[2], shape[3], 32, 2]), L, assert_trivial=True)
    return v * gl.load(gains + ((place // NG) * (NG * N) + word * NG + place % NG)).to(v.dtype)


@gluon.jit
def _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape: gl.constexpr, A: gl.constexpr,  # type: ignore[no-untyped-def]
         B: gl.constexpr, C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # fmt: skip
    """H G Π H D x of one block, in layout C."""
    M: gl.constexpr = shape[3]
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NC: gl.constexpr = M * 32 * ((shape[1] * shape[2] * 2 + 31) // 32)
    v = _flip_c(_read(X, row0, rows, d, x_stride, shape, C, WHOLE, kind), words + block * NC, shape, C)
    v = _in_a(_exchange(_in_c(v, shape, C), A), shape, A, B)
    order += block * P
    gains += block * P
    if B is None:  # C A, permuted from C to A, A C
        v = _exchange(v, C)
        v = _gathered(v, order, gains, _a_word(shape, A), _index(A, 4, 32), P // 32, shape, A)
    else:  # C A B, permuted, B A C
        v = _in_b(_exchange(v, B), shape, B)
        place = _index(B, 1, shape[1]) * M + _index(B, 3, M)
        v = _gathered(v, order, gains, _b_word(shape, B), place, shape[2] * 64, shape, B)
        v = _exchange(_in_b(v, shape, B), A)
    return _in_c(_exchange(_in_a(v, shape, A, B), C), shape, C)


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _fastfood(X, words, order, gains, factors, out, marks, n, d, x_stride, out_stride, n_columns, n_blocks,  # type: ignore[no-untyped-def]
              per_program, scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,
              D: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
              WHOLE: gl.constexpr):  # fmt: skip
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, n_blocks)
    for block in range(first, last):
        v = _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float32)
        _write(v, out, marks + gl.program_id(0) * n_blocks + block, row0, rows, block, out_stride, n_columns, factors,
               scale, tail, shape, C, D, PAIRS, ODD, WHOLE)  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_COUNTS)
def _fastfood_again(X, words, order, gains, factors, out, marks, n, d, x_stride, out_stride, n_columns, n_blocks,  # type: ignore[no-untyped-def]
                    n_marks, per_program, scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr,
                    C: gl.constexpr, D: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
                    WHOLE: gl.constexpr):  # fmt: skip
    """Marked tiles in float64."""
    first = gl.program_id(0) * per_program
    last = gl.minimum(first + per_program, n_marks)
    i = _next(marks, first, first, last, shape[3])
    while i < last:
        block = i % n_blocks
        row0 = (i // n_blocks).to(gl.int64) * shape[0]
        rows = (n - row0).to(gl.int32)
        v = _mix(X, words, order, gains, block, row0, rows, d, x_stride, shape, A, B, C, WHOLE_X, gl.float64)
        _write(v, out, marks, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, True, ODD,
               WHOLE)  # fmt: skip
        i = _next(marks, first, i + 1, last, shape[3])


@gluon.jit
def _hadamard(v, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    """H v, from layout C to layout C."""
    v = _in_c(v, shape, C)
    if B is not None:
        v = _in_b(_exchange(v, B), shape, B)
    return _exchange(_in_a(_exchange(v, A), shape, A, B), C)


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _transform(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,  # type: ignore[no-untyped-def]
               WHOLE: gl.constexpr):  # fmt: skip
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    v = _hadamard(_read(X, row0, rows, P, x_stride, shape, C, WHOLE, gl.float32), shape, A, B, C)
    row, col = _index(C, 0, shape[0]), _column(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + _threads_part(C, shape, 2) + _registers_part(C, shape, 2)
    if WHOLE:
        gl.store(at, v)
    else:
        gl.store(at, v, mask=(row < rows) & (col < P))


@gluon.jit
def _fetch(X, halves, P: gl.constexpr, n_warps: gl.constexpr):  # type: ignore[no-untyped-def]
    """Begin to copy a row of two halves to shared memory."""
    col = gl.arange(0, P, layout=gl.BlockedLayout([4], [32], [n_warps], [0]))
    async_copy.async_copy_global_to_shared(halves.index(0), X + col)
    async_copy.async_copy_global_to_shared(halves.index(1), X + P + col)
    async_copy.commit_group()


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _transform_halves(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,  # type: ignore[no-untyped-def]
                      F: gl.constexpr):  # fmt: skip
    """Rows of twice as many columns: H of each half, and one more butterfly. The next row is on its way meanwhile."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    halves = gl.allocate_shared_memory(gl.float32, [2, P], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    row = gl.program_id(0).to(gl.int64)
    _fetch(X + row * x_stride, halves, P, shape[3])
    while row < n:
        async_copy.wait_group(0)
        a = gl.convert_layout(gl.reshape(halves.index(0).load(F), shape), C, assert_trivial=True)
        b = gl.convert_layout(gl.reshape(halves.index(1).load(F), shape), C, assert_trivial=True)
        at = X + row * x_stride + _threads_part(C, shape, 2) + _registers_part(C, shape, 2)
        row += gl.num_programs(0)
        if row < n:
            _fetch(X + row * x_stride, halves, P, shape[3])
        a = _hadamard(a, shape, A, B, C)
        b = _hadamard(b, shape, A, B, C)
        gl.store(at, a + b)
        gl.store(at + P, a - b)


def _programs(n: int, t: Tile, n_blocks: int) -> tuple[tuple[int, int], int]:
    """A grid of row tiles by parts of the blocks, as many as fill the device, and the blocks of a part."""
    n_tiles = -(-n // t.n_rows)
    parts = min(n_blocks, max(1, 4096 // n_tiles))
    per_program = -(-n_blocks // parts)
    return (n_tiles, -(-n_blocks // per_program)), per_program


def _whole(X: Any, t: Tile, n_blocks: int, out: Any) -> tuple[bool, bool]:
    """Whether tiles of X, and of pairs, are full of rows and columns: they need no masks then."""
    p, rows = t.shape[1] * t.shape[2] * t.shape[3] * 64, len(X) % t.n_rows == 0
    return rows and X.shape[1] == p, rows and out.shape[1] == 2 * p * n_blocks


def _options(t: Tile, limit: int | None) -> dict[str, Any]:
    return {"num_warps": t.n_warps} | ({} if limit is None else {"maxnreg": limit})


def _marks(n: int, t: Tile, n_blocks: int, words: Any) -> tuple[Any, int]:
    """A mark for every tile and block, all zero, and how many of them a program looks at."""
    n_marks = -(-n // t.n_rows) * n_blocks
    return words.new_zeros(n_marks), min(_MARKS.value, -(-n_marks // 2048))


def structured(
    X: Any, words: Any, factors: Any, wide_factors: Any, scale: float, tail: float, out: Any, *, pairs: bool
) -> None:
    """Pairs (or phases) of factors · H D₀ H D₁ H D₂ x; factors are in turns for pairs, and padded to whole blocks.

    X may be float64; `factors` are float32, `wide_factors` the same in float64.
    """
    n, n_blocks = len(X), len(words)
    q = (factors.shape[0] // n_blocks).bit_length() - 1
    plan = PLANS.get(q, Plan())
    t = tile_of(q, plan)
    grid, per_program = _programs(n, t, n_blocks)
    marks, per_check = _marks(n, t, n_blocks, words)
    kept = t.n_warps == 1 and plan.registers == 5
    sizes = (n, X.shape[1], X.stride(0), out.stride(0), out.shape[1], n_blocks)
    odd, whole = pairs and out.shape[1] % 2 == 1, _whole(X, t, n_blocks, out)
    _structured[grid](
        X, words, factors, out, marks, *sizes, per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D, kept,
        pairs, odd, *whole, **_options(t, plan.limit),
    )  # fmt: skip
    if pairs:
        _structured_again[(-(-len(marks) // per_check),)](
            X, words, wide_factors, out, marks, *sizes, len(marks), per_check, scale, tail / _TURN, t.shape, t.A, t.B,
            t.C, t.D, odd, *whole, **_options(t, plan.wide_limit),
        )  # fmt: skip


def fastfood(
    X: Any, packed: Any, factors: Any, wide_factors: Any, scale: float, tail: float, out: Any, *, pairs: bool
) -> None:
    """Pairs (or phases) of factors · H G Π H B x; `packed` is what `pack_fastfood` made, on the device."""
    n, n_blocks = len(X), len(packed[0])
    q = packed[1].shape[1].bit_length() - 1
    plan = FASTFOOD_PLANS[q]
    t = tile_of(q, plan)
    grid, per_program = _programs(n, t, n_blocks)
    marks, per_check = _marks(n, t, n_blocks, packed[0])
    sizes = (n, X.shape[1], X.stride(0), out.stride(0), out.shape[1], n_blocks)
    odd, whole = pairs and out.shape[1] % 2 == 1, _whole(X, t, n_blocks, out)
    _fastfood[grid](
        X, *packed, factors, out, marks, *sizes, per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D, pairs,
        odd, *whole, **_options(t, plan.limit),
    )  # fmt: skip
    if pairs:
        _fastfood_again[(-(-len(marks) // per_check),)](
            X, *packed, wide_factors, out, marks, *sizes, len(marks), per_check, scale, tail / _TURN, t.shape, t.A, t.B,
            t.C, t.D, odd, *whole, **_options(t, plan.wide_limit),
        )  # fmt: skip


@lru_cache
def _processors(device: int) -> int:
    return int(triton.runtime.driver.active.utils.get_device_properties(device)["multiprocessor_count"])


def fwht(X: Any) -> None:
    """Walsh-Hadamard transform of every row of a float32 tensor, in place."""
    n, q = len(X), X.shape[1].bit_length() - 1
    if q == MOST_BITS:  # a program a processor: more do not fit
        t = tile(q - 1)
        grid = (min(n, _processors(X.device.index or 0)),)
        _transform_halves[grid](X, n, X.stride(0), t.shape, t.A, t.B, t.C, t.flat, num_warps=t.n_warps)
    else:
        t = tile(q, 6 if q == 14 else 5)
        whole = n % t.n_rows == 0
        _transform[(-(-n // t.n_rows),)](X, n, X.stride(0), t.shape, t.A, t.B, t.C, whole, num_warps=t.n_warps)
