"""Exact kernel ridge regression on many rows: the kernel matrix is never stored, on the host or on a device.

Conjugate gradients need one product with the kernel matrix in each step, whose entries are computed again every time;
a partial Cholesky factor with random pivots (Epperly, Tropp & Webber 2024) keeps the number of steps small.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.backends import Array, backend_of, is_host
from bochner.data.devices import open_device
from bochner.draws.keys import Key
from bochner.draws.linear_maps import PSDOperator
from bochner.kernels.algebra import Kernel
from bochner.landmarks.grams import Gram
from bochner.landmarks.pivots import RPCholesky
from bochner.ridge.reports import Report
from bochner.ridge.solvers import ConjugateGradient, memory_available

_MOST_STEPS = 500
_PIVOTS = 10.0  # times the square root of the number of rows
_MEMORY = 0.25  # of what is free: the pivots' columns may take so much


@dataclass(frozen=True)
class WeightedKernel(PSDOperator):
    """√W K √W of rows on the host or a device, known by its products.

    Attributes
    ----------
    kernel : Kernel
    X : ndarray or tensor of shape (n, d)
    roots : ndarray of shape (n,)
        Square roots of the weights.
    """

    kernel: Kernel
    X: Any
    roots: Array

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.X), len(self.X)

    def __matmul__(self, V: Array) -> Array:
        backend = backend_of(self.X)
        columns = backend.place(self.roots[:, None] * V.reshape(len(V), -1), in_float64(self.X))
        product = backend.fetch(self.kernel.product(self.X, self.X, columns))
        return np.asarray(self.roots[:, None] * product).reshape(V.shape)

    def to_dense(self) -> Array:
        K = backend_of(self.X).fetch(self.kernel(self.X))
        return np.asarray(self.roots[:, None] * K * self.roots)


def in_float64(X: Any) -> Any:
    """No rows of X, in float64 and where X is: `place` puts arrays beside it."""
    return X[:0].astype(np.float64) if is_host(X) else X[:0].double()


@dataclass(frozen=True)
class PivotedPreconditioner:
    """(FFᵀ + alpha I)⁻¹ for F (n, r): (V - F (alpha I + FᵀF)⁻¹ FᵀV) / alpha.

    Attributes
    ----------
    F : ndarray or tensor of shape (n, r)
    inverse : ndarray or tensor of shape (r, r)
        L⁻¹, where LLᵀ = FᵀF + alpha I: on a device two products are faster than two triangular solves.
    alpha : float
    """

    F: Any
    inverse: Any
    alpha: float

    @classmethod
    def of(cls, gram: Gram, roots: Array, alpha: float, n_pivots: int, key: Key) -> PivotedPreconditioner:
        """Of the kernel matrix of some rows, with weights on both sides."""
        factor = RPCholesky("accelerated").factor(gram, n_pivots, key)
        F = factor.F[:, : factor.rank]
        backend = backend_of(F)
        F *= backend.place(roots, F)[:, None]
        G = F.T @ F
        L = backend.cholesky(np.asfortranarray(G) if is_host(G) else G, alpha)
        assert L is not None  # alpha is positive
        return cls(F, backend.triangular_inverse(L), alpha)

    def __call__(self, V: Array) -> Array:
        backend = backend_of(self.F)
        R = backend.place(np.asarray(V, np.float64), self.F)
        inner = self.inverse.T @ (self.inverse @ (self.F.T @ R))
        return backend.fetch(R - self.F @ inner) / self.alpha


def place_rows(device: str | None, X: Array) -> tuple[Any, int]:
    """Rows where their kernel is computed, and how many bytes are free there."""
    if device is None:
        return X, memory_available()
    torch = open_device(device)
    there = torch.tensor_on(device, X)
    return there, torch.free_memory(device)


def solve_exactly(
    gram: Gram,
    Y: Array,
    alpha: float,
    weight: Array,
    *,
    fit_intercept: bool,
    tol: float,
    free: int,
    n_pivots: int | None = None,
) -> tuple[Array, Array, Report]:
    """Coefficients c (n, k) and intercepts b (k,) of f = Σ c_j k(·, x_j) + b, and what conjugate gradients report.

    They minimise Σ w (f(x) - y)² + alpha ‖f - b‖²: (K + alpha W⁻¹) c = y - b, and c sums to zero where b is free. With
    u = W^(-1/2) c the matrix is √W K √W + alpha I.
    """
    assert gram.kernel is not None
    n, roots = len(gram), np.sqrt(weight)
    if n_pivots is None:
        n_pivots = int(np.clip(min(_PIVOTS * np.sqrt(n), _MEMORY * free / (8 * n)), 1, n))
    P = PivotedPreconditioner.of(gram, roots, alpha, n_pivots, Key(0))
    X = gram.X if gram.there is None else gram.there
    rule = ConjugateGradient(tol=tol, max_iter=_MOST_STEPS, preconditioner=P)
    factor = rule.factor(WeightedKernel(gram.kernel, X, roots), alpha)
    right = np.column_stack([np.ones(n), Y]) if fit_intercept else Y
    solved = roots[:, None] * factor.solve(roots[:, None] * right)
    report = factor.report.noting(f"{n_pivots} pivots")
    if not fit_intercept:
        return solved, np.zeros(Y.shape[1]), report
    ones, c = solved[:, :1], solved[:, 1:]
    intercept = c.sum(axis=0) / ones.sum()
    return c - ones * intercept, intercept, report
