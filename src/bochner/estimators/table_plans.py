"""How many rows, members and rows of a leaf a model of a table is made of, within a given time."""

from __future__ import annotations

from dataclasses import dataclass

# operations a second, of one core and of a GPU: what plans are made with, so that they are the same on every machine
_OPERATIONS = {False: 1.5e10, True: 5e12}
_METRIC_ROWS = (2000, 1500, 1000, 700, 500, 300)
_LEAF_SIZES = (3000, 2000, 1500, 1000, 700, 500)
_DEVICE_METRIC_ROWS, _DEVICE_LEAF_SIZES = (4000, 3000), (12000, 8000, 6000, 4000)  # besides those
EVALUATIONS = 16  # of the error of rows left out, for a metric
OVERLAP = 0.25  # share of the rows across a cut that a leaf learns from as well


@dataclass(frozen=True)
class Plan:
    """Sizes that fit into a time.

    Attributes
    ----------
    metric_rows : int
        Rows that metrics are learned on.
    leaf_size : int
    n_members : int
    notes : tuple of str
    """

    metric_rows: int
    leaf_size: int
    n_members: int
    notes: tuple[str, ...] = ()


def make_plan(
    n: int, d: int, *, n_members: int, leaf_size: int | None, max_seconds: float, on_device: bool = False
) -> Plan:
    """The largest sizes for n rows of d numbers; a leaf size that is given stays."""
    speed = _OPERATIONS[on_device]
    most_rows = (_DEVICE_METRIC_ROWS if on_device else ()) + _METRIC_ROWS
    sizes = (_DEVICE_LEAF_SIZES if on_device else ()) + _LEAF_SIZES

    def learning(rows: int, members: int) -> float:
        return members * EVALUATIONS * (4.5 * rows**3 + 30.0 * rows**2 * d) / speed

    def leaves(size: int, members: int) -> float:
        return members * n * (1.0 + 4.0 * OVERLAP) * (1.5 * size**2 + 3.0 * size * d) / speed

    while n_members > 1 and leaves(_LEAF_SIZES[-2], n_members) > 0.4 * max_seconds:
        n_members -= 1
    metric_rows = next((m for m in most_rows if learning(m, n_members) <= 0.5 * max_seconds), _METRIC_ROWS[-1])
    if leaf_size is None:
        leaf_size = next((s for s in sizes if leaves(s, n_members) <= 0.4 * max_seconds), _LEAF_SIZES[-1])
    notes: tuple[str, ...] = ()
    if leaves(leaf_size, n_members) > max_seconds:
        notes = (f"{n} rows in leaves of {leaf_size} will take longer than max_seconds={max_seconds}",)
    return Plan(metric_rows, leaf_size, n_members, notes)
