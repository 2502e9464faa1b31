"""How a kernel becomes random: the laws behind stationary kernels, as transports of uniforms.

A radial kernel that is positive definite in every dimension is a scale mixture of Gaussians (Schoenberg 1938), so
its frequencies are w = s g with g ~ N(0, I) and one positive scale s: the *mixing law* ``mixing(u)`` maps uniforms
to scales and has no dimension in it. A product kernel has one *coordinate law* ``quantile(u)`` instead. Both
are monotone maps of uniforms, so Monte Carlo and low-discrepancy points share them. A kernel f(x·y) has a third law:
the coefficients of its power series, none of them negative (Schoenberg 1942).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import nnls
from scipy.special import gammaincinv, jv

from bochner.backends import Array

Profile = Callable[[Array], Array]


def matern_mixing(u: Array, nu: float) -> Array:
    """Scales of a Matérn kernel: sqrt(2ν / χ²(2ν)), a multivariate t with 2ν degrees of freedom."""
    return np.asarray(np.sqrt(nu / _gamma_quantile(1.0 - u, nu)))


def rational_quadratic_mixing(u: Array, alpha: float) -> Array:
    """Scales of a rational quadratic kernel: the square root of Gamma(α, rate α)."""
    return np.asarray(np.sqrt(_gamma_quantile(u, alpha) / alpha))


def _gamma_quantile(u: Array, shape: float) -> Array:
    # kept away from 0, where a frequency would be infinite
    return np.maximum(gammaincinv(shape, u), 1e-60)


def cauchy_quantile(u: Array) -> Array:
    """Coordinate law of exp(-|x - y|): standard Cauchy frequencies."""
    return np.asarray(np.tan(np.pi * (u - 0.5)))


def laplace_quantile(u: Array) -> Array:
    """Coordinate law of 1 / (1 + (x - y)²): standard Laplace frequencies."""
    return np.asarray(np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * (1.0 - u))))


def sech_quantile(u: Array) -> Array:
    """Law of 2√(xy)/(x + y) as a function of log x - log y: density sech(πλ) (Vedaldi & Zisserman 2012)."""
    return np.asarray(np.log(np.tan(0.5 * np.pi * u)) / np.pi)


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
    >>> from bochner.spectra import maclaurin_coefficients
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
            f"the function is no real power series that converges for |t| <= {radius:.3g}, the largest squared norm of "
            "the data (|t|, a step or a pole inside the circle do this). Scale the data down, or use NystromFeatures."
        )
    scaled = spectrum[:n_terms].real
    worst = int(np.argmin(scaled))
    if scaled[worst] < -tol * size:
        raise ValueError(
            f"f(x·y) is not positive definite: the coefficient of t^{worst} is {scaled[worst] / radius**worst:.3g}, "
            "and by Schoenberg's theorem none may be negative. Use a function with a non-negative power series."
        )
    # what is left of rounding would be magnified by radius^-n
    kept = scaled > 1e-14 * size
    logs = np.log(np.where(kept, scaled, 1.0)) - np.arange(n_terms) * np.log(radius)
    return np.exp(np.where(kept, logs, -np.inf))


@dataclass(frozen=True)
class NumericMixing:
    """A mixing law found numerically: atoms s_i with weights.

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
        """Scales (n,) of the uniforms (n,)."""
        index = np.searchsorted(np.cumsum(self.weights), u)
        return self.scales[np.minimum(index, len(self.scales) - 1)]


@lru_cache(maxsize=32)
def numeric_mixing(profile: Profile, *, tol: float = 1e-3) -> NumericMixing:
    """Find the Gaussian mixture behind a radial profile, or say that there is none.

    Non-negative least squares of the profile on exp(-s² r²/2) over a logarithmic grid of s. By Schoenberg's theorem
    a residual of zero means positive definite in every dimension, and a residual that stays above `tol` means
    that the profile is not.

    Parameters
    ----------
    profile : callable
        k as a function of r = ||x - y|| ≥ 0, with profile(0) = 1.
    tol : float
        Largest error accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.spectra import numeric_mixing
    >>> law = numeric_mixing(lambda r: 1 / (1 + r**2))
    >>> law.residual < 1e-4
    True
    """
    r = np.concatenate([[0.0], np.geomspace(1e-4, 1e3, 400)])
    scales = np.geomspace(1e-4, 1e5, 301)
    target = np.asarray(profile(r), dtype=float)
    if target.shape != r.shape or not np.isfinite(target).all():
        raise ValueError("the profile must map an array of distances to finite values of the same shape.")
    if abs(target[0] - 1.0) > 1e-9:
        raise ValueError(f"the profile must be 1 at distance 0, got {target[0]:.6g}; divide by it and use c * kernel.")
    A = np.exp(-0.5 * np.outer(r, scales) ** 2)
    # the columns are nearly dependent: without a trace of ridge the active set may cycle for ever
    ridge = 1e-5 * np.eye(len(scales))
    weights, _ = nnls(np.vstack([A, ridge]), np.append(target, np.zeros(len(scales))), maxiter=100 * len(scales))
    weights /= weights.sum()
    residual = float(np.abs(A @ weights - target).max())
    if residual > tol:
        raise ValueError(
            "this profile is not positive definite in every dimension: the best mixture of Gaussians misses it by "
            f"{residual:.2g} (allowed: {tol:g}), so its spectrum is negative somewhere. Use a positive definite "
            "profile; for one that is positive definite on the line only, use Separable(profile)."
        )
    keep = weights > 0
    return NumericMixing(scales[keep], weights[keep], residual)


@dataclass(frozen=True)
class NumericQuantile:
    """A coordinate law found numerically: a table of the distribution function, interpolated linearly."""

    frequencies: Array
    cumulative: Array

    def __call__(self, u: Array) -> Array:
        """Frequencies of the uniforms, symmetric about zero."""
        magnitude = np.interp(np.abs(2.0 * u - 1.0), self.cumulative, self.frequencies)
        return np.asarray(np.where(u < 0.5, -magnitude, magnitude))


@lru_cache(maxsize=8)
def numeric_quantile(profile: Profile, *, tol: float = 1e-3) -> NumericQuantile:
    """Find the spectral law of a one-dimensional profile by FFT, or say that its spectrum is negative somewhere.

    Parameters
    ----------
    profile : callable
        k as a function of |x - y| ≥ 0, with profile(0) = 1 and decaying to 0 within 200.
    tol : float
        Largest share of negative spectral mass accepted (rounding and truncation leave a little).
    """
    n, step = 1 << 20, 4e-4  # covers |x - y| <= 210; frequencies up to pi / step
    x = step * np.arange(n // 2 + 1)
    half = np.asarray(profile(x), dtype=float)
    if half.shape != x.shape or not np.isfinite(half).all() or abs(half[0] - 1.0) > 1e-9:
        raise ValueError("the profile must map an array of distances to finite values, 1 at distance 0.")
    density = np.fft.rfft(np.concatenate([half, half[-2:0:-1]])).real * step / np.pi  # on w >= 0, both signs together
    spacing = 2.0 * np.pi / (n * step)
    negative = -density[density < 0].sum() * spacing
    if negative > tol:
        raise ValueError(
            f"this profile is not positive definite: {negative:.2g} of its spectral mass is negative (allowed: "
            f"{tol:g}). By Bochner's theorem no random frequencies have it; use a positive definite profile."
        )
    density = np.maximum(density, 0.0)
    mass = np.concatenate([[density[0] / 2], density[1:]]) * spacing
    cumulative = np.cumsum(mass)
    return NumericQuantile((np.arange(len(mass)) + 0.5) * spacing, cumulative / cumulative[-1])


def spectral_density(profile: Profile, n_features: int, frequencies: Array) -> Array:
    """Density p of the isotropic spectral measure at radius w, with ∫ p = k(0) over R^d.

    The Hankel transform (2π)^(-d/2) w^(1-d/2) ∫ k(r) J_{d/2-1}(w r) r^{d/2} dr, over r ≤ 40: for checking a
    kernel (Bochner: non-negative, of total mass k(0)), not for sampling. The profile must have decayed by r = 40.
    """
    w = np.atleast_1d(np.asarray(frequencies, dtype=float))
    order, panels = n_features / 2.0 - 1.0, int(np.ceil(40.0 * max(w.max(), 20.0) / np.pi))
    nodes, weights = np.polynomial.legendre.leggauss(8)  # eight a half-wave of the fastest Bessel function
    edges = np.linspace(0.0, 40.0, panels + 1)
    half = edges[1] / 2.0
    r = ((edges[:-1] + half)[:, None] + half * nodes).ravel()
    integrand = np.asarray(profile(r), dtype=float) * r ** (n_features / 2.0) * np.tile(half * weights, panels)
    total = jv(order, np.outer(w, r)) @ integrand
    return (2.0 * np.pi) ** (-n_features / 2.0) * w**-order * total
