"""Results of solvers and of randomised linear algebra, and reports about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from bochner.backends import Array
from bochner.displays import Display

CONFIDENCE = 0.999  # probability with which an interval holds the truth
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
        """Make the estimate of a number that is known up to rounding."""
        return cls(value, 0.0, value, value, 0, 1.0)

    @classmethod
    def without_interval(cls, value: float, standard_error: float = 0.0, n_probes: int = 0) -> Estimate:
        """Make an estimate for which no interval is known that holds for every matrix."""
        return cls(value, standard_error, -np.inf, np.inf, n_probes, 1.0)

    def __float__(self) -> float:
        return self.value

    def times(self, unit: float) -> Estimate:
        """Return the estimate in other units."""
        value, error, low, high = unit * self.value, unit * self.standard_error, unit * self.low, unit * self.high
        return replace(self, value=value, standard_error=error, low=low, high=high)

    def plus(self, offset: float) -> Estimate:
        """Return the estimate of the number plus a known offset."""
        return replace(self, value=self.value + offset, low=self.low + offset, high=self.high + offset)

    def widened(self, margin: float) -> Estimate:
        """Return the estimate with an interval that allows for rounding."""
        return replace(self, low=self.low - margin, high=self.high + margin)


@dataclass(frozen=True, repr=False)
class Report(Display):
    """A method, whether it converged, and estimates of the error.

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
        """Return the report with more notes."""
        return replace(self, notes=(*self.notes, *notes))


class Result:
    """A frozen record that unpacks, and is indexed, like the tuple NumPy would have returned."""

    report: Report
    unpacked: ClassVar[tuple[str, ...]]
    powers: ClassVar[Mapping[str, int]] = {}  # powers of A by which the parts grow

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, name) for name in self.unpacked])

    def __len__(self) -> int:
        return len(self.unpacked)

    def __getitem__(self, index: int | slice) -> Any:
        return tuple(self)[index]

    def times(self, unit: float) -> Self:
        """Return the result for unit · A, from the one for A; only relative errors stay the same."""
        if unit == 1.0:
            return self
        estimates = {k: e if k.startswith("relative") else e.times(unit) for k, e in self.report.estimates.items()}
        with np.errstate(over="ignore", under="ignore"):
            parts = {name: getattr(self, name) * unit**power for name, power in self.powers.items()}
        check_range(*parts.values())
        return replace(self, report=replace(self.report, estimates=estimates), **parts)  # type: ignore[type-var]


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
