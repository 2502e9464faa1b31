"""A source seen through a function of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bochner.backends import Array
from bochner.keys import Key
from bochner.streaming.folds import Fold
from bochner.streaming.sources import Block, Source


class MappedSource(Source):
    """The rows of another source, every block passed through a function that keeps the columns of X.

    Parameters
    ----------
    source : Source
    function : callable
        Block ↦ Block, row by row, so that it does not matter how the rows are grouped.

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
        return self.function(self.source.sample(n, key))

    def fold(self, fold: Any, feature_map: Any = None, total: Any = None, **options: Any) -> Any:
        return self.source.fold(MappedFold(fold, self.function), feature_map, total, **options)

    def layout(self) -> dict[str, Any]:
        return self.source.layout()


@dataclass(frozen=True)
class MappedFold(Fold):
    """A fold of blocks that are passed through a function where they are."""

    inner: Fold
    function: Callable[[Block], Block]

    @property
    def plain(self) -> bool:  # type: ignore[override]
        """As the other fold."""
        return self.inner.plain

    def zero(self) -> Any:
        return self.inner.zero()

    def add(self, total: Any, Z: Array, block: Block, row: int) -> Any:
        return self.inner.add(total, Z, self.function(block), row)

    def merge(self, total: Any, other: Any) -> Any:
        return self.inner.merge(total, other)
