"""Findings on disk: NAME.png, NAME.svg, NAME.csv and NAME.md in one folder."""

from __future__ import annotations

import csv
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

from bochner.backends import n_cores
from bochner.experiments.reproductions.findings import Claim, Findings, Row

INK, FAINT = "#22303c", "#8a98a5"
COLOURS = ("#1f6fb2", "#d1582c", "#3a8f5c", "#8a5bb0", "#b08a1f", "#4a5560")
STYLE: dict[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "axes.grid": True,
    "font.size": 9,
    "grid.color": "#e6eaee",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "bochner",  # the same figure is the same file
    "text.color": INK,
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
}


def write(name: str, findings: Findings, folder: Path, *, quick: bool) -> list[Path]:
    """Write the four files of a reproduction and return their paths; the page comes last."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{ending}" for ending in ("png", "svg", "csv", "md")]
    _figure(findings, paths[0], paths[1])
    _table(findings.rows, paths[2])
    paths[3].write_text(_page(name, findings, quick))
    return paths


def _figure(findings: Findings, *paths: Path) -> None:
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())
    try:
        import matplotlib
        from cycler import cycler
        from matplotlib.figure import Figure
        from matplotlib.ticker import NullFormatter
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'bochner[plot]'.") from None
    style: Any = {**STYLE, "axes.prop_cycle": cycler(color=COLOURS)}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=findings.size, layout="constrained")
        findings.draw(figure)
        for axis in figure.findobj(matplotlib.axes.Axes):
            if axis.get_xscale() == "log":  # "2 × 10³" beside "3 × 10³" would overlap
                axis.xaxis.set_minor_formatter(NullFormatter())
        for path in paths:
            metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
            figure.savefig(path, dpi=130, metadata=metadata)


def _table(rows: list[Row], path: Path) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: number(v) for k, v in row.items()} for row in rows)


def number(value: Any) -> str:
    """Four digits of a float, anything else as it is."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def markdown(rows: list[Row]) -> str:
    """Rows as a Markdown table."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(number(row.get(name, "")) for name in names) + " |" for row in rows]
    return "\n".join(lines)


def _verdict(claim: Claim) -> str:
    return {True: "holds", False: "**does not hold**", None: "not comparable"}[claim.holds]


def _page(name: str, findings: Findings, quick: bool) -> str:
    claims = [
        {"published claim": c.statement, "published": c.published, "ours": c.ours, "verdict": _verdict(c)}
        for c in findings.claims
    ]
    reasons = [f"- {c.statement}: {c.reason}" for c in findings.claims if c.reason]
    command = f"bochner reproduce {name}" + (" --quick" if quick else "")
    parts = [f"# {findings.title}", f"Source: {findings.source}", findings.question, f"![{findings.title}]({name}.png)"]
    parts += ["## Verdict", markdown(claims)] + (["\n".join(reasons)] if reasons else [])
    parts += ["## Numbers", markdown(findings.summary)] if findings.summary else []
    parts += ["## Read with care", findings.notes] if findings.notes else []
    machine = f"{n_cores()} cores, {platform.machine()}, Python {platform.python_version()}"
    size = "Reduced size: the numbers show that it runs, not what holds.\n\n" if quick else ""
    parts.append(f"{size}Made by `{command}` on {machine}. All measurements: [{name}.csv]({name}.csv).")
    return "\n\n".join(parts) + "\n"
