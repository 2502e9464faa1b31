"""Maps made of maps: what sums, products, multiples and restrictions of kernels are in feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from bochner.backends import Array, backend_of
from bochner.features.maps import FeatureMap, features_of, row_blocks
from bochner.features.tensor_sketch import convolve
from bochner.operators import LinearMap


@dataclass(frozen=True)
class StackedMap(FeatureMap):
    """Columns of several maps side by side: the map of a sum of kernels."""

    parts: tuple[FeatureMap, ...]
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return sum(part.n_components for part in self.parts)

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
class ScaledMap(FeatureMap):
    """A map times a number: the map of a multiple of a kernel."""

    inner: FeatureMap
    factor: float
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.inner.n_components

    def __call__(self, X: Array) -> Array:
        Z = features_of(self.inner, X)
        Z *= float(self.factor)
        return Z

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return self.inner.gradient(X, float(self.factor) * coefficients)


@dataclass(frozen=True)
class RestrictedMap(FeatureMap):
    """A map of some columns of the data."""

    inner: FeatureMap
    columns: Array
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.inner.n_components

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
        One count sketch (n_components, part.n_components) a part.
    """

    parts: tuple[FeatureMap, ...]
    sketches: tuple[LinearMap, ...]
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.sketches[0].shape[0]

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        widest = max(part.n_components for part in self.parts)
        for rows in row_blocks(X, max(X.shape[1], widest)):
            parts = zip(self.parts, self.sketches, strict=True)
            out[rows] = convolve([sketch.on(out)(features_of(part, X[rows])) for part, sketch in parts])
        return out


@dataclass(frozen=True)
class ProjectedMap(FeatureMap):
    """Up by one map, down by a linear one: fewer columns that hold more (CRAFT, Hamid et al. 2014)."""

    inner: FeatureMap
    projection: LinearMap
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.projection.shape[0]

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        projection = self.projection.on(out)
        for rows in row_blocks(X, max(X.shape[1], self.projection.shape[1])):
            Z: Any = features_of(self.inner, X[rows])
            if scipy.sparse.issparse(Z) and not self.projection.accepts_sparse:
                Z = Z.toarray()
            out[rows] = projection(Z)
        return out

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return self.inner.gradient(X, self.projection.adjoint(np.ascontiguousarray(coefficients.T)).T)
