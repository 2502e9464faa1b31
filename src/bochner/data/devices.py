"""A source whose passes run on a device: rows are copied there through pinned memory, and sums are copied back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Thread
from types import ModuleType
from typing import Any

import numpy as np

from bochner.backends import Array, NoDeviceError, backend_of, densified, times_columns
from bochner.checks import check_device_name
from bochner.data.folds import Fold, StatisticsFold
from bochner.data.progress import Interruptions, Stopwatch
from bochner.data.sources import ArraySource, Block, MappedSource, Source, first_rows, joined
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Centred, DenseGram, PSDOperator
from bochner.features.maps import FeatureMap, features_of
from bochner.features.nystrom import KernelColumns, Nystrom
from bochner.ridge.solvers import Cholesky, SampledPreconditioner
from bochner.ridge.statistics import RidgeStatistics

_MOST_ROWS = 65_536  # largest number of rows in a block
_SAMPLED_ROWS = 4  # rows of a preconditioner's sample for each component
_LARGE_BYTES = 1 << 28  # sums of this size or more have their memory allocated ahead
_SECONDS = 20.0  # seconds after which sums on a device are added to those on the host, which checkpoints save


def on_device(source: Source, device: str | None) -> Source:
    """Return a source that folds on a device; the source itself if `device` is None or its rows are elsewhere."""
    return source if device is None or source.remote else DeviceSource(source, device)


def on_device_if_there(source: Source, device: str | None) -> Source:
    """Do the same as `on_device`, but return the source itself if this machine has no such device."""
    try:
        return on_device(source, device)
    except NoDeviceError:
        return source


def open_device(device: str) -> ModuleType:
    """Return the module of the torch backend, or raise an error that says why the device cannot be used."""
    check_device_name(device)
    try:
        from bochner.backends import torch as backend
    except ImportError:
        raise NoDeviceError(
            f"device={device!r} needs torch: pip install 'bochner[torch]', or use device=None."
        ) from None
    backend.check_device(device)
    return backend


def rows_on(device: str, X: Array, n_components: int) -> Iterator[Array]:
    """Yield the rows of X on a device, in blocks whose features take at most 1 GiB."""
    link = open_device(device).Link(device)
    step = max(1, (1 << 30) // (max(1, n_components) * X.dtype.itemsize))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        yield link(densified(block))


class DeviceSource(MappedSource):
    """The rows of another source, folded on a device.

    Features are computed on the device, and so are the sums of folds that run on devices; other folds receive the
    features in host memory. If blocks do not fit into the memory of the device, the pass continues with blocks of half
    the size.

    Parameters
    ----------
    source : Source
    device : str
        "cuda", "cuda:1", …, or "cpu" for torch on the host.
    """

    def __init__(self, source: Source, device: str) -> None:
        super().__init__(source)
        self.device, self.torch = device, open_device(device)

    def place(self, array: Array) -> Array:
        return self.torch.tensor_on(self.device, array)

    def free_memory(self) -> int:
        """Return the number of bytes that may be allocated on the device."""
        return int(self.torch.free_memory(self.device))

    def held(self, feature_map: FeatureMap) -> TensorSource:
        """Return the features of all rows, with targets and weights, as rows that stay on the device."""
        assert self.n_samples is not None
        Z: Array | None = None
        blocks: list[Block] = []
        row = 0
        for part, block in self.features(feature_map):
            Z = backend_of(part).empty((self.n_samples, part.shape[1]), part) if Z is None else Z
            Z[row : row + len(block)] = part
            row += len(block)
            blocks.append(replace(block, X=np.empty((len(block), 0))))
        rows = joined(blocks)
        return TensorSource(Block(Z, self.place(np.asarray(rows.y, np.float64)), rows.weight))

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
        if feature_map is None or fold.plain:
            return self.source.fold(fold, feature_map, total, rows=rows, start=start, stop=stop, after=after)
        if rows is None or fold.runs_on_device:
            rows = self._rows(feature_map, fold.with_gram)
        with Interruptions() as interruptions, _touched(total) as wait:
            while True:
                try:
                    for part, row in self._parts(fold, feature_map, start, stop, rows):
                        wait()
                        with interruptions.held():
                            total, start = part if total is None else fold.merge(total, part), row
                            if after is not None:
                                after(total, row)
                        del part
                    return fold.zero() if total is None else total
                except self.torch.OutOfMemory:
                    if rows <= 64:
                        message = f"{self.device} has too little memory even for blocks of {rows} rows."
                        raise MemoryError(message) from None
                    rows //= 2
                self.torch.forget_memory()

    def _rows(self, feature_map: FeatureMap, with_gram: bool) -> int:
        """Return the number of rows in a block, such that everything fits into two thirds of the free memory."""
        m, free = feature_map.n_components, self.torch.free_memory(self.device)
        # the sums, a copy of them, and panels of products
        fixed = (8 + 4 + 2) * m**2 if with_gram else 0
        if fixed > 0.9 * free:
            raise MemoryError(
                f"the sums of {m} components need {fixed / 2**30:.1f} GiB on {self.device}, where "
                f"{free / 2**30:.1f} GiB are free; use fewer components, solver='cg' or device=None."
            )
        each = (2 * m + 3 * self.n_features) * np.dtype(self.dtype).itemsize
        return int(np.clip(int(0.66 * (free - fixed)) // each // 256 * 256, 256, _MOST_ROWS))

    def features(
        self, feature_map: FeatureMap, rows: int | None = None, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[Array, Block]]:
        """Yield features on the device with their blocks; the next block is copied while the device uses the last."""
        rows, link = rows or self._rows(feature_map, with_gram=False), self.torch.Link(self.device)
        for block in first_rows(self.source.blocks(rows, start), None if stop is None else stop - start):
            X = link(densified(block.X))
            yield features_of(feature_map, X), block

    def _parts(
        self, fold: Fold, feature_map: FeatureMap, row: int, stop: int | None, rows: int
    ) -> Iterator[tuple[Any, int]]:
        """Totals of consecutive parts of the rows, each with the number of the row after its last one."""
        over, nystrom = fold, None
        if isinstance(feature_map, Nystrom) and isinstance(fold, StatisticsFold) and not fold.with_gram:
            # sums that are linear in the features are multiplied by the root once, instead of every row
            nystrom, feature_map = feature_map, KernelColumns(feature_map)
            over = replace(fold, n_components=feature_map.n_components)
        part, clock = None, Stopwatch()
        for Z, block in self.features(feature_map, rows, row, stop):
            Z = Z if fold.runs_on_device else backend_of(Z).fetch(Z)
            part = over.add(over.zero() if part is None else part, Z, block, row)
            del Z
            row += len(block)
            if clock.seconds() > _SECONDS:
                yield part if nystrom is None else _with_root(part, nystrom), row
                part, clock = None, Stopwatch()
        if part is not None:
            yield part if nystrom is None else _with_root(part, nystrom), row


class TensorSource(Source):
    """Rows that are on a device, with their targets, for passes that should copy nothing; weights are host arrays.

    Parameters
    ----------
    block : Block
        X and y tensors on one device.
    """

    def __init__(self, block: Block) -> None:
        self.block, (self.n_samples, self.n_features) = block, block.X.shape
        self.dtype = backend_of(block.X).fetch(block.X[:0]).dtype

    def default_rows(self, n_components: int) -> int:
        """Return the default number of rows in a block."""
        return _MOST_ROWS

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        for first in range(start, int(self.n_samples or 0), rows):
            yield self.block[first : first + rows]

    def sample(self, n: int, key: Key) -> Block:
        assert self.n_samples is not None
        if self.n_samples <= n:
            return self.block
        rows = np.sort(key.generator().choice(self.n_samples, n, replace=False))
        there = backend_of(self.block.X).place(rows, self.block.X)
        weight = self.block.weight
        return Block(self.block.X[there], self.block.y[there], None if weight is None else weight[rows])


def _with_root(sums: RidgeStatistics, nystrom: Nystrom) -> RidgeStatistics:
    """Turn sums over kernel values into sums over Nyström features; components beyond the rank are zero."""
    backend = backend_of(sums.products)
    products = np.zeros((nystrom.n_components, sums.products.shape[1]))
    root = backend.place(nystrom.root, sums.products)
    products[: nystrom.rank] = backend.fetch(times_columns(root.T, sums.products))
    sums.products = products
    return sums


@contextmanager
def _touched(total: object) -> Iterator[Callable[[], None]]:
    """Write to every page of a new matrix in threads, so that the system allocates it while a device works.

    Yields a function that waits for the threads.
    """
    gram = total.gram if isinstance(total, RidgeStatistics) else None
    threads: list[Thread] = []
    if gram is not None and gram.nbytes >= _LARGE_BYTES and gram.flags.f_contiguous:
        pages = gram.T.reshape(-1)[:: 4096 // gram.itemsize]
        # adding zero keeps all values
        threads = [Thread(target=np.add, args=(part, 0.0, part), daemon=True) for part in np.array_split(pages, 4)]

    def wait() -> None:
        for thread in threads:
            thread.join()

    for thread in threads:
        thread.start()
    try:
        yield wait
    finally:
        wait()


def sampled_preconditioner(
    source: Source, feature_map: FeatureMap, alpha: float, weight: float, key: Key, *, centred: bool
) -> SampledPreconditioner | None:
    """Make Falkon's preconditioner (Rudi et al. 2017), from a sample's G + alpha I, on the device of a source.

    None if the source is not on a device, its sums do not fit into the memory there, or the sample has no weight.
    """
    if not isinstance(source, DeviceSource):
        return None
    m = feature_map.n_components
    # the sums, a copy to be factored, and the factor
    if 3 * 8 * m**2 > 0.9 * source.torch.free_memory(source.device):
        return None
    rows = source.sample(_SAMPLED_ROWS * m, key)
    sample = DeviceSource(ArraySource(rows.X, np.empty((len(rows), 0)), rows.weight), source.device)
    try:
        sums = sample.fold(StatisticsFold(m, 0, np.asarray), feature_map)
    except (MemoryError, source.torch.OutOfMemory):
        return None
    if sums.weight <= 0.0:
        return None
    share = weight / sums.weight
    sums.squares *= share
    gram: PSDOperator = DenseGram(sums.squares)
    if centred:
        gram = Centred(gram, share * sums.feature_sum, weight)
    factor = Cholesky().factor(gram, alpha)
    del gram, sums  # the device was checked to have room for three such matrices only
    return SampledPreconditioner.of(factor)


def is_there(device: str | None) -> bool:
    """Return True if this machine has the device; models fitted on one predict on the host of other machines."""
    try:
        return device is not None and open_device(device) is not None
    except ValueError:
        return False
