"""Maps made of maps: scaled, restricted, stacked, added and one behind another."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bochner.backends import Array, Memo, backend_of, is_host, is_sparse
from bochner.backends.memory import empty_columns
from bochner.draws.linear_maps import Dense, LinearMap
from bochner.draws.structured import FastfoodBlocks, HadamardBlocks

_rescaled, _matrices = Memo(), Memo()


@dataclass(frozen=True)
class Scaled(LinearMap):
    """W diag(columns): one length scale for each feature, by which the data are divided before the map."""

    inner: LinearMap
    columns: Array  # (n_features,), or 0-dimensional for one scale

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.inner.accepts_sparse

    def _scale(self, X: Array) -> Array:
        columns = backend_of(X).place(self.columns, X)
        return X.multiply(columns).tocsr() if is_sparse(X) else X * columns

    def on(self, X: Array) -> Scaled:
        return replace(self, inner=self.inner.on(X))

    def __call__(self, X: Array) -> Array:
        return self.inner(self._scale(X))

    def adjoint(self, A: Array) -> Array:
        return self.inner.adjoint(A) * self.columns.astype(A.dtype)

    def to_dense(self) -> Array:
        return self.inner.to_dense() * self.columns

    def scale_rows(self, factors: Array) -> Scaled:
        return Scaled(self.inner.scale_rows(factors), self.columns)

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        factor = float(self.columns) if self.columns.ndim == 0 and X.dtype.itemsize == 4 else 0.0
        inner = self.inner
        if not is_host(X) and isinstance(inner, (HadamardBlocks, FastfoodBlocks)) and 1e-9 < factor < 1e9:
            # copying the data would cost as much as the features, so the lengths are multiplied by the factor; they are
            # not rounded to float32, because phases may be large
            lengths = inner.lengths.astype(np.float64) * factor
            _rescaled.get(inner, factor, lambda: replace(inner, lengths=lengths)).pairs_into(X, scale, tail, out)
        elif not is_host(X):  # in float64, because large phases do not survive rounding to float32
            inner.pairs_into(self._scale(X.double()), scale, tail, out)  # type: ignore[attr-defined]
        else:
            inner.pairs_into(self._scale(X), scale, tail, out)


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

    def _select(self, X: Array) -> Array:
        if isinstance(X, np.ndarray):
            return X.take(self.columns, axis=1)
        return X[:, backend_of(X).place(self.columns, X)]

    def on(self, X: Array) -> Selected:
        return replace(self, inner=self.inner.on(X))

    def __call__(self, X: Array) -> Array:
        return self.inner(self._select(X))

    def to_dense(self) -> Array:
        W = np.zeros(self.shape)
        for column, values in zip(self.columns, self.inner.to_dense().T, strict=True):
            W[:, column] += values
        return W

    def scale_rows(self, factors: Array) -> Selected:
        return replace(self, inner=self.inner.scale_rows(factors))

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        self.inner.pairs_into(self._select(X), scale, tail, out)


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
        return backend_of(X).xp.hstack([part(X) for part in self.parts])

    def on(self, X: Array) -> Stacked:
        return Stacked(tuple(part.on(X) for part in self.parts))

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

    def on(self, X: Array) -> LinearMap:
        # one part is dense anyway, and a device computes precise pairs for a single matrix
        if is_host(X):
            return self
        found: LinearMap = _matrices.get(self, "dense", lambda: Dense(np.sum([_matrix(p) for p in self.parts], axis=0)))
        return found

    def to_dense(self) -> Array:
        return np.sum([part.to_dense() for part in self.parts], axis=0)

    def scale_rows(self, factors: Array) -> Summed:
        return Summed(tuple(part.scale_rows(factors) for part in self.parts))


@dataclass(frozen=True)
class Chained(LinearMap):
    """outer inner: one map behind another."""

    outer: LinearMap
    inner: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        return (self.outer.shape[0], self.inner.shape[1])

    @property
    def accepts_sparse(self) -> bool:  # type: ignore[override]
        return self.inner.accepts_sparse

    def on(self, X: Array) -> Chained:
        return Chained(self.outer.on(X), self.inner.on(X))

    def __call__(self, X: Array) -> Array:
        if not is_host(X):
            return self.outer(self.inner(X))
        out = empty_columns(X.shape[0], self.shape[0], X.dtype)
        step = max(1, (1 << 22) // (self.inner.shape[0] * X.dtype.itemsize))
        for start in range(0, X.shape[0], step):  # the rows between the maps are never all held
            out[start : start + step] = self.outer(self.inner(X[start : start + step]))
        return out

    def __matmul__(self, A: Array) -> Array:
        return self.outer @ (self.inner @ A)

    def adjoint(self, A: Array) -> Array:
        return self.inner.adjoint(self.outer.adjoint(A))

    def to_dense(self) -> Array:
        return self.outer.to_dense() @ self.inner.to_dense()

    def scale_rows(self, factors: Array) -> Chained:
        return replace(self, outer=self.outer.scale_rows(factors))


def _matrix(part: LinearMap) -> Array:
    """Return W in float64; blocks of transforms transform the identity instead of multiplying matrices."""
    match part:
        case Scaled():
            return _matrix(part.inner) * part.columns
        case HadamardBlocks() | FastfoodBlocks():
            return part(np.eye(part.n_features)).T
    return part.to_dense()
