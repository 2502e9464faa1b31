"""Laws of frequencies that are formulas: transports of uniforms to scales, or to frequencies of one coordinate."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincinv

from bochner.backends import Array


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
