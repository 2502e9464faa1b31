"""What every function of this package says about its own work."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from bochner.backends import Array
from bochner.theory import trace_upper_factor

CONFIDENCE = 0.999


@dataclass(frozen=True)
class Estimate:
    """A number that was estimated, and how sure it is.

    Attributes
    ----------
    value, standard_error : float
    lower, upper : float
        Bounds: the truth is outside with probability at most ``1 - confidence``; a confidence of 1 means a theorem.
    n_probes : int
        Random vectors it was estimated from; 0 for a number computed exactly.
    """

    value: float
    standard_error: float
    lower: float
    upper: float
    n_probes: int
    confidence: float = CONFIDENCE

    def __float__(self) -> float:
        return self.value

    def times(self, unit: float) -> Estimate:
        """The same in other units."""
        parts = {name: unit * getattr(self, name) for name in ("value", "standard_error", "lower", "upper")}
        return replace(self, **parts)


@dataclass(frozen=True)
class Report:
    """What was done, how far it came, and what is known of the error.

    Attributes
    ----------
    method : str
        What ran; where the method asked for was replaced by a better or safer one, what replaced it.
    iterations : int
        Passes over the matrix after the first one, or steps of an iteration.
    converged : bool
        Is `residual` below the tolerance?
    residual : float
        What the method drives to zero, relative to its natural size; the largest over right-hand sides.
    estimates : mapping of str to `Estimate`
    notes : tuple of str
        What a user should know: a fallback, a rank that was cut, a limit that was met.
    """

    method: str
    iterations: int = 0
    converged: bool = True
    residual: float = 0.0
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Result:
    """A frozen record that unpacks like the tuple NumPy would have returned."""

    report: Report
    unpacked: ClassVar[tuple[str, ...]]
    powers: ClassVar[Mapping[str, int]] = {}  # of A, by which its parts grow

    def __iter__(self) -> Iterator[Any]:
        return iter([getattr(self, name) for name in self.unpacked])

    def times(self, unit: float) -> Self:
        """The result for unit · A, from that for A; no error but the relative one stays."""
        if unit == 1.0:
            return self
        estimates = {k: e if k.startswith("relative") else e.times(unit) for k, e in self.report.estimates.items()}
        with np.errstate(over="ignore", under="ignore"):
            parts = {name: getattr(self, name) * unit**power for name, power in self.powers.items()}
        check_range(*parts.values())
        return replace(self, report=replace(self.report, estimates=estimates), **parts)  # type: ignore[type-var]


def check_range(*parts: Array) -> None:
    """What was computed in other units must be a number in the user's."""
    for part in parts:
        if not np.isfinite(part).all():
            raise ValueError(f"the result is beyond the range of {part.dtype}: divide the matrix by its scale first.")


@dataclass(frozen=True)
class Solution(Result):
    """The solution `x` of a system and the `report`; unpacks as ``x, report``."""

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


def error_estimates(difference: Array, norm: float, name: str = "error") -> dict[str, Estimate]:
    """Frobenius error, absolute and relative to `norm`, from (A - Â) times standard normal columns.

    E‖(A - Â)ω‖² = ‖A - Â‖_F²; the upper bound is that of `theory.trace_upper_factor`, the lower one a normal one.
    """
    unit = float(np.abs(difference).max(initial=0.0)) or 1.0  # squares of squares overflow long before their roots
    squares = np.einsum("ij,ij->j", difference / unit, difference / unit, dtype=np.float64)
    s, value = len(squares), unit * float(np.sqrt(squares.mean()))
    error = unit * float(squares.std(ddof=1) / np.sqrt(4.0 * s * squares.mean())) if value > 0 else 0.0
    upper = value * np.sqrt(trace_upper_factor(s, delta=1.0 - CONFIDENCE))
    absolute = Estimate(value, error, max(0.0, value - 3.3 * error), float(upper), s)
    scale = norm if norm > 0 else 1.0
    relative = Estimate(
        absolute.value / scale, error / scale, absolute.lower / scale, absolute.upper / scale, absolute.n_probes
    )
    return {name: absolute, f"relative_{name}": relative}


def exact_error(lost: float, norm: float, rounding: float, name: str = "error") -> dict[str, Estimate]:
    """The same of an error whose square is the fraction `lost` of norm², known but for rounding."""
    relative = [max(0.0, lost + change) ** 0.5 for change in (0.0, -rounding, rounding)]
    sizes = {name: norm, f"relative_{name}": 1.0}
    return {
        key: Estimate(size * relative[0], 0.0, size * relative[1], size * relative[2], 0, 1.0)
        for key, size in sizes.items()
    }


def mean_estimate(samples: Array, n_probes: int | None = None, *, caution: float = 1.0) -> Estimate:
    """The mean of samples with its error bar, widened by `caution` where the samples are not quite independent."""
    value = float(samples.mean())
    error = caution * float(samples.std(ddof=1) / np.sqrt(len(samples))) if len(samples) > 1 else float("inf")
    return Estimate(value, error, value - 3.3 * error, value + 3.3 * error, n_probes or len(samples))
