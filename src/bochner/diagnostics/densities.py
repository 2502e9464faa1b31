"""Bochner's theorem as a check of a kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from bochner import spectra
from bochner.kernels import Kernel, Multiple, Radial, RadialKernel, Separable, SeparableKernel, as_kernel
from bochner.theory import _arguments as check


@dataclass(frozen=True)
class SpectralCheck:
    """Bochner's theorem, checked by numbers: whether the spectral density is a probability density.

    Attributes
    ----------
    positive : bool
        No spectral mass is negative, up to the tolerance.
    negative : float
        Negative spectral mass, or the misfit of a mixture of Gaussians.
    mass : float
        Integral of the density over the frequencies looked at: k(0), less a tail.
    how : str
    """

    positive: bool
    negative: float
    mass: float
    how: str

    def __repr__(self) -> str:
        verdict = "positive definite" if self.positive else "NOT positive definite: no random features have this kernel"
        return f"{verdict} ({self.how}; {self.negative:.2g} negative, mass {self.mass:.4g})"


def spectral_check(kernel: Any, n_features: int, *, tol: float = 1e-3) -> SpectralCheck:
    """Check a stationary kernel against Bochner's theorem, in a given dimension.

    Parameters
    ----------
    kernel : Kernel or callable
        A radial or separable kernel; a function of the distance is taken as ``Radial(function)``.
    n_features : int
        Dimension of the data; a profile may be positive definite in one and not in another.
    tol : float
        Negative part that rounding and truncation are allowed.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Matern
    >>> from bochner.diagnostics import spectral_check
    >>> spectral_check(Matern(2.0), 3).positive
    True
    >>> spectral_check(lambda r: np.maximum(0.0, 1.0 - r), 1).positive, spectral_check(lambda r: np.cos(r), 2).positive
    (True, False)
    """
    d = check.count("n_features", n_features)
    if not isinstance(kernel, Kernel):
        kernel = Radial(kernel) if callable(kernel) else as_kernel(kernel)
    while isinstance(kernel, Multiple):
        kernel = kernel.kernel
    if isinstance(kernel, RadialKernel):
        return _check_profile(kernel.profile, d, tol, f"radial in {d} dimension(s)")
    if isinstance(kernel, Separable):
        return _check_profile(kernel.profile, 1, tol, "each coordinate")
    if isinstance(kernel, SeparableKernel):  # its quantile is a closed form
        return SpectralCheck(True, 0.0, 1.0, f"the spectral law of {type(kernel).__name__} is known")
    raise ValueError(f"the spectral density is that of a radial or separable kernel; got {kernel!r}.")


def _check_profile(profile: spectra.Profile, d: int, tol: float, how: str) -> SpectralCheck:
    r = np.geomspace(1e-3, 40.0, 200)
    tail = float(np.abs(profile(r[-1:]))[0])
    if tail < 1e-3 and d <= 12:
        w = np.concatenate([[1e-3], np.linspace(0.1, 60.0, 300)])
        density = spectra.spectral_density(profile, d, w)
        surface = np.log(2.0) + 0.5 * d * np.log(np.pi) - gammaln(0.5 * d)
        shell = density * np.exp(surface + (d - 1) * np.log(w))
        mass = float(np.trapezoid(shell, w))
        negative = float(np.trapezoid(np.maximum(-shell, 0.0), w))
        return SpectralCheck(negative <= tol, negative, mass, f"{how}: Hankel transform up to frequency 60")
    try:
        fitted = spectra.numeric_mixing(profile, tol=np.inf)
    except ValueError as error:
        raise ValueError(f"the profile cannot be checked: {error}") from None
    return SpectralCheck(fitted.residual <= tol, fitted.residual, 1.0, f"{how}: misfit of a mixture of Gaussians")
