"""What a linear map is, the one that is a plain matrix, and symmetric positive semi-definite operators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.linalg.blas import dsymm

from bochner.backends import Array, Memo, backend_of, is_host, is_sparse
from bochner.backends.memory import empty_columns, product
from bochner.backends.tiled import mirrored


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


_matrices = Memo()


class LinearMap(ABC):
    """A matrix W of shape (n_rows, n_features), applied to the rows of X as X Wᵀ."""

    accepts_sparse: ClassVar[bool] = False
    runs_on_device: ClassVar[bool] = False  # accepts arrays of every backend, not only NumPy's

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(n_rows, n_features)."""

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """Return X Wᵀ, (n, n_features) → (n, n_rows), in the dtype of X."""

    @abstractmethod
    def to_dense(self) -> Array:
        """Return W in float64."""

    def on(self, X: Array) -> LinearMap:
        """Return this map for arrays like X: itself, or its dense matrix if it takes only NumPy arrays."""
        if self.runs_on_device or is_host(X):
            return self
        found: LinearMap = _matrices.get(self, "dense", lambda: Dense(self.to_dense()))
        return found

    def adjoint(self, A: Array) -> Array:
        """Return A W, (n, n_rows) → (n, n_features)."""
        return A @ self.to_dense().astype(A.dtype)

    def __matmul__(self, A: Array) -> Array:
        """Return W A, (n_features, k) → (n_rows, k)."""
        return self(np.ascontiguousarray(A.T)).T

    def scale_rows(self, factors: Array) -> LinearMap:
        """Return diag(factors) W, stored as compactly as W."""
        lengths: Array = self.lengths  # type: ignore[attr-defined]
        return replace(self, lengths=(lengths * factors).astype(lengths.dtype))  # type: ignore[type-var]

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        """Write the cosines and sines of X Wᵀ; see `bochner.backends.Backend`."""
        backend_of(out).pairs(self(X), scale, tail, out)


@dataclass(frozen=True)
class Dense(LinearMap):
    """A matrix kept as it is."""

    matrix: Array
    accepts_sparse: ClassVar[bool] = True
    runs_on_device: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (self.matrix.shape[0], self.matrix.shape[1])

    def _as(self, dtype: DTypeLike) -> Array:
        return self.matrix.astype(dtype, copy=False)

    def __call__(self, X: Array) -> Array:
        matrix = backend_of(X).place(self.matrix, X).T
        return product(X, matrix) if is_host(X) else X @ matrix

    def __matmul__(self, A: Array) -> Array:
        return np.asarray(self._as(A.dtype) @ A)

    def adjoint(self, A: Array) -> Array:
        return np.asarray(A @ self._as(A.dtype))

    def to_dense(self) -> Array:
        return self._as(np.float64)

    def scale_rows(self, factors: Array) -> Dense:
        return Dense((self.matrix * factors[:, None]).astype(self.matrix.dtype))

    def pairs_into(self, X: Array, scale: float, tail: float, out: Array) -> None:
        if is_sparse(X):
            super().pairs_into(X, scale, tail, out)
        else:
            backend_of(out).dense_pairs(X, self.matrix, scale, tail, out)


@dataclass(frozen=True)
class Signs(LinearMap):
    """diag(lengths) times a matrix of ±1, kept as int8; `lengths` is float64 (n_rows,)."""

    signs: Array
    lengths: Array
    accepts_sparse: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return (self.signs.shape[0], self.signs.shape[1])

    def _blocks(self) -> list[slice]:
        """Return blocks of rows that stay small as floats."""
        step = max(1, (1 << 22) // max(1, self.shape[1]))
        return [slice(start, start + step) for start in range(0, self.shape[0], step)]

    def _rows(self, block: slice, dtype: DTypeLike) -> Array:
        return self.signs[block] * self.lengths[block, None].astype(dtype)

    def __call__(self, X: Array) -> Array:
        out = empty_columns(X.shape[0], self.shape[0], X.dtype)
        for block in self._blocks():
            out[:, block] = X @ self._rows(block, X.dtype).T
        return out

    def __matmul__(self, A: Array) -> Array:
        out = np.empty((self.shape[0], A.shape[1]), A.dtype)
        for block in self._blocks():
            out[block] = self._rows(block, A.dtype) @ A
        return out

    def adjoint(self, A: Array) -> Array:
        return np.asarray(sum(A[:, block] @ self._rows(block, A.dtype) for block in self._blocks()))

    def to_dense(self) -> Array:
        return self.signs * self.lengths[:, None]


class PSDOperator(ABC):
    """A positive semi-definite matrix that may be known only by its products."""

    #: eigenvalues below this are rounding errors of the sums
    rounding: float = 0.0

    @property
    def precision(self) -> DTypeLike:
        """Dtype in which its products are computed."""
        return np.float64

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, m)."""

    @abstractmethod
    def __matmul__(self, V: Array) -> Array:
        """Return the product with V, (m,) or (m, k), in float64."""

    @abstractmethod
    def to_dense(self) -> Array:
        """Return the matrix, (m, m) in float64."""

    def row_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        """Iterate over rows Z (n, m) and weights w (n,) or None, in host memory, such that the matrix is Σ ZᵀWZ.

        A matrix in memory is given as the Gram matrix of its square root.
        """
        eigenvalues, vectors = np.linalg.eigh(self.to_dense())
        yield (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))).T, None

    def lower(self) -> Array:
        """Return a fresh float64 array with the matrix's lower triangle: NumPy's, in Fortran order, or on a device.

        It is where the matrix was summed, and the functions of `backend_of` take it either way.
        """
        return np.asfortranarray(self.to_dense())


@dataclass(frozen=True)
class DenseGram(PSDOperator):
    """A Gram matrix in memory. Only the lower triangle is read.

    Attributes
    ----------
    matrix : ndarray or tensor of shape (m, m)
    rounding : float
        Eigenvalues below it are rounding errors of the sums.
    """

    matrix: Any
    rounding: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        return (self.matrix.shape[0], self.matrix.shape[1])

    def __matmul__(self, V: Array) -> Array:
        columns = np.asarray(V, dtype=np.float64).reshape(len(V), -1)
        return np.ascontiguousarray(dsymm(1.0, self._here, columns, lower=1)).reshape(V.shape)

    def to_dense(self) -> Array:
        return mirrored(np.array(self._here))

    @property
    def _here(self) -> Array:
        return backend_of(self.matrix).fetch(self.matrix)

    def lower(self) -> Array:
        if not is_host(self.matrix):
            return self.matrix.clone()
        return self.matrix.astype(np.float64, order="F", copy=True)


@dataclass(frozen=True)
class Centred(PSDOperator):
    """gram - total totalᵀ / weight: the Gram matrix of rows from which their mean was subtracted."""

    gram: PSDOperator
    total: Array
    weight: float

    @property
    def rounding(self) -> float:  # type: ignore[override]
        return self.gram.rounding

    @property
    def shape(self) -> tuple[int, int]:
        return self.gram.shape

    @property
    def precision(self) -> DTypeLike:
        return self.gram.precision

    def __matmul__(self, V: Array) -> Array:
        product = self.gram @ V
        product -= np.multiply.outer(self.total, self.total @ V / self.weight)
        return product

    def to_dense(self) -> Array:
        return self.gram.to_dense() - np.outer(self.total, self.total / self.weight)

    def row_blocks(self) -> Iterator[tuple[Array, Array | None]]:
        mean = self.total / self.weight
        return ((Z - mean, weight) for Z, weight in self.gram.row_blocks())

    def lower(self) -> Array:
        G = self.gram.lower()
        backend_of(G).rank_one(G, self.total, -1.0 / self.weight)
        return G
