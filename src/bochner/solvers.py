"""Solvers of (G + alpha I) w = c: factor once, then solve and compute the determinant cheaply.

`Cholesky` is for one penalty, `Eigen` for a path of penalties, and `ConjugateGradient` for Gram matrices of which only
products can be computed. Each factor has a `Report` about the computation; a LinAlgError is never raised.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dtrsv
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, backend_of, is_host, times_columns
from bochner.backends.threads import one_thread
from bochner.keys import Key
from bochner.linalg import Report as Report  # what a factor reports
from bochner.linalg import conjugate_gradient, nystrom_preconditioner
from bochner.operators import PSDOperator

_UNTHREADED = 2048  # up to this size more threads do not make factorisations faster


class Factor(ABC):
    """A factorisation of G + alpha I."""

    report: Report

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """(G + alpha I)⁻¹ B for B of shape (m,) or (m, k)."""

    @abstractmethod
    def logdet(self) -> float:
        """The logarithm of det(G + alpha I)."""


class RidgeSolver(ABC):
    """A way to factor G + alpha I."""

    @abstractmethod
    def factor(self, gram: PSDOperator, alpha: float) -> Factor:
        """Do the expensive part of the solution, which is needed only once."""


def _few_threads(m: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small systems."""
    return one_thread() if m <= _UNTHREADED else nullcontext()


def _scale(gram: PSDOperator, G: Any) -> tuple[float, float]:
    """The trace, an upper bound of the eigenvalues, and the size below which an eigenvalue is a rounding error."""
    trace = float(backend_of(G).fetch(G.diagonal()).sum())
    if not np.isfinite(trace):
        raise ValueError("the Gram matrix of the features is not finite; check the scale of the data.")
    return trace, max(gram.rounding, float(np.finfo(float).eps) * max(0.0, trace))


@dataclass(frozen=True)
class Cholesky(RidgeSolver):
    """G + alpha I = L Lᵀ: m³/3 operations, one penalty."""

    def factor(self, gram: PSDOperator, alpha: float) -> CholeskyFactor:
        with _few_threads(gram.shape[0]):
            G = gram.lower()
            norm, rounding = _scale(gram, G)
            jitter = max(0.0, rounding - alpha)
            while (L := backend_of(G).cholesky(G, alpha + jitter)) is None:
                jitter = max(10.0 * jitter, rounding, np.finfo(float).tiny / np.finfo(float).eps)
                if jitter > max(1.0, norm):
                    raise ValueError("the Gram matrix of the features is far from positive definite.")
                G = gram.lower()
            notes = () if is_host(L) else (f"factored on {L.device}",)
            condition = _condition(L, norm + alpha + jitter)
            report = Report("cholesky", converged=True, notes=notes, condition=condition, jitter=jitter)
            return CholeskyFactor(L, report)


def _condition(L: Any, norm: float) -> float:
    """The condition number of LLᵀ: its norm over its least eigenvalue, from three steps of inverse iteration.

    This is faster than LAPACK's estimate. On a device, where solving for one vector is slow, the pivots give a lower
    bound instead.
    """
    if not is_host(L):
        pivots = L.diagonal()
        return float((pivots.max() / pivots.min()) ** 2)
    v = np.where(np.arange(len(L)) % 2, -1.0, 1.0) * np.linspace(1.0, 2.0, len(L))
    size = float(np.linalg.norm(v))
    with one_thread():
        for _ in range(3):
            v = dtrsv(L, dtrsv(L, v / size, lower=1), lower=1, trans=1)
            size = float(np.linalg.norm(v))
            if not 0.0 < size < np.inf:
                return float("inf")
    return norm * size


@dataclass(frozen=True)
class CholeskyFactor(Factor):
    """The lower triangle L of G + alpha I = L Lᵀ, on any device; right-hand sides and solutions are host arrays."""

    L: Any
    report: Report

    def solve(self, B: Array) -> Array:
        backend = backend_of(self.L)
        columns = backend.place(np.asarray(B, dtype=np.float64).reshape(len(B), -1), self.L)
        return backend.fetch(backend.cholesky_solve(self.L, columns)).reshape(B.shape)

    def logdet(self) -> float:
        return float(2.0 * np.log(backend_of(self.L).fetch(self.L.diagonal())).sum())


@dataclass(frozen=True)
class Eigen(RidgeSolver):
    """G = V diag(λ) Vᵀ: about 9 m³ operations, after which every penalty costs m² (see `EigenFactor.at`)."""

    def factor(self, gram: PSDOperator, alpha: float) -> EigenFactor:
        G = gram.lower()
        backend, (_, rounding) = backend_of(G), _scale(gram, G)
        with _few_threads(len(G)):
            found = backend.eigh(G)
        if found is None:  # divide and conquer did not converge; the slower driver is more robust
            eigenvalues, vectors = eigh(backend.fetch(gram.lower()), driver="evr", lower=True, check_finite=False)
        else:
            eigenvalues, vectors = map(backend.fetch, found)
        return EigenFactor(np.where(eigenvalues > rounding, eigenvalues, 0.0), vectors, float(alpha))


@dataclass(frozen=True)
class EigenFactor(Factor):
    """Eigenvalues λ ≥ 0 (0 if they are below the rounding error), eigenvectors in the columns of V, and a penalty."""

    eigenvalues: Array
    vectors: Array
    alpha: float
    name: str = "eigen"

    def at(self, alpha: float) -> EigenFactor:
        """The factor for another penalty, at no cost."""
        return replace(self, alpha=float(alpha))

    @property
    def report(self) -> Report:  # type: ignore[override]
        low, high = self.eigenvalues[0] + self.alpha, self.eigenvalues[-1] + self.alpha
        return Report(self.name, converged=True, condition=float(high / low) if low > 0 else float("inf"))

    @property
    def inverse_eigenvalues(self) -> Array:
        """1 / (λ + alpha), or 0 where λ + alpha = 0, as in the pseudo-inverse."""
        shifted = self.eigenvalues + self.alpha
        return np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > 0)

    def solve(self, B: Array) -> Array:
        rotated = self.vectors.T @ B
        return np.asarray(self.vectors @ (self.inverse_eigenvalues.reshape(-1, *[1] * (rotated.ndim - 1)) * rotated))

    def logdet(self) -> float:
        return float(np.log(self.eigenvalues + self.alpha).sum())


Preconditioner = Callable[[Array], Array]


@dataclass(frozen=True)
class SampledPreconditioner:
    """P⁻¹ from the Gram matrix of a sample of rows, scaled up: Falkon's preconditioner (Rudi et al. 2017).

    It stores m × m numbers but needs no pass over the data. The numbers are L⁻¹, where LLᵀ = P, on any device: two
    products are faster there than two triangular solves.
    """

    inverse: Any

    @classmethod
    def of(cls, factor: CholeskyFactor) -> SampledPreconditioner:
        """The inverse of the matrix that was factored; the factor may be overwritten."""
        return cls(backend_of(factor.L).triangular_inverse(factor.L))

    def __call__(self, V: Array) -> Array:
        backend = backend_of(self.inverse)
        columns = backend.place(np.asarray(V, dtype=np.float64).reshape(len(V), -1), self.inverse)
        found = times_columns(self.inverse.T, times_columns(self.inverse, columns))
        return backend.fetch(found).reshape(V.shape)


@dataclass(frozen=True)
class ConjugateGradient(RidgeSolver):
    """Preconditioned conjugate gradients: one product with G per iteration, for all right-hand sides at once.

    Parameters
    ----------
    tol : float
        Stop when the norm of the residual is at most this share of that of the right-hand side.
    max_iter : int
    rank : int or None
        Rank of the Nyström preconditioner; None takes a tenth of m, between 200 and 1,000.
    preconditioner : callable or None
        The function V ↦ P⁻¹V, used instead of a Nyström preconditioner.
    key : Key
        For the random vectors of the Nyström preconditioner.
    """

    tol: float = 1e-7
    max_iter: int = 200
    rank: int | None = None
    preconditioner: Preconditioner | None = None
    key: Key = field(default_factory=lambda: Key(0))

    def factor(self, gram: PSDOperator, alpha: float) -> ConjugateGradientFactor:
        m = gram.shape[0]
        P = self.preconditioner
        if P is None:
            rank = min(m, int(np.clip(m // 10, 200, 1000)) if self.rank is None else self.rank)
            P = nystrom_preconditioner(gram, max(alpha, np.finfo(float).tiny), rank, random_state=self.key)
        return ConjugateGradientFactor(gram, float(alpha), P, self.tol, self.max_iter)


@dataclass
class ConjugateGradientFactor(Factor):
    """The operator and its preconditioner; `report` describes the last solve."""

    gram: PSDOperator
    alpha: float
    preconditioner: Preconditioner
    tol: float
    max_iter: int
    report: Report = field(default_factory=lambda: Report("cg"))

    def solve(self, B: Array) -> Array:
        solution, report = conjugate_gradient(
            lambda V: self.gram @ V + self.alpha * V,
            np.asarray(B, dtype=np.float64),
            preconditioner=self.preconditioner,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if not report.converged:
            warnings.warn(
                f"conjugate gradients stopped after {report.iterations} passes with a relative residual of "
                f"{report.residual:.1e} (asked for: {self.tol:.0e}). Increase alpha, or use float64 data.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.report = Report("cg", iterations=report.iterations, converged=report.converged, notes=report.notes)
        return solution

    def logdet(self) -> float:
        raise ValueError(
            "conjugate gradients give no determinant; use solver='eigen' or 'cholesky', or fewer components."
        )


# the names that models use; a new solver is added here
SOLVERS: dict[str, type[RidgeSolver]] = {"cholesky": Cholesky, "eigen": Eigen, "cg": ConjugateGradient}


def memory_available() -> int:
    """Bytes that may be allocated now; 4 GiB if the system does not tell."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 << 30
