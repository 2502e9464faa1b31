"""Sizes of a table model for a given time: rows to learn metrics on, rows in a leaf, and members."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bochner.tuning.deadline import Deadline
from bochner.tuning.policies import MetricPolicy, TablePolicy

POLICY, METRIC = TablePolicy(), MetricPolicy.for_tables()


def fit_deadline(max_seconds: float) -> Deadline:
    """Return when a fit must end: later than planned, so that the model depends on the machine only if that is slow.

    Plans assume a third to a sixth of what a core does today.
    """
    return Deadline(max(POLICY.late * max_seconds, POLICY.least_seconds))


def late_note(text: str) -> str:
    """Return a note for the report about what there was no time for."""
    return f"the fit took longer than planned, so that {text}"


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
    """Choose the largest sizes for n rows of d numbers that fit into the time; a given leaf size is kept."""
    speed = POLICY.device_operations if on_device else POLICY.operations
    learning_speed = POLICY.device_operations if on_device else POLICY.learning_operations
    sizes = (POLICY.device_leaf_sizes if on_device else ()) + POLICY.leaf_sizes

    def learning(rows: int, members: int) -> float:
        return members * METRIC.evaluations * (4.5 * rows**3 + 30.0 * rows**2 * d) / learning_speed

    def leaves(size: int, members: int) -> float:
        return members * n * POLICY.planned_growth * (0.75 * size**2 + 3.0 * size * d) / speed

    averages = n_members > 1
    while n_members > 1 and leaves(POLICY.leaf_sizes[-2], n_members) > POLICY.leaves_share * max_seconds:
        n_members -= 1
    most = n if on_device else max(POLICY.few_rows, n // POLICY.share_of_rows)
    seconds = POLICY.learning_share * max_seconds
    affordable = (m for m in POLICY.metric_rows if m <= most and learning(m, n_members) <= seconds)
    metric_rows = next(affordable, POLICY.metric_rows[-1])
    seconds = POLICY.leaves_share * max_seconds
    if leaf_size is None:
        leaf_size = next((s for s in sizes if leaves(s, n_members) <= seconds), POLICY.leaf_sizes[-1])
    notes: tuple[str, ...] = ()
    if leaves(leaf_size, n_members) > max_seconds:
        notes = (f"{n} rows in leaves of {leaf_size} will take longer than max_seconds={max_seconds}",)
    seconds = POLICY.landmarks_share * max_seconds
    some = (m for m in POLICY.landmarks if 4 * m <= n and 2.0 * n * m**2 / speed <= seconds)
    n_landmarks = next(some, 0) if averages and n > leaf_size else 0
    return Plan(metric_rows, leaf_size, n_members, n_landmarks, notes)


def overlap(n: int, leaf_size: int) -> float:
    """Return the share of the rows on the other side of each cut that leaves learn from.

    A cut leaves (1 + share) / 2 of the rows on each side: all leaves together have (1 + share)^cuts times the rows.
    """
    cuts = max(1, math.ceil(math.log2(max(2.0, POLICY.growth * n / leaf_size))))
    return float(min(POLICY.overlap, POLICY.growth ** (1.0 / cuts) - 1.0))


def smaller_leaves(size: int, n: int, seconds: float, rows: int, left: float) -> int:
    """Choose a leaf size for n rows that takes `left` seconds, if an exact model of `rows` rows takes `seconds`."""

    def total(size: int) -> float:
        return seconds * (min(size, n) / rows) ** 3 * max(1.0, n * POLICY.planned_growth / size)

    sizes = (size, *POLICY.leaf_sizes, *POLICY.least_leaf_sizes)
    return next((s for s in sizes if s <= size and total(s) <= left), min(size, sizes[-1]))
