"""Randomness as a value with an address.

A ``Key`` is a seed and a path. ``key.child("lengths")`` is another key whose stream is independent of its parent's and
its siblings', so no draw depends on the order in which draws are made, on the block size, on the number of threads or
on the device. Streams are Philox (counter-based), and every draw in bochner is made row by row from one stream, so that
asking for more rows extends the same draw.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Key:
    """A seed with an address.

    Parameters
    ----------
    seed : int
        Any non-negative integer.
    path : tuple of int
        The address below the seed; use `child` to extend it.

    Examples
    --------
    >>> from bochner.draws.keys import Key
    >>> key = Key(7)
    >>> a = key.child("rows").generator().random(3)
    >>> b = key.child("rows").generator().random(5)
    >>> bool((a == b[:3]).all())
    True
    """

    seed: int
    path: tuple[int, ...] = ()

    def child(self, address: str | int) -> Key:
        """Return the key at `address` below this one."""
        # Names and numbers are in different halves of the 33-bit range, so child("x") is never child(3).
        step = zlib.crc32(address.encode()) if isinstance(address, str) else (1 << 32) + int(address)
        return Key(self.seed, (*self.path, step))

    def generator(self) -> np.random.Generator:
        """Return a fresh generator at the start of this key's stream."""
        sequence = np.random.SeedSequence(self.seed, spawn_key=self.path)
        return np.random.Generator(np.random.Philox(sequence))

    def uniforms(self, start: int, n: int) -> NDArray[np.float64]:
        """Return numbers start to start + n of this key's uniform stream, without drawing those before.

        Examples
        --------
        >>> from bochner.draws.keys import Key
        >>> bool((Key(7).uniforms(5, 3) == Key(7).generator().random(8)[5:]).all())
        True
        """
        generator = self.generator()
        generator.bit_generator.advance(start // 4)  # type: ignore[attr-defined]  # Philox counts by four
        return generator.random(start % 4 + n)[start % 4 :]

    def signs(self, shape: tuple[int, ...]) -> NDArray[np.int8]:
        """Draw independent signs ±1."""
        return (2 * self.generator().integers(0, 2, shape, dtype=np.int8) - 1).astype(np.int8)

    @classmethod
    def from_random_state(cls, random_state: Seed) -> Key:
        """Make a key from what scikit-learn calls a random state: None, an int, a RandomState or a Generator."""
        if random_state is None:
            return cls(int(np.random.SeedSequence().generate_state(1, np.uint64)[0]))
        if isinstance(random_state, Key):
            return random_state
        if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
            if random_state < 0:
                raise ValueError(f"random_state must be a non-negative integer, got {random_state}.")
            return cls(int(random_state))
        if isinstance(random_state, np.random.RandomState):
            return cls(int(random_state.randint(0, 2**31 - 1)))
        if isinstance(random_state, np.random.Generator):
            return cls(int(random_state.integers(0, 2**63 - 1)))
        raise ValueError(
            "random_state must be None, a non-negative integer, a numpy RandomState or a numpy Generator; "
            f"got {random_state!r}."
        )


# what functions accept as random_state
Seed = int | np.random.RandomState | np.random.Generator | Key | None
