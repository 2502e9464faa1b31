"""Maps made of maps: sums, products, multiples and restrictions of kernels in feature space, and cyclic averages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.fft

from bochner.backends import Array, backend_of, densified
from bochner.backends.memory import empty_columns
from bochner.draws.linear_maps import LinearMap
from bochner.features.fourier import Fourier
from bochner.features.kitchen_sinks import KitchenSink
from bochner.features.maps import FeatureMap, expect, features_of, row_blocks, within
from bochner.features.tensor_sketch import convolve
from bochner.kernels.invariant import shifts


@dataclass(frozen=True)
class StackedMap(FeatureMap):
    """Components of several maps side by side: the map of a sum of kernels."""

    parts: tuple[FeatureMap, ...]
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return sum(part.n_components for part in self.parts)

    @property
    def input_width(self) -> int | None:
        return self.parts[0].input_width

    def validate(self) -> None:
        expect(self.parts, self, "no parts")

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        start = 0
        for part in self.parts:
            out[:, start : start + part.n_components] = features_of(part, X)
            start += part.n_components
        return out

    def gradient(self, X: Array, coefficients: Array) -> Array:
        stops = np.cumsum([part.n_components for part in self.parts])
        pieces = np.split(coefficients, stops[:-1])
        return np.asarray(sum(part.gradient(X, piece) for part, piece in zip(self.parts, pieces, strict=True)))


@dataclass(frozen=True)
class _MapOfMap(FeatureMap):
    """A map made of another one that has as many components."""

    inner: FeatureMap

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.inner.n_components


@dataclass(frozen=True)
class ScaledMap(_MapOfMap):
    """A map times a number: the map of a multiple of a kernel."""

    factor: float
    runs_on_device: ClassVar[bool] = True

    def __call__(self, X: Array) -> Array:
        Z = features_of(self.inner, X)
        Z *= float(self.factor)
        return Z

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return self.inner.gradient(X, float(self.factor) * coefficients)


@dataclass(frozen=True)
class RestrictedMap(_MapOfMap):
    """A map of some columns of the data."""

    columns: Array
    runs_on_device: ClassVar[bool] = True

    def validate(self) -> None:
        expect(self.columns.ndim == 1 and within(self.columns, 1 << 62), self, "invalid columns")

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        out = backend.empty((X.shape[0], self.n_components), X)
        for rows in row_blocks(X):
            out[rows] = features_of(self.inner, X[rows][:, backend.place(self.columns, X)])
        return out

    def gradient(self, X: Array, coefficients: Array) -> Array:
        out = np.zeros((X.shape[0], coefficients.shape[1], X.shape[1]), X.dtype)
        inner = self.inner.gradient(X[:, self.columns], coefficients)
        for j, column in enumerate(self.columns):
            out[..., column] += inner[..., j]
        return out


@dataclass(frozen=True)
class ProductMap(FeatureMap):
    """A sketch of the outer product of several maps: the map of a product of kernels.

    The count sketch of an outer product is the cyclic convolution of count sketches of its factors (Pham & Pagh
    2013), so that the product is never formed.

    Attributes
    ----------
    parts : tuple of FeatureMap
        Independent of each other: the mean of a product is then the product of the means.
    sketches : tuple of LinearMap
        One count sketch (n_components, part.n_components) for each part.
    """

    parts: tuple[FeatureMap, ...]
    sketches: tuple[LinearMap, ...]
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.sketches[0].shape[0]

    @property
    def input_width(self) -> int | None:
        return self.parts[0].input_width

    def validate(self) -> None:
        expect(self.parts and len(self.parts) == len(self.sketches), self, "a wrong number of sketches")
        for part, sketch in zip(self.parts, self.sketches, strict=True):
            fits = sketch.shape == (self.n_components, part.n_components)
            expect(fits, self, "sketches that do not fit its parts")

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        widest = max(part.n_components for part in self.parts)
        for rows in row_blocks(X, max(X.shape[1], widest)):
            parts = zip(self.parts, self.sketches, strict=True)
            out[rows] = convolve([sketch.on(out)(features_of(part, X[rows])) for part, sketch in parts])
        return out


@dataclass(frozen=True)
class ProjectedMap(FeatureMap):
    """Many features, projected to fewer by a linear map (CRAFT, Hamid et al. 2014)."""

    inner: FeatureMap
    projection: LinearMap
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.projection.shape[0]

    @property
    def input_width(self) -> int | None:
        return self.inner.input_width

    def validate(self) -> None:
        expect(self.projection.shape[1] == self.inner.n_components, self, "a projection of the wrong width")

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        projection = self.projection.on(out)
        for rows in row_blocks(X, max(X.shape[1], self.projection.shape[1])):
            Z = features_of(self.inner, X[rows])
            out[rows] = projection(Z if self.projection.accepts_sparse else densified(Z))
        return out

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return self.inner.gradient(X, self.projection.adjoint(np.ascontiguousarray(coefficients.T)).T)


def invariant_map(inner: FeatureMap, shape: tuple[int, ...]) -> FeatureMap:
    """Average a map over all cyclic shifts of its argument, by FFT if it is a function of projections."""
    match inner:
        case StackedMap():
            return StackedMap(tuple(invariant_map(part, shape) for part in inner.parts))
        case ScaledMap():
            return ScaledMap(invariant_map(inner.inner, shape), inner.factor)
        case Fourier() | KitchenSink():
            return ConvolvedMap(inner, shape)
    return ShiftedMap(inner, shape)


@dataclass(frozen=True)
class ShiftedMap(_MapOfMap):
    """The mean over shifts of any map, one shift at a time."""

    shape: tuple[int, ...]

    def __call__(self, X: Array) -> Array:
        out = np.zeros((X.shape[0], self.n_components), X.dtype)
        moves = shifts(self.shape)
        for rows in row_blocks(X, max(X.shape[1], self.n_components)):
            block = X[rows]
            for move in moves:
                out[rows] += self.inner(block[:, move])
        out /= len(moves)
        return out


@dataclass(frozen=True)
class ConvolvedMap(_MapOfMap):
    """The mean over shifts of functions of w·x: the projections of all shifts are one correlation of x with w."""

    inner: Fourier | KitchenSink
    shape: tuple[int, ...]

    def __call__(self, X: Array) -> Array:
        linear = self.inner.frequencies if isinstance(self.inner, Fourier) else self.inner.rows
        axes = tuple(range(2, 2 + len(self.shape)))
        W = linear.to_dense().astype(X.dtype).reshape(1, -1, *self.shape)
        filters = scipy.fft.rfftn(W, axes=axes).conj()
        T, G = W.shape[1], int(np.prod(self.shape))
        out = empty_columns(X.shape[0], self.n_components, X.dtype)
        for rows in row_blocks(X, max(X.shape[1], 2 * T * G)):
            spectrum = scipy.fft.rfftn(densified(X[rows]).reshape(-1, 1, *self.shape), axes=axes)
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
