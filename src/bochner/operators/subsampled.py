"""Maps that keep some coordinates of an orthogonal transform of sign-flipped data: O(log d) a row, dense data only.

Both transforms also run down the columns of a tall matrix, so that `S @ A` needs no transposed copy of A.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse

from bochner.backends import Array, backend_of
from bochner.operators.maps import LinearMap

_BUFFER_BYTES = 1 << 25  # of transformed data held at a time


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
    def _transform_rows(self, V: Array) -> Array:
        """V Tᵀ; may work in place."""

    @abstractmethod
    def _transform_columns(self, V: Array) -> Array:
        """T V; may work in place."""

    @abstractmethod
    def _invert_rows(self, V: Array) -> Array:
        """V T; may work in place."""

    def __call__(self, X: Array) -> Array:
        _refuse_sparse(X)
        n, width = X.shape[0], self.signs.shape[1]
        out = np.empty((n, len(self.picks)), X.dtype)
        step = max(1, _BUFFER_BYTES // (width * X.dtype.itemsize * 16))
        V = np.zeros((min(n, step), width), X.dtype)
        for start in range(0, n, step):
            rows = slice(start, min(start + step, n))
            for signs, block in self._blocks:
                W = V[: rows.stop - rows.start]
                np.multiply(X[rows], signs[: self.n_features], out=W[:, : self.n_features])
                W[:, self.n_features :] = 0.0
                out[rows, block] = self._transform_rows(W)[:, self.picks[block]]
        out *= self.lengths.astype(X.dtype)
        return out

    def __matmul__(self, A: Any) -> Array:
        _refuse_sparse(A)
        width, n_columns = self.signs.shape[1], A.shape[1]
        out = np.empty((len(self.picks), n_columns), A.dtype)
        step = max(1, _BUFFER_BYTES // (width * A.dtype.itemsize))
        for start in range(0, n_columns, step):
            columns = slice(start, min(start + step, n_columns))
            for signs, block in self._blocks:
                V = np.zeros((width, columns.stop - columns.start), A.dtype)
                np.multiply(A[:, columns], signs[: self.n_features, None], out=V[: self.n_features])
                out[block, columns] = self._transform_columns(V)[self.picks[block]]
        out *= self.lengths.astype(A.dtype)[:, None]
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

    def scale_rows(self, factors: Array) -> LinearMap:
        return replace(self, lengths=self.lengths * factors)


@dataclass(frozen=True)
class SubsampledHadamard(_Subsampled):
    """Coordinates of unnormalised Walsh-Hadamard transforms, zero-padded to 2^q (Sarlós 2006)."""

    def __call__(self, X: Array) -> Array:
        _refuse_sparse(X)
        out = np.empty((len(X), len(self.picks)), X.dtype)
        X = np.ascontiguousarray(X)
        backend_of(X).subsampled_hadamard(X, self.signs, self.picks, self.lengths, out)
        return out

    def _transform_rows(self, V: Array) -> Array:
        backend_of(V).fwht(V)
        return V

    _invert_rows = _transform_rows

    def _transform_columns(self, V: Array) -> Array:
        half = 1
        while half < len(V):
            pairs = V.reshape(-1, 2, half, V.shape[1])
            a, b = pairs[:, 0].copy(), pairs[:, 1]
            pairs[:, 0] += b
            np.subtract(a, b, out=b)
            half *= 2
        return V

    def to_dense(self) -> Array:
        H = scipy.linalg.hadamard(self.signs.shape[1]).astype(float)
        W = np.vstack([H[self.picks[block]] * signs for signs, block in self._blocks])
        return np.asarray(W[:, : self.n_features] * self.lengths[:, None])


@dataclass(frozen=True)
class SubsampledCosine(_Subsampled):
    """Coordinates of cosine transforms (orthonormal type II, times √d): no padding."""

    def _transform_rows(self, V: Array) -> Array:
        return scipy.fft.dct(V, norm="ortho", axis=1) * V.dtype.type(np.sqrt(V.shape[1]))

    def _invert_rows(self, V: Array) -> Array:
        return scipy.fft.idct(V, norm="ortho", axis=1) * V.dtype.type(np.sqrt(V.shape[1]))

    def _transform_columns(self, V: Array) -> Array:
        return scipy.fft.dct(V, norm="ortho", axis=0) * V.dtype.type(np.sqrt(V.shape[0]))

    def to_dense(self) -> Array:
        d = self.signs.shape[1]
        k = np.arange(d)
        C = np.cos(np.pi * np.outer(k, 2 * k + 1) / (2 * d)) * np.sqrt(np.where(k == 0, 1.0, 2.0))[:, None]
        W = np.vstack([C[self.picks[block]] * signs for signs, block in self._blocks])
        return np.asarray(W * self.lengths[:, None])


def _refuse_sparse(X: Any) -> None:
    if scipy.sparse.issparse(X):
        raise TypeError(
            "a subsampled transform mixes all columns and would make sparse data dense; "
            "use a sparse law ('sparse_sign', 'count_sketch') or pass X.toarray()."
        )
