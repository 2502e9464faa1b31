"""Profiles: kernels as functions of the distance, given by nothing but their values."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bochner.backends import Array

Profile = Callable[[Array], Array]
TOLERANCE = 1e-3  # what a law found numerically may be off by, as a kernel, at any distance
_RADII = np.geomspace(1e-30, 1e30, 1921)


def values_of(profile: Profile, r: Array) -> Array:
    """The profile at radii far smaller and larger than it was written for, without warnings."""
    with np.errstate(all="ignore"):
        return np.asarray(profile(r), dtype=float)


def profile_scale(profile: Profile) -> tuple[float, float]:
    """The distance at which a profile has fallen by half of all it falls, and how far its values are finite.

    Everything numerical is done in units of the first, so that a profile and its stretched copy have the same law.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.spectra import profile_scale
    >>> round(float(profile_scale(lambda r: np.exp2(-r / 500.0))[0]), 6)
    500.0
    """
    values = values_of(profile, np.append(0.0, _RADII))
    if values.shape != (len(_RADII) + 1,) or not np.isfinite(values[:2]).all():
        raise ValueError("the profile must map an array of distances to finite values of the same shape.")
    if abs(values[0] - 1.0) > 1e-9:
        raise ValueError(f"the profile must be 1 at distance 0, got {values[0]:.6g}; divide by it and use c * kernel.")
    fall = 1.0 - values[1:]
    wild = np.flatnonzero(~np.isfinite(fall))  # ∞ · 0 far out, say
    n_finite = int(wild[0]) if len(wild) else len(fall)
    fall, reach = fall[:n_finite], float(_RADII[n_finite - 1])
    level = float(fall.max()) / 2.0
    if level <= 1e-12:  # a constant has every scale
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
