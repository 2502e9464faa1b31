"""Sizes of a table model for a given time: rows to learn metrics on, rows in a leaf, and members."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

# assumed operations a second of one core and of a GPU; constants, so that plans are the same on every machine. Metrics
# are learned in float32, and in fewer steps than the most that are planned.
_OPERATIONS = {False: 1.5e10, True: 5e12}
_LEARNING_OPERATIONS = {False: 8e10, True: 5e12}
_METRIC_ROWS = (3000, 2500, 2000, 1500, 1000, 700, 500, 300)
_SHARE_OF_ROWS, _FEW_ROWS = 16, 1000  # metrics are learned on up to one row in 16, or 1,000
_LEAF_SIZES = (3000, 2000, 1500, 1000, 700, 500)
_DEVICE_LEAF_SIZES = (6000, 4000)  # additional ones on a GPU, which larger leaves use better
_N_LANDMARKS = (1024, 512, 256)  # of the model of all rows
EVALUATIONS = 16  # evaluations of the leave-one-out error for a metric
_OVERLAP = 0.25  # share of the rows on the other side of a cut that a leaf also learns from
_PLANNED_GROWTH = 2.0  # what plans assume instead, as their operations a second are a third of the real ones
_GROWTH = 4.0  # all leaves together have at most about this many times the rows, so that time is linear in their number
LEARNING, LEAVES, LANDMARKS = 0.5, 0.4, 0.1  # shares of the time for metrics, for leaves, and for landmarks
_LATE, _LEAST = 2.0, 15.0  # times max_seconds, and seconds at least, that a fit may take


@dataclass
class Clock:
    """The time left since a fit began; it changes a plan only if the fit takes more than twice as long as planned.

    Plans assume 15 billion operations a second, a third to a sixth of what a core does today, and every fit may take at
    least 15 seconds, so that the model does not depend on the machine unless that is slow or very busy.
    """

    max_seconds: float
    started: float = field(default_factory=time.perf_counter)
    notes: list[str] = field(default_factory=list)

    @property
    def _limit(self) -> float:
        return max(_LATE * self.max_seconds, _LEAST)

    @property
    def learned_by(self) -> float:
        """When the learning of metrics must end, as a value of ``time.perf_counter()``."""
        return self.started + 0.6 * self._limit

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.started

    def left(self) -> float:
        """Seconds left."""
        return self.started + self._limit - time.perf_counter()

    def is_late(self) -> bool:
        """Whether the time for metrics is over."""
        return time.perf_counter() > self.learned_by

    def note(self, text: str) -> None:
        """Add a note to the report about what there was no time for."""
        self.notes.append(f"the fit took longer than planned, so that {text}")


@dataclass(frozen=True)
class Plan:
    """Sizes for which a fit takes the given time.

    Attributes
    ----------
    metric_rows : int
        Rows that metrics are learned on.
    leaf_size : int
    n_members : int
        Models of leaves that are averaged.
    n_landmarks : int
        Of one more member, a model of all rows; 0 if there is none: with one leaf, or one member asked for.
    notes : tuple of str
    """

    metric_rows: int
    leaf_size: int
    n_members: int
    n_landmarks: int = 0
    notes: tuple[str, ...] = ()


def make_plan(
    n: int, d: int, *, n_members: int, leaf_size: int | None, max_seconds: float, on_device: bool = False
) -> Plan:
    """The largest sizes for n rows of d numbers that fit into the time; a given leaf size is kept."""
    speed = _OPERATIONS[on_device]
    sizes = (_DEVICE_LEAF_SIZES if on_device else ()) + _LEAF_SIZES

    def learning(rows: int, members: int) -> float:
        return members * EVALUATIONS * (4.5 * rows**3 + 30.0 * rows**2 * d) / _LEARNING_OPERATIONS[on_device]

    def leaves(size: int, members: int) -> float:
        return members * n * _PLANNED_GROWTH * (0.75 * size**2 + 3.0 * size * d) / speed

    averages = n_members > 1
    while n_members > 1 and leaves(_LEAF_SIZES[-2], n_members) > LEAVES * max_seconds:
        n_members -= 1
    most = n if on_device else max(_FEW_ROWS, n // _SHARE_OF_ROWS)
    affordable = (m for m in _METRIC_ROWS if m <= most and learning(m, n_members) <= LEARNING * max_seconds)
    metric_rows = next(affordable, _METRIC_ROWS[-1])
    if leaf_size is None:
        leaf_size = next((s for s in sizes if leaves(s, n_members) <= LEAVES * max_seconds), _LEAF_SIZES[-1])
    notes: tuple[str, ...] = ()
    if leaves(leaf_size, n_members) > max_seconds:
        notes = (f"{n} rows in leaves of {leaf_size} will take longer than max_seconds={max_seconds}",)
    some = (m for m in _N_LANDMARKS if 4 * m <= n and 2.0 * n * m**2 / speed <= LANDMARKS * max_seconds)
    n_landmarks = next(some, 0) if averages and n > leaf_size else 0
    return Plan(metric_rows, leaf_size, n_members, n_landmarks, notes)


def overlap(n: int, leaf_size: int) -> float:
    """The share of the rows on the other side of each cut that leaves learn from.

    A cut leaves (1 + share) / 2 of the rows on each side: all leaves together have (1 + share)^cuts times the rows.
    """
    cuts = max(1, math.ceil(math.log2(max(2.0, _GROWTH * n / leaf_size))))
    return float(min(_OVERLAP, _GROWTH ** (1.0 / cuts) - 1.0))


def smaller_leaves(size: int, n: int, seconds: float, rows: int, left: float) -> int:
    """The leaf size for n rows that fits into `left` seconds, if an exact model of `rows` rows takes `seconds`."""

    def total(size: int) -> float:
        return seconds * (min(size, n) / rows) ** 3 * max(1.0, n * _PLANNED_GROWTH / size)

    return next((s for s in (size, *_LEAF_SIZES, 300, 200) if s <= size and total(s) <= left), min(size, 200))
