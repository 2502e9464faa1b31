"""Bochner's theorem, checked numerically: whether a stationary kernel has a spectral measure."""

from __future__ import annotations

from dataclasses import dataclass

from sklearn.base import clone

from bochner.checks import check_count
from bochner.draws import mixtures, radii
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Projected, Restricted, Sum
from bochner.kernels.conversion import as_kernel
from bochner.kernels.stationary import Radial, RadialKernel, SeparableKernel


@dataclass(frozen=True)
class SpectralCheck:
    """Bochner's theorem, checked numerically: whether the spectral measure is a probability measure.

    Attributes
    ----------
    positive : bool or None
        True: the kernel is, at any distance, within 0.001 of one with a spectral measure, and no negative density was
        found. False: there is a frequency whose density is negative by ten times the error of its computation, so the
        kernel is not positive definite in that many dimensions. None: it could not be decided numerically.
    negative, mass : float
        Negative spectral mass that was found, and all mass.
    how : str
        What the answer rests on.
    """

    positive: bool | None
    negative: float
    mass: float
    how: str

    def __repr__(self) -> str:
        verdict = {
            True: "positive definite",
            False: "NOT positive definite: no random features have this kernel",
            None: "cannot decide whether it is positive definite",
        }[self.positive]
        return f"{verdict} ({self.how})"


def spectral_check(kernel: str | Kernel | mixtures.Profile, n_features: int) -> SpectralCheck:
    """Check a stationary kernel against Bochner's theorem, in a given dimension.

    Parameters
    ----------
    kernel : Kernel or callable
        A radial or separable kernel, or sums, products, powers and multiples of such; a function of the distance is
        taken as ``Radial(function)``.
    n_features : int
        Dimension of the data; a profile may be positive definite in one and not in another.

    Notes
    -----
    The density comes from an adaptive Hankel transform, in units of the profile's own scale, with an estimate of its
    error. Of a profile that does not decay, the product with a wide Gaussian is transformed: it is positive definite
    if the profile is. A mixture of Gaussians close to the profile (Schoenberg's theorem) decides where the transform
    does not reach. "None" is the answer for slowly decaying oscillations, such as J₀ on the line, and for sums and
    products with a part that is not positive definite itself.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Matern
    >>> from bochner.diagnostics import spectral_check
    >>> spectral_check(Matern(2.0), 3).positive
    True
    >>> spectral_check(lambda r: np.maximum(0.0, 1.0 - r), 1).positive
    True
    >>> spectral_check(lambda r: np.maximum(0.0, 1.0 - r), 2)
    NOT positive definite: no random features have this kernel (in 2 dimension(s) the spectral density is -0.16 at ...
    """
    d = check_count("n_features", n_features)
    if not isinstance(kernel, Kernel):
        kernel = Radial(kernel) if callable(kernel) else as_kernel(kernel)
    match kernel:
        case Multiple():
            return spectral_check(kernel.kernel, d)
        case Restricted():
            return spectral_check(kernel.kernel, len(kernel.indices(d)))
        case Projected():
            return spectral_check(kernel.kernel, kernel.matrix(d).shape[1])
        case Sum() | Product() | Power():
            parts = [kernel.kernel] if isinstance(kernel, Power) else [kernel.left, kernel.right]
            checks = [spectral_check(part, d) for part in parts]
            worst = next((part for part in checks if not part.positive), checks[0])
            how = "every part is" if worst.positive else f"a part is not, or not certainly: {worst.how}"
            return SpectralCheck(worst.positive or None, worst.negative, worst.mass, how)
        case Radial():
            return _check_profile(kernel.function, d)
        case RadialKernel():
            return _check_profile(
                clone(kernel).profile, d
            )  # a copy, because findings are cached and parameters may change
        case SeparableKernel():
            return _check_profile(clone(kernel).profile, 1)
    raise ValueError(f"the spectral density is that of a radial or separable kernel; got {kernel!r}.")


def _check_profile(profile: mixtures.Profile, d: int) -> SpectralCheck:
    found = radii.find_radii(profile, d)
    positive = False if found.witness is not None else None if found.law is None else True
    return SpectralCheck(positive, found.negative, found.mass, found.how)
