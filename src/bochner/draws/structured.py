"""Maps that are faster than a matrix: Walsh-Hadamard, Fourier and cosine transforms, and maps with few non-zeros.

Walsh-Hadamard transforms are zero-padded to p = 2^q, Fourier and cosine transforms are not. Sparse maps are signs at
random places, and rows picked from the data: O(nnz), never made dense.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse
from numpy.typing import DTypeLike

from bochner.backends import Array, backend_of, is_sparse, n_threads
from bochner.backends.reference import fwht
from bochner.backends.threads import each
from bochner.draws.linear_maps import LinearMap


@dataclass(frozen=True)
class HadamardBlocks(LinearMap):
    """Blocks diag(lengths) p^(-3/2) H D₀ H D₁ H D₂: orthogonal rows of the given lengths, zero-padded to p = 2^q.

    `signs` is (blocks, 3, p) int8; `lengths` is (n_rows,) float32 and may end inside the last block.
    """

    n_features: int
    signs: Array
    lengths: Array
    runs_on_device: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.n_features)

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        out = backend.empty((len(X), len(self.lengths)), X)
        backend.structured_phases(X, self.signs, self.lengths, out)
        return out

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        backend_of(X).structured_pairs(X, self.signs, self.lengths, scale, tail, out)

    def adjoint(self, A: Array) -> Array:
        p = self.signs.shape[2]
        out = np.zeros((len(A), p), A.dtype)
        for block, V in enumerate(_blocks(A * self.lengths.astype(A.dtype), p)):
            for flip in self.signs[block]:
                fwht(V)
                V *= flip
            out += V
        return out[:, : self.n_features] * A.dtype.type(p**-1.5)

    def to_dense(self) -> Array:
        p = self.signs.shape[2]
        H = scipy.linalg.hadamard(p)
        blocks = [H @ np.diag(a) @ H @ np.diag(b) @ H @ np.diag(c) for a, b, c in self.signs.astype(float)]
        W = np.vstack(blocks)[: len(self.lengths), : self.n_features]
        return np.asarray(W * (self.lengths.astype(float)[:, None] * p**-1.5))


@dataclass(frozen=True)
class FastfoodBlocks(LinearMap):
    """Blocks diag(lengths) H diag(gains) Π H diag(signs), zero-padded to p = 2^q (Le, Sarlós & Smola 2013).

    `signs`, `permutations` and `gains` are (blocks, p); `lengths` is (n_rows,) and holds every scale.
    """

    n_features: int
    signs: Array
    permutations: Array
    gains: Array
    lengths: Array
    runs_on_device: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.n_features)

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        out = backend.empty((len(X), len(self.lengths)), X)
        backend.fastfood_phases(X, self.signs, self.permutations, self.gains, self.lengths, out)
        return out

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        backend = backend_of(X)
        backend.fastfood_pairs(X, self.signs, self.permutations, self.gains, self.lengths, scale, tail, out)

    def adjoint(self, A: Array) -> Array:
        p = self.signs.shape[1]
        out = np.zeros((len(A), p), A.dtype)
        for block, V in enumerate(_blocks(A * self.lengths.astype(A.dtype), p)):
            fwht(V)
            U = np.empty_like(V)
            U[:, self.permutations[block]] = V * self.gains[block].astype(A.dtype)
            fwht(U)
            out += U * self.signs[block]
        return out[:, : self.n_features]

    def to_dense(self) -> Array:
        p = self.signs.shape[1]
        H, eye = scipy.linalg.hadamard(p), np.eye(p)
        blocks = [
            H @ np.diag(g) @ eye[permutation] @ H @ np.diag(s)
            for s, permutation, g in zip(self.signs.astype(float), self.permutations, self.gains, strict=True)
        ]
        W = np.vstack(blocks)[: len(self.lengths), : self.n_features]
        return np.asarray(W * self.lengths.astype(float)[:, None])


@dataclass(frozen=True)
class SubsampledBlocks(LinearMap):
    """Blocks diag(lengths) G P H diag(signs): a small dense matrix behind a subsampled Hadamard transform.

    `signs` is (blocks, p), `picks` (blocks, k) are the coordinates kept, `matrices` (blocks, rows, k). H is
    unnormalised; `lengths` is (n_rows,).
    """

    n_features: int
    signs: Array
    picks: Array
    matrices: Array
    lengths: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.n_features)

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        parts = []
        for s, pick, G in zip(self.signs, self.picks, self.matrices, strict=True):
            V = np.zeros((len(X), len(s)), X.dtype)
            np.multiply(X, s[: self.n_features], out=V[:, : self.n_features])
            backend.fwht(V)
            parts.append(V[:, pick] @ G.T.astype(X.dtype))
        return np.hstack(parts)[:, : len(self.lengths)] * self.lengths.astype(X.dtype)

    def to_dense(self) -> Array:
        H = scipy.linalg.hadamard(self.signs.shape[1])
        blocks = [
            G @ H[k] @ np.diag(s.astype(float)) for s, k, G in zip(self.signs, self.picks, self.matrices, strict=True)
        ]
        W = np.vstack(blocks)[: len(self.lengths), : self.n_features]
        return np.asarray(W * self.lengths.astype(float)[:, None])


def _blocks(A: Array, width: int) -> list[Array]:
    """Copy the columns of A into contiguous blocks of `width`, the last one padded with zeros."""
    blocks = []
    for start in range(0, A.shape[1], width):
        V = np.zeros((len(A), width), A.dtype)
        V[:, : min(width, A.shape[1] - start)] = A[:, start : start + width]
        blocks.append(V)
    return blocks


@dataclass(frozen=True)
class FFTBlocks(LinearMap):
    """Blocks diag(lengths) [Re; Im](F diag(gains) Π C diag(signs)): Fastfood without padding, 2d rows in a block.

    F is the unnormalised Fourier matrix, C the orthonormal cosine transform, `gains` complex. Because every
    |F_ij| = 1, rows are exactly Gaussian when the gains are; with a real transform for F they would not be.
    """

    signs: Array
    permutations: Array
    gains: Array
    lengths: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.signs.shape[1])

    def __call__(self, X: Array) -> Array:
        d = self.signs.shape[1]
        gains = self.gains.astype(np.result_type(X.dtype, np.complex64))
        out = np.empty((len(X), 2 * d * len(self.signs)), X.dtype)
        for block in range(len(self.signs)):
            V = scipy.fft.dct(X * self.signs[block], norm="ortho")[:, self.permutations[block]]
            V = scipy.fft.fft(V * gains[block])
            out[:, 2 * d * block : 2 * d * block + d] = V.real
            out[:, 2 * d * block + d : 2 * d * (block + 1)] = V.imag
        return out[:, : len(self.lengths)] * self.lengths.astype(X.dtype)

    def to_dense(self) -> Array:
        d = self.signs.shape[1]
        k = np.arange(d)
        F = np.exp(-2j * np.pi * (np.outer(k, k) % d) / d)
        C = np.cos(np.pi * np.outer(k, 2 * k + 1) / (2 * d)) * np.sqrt(np.where(k == 0, 1.0, 2.0) / d)[:, None]
        eye = np.eye(d)
        blocks = []
        for s, permutation, g in zip(self.signs.astype(float), self.permutations, self.gains, strict=True):
            B = F @ np.diag(g) @ eye[permutation] @ C @ np.diag(s)
            blocks += [B.real, B.imag]
        return np.asarray(np.vstack(blocks)[: len(self.lengths)] * self.lengths.astype(float)[:, None])


@dataclass(frozen=True)
class CirculantBlocks(LinearMap):
    """Blocks diag(lengths) circ(generator) diag(signs), multiplied by FFT (Yu et al. 2015).

    `signs` and `generators` are (blocks, d); row i of a block is the generator shifted by i.
    """

    signs: Array
    generators: Array
    lengths: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.signs.shape[1])

    def __call__(self, X: Array) -> Array:
        d = self.signs.shape[1]
        out = np.empty((len(X), d * len(self.signs)), X.dtype)
        for block in range(len(self.signs)):
            # row i is g[(j - i) mod d]: a correlation of x with g, hence the conjugate
            spectrum = scipy.fft.rfft(self.generators[block].astype(X.dtype)).conj()
            V = scipy.fft.rfft(X * self.signs[block]) * spectrum
            out[:, d * block : d * (block + 1)] = scipy.fft.irfft(V, n=d)
        return out[:, : len(self.lengths)] * self.lengths.astype(X.dtype)

    def to_dense(self) -> Array:
        blocks = [
            scipy.linalg.circulant(g.astype(float)).T * s for s, g in zip(self.signs, self.generators, strict=True)
        ]
        return np.asarray(np.vstack(blocks)[: len(self.lengths)] * self.lengths.astype(float)[:, None])


@dataclass(frozen=True)
class _Subsampled(LinearMap):
    """Blocks diag(lengths) P T diag(signs), T an orthogonal transform times the square root of its width.

    `signs` is (blocks, width) int8. Row i belongs to block i // width and is coordinate picks[i] of its transform;
    `lengths` is float64 (n_rows,). The last block may have fewer rows than the width.
    """

    n_features: int
    signs: Array
    picks: Array
    lengths: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.picks), self.n_features)

    @property
    def _blocks(self) -> list[tuple[Array, slice]]:
        width = self.signs.shape[1]
        return [(s, slice(i * width, min((i + 1) * width, len(self.picks)))) for i, s in enumerate(self.signs)]

    @abstractmethod
    def _invert_rows(self, V: Array) -> Array:
        """Return V T; may work in place."""

    def __matmul__(self, A: Array) -> Array:
        _refuse_sparse(A)
        out = np.empty((len(self.picks), A.shape[1]), A.dtype)
        step = max(1, (1 << 25) // (len(A) * A.dtype.itemsize))
        for start in range(0, A.shape[1], step):  # a few columns are transposed at a time, never all of A
            out[:, start : start + step] = self(np.ascontiguousarray(A[:, start : start + step].T)).T
        return out

    def adjoint(self, A: Array) -> Array:
        _refuse_sparse(A)
        width = self.signs.shape[1]
        out = np.zeros((len(A), self.n_features), A.dtype)
        lengths = self.lengths.astype(A.dtype)
        for signs, block in self._blocks:
            V = np.zeros((len(A), width), A.dtype)
            V[:, self.picks[block]] = A[:, block] * lengths[block]
            out += self._invert_rows(V)[:, : self.n_features] * signs[: self.n_features]
        return out


@dataclass(frozen=True)
class SubsampledHadamard(_Subsampled):
    """Coordinates of unnormalised Walsh-Hadamard transforms, zero-padded to 2^q (Sarlós 2006)."""

    runs_on_device: ClassVar[bool] = True

    def __call__(self, X: Array) -> Array:
        _refuse_sparse(X)
        backend = backend_of(X)
        out = backend.empty((len(X), len(self.picks)), X)
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        backend.subsampled_hadamard(X, self.signs, self.picks, self.lengths, out)
        return out

    def _invert_rows(self, V: Array) -> Array:
        backend_of(V).fwht(V)
        return V

    def to_dense(self) -> Array:
        H = scipy.linalg.hadamard(self.signs.shape[1]).astype(float)
        W = np.vstack([H[self.picks[block]] * signs for signs, block in self._blocks])
        return np.asarray(W[:, : self.n_features] * self.lengths[:, None])


@dataclass(frozen=True)
class SubsampledCosine(_Subsampled):
    """Coordinates of cosine transforms (orthonormal type II, times √d): no padding."""

    def __call__(self, X: Array) -> Array:
        _refuse_sparse(X)
        out = np.empty((len(X), len(self.picks)), X.dtype)
        lengths = (self.lengths * np.sqrt(self.n_features)).astype(X.dtype)
        step = max(1, (1 << 21) // (self.n_features * X.dtype.itemsize))
        for start in range(0, len(X), step):
            rows = slice(start, start + step)
            for signs, block in self._blocks:
                V = scipy.fft.dct(X[rows] * signs, norm="ortho", axis=1, overwrite_x=True)
                out[rows, block] = np.take(V, self.picks[block], axis=1) * lengths[block]
        return out

    def _invert_rows(self, V: Array) -> Array:
        return scipy.fft.idct(V, norm="ortho", axis=1) * V.dtype.type(np.sqrt(V.shape[1]))

    def to_dense(self) -> Array:
        d = self.signs.shape[1]
        k = np.arange(d)
        C = np.cos(np.pi * np.outer(k, 2 * k + 1) / (2 * d)) * np.sqrt(np.where(k == 0, 1.0, 2.0))[:, None]
        W = np.vstack([C[self.picks[block]] * signs for signs, block in self._blocks])
        return np.asarray(W * self.lengths[:, None])


def _refuse_sparse(X: object) -> None:
    if is_sparse(X):
        raise TypeError(
            "a subsampled transform mixes all columns and would make sparse data dense; "
            "use a sparse sketch ('sparse_sign', 'count_sketch') or pass X.toarray()."
        )


_LARGE = 1 << 24  # multiplications from which on a sparse product uses threads
_PANEL = 128  # rows transposed at a time, so that a panel of the result stays in the cache


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

    def to_sparse(self, dtype: DTypeLike = np.float64) -> scipy.sparse.csc_array:
        """Return W as a CSC array."""
        values = self.signs * self.lengths[self.indices]
        return scipy.sparse.csc_array((values.astype(dtype), self.indices, self.indptr), shape=self.shape)

    def _signs(self, dtype: DTypeLike) -> scipy.sparse.csc_array:
        return scipy.sparse.csc_array((self.signs.astype(dtype), self.indices, self.indptr), shape=self.shape)

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        out = backend.empty((X.shape[0], self.shape[0]), X)
        X = X.tocsr() if is_sparse(X) else _rows(X)
        backend.sparse_rows(X, self.indptr, self.indices, self.signs, self.lengths, out)
        return out

    def sparse_product(self, X: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return X Wᵀ of a sparse X, as a CSR array."""
        X = X.tocsr()
        n, n_rows = X.shape[0], self.shape[0]
        mean_sums = X.nnz * len(self.indices) / max(1, n * self.shape[1])  # mean number of terms in a row of the result
        if n_rows > 4 * mean_sums:
            return X @ self.to_sparse(X.dtype).T
        # if most of the result is not zero, dense blocks of rows are faster
        backend, step = backend_of(np.empty(0)), max(1, (1 << 20) // n_rows)
        block = np.empty((min(n, step), n_rows), X.dtype)
        stops = np.zeros(n + 1, np.int32 if n * n_rows <= np.iinfo(np.int32).max else np.int64)
        columns, values = np.empty(n * n_rows, np.int32), np.empty(n * n_rows, X.dtype)  # untouched pages cost nothing
        for start in range(0, n, step):
            rows = X[start : start + step]
            Z, ends = block[: rows.shape[0]], stops[start : start + rows.shape[0] + 1]
            backend.sparse_rows(rows, self.indptr, self.indices, self.signs, self.lengths, Z)
            np.cumsum(np.count_nonzero(Z, axis=1), out=ends[1:])
            ends[1:] += ends[0]
            backend.nonzeros(Z, ends, columns, values)
        return scipy.sparse.csr_array((values[: stops[-1]], columns[: stops[-1]], stops), shape=(n, n_rows))

    def __matmul__(self, A: Array) -> Array:
        if is_sparse(A):
            return _as_dense(self.to_sparse(A.dtype) @ A, A.dtype)
        S = self._signs(A.dtype)
        # large products use threads; the number of shares depends on shapes alone, so that threads change no bit
        n_shares = min(16, len(A) // S.shape[0]) if len(self.indices) * A[:1].size > _LARGE else 1
        if n_shares <= 1:
            out = np.asarray(S @ A)
        else:
            bounds = np.linspace(0, len(A), n_shares + 1).astype(int)
            parts: list[Array] = [A[:0]] * n_shares

            def multiply(i: int) -> None:
                rows = slice(bounds[i], bounds[i + 1])
                parts[i] = np.asarray(S[:, rows] @ A[rows])

            each(multiply, range(n_shares), n_threads())
            out = sum(parts[1:], start=parts[0])
        out *= self.lengths.astype(A.dtype)[:, None]
        return out

    def adjoint(self, A: Array) -> Array:
        if is_sparse(A):
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

    def to_sparse(self, dtype: DTypeLike = np.float64) -> scipy.sparse.csr_array:
        """Return W as a CSR array."""
        indptr = np.arange(len(self.picks) + 1)
        return scipy.sparse.csr_array((self.lengths.astype(dtype), self.picks, indptr), shape=self.shape)

    def sparse_product(self, X: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return X Wᵀ of a sparse X, as a CSR array."""
        return X @ self.to_sparse(X.dtype).T

    def __call__(self, X: Array) -> Array:
        if is_sparse(X):
            return _as_dense(X @ self.to_sparse(X.dtype).T, X.dtype)
        backend = backend_of(X)
        # NumPy's take goes row by row in memory, where X[:, picks] goes column by column
        picks = backend.place(self.picks, X)
        out = np.take(X, picks, axis=1) if isinstance(X, np.ndarray) else X[:, picks]
        out *= backend.place(self.lengths, X)
        return out

    def __matmul__(self, A: Array) -> Array:
        if is_sparse(A):
            return _as_dense(self.to_sparse(A.dtype) @ A, A.dtype)
        out = A[self.picks]
        out *= self.lengths.astype(A.dtype)[:, None]
        return out

    def adjoint(self, A: Array) -> Array:
        return _as_dense(A @ self.to_sparse(A.dtype), A.dtype)

    def to_dense(self) -> Array:
        W = np.zeros(self.shape)
        W[np.arange(len(self.picks)), self.picks] = self.lengths
        return W


def _rows(X: Array) -> Array:
    """Return X with contiguous rows, as backends expect them."""
    if not isinstance(X, np.ndarray) or X.size == 0 or X.shape[1] == 1 or X.strides[1] == X.itemsize:
        return X
    return np.ascontiguousarray(X)


def _as_dense(product: Array, dtype: DTypeLike) -> Array:
    return np.asarray(product.toarray() if is_sparse(product) else product, dtype)
