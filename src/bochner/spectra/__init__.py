"""Distributions of the frequencies of stationary kernels, as functions of uniform numbers.

A radial kernel that is positive definite in every dimension is a scale mixture of Gaussians (Schoenberg 1938), so
its frequencies are w = s g with g ~ N(0, I) and one positive scale s: the *mixing distribution* ``mixing(u)`` maps
uniforms to scales and does not depend on the dimension. One that is positive definite up to some dimension has a
distribution of *lengths* in each of these (Bochner), and a product kernel the distribution of one coordinate. All are
monotone maps of uniforms, so Monte Carlo and low-discrepancy points share them. A kernel f(x·y) has a power series
instead, with no negative coefficient (Schoenberg 1942).
"""

from bochner.spectra.profiles import (
    TOLERANCE,
    NumericMixing,
    Profile,
    cauchy_quantile,
    laplace_quantile,
    maclaurin_coefficients,
    matern_mixing,
    numeric_mixing,
    profile_scale,
    rational_quadratic_mixing,
    sech_quantile,
)
from bochner.spectra.radii import NumericRadii, RadialSpectrum, SpectralFinding, Witness, find_radii

__all__ = [
    "TOLERANCE",
    "NumericMixing",
    "NumericRadii",
    "Profile",
    "RadialSpectrum",
    "SpectralFinding",
    "Witness",
    "cauchy_quantile",
    "find_radii",
    "laplace_quantile",
    "maclaurin_coefficients",
    "matern_mixing",
    "numeric_mixing",
    "profile_scale",
    "rational_quadratic_mixing",
    "sech_quantile",
]


def __dir__() -> list[str]:
    return sorted(__all__)
