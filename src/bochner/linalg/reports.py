"""Results of this package's functions, and their reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import lambertw

from bochner.backends import Array
from bochner.displays import Display
from bochner.theory import trace_upper_factor

CONFIDENCE = 0.999
DELTA = 1.0 - CONFIDENCE


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated, and its confidence interval.

    Attributes
    ----------
    value, standard_error : float
        The estimate, and its standard deviation over draws; zero where it is exact.
    low, high : float
        The interval contains the true number with probability at least `confidence`, whatever the matrix; a
        confidence of 1 means a theorem. Infinite where no bound is known that holds for every matrix.
    n_probes : int
        Random vectors it was estimated from; 0 for a number computed exactly.
    confidence : float
        Probability with which the interval holds the truth.
    """

    value: float
    standard_error: float
    low: float
    high: float
    n_probes: int
    confidence: float = CONFIDENCE

    @classmethod
    def exact(cls, value: float) -> Estimate:
        """A number that is known up to rounding."""
        return cls(value, 0.0, value, value, 0, 1.0)

    @classmethod
    def without_interval(cls, value: float, standard_error: float = 0.0, n_probes: int = 0) -> Estimate:
        """A number for which no interval is known that holds for every matrix."""
        return cls(value, standard_error, -np.inf, np.inf, n_probes, 1.0)

    def __float__(self) -> float:
        return self.value

    def times(self, unit: float) -> Estimate:
        """The same in other units."""
        value, error, low, high = unit * self.value, unit * self.standard_error, unit * self.low, unit * self.high
        return replace(self, value=value, standard_error=error, low=low, high=high)

    def plus(self, offset: float) -> Estimate:
        """The same for the number plus a known offset."""
        return replace(self, value=self.value + offset, low=self.low + offset, high=self.high + offset)

    def widened(self, margin: float) -> Estimate:
        """The same with an interval that allows for rounding."""
        return replace(self, low=self.low - margin, high=self.high + margin)


@dataclass(frozen=True, repr=False)
class Report(Display):
    """What was done, whether it converged, and estimates of the error.

    Attributes
    ----------
    method : str
        What ran; where the method asked for was replaced by a better or safer one, what replaced it.
    iterations : int
        Passes over the matrix after the first one, or steps of an iteration; 0 for direct solvers.
    converged : bool or None
        Whether the tolerance was met; None where none was asked for.
    residual : float
        What the method drives to zero, relative to its natural size; the largest over right-hand sides.
    estimates : mapping of str to `Estimate`
        What was estimated, by name.
    notes : tuple of str
        What a user should know: a fallback, a rank that was cut, a limit that was met, a choice that was made.
    condition : float
        Estimated condition number of the matrix that was factored; nan when unknown.
    jitter : float
        What had to be added to a penalty so that rounding does not make the matrix indefinite.
    """

    method: str
    iterations: int = 0
    converged: bool | None = None
    residual: float = 0.0
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    condition: float = float("nan")
    jitter: float = 0.0

    def _facts(self) -> tuple[str, dict[str, str]]:
        ended = {True: ", converged", False: ", not converged", None: ""}[self.converged]
        facts = {"iterations": str(self.iterations)} if self.iterations else {}
        if self.residual:
            facts["residual"] = f"{self.residual:.3g}"
        if np.isfinite(self.condition):
            facts["condition"] = f"{self.condition:.3g}"
        if self.jitter:
            facts["jitter"] = f"{self.jitter:.3g}"
        for name, estimate in self.estimates.items():
            known = f"in [{estimate.low:.4g}, {estimate.high:.4g}]" if np.isfinite(estimate.high) else "no interval"
            facts[name] = f"{estimate.value:.4g}, {known}"
        return f"Report: {self.method}{ended}", {**facts, **({"notes": "; ".join(self.notes)} if self.notes else {})}

    def noting(self, *notes: str) -> Report:
        """The same report with more notes."""
        return replace(self, notes=(*self.notes, *notes))


class Result:
    """A frozen record that unpacks, and is indexed, like the tuple NumPy would have returned."""

    report: Report
    unpacked: ClassVar[tuple[str, ...]]
    powers: ClassVar[Mapping[str, int]] = {}  # of A, by which its parts grow

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, name) for name in self.unpacked])

    def __len__(self) -> int:
        return len(self.unpacked)

    def __getitem__(self, index: int | slice) -> Any:
        return tuple(self)[index]

    def times(self, unit: float) -> Self:
        """The result for unit · A, from that for A; only relative errors stay the same."""
        if unit == 1.0:
            return self
        estimates = {k: e if k.startswith("relative") else e.times(unit) for k, e in self.report.estimates.items()}
        with np.errstate(over="ignore", under="ignore"):
            parts = {name: getattr(self, name) * unit**power for name, power in self.powers.items()}
        check_range(*parts.values())
        return replace(self, report=replace(self.report, estimates=estimates), **parts)  # type: ignore[type-var]


def met(residual: float, tol: float | None) -> bool | None:
    """`Report.converged` for a residual that should be at most tol, up to rounding."""
    return None if tol is None else bool(residual <= tol * (1.0 + 1e-6))


def check_range(*parts: Any) -> None:
    """Raise an error where a result is beyond the range of the user's dtype."""
    for part in parts:
        if not np.isfinite(part).all():
            dtype = np.asarray(part).dtype
            raise ValueError(f"the result is beyond the range of {dtype}: divide the matrix by its scale first.")


@dataclass(frozen=True)
class Solution(Result):
    """The solution `x` of a system and the `report`; unpacks as ``x, report``, so ``result[0]`` is x as in NumPy."""

    x: Array
    report: Report
    unpacked: ClassVar[tuple[str, ...]] = ("x", "report")


class LowRank(Result, ABC):
    """An approximation left · right of a matrix."""

    @abstractmethod
    def factors(self) -> tuple[Array, Array]:
        """(left, right): arrays whose product is the approximation."""

    @property
    def rank(self) -> int:
        return int(self.factors()[0].shape[1])

    def __matmul__(self, B: Array) -> Array:
        left, right = self.factors()
        return left @ (right @ B)

    def to_dense(self) -> Array:
        """The approximation itself."""
        left, right = self.factors()
        return left @ right


def deviation(n_probes: int, delta: float) -> float:
    """Return the x > 0 with ((1 + x) exp(-x))^(n_probes / 2) = delta.

    For the mean of n_probes forms gᵀBg, g ~ N(0, I), P(mean - tr B ≥ x ‖B‖_F) ≤ delta, and the same of tr B - mean:
    Chernoff, since of all B with one Frobenius norm that of rank one has the largest moment generating function. For
    a positive semi-definite B also P(mean ≥ (1 + x) tr B) ≤ delta. Columns that are uniform on the sphere
    ‖g‖² = n in place of Gaussian ones have smaller moment generating functions, by Jensen's inequality.
    """
    return float(-lambertw(-(delta ** (2.0 / n_probes)) / np.e, -1).real) - 1.0


def _ends(norm: Estimate, delta: float) -> tuple[float, float]:
    """Interval of a Frobenius norm that was estimated as a root mean square, whatever the spectrum."""
    if norm.n_probes == 0:
        return norm.value, norm.value
    low = norm.value / np.sqrt(1.0 + deviation(norm.n_probes, delta / 2.0))
    return float(low), float(norm.value * np.sqrt(trace_upper_factor(norm.n_probes, delta=delta / 2.0)))


def frobenius_estimate(products: Array) -> Estimate:
    """‖A‖_F from products of A with standard normal columns: E‖Aω‖² = ‖A‖_F²."""
    unit = float(np.abs(products).max(initial=0.0)) or 1.0  # squares of squares overflow long before their roots
    squares = np.einsum("ij,ij->j", products / unit, products / unit, dtype=np.float64)
    s, value = len(squares), float(np.sqrt(squares.mean()))
    error = float(squares.std(ddof=1) / np.sqrt(4.0 * s * squares.mean())) if value > 0 else 0.0
    estimate = Estimate(unit * value, unit * error, 0.0, np.inf, s)
    low, high = _ends(estimate, DELTA)
    return replace(estimate, low=low, high=high)


def error_estimates(
    difference: Array, norm: Estimate, *, cut: float = 0.0, look: int | None = None
) -> dict[str, Estimate]:
    """Frobenius error, absolute and relative to ‖A‖_F = `norm`, from (A - Â) times standard normal columns.

    `cut` is the Frobenius norm of what was taken off Â afterwards, orthogonal to A - Â. Where such columns
    decide repeatedly whether Â is good enough, test i = 1, 2, … has a share 1 / i (i + 1) of the probability of error.
    """
    delta = DELTA if look is None else DELTA / (look * (look + 1.0))
    seen = frobenius_estimate(difference)
    value = float(np.hypot(seen.value, cut))
    error = seen.standard_error * seen.value / value if value > 0 else 0.0

    rounding = 100.0 * float(np.finfo(difference.dtype).eps) * norm.value

    def interval(delta: float) -> tuple[float, float]:
        low, high = _ends(seen, delta)
        return max(0.0, float(np.hypot(low, cut)) - rounding), float(np.hypot(high, cut)) + rounding

    absolute = Estimate(value, error, *interval(delta), seen.n_probes)
    if norm.value == 0.0:
        return {"error": absolute, "relative_error": absolute}
    known = norm.n_probes == 0
    (low, high), (least, most) = interval(delta if known else delta / 2.0), _ends(norm, DELTA / 2.0)
    ratio = value / norm.value
    spread = float(np.hypot(error, ratio * norm.standard_error)) / norm.value
    relative = Estimate(ratio, spread, low / most, high / least, seen.n_probes)
    return {"error": absolute, "relative_error": relative}


def exact_error(lost: float, norm: float, rounding: float) -> dict[str, Estimate]:
    """The same of an error whose square is the fraction `lost` of norm², known but for rounding."""
    relative = [max(0.0, lost + change) ** 0.5 for change in (0.0, -rounding, rounding)]
    sizes = {"error": norm, "relative_error": 1.0}
    return {
        key: Estimate(size * relative[0], 0.0, size * relative[1], size * relative[2], 0, 1.0)
        for key, size in sizes.items()
    }


def trace_estimate(forms: Array, squares: Array, n: int, n_probes: int | None = None) -> Estimate:
    """Trace of B (n, n) from forms zᵀBz and squares ‖Bz‖² of columns z that are uniform on the sphere ‖z‖² = n.

    The mean is within `deviation` times ‖B - cI‖_F of the trace, for any c since zᵀz = n; that norm is bounded by the
    squares. Nothing is assumed of B.
    """
    s, mean = len(forms), float(forms.mean())
    x, factor = deviation(s, DELTA / 4.0), trace_upper_factor(s, delta=DELTA / 2.0)
    # with c = tr B / n, which is not known: mean ‖(B - cI)z‖² = mean ‖Bz‖² - mean²/n + (mean - tr B)²/n, and the last
    # term is at most x² ‖B - cI‖_F² / n
    share = factor * x * x / n
    size = float(squares.mean())
    if share <= 0.8:
        size = max(0.0, size - mean * mean / n) / (1.0 - share)
    half = x * float(np.sqrt(factor * size))
    error = float(forms.std(ddof=1) / np.sqrt(s))
    return Estimate(mean, error, mean - half, mean + half, n_probes or s)
