"""The law of the lengths of a radial profile's frequencies in a given dimension, or the reason why there is none.

A profile that is positive definite in the data's dimension only (Wendland's, the spherical one) is no mixture of
Gaussians; its frequencies are a uniform direction times a length whose law depends on the dimension.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, hyp0f1

from bochner.backends import Array
from bochner.spectra.hankel import WINDOWS, RadialSpectrum
from bochner.spectra.mixtures import NumericMixing, numeric_mixing
from bochner.spectra.profiles import TOLERANCE, Profile, values_of

_MOST_FEATURES = 30  # beyond, rounding hides everything
_STEP = 3e-4 * TOLERANCE  # what a step of a table may be off by
_CUT = 0.3819660112501051  # the golden section: no wave has whole periods both in a step and up to its cut
_CERTAIN, _NOISE = 10.0, 1e-8  # a negative density is told by so many errors, and by no less mass than this


@dataclass(frozen=True)
class NumericRadii:
    """The law of the lengths of frequencies in some dimension: a table of the distribution function.

    Attributes
    ----------
    lengths, cumulative : ndarray
        Interpolated linearly.
    error : float
        What the kernel of these frequencies may be off by, at any distance.
    """

    lengths: Array
    cumulative: Array
    error: float

    def __call__(self, u: Array) -> Array:
        """Lengths of the uniforms, of any shape."""
        return np.interp(u, self.cumulative, self.lengths)


@dataclass(frozen=True)
class SpectralFinding:
    """What was found of a radial profile in n_features dimensions.

    Attributes
    ----------
    law : NumericRadii or None
        Where the measure was found to be one of probability, to the tolerance.
    how : str
        How the law was found, or why there is none.
    negative, mass : float
        Negative mass found, and all mass.
    witness : Witness or None
        Where there is one, the profile is not positive definite in n_features dimensions.
    """

    law: NumericRadii | None
    how: str
    negative: float = 0.0
    mass: float = 1.0
    witness: Witness | None = None


@dataclass(frozen=True)
class Witness:
    """A frequency at which the density is negative beyond any doubt of its computation.

    Attributes
    ----------
    n_features : int
        The dimension: that asked for, or a smaller one. What is positive definite in one is so in all smaller ones.
    frequency : float
        Its length.
    density, error : float
        Mass in a shell there, by its relative thickness. The error is at most a tenth of it.
    """

    n_features: int
    frequency: float
    density: float
    error: float

    def __str__(self) -> str:
        return (
            f"in {self.n_features} dimension(s) the spectral density is {self.density:.2g} at frequency "
            f"{self.frequency:.3g}, computed to {self.error:.1g}"
        )


@lru_cache(maxsize=64)
def find_radii(profile: Profile, n_features: int) -> SpectralFinding:
    """Find the law of the lengths of a profile's frequencies in n_features dimensions, or why there is none.

    First a negative density is looked for; then a mixture of Gaussians is tried, and then the transform is tabulated.

    Parameters
    ----------
    profile : callable
        k as a function of r = ||x - y|| ≥ 0, with profile(0) = 1.
    n_features : int

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.spectra import find_radii
    >>> def spherical(r):
    ...     return np.where(r < 1, 1 - 1.5 * r + 0.5 * r**3, 0.0)
    >>> find_radii(spherical, 3).law.error < 1e-3
    True
    >>> find_radii(spherical, 5).witness is not None
    True
    """
    # many dimensions leave few digits: a smaller one convicts as well
    for dimension in sorted({min(n_features, fewer) for fewer in (3, 8, _MOST_FEATURES)}):
        quick, tables = _survey(profile, dimension)
        if quick is not None and (quick.witness is not None or dimension == n_features):
            return quick
    mixture = numeric_mixing(profile)
    if mixture.residual <= TOLERANCE / 100.0:
        return _mixed(mixture, n_features)
    findings = []
    for spectrum, table in tables if n_features <= _MOST_FEATURES else []:
        findings.append(_tabulate(spectrum, table))
        if findings[-1].witness is not None or findings[-1].law is not None:
            return findings[-1]
    if mixture.residual <= TOLERANCE:
        return _mixed(mixture, n_features)
    how = f"it is no mixture of Gaussians, and beyond {_MOST_FEATURES} dimensions rounding hides every other law"
    return findings[0] if findings else SpectralFinding(None, how)


@dataclass(frozen=True)
class _Table:
    """Columns of an array: frequencies, mass within them and its error, density (by w'/w) and its error."""

    columns: Array  # (5, n)

    @classmethod
    def at(cls, spectrum: RadialSpectrum, w: Array) -> _Table:
        return cls(np.array([w, *spectrum.cumulative(w), *spectrum.density(w)]))

    def with_rows(self, places: Array, other: _Table) -> _Table:
        return _Table(np.insert(self.columns, places, other.columns, axis=1))

    def __len__(self) -> int:
        return self.columns.shape[1]


@lru_cache(maxsize=64)
def _survey(profile: Profile, n_features: int) -> tuple[SpectralFinding | None, list[tuple[RadialSpectrum, _Table]]]:
    """What a coarse look decides, and what it saw."""
    spectrum = RadialSpectrum(profile, n_features)
    if spectrum.constant < -1e-9:
        witness = Witness(n_features, 0.0, spectrum.constant, 1e-12)
        how = f"the profile tends to {spectrum.constant:.2g}, and its mean over all distances is the mass at zero"
        return SpectralFinding(None, how, -spectrum.constant, 1.0, witness), []
    if spectrum.constant > 1.0 - 1e-9:
        return SpectralFinding(NumericRadii(np.zeros(2), np.array([0.0, 1.0]), 1e-9), "a constant"), []
    spectra = [spectrum] if spectrum.decays else []
    if not (spectrum.decays and spectrum.resolved):
        sphere = _sphere(profile, n_features, spectrum.scale)
        if sphere is not None:
            return SpectralFinding(sphere, "one sphere of frequencies"), []
        # a shorter part of the profile is known more precisely
        windowed = [RadialSpectrum(profile, n_features, window) for window in WINDOWS]
        spectra += [found for found in windowed if found.resolved]
        spectra = spectra or windowed[-1:]
    tables = []
    for spectrum in spectra:
        table = _coarse(spectrum)
        negative = _negative(spectrum, table)
        if negative is not None:
            return negative, []
        tables.append((spectrum, table))
    return None, tables


def _mixed(mixture: NumericMixing, n_features: int) -> SpectralFinding:
    """The lengths s χ(d) of a mixture of Gaussians."""
    s = mixture.scales[mixture.scales > 0.0]
    atom = 1.0 - float(mixture.weights[mixture.scales > 0.0].sum())
    low, high = 1e-3 * s.min(), (math.sqrt(n_features) + 8.0) * s.max()
    w = np.geomspace(low, high, int(300 * math.log10(high / low)))
    F = gammainc(0.5 * n_features, 0.5 * (w[:, None] / s) ** 2) @ mixture.weights[mixture.scales > 0.0]
    cumulative = np.concatenate([[0.0, atom], (atom + F) / (atom + F[-1])])
    law = NumericRadii(np.append([0.0, 0.0], w), cumulative, mixture.residual + 0.02 * TOLERANCE)
    return SpectralFinding(law, f"a mixture of Gaussians is within {mixture.residual:.1g} of it")


def _coarse(spectrum: RadialSpectrum) -> _Table:
    """Eight frequencies an octave, as far as there is mass and it can be told."""
    found = []
    for octave in range(math.floor(-math.log2(spectrum.reach)) - 3, 34, 2):
        found.append(_Table.at(spectrum, 2.0 ** (octave + np.arange(0.0, 2.0, 0.125)) / spectrum.scale).columns)
        _, mass, error, _, _ = found[-1]
        if error.max() > TOLERANCE / 10.0 or np.abs(1.0 - mass).max() < 1e-7:
            break
    columns = np.hstack(found)
    return _Table(columns[:, columns[2] <= TOLERANCE / 10.0])


def _tabulate(spectrum: RadialSpectrum, table: _Table) -> SpectralFinding:
    """Cut steps until F is a cubic in each, from its values and slopes at the ends.

    Where F is off by δ within a step h, the kernel at distance r is off by about r δ h, and by no more than the mass.
    """
    if not len(table):
        return SpectralFinding(None, "its transform is lost in rounding", mass=0.0)
    off = np.full(len(table) - 1, np.inf)
    while spectrum.blur < TOLERANCE and off.max() > _STEP and len(table) < 8000:  # else there is no law
        at = np.flatnonzero(off > _STEP)
        w, F, _, density, _ = table.columns
        h, slope = np.diff(w)[at], density / w
        middle = _Table.at(spectrum, w[at] + _CUT * h)
        inside = middle.columns[1]
        cubic = np.array([F[at], h * slope[at], F[at + 1], h * slope[at + 1]]).T @ _hermite(_CUT)
        error = np.abs(inside - cubic) * h * spectrum.visible
        masses = np.abs([inside - F[at], F[at + 1] - inside])
        # errors go with h⁵ where F is smooth; otherwise with the mass
        parts = np.where(error < masses.sum(axis=0), np.minimum([error / 64.0, error / 8.0], masses), masses)
        parts[:, h < 1e-9 * w[at]] = 0.0
        off[at] = parts[0]
        off = np.insert(off, at + 1, parts[1])
        table = table.with_rows(at + 1, middle)
    negative = _negative(spectrum, table)
    if negative is not None:
        return negative
    w, F, errors, density, _ = table.columns
    fallen = float((np.maximum.accumulate(F) - F).max())
    lost, missing = 2.0 * float(errors.max()) + fallen, abs(1.0 - float(F[-1]))
    interpolated = 2.0 * float(off.sum()) + 0.02 * TOLERANCE
    atom = spectrum.constant
    mass, error = atom + (1.0 - atom) * float(F[-1]), spectrum.blur + missing + lost + interpolated
    if not error <= TOLERANCE:
        reasons = {
            f"it does not decay, and distances beyond {spectrum.reach * spectrum.scale:.2g} matter": spectrum.blur,
            f"frequencies beyond {w[-1]:.3g} hold {missing:.2g} of its mass": missing,
            f"rounding hides {lost:.2g} of its mass": lost,
            "its density is too rough for a table": interpolated if spectrum.blur < TOLERANCE else 0.0,
        }
        return SpectralFinding(None, max(reasons, key=reasons.__getitem__), _lost(F), mass)
    rising = np.maximum.accumulate(np.maximum(F, 0.0))
    t, h, step = np.linspace(0.0, 1.0, 16, endpoint=False), np.diff(w), np.diff(rising)  # sixteen lines a cubic
    # slopes of at most three times the mean keep a cubic monotone (Fritsch & Carlson 1980)
    before, after = (np.clip(h * slope, 0.0, 3.0 * step) for slope in ((density / w)[:-1], (density / w)[1:]))
    fine = np.column_stack([rising[:-1], before, rising[1:], after]) @ _hermite(t)
    lengths = np.append(w[:-1, None] + h[:, None] * t, w[-1])
    cumulative = atom + (1.0 - atom) * np.append(fine, rising[-1]) / rising[-1]
    law = NumericRadii(np.append([0.0, 0.0], lengths), np.append([0.0, atom], cumulative), error)
    return SpectralFinding(law, f"Hankel transform, to {error:.1g}", _lost(F), mass)


def _hermite(t: Any) -> Array:
    """The cubics of values and slopes at 0 and at 1, (4, ...)."""
    return np.array([1.0 - 3.0 * t**2 + 2.0 * t**3, t - 2.0 * t**2 + t**3, 3.0 * t**2 - 2.0 * t**3, t**3 - t**2])


def _lost(F: Array) -> float:
    """By how much a distribution function falls where it should rise."""
    return float(np.maximum(-np.diff(np.append(0.0, F)), 0.0).sum())


def _negative(spectrum: RadialSpectrum, table: _Table) -> SpectralFinding | None:
    w, F, _, density, doubt = table.columns
    certain = density + _CERTAIN * doubt + _NOISE
    if not len(w) or certain.min() >= 0.0:
        return None
    at = int(np.argmin(certain))
    witness = Witness(spectrum.n_features, float(w[at]), float(density[at]), float(doubt[at]))
    return SpectralFinding(None, str(witness), _lost(F), float(F[-1]), witness)


def _sphere(profile: Profile, n_features: int, scale: float) -> NumericRadii | None:
    """The law of one length, if the profile is that of one sphere of frequencies: cos, J₀, sin(r)/r."""

    def wave(x: Array) -> Array:  # 1 at 0; Γ(d/2) (2/x)^(d/2-1) J_{d/2-1}(x)
        return np.asarray(hyp0f1(0.5 * n_features, -0.25 * x * x))

    value = float(values_of(profile, np.array([scale]))[0])
    x = np.linspace(0.0, n_features + 4.0, 4000)  # beyond its first minimum
    falls = wave(x)
    end = int(np.argmin(falls))
    if not falls[end] < value < 1.0:
        return None
    length = brentq(lambda t: float(wave(np.array([t]))[0]) - value, 0.0, x[end], xtol=1e-15, rtol=1e-15) / scale
    r = scale * np.geomspace(1e-3, 1e6, 20000)
    error = float(np.abs(values_of(profile, r) - wave(length * r)).max())
    return NumericRadii(np.array([length, length]), np.array([0.0, 1.0]), error) if error <= 1e-5 else None
