"""Symmetric positive semi-definite operators: what a ridge solver factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm

from bochner.backends import Array, backend_of, is_host


class PSDOperator(ABC):
    """A positive semi-definite matrix that may be known by its products alone."""

    #: eigenvalues below this are rounding errors of whoever summed the matrix
    rounding: float = 0.0
    #: the dtype in which its products are computed
    precision: Any = np.float64

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, m)."""

    @abstractmethod
    def __matmul__(self, V: Array) -> Array:
        """The product with V, (m,) or (m, k), in float64."""

    @abstractmethod
    def to_dense(self) -> Array:
        """The matrix, (m, m) in float64."""

    def lower(self) -> Any:
        """A fresh float64 array whose lower triangle is the matrix's: NumPy's, in Fortran order, or on a device.

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
        Eigenvalues below it are rounding errors of whoever summed the matrix.
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
        lower = np.tril(self._here)
        return np.asarray(lower + np.tril(lower, -1).T)

    @property
    def _here(self) -> Array:
        return backend_of(self.matrix).fetch(self.matrix)

    def lower(self) -> Any:
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
    def precision(self) -> Any:
        return self.gram.precision

    def __matmul__(self, V: Array) -> Array:
        product = self.gram @ V
        product -= np.multiply.outer(self.total, self.total @ V / self.weight)
        return product

    def to_dense(self) -> Array:
        return self.gram.to_dense() - np.outer(self.total, self.total / self.weight)

    def lower(self) -> Any:
        G = self.gram.lower()
        backend_of(G).rank_one(G, self.total, -1.0 / self.weight)
        return G
