"""What a reproduction finds, and its files: NAME.png, NAME.svg, NAME.csv and NAME.md in one folder."""

from __future__ import annotations

import csv
import io
import platform
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from bochner.backends import Array, n_cores
from bochner.outputs import replacing

Row = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """One published statement beside what we measured; `holds` is None where that cannot be decided."""

    statement: str
    published: str
    ours: str
    holds: bool | None
    reason: str = ""

    @property
    def verdict(self) -> str:
        """Whether it holds, in words."""
        return {True: "holds", False: "**does not hold**", None: "cannot be decided here"}[self.holds]

    @property
    def why(self) -> str:
        """What there is to say about the verdict; something, unless it holds."""
        undecided = "the limit is within the errors of what was measured."
        return self.reason or {True: "", False: "it is beyond the limit.", None: undecided}[self.holds]


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
    criterion : str
        What a verdict asks for, as the function that gives it says.
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
    criterion: str = ""


def values(table: list[Row], column: str, /, **where: Any) -> Array:
    """A column of a table, of those rows that have the given values elsewhere."""
    return np.array([row[column] for row in table if all(row.get(key) == value for key, value in where.items())])


def mean(table: list[Row], column: str, /, **where: Any) -> float:
    """The mean of such a column."""
    return float(values(table, column, **where).mean())


def standard_error(found: Any) -> float:
    """The standard error of the mean of independent results; infinite for a single one."""
    return float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("inf")


def within(found: Any, low: float = -np.inf, high: float = np.inf) -> bool | None:
    """Whether the mean of independent results is between two limits; None if three standard errors reach over one."""
    middle, reach = float(np.mean(found)), 3.0 * standard_error(found)
    if low <= middle - reach and middle + reach <= high:
        return True
    return False if middle + reach < low or middle - reach > high else None


def seldom(count: int, cases: int, share: float) -> bool:
    """Whether so many of the cases are no more than chance gives a share, but for one time in a thousand."""
    return bool(count <= binom.ppf(0.999, cases, share))


def quantile_between(found: Any, share: float) -> tuple[float, float]:
    """Limits of a quantile from independent draws: order statistics that miss it three times in a thousand.

    Where there are too few draws for an upper one, it is infinite.
    """
    ordered = np.sort(found)
    below, above = binom.ppf([0.00135, 0.99865], len(ordered), share).astype(int)
    low = float(ordered[below - 1]) if below else -np.inf
    return low, float(ordered[above]) if above < len(ordered) else np.inf


def linear_in(products: Any, truth: Any) -> Any:
    """The best a + b t of given t: what a kernel is to be told apart from."""
    design = np.column_stack([np.ones(np.size(products)), np.ravel(products)])
    return (design @ np.linalg.lstsq(design, np.ravel(truth), rcond=None)[0]).reshape(np.shape(truth))


def both(*verdicts: bool | None) -> bool | None:
    """True if all are, False if one is; otherwise it cannot be decided."""
    if False in verdicts:
        return False
    return None if None in verdicts else True


def plus_minus(found: Any, digits: int = 2) -> str:
    """A mean with its standard error, as text."""
    return f"{np.mean(found):.{digits}f} ± {standard_error(found):.{digits}f}"


def slope(xs: Any, ys: Any) -> float:
    """The slope of log y against log x: the exponent of a power law."""
    return float(np.polyfit(np.log(xs), np.log(ys), 1)[0])


def write(name: str, findings: Findings, folder: Path, *, quick: bool) -> list[Path]:
    """Write the four files of a reproduction and return their paths; the page comes last."""
    from bochner.comparison.charts import save_figure

    folder.mkdir(parents=True, exist_ok=True)
    png, svg, table, page = (folder / f"{name}.{ending}" for ending in ("png", "svg", "csv", "md"))
    save_figure(findings.draw, findings.size, png, svg)
    cells = io.StringIO(newline="")
    writer = csv.DictWriter(cells, columns_of(findings.rows), restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: number(value) for key, value in row.items()} for row in findings.rows)
    for path, text in ((table, cells.getvalue()), (page, _page(name, findings, quick))):
        with replacing(path) as file:
            file.write(text.encode())
    return [png, svg, table, page]


def columns_of(rows: list[Row]) -> list[str]:
    """The names in any of the rows, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def number(value: Any) -> str:
    """Four digits of a float, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown(rows: list[Row]) -> str:
    """Rows as a Markdown table."""
    names = columns_of(rows)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(number(row.get(name, "")) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def verdicts(page: Path) -> dict[str, str]:
    """The verdicts of a page by claim, in words; none if there is no page."""
    if not page.exists():
        return {}
    section = page.read_text().partition("## Verdict")[2].partition("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {claim: verdict.strip("*") for claim, *_, verdict in cells[1:]}


def _page(name: str, findings: Findings, quick: bool) -> str:
    claims = [
        {"published claim": c.statement, "published": c.published, "ours": c.ours, "verdict": c.verdict}
        for c in findings.claims
    ]
    reasons = [f"- {c.statement}: {c.why}" for c in findings.claims if c.why]
    command = f"bochner reproduce {name}" + (" --quick" if quick else "")
    parts = [f"# {findings.title}", f"Source: {findings.source}", findings.question, f"![{findings.title}]({name}.png)"]
    parts += ["## Verdict"] + ([findings.criterion] if findings.criterion else [])
    parts += [markdown(claims)] + (["\n".join(reasons)] if reasons else [])
    parts += ["## Numbers", markdown(findings.summary)] if findings.summary else []
    parts += ["## Read with care", findings.notes] if findings.notes else []
    machine = f"{n_cores()} cores, {platform.machine()}, Python {platform.python_version()}"
    size = "Reduced size: the numbers show that it runs, not what holds.\n\n" if quick else ""
    parts.append(f"{size}Made by `{command}` on {machine}. All measurements: [{name}.csv]({name}.csv).")
    return "\n\n".join(parts) + "\n"
