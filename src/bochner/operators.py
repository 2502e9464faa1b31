"""Linear maps x ↦ Wx that know nothing of laws or seeds: small, frozen, deterministic.

Every map keeps its numbers in the smallest form that defines it (signs as int8, lengths as float32) and is used
for both float32 and float64 data, so both see the same frequencies. `to_dense` is written from the
definition, not from the fast path: it is the oracle of the tests.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.fft
import scipy.linalg

from bochner.backends import Array, backend_of
from bochner.backends.reference import fwht


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


class LinearMap(ABC):
    """A matrix W of shape (n_rows, n_features), applied to the rows of X as X Wᵀ."""

    accepts_sparse: ClassVar[bool] = False

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """X Wᵀ: (n, n_features) → (n, n_rows), in the dtype of X."""

    @abstractmethod
    def to_dense(self) -> Array:
        """W itself, in float64."""

    def adjoint(self, A: Array) -> Array:
        """A W: (n, n_rows) → (n, n_features)."""
        return A @ self.to_dense().astype(A.dtype)

    def scale_rows(self, factors: Array) -> LinearMap:
        """Diag(factors) W, kept as small as W."""
        lengths = (self.lengths * factors).astype(np.float32)  # type: ignore[attr-defined]
        return replace(self, lengths=lengths)  # type: ignore[type-var]

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        """Write the cosine and sine columns of X Wᵀ; see `bochner.backends.Backend`."""
        backend_of(out).pairs(self(X), scale, tail, out)


@dataclass(frozen=True)
class Dense(LinearMap):
    """A matrix kept as it is."""

    matrix: Array
    accepts_sparse: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (self.matrix.shape[0], self.matrix.shape[1])

    def _as(self, dtype: Any) -> Array:
        return self.matrix.astype(dtype, copy=False)

    def __call__(self, X: Array) -> Array:
        return np.asarray(X @ self._as(X.dtype).T)

    def adjoint(self, A: Array) -> Array:
        return np.asarray(A @ self._as(A.dtype))

    def to_dense(self) -> Array:
        return self._as(np.float64)

    def scale_rows(self, factors: Array) -> Dense:
        return Dense((self.matrix * factors[:, None]).astype(self.matrix.dtype))

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        if isinstance(X, np.ndarray):
            backend_of(out).dense_pairs(X, self._as(X.dtype), scale, tail, out)
        else:
            super().pairs_into(X, scale, tail, out)


@dataclass(frozen=True)
class HadamardBlocks(LinearMap):
    """Blocks diag(lengths) p^(-3/2) H D₀ H D₁ H D₂: orthogonal rows of the given lengths, zero-padded to p = 2^q.

    `signs` is (blocks, 3, p) int8; `lengths` is (n_rows,) float32 and may end inside the last block.
    """

    n_features: int
    signs: Array
    lengths: Array

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.n_features)

    def __call__(self, X: Array) -> Array:
        out = np.empty((len(X), len(self.lengths)), X.dtype)
        backend_of(X).structured_phases(X, self.signs, self.lengths, out)
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
        return np.asarray(W * (self.lengths[:, None] * p**-1.5))


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

    @property
    def shape(self) -> tuple[int, int]:
        return (len(self.lengths), self.n_features)

    def __call__(self, X: Array) -> Array:
        out = np.empty((len(X), len(self.lengths)), X.dtype)
        backend_of(X).fastfood_phases(X, self.signs, self.permutations, self.gains, self.lengths, out)
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
        return np.asarray(np.vstack(blocks)[: len(self.lengths), : self.n_features] * self.lengths[:, None])


@dataclass(frozen=True)
class FFTBlocks(LinearMap):
    """Blocks diag(lengths) [Re; Im](F diag(gains) Π C diag(signs)): Fastfood without padding, 2d rows a block.

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
        F, C, eye = scipy.linalg.dft(d), scipy.fft.dct(np.eye(d), axis=0, norm="ortho"), np.eye(d)
        blocks = []
        for s, permutation, g in zip(self.signs.astype(float), self.permutations, self.gains, strict=True):
            B = F @ np.diag(g) @ eye[permutation] @ C @ np.diag(s)
            blocks += [B.real, B.imag]
        return np.asarray(np.vstack(blocks)[: len(self.lengths)] * self.lengths[:, None])


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
        return np.asarray(np.vstack(blocks)[: len(self.lengths)] * self.lengths[:, None])


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
        return np.asarray(np.vstack(blocks)[: len(self.lengths), : self.n_features] * self.lengths[:, None])


@dataclass(frozen=True)
class Scaled(LinearMap):
    """W diag(columns): a length scale a feature, applied to the data before the map."""

    inner: LinearMap
    columns: Array  # (n_features,), or 0-dimensional for one scale

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.inner.accepts_sparse

    def _scale(self, X: Array) -> Array:
        columns = self.columns.astype(X.dtype)
        return X * columns if isinstance(X, np.ndarray) else X.multiply(columns).tocsr()

    def __call__(self, X: Array) -> Array:
        return self.inner(self._scale(X))

    def adjoint(self, A: Array) -> Array:
        return self.inner.adjoint(A) * self.columns.astype(A.dtype)

    def to_dense(self) -> Array:
        return self.inner.to_dense() * self.columns

    def scale_rows(self, factors: Array) -> Scaled:
        return Scaled(self.inner.scale_rows(factors), self.columns)

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        self.inner.pairs_into(self._scale(X), scale, tail, out)


@dataclass(frozen=True)
class Selected(LinearMap):
    """A map of some columns of X."""

    inner: LinearMap
    columns: Array  # integer indices
    n_features: int

    @property
    def shape(self) -> tuple[int, int]:
        return (self.inner.shape[0], self.n_features)

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.inner.accepts_sparse

    def __call__(self, X: Array) -> Array:
        return self.inner(X[:, self.columns])

    def to_dense(self) -> Array:
        W = np.zeros(self.shape)
        for column, values in zip(self.columns, self.inner.to_dense().T, strict=True):
            W[:, column] += values
        return W

    def scale_rows(self, factors: Array) -> Selected:
        return replace(self, inner=self.inner.scale_rows(factors))

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        self.inner.pairs_into(X[:, self.columns], scale, tail, out)


@dataclass(frozen=True)
class Stacked(LinearMap):
    """Maps on top of each other: the frequencies of a sum of kernels."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return (sum(part.shape[0] for part in self.parts), self.parts[0].shape[1])

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return all(part.accepts_sparse for part in self.parts)

    def __call__(self, X: Array) -> Array:
        return np.hstack([part(X) for part in self.parts])

    def to_dense(self) -> Array:
        return np.vstack([part.to_dense() for part in self.parts])

    def scale_rows(self, factors: Array) -> Stacked:
        stops = np.cumsum([part.shape[0] for part in self.parts])
        pieces = np.split(factors, stops[:-1])
        return Stacked(tuple(part.scale_rows(f) for part, f in zip(self.parts, pieces, strict=True)))

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        start = 0
        for part in self.parts:
            stop = start + 2 * part.shape[0]
            part.pairs_into(X, scale, tail, out[:, start:stop])  # the last slice is cut short when out is odd
            start = stop


@dataclass(frozen=True)
class Summed(LinearMap):
    """Maps added row by row: the frequencies of a product of kernels."""

    parts: tuple[LinearMap, ...]

    @property
    def shape(self) -> tuple[int, int]:
        return self.parts[0].shape

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return all(part.accepts_sparse for part in self.parts)

    def __call__(self, X: Array) -> Array:
        total = self.parts[0](X)
        for part in self.parts[1:]:
            total = total + part(X)
        return total

    def to_dense(self) -> Array:
        return np.sum([part.to_dense() for part in self.parts], axis=0)

    def scale_rows(self, factors: Array) -> Summed:
        return Summed(tuple(part.scale_rows(factors) for part in self.parts))


def _blocks(A: Array, width: int) -> list[Array]:
    """Columns of A in blocks of `width`, the last one padded with zeros; each a fresh contiguous array."""
    blocks = []
    for start in range(0, A.shape[1], width):
        V = np.zeros((len(A), width), A.dtype)
        V[:, : min(width, A.shape[1] - start)] = A[:, start : start + width]
        blocks.append(V)
    return blocks
