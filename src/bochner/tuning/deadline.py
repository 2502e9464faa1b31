"""Time limits of searches."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from bochner.data.progress import Stopwatch


@dataclass(frozen=True)
class Deadline:
    """A limit on the seconds since a clock was started.

    Parameters
    ----------
    limit : float or None
        Seconds; None for no limit.
    clock : Stopwatch
        The default starts when the deadline is made.

    Examples
    --------
    >>> from bochner.tuning.deadline import Deadline
    >>> Deadline(60.0).share(0.5).limit, Deadline().left(), Deadline(-1.0).is_late()
    (30.0, inf, True)
    """

    limit: float | None = None
    clock: Stopwatch = field(default_factory=Stopwatch)

    def left(self) -> float:
        """Return the seconds left; negative after the limit."""
        return math.inf if self.limit is None else self.limit - self.clock.seconds()

    def is_late(self) -> bool:
        """Return True after the limit."""
        return self.left() < 0.0

    def share(self, fraction: float) -> Deadline:
        """Return a deadline after a fraction of the seconds, with the same clock."""
        return self if self.limit is None else replace(self, limit=fraction * self.limit)


NO_LIMIT = Deadline()
