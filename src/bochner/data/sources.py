"""Where rows come from. A source yields blocks of (X, y, weight), again and again, in the same order."""

from __future__ import annotations

import mmap
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils import check_array

from bochner.backends import FLOATS, Array, DType, as_native, backend_of, check_moderate, is_host, reading
from bochner.checks import check_weight, warn
from bochner.data.copies import weigh_copies
from bochner.data.progress import Interruptions
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap

if TYPE_CHECKING:
    from bochner.data.folds import Fold

T = TypeVar("T")

_PLAIN_ROWS = 1 << 16  # rows in a block whose features are not computed
_BLOCK_BYTES = 1 << 25  # bytes of features held at a time, which the rank-k update reads from the cache

_CHECKED_ROWS = 1 << 14  # rows that are checked at a time
_LARGEST_SHARE = 0.05  # largest share of one row in the errors that something is chosen by
_MOST_COPIED = 0.25  # copies of other rows, as a share of all rows, that a sample may suggest without a warning


@dataclass(frozen=True)
class Block:
    """Rows: X (n, n_features) array or CSR, y (n,) or (n, k) as given or None, weight (n,) or None."""

    X: Any  # rows of one kind: an array, a CSR matrix or a tensor
    y: Any = None
    weight: Array | None = None

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def weights(self) -> Array:
        """Return the weights as float64, (n,): ones if none are given."""
        return np.ones(len(self)) if self.weight is None else np.asarray(self.weight, np.float64)

    def __getitem__(self, rows: Array | slice) -> Block:
        """Return some of the rows."""
        y, weight = self.y, self.weight
        return Block(self.X[rows], None if y is None else y[rows], None if weight is None else weight[rows])


def positive(block: Block) -> Block:
    """Return the rows of positive weight: rows of weight zero must not influence anything."""
    if block.weight is None or (block.weight > 0).all():
        return block
    return block[np.flatnonzero(block.weight > 0)]


def merged(block: Block, n_samples: int) -> Block:
    """Return the rows without copies, the first of which has the weight of all; see `weigh_copies`.

    A sample of `n_samples` rows lacks most of the copies of its rows. If there are many, they are a reason to warn.
    """
    weight = weigh_copies(block.X, block.y, block.weight)
    if weight is block.weight:
        return block
    kept = positive(replace(block, weight=weight))
    n, n_copies = len(block), len(block) - len(kept)
    # with n of N rows, a copy is in the sample with probability n / N
    if n < n_samples and n_copies * n_samples > _MOST_COPIED * n * n:
        warn(
            "many rows occur several times, with the same target, and only a sample of them is compared: noise seems "
            "smaller than it is, and length scales and penalty are chosen too small. Pass each row once, and how often "
            "it occurs as its weight.",
            UserWarning,
        )
    return kept


def limit_weights(weight: Array) -> Array:
    """Limit each weight to a twentieth of the sum of all; of fewer than 80 rows, to four times the mean.

    An error that is averaged with these weights is never that of a few rows alone. Weights below the limit stay as they
    are, and so does every weight if the limit leaves more than twenty rows.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.sources import limit_weights
    >>> limit_weights(np.r_[1e6, np.ones(190)])[:2]
    array([10.,  1.])
    """
    n_parts, ordered = min(1.0 / _LARGEST_SHARE, 0.25 * len(weight)), np.sort(weight)
    larger = np.arange(len(weight))[::-1]  # rows after each one
    lower = np.cumsum(ordered)
    last = int(np.flatnonzero(n_parts * ordered <= lower + larger * ordered)[-1]) if len(weight) else 0
    if not len(weight) or not larger[last]:
        return weight
    return np.minimum(weight, lower[last] / (n_parts - larger[last]))


def limited(block: Block) -> Block:
    """Limit the weights of a sample that something is chosen by; see `limit_weights`."""
    return block if block.weight is None else replace(block, weight=limit_weights(block.weight))


def representative(block: Block, least: int, key: Key) -> Block:
    """Draw rows without weights, distributed like the weighted ones, to choose landmarks from.

    The effective number of rows, (Σw)² / Σw², but at least so many; drawn in proportion to the weights.
    """
    if block.weight is None or (block.weight == block.weight[0]).all():
        return Block(block.X, block.y)
    share = block.weight / block.weight.max()
    size = max(1, least, int(share.sum() ** 2 / (share @ share)))
    if size >= len(block):
        return Block(block.X, block.y)
    # the largest of log(weight) + Gumbel noise are drawn one after the other in proportion to the weights
    noise = key.generator().gumbel(size=len(block))
    chosen = block[np.sort(np.argpartition(-(np.log(share) + noise), size - 1)[:size])]
    return Block(chosen.X, chosen.y)


class Source(ABC):
    """Rows in blocks, to be read as often as wanted.

    Attributes
    ----------
    n_samples : int or None
        None when it is known only after a pass.
    n_features : int
    feature_names : list of str or None
    dtype : numpy dtype
        float32 or float64.
    remote : bool
        Whether the rows are on other machines, which fold them there.
    """

    n_samples: int | None
    n_features: int
    feature_names: list[str] | None = None
    dtype: DType
    remote: ClassVar[bool] = False

    @abstractmethod
    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        """Yield blocks of exactly `rows` rows (the last may be shorter), beginning with row `start`."""

    def scattered(self, rows: int) -> Iterator[Block]:
        """Yield blocks of at most `rows` rows, each from all over the data if that is in memory, else as `blocks`."""
        return self.blocks(rows)

    @abstractmethod
    def sample(self, n: int, key: Key) -> Block:
        """Draw at most n rows of positive weight at random without replacement, in the order of the data."""

    def features(
        self, feature_map: FeatureMap, rows: int | None = None, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Array, Block]]:
        """Yield the features of every block, in one buffer that is used again for the next."""
        dtype = feature_map.dtype_of(self.dtype)
        rows = rows or default_rows(feature_map.n_components, dtype)
        buffer = np.empty((rows, feature_map.n_components), dtype)
        for block in first_rows(self.blocks(rows, start), None if stop is None else stop - start):
            Z = buffer[: len(block)]
            feature_map.into(block.X, Z)
            yield Z, block

    def fold(
        self,
        fold: Fold,
        feature_map: FeatureMap | None = None,
        total: Any = None,
        *,
        rows: int | None = None,
        start: int = 0,
        stop: int | None = None,
        after: Callable[[Any, int], None] | None = None,
    ) -> Any:
        """Add all rows up in one pass, in order; a source on many machines does it as a tree of merges.

        Ctrl-C takes effect between blocks.

        Parameters
        ----------
        fold : Fold
            What is added up.
        feature_map : FeatureMap or None
            None for folds that need no features.
        total
            A total to continue from; None starts from zero.
        rows : int or None
            Rows in a block.
        start, stop : int
            The first row to read, and the one before which to end; None reads all of them. A source on many machines
            takes numbers that `after` was called with.
        after : callable or None
            Called as ``after(total, row)`` whenever the total holds all rows up to `row`.
        """
        total = fold.zero() if total is None else total
        blocks: Iterator[tuple[Any, Block]]
        if feature_map is None or fold.plain:
            plain = self.blocks(rows or _PLAIN_ROWS, start)
            blocks = ((None, block) for block in first_rows(plain, None if stop is None else stop - start))
        else:
            blocks = self.features(feature_map, rows, start, stop)
        with Interruptions() as interruptions:
            for Z, block in blocks:
                with interruptions.held():
                    total = fold.add(total, Z, block, start)
                    start += len(block)
                    if after is not None:
                        after(total, start)
        return total

    def place(self, array: Array) -> Array:
        """Move an array of this process to where a pass of `fold` has its features."""
        return array

    def mapped(self, function: Callable[[Block], Block]) -> Source:
        """Return these rows with every block passed through a function; blocks on other machines are passed there.

        Parameters
        ----------
        function : callable
            Block ↦ Block of as many columns, row by row, so that it does not matter how the rows are grouped.
        """
        return MappedSource(self, function)

    def head(self) -> Block:
        """Return the first row."""
        return next(self.blocks(1))

    def layout(self) -> dict[str, object]:
        """Return what influences sums over the rows besides their values, by name."""
        return {"n_features": self.n_features, "dtype": str(np.dtype(self.dtype))}


class ArraySource(Source):
    """Arrays, memmaps and CSR matrices that were checked already.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.sources import ArraySource
    >>> source = ArraySource(np.zeros((10, 2)), np.arange(10.0))
    >>> [len(block) for block in source.blocks(4)]
    [4, 4, 2]
    """

    def __init__(self, X: Array, y: ArrayLike | None = None, weight: Array | None = None) -> None:
        if not is_host(X) or X.ndim != 2 or X.dtype.newbyteorder("=") not in FLOATS:
            raise ValueError(f"X must be a 2-D array or CSR matrix of float32 or float64; got {_shape(X)}.")
        y = _checked_targets(y, X.shape[0], "y")
        # SciPy takes no rows of a matrix in the other byte order
        weight = None if weight is None else check_weight(weight, X.shape[0], dtype=X.dtype)
        self.block = Block(as_native(X).tocsr() if scipy.sparse.issparse(X) else X, y, weight)
        # indices of the rows of positive weight, if some have weight zero
        self.kept = None if weight is None or (weight > 0).all() else np.flatnonzero(weight > 0)
        self.n_samples = X.shape[0] if self.kept is None else len(self.kept)
        self.n_features, self.dtype = X.shape[1], X.dtype.newbyteorder("=")

    def check(self) -> None:
        """Refuse data without rows, or with numbers that are not finite or too large, as `fit` does with arrays."""
        if not self.n_samples or not self.n_features:
            raise ValueError(f"X has no rows or no columns, shape {self.block.X.shape}.")
        for block in self.blocks(_CHECKED_ROWS):
            checked_block(block.X, block.y, block.weight, name="the source")

    def default_rows(self, n_components: int) -> int:
        """Return the default number of rows in a block with this number of features."""
        return default_rows(n_components, self.dtype)

    def _rows(self, rows: Array | slice) -> Block:
        """Return some rows in the byte order and layout that compiled code reads."""
        block = self.block[rows if self.kept is None else self.kept[rows]]
        return replace(block, X=as_native(block.X))

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        assert self.n_samples is not None
        parts = (self._rows(slice(first, first + rows)) for first in range(start, self.n_samples, rows))
        return read_ahead(map(_touched, parts)) if in_file(self.block.X) else parts

    def merged(self) -> ArraySource:
        """Return these rows with copies as weights; see `weigh_copies`."""
        X, y, weight = self.block.X, self.block.y, weigh_copies(self.block.X, self.block.y, self.block.weight)
        return self if weight is self.block.weight else ArraySource(X, y, weight)

    def head(self) -> Block:
        return self._rows(slice(1))

    def scattered(self, rows: int) -> Iterator[Block]:
        assert self.n_samples is not None
        if in_file(self.block.X):  # one read in order is faster than many of a row here and there
            yield from self.blocks(rows)
            return
        step = -(-self.n_samples // rows)
        for first in range(step):
            yield self._rows(slice(first, None, step))

    def sample(self, n: int, key: Key) -> Block:
        assert self.n_samples is not None
        if self.n_samples <= n:
            return self._rows(slice(None))
        rows = key.generator().choice(self.n_samples, n, replace=False)
        return self._rows(np.sort(rows))


_READ_ONCE = (
    "An iterator can be read only once, and features are chosen from the data before. Pass a list of blocks or an "
    "object whose __iter__ starts afresh, or call partial_fit on each block."
)


class BlockSource(Source):
    """Any re-iterable of (X, y) or (X, y, weight) blocks: a list, a dataset, an object whose `__iter__` starts afresh.

    Parameters
    ----------
    iterable : iterable
        Of tuples; each X an array, frame or CSR matrix with the same columns; of frames, also in the same order.
        Every pass must have the same rows; blocks without rows are skipped.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.sources import BlockSource
    >>> source = BlockSource([(np.zeros((3, 2)), np.zeros(3)), (np.ones((4, 2)), np.ones(4))])
    >>> [len(block) for block in source.blocks(5)]
    [5, 2]
    """

    def __init__(self, iterable: Iterable[object]) -> None:
        if not isinstance(iterable, Iterable) or getattr(iterable, "ndim", 1) == 0:
            raise ValueError(f"a stream is an iterable of (X, y) or (X, y, weight) blocks, got {_shape(iterable)}.")
        blocks = iter(iterable)
        if iter(iterable) is blocks:
            raise ValueError(_READ_ONCE)
        self.iterable = iterable
        self.n_samples = None
        _, self.feature_names, first = next(_filled(blocks), (None, None, None))
        if first is None:
            raise ValueError("the stream has no blocks with rows.")
        self.n_features = first.X.shape[1]
        self.dtype = first.X.dtype
        self.has_weight, self.is_sparse = first.weight is not None, scipy.sparse.issparse(first.X)
        self.target_shape = np.shape(first.y)[1:]
        self.kind_of_target = _kind(first.y)

    def _checked(self) -> Iterator[Block]:
        """Yield the rows of positive weight; every complete pass must have as many of them as the first."""
        blocks = rows = 0
        for name, names, block in _filled(self.iterable):
            self._compare(name, names, block)
            block = positive(replace(block, X=block.X.astype(self.dtype, copy=False)))
            blocks, rows = blocks + 1, rows + len(block)
            yield block
        if not blocks:
            raise ValueError(f"the stream has no rows when it is read again. {_READ_ONCE}")
        if self.n_samples is not None and rows != self.n_samples:
            raise ValueError(
                f"the stream should have the same rows in every pass, and it had {self.n_samples:,} in the first and "
                f"{rows:,} in a later one; make __iter__ start afresh, with the same rows."
            )
        self.n_samples = rows

    def _compare(self, name: str, names: list[str] | None, block: Block) -> None:
        """Refuse a block that is unlike the first one."""
        if names is not None and self.feature_names is not None and names != self.feature_names:
            raise ValueError(
                f"{name} has the columns {', '.join(map(repr, names))}, the first block "
                f"{', '.join(map(repr, self.feature_names))}."
            )
        if block.X.shape[1] != self.n_features:
            raise ValueError(f"{name} has {block.X.shape[1]} columns, the first block {self.n_features}.")
        if scipy.sparse.issparse(block.X) != self.is_sparse:
            raise ValueError(f"{name} differs from the first in being sparse or not.")
        if np.shape(block.y)[1:] != self.target_shape:
            raise ValueError(
                f"{name} has targets of shape {np.shape(block.y)}, the first block "
                f"(n, {', '.join(map(str, self.target_shape))})."
            )
        if _kind(block.y) != self.kind_of_target:
            raise ValueError(f"{name} has {_kind(block.y)} as targets, the first one {self.kind_of_target}.")
        if (block.weight is not None) != self.has_weight:
            raise ValueError(f"{name} differs from the first in having weights or not.")

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        return regroup(self._checked(), rows, start)

    def sample(self, n: int, key: Key) -> Block:
        draw = key.generator()
        kept: Block | None = None
        priorities = np.empty(0)
        seen = 0
        for block in self._checked():
            seen += len(block)
            priorities = np.concatenate([priorities, draw.random(len(block))])
            kept = block if kept is None else joined([kept, block])
            if len(kept) > n:  # the n smallest priorities of everything seen so far
                keep = np.sort(np.argpartition(priorities, n - 1)[:n])
                kept, priorities = kept[keep], priorities[keep]
        if not seen:
            raise ValueError("every row of the stream has weight zero.")
        assert kept is not None
        return merged(kept, seen)


def _filled(stream: Iterable[object]) -> Iterator[tuple[str, list[str] | None, Block]]:
    """Yield the blocks of a stream that have rows, with what to call them and the names of their columns."""
    for index, item in enumerate(stream):
        name = f"block {index} of the stream"
        if not isinstance(item, (tuple, list)) or len(item) not in (2, 3):
            raise ValueError(f"{name} should be (X, y) or (X, y, weight), got {type(item)}.")
        block = checked_block(*item, name=name)
        if len(block):
            yield name, names_of(item[0]), block


def in_file(X: object) -> bool:
    """Return True if an array, or the one that it is a view of, is a file mapped to memory."""
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return isinstance(X, np.memmap)


def _touched(block: Block) -> Block:
    """Read every page of a block of a mapped file into memory, without a copy."""
    if in_file(block.X) and block.X.flags.c_contiguous:
        block.X.reshape(-1).view(np.uint8)[:: mmap.PAGESIZE].max(initial=0)
    return block


def read_ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items of an iterator while a thread makes the next one, and no more.

    An error of the iterator is raised when its item is asked for.
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as reader:  # leaving it waits for the item that is being made
        made = reader.submit(next, items, end)
        while (item := made.result()) is not end:
            made = reader.submit(next, items, end)
            yield item
            del item  # it must not be in memory together with two others


def checked_block(
    X: ArrayLike,
    y: ArrayLike | None,
    weight: ArrayLike | None = None,
    *,
    name: str,
    dtype: DTypeLike | Sequence[type] = FLOATS,
) -> Block:
    """Return a block as arrays, finite and of one length, or raise an error that names it; it may have no rows."""
    try:
        with reading("X"):
            X = check_array(as_native(X), accept_sparse="csr", dtype=dtype, input_name="X", ensure_min_samples=0)
        X = check_moderate(as_native(X))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name}: {error}") from None
    y = _checked_targets(y, X.shape[0], name)
    weight = None if weight is None else check_weight(weight, X.shape[0], name, X.dtype)
    return Block(X, y, weight)


def names_of(X: Any) -> list[str] | None:
    """Return the names of the columns of a frame or Arrow table; None unless all of them are strings."""
    arrow = type(X).__module__.split(".")[0] == "pyarrow"  # its `columns` are data
    names = list(X.schema.names if arrow else getattr(X, "columns", []))
    return names if names and all(isinstance(name, str) for name in names) else None


def _checked_targets(y: ArrayLike | None, n: int, name: str) -> Array | None:
    """Return targets as an array of n rows, or None."""
    if y is None:
        return None
    with reading(f"{name}: y"):
        targets: Array = as_native(np.asarray(y))
    if not targets.ndim or len(targets) != n:
        raise ValueError(f"{name}: X has {n} rows and y has {len(targets) if targets.ndim else 'none'}.")
    return targets


_KINDS = dict.fromkeys("fiub", "numbers") | dict.fromkeys("USTO", "labels")


def _kind(y: Array | None) -> str:
    """Say in words what kind of targets these are."""
    return "nothing" if y is None else _KINDS.get(y.dtype.kind, str(y.dtype))


def _shape(A: Any) -> str:
    """Say in words what something is."""
    return f"a {type(A).__name__} of shape {A.shape} and type {A.dtype}" if hasattr(A, "dtype") else repr(A)


def joined(blocks: list[Block]) -> Block:
    """Return blocks one below the other."""
    if len(blocks) == 1:
        return blocks[0]
    first, Xs = blocks[0], [block.X for block in blocks]
    return Block(
        scipy.sparse.vstack(Xs, format="csr") if scipy.sparse.issparse(first.X) else _concatenated(Xs),
        None if first.y is None else _concatenated([block.y for block in blocks]),
        None if first.weight is None else np.concatenate([block.weight for block in blocks]),
    )


def _concatenated(arrays: list[Array]) -> Array:
    return np.concatenate(arrays) if is_host(arrays[0]) else backend_of(arrays[0]).xp.concatenate(arrays)


def default_rows(n_components: int, dtype: DTypeLike) -> int:
    """Return the rows in a block: 32 MiB of features, and enough for the rank-k update to run at full rate."""
    rows = _BLOCK_BYTES // (max(1, n_components) * np.dtype(dtype).itemsize)
    return int(np.clip(rows // 256 * 256, 512, 16384))


def first_rows(blocks: Iterator[Block], n: int | None) -> Iterator[Block]:
    """Yield the first n rows of blocks; None means all."""
    for block in blocks:
        if n is not None and n <= len(block):
            yield block[:n]
            return
        n = None if n is None else n - len(block)
        yield block


def regroup(blocks: Iterator[Block], rows: int, skip: int = 0) -> Iterator[Block]:
    """Yield blocks of exactly `rows` rows out of blocks of any size, after skipping some rows."""
    waiting: list[Block] = []
    held = 0
    for block in blocks:
        if skip >= len(block):
            skip -= len(block)
            continue
        block, skip = block[skip:], 0
        while held + len(block) >= rows:
            take = rows - held
            yield joined([*waiting, block[:take]])
            waiting, held, block = [], 0, block[take:]
        if len(block):
            waiting.append(block)
            held += len(block)
    if waiting:
        yield joined(waiting)


class MappedSource(Source):
    """The rows of another source in this process, every block passed through a function; see `Source.mapped`."""

    def __init__(self, source: Source, function: Callable[[Block], Block] = lambda block: block) -> None:
        self.source, self.function = source, function
        self.n_features, self.feature_names, self.dtype = source.n_features, source.feature_names, source.dtype

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Return the number of rows of the other source."""
        return self.source.n_samples

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        return map(self.function, self.source.blocks(rows, start))

    def scattered(self, rows: int) -> Iterator[Block]:
        return map(self.function, self.source.scattered(rows))

    def head(self) -> Block:
        return self.function(self.source.head())

    def sample(self, n: int, key: Key) -> Block:
        return positive(self.function(self.source.sample(n, key)))

    def layout(self) -> dict[str, object]:
        return self.source.layout()
