"""The spectral measure of a radial profile in a given dimension: an adaptive Hankel transform that knows its error."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from scipy.special import gammaln, hankel1e, jv, spherical_jn

from bochner.backends import Array
from bochner.spectra.profiles import TOLERANCE, Profile, profile_scale, values_of

_EPS = float(np.finfo(float).eps)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # of a panel
# values at the nodes to Legendre coefficients; ∫ P_n(x) exp(i a x) over [-1, 1] is 2 iⁿ j_n(a)
_LEGENDRE = np.polynomial.legendre.legvander(_NODES, 15).T * (np.arange(16) + 0.5)[:, None] * _WEIGHTS
# between the nodes and at the ends, where a kink could hide: the points, and the series there from the nodes
_CHECKS = np.array([-1.0, -0.996, -0.42, 0.39, 0.997, 1.0])
_SERIES = np.polynomial.legendre.legvander(_CHECKS, 15) @ _LEGENDRE
_PHASES = 2.0 * 1j ** np.arange(16)
_QUIET = 10.0  # phase over a panel up to which sixteen nodes integrate the wave itself
_SMALLEST, _MOST_PANELS = 2.0**-40, 800
# scales of the profile that a window lets through, where the profile does not decay
WINDOWS = (2.0**16, 2.0**12, 2.0**10, 2.0**8, 2.0**5)


class RadialSpectrum:
    """Bochner's measure of a radial profile in n_features dimensions, as a law of lengths of frequencies.

    F(w) = c ∫ k(r) (wr)^(d/2) J_{d/2}(wr) dr/r is its mass within radius w, c = 2^(1-d/2) / Γ(d/2), and its slope has
    J_{d/2-1}. Panels of r are halved until sixteen Legendre polynomials are the profile to 13 digits, kinks and ends of
    support included. Where the wave turns many times within a panel, its slowly varying amplitude (Hankel's function
    times exp(-iwr)) is expanded instead, and the rest is integrated exactly: no frequency and no reach is too large.

    A profile that does not decay is multiplied by exp(-r²/2L²). What that leaves has a density, and it is positive
    definite if the profile is (Schur), so that a negative density still convicts the profile itself.

    Parameters
    ----------
    profile : callable
        k as a function of r, one at zero.
    n_features : int
    window : float or None
        L in units of the profile's own scale; None takes none where the profile decays, and 2^16 otherwise.
    """

    def __init__(self, profile: Profile, n_features: int, window: float | None = None) -> None:
        self.n_features = n_features
        self.scale, reach = profile_scale(profile)
        self._profile = profile
        far = np.geomspace(1e-3, reach / self.scale, 4000)
        values = values_of(profile, self.scale * far)
        # a constant is a frequency of zero: an atom of the measure, taken out
        self.constant = float(values[-1]) if abs(values[-1]) > 1e-12 and np.ptp(values[-200:]) < 1e-13 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            felt = np.flatnonzero(np.abs(values - self.constant) * far ** (0.5 * n_features + 0.5) > 1e-18)
        last = float(far[felt[-1]]) if len(felt) else 1.0
        seen = np.flatnonzero(np.abs(values - self.constant) > 0.1 * TOLERANCE)
        visible = float(far[seen[-1]]) if len(seen) else 1.0
        self.decays = last < 0.5 * far[-1]
        if self.decays and window is None:
            self._width, self.reach = math.inf, min(1.05 * last, reach / self.scale)
        else:
            self._width = min(window or WINDOWS[0], reach / self.scale / 9.0)
            self.reach = 9.0 * self._width
        self.visible = self.scale * min(visible, 3.0 * self._width)  # farther out it is nothing
        self._make_panels()

    def _make_panels(self) -> None:
        # narrow enough for Hankel's function of order d/2 to be smooth where its wave turns
        ratio = 1.0 + min(1.0, 10.0 / self.n_features)
        n = math.ceil(math.log(self.reach / _SMALLEST) / math.log(ratio))
        edges = np.append(0.0, np.geomspace(_SMALLEST, self.reach, n + 1))
        left, right = edges[:-1], edges[1:]
        done: list[tuple[Array, ...]] = []
        n_done, self.resolved = 0, True
        while len(left):
            places = np.append(_NODES, _CHECKS)
            values, checks = np.split(
                self._at((left + right)[:, None] / 2 + (right - left)[:, None] / 2 * places), [16], 1
            )
            errors = np.abs(np.hstack([values @ _LEGENDRE[-3:].T, values @ _SERIES.T - checks])).max(axis=1) * 2.0
            fine = errors <= np.maximum(1e-13 * np.abs(values).max(axis=1), 2e-15)
            fine |= (left == 0.0) | (right - left <= 8.0 * _EPS * right)
            n_done += int(fine.sum())
            most = _MOST_PANELS * (3 if self.n_features == 1 else 1)  # waves are cheap in one dimension
            if n_done + 2 * int((~fine).sum()) > most:  # as it is: the error says what that costs
                fine[:], self.resolved = True, False
            done.append((left[fine], right[fine], values[fine], errors[fine]))
            middle = (left[~fine] + right[~fine]) / 2.0
            left, right = np.append(left[~fine], middle), np.append(middle, right[~fine])
        left, right, self._values, self._errors = (np.concatenate(part) for part in zip(*done, strict=True))
        self._middle, self._half = (left + right) / 2.0, (right - left) / 2.0

    def _at(self, r: Array) -> Array:
        values = values_of(self._profile, self.scale * r.ravel()).reshape(r.shape)
        return (values - self.constant) / max(1.0 - self.constant, 1e-9) * np.exp(-0.5 * (r / self._width) ** 2)

    @cached_property
    def blur(self) -> float:
        """What the window takes from the profile at most."""
        if math.isinf(self._width):
            return 0.0
        x = np.geomspace(1e-2, 1e4, 20000)
        values = values_of(self._profile, self.scale * self._width * x) - self.constant
        return float(np.nanmax(np.abs(values) * -np.expm1(-0.5 * x * x)))

    def cumulative(self, w: Array) -> tuple[Array, Array]:
        """Mass within the frequencies of length w (n,) and its error; without the atom at zero."""
        order = 0.5 * self.n_features
        return self._transform(np.asarray(w) * self.scale, order, order - 1.0)

    def density(self, w: Array) -> tuple[Array, Array]:
        """Mass in a shell at length w (n,), by the relative thickness of the shell (w F'(w)), and its error."""
        order = 0.5 * self.n_features
        return self._transform(np.asarray(w) * self.scale, order - 1.0, order)

    def _transform(self, w: Array, order: float, power: float) -> tuple[Array, Array]:
        """∫ k(r) c (wr)^power J_order(wr) w dr and its error; w in units of 1/scale."""
        constant = math.exp((1.0 - 0.5 * self.n_features) * math.log(2.0) - gammaln(0.5 * self.n_features))
        total, error = np.zeros(len(w)), np.zeros(len(w))
        step = max(1, (1 << 18) // self._values.size)
        for start in range(0, len(w), step):
            block = w[start : start + step]
            quiet = np.outer(block, 2.0 * self._half) <= _QUIET
            for found, integrate in ((quiet, self._wave), (~quiet, self._amplitude)):
                i, panel = np.nonzero(found)
                with np.errstate(all="ignore"):  # powers of hundreds of dimensions do not fit
                    parts, errors = integrate(block[i], panel, order, power)
                total += np.bincount(start + i, constant * parts, len(w))
                error += np.bincount(start + i, constant * errors, len(w))
        lost = ~(np.isfinite(total) & np.isfinite(error))
        return np.where(lost, 0.0, total), np.where(lost, np.inf, error)

    def _wave(self, w: Array, panel: Array, order: float, power: float) -> tuple[Array, Array]:
        half, values = self._half[panel], self._values[panel]
        x = w[:, None] * (self._middle[panel, None] + half[:, None] * _NODES)
        wave = x**power * _bessel(order, x) * w[:, None]
        uncertain = self._errors[panel] + 8.0 * _EPS * np.abs(values).max(axis=1)
        return half * ((wave * values) @ _WEIGHTS), 2.0 * half * np.abs(wave).max(axis=1) * uncertain

    def _amplitude(self, w: Array, panel: Array, order: float, power: float) -> tuple[Array, Array]:
        half, values, turns = self._half[panel], self._values[panel], w * self._half[panel]
        x = w[:, None] * (self._middle[panel, None] + half[:, None] * _NODES)
        amplitude = x**power * _hankel(order, x)  # times w, and over w for the integral of a wave
        series = (amplitude * values) @ _LEGENDRE.T
        moments = _PHASES * spherical_jn(np.arange(16)[:, None], turns).T
        parts = turns * (np.exp(1j * w * self._middle[panel]) * (series * moments).sum(axis=1)).real
        size = np.abs(amplitude).max(axis=1)
        rounding = 4.0 * _EPS * (4.0 + w * self._middle[panel]) * np.abs(values).max(axis=1)
        # an integral of a wave over a panel is at most four of its amplitudes, and so is that of what a series lacks
        return parts, size * (8.0 * self._errors[panel] + rounding) + 8.0 * np.abs(series[:, -2:]).max(axis=1)


def _bessel(order: float, x: Array) -> Array:
    """J_order(x), by its formula in one dimension and by series close to zero and far out: ten times faster."""
    if abs(order) == 0.5:
        return np.asarray(np.sqrt(2.0 / (np.pi * x)) * (np.sin(x) if order > 0 else np.cos(x)))
    close, far = x < 3.0, x > 30.0 + order**2
    between = ~(close | far)
    out = np.empty(x.shape)
    square, total = -0.25 * x[close] ** 2, np.ones(int(close.sum()))
    for k in range(16, 0, -1):
        total = 1.0 + total * square / (k * (order + k))
    out[close] = total * (0.5 * x[close]) ** order * math.exp(-gammaln(order + 1.0))
    out[between] = jv(order, x[between])
    out[far] = (np.exp(1j * x[far]) * _hankel(order, x[far])).real
    return out


def _hankel(order: float, x: Array) -> Array:
    """exp(-ix) (J + iY)(x) of the order, without its wave, for x > 10.

    By Hankel's expansion in 1/x, which ends for half of an odd number and has all digits where x > 30 + order².
    """
    ends = (2.0 * order) % 2.0 == 1.0
    total, term = np.ones(x.shape, complex), np.ones(x.shape, complex)
    for k in range(1, int(abs(order) + 0.5) if ends else 20):
        term *= 1j * (4.0 * order**2 - (2 * k - 1) ** 2) / (8.0 * k) / x
        total += term
    total *= np.sqrt(2.0 / (np.pi * x)) * np.exp(-0.25j * np.pi * (2.0 * order + 1.0))
    if not ends:
        near = x <= 30.0 + order**2
        total[near] = hankel1e(order, x[near])
    return total
