"""Solvers of (G + alpha I) w = c: factor once, then solve, measure and take the determinant cheaply.

`Cholesky` for one penalty, `Eigen` for a path of penalties, `ConjugateGradient` for Gram matrices that are known by
their products alone. A factor carries a `Report` of how it went; no LinAlgError leaves this module.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, eigh, solve_triangular
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf, dtrtri
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, backend_of, n_threads
from bochner.backends.threads import each, one_thread
from bochner.keys import Key
from bochner.linalg import conjugate_gradient, nystrom_preconditioner
from bochner.operators import PSDOperator

_PANEL = 512  # columns that LAPACK factors at a time
_TILE = 256  # rows and columns of a product on one thread
_RIGHT = 16  # right sides solved for at a time
_STEP = 128  # columns solved for at a time, by the inverse of their triangle
_UNTHREADED = 2048  # up to this size factorisations gain nothing from threads


@dataclass(frozen=True)
class Report:
    """How a system was solved.

    Attributes
    ----------
    solver : str
    condition : float
        Estimated condition number of G + alpha I; nan when unknown.
    jitter : float
        What had to be added to alpha so that rounding does not make the matrix indefinite.
    iterations : int
        Passes over the Gram matrix; 0 for direct solvers.
    converged : bool
    notes : tuple of str
        Choices made on the user's behalf, in words.
    """

    solver: str
    condition: float = float("nan")
    jitter: float = 0.0
    iterations: int = 0
    converged: bool = True
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Report:
        """The same report with more notes."""
        return replace(self, notes=(*self.notes, *notes))


class Factor(ABC):
    """(G + alpha I), ready to be solved with."""

    report: Report

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """(G + alpha I)⁻¹ B for B of shape (m,) or (m, k)."""

    @abstractmethod
    def quadratic_form(self, Z: Array) -> Array:
        """zᵀ (G + alpha I)⁻¹ z for every row z of Z (n, m)."""

    @abstractmethod
    def logdet(self) -> float:
        """The logarithm of det(G + alpha I)."""


class RidgeSolver(ABC):
    """A way to factor G + alpha I."""

    @abstractmethod
    def factor(self, gram: PSDOperator, alpha: float) -> Factor:
        """Do the expensive part, once."""


def _few_threads(m: int) -> AbstractContextManager[None]:
    """One thread of BLAS for small systems."""
    return one_thread() if m <= _UNTHREADED else nullcontext()


def _rounding(gram: PSDOperator, trace: float) -> float:
    """Below this an eigenvalue is rounding: of the sums, or of the factorisation."""
    return max(gram.rounding, float(np.finfo(float).eps) * max(0.0, trace))


@dataclass(frozen=True)
class Cholesky(RidgeSolver):
    """G + alpha I = L Lᵀ: m³/3 operations, one penalty."""

    def factor(self, gram: PSDOperator, alpha: float) -> CholeskyFactor | DeviceCholeskyFactor:
        there = gram.on_device()
        if there is not None:
            return _device_cholesky(gram, there, alpha)
        with _few_threads(gram.shape[0]):
            return self._factor_here(gram, alpha)

    def _factor_here(self, gram: PSDOperator, alpha: float) -> CholeskyFactor:
        G = gram.lower()
        diagonal = np.diagonal(G).copy()
        norm = float(diagonal.sum())  # of the largest eigenvalue, from above
        if not np.isfinite(norm):
            raise ValueError("the Gram matrix of the features is not finite; check the scale of the data.")
        rounding = _rounding(gram, norm)
        jitter = max(0.0, rounding - alpha)
        while True:
            np.einsum("ii->i", G)[:] = diagonal + (alpha + jitter)
            if factor_in_place(G):
                break
            jitter = max(10.0 * jitter, rounding, np.finfo(float).tiny / np.finfo(float).eps)
            if jitter > max(1.0, norm):
                raise ValueError("the Gram matrix of the features is far from positive definite.")
            G = gram.lower()
        return CholeskyFactor(G, Report("cholesky", _condition(G, norm + alpha + jitter), jitter))


def _condition(L: Array, norm: float) -> float:
    """The norm of LLᵀ over its least eigenvalue by three steps of inverse iteration: a fourth of dpocon's time."""
    v = np.where(np.arange(len(L)) % 2, -1.0, 1.0) * np.linspace(1.0, 2.0, len(L))
    size = float(np.linalg.norm(v))
    with one_thread():
        for _ in range(3):
            v = dtrsv(L, dtrsv(L, v / size, lower=1), lower=1, trans=1)
            size = float(np.linalg.norm(v))
            if not 0.0 < size < np.inf:
                return float("inf")
    return norm * size


def factor_in_place(G: Array) -> bool:
    """Turn the lower triangle of G (m, m) into its Cholesky factor and clear the rest; tell whether there is one.

    Halves, until LAPACK takes over; what links them is pieces and tiles, each on one thread.
    """
    m = len(G)
    if m <= _PANEL:
        with one_thread():
            L, failed = dpotrf(G, lower=1, clean=1, overwrite_a=1)
        if not np.may_share_memory(L, G):  # a part of a larger matrix is copied on the way
            G[:] = L
        return not failed
    half = m // 2 // _STEP * _STEP
    L, below, corner = G[:half, :half], G[half:, :half], G[half:, half:]
    if not factor_in_place(L):
        return False
    steps = [slice(start, start + _STEP) for start in range(0, half, _STEP)]
    with one_thread():
        inverses = [dtrtri(L[step, step], lower=1)[0] for step in steps]

    # transposed: G is stored by columns, and products come by rows
    def solve(rows: slice) -> None:
        B = below[rows].T
        for step, inverse in zip(steps, inverses, strict=True):
            B[step] = inverse @ (B[step] - L[step, : step.start] @ B[: step.start])

    def subtract(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        corner[rows, columns].T[:] -= below[columns] @ below[rows].T

    parts = [slice(start, start + _TILE) for start in range(0, m - half, _TILE)]
    with one_thread():
        each(solve, parts, n_threads())
        each(subtract, [(a, b) for i, a in enumerate(parts) for b in parts[: i + 1]], n_threads())
    G[:half, half:] = 0.0
    return factor_in_place(corner)


@dataclass(frozen=True)
class CholeskyFactor(Factor):
    """The lower triangle L of G + alpha I = L Lᵀ."""

    L: Array
    report: Report

    def solve(self, B: Array) -> Array:
        found = np.empty(B.shape)
        columns, out = B.reshape(len(B), -1), found.reshape(len(B), -1)

        def solve(part: slice) -> None:
            out[:, part] = cho_solve((self.L, True), columns[:, part], check_finite=False)

        with one_thread():
            each(solve, [slice(start, start + _RIGHT) for start in range(0, columns.shape[1], _RIGHT)], n_threads())
        return found

    def quadratic_form(self, Z: Array) -> Array:
        half = solve_triangular(self.L, np.asarray(Z, dtype=np.float64).T, lower=True, check_finite=False)
        return np.einsum("ij,ij->j", half, half)

    def logdet(self) -> float:
        return float(2.0 * np.log(np.diagonal(self.L)).sum())


@dataclass(frozen=True)
class Eigen(RidgeSolver):
    """G = V diag(λ) Vᵀ: some 9 m³ operations, then every penalty costs m² (see `EigenFactor.at`)."""

    def factor(self, gram: PSDOperator, alpha: float) -> EigenFactor:
        there = gram.on_device()
        if there is not None:
            return _device_eigen(gram, there, alpha)
        G = gram.lower()
        norm = float(np.trace(G))
        if not np.isfinite(norm):
            raise ValueError("the Gram matrix of the features is not finite; check the scale of the data.")
        rounding = _rounding(gram, norm)
        try:
            with _few_threads(len(G)):
                eigenvalues, vectors = eigh(G, driver="evd", lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:  # divide and conquer gave up: the slower driver does not
            eigenvalues, vectors = eigh(gram.lower(), driver="evr", lower=True, check_finite=False)
        return EigenFactor(np.where(eigenvalues > rounding, eigenvalues, 0.0), vectors, float(alpha))


@dataclass(frozen=True)
class EigenFactor(Factor):
    """Eigenvalues λ ≥ 0 (those below rounding are 0), eigenvectors V in columns, and a penalty."""

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
        return Report(self.name, float(high / low) if low > 0 else float("inf"))

    @property
    def _inverse(self) -> Array:
        """1 / (λ + alpha), and 0 in directions of eigenvalue 0 without penalty: the pseudo-inverse."""
        shifted = self.eigenvalues + self.alpha
        return np.divide(1.0, shifted, out=np.zeros_like(shifted), where=shifted > 0)

    def solve(self, B: Array) -> Array:
        rotated = self.vectors.T @ B
        return np.asarray(self.vectors @ (self._inverse.reshape(-1, *[1] * (rotated.ndim - 1)) * rotated))

    def quadratic_form(self, Z: Array) -> Array:
        rotated = Z @ self.vectors
        return np.asarray((rotated * rotated) @ self._inverse)

    def logdet(self) -> float:
        return float(np.log(self.eigenvalues + self.alpha).sum())


def _device_cholesky(gram: PSDOperator, G: Any, alpha: float) -> DeviceCholeskyFactor:
    """As `Cholesky.factor`, of a tensor G that may be overwritten."""
    xp = backend_of(G).xp
    diagonal = G.diagonal().clone()
    norm = float(diagonal.sum())
    if not np.isfinite(norm):
        raise ValueError("the Gram matrix of the features is not finite; check the scale of the data.")
    rounding = _rounding(gram, norm)
    jitter = max(0.0, rounding - alpha)
    while True:
        G.diagonal().copy_(diagonal + (alpha + jitter))
        L, failed = xp.linalg.cholesky_ex(G)
        if not int(failed):
            break
        jitter = max(10.0 * jitter, rounding, np.finfo(float).tiny / np.finfo(float).eps)
        if jitter > max(1.0, norm):
            raise ValueError("the Gram matrix of the features is far from positive definite.")
    pivots = L.diagonal()
    condition = float((pivots.max() / pivots.min()) ** 2)  # from below
    return DeviceCholeskyFactor(L, Report("cholesky", condition, jitter, notes=(f"factored on {G.device}",)))


@dataclass(frozen=True)
class DeviceCholeskyFactor(Factor):
    """A Cholesky factor on a device; right sides and solutions are host arrays."""

    L: Any
    report: Report

    def solve(self, B: Array) -> Array:
        backend = backend_of(self.L)
        right = backend.place(np.asarray(B, dtype=np.float64).reshape(len(B), -1), self.L)
        return backend.fetch(backend.xp.cholesky_solve(right, self.L)).reshape(B.shape)

    def quadratic_form(self, Z: Array) -> Array:
        backend = backend_of(self.L)
        columns = backend.place(np.asarray(Z, dtype=np.float64).T, self.L)
        half = backend.xp.linalg.solve_triangular(self.L, columns, upper=False)
        return backend.fetch((half * half).sum(0))

    def logdet(self) -> float:
        return float(2.0 * self.L.diagonal().log().sum())


def _device_eigen(gram: PSDOperator, G: Any, alpha: float) -> EigenFactor:
    """As `Eigen.factor`, of a tensor G; the factor is host arrays."""
    backend = backend_of(G)
    norm = float(G.diagonal().sum())
    if not np.isfinite(norm):
        raise ValueError("the Gram matrix of the features is not finite; check the scale of the data.")
    eigenvalues, vectors = (backend.fetch(part) for part in backend.xp.linalg.eigh(G))
    rounding = _rounding(gram, norm)
    return EigenFactor(np.where(eigenvalues > rounding, eigenvalues, 0.0), vectors, float(alpha))


Preconditioner = Callable[[Array], Array]


@dataclass(frozen=True)
class SampledPreconditioner:
    """P⁻¹ from the Gram matrix of a sample of rows, scaled up: Falkon's preconditioner (Rudi et al. 2017).

    Holds m × m numbers, but costs no pass over the data.
    """

    factor: Factor

    def __call__(self, V: Array) -> Array:
        return self.factor.solve(V)


@dataclass(frozen=True)
class ConjugateGradient(RidgeSolver):
    """Preconditioned conjugate gradients: one product with G an iteration, all right sides at once.

    Parameters
    ----------
    tol : float
        Stop when the residual is this small beside the right side.
    max_iter : int
    rank : int or None
        Rank of the Nyström preconditioner; None takes a tenth of m, between 200 and 1,000.
    preconditioner : callable or None
        V ↦ P⁻¹V instead of a Nyström preconditioner.
    key : Key
        Of the preconditioner's random vectors.
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

    def quadratic_form(self, Z: Array) -> Array:
        columns = np.asarray(Z, dtype=np.float64).T
        return np.einsum("ij,ij->j", columns, self.solve(columns))

    def logdet(self) -> float:
        raise ValueError(
            "conjugate gradients give no determinant; use solver='eigen' or 'cholesky', or fewer components."
        )


def memory_available() -> int:
    """Bytes that may be allocated now; 4 GiB where the system does not say."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 << 30
