"""Walsh-Hadamard transforms, and the features made of them: a row is read once and its features are written once.

A row of p = 2^q numbers is spread over the registers of one to 32 warps. A transform is one butterfly a bit of the
column's index, in any order, and a butterfly is two additions where its bit counts registers of one thread. So a
transform is: the bits that are in registers, an exchange through shared memory that brings other bits there, and those
bits. Columns are numbered (H, S, M, 32, 2); a thread holds 2^registers numbers:

    layout C   registers (H, S, 2), lanes (32), warps (M)     a warp stores 512 bytes in a row
    layout A   registers (32),      lanes (H, S, 2)           and registers (M) where there are enough of them
    layout B   registers (H, M),    lanes (32)                where there are not

Few columns leave room for several rows in a program, which are then an axis R before the others.
Signs are bits, a word for every 32 registers. Sines and cosines are the hardware's own (error 2^-20.5) after an exact
reduction to half a turn. Phases are float32: what additions round makes them err by some 1e-7 (64 columns) to 2e-7
(8,192 columns) of their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from bochner.backends import Array

_TURN = 2.0 * np.pi
_ANY_COUNT = ("n",)  # arguments for whose values no kernel is compiled anew
MOST_BITS = 15  # of a transform
FEWEST_BITS = 6  # and one more for Fastfood


@dataclass(frozen=True)
class Plan:
    """How a transform is spread: bits that count a thread's numbers and the warps, and its registers at most."""

    registers: int = 5
    warps: int | None = None  # None: as many as the row needs
    limit: int | None = None


# by q, measured on an H200: fewer registers a thread leave room for more warps, which hide each other's waiting
PLANS = {
    6: Plan(limit=96),
    7: Plan(limit=128),
    8: Plan(limit=128),
    10: Plan(limit=96),
    11: Plan(limit=128),
    12: Plan(limit=128),
    13: Plan(limit=80),
    14: Plan(limit=64),
}
# Fastfood's permutation goes through shared memory, which Triton's gather does where a row has several warps (within
# one it shuffles every register past every other): two at least. 2^15 columns need all 32 warps, and 64 registers a
# thread, all there are, hold neither data nor indices in full: some are spilled.
FASTFOOD_PLANS = {
    7: Plan(5, 1, 128),
    8: Plan(5, 1, 128),
    9: Plan(5, 1, 128),
    10: Plan(5, 1, 128),
    11: Plan(5, 1, 128),
    12: Plan(limit=128),
    13: Plan(limit=80),
    14: Plan(limit=64),
    15: Plan(),
}


@dataclass(frozen=True)
class Tile:
    """Rows that one program holds, of shape (R, H, S, M, 32, 2): R rows of H · S · M · 64 columns."""

    shape: tuple[int, ...]
    n_warps: int
    A: Any
    B: Any  # the third layout, or None
    C: Any
    D: Any  # C with four numbers for two: pairs

    @property
    def n_rows(self) -> int:
        return self.shape[0]


def _bits(shape: tuple[int, ...]) -> list[list[list[int]]]:
    """The bits of every axis, as the basis vectors of a linear layout."""
    return [
        [[1 << bit if other == axis else 0 for other in range(len(shape))] for bit in range(size.bit_length() - 1)]
        for axis, size in enumerate(shape)
    ]


@lru_cache
def tile(q: int, registers: int = 5, warps: int | None = None) -> Tile:
    """The tile for rows of 2^q columns, with 2^registers numbers a thread and 2^warps warps."""
    m = max(0, q - 5 - registers) if warps is None else warps
    three = registers < 5 + m
    s = m - 1 if three else 0
    shape = (1 << (registers + 5 + m - q), 1 << (q - 6 - m - s), 1 << s, 1 << m, 32, 2)
    layout = gl.DistributedLinearLayout
    r, h, s_bits, m_bits, lane, o = _bits(shape)
    if three:
        kept = len(h) - (registers - 5)
        A = layout(lane + h[kept:], o + s_bits + h[:kept] + r, m_bits, [], list(shape))
        B = layout(m_bits + h + r, lane, o + s_bits, [], list(shape))
    else:
        others = o + h + r
        A = layout(lane + m_bits + others[5 + m :], others[:5], others[5 : 5 + m], [], list(shape))
        B = None
    C = layout(o + s_bits + h + r, lane, m_bits, [], list(shape))
    pairs = (*shape[:-1], 4)
    r, h, s_bits, m_bits, lane, o = _bits(pairs)
    return Tile(shape, 1 << m, A, B, C, layout(o + s_bits + h + r, lane, m_bits, [], list(pairs)))


def _tile_of(q: int, plan: Plan) -> Tile:
    return tile(q, plan.registers, plan.warps)


# Host arrays (blocks, p) in the order in which a layout's threads read them: (blocks, words, places), a place being a
# register and a word the rest of a column's index.
def _in_order(values: Array, t: Tile, layout: str) -> Array:
    blocks, (_, H, S, M, _, _) = len(values), t.shape
    values = values.reshape(blocks, H, S, M, 32, 2)
    if layout == "A":
        return values.swapaxes(-1, -2).reshape(blocks, -1, 32)
    if layout == "B":
        return values.transpose(0, 2, 4, 5, 1, 3).reshape(blocks, -1, H * M)
    return values.transpose(0, 3, 4, 1, 2, 5).reshape(blocks, -1, 2 * H * S)


def _packed(signs: Array, t: Tile, layout: str) -> Array:
    """Signs (blocks, p) as 32-bit words (blocks, n): all words of the first 32 places, then of the next."""
    bits = _in_order(signs < 0, t, layout)
    blocks, n, places = bits.shape
    full = np.zeros((blocks, n, 32 * -(-places // 32)), np.uint8)
    full[..., :places] = bits
    words = np.packbits(full, axis=-1, bitorder="little").view(np.int32)
    return words.swapaxes(1, 2).reshape(blocks, -1)


def pack_signs(signs: Array) -> Array:
    """Signs (blocks, 3, p) of structured features as words (blocks, n), in the layouts where they are applied."""
    q = signs.shape[2].bit_length() - 1
    t = _tile_of(q, PLANS.get(q, Plan()))
    layouts = "ACA" if t.B is None else "ABC"
    parts = [_packed(signs[:, stage], t, layouts[stage]) for stage in (2, 1, 0)]
    return np.ascontiguousarray(np.hstack(parts))


_VECTOR = 16  # bytes that a thread reads at a time, if it has as many


def _vectors(values: Array, t: Tile, layout: str) -> Array:
    """Numbers (blocks, p) so that a thread reads 16 bytes and a warp what lies side by side."""
    ordered = _in_order(values, t, layout)
    blocks, n, places = ordered.shape
    width = min(places, _VECTOR // values.itemsize)
    return np.ascontiguousarray(ordered.reshape(blocks, n, places // width, width).swapaxes(1, 2)).reshape(blocks, -1)


def pack_fastfood(signs: Array, permutations: Array, gains: Array) -> tuple[Array, Array, Array]:
    """Sign words, 16-bit places to gather from, and gains of Fastfood blocks (blocks, p), as the kernel reads them."""
    q = signs.shape[1].bit_length() - 1
    t = _tile_of(q, FASTFOOD_PLANS[q])
    layout = "A" if t.B is None else "B"
    # rows lie in shared memory with the lanes' axis last, so that a warp writes to 32 banks
    places = ((permutations >> 6) * 2 + (permutations & 1)) * 32 + ((permutations >> 1) & 31)
    return (
        _packed(signs, t, "C"),
        _vectors(places.astype(np.int16), t, layout),
        _vectors(gains.astype(np.float32), t, layout),
    )


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
def _flip(x, words, places):  # type: ignore[no-untyped-def]
    return (x.to(gl.int32, bitcast=True) ^ ((words << (31 - places)) & -2147483648)).to(gl.float32, bitcast=True)


@gluon.jit
def waves(turns):  # type: ignore[no-untyped-def]
    # adding 1.5 · 2^23 rounds to an integer; the difference is exact
    angle = (turns - ((turns + 12582912.0) - 12582912.0)) * 6.283185307179586
    c = gl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    s = gl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    return c, s


@gluon.jit
def _write(v, out, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape: gl.constexpr,  # type: ignore[no-untyped-def]
           C: gl.constexpr, D: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    """Pairs of v times factors, in turns, or these products themselves."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    col = _column(C, shape, 2)
    t = v * gl.load(factors + block * P + _threads_part(C, shape, 2) + _registers_part(C, shape, 2))
    base = out + row0 * out_stride
    if PAIRS:
        if ODD:
            t += gl.where(2 * (block * P + col) == n_columns - 1, tail, 0.0)
        c, s = waves(t)
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
def _read(X, row0, rows, d, x_stride, shape: gl.constexpr, C: gl.constexpr, WHOLE: gl.constexpr):  # type: ignore[no-untyped-def]
    row, threads, registers = _index(C, 0, shape[0]), _threads_part(C, shape, 2), _registers_part(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + threads + registers
    if WHOLE:
        x = gl.load(at)
    elif shape[0] == 1:
        x = gl.load(at, mask=registers < d - threads, other=0.0)
    else:
        x = gl.load(at, mask=(registers < d - threads) & (row < rows), other=0.0)
    return x


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


@gluon.jit(do_not_specialize=_ANY_COUNT)  # a loop over one block is no loop, if the compiler knows
def _structured(X, words, factors, out, n, d, x_stride, out_stride, n_columns, n_blocks, per_program, scale, tail,  # type: ignore[no-untyped-def]
                shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, D: gl.constexpr,
                KEPT: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr,
                WHOLE: gl.constexpr):  # fmt: skip
    H: gl.constexpr = shape[1]
    S: gl.constexpr = shape[2]
    M: gl.constexpr = shape[3]
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    NA: gl.constexpr = H * S * M * 2
    a_word = _a_word(shape, A)
    a_place = _index(A, 4, 32)
    NC: gl.constexpr = M * 32 * ((H * S * 2 + 31) // 32)
    if B is not None:
        NB: gl.constexpr = S * 64
        b_word = _b_word(shape, B)
        b_place = _index(B, 1, H) * M + _index(B, 3, M)
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, n_blocks)
    if KEPT:
        x = gl.convert_layout(_read(X, row0, rows, d, x_stride, shape, C, WHOLE_X), A)
    for block in range(first, last):
        if B is not None:  # C A B, B C A, A B C; rows are read again for every block
            w = words + block * (NC + NB + NA)
            b_signs, a_signs = gl.load(w + NC + b_word), gl.load(w + NC + NB + a_word)  # early: they take a while
            v = _flip_c(_read(X, row0, rows, d, x_stride, shape, C, WHOLE_X), w, shape, C)
            v = _in_a(gl.convert_layout(_in_c(v, shape, C), A), shape, A, B)
            v = _in_b(gl.convert_layout(v, B), shape, B)
            v = _in_b(_flip(v, b_signs, b_place), shape, B)
            v = _in_c(gl.convert_layout(v, C), shape, C)
        else:  # A C, C A, A C; rows of few columns stay in registers
            w = words + block * (2 * NA + NC)
            v = x if KEPT else gl.convert_layout(_read(X, row0, rows, d, x_stride, shape, C, WHOLE_X), A)
            v = _in_a(_flip(v, gl.load(w + a_word), a_place), shape, A, B)
            v = _in_c(gl.convert_layout(v, C), shape, C)
            v = _in_c(_flip_c(v, w + NA, shape, C), shape, C)
            a_signs = gl.load(w + NA + NC + a_word)
        v = _in_a(gl.convert_layout(v, A), shape, A, B)
        v = _in_a(_flip(v, a_signs, a_place), shape, A, B)
        if B is not None:
            v = _in_b(gl.convert_layout(v, B), shape, B)
        v = _in_c(gl.convert_layout(v, C), shape, C)
        _write(v, out, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, PAIRS, ODD,
               WHOLE)  # fmt: skip


@gluon.jit
def _gathered(v, order, gains, word, place, N: gl.constexpr, shape: gl.constexpr, L: gl.constexpr):  # type: ignore[no-untyped-def]
    """Columns of v in another order, in layout L, times gains."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NI: gl.constexpr = min(8, P // N)  # indices and gains that are read at a time
    NG: gl.constexpr = min(4, P // N)
    source = gl.reshape(gl.permute(v, [0, 1, 2, 3, 5, 4]), [shape[0], P])
    index = gl.load(order + ((place // NI) * (NI * N) + word * NI + place % NI)).to(gl.int32)
    index = index + _index(L, 0, shape[0]) * 0  # the same for every row
    v = gl.gather(source, gl.reshape(index, [shape[0], P]), 1)
    v = gl.convert_layout(gl.reshape(v, [shape[0], shape[1], shape[2], shape[3], 32, 2]), L, assert_trivial=True)
    return v * gl.load(gains + ((place // NG) * (NG * N) + word * NG + place % NG))


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _fastfood(X, words, order, gains, factors, out, n, d, x_stride, out_stride, n_columns, n_blocks, per_program,  # type: ignore[no-untyped-def]
              scale, tail, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, D: gl.constexpr,
              PAIRS: gl.constexpr, ODD: gl.constexpr, WHOLE_X: gl.constexpr, WHOLE: gl.constexpr):  # fmt: skip
    M: gl.constexpr = shape[3]
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    NC: gl.constexpr = M * 32 * ((shape[1] * shape[2] * 2 + 31) // 32)
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, n_blocks)
    for block in range(first, last):
        v = _flip_c(_read(X, row0, rows, d, x_stride, shape, C, WHOLE_X), words + block * NC, shape, C)
        v = _in_a(gl.convert_layout(_in_c(v, shape, C), A), shape, A, B)
        if B is None:  # C A, permuted from C to A, A C
            v = gl.convert_layout(v, C)
            v = _gathered(
                v, order + block * P, gains + block * P, _a_word(shape, A), _index(A, 4, 32), P // 32, shape, A
            )
        else:  # C A B, permuted, B A C
            v = _in_b(gl.convert_layout(v, B), shape, B)
            place = _index(B, 1, shape[1]) * M + _index(B, 3, M)
            v = _gathered(v, order + block * P, gains + block * P, _b_word(shape, B), place, shape[2] * 64, shape, B)
            v = gl.convert_layout(_in_b(v, shape, B), A)
        v = _in_c(gl.convert_layout(_in_a(v, shape, A, B), C), shape, C)
        _write(v, out, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, PAIRS, ODD,
               WHOLE)  # fmt: skip


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _transform(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,  # type: ignore[no-untyped-def]
               WHOLE: gl.constexpr):  # fmt: skip
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    v = _in_c(_read(X, row0, rows, P, x_stride, shape, C, WHOLE), shape, C)
    if B is not None:
        v = _in_b(gl.convert_layout(v, B), shape, B)
    v = gl.convert_layout(_in_a(gl.convert_layout(v, A), shape, A, B), C)
    row, col = _index(C, 0, shape[0]), _column(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + _threads_part(C, shape, 2) + _registers_part(C, shape, 2)
    if WHOLE:
        gl.store(at, v)
    else:
        gl.store(at, v, mask=(row < rows) & (col < P))


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


def _options(t: Tile, plan: Plan) -> dict[str, Any]:
    return {"num_warps": t.n_warps} | ({} if plan.limit is None else {"maxnreg": plan.limit})


def structured(X: Any, words: Any, factors: Any, scale: float, tail: float, out: Any, *, pairs: bool) -> None:
    """Pairs (or phases) of factors · H D₀ H D₁ H D₂ x; factors are in turns for pairs, and padded to whole blocks."""
    q = (factors.shape[0] // words.shape[0]).bit_length() - 1
    plan = PLANS.get(q, Plan())
    t = _tile_of(q, plan)
    grid, per_program = _programs(len(X), t, words.shape[0])
    kept = t.n_warps == 1 and plan.registers == 5
    _structured[grid](
        X, words, factors, out, len(X), X.shape[1], X.stride(0), out.stride(0), out.shape[1], words.shape[0],
        per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D, kept, pairs, pairs and out.shape[1] % 2 == 1,
        *_whole(X, t, words.shape[0], out), **_options(t, plan),
    )  # fmt: skip


def fastfood(X: Any, packed: Any, factors: Any, scale: float, tail: float, out: Any, *, pairs: bool) -> None:
    """Pairs (or phases) of factors · H G Π H B x; `packed` is what `pack_fastfood` made, on the device."""
    words, order, gains = packed
    q = order.shape[1].bit_length() - 1
    plan = FASTFOOD_PLANS[q]
    t = _tile_of(q, plan)
    grid, per_program = _programs(len(X), t, len(words))
    _fastfood[grid](
        X, words, order, gains, factors, out, len(X), X.shape[1], X.stride(0), out.stride(0), out.shape[1], len(words),
        per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D, pairs, pairs and out.shape[1] % 2 == 1,
        *_whole(X, t, len(words), out), **_options(t, plan),
    )  # fmt: skip


def fwht(X: Any) -> None:
    """Walsh-Hadamard transform of every row of a float32 tensor, in place."""
    q = X.shape[1].bit_length() - 1
    t = tile(q, 6 if q >= 14 else 5)
    n, whole = len(X), len(X) % t.n_rows == 0
    _transform[(-(-n // t.n_rows),)](X, n, X.stride(0), t.shape, t.A, t.B, t.C, whole, num_warps=t.n_warps)
