"""What a reproduction finds: rows of numbers, published claims beside ours, and how to draw them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """One published statement beside what we measured; `holds` is None where the two cannot be compared."""

    statement: str
    published: str
    ours: str
    holds: bool | None
    reason: str = ""


@dataclass(frozen=True)
class Findings:
    """All that a page needs.

    Parameters
    ----------
    title, source, question : str
        A heading, where the result was published, and what was done, in one paragraph.
    rows : list of dict
        Every measurement: the CSV file.
    claims : list of Claim
    draw : callable
        Takes a matplotlib figure and draws on it.
    summary : list of dict
        The few rows that a reader should see on the page.
    size : pair of float
        Of the figure, in inches.
    notes : str
        What to know before believing it.
    """

    title: str
    source: str
    question: str
    rows: list[Row]
    claims: list[Claim]
    draw: Callable[[Any], None]
    summary: list[Row] = field(default_factory=list)
    size: tuple[float, float] = (7.0, 4.2)
    notes: str = ""
