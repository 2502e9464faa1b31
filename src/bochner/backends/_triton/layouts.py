"""How a transform is spread over threads, and what maps are packed into for it.

A row of p = 2^q numbers is spread over the registers of one to 32 warps. A transform is one butterfly a bit of the
column's index, in any order, and a butterfly is two additions where its bit counts registers of one thread. So a
transform is: the bits that are in registers, an exchange through shared memory that brings other bits there, and those
bits. Columns are numbered (H, S, M, 32, 2); a thread holds 2^registers numbers:

    layout C   registers (H, S, 2), lanes (32), warps (M)     a warp stores 512 bytes in a row
    layout A   registers (32),      lanes (H, S, 2)           and registers (M) where there are enough of them
    layout B   registers (H, M),    lanes (32)                where there are not

Few columns leave room for several rows in a program, which are then an axis R before the others.
Signs are bits, a word for every 32 registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from triton.experimental.gluon import language as gl

from bochner.backends import Array
from bochner.backends.plans import Plans, Transform


@dataclass(frozen=True)
class Tile:
    """Rows that one program holds, of shape (R, H, S, M, 32, 2): R rows of H · S · M · 64 columns."""

    shape: tuple[int, ...]
    n_warps: int
    A: gl.DistributedLinearLayout
    B: gl.DistributedLinearLayout | None  # the third layout
    C: gl.DistributedLinearLayout
    D: gl.DistributedLinearLayout  # C with four numbers for two: pairs
    flat: gl.DistributedLinearLayout  # C of columns that are not numbered by axes

    @property
    def n_rows(self) -> int:
        return self.shape[0]


def _bits(shape: tuple[int, ...]) -> list[list[list[int]]]:
    """Return the bits of every axis, as the basis vectors of a linear layout."""
    return [
        [[1 << bit if other == axis else 0 for other in range(len(shape))] for bit in range(size.bit_length() - 1)]
        for axis, size in enumerate(shape)
    ]


@lru_cache
def tile(q: int, registers: int = 5, warps: int | None = None) -> Tile:
    """Return the tile for rows of 2^q columns, with 2^registers numbers a thread and 2^warps warps."""
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
    weights = np.cumprod((1, *shape[:0:-1]))[::-1]  # of a column's numbers in its index
    bases = [[[int(np.dot(bit, weights))] for bit in bits] for bits in (o + s_bits + h + r, lane, m_bits)]
    flat = layout(*bases, [], [int(np.prod(shape))])
    pairs = (*shape[:-1], 4)
    r, h, s_bits, m_bits, lane, o = _bits(pairs)
    return Tile(shape, 1 << m, A, B, C, layout(o + s_bits + h + r, lane, m_bits, [], list(pairs)), flat)


def tile_of(q: int, plan: Transform) -> Tile:
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
    """Pack signs (blocks, p) as 32-bit words (blocks, n): all words of the first 32 places, then of the next."""
    bits = _in_order(signs < 0, t, layout)
    blocks, n, places = bits.shape
    full = np.zeros((blocks, n, 32 * -(-places // 32)), np.uint8)
    full[..., :places] = bits
    words = np.packbits(full, axis=-1, bitorder="little").view(np.int32)
    return words.swapaxes(1, 2).reshape(blocks, -1)


def pack_signs(signs: Array, plans: Plans) -> Array:
    """Pack signs (blocks, 3, p) of structured features as words (blocks, n), in the layouts that apply them."""
    q = signs.shape[2].bit_length() - 1
    t = tile_of(q, plans.structured_plan(q))
    layouts = "ACA" if t.B is None else "ABC"
    parts = [_packed(signs[:, stage], t, layouts[stage]) for stage in (2, 1, 0)]
    return np.ascontiguousarray(np.hstack(parts))


_VECTOR = 16  # largest number of bytes that a thread reads at a time


def _vectors(values: Array, t: Tile, layout: str) -> Array:
    """Order numbers (blocks, p) so that a thread reads 16 bytes and a warp reads adjacent ones."""
    ordered = _in_order(values, t, layout)
    blocks, n, places = ordered.shape
    width = min(places, _VECTOR // values.itemsize)
    return np.ascontiguousarray(ordered.reshape(blocks, n, places // width, width).swapaxes(1, 2)).reshape(blocks, -1)


def pack_fastfood(signs: Array, permutations: Array, gains: Array, plans: Plans) -> tuple[Array, Array, Array]:
    """Pack sign words, 16-bit gather positions and gains of Fastfood blocks (blocks, p) for the kernel."""
    q = signs.shape[1].bit_length() - 1
    t = tile_of(q, plans.fastfood_plan(q))
    layout = "A" if t.B is None else "B"
    # rows lie in shared memory with the lanes' axis last, so that a warp writes to 32 banks
    places = ((permutations >> 6) * 2 + (permutations & 1)) * 32 + ((permutations >> 1) & 31)
    return (
        _packed(signs, t, "C"),
        _vectors(places.astype(np.int16), t, layout),
        _vectors(gains.astype(np.float32), t, layout),
    )
