"""Maps averaged over cyclic shifts: the maps of `CyclicInvariant` kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
import scipy.sparse

from bochner.backends import Array, backend_of
from bochner.features.compositions import ScaledMap, StackedMap
from bochner.features.fourier import Fourier
from bochner.features.kitchen_sinks import KitchenSink
from bochner.features.maps import FeatureMap, row_blocks
from bochner.kernels.invariant import shifts


def invariant_map(inner: FeatureMap, shape: tuple[int, ...]) -> FeatureMap:
    """The mean of a map over all cyclic shifts of its argument, by FFT where the map is a function of projections."""
    match inner:
        case StackedMap():
            return StackedMap(tuple(invariant_map(part, shape) for part in inner.parts))
        case ScaledMap():
            return ScaledMap(invariant_map(inner.inner, shape), inner.factor)
        case Fourier() | KitchenSink():
            return ConvolvedMap(inner, shape)
    return ShiftedMap(inner, shape)


@dataclass(frozen=True)
class ShiftedMap(FeatureMap):
    """The mean over shifts of any map, one shift at a time."""

    inner: FeatureMap
    shape: tuple[int, ...]

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.inner.n_components

    def __call__(self, X: Array) -> Array:
        out = np.zeros((X.shape[0], self.n_components), X.dtype)
        moves = shifts(self.shape)
        for rows in row_blocks(X, max(X.shape[1], self.n_components)):
            block: Any = X[rows]
            for move in moves:
                out[rows] += self.inner(block[:, move])
        out /= len(moves)
        return out


@dataclass(frozen=True)
class ConvolvedMap(FeatureMap):
    """The mean over shifts of functions of w·x: the projections of all shifts are one correlation of x with w."""

    inner: Fourier | KitchenSink
    shape: tuple[int, ...]

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.inner.n_components

    def __call__(self, X: Array) -> Array:
        linear = self.inner.frequencies if isinstance(self.inner, Fourier) else self.inner.rows
        axes = tuple(range(2, 2 + len(self.shape)))
        W = linear.to_dense().astype(X.dtype).reshape(1, -1, *self.shape)
        filters = scipy.fft.rfftn(W, axes=axes).conj()
        T, G = W.shape[1], int(np.prod(self.shape))
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        for rows in row_blocks(X, max(X.shape[1], 2 * T * G)):
            block: Any = X[rows]
            block = block.toarray() if scipy.sparse.issparse(block) else block
            spectrum = scipy.fft.rfftn(block.reshape(-1, 1, *self.shape), axes=axes)
            phases = scipy.fft.irfftn(spectrum * filters, s=self.shape, axes=axes)  # (n, T, *shape)
            phases = np.ascontiguousarray(np.moveaxis(phases.reshape(-1, T, G), 1, 2).reshape(-1, T))
            out[rows] = self._units(phases).reshape(-1, G, self.n_components).mean(axis=1)
        return out

    def _units(self, phases: Array) -> Array:
        inner = self.inner
        if isinstance(inner, KitchenSink):
            return inner.units(phases)
        out = np.empty((len(phases), inner.n_components), phases.dtype)
        scale = inner.amplitude * np.sqrt(2.0 / inner.n_components)
        backend_of(out).pairs(phases, scale, float(inner.offsets[0]), out)
        return out
