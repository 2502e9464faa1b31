"""Symmetric positive semi-definite operators: what a ridge solver factors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsymm, dsyr

from bochner.backends import Array, backend_of


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

    def lower(self) -> Array:
        """A fresh float64 array in Fortran order whose lower triangle is the matrix's."""
        return np.asfortranarray(self.to_dense())

    def on_device(self) -> Any:
        """A fresh tensor whose lower triangle is the matrix's, if whoever summed it has it on a device; else None."""
        return None


@dataclass(frozen=True)
class DenseGram(PSDOperator):
    """A Gram matrix in memory. Only the lower triangle is read.

    Attributes
    ----------
    matrix : ndarray of shape (m, m)
    rounding : float
        Eigenvalues below it are rounding errors of whoever summed the matrix.
    """

    matrix: Array
    rounding: float = 0.0
    device_gram: Any = None  # the same matrix on a device

    @property
    def shape(self) -> tuple[int, int]:
        return (self.matrix.shape[0], self.matrix.shape[1])

    def __matmul__(self, V: Array) -> Array:
        columns = np.asarray(V, dtype=np.float64).reshape(len(V), -1)
        return np.ascontiguousarray(dsymm(1.0, self.matrix, columns, lower=1)).reshape(V.shape)

    def to_dense(self) -> Array:
        lower = np.tril(self.matrix)
        return np.asarray(lower + np.tril(lower, -1).T)

    def lower(self) -> Array:
        return self.matrix.astype(np.float64, order="F", copy=True)

    def on_device(self) -> Any:
        return None if self.device_gram is None else self.device_gram.clone()


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

    def on_device(self) -> Any:
        G = self.gram.on_device()
        if G is None:
            return None
        total = backend_of(G).place(self.total, G)
        return G.addr_(total, total, alpha=-1.0 / self.weight)

    def lower(self) -> Array:
        return np.asarray(dsyr(-1.0 / self.weight, self.total, a=self.gram.lower(), lower=1, overwrite_a=1))
