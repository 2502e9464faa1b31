"""Maps with few non-zeros: signs at random places, and rows picked from the data. O(nnz), never made dense."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from bochner.backends import Array, backend_of, n_threads
from bochner.operators.maps import LinearMap

_BLOCK = 1 << 20  # entries of a result that is dense on its way to sparse
_LARGE = 1 << 24  # products with the non-zeros of a map that are worth threads
_PANEL = 128  # rows of X turned at a time, so that a panel of the result stays in the cache


@dataclass(frozen=True)
class SparseRows(LinearMap):
    """diag(lengths) S, S having ±1 at a few places: column j of S at rows indices[indptr[j]:indptr[j+1]].

    `indptr` is (n_features + 1,), `indices` int32 and `signs` int8 (nnz,), `lengths` float64 (n_rows,).
    """

    indptr: Array
    indices: Array
    signs: Array
    lengths: Array
    accepts_sparse: ClassVar[bool] = True
    runs_on_device: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), len(self.indptr) - 1)

    def to_sparse(self, dtype: Any = np.float64) -> Any:
        """W itself as a CSC array."""
        values = self.signs * self.lengths[self.indices]
        return scipy.sparse.csc_array((values.astype(dtype), self.indices, self.indptr), shape=self.shape)

    def _signs(self, dtype: Any) -> Any:
        return scipy.sparse.csc_array((self.signs.astype(dtype), self.indices, self.indptr), shape=self.shape)

    def __call__(self, X: Any) -> Array:
        backend = backend_of(X)
        out = backend.empty((X.shape[0], self.shape[0]), X)
        X = X.tocsr() if scipy.sparse.issparse(X) else _rows(X)
        backend.sparse_rows(X, self.indptr, self.indices, self.signs, self.lengths, out)
        return out

    def sparse_product(self, X: Any) -> Any:
        """X Wᵀ of a sparse X, as a CSR array."""
        X = X.tocsr()
        n, n_rows = X.shape[0], self.shape[0]
        mean_sums = X.nnz * len(self.indices) / max(1, n * self.shape[1])  # terms a row of the result, on average
        if n_rows > 4 * mean_sums:
            return X @ self.to_sparse(X.dtype).T
        # most of the result is not zero: dense rows, block by block, are the faster way there
        backend, step = backend_of(np.empty(0)), max(1, _BLOCK // n_rows)
        block = np.empty((min(n, step), n_rows), X.dtype)
        stops = np.zeros(n + 1, np.int32 if n * n_rows <= np.iinfo(np.int32).max else np.int64)
        columns, values = np.empty(n * n_rows, np.int32), np.empty(n * n_rows, X.dtype)  # pages untouched cost nothing
        for start in range(0, n, step):
            rows = X[start : start + step]
            Z, ends = block[: rows.shape[0]], stops[start : start + rows.shape[0] + 1]
            backend.sparse_rows(rows, self.indptr, self.indices, self.signs, self.lengths, Z)
            np.cumsum(np.count_nonzero(Z, axis=1), out=ends[1:])
            ends[1:] += ends[0]
            backend.nonzeros(Z, ends, columns, values)
        return scipy.sparse.csr_array((values[: stops[-1]], columns[: stops[-1]], stops), shape=(n, n_rows))

    def __matmul__(self, A: Any) -> Array:
        if scipy.sparse.issparse(A):
            return _as_dense(self.to_sparse(A.dtype) @ A, A.dtype)
        S, n = self._signs(A.dtype), n_threads() if len(self.indices) * A[:1].size > _LARGE else 1
        if n == 1:
            out = np.asarray(S @ A)  # reads the rows of A once, in order
        else:  # a range of them to every thread, and a result of its own
            bounds = np.linspace(0, len(A), n + 1).astype(int)
            with ThreadPoolExecutor(n) as pool:
                first, *others = pool.map(lambda a, b: np.asarray(S[:, a:b] @ A[a:b]), bounds[:-1], bounds[1:])
            out = sum(others, start=first)
        out *= self.lengths.astype(A.dtype)[:, None]
        return out

    def adjoint(self, A: Any) -> Array:
        if scipy.sparse.issparse(A):
            return _as_dense(A @ self.to_sparse(A.dtype), A.dtype)
        S = self._signs(A.dtype).T
        scaled = A * self.lengths.astype(A.dtype)
        out = np.empty((len(A), self.shape[1]), A.dtype)
        for start in range(0, len(A), _PANEL):
            out[start : start + _PANEL] = (S @ scaled[start : start + _PANEL].T).T
        return out

    def to_dense(self) -> Array:
        W = np.zeros(self.shape)
        for column in range(self.shape[1]):
            places = slice(self.indptr[column], self.indptr[column + 1])
            W[self.indices[places], column] = self.signs[places]
        return W * self.lengths[:, None]

    def scale_rows(self, factors: Array) -> SparseRows:
        return replace(self, lengths=self.lengths * factors)


@dataclass(frozen=True)
class PickedRows(LinearMap):
    """diag(lengths) P: row i of the map is the basis vector e_(picks[i]), times lengths[i]."""

    n_features: int
    picks: Array
    lengths: Array
    accepts_sparse: ClassVar[bool] = True
    runs_on_device: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.picks), self.n_features)

    def to_sparse(self, dtype: Any = np.float64) -> Any:
        """W itself as a CSR array."""
        indptr = np.arange(len(self.picks) + 1)
        return scipy.sparse.csr_array((self.lengths.astype(dtype), self.picks, indptr), shape=self.shape)

    def sparse_product(self, X: Any) -> Any:
        """X Wᵀ of a sparse X, as a CSR array."""
        return X @ self.to_sparse(X.dtype).T

    def __call__(self, X: Any) -> Array:
        if scipy.sparse.issparse(X):
            return _as_dense(X @ self.to_sparse(X.dtype).T, X.dtype)
        backend = backend_of(X)
        # NumPy's take goes row by row in memory, where X[:, picks] goes column by column
        picks = backend.place(self.picks, X)
        out = np.take(X, picks, axis=1) if isinstance(X, np.ndarray) else X[:, picks]
        out *= backend.place(self.lengths, X)
        return out

    def __matmul__(self, A: Any) -> Array:
        if scipy.sparse.issparse(A):
            return _as_dense(self.to_sparse(A.dtype) @ A, A.dtype)
        out = A[self.picks]
        out *= self.lengths.astype(A.dtype)[:, None]
        return out

    def adjoint(self, A: Any) -> Array:
        return _as_dense(A @ self.to_sparse(A.dtype), A.dtype)

    def to_dense(self) -> Array:
        W = np.zeros(self.shape)
        W[np.arange(len(self.picks)), self.picks] = self.lengths
        return W

    def scale_rows(self, factors: Array) -> PickedRows:
        return replace(self, lengths=self.lengths * factors)


def _rows(X: Array) -> Array:
    """X with its rows one after the other in memory, as backends want them."""
    if not isinstance(X, np.ndarray) or X.size == 0 or X.shape[1] == 1 or X.strides[1] == X.itemsize:
        return X
    return np.ascontiguousarray(X)


def _as_dense(product: Any, dtype: Any) -> Array:
    return np.asarray(product.toarray() if scipy.sparse.issparse(product) else product, dtype)
