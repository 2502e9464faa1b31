"""Linear maps as graphs: what is small in bochner stays small in the file."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.exports.graphs import Tensor, concat, cosine, fourier, hadamard, real_inverse_fourier
from bochner.operators import (
    CirculantBlocks,
    Dense,
    FastfoodBlocks,
    FFTBlocks,
    HadamardBlocks,
    PickedRows,
    Scaled,
    Selected,
    Signs,
    SparseRows,
    Stacked,
    SubsampledBlocks,
    SubsampledCosine,
    SubsampledHadamard,
    Summed,
)


@singledispatch
def linear(map_: Any, X: Tensor) -> Tensor:
    """X Wᵀ, (n, n_features) → (n, n_rows)."""
    raise ValueError(f"{type(map_).__name__} cannot be written as an ONNX graph.")


@linear.register
def _(map_: Dense, X: Tensor) -> Tensor:
    return X @ map_.matrix.T


@linear.register
def _(map_: Signs, X: Tensor) -> Tensor:
    return (X @ map_.signs.T) * map_.lengths


@linear.register
def _(map_: Scaled, X: Tensor) -> Tensor:
    return linear(map_.inner, X * np.asarray(map_.columns))


@linear.register
def _(map_: Selected, X: Tensor) -> Tensor:
    return linear(map_.inner, X.gather(map_.columns))


@linear.register
def _(map_: Stacked, X: Tensor) -> Tensor:
    return concat([linear(part, X) for part in map_.parts])


@linear.register
def _(map_: Summed, X: Tensor) -> Tensor:
    total = linear(map_.parts[0], X)
    for part in map_.parts[1:]:
        total = total + linear(part, X)
    return total


def _flipped(X: Tensor, signs: Array, n_features: int) -> Tensor:
    """X padded and times the signs of every block: (n, blocks, p)."""
    p = signs.shape[1]
    return X.pad(p - n_features).reshape(-1, 1, p) * signs


def _gathered(V: Tensor, indices: Array, p: int) -> Tensor:
    """Coordinates indices (blocks, k) of every block of V (n · blocks, p): (n, blocks · k)."""
    blocks = len(indices)
    flat = indices.astype(np.int64) + p * np.arange(blocks)[:, None]
    return V.reshape(-1, blocks * p).gather(flat.ravel())


def _finished(V: Tensor, width: int, lengths: Array) -> Tensor:
    """Rows of all blocks together, as many as there are lengths, times these."""
    V = V.reshape(-1, width)
    return (V if width == len(lengths) else V.columns(0, len(lengths))) * lengths


@linear.register
def _(map_: HadamardBlocks, X: Tensor) -> Tensor:
    blocks, _, p = map_.signs.shape
    V = hadamard(_flipped(X * p**-1.5, map_.signs[:, 2], map_.n_features), p)
    for i in (1, 0):
        V = hadamard(V.reshape(-1, blocks, p) * map_.signs[:, i], p)
    return _finished(V, blocks * p, map_.lengths)


@linear.register
def _(map_: FastfoodBlocks, X: Tensor) -> Tensor:
    blocks, p = map_.signs.shape
    V = hadamard(_flipped(X, map_.signs, map_.n_features), p)
    V = _gathered(V, map_.permutations, p) * map_.gains.ravel()
    return _finished(hadamard(V.reshape(-1, blocks, p), p), blocks * p, map_.lengths)


@linear.register
def _(map_: SubsampledBlocks, X: Tensor) -> Tensor:
    blocks, p = map_.signs.shape
    k, rows = map_.picks.shape[1], map_.matrices.shape[1]
    V = _gathered(hadamard(_flipped(X, map_.signs, map_.n_features), p), map_.picks, p)
    V = V.reshape(-1, blocks, k).transpose(1, 0, 2).stacked_product(map_.matrices.transpose(0, 2, 1))
    return _finished(V.transpose(1, 0, 2), blocks * rows, map_.lengths)


@linear.register
def _(map_: FFTBlocks, X: Tensor) -> Tensor:
    blocks, d = map_.signs.shape
    V = _gathered(cosine(_flipped(X, map_.signs, d), d), map_.permutations, d)
    gains = map_.gains.ravel()
    real, imaginary = fourier(V * gains.real, d, V * gains.imag)
    V = concat([part.reshape(-1, blocks, d) for part in (real, imaginary)], axis=2)
    return _finished(V, 2 * blocks * d, map_.lengths)


@linear.register
def _(map_: CirculantBlocks, X: Tensor) -> Tensor:
    blocks, d = map_.signs.shape
    spectrum = np.fft.fft(map_.generators.astype(np.float64)).conj()
    real, imaginary = (part.reshape(-1, blocks, d) for part in fourier(_flipped(X, map_.signs, d), d))
    a, b = spectrum.real, spectrum.imag
    V = real_inverse_fourier(real * a - imaginary * b, real * b + imaginary * a, d)
    return _finished(V, blocks * d, map_.lengths)


@linear.register
def _(map_: SparseRows, X: Tensor) -> Tensor:
    # the entries of each row side by side, filled up with zeros: (rows, most)
    n_rows, n_columns = map_.shape
    counts = np.bincount(map_.indices, minlength=n_rows)
    most = max(1, int(counts.max(initial=0)))
    order = np.argsort(map_.indices, kind="stable")
    columns = np.repeat(np.arange(n_columns), np.diff(map_.indptr))[order]
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    picks, signs = np.zeros((n_rows, most), np.int64), np.zeros((n_rows, most), np.int8)
    picks[map_.indices[order], place] = columns
    signs[map_.indices[order], place] = map_.signs[order]
    return (X.gather(picks) * signs).reduce("Sum", 2) * map_.lengths


@linear.register
def _(map_: PickedRows, X: Tensor) -> Tensor:
    return X.gather(map_.picks) * map_.lengths


@linear.register
def _(map_: SubsampledHadamard, X: Tensor) -> Tensor:
    p = map_.signs.shape[1]
    V = hadamard(_flipped(X, map_.signs, map_.n_features), p)
    return _picked(V, map_.picks, map_.signs.shape) * map_.lengths


@linear.register
def _(map_: SubsampledCosine, X: Tensor) -> Tensor:
    d = map_.n_features
    V = cosine(_flipped(X, map_.signs, d), d)
    return _picked(V, map_.picks, map_.signs.shape) * (map_.lengths * np.sqrt(d))


def _picked(V: Tensor, picks: Array, shape: tuple[int, ...]) -> Tensor:
    """Row i is coordinate picks[i] of block i // width."""
    blocks, width = shape
    return V.reshape(-1, blocks * width).gather(picks + width * (np.arange(len(picks)) // width))
