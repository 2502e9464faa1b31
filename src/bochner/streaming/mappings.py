"""A source seen through a function of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bochner.keys import Key
from bochner.streaming.sources import Block, Source, positive


class MappedSource(Source):
    """The rows of another source in this process, every block passed through a function; see `Source.mapped`.

    Parameters
    ----------
    source : Source
    function : callable
        Block ↦ Block of as many columns, row by row, so that it does not matter how the rows are grouped.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.streaming import ArraySource, Block, MappedSource
    >>> source = ArraySource(np.zeros((3, 2)), np.array(["a", "b", "a"]))
    >>> coded = MappedSource(source, lambda block: Block(block.X, (block.y == "a") * 1.0))
    >>> [block.y.tolist() for block in coded.blocks(2)]
    [[1.0, 0.0], [1.0]]
    """

    def __init__(self, source: Source, function: Callable[[Block], Block]) -> None:
        self.source = source
        self.function = function
        self.n_features = source.n_features
        self.feature_names = source.feature_names
        self.dtype = source.dtype

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Known when the other source knows it."""
        return self.source.n_samples

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        return map(self.function, self.source.blocks(rows, start))

    def head(self) -> Block:
        return self.function(self.source.head())

    def sample(self, n: int, key: Key) -> Block:
        return positive(self.function(self.source.sample(n, key)))

    def layout(self) -> dict[str, Any]:
        return self.source.layout()
