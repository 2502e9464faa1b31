"""How the kernels of GPUs are cut into tiles, by the compute capability of the card.

`PLANS` holds what `bochner autotune` measured on a card; a card that is not in it gets `DEFAULT`, tiles so small that
every card from Ampere on has room for them, and torch's own operations where a kernel uses what only Hopper has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

REGISTERS = 65_536  # registers of a multiprocessor, on every card
LEAST_CAPABILITY = (8, 0)  # Ampere: older cards run torch's own operations
# bytes of shared memory that one program may have, by capability (CUDA C++ Programming Guide, technical specifications)
SHARED_BYTES = {
    (8, 0): 163 << 10,
    (8, 6): 99 << 10,
    (8, 7): 163 << 10,
    (8, 9): 99 << 10,
    (9, 0): 227 << 10,
    (10, 0): 227 << 10,
    (10, 3): 227 << 10,
    (12, 0): 99 << 10,
    (12, 1): 99 << 10,
}
LEAST_SHARED = 48 << 10  # bytes of shared memory that every card has
HOPPER = (9, 0)
WARP_GROUP = 4  # warps that multiply together on Hopper
FEWEST_BITS = 6  # log2 of the smallest transform with a kernel; one more for Fastfood
_HALVED = 32_768  # numbers of a tile from which on float64 goes through shared memory in two halves


@dataclass(frozen=True)
class Transform:
    """How a transform is spread: bits that count a thread's numbers and the warps, and its registers at most."""

    registers: int = 5
    warps: int | None = None  # None: as many as the row needs
    limit: int | None = None
    wide_limit: int | None = 128  # the same where numbers are float64

    def n_warps(self, q: int) -> int:
        """Return the warps of a program for rows of 2^q columns."""
        return 1 << (max(0, q - 5 - self.registers) if self.warps is None else self.warps)

    def shared(self, q: int) -> int:
        """Return the bytes of shared memory for all numbers of a tile, in the wider of its types."""
        numbers = self.n_warps(q) * 32 << self.registers
        return numbers * (4 if numbers >= _HALVED else 8)


@dataclass(frozen=True)
class Tile:
    """Rows and columns of a result that one program computes, its warps, and terms of a sum that are read at a time."""

    rows: int
    columns: int
    warps: int = 4
    depth: int = 32
    stages: int = 1  # of reading ahead


@dataclass(frozen=True)
class Plans:
    """The plan of every kernel on a card.

    Attributes
    ----------
    shared : int
        Bytes of shared memory that a program may have.
    structured, fastfood : dict of int to Transform
        For rows of 2^q columns, by q; `Transform()` for a q up to `most_bits` that is missing.
    most_bits : int
        Of the widest transform.
    dense, dense_fast : Tile or None
        Cosines and sines of dense phases, and with ``precision="fast"``: rows of X and of W. None where there are no
        warp groups: torch does it.
    digits : Tile or None
        Gram matrices of integers. None: torch does it.
    differences, wide_differences : Tile
        Kernel values from differences of rows, in float32 and in float64: rows of Y and of X.
    squares : Tile or None
        Kernel values from products of rows: rows of X and of Y. None: from differences.
    squares_from : int
        Number of features from which on products are the faster way.
    signs : Tile
        Products with matrices of signs.
    """

    shared: int
    structured: Mapping[int, Transform] = field(default_factory=dict)
    fastfood: Mapping[int, Transform] = field(default_factory=dict)
    most_bits: int = 12
    dense: Tile | None = None
    dense_fast: Tile | None = None
    digits: Tile | None = None
    differences: Tile = Tile(32, 128)
    wide_differences: Tile = Tile(32, 64)
    squares: Tile | None = None
    squares_from: int = 16
    signs: Tile = Tile(64, 64, 4, 32, 2)

    def structured_plan(self, q: int) -> Transform:
        """Return the plan of structured rows of 2^q columns."""
        return self.structured.get(q, Transform())

    def fastfood_plan(self, q: int) -> Transform:
        """Return the plan of Fastfood: a permutation needs at least two warps, if there are numbers for them."""
        return self.fastfood.get(q, Transform(5, 1, 128) if q <= 11 else Transform(limit=128))


DEFAULT = Plans(LEAST_SHARED)
# measured on an H200: fewer registers for each thread allow more warps, which run while others wait for memory.
# Fastfood's permutation goes through shared memory, which Triton's gather does where a row has several warps (within
# one it shuffles every register past every other): two at least. 2^15 columns need all 32 warps, and 64 registers a
# thread, all there are, hold neither data nor indices in full: some are spilled.
PLANS = {
    HOPPER: Plans(
        shared=SHARED_BYTES[HOPPER],
        structured={
            6: Transform(limit=96),
            7: Transform(limit=128),
            8: Transform(limit=128),
            10: Transform(limit=96),
            11: Transform(limit=128),
            12: Transform(limit=128),
            13: Transform(limit=80),
            14: Transform(limit=64),
            15: Transform(wide_limit=None),
        },
        fastfood={
            7: Transform(5, 1, 128),
            8: Transform(5, 1, 128),
            9: Transform(5, 1, 128),
            10: Transform(5, 1, 128),
            11: Transform(5, 1, 128),
            12: Transform(limit=128),
            13: Transform(limit=80),
            14: Transform(limit=64),
            15: Transform(wide_limit=None),
        },
        most_bits=15,
        dense=Tile(64, 32),
        dense_fast=Tile(128, 64),
        digits=Tile(256, 128, 8, 128, 3),
        differences=Tile(64, 128),
        wide_differences=Tile(64, 64),
        squares=Tile(128, 64),
        signs=Tile(128, 128, 8, 32, 4),
    ),
}


def plans_for(capability: tuple[int, int]) -> Plans | None:
    """Return the plans for a card of this compute capability; None if it runs no kernels of ours."""
    if capability < LEAST_CAPABILITY:
        return None
    return PLANS.get(capability, DEFAULT)
