"""The power series of a function of x·y, and whether it is positive definite."""

from __future__ import annotations

import numpy as np

from bochner.backends import Array
from bochner.spectra.profiles import Profile


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
