"""The kernel matrix, read by blocks and never held, and its partial Cholesky factor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg
from scipy.linalg.lapack import dtrtri

from bochner.backends import Array, Rows, backend_of, densified, n_threads
from bochner.backends.threads import each, one_thread
from bochner.kernels.algebra import Kernel

Index: TypeAlias = slice | Array

_BLOCK_BYTES = 1 << 23  # bytes of kernel entries held at a time
FLOAT32_FLOOR = 4e-6  # pivots below which kernel values of float32 are rounding errors
FLOAT32_PIVOTS = 4e-4  # float32 pivots above which features have errors of about 1e-5


@dataclass(frozen=True)
class Gram:
    """K(X, X) of a kernel and rows, or (kernel None) X itself, a matrix the user has computed.

    Attributes
    ----------
    X : ndarray or CSR matrix
    kernel : Kernel or None
        None: `X` is the kernel matrix itself.
    there : tensor or None
        The rows of X on a device, where partial factors are then computed; for kernels that take tensors.
    fine : bool
        Whether float32 rows are treated as if they were float64: the same landmarks, the same span.
    """

    X: Rows
    kernel: Kernel | None
    there: Any = None
    fine: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def rows(self) -> Rows:
        """Return X in the precision that landmarks are computed in."""
        return self.X.astype(np.float64, copy=False) if self.fine else self.X

    @property
    def floor(self) -> float:
        """Return the fraction of the largest diagonal entry that counts as zero in the precision of the data.

        A column of pivot p has relative error eps(float64) / p from the factorisation, and absolute error
        eps(dtype) / sqrt(p) from the kernel values it is made of; both are small beside one above these floors.
        """
        return 1e-11 if self.fine or self.X.dtype == np.float64 else FLOAT32_FLOOR

    def points(self, rows: Array) -> Rows:
        """Return what a `Nystrom` map stores for these rows: the rows, or their indices if K was given."""
        return np.asarray(rows) if self.kernel is None else self.X[rows]

    def block(self, rows: Index, columns: Index) -> Array:
        """Return K[rows, columns] in float64; rows and columns are slices or index arrays."""
        if self.kernel is None:
            if not isinstance(rows, slice) and not isinstance(columns, slice):
                rows = np.asarray(rows)[:, None]  # never a copy of whole rows
            elif isinstance(columns, slice):
                return dense(self.X[rows][:, columns])
            return dense(self.X[rows, columns])
        return self.against(rows, self.X[columns])

    def against(self, rows: Index, points: Rows) -> Array:
        """Return k(X[rows], points) in float64; the points need not be rows."""
        if self.kernel is None:
            return self.block(rows, points)
        X, Y = self.X[rows], points
        return dense(self.kernel(X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)))

    def points_there(self, rows: Array) -> Array:
        """Return some rows on the device, in float64."""
        return self.there[rows].double()

    def on_device(self, rows: Index, points: Array) -> Any:
        """Return k(X[rows], points) as a float64 tensor on the device, for float64 points there."""
        assert self.kernel is not None
        return self.kernel(self.there[rows].double(), points)

    def among(self, points: Rows) -> Array:
        """Return k(points, points) in float64."""
        if self.kernel is None:
            return self.block(points, points)
        return dense(self.kernel(points.astype(np.float64, copy=False)))

    def diagonal(self) -> Array:
        """Return K[i, i] for every row, (n,), checked to be finite and not negative."""
        return self._diagonal.copy()

    @cached_property
    def _diagonal(self) -> Array:
        if self.kernel is None:
            diagonal = np.array(self.X.diagonal(), dtype=np.float64)
        else:
            parts = [self.kernel.diagonal(self.X[r].astype(np.float64, copy=False)) for r in self.row_blocks(1)]
            diagonal = np.concatenate(parts).astype(np.float64, copy=False)
        if not np.isfinite(diagonal).all():
            raise ValueError(f"the kernel is not finite: k(x, x) = {diagonal[~np.isfinite(diagonal)][0]}.")
        if diagonal.min() < 0.0:
            raise_indefinite(f"k(x, x) = {diagonal.min():.3g} for row {diagonal.argmin()}")
        return diagonal

    def row_blocks(self, width: int) -> Iterator[slice]:
        """Yield slices of rows in which `width` float64 entries a row, and the features, stay small."""
        n, d = self.X.shape
        return row_slices(n, width if self.kernel is None else max(width, d))


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Yield slices of n rows with about eight megabytes in each, at `width` float64 entries a row."""
    step = max(1, _BLOCK_BYTES // (8 * max(1, width)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def dense(block: Array) -> Array:
    """Convert a block of kernel values to a finite float64 array."""
    block = np.asarray(densified(block), dtype=np.float64)
    if not np.isfinite(block.sum()):  # one pass, no array of flags
        raise ValueError("the kernel is not finite on these rows; check its parameters and the scale of the data.")
    return block


def raise_indefinite(evidence: str) -> None:
    """Raise an error that says why this is not a kernel, and what to do."""
    raise ValueError(
        f"the kernel is not positive semi-definite: {evidence}. Use a positive definite kernel; if the matrix was "
        "precomputed, make it one first, for example by clipping its negative eigenvalues to zero."
    )


def check_residual(residual: Array, scale: float, floor: float) -> None:
    """Check that the diagonal of the residual is not negative, as it is for every positive semi-definite kernel."""
    lowest = residual.min(initial=0.0)
    if not lowest >= -np.sqrt(floor) * scale:  # written so that NaN fails too
        if not np.isfinite(lowest):
            raise ValueError("the kernel is not finite on these rows; check its parameters and the scale of the data.")
        raise_indefinite(f"projecting on landmarks leaves {lowest:.3g} of a diagonal entry (largest {scale:.3g})")


def check_symmetric(block: Array, floor: float) -> None:
    """Check that a square block K[S, S] equals its transpose."""
    gap = np.abs(block - block.T)
    if gap.size and gap.max() > np.sqrt(floor) * max(np.abs(block).max(), np.finfo(float).tiny):
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ValueError(
            f"the kernel is not symmetric: k(x, y) = {block[i, j]:.6g} but k(y, x) = {block[j, i]:.6g}. Use a "
            "symmetric kernel, or (K + K.T) / 2 for a precomputed matrix."
        )


def cholesky(A: Array) -> Array:
    """Return the lower Cholesky factor, or raise an error that names the remedy."""
    try:
        return np.asarray(scipy.linalg.cholesky(A, lower=True))
    except (np.linalg.LinAlgError, ValueError) as error:
        raise_indefinite(f"a block of it has no Cholesky factor ({error})")
        raise AssertionError from error


_PIECE_ROWS = 1024  # rows that one thread works on at a time


class PartialCholesky:
    """K ≈ FFᵀ, exact on the pivots' rows and columns; the diagonal of the residual is always known.

    Attributes
    ----------
    F : ndarray of shape (n, n_columns)
        The first `rank` columns are filled.
    residual : ndarray of shape (n,)
        diag(K - FFᵀ); its sum is the exact trace error.
    pivots : ndarray of shape (rank,)
    """

    def __init__(self, gram: Gram, n_columns: int) -> None:
        self.gram = gram
        self.residual = gram.diagonal()
        self.trace = float(self.residual.sum())
        self.scale = float(self.residual.max())
        self.floor = gram.floor * self.scale
        self.residual[self.residual <= self.floor] = 0.0
        self.F = self._empty(len(gram), n_columns)
        self._pivots = np.empty(n_columns, dtype=np.intp)
        self.rank = 0

    def _empty(self, n_rows: int, n_columns: int) -> Array:
        return np.empty((n_rows, n_columns))

    @property
    def pivots(self) -> Array:
        return self._pivots[: self.rank]

    @property
    def triangle(self) -> Array:
        """Return the pivots' rows of F, (rank, rank), lower triangular."""
        return np.asarray(self.F[self.pivots, : self.rank])

    def squares(self, first: int) -> Array:
        """Return the squared norms of the columns from `first` on."""
        new = self.F[:, first : self.rank]
        return np.asarray(np.einsum("ij,ij->j", new, new))

    def schur(self, rows: Array) -> tuple[Array, Array]:
        """Return K[rows, rows] and its residual."""
        K = self.gram.block(rows, rows)
        check_symmetric(K, self.gram.floor)
        F = self.F[rows, : self.rank]
        return K, K - F @ F.T

    def append(self, rows: Array, L: Array, known: Array, K: Array) -> None:
        """Append pivots `rows`, whose residual block is LLᵀ.

        K holds K[known, rows]; everything else is evaluated once, and not at all for older pivots, whose residual is
        zero.
        """
        n, j, a = len(self.residual), self.rank, len(rows)
        new = slice(j, j + a)
        unknown = np.ones(n, dtype=bool)
        unknown[self.pivots] = unknown[known] = False
        F_rows = self.F[rows, :j].copy()
        inverse, _ = dtrtri(L, lower=1)  # few columns: multiplying by the inverse is six times as fast as solving
        for block in self.gram.row_blocks(a):
            columns = np.zeros((block.stop - block.start, a))
            ask = np.flatnonzero(unknown[block])
            if len(ask):
                columns[ask] = self.gram.block(ask + block.start, rows)
            here = (known >= block.start) & (known < block.stop)
            columns[known[here] - block.start] = K[here]

            def reduce(piece: slice, block: slice = block, columns: Array = columns) -> None:
                there = slice(block.start + piece.start, min(block.start + piece.stop, block.stop))
                reduced = (columns[piece] - self.F[there, :j] @ F_rows.T) @ inverse.T
                self.residual[there] -= np.einsum("ij,ij->i", reduced, reduced)
                self.F[there, new] = reduced

            with one_thread():
                each(reduce, [slice(i, i + _PIECE_ROWS) for i in range(0, len(columns), _PIECE_ROWS)], n_threads())
        self._settle(rows, L)

    def _settle(self, rows: Array, L: Array) -> None:
        """Write what is known of the pivots exactly, and count them."""
        new = slice(self.rank, self.rank + len(rows))
        self.F[self.pivots, new] = 0.0
        self.F[rows, new] = L
        self._pivots[new] = rows
        self.rank = new.stop
        self.residual[self.pivots] = 0.0
        check_residual(self.residual, self.scale, self.gram.floor)
        self.residual[self.residual <= self.floor] = 0.0

    def extend(self, rows: Array) -> None:
        """Append those of `rows` that are not yet spanned, in this order."""
        rows = rows[self.residual[rows] > 0.0]
        if len(rows):
            K, H = self.schur(rows)
            keep, L = self._kept(H)
            if len(keep):
                self.append(rows[keep], L, rows, K[:, keep])
            self.residual[rows] = 0.0  # the residual of those not kept is only rounding

    def _kept(self, H: Array) -> tuple[Array, Array]:
        """Choose the rows of a residual block that can be pivots in turn, and return their lower factor."""
        return walk(H, self.floor)

    def truncate(self, rank: int) -> None:
        """Drop the columns after the first `rank`."""
        forgotten = self.F[:, rank : self.rank]
        self.residual += np.einsum("ij,ij->i", forgotten, forgotten)
        self.rank = rank


_DEVICE_BYTES = 1 << 30  # bytes of new columns at a time


class DeviceCholesky(PartialCholesky):
    """The same for a Gram matrix whose rows are on a device (`gram.there`): F is a float64 tensor there.

    The diagonal of the residual is in host memory, so that the pivots drawn from it are those of the host.
    """

    def _empty(self, n_rows: int, n_columns: int) -> Array:
        there = self.gram.there
        return backend_of(there).xp.empty((n_rows, n_columns), dtype=backend_of(there).xp.float64, device=there.device)

    @property
    def triangle(self) -> Array:
        return backend_of(self.F).fetch(self.F[self.pivots, : self.rank])

    def squares(self, first: int) -> Array:
        norms = backend_of(self.F).xp.linalg.vector_norm(self.F[:, first : self.rank], dim=0)
        return np.square(backend_of(self.F).fetch(norms))

    def schur(self, rows: Array) -> tuple[Array, Array]:
        fetch = backend_of(self.F).fetch
        K = self.gram.on_device(rows, self.gram.points_there(rows))
        F = self.F[rows, : self.rank]
        here = dense(fetch(K))
        check_symmetric(here, self.gram.floor)
        return here, fetch(K - F @ F.T)

    def append(self, rows: Array, L: Array, known: Array, K: Array) -> None:
        backend, j, a = backend_of(self.F), self.rank, len(rows)
        factor, points = backend.place(L, self.F), self.gram.points_there(rows)
        F_rows = self.F[rows, :j]
        step = max(1, _DEVICE_BYTES // (8 * a))
        for start in range(0, len(self.residual), step):
            block = slice(start, start + step)
            columns = self.gram.on_device(block, points)
            columns.addmm_(self.F[block, :j], F_rows.T, alpha=-1.0)
            columns = backend.xp.linalg.solve_triangular(factor.T, columns, upper=True, left=False)
            self.residual[block] -= backend.fetch(backend.xp.linalg.vector_norm(columns, dim=1).square())
            self.F[block, j : j + a] = columns
        self._settle(rows, factor)

    def _kept(self, H: Array) -> tuple[Array, Array]:
        try:  # nearly always all of them
            L = np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            return walk(H, self.floor)
        return walk(H, self.floor) if (L.diagonal() ** 2 <= self.floor).any() else (np.arange(len(H)), L)

    def truncate(self, rank: int) -> None:
        norms = backend_of(self.F).xp.linalg.vector_norm(self.F[:, rank : self.rank], dim=1)
        self.residual += np.square(backend_of(self.F).fetch(norms))
        self.rank = rank


def partial_cholesky(gram: Gram, n_columns: int) -> PartialCholesky:
    """Create an empty factor, on the device if the rows are on one."""
    return (PartialCholesky if gram.there is None else DeviceCholesky)(gram, n_columns)


def walk(H: Array, floor: float, thresholds: Array | None = None, limit: int | None = None) -> tuple[Array, Array]:
    """Factor H in order, skipping row i if its residual is at most floor or thresholds[i].

    Returns the positions kept and their lower factor.
    """
    b = len(H)
    floors = np.full(b, floor) if thresholds is None else np.maximum(thresholds, floor)
    H, C = H.copy(), np.zeros((b, b))
    keep: list[int] = []
    for i in range(b):
        if H[i, i] > floors[i]:
            column = H[i:, i] / np.sqrt(H[i, i])
            H[i:, i:] -= np.outer(column, column)
            C[i:, len(keep)] = column
            keep.append(i)
            if len(keep) == limit:
                break
    kept = np.array(keep, dtype=np.intp)
    return kept, C[kept, : len(kept)]
