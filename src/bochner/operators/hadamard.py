"""Maps made of Walsh-Hadamard transforms, zero-padded to p = 2^q."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg

from bochner.backends import Array, backend_of
from bochner.backends.reference import fwht
from bochner.operators.maps import LinearMap


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
    """Columns of A in blocks of `width`, the last one padded with zeros; each a fresh contiguous array."""
    blocks = []
    for start in range(0, A.shape[1], width):
        V = np.zeros((len(A), width), A.dtype)
        V[:, : min(width, A.shape[1] - start)] = A[:, start : start + width]
        blocks.append(V)
    return blocks
