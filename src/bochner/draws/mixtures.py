"""Kernels as functions of a distance or of x·y, and distributions of frequencies that need no dimension.

Closed forms, the mixture of Gaussians behind a radial profile that is positive definite in every dimension, and power
series.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaincinv

from bochner.backends import Array


def matern_mixing(u: Array, nu: float) -> Array:
    """Return scales of a Matérn kernel: sqrt(2ν / χ²(2ν)), a multivariate t with 2ν degrees of freedom."""
    return np.asarray(np.sqrt(nu / _gamma_quantile(1.0 - u, nu)))


def rational_quadratic_mixing(u: Array, alpha: float) -> Array:
    """Return scales of a rational quadratic kernel: the square root of Gamma(α, rate α)."""
    return np.asarray(np.sqrt(_gamma_quantile(u, alpha) / alpha))


def _gamma_quantile(u: Array, shape: float) -> Array:
    # kept away from 0, where a frequency would be infinite
    return np.maximum(gammaincinv(shape, u), 1e-60)


def cauchy_quantile(u: Array) -> Array:
    """Return frequencies of one coordinate of exp(-|x - y|): standard Cauchy."""
    return np.asarray(np.tan(np.pi * (u - 0.5)))


def laplace_quantile(u: Array) -> Array:
    """Return frequencies of one coordinate of 1 / (1 + (x - y)²): standard Laplace."""
    return np.asarray(np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u))))


def sech_quantile(u: Array) -> Array:
    """Return frequencies of 2√(xy)/(x + y) in log x - log y: density sech(πλ) (Vedaldi & Zisserman 2012)."""
    return np.asarray(np.log(np.tan(0.5 * np.pi * u)) / np.pi)


Profile = Callable[[Array], Array]
TOLERANCE = 1e-3  # largest error, at any distance, of a kernel whose distribution is found numerically
_RADII = np.geomspace(1e-30, 1e30, 1921)


def values_of(profile: Profile, r: Array) -> Array:
    """Evaluate the profile at very small and very large radii, without warnings."""
    with np.errstate(all="ignore"):
        return np.asarray(profile(r), dtype=float)


def profile_scale(profile: Profile) -> tuple[float, float]:
    """Find the distance at which a profile has fallen half way, and up to which distance its values are finite.

    Everything numerical is done in units of the first, so that a profile and a stretched copy of it have the same
    distribution.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.draws.mixtures import profile_scale
    >>> round(float(profile_scale(lambda r: np.exp2(-r / 500.0))[0]), 6)
    500.0
    """
    values = values_of(profile, np.append(0.0, _RADII))
    if values.shape != (len(_RADII) + 1,) or not np.isfinite(values[:2]).all():
        raise ValueError("the profile must map an array of distances to finite values of the same shape.")
    if abs(values[0] - 1.0) > 1e-9:
        raise ValueError(f"the profile must be 1 at distance 0, got {values[0]:.6g}; divide by it and use c * kernel.")
    fall = 1.0 - values[1:]
    wild = np.flatnonzero(~np.isfinite(fall))  # such as ∞ · 0 at large radii
    n_finite = int(wild[0]) if len(wild) else len(fall)
    fall, reach = fall[:n_finite], float(_RADII[n_finite - 1])
    level = float(fall.max()) / 2.0
    if level <= 1e-12:  # any scale fits a constant
        return 1.0, reach
    first = int(np.argmax(fall >= level))
    if first == 0 or fall[0] > 10.0 * TOLERANCE:
        raise ValueError(
            f"the profile must be continuous at distance 0: it falls to {1.0 - fall[0]:.4g} within 1e-30. White "
            "noise has no random features; leave it out (in a model it is the noise, or alpha)."
        )
    low, high = float(_RADII[first - 1]), float(_RADII[first])
    for _ in range(60):
        middle = math.sqrt(low * high)
        fallen = 1.0 - float(values_of(profile, np.array([middle]))[0]) >= level
        low, high = (low, middle) if fallen else (middle, high)
    return float(high), reach


@dataclass(frozen=True)
class NumericMixing:
    """A mixing distribution found numerically: scales s_i with weights.

    Attributes
    ----------
    scales, weights : ndarray
        profile(r) ≈ Σ weights exp(-scales² r² / 2), weights ≥ 0 and summing to one.
    residual : float
        The largest error of that sum over the radii it was fitted on.
    """

    scales: Array
    weights: Array
    residual: float

    def __call__(self, u: Array) -> Array:
        """Return the scales (n,) of the uniforms (n,)."""
        index = np.searchsorted(np.cumsum(self.weights), u)
        return self.scales[np.minimum(index, len(self.scales) - 1)]


@lru_cache(maxsize=32)
def numeric_mixing(profile: Profile) -> NumericMixing:
    """Find the mixture of Gaussians that is closest to a radial profile.

    Non-negative least squares of the profile on exp(-s² r²/2) over a logarithmic grid of s, over all radii at which
    the profile changes. By Schoenberg's theorem a residual of zero means positive definite in every dimension, and a
    residual that does not vanish means that it is not.

    Parameters
    ----------
    profile : callable
        k as a function of r = ||x - y|| ≥ 0, with profile(0) = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.draws.mixtures import numeric_mixing
    >>> numeric_mixing(lambda r: 1 / (1 + r**2)).residual < 1e-4
    True
    >>> numeric_mixing(lambda r: np.maximum(0, 1 - r)).residual > 0.01
    True
    """
    scale, reach = profile_scale(profile)
    everywhere = np.geomspace(1e-30, reach, 2000)
    values = values_of(profile, everywhere)
    visible = TOLERANCE / 8.0
    changes = np.flatnonzero((1.0 - values >= visible) & (np.abs(values - values[-1]) >= visible))
    nearest, farthest = (everywhere[changes[[0, -1]]] / scale) if len(changes) else (1.0, 1.0)
    r = np.concatenate([[0.0], _logarithmic(0.1 * nearest, 10.0 * farthest), [reach / scale]])
    s = np.append(0.0, _logarithmic(0.02 / farthest, 20.0 / nearest))
    target = values_of(profile, scale * r)
    A = np.exp(-0.5 * np.outer(r, s) ** 2)
    # the columns are nearly dependent: without a small ridge penalty the active set may cycle
    ridge = 1e-5 * np.eye(len(s))
    weights, _ = nnls(np.vstack([A, ridge]), np.append(target, np.zeros(len(s))), maxiter=100 * len(s))
    weights /= weights.sum()
    residual = float(np.abs(A @ weights - target).max())
    keep = weights > 0
    return NumericMixing(s[keep] / scale, weights[keep], residual)


def _logarithmic(low: float, high: float) -> Array:
    return np.geomspace(low, high, min(800, 2 + int(50 * np.log10(high / low))))


def maclaurin_coefficients(function: Profile, n_terms: int, *, radius: float = 1.0, tol: float = 1e-9) -> Array:
    """Find a_0 … a_(n_terms-1) of f(t) = Σ a_n tⁿ, or say that f(x·y) is not positive definite.

    The fast Fourier transform of f on the circle |t| = radius; a_n radiusⁿ is exact to rounding times f(radius).

    Parameters
    ----------
    function : callable
        f of a complex array, analytic for |t| <= radius.
    n_terms : int
        How many coefficients.
    radius : float
        The largest |x·y| of interest: the largest squared norm of the data.
    tol : float
        Largest negative a_n radiusⁿ accepted, and largest part of f that is no power series, both as a share of f.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.draws.mixtures import maclaurin_coefficients
    >>> maclaurin_coefficients(lambda t: 1 / (1 - t), 4, radius=0.5).round(6)
    array([1., 1., 1., 1.])
    """
    n = max(4096, 1 << (4 * n_terms - 1).bit_length())
    circle = radius * np.exp(2j * np.pi * np.arange(n) / n)
    try:
        with np.errstate(all="ignore"):
            values = np.asarray(function(circle), dtype=complex)
    except TypeError as error:
        raise ValueError(
            "the power series of a function is found from its values at complex arguments, which it refused "
            f"({error}); write it with NumPy functions such as np.exp, or give MaclaurinSeries([a_0, a_1, …])."
        ) from error
    if values.shape != circle.shape or not np.isfinite(values).all():
        raise ValueError(
            f"the function must map a complex array to finite values of the same shape; on |t| = {radius:.3g}, the "
            "largest squared norm of the data, it does not. Scale the data down to where the function is finite."
        )
    spectrum = np.fft.fft(values) / n  # a_k radius^k for k < n / 2, zero for the rest if f is a power series
    size = np.abs(values).max()
    rest = np.abs(spectrum[n // 2 :]).max() + np.abs(spectrum[: n // 2].imag).max()
    # |t| is a constant on the circle: the series must give the function inside it too
    inside = radius * np.array([-0.8, -0.3, 0.3, 0.6])
    powers = np.vander(inside / radius, n // 2, increasing=True)
    rest = max(rest, np.abs(powers @ spectrum[: n // 2].real - np.asarray(function(inside + 0j)).real).max())
    if not rest <= tol * size:
        raise ValueError(
            f"the function is not a real power series that converges for |t| <= {radius:.3g}, the largest squared norm "
            "of the data (|t|, a step or a pole inside the circle do this). Scale the data down, or use "
            "NystromFeatures."
        )
    scaled = spectrum[:n_terms].real
    worst = int(np.argmin(scaled))
    if scaled[worst] < -tol * size:
        raise ValueError(
            f"f(x·y) is not positive definite: the coefficient of t^{worst} is {scaled[worst] / radius**worst:.3g}, "
            "and by Schoenberg's theorem none may be negative. Use a function with a non-negative power series."
        )
    # rounding errors would be magnified by radius^-n
    kept = scaled > 1e-14 * size
    logs = np.log(np.where(kept, scaled, 1.0)) - np.arange(n_terms) * np.log(radius)
    return np.exp(np.where(kept, logs, -np.inf))
