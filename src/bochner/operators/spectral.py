"""Maps made of Fourier and cosine transforms: no padding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.fft
import scipy.linalg

from bochner.backends import Array
from bochner.operators.maps import LinearMap


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
