"""A source whose passes run on a device: rows go there through pinned memory, sums are made there and come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array, NoDeviceError, backend_of
from bochner.features import FeatureMap, features_of
from bochner.features.nystrom import KernelColumns, Nystrom
from bochner.keys import Key
from bochner.operators import Centred, PSDOperator
from bochner.solvers import Cholesky, DeviceCholeskyFactor
from bochner.statistics import RidgeStatistics, float32_error
from bochner.streaming.digests import RowDigest
from bochner.streaming.folds import Fold, ProductFold, StatisticsFold
from bochner.streaming.interruptions import Interruptions
from bochner.streaming.sources import ArraySource, Block, Source, first_rows

_MOST_ROWS = 65_536  # in a block
_PRODUCT_ROWS = 8192  # of features widened to float64 at a time
_SAMPLED_ROWS = 4  # of a preconditioner's sample, a feature
_LARGE_BYTES = 1 << 28  # of sums, from which on memory for them is found ahead
_MOST_COLUMNS = 4  # up to which kernel values are computed twice rather than stored
_SECONDS = 20.0  # between two copies of the sums to host memory, where a checkpoint finds them


def on_device(source: Source, device: str | None) -> Source:
    """The source itself, or one that folds on a device; rows that are elsewhere are folded where they are."""
    return source if device is None or source.remote else DeviceSource(source, device)


def on_device_if_there(source: Source, device: str | None) -> Source:
    """`on_device`, or the source itself where this machine has no such device."""
    try:
        return on_device(source, device)
    except NoDeviceError:
        return source


def open_device(device: str) -> Any:
    """The module of the torch backend, after a look at the device; ValueError says what is missing."""
    try:
        from bochner.backends import torch as backend
    except ImportError:
        raise NoDeviceError(
            f"device={device!r} needs torch: pip install 'bochner[torch]', or use device=None."
        ) from None
    backend.check_device(device)
    return backend


def rows_on(device: str, X: Any, n_components: int) -> Iterator[Any]:
    """The rows of X on a device, block by block, so that features of a block take a gigabyte at most."""
    link = open_device(device).Link(device)
    step = max(1, (1 << 30) // (max(1, n_components) * X.dtype.itemsize))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        yield link(block.toarray() if scipy.sparse.issparse(block) else block)


class DeviceSource(Source):
    """The rows of another source, folded on a device.

    Features are made there. Statistics and products with the Gram matrix are summed there as well; any other fold is
    given the features in host memory. A pass whose blocks do not fit begins again with blocks half as large.

    Parameters
    ----------
    source : Source
    device : str
        "cuda", "cuda:1", …, or "cpu" for torch on the host.
    """

    takes_roots = True

    def __init__(self, source: Source, device: str) -> None:
        self.source, self.device = source, device
        self.torch = open_device(device)
        self.n_features, self.feature_names, self.dtype = source.n_features, source.feature_names, source.dtype

    @property
    def n_samples(self) -> int | None:  # type: ignore[override]
        """Known when the other source knows it."""
        return self.source.n_samples

    def blocks(self, rows: int, start: int = 0) -> Iterator[Block]:
        return self.source.blocks(rows, start)

    def sample(self, n: int, key: Key) -> Block:
        return self.source.sample(n, key)

    def layout(self) -> dict[str, Any]:
        return self.source.layout()

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
        summed = isinstance(fold, (StatisticsFold, ProductFold)) or type(fold).sums_on is not Fold.sums_on
        if rows is None or fold.any_array or summed:
            rows = self._rows(feature_map, getattr(fold, "with_gram", False))
        state = (fold.zero() if total is None else total, start)
        while True:
            try:
                with Interruptions() as interruptions:
                    for add, row in self._pass(fold, feature_map, state[0], state[1], rows, stop):
                        with interruptions.held():
                            state = (add(state[0]), row)
                            if after is not None:
                                after(*state)
                        del add  # and the features it holds
                return state[0]
            except self.torch.OutOfMemory:
                if rows <= 64:
                    raise MemoryError(f"{self.device} has too little memory even for blocks of {rows} rows.") from None
                rows //= 2
            self.torch.forget_memory()

    def _rows(self, feature_map: FeatureMap, with_gram: bool) -> int:
        """Rows in a block so that everything fits into two thirds of the memory that is free."""
        m, free = feature_map.n_components, self.torch.free_memory(self.device)
        # the sums, the float32 part of new ones, and panels of products
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
    ) -> Iterator[tuple[Any, Block]]:
        """Features on the device. The next block is on its way there while the last is worked on."""
        for X, block in self._there(rows or self._rows(feature_map, with_gram=False), start, stop):
            yield features_of(feature_map, X), block

    def _there(self, rows: int, start: int, stop: int | None) -> Iterator[tuple[Any, Block]]:
        """Rows on the device."""
        link = self.torch.Link(self.device)
        for block in first_rows(self.source.blocks(rows, start), None if stop is None else stop - start):
            yield link(block.X.toarray() if scipy.sparse.issparse(block.X) else block.X), block

    def _pass(
        self, fold: Fold, feature_map: FeatureMap, total: Any, row: int, rows: int, stop: int | None
    ) -> Iterator[tuple[Callable[[Any], Any], int]]:
        """What to do to a total in host memory, and how many rows it is of then: the last, and some on the way."""
        sums: Any = None
        touching = _touch(total.gram if isinstance(total, RidgeStatistics) else None)
        clock = time.monotonic()
        nystrom = None
        if isinstance(feature_map, Nystrom) and (isinstance(fold, ProductFold) or not getattr(fold, "with_gram", True)):
            # what is linear in the features meets the root once, not with every row
            nystrom, feature_map = feature_map, KernelColumns(feature_map)
        tiles = nystrom is not None and isinstance(fold, ProductFold) and self._in_tiles(nystrom, fold)
        for Z, block in self._there(rows, row, stop) if tiles else self.features(feature_map, rows, row, stop):
            if sums is None:
                if isinstance(fold, StatisticsFold):
                    sums = DeviceStatistics(fold, Z, nystrom)
                elif isinstance(fold, ProductFold):
                    sums = (TileProduct if tiles else DeviceProduct)(fold, Z, nystrom)
                else:
                    sums = fold.sums_on(Z)
            if sums is None:
                Z = Z if fold.any_array else backend_of(Z).fetch(Z)
                yield partial(fold.add, Z=Z, block=block, row=row), row + len(block)
            else:
                sums.update(Z, block)
            del Z
            row += len(block)
            if sums is not None and time.monotonic() - clock > _SECONDS:
                _join(touching)
                yield sums.added_to, row
                sums, clock = None, time.monotonic()
        _join(touching)
        if sums is not None:
            yield sums.added_to, row

    def _in_tiles(self, nystrom: Nystrom, fold: ProductFold) -> bool:
        """Whether kernel values need not be stored: the device has a program for them, and few columns to multiply."""
        kernel = nystrom.kernel
        if kernel is None or scipy.sparse.issparse(nystrom.landmarks) or fold.columns.shape[1] > _MOST_COLUMNS:
            return False
        if nystrom.root.dtype != self.dtype:  # float64 kernel values of float32 rows
            return False
        X = self.torch.one_row(self.n_features, self.dtype, self.device)
        return backend_of(X).tiles is not None and kernel._tile(X, X) is not None


def _touch(gram: Array | None) -> list[Thread]:
    """Threads that write to every page of an empty matrix: the system finds memory for it while the device works."""
    if gram is None or gram.nbytes < _LARGE_BYTES or not gram.flags.f_contiguous:
        return []
    pages = gram.T.reshape(-1)[:: 4096 // gram.itemsize]
    # whatever is there stays
    threads = [Thread(target=np.add, args=(part, 0.0, part), daemon=True) for part in np.array_split(pages, 4)]
    for thread in threads:
        thread.start()
    return threads


def _join(threads: list[Thread]) -> None:
    for thread in threads:
        thread.join()


class DeviceStatistics:
    """The sums of `RidgeStatistics`, on the device of some features."""

    def __init__(self, fold: StatisticsFold, Z: Any, nystrom: Nystrom | None = None) -> None:
        self.fold, xp, self.nystrom = fold, backend_of(Z).xp, nystrom
        options = {"dtype": xp.float64, "device": Z.device}
        self.n_components, m, k = fold.n_components, Z.shape[1], fold.n_targets
        self.gram = xp.zeros((m, m), **options) if fold.with_gram else None
        self.products = xp.zeros((m, k + 1), **options)  # with the targets, and with ones
        self.targets = RidgeStatistics(0, k, with_gram=False)
        self.targets.digest = RowDigest() if fold.digested else None
        self.single_precision = Z.dtype != xp.float64

    def update(self, Z: Any, block: Block) -> None:
        """Add rows; Z may be overwritten."""
        Y = self.fold.target_rows(block)
        self.add(Z, Y, block.weight)
        if self.targets.digest is not None:
            self.targets.digest.update(block.X, Y, block.weight)

    def add(self, Z: Any, Y: Array, weight: Array | None = None) -> None:
        """Add rows of features, targets and weights; Z may be overwritten."""
        backend = backend_of(Z)
        Y = np.asarray(Y, dtype=np.float64).reshape(len(Z), -1)
        if weight is not None and not (weight > 0).all():
            keep = np.flatnonzero(weight > 0)
            Z, Y, weight = Z[backend.place(keep, Z)], Y[keep], weight[keep]
        if not len(Z):
            return
        self.targets.update(np.empty((len(Y), 0)), Y, weight)
        root = np.ones(len(Y)) if weight is None else np.sqrt(weight)
        if weight is not None:
            Z *= backend.place(root, Z)[:, None]
        right = np.column_stack([root[:, None] * (Y - self.targets.offset), root])
        right = backend.place(right, self.products)
        for start in range(0, len(Z), _PRODUCT_ROWS):
            rows = slice(start, start + _PRODUCT_ROWS)
            self.products += Z[rows].double().T @ right[rows]
        if self.gram is not None:
            backend.gram(Z, self.gram)

    def added_to(self, statistics: RidgeStatistics) -> RidgeStatistics:
        """Add these sums to others in host memory; the Gram matrix stays at hand for a solver on the device."""
        alone = statistics.n_samples == 0
        products = _rooted(self.products, self.nystrom, self.n_components)
        made = RidgeStatistics(len(products), self.targets.n_targets, with_gram=False)
        made.moment, made.feature_sum = products[:, :-1], products[:, -1]
        for name in ("target_squares", "target_sum", "offset", "weight", "n_samples", "digest"):
            setattr(made, name, getattr(self.targets, name))
        gram, statistics.gram = statistics.gram, None  # a matrix of gigabytes is added up only where it must be
        if gram is not None:
            there = gram if alone else np.zeros_like(gram)
            open_device("cpu").fetch_lower(self.gram, there)
            made.float32_error = float32_error(np.diagonal(there)) if self.single_precision else 0.0
            gram = gram if alone else np.add(gram, there, out=gram)
        statistics.merge(made)
        statistics.gram, statistics.device_gram = gram, self.gram if alone else None
        return statistics


class DeviceProduct:
    """Σ w z zᵀV on a device; sums are float64 over blocks."""

    def __init__(self, fold: ProductFold, Z: Any, nystrom: Nystrom | None = None) -> None:
        backend = backend_of(Z)
        self.nystrom, self.n_components = nystrom, len(fold.columns)
        self.total = backend.xp.zeros((Z.shape[1], fold.columns.shape[1]), dtype=backend.xp.float64, device=Z.device)
        columns = fold.columns
        if nystrom is not None:
            columns = np.ascontiguousarray(columns[: nystrom.rank])
        self.columns = backend.place(columns, self.total)
        if nystrom is not None:
            self.columns = _times(backend.place(nystrom.root, self.total), self.columns)

    def update(self, Z: Any, block: Block) -> None:
        """Add rows. In float64: what rounding does to a product is no symmetric matrix, and a root may enlarge it."""
        weights = None if block.weight is None else backend_of(Z).place(block.weight, self.total)
        backend_of(Z).gram_product(Z, self.columns, weights, self.total)

    def added_to(self, total: Array) -> Array:
        """Add to a total in host memory."""
        return total + _rooted(self.total, self.nystrom, self.n_components)


class TileProduct(DeviceProduct):
    """The same of kernel values that are never stored: Z is rows here."""

    def __init__(self, fold: ProductFold, Z: Any, nystrom: Nystrom | None = None) -> None:
        assert nystrom is not None
        self.landmarks = backend_of(Z).place(nystrom.landmarks, Z)
        super().__init__(fold, Z.new_empty((0, len(self.landmarks))), nystrom)

    def update(self, Z: Any, block: Block) -> None:
        """Add rows."""
        assert self.nystrom is not None
        assert self.nystrom.kernel is not None
        product = self.nystrom.kernel.product(Z, self.landmarks, self.columns)
        if block.weight is not None:
            product *= backend_of(Z).place(block.weight, product)[:, None]
        self.total += self.nystrom.kernel.product(self.landmarks, Z, product)


def _times(A: Any, V: Any) -> Any:
    """A V; for one column as a product with a vector, which is faster."""
    return (A @ V[:, 0])[:, None] if V.shape[1] == 1 else A @ V


def _rooted(sums: Any, nystrom: Nystrom | None, n_components: int) -> Array:
    """Sums over kernel columns as sums over Nyström features, with zeros for those that are none."""
    backend = backend_of(sums)
    if nystrom is None:
        return backend.fetch(sums)
    out = np.zeros((n_components, sums.shape[1]))
    out[: nystrom.rank] = backend.fetch(_times(backend.place(nystrom.root, sums).T, sums))
    return out


@dataclass(frozen=True)
class DeviceGram(PSDOperator):
    """A Gram matrix on a device; only its lower triangle is read."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.matrix), len(self.matrix))

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(self.to_dense() @ V)

    def to_dense(self) -> Array:
        lower = np.tril(backend_of(self.matrix).fetch(self.matrix))
        return np.asarray(lower + np.tril(lower, -1).T)

    def on_device(self) -> Any:
        return self.matrix.clone()


@dataclass(frozen=True)
class DevicePreconditioner:
    """P⁻¹ = L⁻ᵀL⁻¹ from the inverse of a Cholesky factor on a device: two products, where two solves are slow."""

    inverse: Any

    def __call__(self, V: Array) -> Array:
        backend = backend_of(self.inverse)
        columns = backend.place(np.asarray(V, dtype=np.float64).reshape(len(V), -1), self.inverse)
        return backend.fetch(_times(self.inverse.T, _times(self.inverse, columns))).reshape(V.shape)


def sampled_preconditioner(
    source: Source, feature_map: FeatureMap, alpha: float, weight: float, key: Key, *, centred: bool
) -> DevicePreconditioner | None:
    """Falkon's preconditioner (Rudi et al. 2017) on the device of a source: G + alpha I of a sample, scaled up.

    None where the sums do not fit into the device's memory.
    """
    if not isinstance(source, DeviceSource):
        return None
    m = feature_map.n_components
    rows = source.sample(_SAMPLED_ROWS * m, key)
    fold = StatisticsFold(m, 0, np.asarray)
    sample = DeviceSource(ArraySource(rows.X, np.empty((len(rows), 0)), rows.weight), source.device)
    sums: DeviceStatistics | None = None
    try:
        # the sums, a copy to be factored and the factor
        if 3 * 8 * m**2 > 0.9 * source.torch.free_memory(source.device):
            return None
        for Z, block in sample.features(feature_map, sample._rows(feature_map, with_gram=True), 0):
            sums = DeviceStatistics(fold, Z) if sums is None else sums
            sums.update(Z, block)
    except (MemoryError, source.torch.OutOfMemory):
        return None
    if sums is None or sums.gram is None or sums.targets.weight <= 0.0:
        return None
    share = weight / sums.targets.weight
    gram: PSDOperator = DeviceGram(sums.gram.mul_(share))
    if centred:
        gram = Centred(gram, share * backend_of(sums.products).fetch(sums.products)[:, -1], weight)
    factor = Cholesky().factor(gram, alpha)
    assert isinstance(factor, DeviceCholeskyFactor)
    del gram, sums
    xp = backend_of(factor.L).xp
    unit = xp.eye(m, dtype=factor.L.dtype, device=factor.L.device)
    return DevicePreconditioner(xp.linalg.solve_triangular(factor.L, unit, upper=False))
