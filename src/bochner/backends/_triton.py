"""Kernels for NVIDIA GPUs: features written at the speed of the memory. Triton compiles them on their first call.

A row of p = 2^q numbers is spread over the registers of one to 32 warps. A Walsh-Hadamard transform is one butterfly a
bit of the column's index, in any order, and a butterfly is two additions where its bit counts registers of one thread.
So a transform is: the bits that are in registers, an exchange through shared memory that brings other bits there, and
those bits. Columns are numbered (H, S, M, 32, 2); each thread holds 32 numbers:

    layout C   registers (H, S, 2), lanes (32)       a warp stores 512 bytes in a row
    layout A   registers (32),      lanes (H, S, 2)
    layout B   registers (H, M),    lanes (32)       where M > 1: more than 2^10 columns, in several warps

Up to 2^10 columns a row stays within a warp, which holds several rows of few columns, and M = 1.
Signs are bits: one word a thread for all its registers. Sines and cosines are the hardware's own (error 2^-20.5) after
an exact reduction to half a turn.

Dense phases X Wᵀ are products of half-precision numbers on the tensor cores, summed in float32. Rows of X are scaled by
a power of two and split into two such numbers, 22 bits; frequencies are drawn with 11 bits (`features.fourier`), so one
number holds them; other matrices are split too. Small products are summed first.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from bochner.backends import Array

_TURN = 2.0 * np.pi
_ANY_COUNT = ("n", "per_program")  # arguments for whose values no kernel is compiled anew
MOST_BITS = 15  # of a transform
FEWEST_BITS = 6
# by q, measured on an H200: registers a thread, so that enough warps are there to hide each other's waiting
_REGISTERS = {6: 96, 7: 128, 8: 128, 10: 96, 11: 128, 12: 128, 13: 80, 14: 64}

# ------------------------------------------------------------------------------------------------ Hadamard transforms


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
def tile(q: int, registers: int = 5) -> Tile:
    """The tile for rows of 2^q columns, with 2^registers numbers a thread (more than 2^5 where M > 1 only)."""
    top, m = (max(0, q - 6), 0) if q <= 10 else (registers - 1, q - 5 - registers)
    S = 1 << max(0, m - 1)
    shape = (1 << (registers - 1 - top), (1 << top) // S, S, 1 << m, 32, 2)
    layout = gl.DistributedLinearLayout
    r, h, s, m_bits, lane, o = _bits(shape)
    spare = h[len(h) - (registers - 5) :] if registers > 5 else []
    A = layout(lane + spare, o + s + h[: len(h) - len(spare)] + r, m_bits, [], list(shape))
    B = layout(m_bits + h, lane, o + s, [], list(shape)) if m else None
    C = layout(o + s + h + r, lane, m_bits, [], list(shape))
    pairs = (*shape[:-1], 4)
    r, h, s, m_bits, lane, o = _bits(pairs)
    return Tile(shape, 1 << m, A, B, C, layout(o + s + h + r, lane, m_bits, [], list(pairs)))


def pack_signs(signs: Array, q: int) -> Array:
    """Signs (blocks, 3, p) as words (blocks, n), a bit a register of the layout where they are applied."""
    blocks = len(signs)
    _, H, S, M, _, _ = tile(q).shape
    bits = (signs < 0).reshape(blocks, 3, H, S, M, 32, 2)

    def words(last: Array) -> Array:
        full = np.zeros((*last.shape[:-1], 32), np.uint8)
        full[..., : last.shape[-1]] = last
        return np.packbits(full, axis=-1, bitorder="little").view(np.int32)[..., 0].reshape(blocks, -1)

    def in_a(stage: int) -> Array:
        return words(bits[:, stage].swapaxes(-1, -2))

    def in_b(stage: int) -> Array:
        return words(bits[:, stage].transpose(0, 2, 4, 5, 1, 3).reshape(blocks, S, 32, 2, H * M))

    def in_c(stage: int) -> Array:
        return words(bits[:, stage].transpose(0, 3, 4, 1, 2, 5).reshape(blocks, M, 32, 2 * H * S))

    parts = [in_c(2), in_b(1), in_a(0)] if M > 1 else [in_a(2), in_c(1), in_a(0)]
    return np.ascontiguousarray(np.hstack(parts))


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
    top = _index(layout, 1, shape[1]) * shape[2] + _index(layout, 2, shape[2])
    top = top * shape[3] + _index(layout, 3, shape[3])
    return (top * 32 + _index(layout, 4, 32)) * last + _index(layout, 5, last)


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
def _in_a(x, shape: gl.constexpr, A: gl.constexpr):  # type: ignore[no-untyped-def]
    return _levels(x, shape[0] * shape[1] * shape[2] * shape[3], 32, 2, shape, A)


@gluon.jit
def _in_b(x, shape: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    return _levels(x, shape[0] * shape[1] * shape[2], shape[3], 64, shape, B)


@gluon.jit
def _flip(x, words, places):  # type: ignore[no-untyped-def]
    return (x.to(gl.int32, bitcast=True) ^ ((words << (31 - places)) & -2147483648)).to(gl.float32, bitcast=True)


@gluon.jit
def _waves(turns):  # type: ignore[no-untyped-def]
    # adding 1.5 · 2^23 rounds to an integer; the difference is exact
    angle = (turns - ((turns + 12582912.0) - 12582912.0)) * 6.283185307179586
    c = gl.inline_asm_elementwise("cos.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    s = gl.inline_asm_elementwise("sin.approx.f32 $0, $1;", "=f,f", [angle], dtype=gl.float32, is_pure=True, pack=1)
    return c, s


@gluon.jit
def _write(v, out, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape: gl.constexpr,  # type: ignore[no-untyped-def]
           C: gl.constexpr, D: gl.constexpr, PAIRS: gl.constexpr, ODD: gl.constexpr):  # fmt: skip
    """Pairs of v times factors, in turns, or these products themselves."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    col = _column(C, shape, 2)
    t = v * gl.load(factors + block * P + col)
    base = out + row0 * out_stride
    if PAIRS:
        if ODD:
            t += gl.where(2 * (block * P + col) == n_columns - 1, tail, 0.0)
        c, s = _waves(t)
        z = gl.reshape(gl.join(c * scale, s * scale), [shape[0], shape[1], shape[2], shape[3], 32, 4])
        z = gl.convert_layout(z, D, assert_trivial=True)
        row = _index(D, 0, shape[0])
        col = _column(D, shape, 4)
        start = block * (2 * P)
        at = base + start + (row * out_stride + col)
        gl.store(at, z, mask=(row < rows) & (col < n_columns - start), cache_modifier=".cs")
    else:
        row = _index(C, 0, shape[0])
        at = base + block * P + (row * out_stride + col)
        gl.store(at, t, mask=(row < rows) & (col < n_columns - block * P))


@gluon.jit
def _read(X, row0, rows, d, x_stride, shape: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    row, col = _index(C, 0, shape[0]), _column(C, shape, 2)
    return gl.load(X + row0 * x_stride + (row * x_stride + col), mask=(col < d) & (row < rows), other=0.0)


@gluon.jit(do_not_specialize=_ANY_COUNT[:1])  # a loop over one block is no loop, if the compiler knows
def _structured(X, words, factors, out, n, d, x_stride, out_stride, n_columns, n_blocks, per_program, scale, tail,  # type: ignore[no-untyped-def]
                shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr, D: gl.constexpr,
                PAIRS: gl.constexpr, ODD: gl.constexpr):  # fmt: skip
    H: gl.constexpr = shape[1]
    S: gl.constexpr = shape[2]
    M: gl.constexpr = shape[3]
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    NA: gl.constexpr = H * S * M * 2
    a_word = ((_index(A, 1, H) * S + _index(A, 2, S)) * M + _index(A, 3, M)) * 2 + _index(A, 5, 2)
    a_place = _index(A, 4, 32)
    NC: gl.constexpr = M * 32
    c_word = _index(C, 3, M) * 32 + _index(C, 4, 32)
    c_place = (_index(C, 1, H) * S + _index(C, 2, S)) * 2 + _index(C, 5, 2)
    if M > 1:
        NB: gl.constexpr = S * 64
        b_word = (_index(B, 2, S) * 32 + _index(B, 4, 32)) * 2 + _index(B, 5, 2)
        b_place = _index(B, 1, H) * M + _index(B, 3, M)
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, n_blocks)
    if M == 1:
        x = gl.convert_layout(_read(X, row0, rows, d, x_stride, shape, C), A)
    for block in range(first, last):
        if M > 1:  # C A B, B C A, A B C; rows are read again for every block
            w = words + block * (NC + NB + NA)
            x = _read(X, row0, rows, d, x_stride, shape, C)
            v = _in_c(_flip(x, gl.load(w + c_word), c_place), shape, C)
            v = _in_a(gl.convert_layout(v, A), shape, A)
            v = _in_b(gl.convert_layout(v, B), shape, B)
            v = _in_b(_flip(v, gl.load(w + NC + b_word), b_place), shape, B)
            v = _in_c(gl.convert_layout(v, C), shape, C)
            w += NC + NB
        else:  # A C, C A, A C; rows stay in registers
            w = words + block * (2 * NA + NC)
            v = _in_a(_flip(x, gl.load(w + a_word), a_place), shape, A)
            v = _in_c(gl.convert_layout(v, C), shape, C)
            v = _in_c(_flip(v, gl.load(w + NA + c_word), c_place), shape, C)
            w += NA + NC
        v = _in_a(gl.convert_layout(v, A), shape, A)
        v = _in_a(_flip(v, gl.load(w + a_word), a_place), shape, A)
        if M > 1:
            v = _in_b(gl.convert_layout(v, B), shape, B)
        v = _in_c(gl.convert_layout(v, C), shape, C)
        _write(v, out, row0, rows, block, out_stride, n_columns, factors, scale, tail, shape, C, D, PAIRS, ODD)


@gluon.jit(do_not_specialize=_ANY_COUNT[:1])
def _transform(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    v = _in_c(_read(X, row0, rows, P, x_stride, shape, C), shape, C)
    if B is not None:
        v = _in_b(gl.convert_layout(v, B), shape, B)
    v = gl.convert_layout(_in_a(gl.convert_layout(v, A), shape, A), C)
    row, col = _index(C, 0, shape[0]), _column(C, shape, 2)
    gl.store(X + row0 * x_stride + (row * x_stride + col), v, mask=(row < rows) & (col < P))


def _programs(n: int, t: Tile, n_blocks: int) -> tuple[tuple[int, int], int]:
    """A grid of row tiles by parts of the blocks, as many as fill the device, and the blocks of a part."""
    n_tiles = -(-n // t.n_rows)
    parts = min(n_blocks, max(1, 4096 // n_tiles))
    per_program = -(-n_blocks // parts)
    return (n_tiles, -(-n_blocks // per_program)), per_program


def structured(X: Any, words: Any, factors: Any, scale: float, tail: float, out: Any, *, pairs: bool) -> None:
    """Pairs (or phases) of factors · H D₀ H D₁ H D₂ x; factors are in turns for pairs, and padded to whole blocks."""
    q = (factors.shape[0] // words.shape[0]).bit_length() - 1
    t = tile(q)
    grid, per_program = _programs(len(X), t, words.shape[0])
    limit = _REGISTERS.get(q)
    options: dict[str, Any] = {} if limit is None else {"maxnreg": limit}
    _structured[grid](
        X, words, factors, out, len(X), X.shape[1], X.stride(0), out.stride(0), out.shape[1], words.shape[0],
        per_program, scale, tail / _TURN, t.shape, t.A, t.B, t.C, t.D, pairs, pairs and out.shape[1] % 2 == 1,
        num_warps=t.n_warps, **options,
    )  # fmt: skip


def fwht(X: Any) -> None:
    """Walsh-Hadamard transform of every row of a float32 tensor, in place."""
    q = X.shape[1].bit_length() - 1
    t = tile(q, 6 if q >= 14 else 5)
    _transform[(-(-len(X) // t.n_rows),)](X, len(X), X.stride(0), t.shape, t.A, t.B, t.C, num_warps=t.n_warps)


# -------------------------------------------------------------------------------------------------------- dense phases

_ROWS = 64  # of X, and of W, in a program


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
def _split_rows(X, out, scales, n, d, x_stride, factor, ROWS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,  # type: ignore[no-untyped-def]
                LOW: tl.constexpr):  # fmt: skip
    """Rows times a power of two, so that the largest number is about 2^14, as one or two half-precision numbers."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, KP)
    there = (row[:, None] < n) & (col[None, :] < d)
    x = tl.load(X + row[:, None] * x_stride + col[None, :], mask=there, other=0.0)
    exponent = (tl.max(tl.abs(x), 1).to(tl.int32, bitcast=True) >> 23) & 255
    exponent = tl.minimum(tl.maximum(exponent, 15), 254)
    x = x * ((268 - exponent) << 23).to(tl.float32, bitcast=True)[:, None]
    high = x.to(tl.float16)
    at = out + row[:, None] * (K * (1 + LOW)) + col[None, :]
    mask = (row[:, None] < n) & (col[None, :] < K)
    tl.store(at, high, mask=mask)
    if LOW:
        tl.store(at + K, (x - high.to(tl.float32)).to(tl.float16), mask=mask)
    tl.store(scales + row, ((exponent - 14) << 23).to(tl.float32, bitcast=True) * factor, mask=row < n)


@lru_cache
def _dense_layouts(BM: int, BN: int, n_warps: int) -> tuple[Any, Any]:
    """The layout of a product, and the same with two numbers for one: a thread stores 16 bytes in a row."""
    registers = [[0, 1], [0, 2], [8, 0]] + [[0, 16 << i] for i in range((BN // 8).bit_length() - 1)]
    warps = [[16 << i, 0] for i in range(n_warps.bit_length() - 1)]
    pairs = gl.DistributedLinearLayout(registers, [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warps, [], [BM, 2 * BN])
    return gl.NVMMADistributedLayout([3, 0], [n_warps, 1], [16, BN, 16]), pairs


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _dense(X, W, scales, out, n, T, out_stride, n_columns, per_program, scale, tail, BM: gl.constexpr,  # type: ignore[no-untyped-def]
           BN: gl.constexpr, NK: gl.constexpr, X_LOW: gl.constexpr, W_LOW: gl.constexpr, WARPS: gl.constexpr,
           L: gl.constexpr, D: gl.constexpr, ODD: gl.constexpr):  # fmt: skip
    NX: gl.constexpr = NK * (1 + X_LOW)
    NW: gl.constexpr = NK * (1 + W_LOW)
    G: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [WARPS, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    x = gl.allocate_shared_memory(gl.float16, [NX, BM, 32], shared)
    w = gl.allocate_shared_memory(gl.float16, [NW, BN, 32], shared)
    row0 = gl.program_id(0).to(gl.int64) * BM
    rows = (n - row0).to(gl.int32)
    x_row = gl.arange(0, BM, layout=gl.SliceLayout(1, G))[:, None]
    w_row = gl.arange(0, BN, layout=gl.SliceLayout(1, G))[:, None]
    k = gl.arange(0, 32, layout=gl.SliceLayout(0, G))[None, :]
    for i in gl.static_range(NX):
        at = X + row0 * (NX * 32) + (x_row * (NX * 32) + i * 32 + k)
        x.index(i).store(gl.load(at, mask=x_row < rows, other=0.0))
    row = gl.arange(0, BM, layout=gl.SliceLayout(1, L))
    turns = gl.load(scales + row0 + row, mask=row < rows, other=0.0)[:, None]
    o_row = gl.arange(0, BM, layout=gl.SliceLayout(1, D))[:, None]
    o_col = gl.arange(0, 2 * BN, layout=gl.SliceLayout(0, D))[None, :]
    o_at = o_row * out_stride + o_col
    base = out + row0 * out_stride
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, (T + BN - 1) // BN)
    for tile in range(first, last):
        start = tile * BN
        for i in gl.static_range(NW):
            at = W + start * (NW * 32) + (w_row * (NW * 32) + i * 32 + k)
            w.index(i).store(gl.load(at, mask=w_row < T - start, other=0.0))
        fence_async_shared()
        # small products first: every sum is cut off at the last place of what is there already
        phases = gl.zeros([BM, BN], gl.float32, layout=L)
        if X_LOW:
            for i in gl.static_range(NK):
                phases = warpgroup_mma(x.index(NK + i), w.index(i).permute((1, 0)), phases, is_async=True)
        if W_LOW:
            for i in gl.static_range(NK):
                phases = warpgroup_mma(x.index(i), w.index(NK + i).permute((1, 0)), phases, is_async=True)
        for i in gl.static_range(NK):
            phases = warpgroup_mma(x.index(i), w.index(i).permute((1, 0)), phases, is_async=True)
        phases = warpgroup_mma_wait(num_outstanding=0, deps=(phases,))
        t = phases * turns
        if ODD:
            col = start + gl.arange(0, BN, layout=gl.SliceLayout(0, L))[None, :]
            t += gl.where(2 * col == n_columns - 1, tail, 0.0)
        c, s = _waves(t)
        z = gl.convert_layout(gl.reshape(gl.join(c * scale, s * scale), [BM, 2 * BN]), D, assert_trivial=True)
        mask = (o_row < rows) & (o_col < n_columns - 2 * start)
        gl.store(base + 2 * start + o_at, z, mask=mask, cache_modifier=".cs")


@dataclass(frozen=True)
class HalfMatrix:
    """W / scale as half-precision numbers (T, 32 n_chunks), exact, or with what they leave beside them (`low`)."""

    matrix: Any
    n_chunks: int
    low: bool
    scale: float


def half_matrix(W: Array) -> HalfMatrix | None:
    """W for the tensor cores; None if it is too wide for shared memory."""
    T, d = W.shape
    n_chunks = -(-d // 32)
    top = float(np.abs(W).max(initial=0.0))
    exponent = int(np.frexp(top)[1]) - 15 if top > 0.0 else 0
    scaled = np.zeros((T, 32 * n_chunks))
    scaled[:, :d] = np.ldexp(W.astype(np.float64), -exponent)
    high = scaled.astype(np.float16)
    rest = scaled - high
    low = bool((np.abs(rest) > 2.0**-24 * np.maximum(np.abs(scaled), 1.0)).any())
    if (3 + low) * n_chunks * _ROWS * 64 > 200_000:
        return None
    parts = [high, rest.astype(np.float16)] if low else [high]
    return HalfMatrix(np.hstack(parts), n_chunks, low, float(np.ldexp(1.0, exponent)))


def dense_pairs(X: Any, W: HalfMatrix, high: Any, scales: Any, scale: float, tail: float, out: Any) -> None:
    """Pairs of X Wᵀ; `high` and `scales` are room for the rows of X as one (less precise) or two halves."""
    n, K = len(X), 32 * W.n_chunks
    x_low = high.shape[1] > K
    _split_rows[(-(-n // 32),)](
        X, high, scales, n, X.shape[1], X.stride(0), W.scale / _TURN, 32, K, triton.next_power_of_2(K), x_low
    )
    T, warps = W.matrix.shape[0], 4
    n_tiles, n_rows = -(-T // _ROWS), -(-n // _ROWS)
    per_program = -(-n_tiles // min(n_tiles, max(1, 2048 // n_rows)))
    L, pairs = _dense_layouts(_ROWS, _ROWS, warps)
    _dense[(n_rows, -(-n_tiles // per_program))](
        high, W.matrix, scales, out, n, T, out.stride(0), out.shape[1], per_program, scale, tail / _TURN, _ROWS, _ROWS,
        W.n_chunks, x_low, W.low, warps, L, pairs, out.shape[1] % 2 == 1, num_warps=warps,
    )  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- distances


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
def _distances(X, Y, out, n, m, d, x_stride, y_stride, out_stride, FORM: tl.constexpr, SIZE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Sums of squared or absolute differences, a tile a program; X (d, n) and Y (d, m) are transposed."""
    row = tl.program_id(0).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    col = tl.program_id(1).to(tl.int64) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), X.dtype.element_ty)
    for k in range(d):
        x = tl.load(X + k * x_stride + row, mask=row < n, other=0.0)
        y = tl.load(Y + k * y_stride + col, mask=col < m, other=0.0)
        difference = x[:, None] - y[None, :]
        if FORM == 0:
            total += tl.abs(difference)
        else:
            total += difference * difference
    if FORM == 2:
        total = tl.exp(-0.5 * total)
    at = out + row[:, None] * out_stride + col[None, :]
    tl.store(at, total, mask=(row[:, None] < n) & (col[None, :] < m))


def distances(X: Any, Y: Any, out: Any, form: str) -> None:
    """Squared Euclidean or city-block distances, from the differences, or the Gaussian kernel of the former."""
    (n, d), m = X.shape, len(Y)
    X, Y = X.T.contiguous(), Y.T.contiguous()
    size, warps = (128 if X.element_size() == 4 else 64), 4  # eight warps take five times as long
    grid, code = (-(-n // size), -(-m // size)), ("absolute", "squared", "gaussian").index(form)
    _distances[grid](X, Y, out, n, m, d, n, m, out.stride(0), code, size, num_warps=warps)


# ---------------------------------------------------------------------------------- products of float32 in float64


@triton.jit(do_not_specialize=_ANY_COUNT[:1])
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


@triton.jit(do_not_specialize=_ANY_COUNT)
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
