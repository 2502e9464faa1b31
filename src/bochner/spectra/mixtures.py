"""The mixture of Gaussians behind a radial profile that is positive definite in every dimension."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import nnls

from bochner.backends import Array
from bochner.spectra.profiles import TOLERANCE, Profile, profile_scale, values_of

_PER_DECADE, _MOST_SCALES = 50, 800


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
def numeric_mixing(profile: Profile) -> NumericMixing:
    """Find the mixture of Gaussians that is closest to a radial profile.

    Non-negative least squares of the profile on exp(-s² r²/2) over a logarithmic grid of s, over all radii at which
    the profile changes. By Schoenberg's theorem a residual of zero means positive definite in every dimension, and a
    residual that stays means that the profile is not.

    Parameters
    ----------
    profile : callable
        k as a function of r = ||x - y|| ≥ 0, with profile(0) = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.spectra import numeric_mixing
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
    # the columns are nearly dependent: without a trace of ridge the active set may cycle for ever
    ridge = 1e-5 * np.eye(len(s))
    weights, _ = nnls(np.vstack([A, ridge]), np.append(target, np.zeros(len(s))), maxiter=100 * len(s))
    weights /= weights.sum()
    residual = float(np.abs(A @ weights - target).max())
    keep = weights > 0
    return NumericMixing(s[keep] / scale, weights[keep], residual)


def _logarithmic(low: float, high: float) -> Array:
    return np.geomspace(low, high, min(_MOST_SCALES, 2 + int(_PER_DECADE * np.log10(high / low))))
