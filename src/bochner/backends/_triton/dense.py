"""Features of dense phases X Wᵀ, by products of half-precision numbers on the tensor cores.

Phases are turns: X / 2π is split, row by row, into three half-precision numbers of 11 bits, H + M + L, after a scaling
by a power of two; a row of W likewise into h + l (+ ll), of 8, 11 and 11 bits. H and h lie on fixed grids. So H h has
19 bits, float32 holds its sums exactly as long as a phase is below 32 times the product of the largest numbers of its
two rows, and turns that are whole are taken away from it without an error. What the other products add is 2^-8 of a
phase and is rounded by 2^-24 of that; a W of 11 bits is one half-precision number there, h + l, which saves a product.
Products below 2^-27 are left out. A phase of 100 so errs by less than the sine
and cosine of the hardware, 2^-20.5, whatever the number of features.

With one part of each (`precise` False) phases are those of 11 bits of X and W.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, warpgroup_mma, warpgroup_mma_wait

from bochner.backends import Array
from bochner.backends._triton.blocks import cos_sin, whole
from bochner.backends.plans import Plans, Tile
from bochner.backends.torch.memory import Tensor

_TURN = 2.0 * np.pi
_LEAST = Tile(64, 32)
_RESERVED = 4096  # bytes of shared memory reserved for the rest of a program


@triton.jit(do_not_specialize=("n",))
def _split_rows(X, out, scales, n, d, x_stride, ROWS: tl.constexpr, K: tl.constexpr, KP: tl.constexpr,  # type: ignore[no-untyped-def]
                PARTS: tl.constexpr):  # fmt: skip
    """Convert rows to turns times a power of two, so that the largest number is about 2^14. One or three parts."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, KP)
    there = (row[:, None] < n) & (col[None, :] < d)
    x = tl.load(X + row[:, None] * x_stride + col[None, :], mask=there, other=0.0).to(tl.float64)
    x = x * 0.15915494309189535
    exponent = (tl.max(tl.abs(x), 1).to(tl.int64, bitcast=True) >> 52) & 2047  # of the largest: 2^(exponent - 1023)
    exponent = tl.minimum(tl.maximum(exponent, 1023 - 112), 1023 + 140)
    x = x * ((2046 + 13 - exponent) << 52).to(tl.float64, bitcast=True)[:, None]
    at = out + row[:, None] * (K * PARTS) + col[None, :]
    mask = (row[:, None] < n) & (col[None, :] < K)
    if PARTS == 1:
        tl.store(at, x.to(tl.float32).to(tl.float16), mask=mask)
    else:
        # a multiple of 8, at most 2^14: adding 1.5 · 2^52 · 8 rounds to one
        high = (x + 54043195528445952.0) - 54043195528445952.0
        rest = (x - high).to(tl.float32)
        middle = rest.to(tl.float16)
        tl.store(at, high.to(tl.float32).to(tl.float16), mask=mask)
        tl.store(at + K, middle, mask=mask)
        tl.store(at + 2 * K, (rest - middle.to(tl.float32)).to(tl.float16), mask=mask)
    tl.store(
        scales + row, ((exponent - (13 + 1023 - 127)) << 23).to(tl.int32).to(tl.float32, bitcast=True), mask=row < n
    )


@lru_cache
def layout_of(BN: int, n_warps: int) -> gl.NVMMADistributedLayout:
    """Return the layout of a product of tiles, whose right side has BN rows."""
    return gl.NVMMADistributedLayout([3, 0], [n_warps, 1], [16, BN, 16])


@lru_cache
def _pairs_layout(BM: int, BN: int, n_warps: int) -> gl.DistributedLinearLayout:
    """Return the layout of pairs: a thread stores 16 bytes in a row."""
    registers = [[0, 1], [0, 2], [8, 0]] + [[0, 16 << i] for i in range((BN // 8).bit_length() - 1)]
    warps = [[16 << i, 0] for i in range(n_warps.bit_length() - 1)]
    registers += [[16 * n_warps << i, 0] for i in range((BM // (16 * n_warps)).bit_length() - 1)]
    return gl.DistributedLinearLayout(registers, [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], warps, [], [BM, 2 * BN])


@gluon.jit
def product(x, w, i: gl.constexpr, at, NK: gl.constexpr, total):  # type: ignore[no-untyped-def]
    """Add the product of part i of the rows of X and the chunks of W from `at` on."""
    for k in gl.static_range(NK):
        total = warpgroup_mma(x.index(i * NK + k), w.index(at + k).permute((1, 0)), total, is_async=True)
    return total


@gluon.jit
def _fetch(at, w, to, NW: gl.constexpr, mask):  # type: ignore[no-untyped-def]
    """Start copying a tile's chunks to shared memory."""
    for i in gl.static_range(NW):
        async_copy.async_copy_global_to_shared(w.index(to + i), at + 32 * i, mask=mask)
    async_copy.commit_group()


@gluon.jit(do_not_specialize=("n", "per_program"))
def _dense(X, W, x_scales, w_scales, out, n, T, out_stride, n_columns, per_program, scale, tail, BM: gl.constexpr,  # type: ignore[no-untyped-def]
           BN: gl.constexpr, NK: gl.constexpr, X_PARTS: gl.constexpr, W_PARTS: gl.constexpr, WARPS: gl.constexpr,
           JOINT: gl.constexpr, L: gl.constexpr, D: gl.constexpr, ODD: gl.constexpr):  # fmt: skip
    NX: gl.constexpr = NK * X_PARTS
    NW: gl.constexpr = NK * W_PARTS
    G: gl.constexpr = gl.BlockedLayout([1, 8], [8, 4], [WARPS, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout(64, 16, rank=2)
    x = gl.allocate_shared_memory(gl.float16, [NX, BM, 32], shared)
    w = gl.allocate_shared_memory(gl.float16, [2 * NW, BN, 32], shared)  # one tile is read while another is used
    row0 = gl.program_id(0).to(gl.int64) * BM
    rows = (n - row0).to(gl.int32)
    x_row = gl.arange(0, BM, layout=gl.SliceLayout(1, G))[:, None]
    w_row = gl.arange(0, BN, layout=gl.SliceLayout(1, G))[:, None]
    k = gl.arange(0, 32, layout=gl.SliceLayout(0, G))[None, :]
    for i in gl.static_range(NX):
        at = X + row0 * (NX * 32) + (x_row * (NX * 32) + i * 32 + k)
        x.index(i).store(gl.load(at, mask=x_row < rows, other=0.0))
    row = gl.arange(0, BM, layout=gl.SliceLayout(1, L))
    col = gl.arange(0, BN, layout=gl.SliceLayout(0, L))
    x_scale = gl.load(x_scales + row0 + row, mask=row < rows, other=0.0)[:, None]
    o_row = gl.arange(0, BM, layout=gl.SliceLayout(1, D))[:, None]
    o_col = gl.arange(0, 2 * BN, layout=gl.SliceLayout(0, D))[None, :]
    o_at = o_row * out_stride + o_col
    base = out + row0 * out_stride
    first = gl.program_id(1) * per_program
    last = gl.minimum(first + per_program, (T + BN - 1) // BN)
    w_at = W + (w_row * (NW * 32) + k)
    _fetch(w_at + first * BN * (NW * 32), w, 0, NW, w_row < T - first * BN)
    for tile in range(first, last):
        start = tile * BN
        buffer = ((tile - first) & 1) * NW
        _fetch(w_at + (start + BN) * (NW * 32), w, NW - buffer, NW, w_row < T - start - BN)
        async_copy.wait_group(1)
        turn = x_scale * gl.load(w_scales + start + col, mask=col < T - start, other=0.0)[None, :]  # powers of two
        fence_async_shared()
        phases = product(x, w, 0, buffer, NK, gl.zeros([BM, BN], gl.float32, layout=L))
        if X_PARTS == 1:
            phases = warpgroup_mma_wait(num_outstanding=0, deps=(phases,))
            t = phases * turn
        else:  # small products first: every sum is cut off at the last place of what is there already
            if JOINT:  # part 2 is the sum of the others
                rest = product(x, w, 2, buffer + 2 * NK, NK, gl.zeros([BM, BN], gl.float32, layout=L))
                rest = product(x, w, 1, buffer + 2 * NK, NK, rest)
            else:
                rest = product(x, w, 2, buffer, NK, gl.zeros([BM, BN], gl.float32, layout=L))
                if W_PARTS > 2:
                    rest = product(x, w, 0, buffer + 2 * NK, NK, rest)
                if W_PARTS > 1:
                    rest = product(x, w, 1, buffer + NK, NK, rest)
                rest = product(x, w, 1, buffer, NK, rest)
            if W_PARTS > 1:
                rest = product(x, w, 0, buffer + NK, NK, rest)
            phases, rest = warpgroup_mma_wait(num_outstanding=0, deps=(phases, rest))
            t = phases * turn
            t = (t - whole(t)) + rest * turn  # whole turns do not change a cosine
        if ODD:
            t += gl.where(2 * (start + col[None, :]) == n_columns - 1, tail, 0.0)
        c, s = cos_sin(t - whole(t))
        z = gl.convert_layout(gl.reshape(gl.join(c * scale, s * scale), [BM, 2 * BN]), D, assert_trivial=True)
        mask = (o_row < rows) & (o_col < n_columns - 2 * start)
        gl.store(base + 2 * start + o_at, z, mask=mask, cache_modifier=".cs")
    async_copy.wait_group(0)


@dataclass(frozen=True)
class HalfMatrix:
    """Rows of W over powers of two (`scales`), as one to three half-precision numbers: (T, parts · 32 n_chunks)."""

    matrix: Tensor
    scales: Tensor
    n_chunks: int
    n_parts: int
    joint: bool  # whether the last part is the sum of the two before it


def half_matrix(W: Array, plans: Plans, *, precise: bool) -> HalfMatrix | None:
    """Return W for the tensor cores, as host arrays; None if it is too wide for shared memory."""
    T, d = W.shape
    n_chunks = -(-d // 32)
    exponents = np.frexp(np.abs(W).max(axis=1, initial=0.0).astype(np.float64))[1] - 15
    exponents = np.clip(exponents, -100, 100)
    scaled = np.zeros((T, 32 * n_chunks))
    scaled[:, :d] = np.ldexp(W.astype(np.float64), -exponents[:, None])
    if not np.isfinite(scaled).all() or np.abs(scaled).max(initial=0.0) > 2.0**15:
        return None
    parts = [scaled.astype(np.float16)]
    if precise:
        parts = [(128.0 * np.rint(scaled / 128.0)).astype(np.float16)]
        rest = scaled - parts[0]
        while len(parts) < 3 and (np.abs(rest) > 2.0**-14).any():  # 2^-29 of the largest
            parts.append(rest.astype(np.float16))
            rest = rest - parts[-1]
    scales, joint = np.ldexp(1.0, exponents).astype(np.float32), False
    if len(parts) == 2 and (scaled.astype(np.float16) == scaled).all():
        joint, parts = True, [*parts, scaled.astype(np.float16)]
    if tile_for(plans, n_chunks, 3 if precise else 1, len(parts)) is None:
        return None
    return HalfMatrix(np.ascontiguousarray(np.hstack(parts)), scales, n_chunks, len(parts), joint)


def tile_for(plans: Plans, n_chunks: int, x_parts: int, w_parts: int) -> Tile | None:
    """Return the plan's tile, or the smallest one if that exceeds shared memory, or None if both do."""
    tiles = [plans.dense_fast if x_parts == 1 else plans.dense, _LEAST]
    room = plans.shared - _RESERVED
    fit = (t for t in tiles if t is not None and (x_parts * t.rows + 2 * w_parts * t.columns) * n_chunks * 64 <= room)
    return next(fit, None)


def dense_pairs(
    X: Tensor, W: HalfMatrix, halves: Tensor, scales: Tensor, scale: float, tail: float, out: Tensor, plans: Plans
) -> None:
    """Write pairs of X Wᵀ, X float32 or float64; `halves` and `scales` are buffers for its rows as halves."""
    n, K = len(X), 32 * W.n_chunks
    parts = halves.shape[1] // K
    _split_rows[(-(-n // 16),)](X, halves, scales, n, X.shape[1], X.stride(0), 16, K, triton.next_power_of_2(K), parts)
    plan = tile_for(plans, W.n_chunks, parts, W.n_parts)
    assert plan is not None  # `half_matrix` looked
    T = W.matrix.shape[0]
    n_tiles, n_rows = -(-T // plan.columns), -(-n // plan.rows)
    per_program = -(-n_tiles // min(n_tiles, max(1, 2048 // n_rows)))
    L, pairs = layout_of(plan.columns, plan.warps), _pairs_layout(plan.rows, plan.columns, plan.warps)
    _dense[(n_rows, -(-n_tiles // per_program))](
        halves, W.matrix, scales, W.scales, out, n, T, out.stride(0), out.shape[1], per_program, scale, tail / _TURN,
        plan.rows, plan.columns, W.n_chunks, parts, W.n_parts, plan.warps, W.joint, L, pairs, out.shape[1] % 2 == 1,
        num_warps=plan.warps,
    )  # fmt: skip
