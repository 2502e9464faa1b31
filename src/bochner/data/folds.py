"""Passes over a source: the fold into statistics, products with the Gram matrix, leave-one-out errors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from bochner.backends import Array, DType, backend_of, times_columns
from bochner.backends.threads import one_thread
from bochner.data.checkpoints import Checkpoint, RowDigest
from bochner.data.progress import Progress
from bochner.data.sources import Block, Source, default_rows, limit_weights
from bochner.data.targets import NO_GAIN
from bochner.draws.linear_maps import PSDOperator
from bochner.features.maps import FeatureMap, Identity
from bochner.features.nystrom import KernelColumns, Nystrom
from bochner.kernels.algebra import Kernel
from bochner.ridge.spectrum import RidgeSpectrum
from bochner.ridge.statistics import RidgeStatistics, transforms_well

Targets = Callable[[Any], Array]  # maps y as it was given to (n, k) float64
_MANY_LANDMARKS = 512  # number of landmarks from which whitening rows takes longer than whitening their sums
_FEW_COLUMNS = 4  # number of columns up to which a device computes kernel values twice instead of storing them


class Fold(ABC):
    """A sum over blocks of rows. Totals of different blocks can be merged."""

    runs_on_device: ClassVar[bool] = False  # True if `add` accepts features on any device
    plain: ClassVar[bool] = False  # True if `add` needs no features: Z is None, whatever the map
    with_gram: bool = False  # True if m × m numbers are added up on the device of the features

    @abstractmethod
    def zero(self) -> Any:
        """Return the total of no rows."""

    @abstractmethod
    def add(self, total: Any, Z: Array, block: Block, row: int) -> Any:
        """Return the total with a block added whose first row has number `row`; total and Z may be overwritten.

        If the features are on a device, the sums may be on that device too.
        """

    def merge(self, total: Any, other: Any) -> Any:
        """Return the total with another one added; `total` may be overwritten."""
        return [a + b for a, b in zip(total, other, strict=True)]

    def to_host(self, total: Any) -> Any:
        """Return the total in host memory, so that it can be sent to other processes."""
        return total


@dataclass(frozen=True)
class StatisticsFold(Fold):
    """Statistics of features and targets, with a digest of the rows if a checkpoint needs it."""

    n_components: int
    n_targets: int
    targets: Targets
    with_gram: bool = True
    precision: str = "full"
    penalty: float | None = None
    digested: bool = False

    runs_on_device: ClassVar[bool] = True

    def zero(self) -> RidgeStatistics:
        m, k, precision, penalty = self.n_components, self.n_targets, self.precision, self.penalty
        made = RidgeStatistics(m, k, with_gram=self.with_gram, precision=precision, penalty=penalty)
        made.digest = RowDigest() if self.digested else None
        return made

    def target_rows(self, block: Block) -> Array:
        """Return the targets of a block, (n, k)."""
        return self.targets(block.y) if self.n_targets else np.empty((len(block), 0))

    def add(self, total: RidgeStatistics, Z: Array, block: Block, row: int) -> RidgeStatistics:
        Y = self.target_rows(block)
        with one_thread():  # large products are divided among bochner's threads, which BLAS's threads would slow down
            total.update(Z, Y, block.weight, overwrite=True)
        if total.digest is not None:
            total.digest.update(block.X, Y, block.weight)
        return total

    def merge(self, total: RidgeStatistics, other: RidgeStatistics) -> RidgeStatistics:
        return total.merge(other)

    def to_host(self, total: RidgeStatistics) -> RidgeStatistics:
        return total.to_host()


@dataclass(frozen=True)
class DigestFold(Fold):
    """Only the digest of the rows, in pieces that end before the rows given by `ends`."""

    statistics: StatisticsFold
    ends: tuple[int, ...]
    plain: ClassVar[bool] = True

    @property
    def with_gram(self) -> bool:  # type: ignore[override]
        return self.statistics.with_gram

    def zero(self) -> RowDigest:
        return RowDigest()

    def add(self, total: RowDigest, Z: Array, block: Block, row: int) -> RowDigest:
        last = row + len(block)
        inside = self.ends[bisect_right(self.ends, row) : bisect_right(self.ends, last)]
        for start, end in pairwise((row, *inside, last)):
            part = block[start - row : end - row]
            if len(part):
                total.update(part.X, self.statistics.target_rows(part), part.weight)
            if end in inside:
                total.close()
        return total

    def merge(self, total: RowDigest, other: RowDigest) -> RowDigest:
        return total.merge(other)


def resumed(
    source: Source, feature_map: FeatureMap, targets: Targets, checkpoint: Checkpoint, *, verbose: int = 0
) -> RidgeStatistics | None:
    """Read the statistics of a checkpoint and check that the source begins with their rows; None if there are none.

    The rows are read, but their features are not computed.
    """
    statistics = checkpoint.load()
    if statistics is None:
        return None
    seen = statistics.digest
    sums = StatisticsFold(statistics.n_components, statistics.n_targets, targets, with_gram=statistics.with_gram)
    fold = DigestFold(sums, tuple(seen.ends))
    progress = Progress(seen.rows, "check", verbose > 0)
    # no features are computed, but a source that adds up rows in a tree chooses its shape as for the sums
    found = source.fold(fold, feature_map, stop=seen.rows, after=lambda _, row: progress.reach(row))
    progress.close()
    checkpoint.prove(seen, found)
    return statistics


def accumulate(
    source: Source,
    feature_map: FeatureMap,
    statistics: RidgeStatistics,
    targets: Targets,
    *,
    rows: int | None = None,
    checkpoint: Checkpoint | None = None,
    verbose: int = 0,
    label: str = "fit",
) -> RidgeStatistics:
    """Fold a source into statistics. They are complete after every block, even if the pass is interrupted.

    With a checkpoint, statistics that have a digest of the rows they contain continue with the row after those.
    """
    if checkpoint is not None and statistics.digest is None:
        statistics.digest = RowDigest()
    start = 0 if checkpoint is None else statistics.digest.rows
    progress = Progress(source.n_samples, label, verbose > 0, first=start)
    done, counted = start, statistics.n_samples

    def after(total: RidgeStatistics, row: int) -> None:
        nonlocal done, counted
        progress.advance(row - done)
        done, counted = row, total.n_samples
        if checkpoint is not None:
            checkpoint.maybe_save(total)

    fold = StatisticsFold(
        statistics.n_components,
        statistics.n_targets,
        targets,
        with_gram=statistics.with_gram,
        precision=statistics.precision,
        penalty=statistics.penalty,
        digested=checkpoint is not None,
    )
    try:
        source.fold(fold, feature_map, statistics, rows=rows, start=start, after=after)
    except BaseException:
        statistics.to_host()
        # if an update failed, only some of the sums contain its block
        if checkpoint is not None and done > start and statistics.n_samples == counted:
            checkpoint.save(statistics)
        raise
    finally:
        progress.close()
    return statistics


def accumulate_deflated(
    source: Source,
    feature_map: FeatureMap,
    statistics: RidgeStatistics,
    targets: Targets,
    *,
    rows: int | None = None,
    verbose: int = 0,
    label: str = "fit",
) -> RidgeStatistics:
    """Do the same as `accumulate` for a source in host memory, in half the time for many landmarks and rows.

    The sums are whitened at the end instead of each row: see `Nystrom.deflated`.
    """
    options: dict[str, Any] = {"rows": rows, "verbose": verbose, "label": label}
    found = None
    if isinstance(feature_map, Nystrom):
        found = _deflated(feature_map, statistics, source.n_samples or 0)
    if found is None:
        return accumulate(source, feature_map, statistics, targets, **options)
    cheaper, A = found
    sums = RidgeStatistics(feature_map.n_components, statistics.n_targets, penalty=statistics.penalty)
    try:
        accumulate(source, cheaper, sums, targets, **options)
    finally:  # the sums of an interrupted pass are consistent
        if sums.n_samples:
            statistics.merge(sums.transformed(A))
    return statistics


def _deflated(nystrom: Nystrom, statistics: RidgeStatistics, n_samples: int) -> tuple[FeatureMap, Array] | None:
    """Return `Nystrom.deflated` if it saves time for this many rows and the sums stay precise, else None."""
    m = nystrom.n_components
    if m < _MANY_LANDMARKS or n_samples < 2 * m:
        return None
    complete = nystrom.rank == m and nystrom.kernel is not None and nystrom.triangular
    if not complete or statistics.squares is None or nystrom.root.dtype != np.float64:
        return None
    cheaper, A = nystrom.deflated()
    C = cheaper(nystrom.landmarks)  # as a sample of the rows
    precise = transforms_well(np.einsum("ij,ij->j", C, C) / len(C), A, statistics.penalty)
    return (cheaper, A) if precise else None


@dataclass(frozen=True)
class ProductFold(Fold):
    """Σ w z zᵀV, (m, k), on the device of the features; V (m, k) is float64, in host memory or on that device."""

    columns: Array

    runs_on_device: ClassVar[bool] = True

    def zero(self) -> Array:
        xp = backend_of(self.columns).xp
        return xp.zeros(self.columns.shape, dtype=xp.float64, device=self.columns.device)

    def add(self, total: Array, Z: Array, block: Block, row: int) -> Array:
        backend = backend_of(Z)
        wide = backend.xp.zeros(0, dtype=backend.xp.float64, device=Z.device)
        weights = None if block.weight is None else backend.place(block.weight, wide)
        total = backend.place(total, wide)
        self._add_product(Z, backend.place(self.columns, wide), weights, total)
        return total

    def _add_product(self, Z: Array, V: Array, weights: Array | None, out: Array) -> None:
        """Add ZᵀWZV to `out`; see `Backend.gram_product`."""
        backend_of(Z).gram_product(Z, V, weights, out)

    def merge(self, total: Array, other: Array) -> Array:
        return total + other

    def to_host(self, total: Array) -> Array:
        return backend_of(total).fetch(total)


@dataclass(frozen=True)
class TiledProductFold(ProductFold):
    """Σ w c cᵀV for kernel values c = k(landmarks, x) that are never stored; Z contains the rows themselves."""

    kernel: Kernel
    landmarks: Array

    def _add_product(self, Z: Array, V: Array, weights: Array | None, out: Array) -> None:
        points = backend_of(Z).place(self.landmarks, Z)
        product = self.kernel.product(Z, points, V)
        if weights is not None:
            product *= weights[:, None]
        out += self.kernel.product(points, Z, product)


@dataclass(frozen=True)
class StreamedGram(PSDOperator):
    """Σ w zzᵀ as an operator that recomputes the features for each product, block by block, without an m × m matrix."""

    source: Source
    feature_map: FeatureMap
    rows: int | None = None
    verbose: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return (self.feature_map.n_components, self.feature_map.n_components)

    @property
    def precision(self) -> DType:
        return np.dtype(self.source.dtype)

    def __matmul__(self, V: Array) -> Array:
        # products with a transposed array add in another order, and workers may or may not receive it transposed
        columns = self.source.place(np.ascontiguousarray(V, dtype=np.float64).reshape(len(V), -1))
        backend = backend_of(columns)
        if not isinstance(self.feature_map, Nystrom):
            return backend.fetch(self._product(ProductFold(columns), self.feature_map)).reshape(V.shape)
        # rootᵀ CᵀC root V: the root is multiplied with the few columns of V, not with the many rows
        root, rank = backend.place(self.feature_map.root, columns), self.feature_map.rank
        total = self._product(*self._fold_of_kernel(self.feature_map, times_columns(root, columns[:rank])))
        out = np.zeros((len(V), columns.shape[1]))
        out[:rank] = backend.fetch(times_columns(root.T, total))
        return out.reshape(V.shape)

    def _fold_of_kernel(self, nystrom: Nystrom, columns: Array) -> tuple[ProductFold, FeatureMap]:
        """Return a fold over kernel values: stored or, if a device can and columns are few, computed twice."""
        few = nystrom.runs_on_device and columns.shape[1] <= _FEW_COLUMNS
        if few and nystrom.kernel is not None and nystrom.root.dtype == self.source.dtype:
            row = self.source.place(np.zeros((1, self.source.n_features), self.source.dtype))
            if backend_of(row).tiles is not None and nystrom.kernel.tile(row, row) is not None:
                rows = Identity(self.source.n_features)
                return TiledProductFold(columns, nystrom.kernel, nystrom.landmarks), rows
        return ProductFold(columns), KernelColumns(nystrom)

    def _product(self, fold: ProductFold, feature_map: FeatureMap) -> Array:
        """Run a fold in one pass."""
        progress = Progress(self.source.n_samples, "product", self.verbose > 0)
        total = self.source.fold(fold, feature_map, rows=self.rows, after=lambda _, row: progress.reach(row))
        progress.close()
        return total

    def row_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        rows = self.rows or default_rows(self.feature_map.n_components, np.float64)
        for block in self.source.scattered(rows):
            yield self.feature_map(block.X), block.weight

    def to_dense(self) -> Array:
        statistics = RidgeStatistics(self.shape[0], 0)
        accumulate(self.source, self.feature_map, statistics, np.asarray, rows=self.rows)
        return statistics.operator(False).to_dense()


def leave_one_out_errors(
    block: Block,
    feature_map: Callable[[Array], Array],
    statistics: RidgeStatistics,
    targets: Targets,
    spectrum: RidgeSpectrum,
    alphas: Array,
    *,
    fit_intercept: bool = True,
    margins: bool = False,
) -> Array:
    """Return exact leave-one-out mean squared errors (a, k) of rows that are part of the sums, for penalties (a,).

    A row is left out with all its weight.

    A sample of the rows gives an unbiased estimate of the mean over all. GCV replaces the leverage of each row by the
    mean leverage, which ignores that rows far from the others have more; these errors are exact for every row.

    A penalty is better by chance if that depends on a single row, such as the only large target. Errors that are larger
    than the smallest one because of one row, or by less than a millionth, are therefore replaced by the smallest one,
    and the largest of these penalties can be chosen.

    With `margins` the targets are signs, -1 and 1. If they have several columns, one for each label, errors are squared
    hinge losses of margins, (a, 1); see `margin_errors`. Errors within one standard error of the smallest one are then
    replaced by the smallest one.
    """
    alphas = np.asarray(alphas, dtype=float)
    total, shares, weighted = np.zeros((len(alphas), 1)), limit_weights(block.weights), []
    if margins and (np.abs(np.abs(targets(block.y)) - 1.0) > 1e-9).any():  # weights may have changed the last digits
        raise ValueError("alpha='margin' is for targets that are signs, -1 and 1; use alpha='loo' for others.")
    margins = margins and statistics.n_targets > 1
    units = np.ones(1) if margins else np.maximum(spectrum.target_variance, np.finfo(float).tiny)
    rows = default_rows(statistics.n_components, np.float64)
    for start in range(0, len(block), rows):
        part = block[start : start + rows]
        w, Y = shares[start : start + rows], targets(part.y)
        residual = statistics.left_out_residuals(feature_map(part.X), Y, alphas, spectrum, fit_intercept, part.weights)
        errors = margin_errors(Y, residual) if margins else residual * residual
        total = total + np.einsum("i,iak->ak", w, errors)
        weighted.append(w[:, None] * (errors @ (1.0 / units)))
    mean, of_rows = np.asarray(total / shares.sum()), np.concatenate(weighted)
    best = int(of_rows.sum(axis=0).argmin())
    difference = of_rows - of_rows[:, [best]]
    slack = np.sqrt((difference * difference).sum(axis=0)) if margins else difference.max(axis=0)
    alike = difference.sum(axis=0) <= slack + NO_GAIN * of_rows[:, best].sum()
    return np.where(alike[:, None], mean[best], mean)


def margin_errors(signs: Array, residual: Array) -> Array:
    """Return squared hinge losses of margins, (n, a, 1), from signs (n, k) and residuals (n, a, k) of their scores.

    The margins of a row are half the differences between the score of the right label and those of the others, and
    their losses are averaged. The smallest margin alone would prefer a constant if no label is likelier than 1/2.
    """
    right = signs[:, None, :] > 0
    scores = signs[:, None, :] - residual
    own = np.where(right, scores, -np.inf).max(axis=-1, keepdims=True)
    losses = np.where(right, 0.0, np.maximum(1.0 - 0.5 * (own - scores), 0.0) ** 2)
    return np.asarray(losses.sum(axis=-1, keepdims=True) / (signs.shape[1] - 1))
