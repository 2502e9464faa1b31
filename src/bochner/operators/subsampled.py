"""Maps that keep some coordinates of an orthogonal transform of sign-flipped data: O(log d) a row, dense data only."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.fft
import scipy.linalg
import scipy.sparse

from bochner.backends import Array, backend_of
from bochner.operators.maps import LinearMap

_BUFFER_BYTES = 1 << 25  # of a tall matrix turned at a time
_BLOCK_BYTES = 1 << 21  # of transformed rows held at a time


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
        """V T; may work in place."""

    def __matmul__(self, A: Any) -> Array:
        _refuse_sparse(A)
        out = np.empty((len(self.picks), A.shape[1]), A.dtype)
        step = max(1, _BUFFER_BYTES // (len(A) * A.dtype.itemsize))
        for start in range(0, A.shape[1], step):  # a few columns turned at a time, never all of A
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

    def scale_rows(self, factors: Array) -> LinearMap:
        return replace(self, lengths=self.lengths * factors)


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
        step = max(1, _BLOCK_BYTES // (self.n_features * X.dtype.itemsize))
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


def _refuse_sparse(X: Any) -> None:
    if scipy.sparse.issparse(X):
        raise TypeError(
            "a subsampled transform mixes all columns and would make sparse data dense; "
            "use a sparse law ('sparse_sign', 'count_sketch') or pass X.toarray()."
        )
