"""Certificates: measured errors with their intervals, and what measuring them cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from bochner.displays import Display


@dataclass(frozen=True)
class Effort:
    """What a measurement cost.

    Parameters
    ----------
    kernel_entries : int
        Values k(x, y) evaluated.
    feature_rows : int
        Rows mapped to features.
    seconds : float
        Time it took.
    """

    kernel_entries: int
    feature_rows: int
    seconds: float = field(compare=False)  # no two runs take the same time

    def __str__(self) -> str:
        return (
            f"{_short(self.kernel_entries)} kernel entries, {_short(self.feature_rows)} rows of features, "
            f"{self.seconds:.2g} s"
        )


@dataclass(frozen=True, repr=False)
class Certificate(Display):
    """A number measured on data, with an interval that contains the true one; ``float(certificate)`` is the value.

    Parameters
    ----------
    quantity : str
        What was measured.
    value : float
        The estimate; the number itself where the interval is a point.
    interval : (float, float) or None
        Contains the true number with probability `confidence`, over the randomness that `how` names. None where the
        uncertainty of the value is not known; `low` and `high` are then infinite.
    confidence : float or None
        Probability with which the interval contains the true number; None where there is no interval.
    how : str
        How it was measured, and what the interval rests on.
    cost : Effort
        What the measurement took.

    Examples
    --------
    >>> from bochner.certificates import Certificate, Effort
    >>> Certificate("frobenius", 2.5, (2.4, 2.6), 0.95, "1000 × 1000 random entries", Effort(10**6, 2000, 0.1))
    Certificate: frobenius = 2.5, in [2.4, 2.6] with 95 % confidence
      how: 1000 × 1000 random entries
      cost: 1M kernel entries, 2k rows of features, 0.1 s
    """

    quantity: str
    value: float
    interval: tuple[float, float] | None
    confidence: float | None
    how: str
    cost: Effort

    @property
    def exact(self) -> bool:
        """Return True if the value is exact up to rounding."""
        return self.interval is not None and self.interval[0] == self.interval[1]

    @property
    def low(self) -> float:
        return -math.inf if self.interval is None else self.interval[0]

    @property
    def high(self) -> float:
        return math.inf if self.interval is None else self.interval[1]

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        known = "exactly" if self.exact else "with no interval"
        if self.interval is not None and self.confidence is not None and not self.exact:
            known = f"in [{self.low:.4g}, {self.high:.4g}] with {100 * self.confidence:g} % confidence"
        return f"{self.quantity} = {self.value:.4g}, {known}"

    def _facts(self) -> tuple[str, dict[str, str]]:
        return f"Certificate: {self}", {"how": self.how, "cost": str(self.cost)}


def _short(count: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return f"{count:.0f}"
