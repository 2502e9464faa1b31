"""Solvers of (G + alpha I) w = c: factor once, then solve and compute the determinant cheaply.

`Cholesky` is for one penalty, `Eigen` for a path of penalties, and `ConjugateGradient` for Gram matrices of which only
products can be computed; `StochasticGradient` takes its steps from few rows at a time. Each factor has a `Report` about
the computation; a LinAlgError is never raised.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.blas import dtrsv
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, backend_of, is_host, times_columns
from bochner.backends.threads import one_thread
from bochner.checks import warn
from bochner.draws.keys import Key
from bochner.draws.linear_maps import PSDOperator
from bochner.ridge.krylov import conjugate_gradient
from bochner.ridge.preconditioners import nystrom_preconditioner
from bochner.ridge.reports import Report as Report

_UNTHREADED = 2048  # size up to which more threads do not make factorisations faster


class Factor(ABC):
    """A factorisation of G + alpha I."""

    report: Report

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """Return (G + alpha I)⁻¹ B for B of shape (m,) or (m, k)."""

    @abstractmethod
    def logdet(self) -> float:
        """Return the logarithm of det(G + alpha I)."""


class RidgeSolver(ABC):
    """A way to factor G + alpha I."""

    needs_sums: ClassVar[bool] = True  # False: products with G and its rows suffice, and G is never formed

    @abstractmethod
    def factor(self, gram: PSDOperator, alpha: float) -> Factor:
        """Do the expensive part of the solution, which is needed only once."""


def _few_threads(m: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for small systems."""
    return one_thread() if m <= _UNTHREADED else nullcontext()


def _scale(gram: PSDOperator, G: Array) -> tuple[float, float]:
    """Return the trace, which bounds the eigenvalues, and the size below which an eigenvalue is a rounding error."""
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


def _condition(L: Array, norm: float) -> float:
    """Estimate the condition number of LLᵀ, its norm over its least eigenvalue, by three steps of inverse iteration.

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

    L: Array
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
        """Return the factor for another penalty, at no cost."""
        return replace(self, alpha=float(alpha))

    @property
    def report(self) -> Report:  # type: ignore[override]
        low, high = self.eigenvalues[0] + self.alpha, self.eigenvalues[-1] + self.alpha
        return Report(self.name, converged=True, condition=float(high / low) if low > 0 else float("inf"))

    @property
    def inverse_eigenvalues(self) -> Array:
        """Return 1 / (λ + alpha), or 0 where λ + alpha = 0, as in the pseudo-inverse."""
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

    inverse: Array

    @classmethod
    def of(cls, factor: CholeskyFactor) -> SampledPreconditioner:
        """Make the inverse of the matrix that was factored; the factor may be overwritten."""
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
        At most this many iterations.
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

    needs_sums: ClassVar[bool] = False

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
            warn(
                f"conjugate gradients stopped after {report.iterations} passes with a relative residual of "
                f"{report.residual:.1e} (asked for: {self.tol:.0e}). Increase alpha, or use float64 data.",
                ConvergenceWarning,
            )
        self.report = Report("cg", iterations=report.iterations, converged=report.converged, notes=report.notes)
        return solution

    def logdet(self) -> float:
        raise ValueError(
            "conjugate gradients give no determinant; use solver='eigen' or 'cholesky', or fewer components."
        )


@dataclass(frozen=True)
class StochasticGradient(RidgeSolver):
    """Averaged stochastic gradient descent, mini-batch by mini-batch, with a step size that needs no tuning.

    A sweep over the rows takes one step for every mini-batch of b rows and returns the mean of the later half of its
    iterates. With R² the largest squared norm of a row and L the largest eigenvalue of the rows' mean zzᵀ, which power
    iteration estimates, the step size is b / (R² + (b - 1) L), and b = R² / L: larger batches need more passes (Jain et
    al. 2018). A sweep starts from the exact residual of the last one, so that its gradients have no noise at the
    solution (Johnson & Zhang 2013), and ends with a line search. It thus converges to the solution of G + alpha I for
    rows in any order.

    Parameters
    ----------
    tol : float
        Stop when the predictions Zw of the rows are at most this far from those of the solution w*, relative to the
        latter: ‖Z(w - w*)‖² ≤ ‖residual‖² / alpha ≤ tol² cᵀw*, where cᵀw* ≥ ‖Zw*‖².
    max_iter : int
        Largest number of passes over the rows: two for every sweep.
    key : Key
        For the order of the rows within their blocks.

    References
    ----------
    Jain, Kakade, Kidambi, Netrapalli & Sidford (2018), "Parallelizing stochastic gradient descent for least squares
    regression: mini-batching, averaging, and model misspecification", JMLR 18. Johnson & Zhang (2013), "Accelerating
    stochastic gradient descent using predictive variance reduction", NeurIPS.
    """

    tol: float = 1e-2
    max_iter: int = 200
    key: Key = field(default_factory=lambda: Key(0))

    needs_sums: ClassVar[bool] = False

    def factor(self, gram: PSDOperator, alpha: float) -> StochasticGradientFactor:
        if not alpha > 0.0:
            raise ValueError(
                f"stochastic gradient descent needs a penalty alpha > 0, got {alpha:g}: it measures its distance from "
                "the solution by it. Use solver='cg' or 'cholesky'."
            )
        n, largest = 0, 0.0
        for Z, weight in gram.row_blocks():
            squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64) * (1.0 if weight is None else weight)
            n, largest = n + len(Z), max(largest, float(squares.max(initial=0.0)))
        v, norm = self.key.child("power").generator().normal(size=gram.shape[0]), 0.0
        for _ in range(_POWER_STEPS):
            v /= np.linalg.norm(v) or 1.0
            product = gram @ v
            norm, v = float(v @ product) / n, product
        norm = max(norm, largest / _MOST_ROWS)
        rows = int(np.ceil(largest / norm)) if norm else 1
        step = rows / (largest + (rows - 1) * norm + rows * alpha / n)
        passes = 1 + _POWER_STEPS
        return StochasticGradientFactor(gram, float(alpha), n, rows, step, passes, self.tol, self.max_iter, self.key)


_POWER_STEPS = 4  # steps of power iteration; half of the eigenvalue would still make the step stable
_MOST_ROWS = 4096  # largest number of rows in a mini-batch


@dataclass
class StochasticGradientFactor(Factor):
    """The operator, rows in a mini-batch, and the step size for means over rows; `report` describes the last solve."""

    gram: PSDOperator
    alpha: float
    n_rows: int
    batch_rows: int
    step: float
    passes: int  # passes that were needed to find the step
    tol: float
    max_iter: int
    key: Key
    report: Report = field(default_factory=lambda: Report("sgd"))

    def solve(self, B: Array) -> Array:
        right = np.array(B, dtype=np.float64).reshape(len(B), -1)
        W, residual, step = np.zeros_like(right), right.copy(), self.step
        passes, distance = self.passes, float(right.any())
        draw = self.key.child("order").generator()
        while distance > self.tol and passes + 2 <= self.max_iter:
            passes += 2
            direction = self._sweep(residual, step, draw)
            if not np.isfinite(direction).all():
                step *= 0.5
                continue
            product = self.gram @ direction + self.alpha * direction
            curvature, descent = (direction * product).sum(axis=0), (direction * residual).sum(axis=0)
            if (descent < 0.0).any():
                step *= 0.5
            length = np.divide(descent, curvature, out=np.zeros_like(curvature), where=(curvature > 0) & (descent > 0))
            W += length * direction
            residual -= length * product
            # with A = G + alpha I: the squared distance in A, rᵀA⁻¹r, is at most ‖r‖² / alpha, and the squared norm of
            # the solution, cᵀA⁻¹c, is at least 2cᵀw - wᵀAw = (c + r)ᵀw for any w
            squares, norms = (residual**2).sum(axis=0) / self.alpha, ((right + residual) * W).sum(axis=0)
            shares = np.divide(squares, norms, out=np.full_like(norms, np.inf), where=norms > 0)
            distance = float(np.sqrt(np.where(right.any(axis=0), shares, 0.0).max()))
        self.report = Report("sgd", passes, distance <= self.tol, distance)
        if not self.report.converged:
            warn(
                f"stochastic gradient descent stopped after {passes} passes, where predictions may still differ from "
                f"those of the solution by a share of {distance:.1e} (asked for: {self.tol:.0e}). Increase alpha, or "
                "use solver='cg'.",
                ConvergenceWarning,
            )
        return W.reshape(B.shape)

    def _sweep(self, residual: Array, step: float, draw: np.random.Generator) -> Array:
        """Return the mean over the later half of a sweep from zero that solves for the residual."""
        iterate, total = np.zeros_like(residual), np.zeros_like(residual)
        seen = summed = 0
        step, constant = step / self.batch_rows, residual / self.n_rows
        with _few_threads(len(residual)), np.errstate(over="ignore", invalid="ignore"):
            for Z, weight in self.gram.row_blocks():
                for part in np.array_split(draw.permutation(len(Z)), -(-len(Z) // self.batch_rows)):
                    A = Z[part].astype(np.float64, copy=False)
                    products = A @ iterate
                    products *= 1.0 if weight is None else weight[part, None]
                    gradient = A.T @ products
                    gradient += len(part) * (self.alpha / self.n_rows * iterate - constant)
                    iterate -= step * gradient
                    seen += len(part)
                    if 2 * seen > self.n_rows:
                        total += len(part) * iterate
                        summed += len(part)
        return total / summed

    def logdet(self) -> float:
        raise ValueError(
            "gradient descent gives no determinant; use solver='eigen' or 'cholesky', or fewer components."
        )


# the names that models use; a new solver is added here
SOLVERS: dict[str, type[RidgeSolver]] = {
    "cholesky": Cholesky,
    "eigen": Eigen,
    "cg": ConjugateGradient,
    "sgd": StochasticGradient,
}


def needs_sums(solver: str | RidgeSolver) -> bool:
    """Return True if a solver, or the one of that name, needs the m × m sums."""
    return (SOLVERS[solver] if isinstance(solver, str) else solver).needs_sums


def memory_available() -> int:
    """Return the bytes that may be allocated now; 4 GiB if the system does not tell."""
    try:
        with open("/proc/meminfo") as file:  # noqa: PTH123
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 << 30
