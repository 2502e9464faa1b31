"""The marginal likelihood (evidence) of Gaussian processes on features, and the hyperparameters that maximise it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from bochner.backends import Array
from bochner.kernels.algebra import Kernel
from bochner.ridge.solvers import Cholesky
from bochner.ridge.spectrum import RidgeSpectrum, log_evidence
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.policies import LikelihoodPolicy

POLICY = LikelihoodPolicy()


def noise_shares(rest: Array, weight: Array, alpha: float) -> Array:
    """Noise over noise plus `rest`, (n,): 1 where the features leave nothing of the kernel out.

    The noise of a row of weight w is alpha / w; `rest` has no weight.
    """
    return 1.0 / (1.0 + weight * rest / alpha) if alpha > 0 else np.ones(len(rest))


@dataclass(frozen=True)
class MarginalLikelihood:
    """The evidence of y = b + Zw + noise as a function of alpha, the noise variance over the amplitude.

    Weights are w ~ N(0, amplitude I), and b has a flat prior where there is an intercept. The noise variance or the
    amplitude may be given; None is the likeliest one of each target.
    """

    noise_variance: float | None
    amplitude: float | None
    fit_intercept: bool

    @property
    def given_alpha(self) -> float | None:
        """Alpha if both variances are given."""
        if self.noise_variance is None or self.amplitude is None:
            return None
        return self.noise_variance / self.amplitude

    def noise(self, spectrum: RidgeSpectrum, alphas: Any) -> Array:
        """Return the noise variance for each penalty and target, (a, k)."""
        squares = spectrum.penalised_squares(alphas)
        return self._noise(squares, np.reshape(alphas, (-1, 1)), spectrum.n_samples, spectrum.target_squares)

    def _noise(self, squares: Array, alphas: Any, count: float, total: Array) -> Array:
        """Return the noise variance: given, alpha times a given amplitude, or the likeliest above rounding errors.

        The least is a share of `total`, the squares of the targets: with none, the amplitude, noise over alpha, of
        targets without noise falls as one over the number of rows, since alpha cannot fall with the noise.
        """
        if self.noise_variance is not None:
            return np.full(squares.shape, self.noise_variance)
        if self.amplitude is not None:
            return np.broadcast_to(self.amplitude * np.asarray(alphas), squares.shape)
        return np.maximum(np.maximum(squares, POLICY.least_noise * total) / max(count, 1.0), np.finfo(float).tiny)

    def __call__(self, spectrum: RidgeSpectrum, alphas: Any) -> Array:
        """Log evidence of penalties, (a, k); 0 for a constant target, whose evidence is meaningless."""
        return spectrum.log_evidence(alphas, self.noise(spectrum, alphas)) * (spectrum.target_squares > 0)

    def of_sums(self, statistics: RidgeStatistics, alpha: float) -> tuple[float, int]:
        """Log evidence of a penalty, summed over targets that are not constant, and the number of these targets.

        The same as from a spectrum in a fraction of the time, if differences of large numbers leave enough digits.
        """
        total = statistics.total_squares(self.fit_intercept)
        varying = total > 0
        factor = Cholesky().factor(statistics.operator(self.fit_intercept), alpha)
        right = statistics.right_side(self.fit_intercept)
        squares = total - (right * factor.solve(right)).sum(axis=0)
        if factor.report.jitter or factor.report.condition > 1e8 or (squares < 1e-4 * total)[varying].any():
            return float(self(statistics.spectrum(self.fit_intercept), [alpha]).sum()), int(varying.sum())
        count = statistics.n_samples - float(self.fit_intercept)
        logdet = factor.logdet() - len(right) * np.log(alpha)
        evidence = log_evidence(squares, logdet, count, self._noise(squares, alpha, count, total))
        return float(evidence[varying].sum()), int(varying.sum())

    def grid(self, spectrum: RidgeSpectrum, least: float = POLICY.least_alpha) -> Array:
        """Return a grid of penalties, four a decade, wide enough to contain the one of most evidence.

        `least` is that of targets without noise, over the variance of the prior; rounding errors may allow only more.
        If either the noise or the amplitude is given, the grid for the other follows the scale of the targets.
        """
        grid = spectrum.grid()
        λ = spectrum.factor.eigenvalues[spectrum.factor.eigenvalues > 0]
        squares = spectrum.target_squares[spectrum.target_squares > 0]
        noise, amplitude = self.noise_variance, self.amplitude
        if not len(λ) or not len(squares) or self.given_alpha is not None:
            return grid
        ends = [grid[0], grid[-1]]
        if noise is None and amplitude is None:
            ends += [max(least * spectrum.amplitude, np.finfo(float).eps * float(λ.sum()))]
        if noise is not None:  # with an amplitude of squares / λ, one direction explains all squares
            ends += [0.1 * noise * λ.min() / squares.max(), 1e4 * λ.max()]
        if amplitude is not None:  # from the unexplained variance to the whole variance of the targets
            rest = spectrum.penalised_squares([0.0])
            variances = np.append(rest[rest > 0], squares) / max(spectrum.n_samples, 1.0) / amplitude
            ends += [0.1 * variances.min(), 10.0 * variances.max()]
        low, high = np.log10([max(min(ends), np.finfo(float).tiny), max(ends)])
        grid = np.logspace(low, high, 2 + int(4.0 * (high - low)))
        if noise is not None or amplitude is not None:
            return grid
        # the amplitude times the mean variance of the kernel at the rows, and the variance of the targets
        prior = (self.noise(spectrum, grid) / grid[:, None]) * λ.sum()
        high_prior = (prior > POLICY.most_prior * spectrum.target_squares)[:, spectrum.target_squares > 0].any(axis=1)
        return grid[min(int(high_prior.sum()), len(grid) - 1) :]

    def best_alpha(self, spectrum: RidgeSpectrum, least: float = POLICY.least_alpha) -> float:
        """Find the penalty of most evidence, on the grid with the same `least`."""
        grid = self.grid(spectrum, least)
        values = -self(spectrum, grid).sum(axis=1)
        i = len(values) - 1 - int(np.argmin(values[::-1]))  # the largest of equally good penalties
        if not np.isfinite(values[i]) or not np.ptp(values[np.isfinite(values)]) > 0:
            return float(grid[i])
        bounds = np.log([grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]])
        found = minimize_scalar(lambda a: -float(self(spectrum, [np.exp(a)]).sum()), bounds=bounds)
        return float(np.exp(found.x) if found.fun < values[i] else grid[i])

    def best_alpha_of_rows(self, Z: Array, Y: Array, weight: Array, rest: Array | None) -> float:
        """Find the penalty of most evidence of features Z (n, m) that leave variances `rest` (n,) of the prior out.

        What is left out counts as noise of its row. None: nothing is.
        """

        def sums(share: Any) -> RidgeStatistics:
            return RidgeStatistics(Z.shape[1], Y.shape[1]).update(Z, Y, weight * share)

        spectrum = sums(1.0).spectrum(self.fit_intercept)
        start = self.best_alpha(spectrum)
        if rest is None:
            return start

        def loss(log_alpha: float) -> float:
            alpha = float(np.exp(log_alpha))
            share = noise_shares(rest, weight, alpha)
            fit, varying = self.of_sums(sums(share), alpha)
            return -fit - 0.5 * varying * float(np.log(share).sum())

        grid = self.grid(spectrum)
        low = np.log(grid[0])
        if self.noise_variance is not None or self.amplitude is not None:
            low = min(low, np.log(spectrum.grid()[0]) - POLICY.less_noise)
        return float(np.exp(_line_minimum(loss, np.log(start), low, np.log(grid[-1]))))

    def best_scale(self, kernel: Any, X: Array, Y: Array, weight: Array | None) -> Kernel:
        """Find the kernel with the length scale of most evidence of all rows, with the exact kernel matrix."""

        def scaled(scale: float) -> Kernel:
            return clone(kernel).set_params(length_scale=float(scale))

        def loss(log_scale: float) -> float:
            values, vectors = eigh(scaled(np.exp(log_scale))(X).astype(np.float64), check_finite=False)
            Z = vectors * np.sqrt(np.maximum(values, 0.0))
            spectrum = RidgeStatistics(len(Z), Y.shape[1]).update(Z, Y, weight).spectrum(self.fit_intercept)
            # with smaller penalties smooth targets have scales for which features are too few
            alpha = self.given_alpha
            alpha = self.best_alpha(spectrum, POLICY.least_alpha_of_scales) if alpha is None else alpha
            return -float(self(spectrum, [alpha]).sum())

        start = float(np.log(kernel.length_scale))
        found = _line_minimum(loss, start, start - POLICY.log_range, start + POLICY.log_range, step=np.log(2.0))
        return scaled(float(f"{np.exp(found):.3g}"))  # more digits than the data determine


def _line_minimum(
    loss: Callable[[float], float], start: float, low: float, high: float, *, step: float = math.log(10.0)
) -> float:
    """Minimise a function of a logarithm.

    Steps go from the start in both directions until two beyond the best are worse; then it is refined between the
    neighbours of the best.
    """
    found = {0: loss(start)}
    for way in (-1, 1):
        i = way
        while abs(i - min(found, key=found.__getitem__)) <= 2 and low <= start + i * step <= high:
            found[i] = loss(start + i * step)
            i += way
    best = min(found, key=found.__getitem__)
    middle = start + best * step
    refined = minimize_scalar(
        loss,
        bounds=(max(low, middle - step), min(high, middle + step)),
        method="bounded",
        options={"xatol": 0.02 * step},
    )
    return float(refined.x) if refined.fun < found[best] else middle
