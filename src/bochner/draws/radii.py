"""The distribution of the lengths of a radial profile's frequencies in a given dimension, or why there is none.

A profile that is positive definite in the data's dimension only (Wendland's, the spherical one) is not a mixture of
Gaussians; its frequencies are a uniform direction times a length whose distribution depends on the dimension. The
spectral measure is computed by an adaptive Hankel transform with an error estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammainc, gammaln, hankel1e, hyp0f1, jv, spherical_jn

from bochner.backends import Array
from bochner.draws.mixtures import TOLERANCE, NumericMixing, Profile, numeric_mixing, profile_scale, values_of

_EPS = float(np.finfo(float).eps)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)  # quadrature of a panel
# maps values at the nodes to Legendre coefficients; ∫ P_n(x) exp(i a x) over [-1, 1] is 2 iⁿ j_n(a)
_LEGENDRE = np.polynomial.legendre.legvander(_NODES, 15).T * (np.arange(16) + 0.5)[:, None] * _WEIGHTS
# points between the nodes and at the ends, where a kink could hide, and the map from nodal values to the series there
_CHECKS = np.array([-1.0, -0.996, -0.42, 0.39, 0.997, 1.0])
_SERIES = np.polynomial.legendre.legvander(_CHECKS, 15) @ _LEGENDRE
_PHASES = 2.0 * 1j ** np.arange(16)
_SMALLEST = 2.0**-40  # end of the first panel, in units of the profile's scale
# widths of the windows of a profile that does not decay, in units of its scale
WINDOWS = (2.0**16, 2.0**12, 2.0**10, 2.0**8, 2.0**5)


class RadialSpectrum:
    """Bochner's measure of a radial profile in n_features dimensions, as a distribution of lengths of frequencies.

    F(w) = c ∫ k(r) (wr)^(d/2) J_{d/2}(wr) dr/r is its mass within radius w, c = 2^(1-d/2) / Γ(d/2), and its slope has
    J_{d/2-1}. Panels of r are halved until sixteen Legendre polynomials give the profile to 13 digits, kinks and ends
    of support included. Where J turns many times within a panel, its slowly varying amplitude (Hankel's function times
    exp(-iwr)) is expanded instead, and the rest is integrated exactly: so frequencies and radii may be of any size.

    A profile that does not decay is multiplied by exp(-r²/2L²). What that leaves has a density, and it is positive
    definite if the profile is (Schur), so that a negative density still shows that the profile is not.

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
        # a constant part is a frequency of zero, an atom of the measure, which is subtracted
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
        self.visible = self.scale * min(visible, 3.0 * self._width)  # the profile is negligible beyond this radius
        self._make_panels()

    def _make_panels(self) -> None:
        # panels are narrow enough for the amplitude of Hankel's function of order d/2 to be smooth
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
            # more panels in one dimension, where Bessel functions are cosines and cheap
            most = 2400 if self.n_features == 1 else 800
            if n_done + 2 * int((~fine).sum()) > most:  # stop here: the error estimate includes what is left
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
        """Largest change of the profile by the window."""
        if math.isinf(self._width):
            return 0.0
        x = np.geomspace(1e-2, 1e4, 20000)
        values = values_of(self._profile, self.scale * self._width * x) - self.constant
        return float(np.nanmax(np.abs(values) * -np.expm1(-0.5 * x * x)))

    def cumulative(self, w: Array) -> tuple[Array, Array]:
        """Return the mass within frequencies of length w (n,), without the atom at zero, and its error."""
        order = 0.5 * self.n_features
        return self._transform(np.asarray(w) * self.scale, order, order - 1.0)

    def density(self, w: Array) -> tuple[Array, Array]:
        """Return the mass in a shell at length w (n,) by its relative thickness, w F'(w), and its error."""
        order = 0.5 * self.n_features
        return self._transform(np.asarray(w) * self.scale, order - 1.0, order)

    def _transform(self, w: Array, order: float, power: float) -> tuple[Array, Array]:
        """Integrate k(r) c (wr)^power J_order(wr) w dr, with its error; w in units of 1/scale."""
        constant = math.exp((1.0 - 0.5 * self.n_features) * math.log(2.0) - gammaln(0.5 * self.n_features))
        total, error = np.zeros(len(w)), np.zeros(len(w))
        step = max(1, (1 << 18) // self._values.size)
        for start in range(0, len(w), step):
            block = w[start : start + step]
            # sixteen nodes integrate the Bessel function itself up to a phase of 10 over a panel
            quiet = np.outer(block, 2.0 * self._half) <= 10.0
            for found, integrate in ((quiet, self._oscillation), (~quiet, self._amplitude)):
                i, panel = np.nonzero(found)
                with np.errstate(all="ignore"):  # powers overflow in hundreds of dimensions
                    parts, errors = integrate(block[i], panel, order, power)
                total += np.bincount(start + i, constant * parts, len(w))
                error += np.bincount(start + i, constant * errors, len(w))
        lost = ~(np.isfinite(total) & np.isfinite(error))
        return np.where(lost, 0.0, total), np.where(lost, np.inf, error)

    def _oscillation(self, w: Array, panel: Array, order: float, power: float) -> tuple[Array, Array]:
        half, values = self._half[panel], self._values[panel]
        x = w[:, None] * (self._middle[panel, None] + half[:, None] * _NODES)
        factor = x**power * _bessel(order, x) * w[:, None]
        uncertain = self._errors[panel] + 8.0 * _EPS * np.abs(values).max(axis=1)
        return half * ((factor * values) @ _WEIGHTS), 2.0 * half * np.abs(factor).max(axis=1) * uncertain

    def _amplitude(self, w: Array, panel: Array, order: float, power: float) -> tuple[Array, Array]:
        half, values, turns = self._half[panel], self._values[panel], w * self._half[panel]
        x = w[:, None] * (self._middle[panel, None] + half[:, None] * _NODES)
        amplitude = x**power * _hankel(order, x)  # times w, and divided by w for the integral of an oscillation
        series = (amplitude * values) @ _LEGENDRE.T
        moments = _PHASES * spherical_jn(np.arange(16)[:, None], turns).T
        parts = turns * (np.exp(1j * w * self._middle[panel]) * (series * moments).sum(axis=1)).real
        size = np.abs(amplitude).max(axis=1)
        rounding = 4.0 * _EPS * (4.0 + w * self._middle[panel]) * np.abs(values).max(axis=1)
        # the integral of an oscillation over a panel is at most four times its amplitude, and so is that of the error
        # of a series
        return parts, size * (8.0 * self._errors[panel] + rounding) + 8.0 * np.abs(series[:, -2:]).max(axis=1)


def _bessel(order: float, x: Array) -> Array:
    """Return J_order(x): a formula in one dimension, and series close to zero and far out, are ten times faster."""
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
    """Return exp(-ix) (J + iY)(x) of the order, which does not oscillate, for x > 10.

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


_MOST_FEATURES = 30  # rounding errors dominate in more dimensions
_STEP = 3e-4 * TOLERANCE  # largest error allowed within a step of a table
_CUT = 0.3819660112501051  # steps are cut at the golden section, which no oscillation's period resonates with


@dataclass(frozen=True)
class NumericRadii:
    """The distribution of the lengths of frequencies in some dimension: a table of the distribution function.

    Attributes
    ----------
    lengths, cumulative : ndarray
        Interpolated linearly.
    error : float
        Largest error of the kernel of these frequencies, at any distance.
    """

    lengths: Array
    cumulative: Array
    error: float

    def __call__(self, u: Array) -> Array:
        """Return the lengths of the uniforms, of any shape."""
        return np.interp(u, self.cumulative, self.lengths)


@dataclass(frozen=True)
class SpectralFinding:
    """What was found of a radial profile in n_features dimensions.

    Attributes
    ----------
    law : NumericRadii or None
        Where the measure was found to be a probability measure, to the tolerance.
    how : str
        How the distribution was found, or why there is none.
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
    """A frequency at which the density is negative by far more than its numerical error.

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
    """Find the distribution of the lengths of a profile's frequencies in n_features dimensions, or why there is none.

    It first looks for a negative density, then tries a mixture of Gaussians, and then tabulates the transform.

    Parameters
    ----------
    profile : callable
        k as a function of r = ||x - y|| ≥ 0, with profile(0) = 1.
    n_features : int

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.draws.radii import find_radii
    >>> def spherical(r):
    ...     return np.where(r < 1, 1 - 1.5 * r + 0.5 * r**3, 0.0)
    >>> find_radii(spherical, 3).law.error < 1e-3
    True
    >>> find_radii(spherical, 5).witness is not None
    True
    """
    # few digits remain in many dimensions; a negative density in fewer dimensions proves the same
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
    """Return what coarse tables of the spectra decide, or None, and the tables."""
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
        # narrower windows are transformed more precisely
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
    """Tabulate the lengths s χ(d) of a mixture of Gaussians."""
    s = mixture.scales[mixture.scales > 0.0]
    atom = 1.0 - float(mixture.weights[mixture.scales > 0.0].sum())
    low, high = 1e-3 * s.min(), (math.sqrt(n_features) + 8.0) * s.max()
    w = np.geomspace(low, high, int(300 * math.log10(high / low)))
    F = gammainc(0.5 * n_features, 0.5 * (w[:, None] / s) ** 2) @ mixture.weights[mixture.scales > 0.0]
    cumulative = np.concatenate([[0.0, atom], (atom + F) / (atom + F[-1])])
    law = NumericRadii(np.append([0.0, 0.0], w), cumulative, mixture.residual + 0.02 * TOLERANCE)
    return SpectralFinding(law, f"a mixture of Gaussians is within {mixture.residual:.1g} of it")


def _coarse(spectrum: RadialSpectrum) -> _Table:
    """Tabulate eight frequencies in each octave, up to the last mass above the numerical error."""
    found = []
    for octave in range(math.floor(-math.log2(spectrum.reach)) - 3, 34, 2):
        found.append(_Table.at(spectrum, 2.0 ** (octave + np.arange(0.0, 2.0, 0.125)) / spectrum.scale).columns)
        _, mass, error, _, _ = found[-1]
        if error.max() > TOLERANCE / 10.0 or np.abs(1.0 - mass).max() < 1e-7:
            break
    columns = np.hstack(found)
    return _Table(columns[:, columns[2] <= TOLERANCE / 10.0])


def _refined(spectrum: RadialSpectrum, table: _Table) -> tuple[_Table, Array]:
    """Cut steps until F is a cubic in each, from its values and slopes at the ends; return the errors of the steps.

    Where F is off by δ within a step h, the kernel at distance r is off by about r δ h, and by no more than the mass.
    """
    off = np.full(len(table) - 1, np.inf)
    while (
        spectrum.blur < TOLERANCE and off.max() > _STEP and len(table) < 8000
    ):  # a stronger blur rules out a distribution
        at = np.flatnonzero(off > _STEP)
        w, F, _, density, _ = table.columns
        h, slope = np.diff(w)[at], density / w
        middle = _Table.at(spectrum, w[at] + _CUT * h)
        inside = middle.columns[1]
        cubic = np.array([F[at], h * slope[at], F[at + 1], h * slope[at + 1]]).T @ _hermite(_CUT)
        error = np.abs(inside - cubic) * h * spectrum.visible
        masses = np.abs([inside - F[at], F[at + 1] - inside])
        # errors scale with h⁵ where F is smooth, otherwise with the mass
        parts = np.where(error < masses.sum(axis=0), np.minimum([error / 64.0, error / 8.0], masses), masses)
        parts[:, h < 1e-9 * w[at]] = 0.0
        off[at] = parts[0]
        off = np.insert(off, at + 1, parts[1])
        table = table.with_rows(at + 1, middle)
    return table, off


def _tabulate(spectrum: RadialSpectrum, table: _Table) -> SpectralFinding:
    """Find the distribution function by a table that is fine enough, or say why there is none."""
    if not len(table):
        return SpectralFinding(None, "its transform is lost in rounding", mass=0.0)
    table, off = _refined(spectrum, table)
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
    t = np.linspace(0.0, 1.0, 16, endpoint=False)  # each cubic becomes sixteen straight lines
    h, step = np.diff(w), np.diff(rising)
    # a cubic is monotone if its slopes are at most three times the mean (Fritsch & Carlson 1980)
    before, after = (np.clip(h * slope, 0.0, 3.0 * step) for slope in ((density / w)[:-1], (density / w)[1:]))
    fine = np.column_stack([rising[:-1], before, rising[1:], after]) @ _hermite(t)
    lengths = np.append(w[:-1, None] + h[:, None] * t, w[-1])
    cumulative = atom + (1.0 - atom) * np.append(fine, rising[-1]) / rising[-1]
    law = NumericRadii(np.append([0.0, 0.0], lengths), np.append([0.0, atom], cumulative), error)
    return SpectralFinding(law, f"Hankel transform, to {error:.1g}", _lost(F), mass)


def _hermite(t: float | Array) -> Array:
    """Return the cubics of values and slopes at 0 and at 1, (4, ...)."""
    return np.array([1.0 - 3.0 * t**2 + 2.0 * t**3, t - 2.0 * t**2 + t**3, 3.0 * t**2 - 2.0 * t**3, t**3 - t**2])


def _lost(F: Array) -> float:
    """Return by how much a distribution function falls in all."""
    return float(np.maximum(-np.diff(np.append(0.0, F)), 0.0).sum())


def _negative(spectrum: RadialSpectrum, table: _Table) -> SpectralFinding | None:
    w, F, _, density, doubt = table.columns
    certain = density + 10.0 * doubt + 1e-8  # negative beyond ten error estimates and rounding
    if not len(w) or certain.min() >= 0.0:
        return None
    at = int(np.argmin(certain))
    witness = Witness(spectrum.n_features, float(w[at]), float(density[at]), float(doubt[at]))
    return SpectralFinding(None, str(witness), _lost(F), float(F[-1]), witness)


def _sphere(profile: Profile, n_features: int, scale: float) -> NumericRadii | None:
    """Find the length of all frequencies if they have only one: cos, J₀, sin(r)/r."""

    def one_length(x: Array) -> Array:  # 1 at 0; Γ(d/2) (2/x)^(d/2-1) J_{d/2-1}(x)
        return np.asarray(hyp0f1(0.5 * n_features, -0.25 * x * x))

    value = float(values_of(profile, np.array([scale]))[0])
    x = np.linspace(0.0, n_features + 4.0, 4000)  # reaches beyond the first minimum
    falls = one_length(x)
    end = int(np.argmin(falls))
    if not falls[end] < value < 1.0:
        return None
    length = brentq(lambda t: float(one_length(np.array([t]))[0]) - value, 0.0, x[end], xtol=1e-15, rtol=1e-15) / scale
    r = scale * np.geomspace(1e-3, 1e6, 20000)
    error = float(np.abs(values_of(profile, r) - one_length(length * r)).max())
    return NumericRadii(np.array([length, length]), np.array([0.0, 1.0]), error) if error <= 1e-5 else None
