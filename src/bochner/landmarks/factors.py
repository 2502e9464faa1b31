"""A partial Cholesky factor of the kernel matrix that grows by chosen columns, in host memory or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg.lapack import dtrtri

from bochner.backends import Array, backend_of, n_threads
from bochner.backends.threads import each, one_thread
from bochner.landmarks.grams import Gram, check_residual, check_symmetric, dense

_PIECE_ROWS = 1024  # that one thread works on at a time


class PartialCholesky:
    """K ≈ FFᵀ, exact on the pivots' rows and columns; what is left of the diagonal is always known.

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

    def _empty(self, n_rows: int, n_columns: int) -> Any:
        return np.empty((n_rows, n_columns))

    @property
    def pivots(self) -> Array:
        return self._pivots[: self.rank]

    @property
    def triangle(self) -> Array:
        """The pivots' rows of F, (rank, rank), lower triangular."""
        return np.asarray(self.F[self.pivots, : self.rank])

    def squares(self, first: int) -> Array:
        """Squared norms of the columns from `first` on."""
        new = self.F[:, first : self.rank]
        return np.asarray(np.einsum("ij,ij->j", new, new))

    def schur(self, rows: Array) -> tuple[Array, Array]:
        """K[rows, rows], and what is left of it."""
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
        inverse, _ = dtrtri(L, lower=1)  # few columns: multiplying by it is six times as fast as solving
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

    def _settle(self, rows: Array, L: Any) -> None:
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
            keep, L = walk(H, self.floor)
            self.append(rows[keep], L, rows, K[:, keep])

    def truncate(self, rank: int) -> None:
        """Forget the columns after the first `rank`."""
        forgotten = self.F[:, rank : self.rank]
        self.residual += np.einsum("ij,ij->i", forgotten, forgotten)
        self.rank = rank


_DEVICE_BYTES = 1 << 30  # of new columns at a time


class DeviceCholesky(PartialCholesky):
    """The same of a Gram matrix whose rows are on a device (`gram.there`): F is a float64 tensor there.

    What is left of the diagonal is in host memory, where pivots are drawn from it: they are those of the host.
    """

    def _empty(self, n_rows: int, n_columns: int) -> Any:
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

    def extend(self, rows: Array) -> None:
        rows = rows[self.residual[rows] > 0.0]
        if not len(rows):
            return
        K, H = self.schur(rows)
        try:  # nearly always all of them can stay
            keep, L = np.arange(len(rows)), np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            keep, L = walk(H, self.floor)
        if (L.diagonal() ** 2 <= self.floor).any():
            keep, L = walk(H, self.floor)
        self.append(rows[keep], L, rows, K[:, keep])

    def truncate(self, rank: int) -> None:
        norms = backend_of(self.F).xp.linalg.vector_norm(self.F[:, rank : self.rank], dim=1)
        self.residual += np.square(backend_of(self.F).fetch(norms))
        self.rank = rank


def partial_cholesky(gram: Gram, n_columns: int) -> PartialCholesky:
    """An empty factor, on the device of the rows if they are on one."""
    return (PartialCholesky if gram.there is None else DeviceCholesky)(gram, n_columns)


def walk(H: Array, floor: float, thresholds: Array | None = None, limit: int | None = None) -> tuple[Array, Array]:
    """Cholesky of H in order, skipping i where what is left of H[i, i] is at most floor or thresholds[i].

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
