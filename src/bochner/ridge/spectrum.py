"""Ridge regression with every penalty at once: solutions, GCV and evidence from one eigendecomposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import Array
from bochner.ridge.solvers import EigenFactor

_CONSTANT = 1e6  # a penalty this many times the largest eigenvalue leaves a millionth of what is explained


@dataclass(frozen=True)
class RidgeSpectrum:
    """Ridge regression with every penalty at once. Arguments `alphas` are (a,), results (a,) or (a, k).

    Attributes
    ----------
    factor : EigenFactor
        Eigenvalues and eigenvectors of the (centred) Gram matrix.
    moment : ndarray of shape (m, k)
        The right side in the eigenbasis.
    target_squares : ndarray of shape (k,)
        Sum of squares of the (centred) targets.
    n_samples : float
        Degrees of freedom of the data: rows, less one for an intercept.
    amplitude : float
        Mean of w ‖z‖² = mean of w k(x, x): the unit of alpha.
    """

    factor: EigenFactor
    moment: Array
    target_squares: Array
    n_samples: float
    amplitude: float

    def coefficients(self, alpha: float) -> Array:
        """Return weights w (m, k) of the features."""
        return self.factor.vectors @ (self.factor.at(alpha).inverse_eigenvalues[:, None] * self.moment)

    def effective_dimension(self, alphas: ArrayLike) -> Array:
        """Return Σ λ / (λ + alpha)."""
        λ = self.factor.eigenvalues
        λ = λ[λ > 0]
        return np.asarray((λ / (λ + np.reshape(alphas, (-1, 1)))).sum(axis=1))

    def _explained(self) -> tuple[Array, Array, Array]:
        """Return λ > 0, squared moments in those directions over λ, and the squares ≥ 0 that no penalty explains."""
        keep = self.factor.eigenvalues > 0
        λ = self.factor.eigenvalues[keep]
        parts = self.moment[keep] ** 2 / λ[:, None]
        rest = self.target_squares - parts.sum(axis=0)
        # with more than n directions nothing is left; sums below rounding are zero
        rest = np.where((rest > 1e-14 * self.target_squares) & (len(λ) < self.n_samples), rest, 0.0)
        return λ, parts, rest

    def residual_squares(self, alphas: ArrayLike) -> Array:
        """Return Σ w (y - ŷ)² on the training rows, (a, k)."""
        λ, parts, rest = self._explained()
        share = np.reshape(alphas, (-1, 1)) / (λ + np.reshape(alphas, (-1, 1)))
        return np.asarray(rest + (share * share) @ parts)

    def gcv(self, alphas: ArrayLike) -> Array:
        """Estimate the mean squared error of a new row, (a, k), by GCV (Golub, Heath & Wahba 1979)."""
        freedom = self.n_samples - self.effective_dimension(alphas)
        freedom = np.maximum(freedom, 1e-9 * max(self.n_samples, 1.0))
        return np.asarray(self.n_samples * self.residual_squares(alphas) / freedom[:, None] ** 2)

    def penalised_squares(self, alphas: ArrayLike) -> Array:
        """Return yᵀ(ZZᵀ/alpha + I)⁻¹y = residual squares + alpha ‖w‖², (a, k)."""
        λ, parts, rest = self._explained()
        α = np.reshape(alphas, (-1, 1))
        return np.asarray(rest + (α / (λ + α)) @ parts)

    def log_evidence(self, alphas: ArrayLike, noise_variance: ArrayLike | None = None) -> Array:
        """Return the log marginal likelihood of y = Zw + noise, w ~ N(0, noise_variance / alpha), (a, k).

        An intercept has a flat prior. Without `noise_variance` (a number, or one for each target) the most likely one
        of each penalty and target is used: `penalised_squares / n_samples`.
        """
        logdet = np.log1p(self.factor.eigenvalues / np.reshape(alphas, (-1, 1))).sum(axis=1)[:, None]
        return log_evidence(self.penalised_squares(alphas), logdet, self.n_samples, noise_variance)

    def grid(self) -> Array:
        """Return penalties to try: four a decade from the size of rounding errors, and one for a constant model."""
        λ = self.factor.eigenvalues
        low = max(1e-8 * self.amplitude, np.finfo(float).eps * float(λ.sum()), np.finfo(float).tiny)
        high = max(10.0 * float(λ[-1]) if len(λ) else 1.0, self.amplitude, 1e3 * low)
        return np.append(np.geomspace(low, high, 2 + int(4.0 * np.log10(high / low))), _CONSTANT * high)

    @property
    def target_variance(self) -> Array:
        """Return the variance of each target, (k,); 1 for a constant one."""
        return np.where(self.target_squares > 0, self.target_squares / max(self.n_samples, 1.0), 1.0)

    def criterion(self, name: str) -> Callable[[Array], Array]:
        """Return a function of alphas to be minimised, (a,): over targets, each in units of its own variance."""
        if name == "gcv":
            return lambda alphas: (self.gcv(alphas) / self.target_variance).mean(axis=1)
        if name == "evidence":
            varying = self.target_squares > 0  # the likelihood of a constant target is infinite
            return lambda alphas: -self.log_evidence(alphas)[:, varying].sum(axis=1)
        raise ValueError(f"no criterion is called {name!r}.")

    def best(self, name: str | Callable[[Array], Array], alphas: Array | None = None) -> tuple[float, Array, Array]:
        """Return the penalty that minimises a criterion, and the path (alphas, values) it was found on.

        The criterion is "gcv", "evidence" or a function of alphas. With `alphas` None, the best of a grid is refined
        between its neighbours by a parabola.
        """
        criterion = self.criterion(name) if isinstance(name, str) else name
        grid = self.grid() if alphas is None else alphas
        values = criterion(grid)
        i = len(values) - 1 - int(np.argmin(values[::-1]))  # of equal ones the largest penalty
        if alphas is not None or not np.isfinite(values[i]):
            return float(grid[i]), grid, values
        return float(grid[i] * (grid[1] / grid[0]) ** vertex(values[max(i - 1, 0) : i + 2])), grid, values


def leave_one_out(residual: Array, leverage: Array, least: float = 1e-12) -> Array:
    """Return residuals (y - ŷ) / (1 - h) of rows left out one at a time, from residuals (..., k), leverages (...).

    The leverage h = zᵀ(G + alpha I)⁻¹z, plus one over the number of rows for an intercept, is the weight of a row's own
    target in its prediction. `least` bounds 1 - h from below, against rounding.
    """
    return np.asarray(residual / np.maximum(1.0 - leverage, least)[..., None])


def log_evidence(
    squares: Array, logdet: float | Array, n_samples: float, noise_variance: ArrayLike | None = None
) -> Array:
    """Return the log marginal likelihood of n_samples rows: y ~ N(0, noise_variance (ZZᵀ/alpha + I)).

    From squares yᵀ(ZZᵀ/alpha + I)⁻¹y and logdet = log det(ZZᵀ/alpha + I). Without `noise_variance` the most likely
    one is used, squares / n_samples.
    """
    if noise_variance is None:
        noise_variance = np.maximum(squares, np.finfo(float).tiny) / max(n_samples, 1.0)
    variance = np.broadcast_to(np.asarray(noise_variance, dtype=float), squares.shape)
    fit = n_samples * np.log(2.0 * np.pi * variance) + squares / variance
    return np.asarray(-0.5 * (fit + logdet))


def vertex(values: Array | Sequence[float]) -> float:
    """Return the minimum of the parabola through three equally spaced values, in steps from the middle one."""
    if len(values) < 3:
        return 0.0
    left, middle, right = values
    curvature = left - 2.0 * middle + right
    return float(np.clip(0.5 * (left - right) / curvature, -1.0, 1.0)) if curvature > 0 else 0.0
