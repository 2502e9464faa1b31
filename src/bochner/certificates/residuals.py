"""Certificates, and the error E = ZZᵀ - K, read tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import Array, check_moderate, densified
from bochner.certificates.records import Certificate, Effort
from bochner.data.progress import Stopwatch
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap, Features, feature_map_of
from bochner.features.nystrom import Nystrom
from bochner.kernels.algebra import Kernel, finite_points
from bochner.kernels.conversion import as_kernel

_BLOCK_NUMBERS = 1 << 23  # numbers of features or kernel values held at a time


KernelLike: TypeAlias = Kernel | str | Callable[[Array, Array], float]


class Residual:
    """E = ZZᵀ - K of some rows, never formed: its blocks, its diagonal, and their cost."""

    def __init__(self, features: Features, X: ArrayLike, kernel: KernelLike | None = None) -> None:
        self.feature_map = feature_map_of(features)
        self._transform = transform_of(features)
        self._own_kernel = kernel is None
        self.kernel = _kernel_of(features, kernel, X)
        self.X = checked_rows(features, X)
        self.n = int(self.X.shape[0])
        self.started = Stopwatch()
        self.kernel_entries = 0
        self.feature_rows = 0

    def features(self, rows: Array | slice) -> Array:
        """Compute the features of some rows in float64, complex components as two real ones."""
        X = self.X[rows]
        self.feature_rows += X.shape[0]
        Z = np.ascontiguousarray(densified(self._transform(X)))
        if np.iscomplexobj(Z):
            Z = Z.view(Z.real.dtype)
        return np.asarray(Z, dtype=np.float64)

    def values(self, rows: Array, columns: Array) -> Array:
        """Return the exact kernel between some rows and others, in float64."""
        A, B = (self.X[index].astype(np.float64, copy=False) for index in (rows, columns))
        self.kernel_entries += A.shape[0] * B.shape[0]
        return np.asarray(self.kernel(A, B), dtype=np.float64)

    def tile(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """Return E and K between some rows and others, (len(rows), len(columns))."""
        K = np.empty((len(rows), len(columns)))
        E = np.empty_like(K)
        for j in self._blocks(len(columns)):
            right = self.features(columns[j])
            for i in self._blocks(len(rows)):
                K[i, j] = self.values(rows[i], columns[j])
                E[i, j] = self.features(rows[i]) @ right.T - K[i, j]
        return E, K

    def strips(self) -> Iterator[tuple[Array, Array]]:
        """Yield all of E and K, some rows at a time."""
        everything = np.arange(self.n)
        step = max(1, _BLOCK_NUMBERS // self.n)
        for start in range(0, self.n, step):
            yield self.tile(everything[start : start + step], everything)

    @cached_property
    def diagonal(self) -> Array:
        """Return the diagonal of E, in one pass over the rows."""
        out = np.empty(self.n)
        for rows in self._blocks(self.n):
            X = self.X[rows].astype(np.float64, copy=False)
            Z = self.features(rows)
            out[rows] = np.einsum("ij,ij->i", Z, Z) - self.kernel.diagonal(X)
        return out

    @cached_property
    def kernel_diagonal(self) -> Array:
        return np.asarray(self.kernel.diagonal(self.X.astype(np.float64, copy=False)), dtype=np.float64)

    @property
    def semidefinite(self) -> bool:
        """Return True if K - ZZᵀ is positive semi-definite because ZZᵀ is a projection of K (a triangular root)."""
        return isinstance(self.feature_map, Nystrom) and self.feature_map.triangular and self._own_kernel

    def _blocks(self, n: int) -> list[slice]:
        width = self.feature_map.n_components if isinstance(self.feature_map, FeatureMap) else 1024
        step = max(64, _BLOCK_NUMBERS // width)
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def certificate(
        self, quantity: str, value: float, interval: tuple[float, float], confidence: float, how: str
    ) -> Certificate:
        """Build the certificate, with the cost so far."""
        low, high = interval
        value = float(min(max(value, low), high))
        cost = Effort(self.kernel_entries, self.feature_rows, self.started.seconds())
        return Certificate(quantity, value, (float(low), float(high)), confidence, how, cost)


@dataclass(frozen=True)
class RowSampler:
    """Rows drawn with replacement, row i with probability p_i; entries of E are divided by sqrt(p_i p_j).

    Averages over drawn rows of products of such entries around a cycle are unbiased estimates of traces of powers of
    E, repeated indices included.
    """

    probabilities: Array
    key: Key

    @classmethod
    def of(cls, residual: Residual, key: Key, uniform: float = 0.1) -> RowSampler:
        """Sample uniformly; if E is definite, mostly in proportion to its diagonal, so that outliers are drawn."""
        p = np.full(residual.n, 1.0 / residual.n)
        if residual.semidefinite:
            left = np.maximum(-residual.diagonal, 0.0)
            if left.sum() > 0:
                p = (1.0 - uniform) * left / left.sum() + uniform / residual.n
        return cls(p, key)

    def draw(self, size: int, name: str | int) -> Array:
        generator = self.key.child(name).generator()
        n = len(self.probabilities)
        if np.ptp(self.probabilities) == 0.0:
            return generator.integers(0, n, size)
        return generator.choice(n, size, p=self.probabilities)

    def weigh(self, tile: Array, rows: Array, columns: Array) -> Array:
        """Divide entries by the square roots of the probabilities, in place."""
        tile /= np.sqrt(self.probabilities[rows])[:, None]
        tile /= np.sqrt(self.probabilities[columns])
        return tile


@runtime_checkable
class _Transformer(Protocol):
    def transform(self, X: Array) -> Array: ...


@runtime_checkable
class _HasKernel(Protocol):
    kernel_: object


@runtime_checkable
class _HasWidth(Protocol):
    n_features_in_: int


def transform_of(features: object) -> Callable[[Array], Array]:
    """Return the function from rows to features of a transformer or feature map; bochner's own skips checks of rows."""
    feature_map = feature_map_of(features)
    if isinstance(feature_map, FeatureMap):
        return feature_map
    if isinstance(features, _Transformer):
        return features.transform
    if callable(features):
        return features
    raise TypeError(
        f"features must be a fitted transformer or a feature map, got {features!r}. "
        "Fit one first: FourierFeatures(...).fit(X)."
    )


def _kernel_of(features: object, kernel: KernelLike | None, X: ArrayLike) -> Kernel:
    if kernel is not None:
        return as_kernel(kernel).resolve(X)
    feature_map = feature_map_of(features)
    own = features.kernel_ if isinstance(features, _HasKernel) else None
    if own is None and isinstance(feature_map, Nystrom):
        own = feature_map.kernel
    if not isinstance(own, Kernel):
        raise ValueError("The features have no kernel. Pass the kernel that they approximate, such as kernel=RBF(1.0).")
    return own


def checked_rows(features: object, X: ArrayLike) -> Array:
    """Check the rows of X and return them as the features accept them."""
    rows = check_moderate(finite_points(X))
    if isinstance(features, _HasWidth) and features.n_features_in_ != rows.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} features, but the transformer was fitted with {features.n_features_in_}."
        )
    return rows
