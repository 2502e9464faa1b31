"""What the command line shows: progress, ranked tables, facts about the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from bochner.experiments.compare import BASELINES, Comparison
from bochner.experiments.compare import Progress as Callback
from bochner.experiments.verdicts import show_bytes, show_error, show_seconds, show_share, summarise

_WIDE = 120  # characters of a line that is not read on a terminal


def console() -> Console:
    """Standard output, wide enough for a table where it is a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


@contextmanager
def progress() -> Iterator[Callback]:
    """Yield a callback that draws a bar on standard error; nothing where that is not a terminal."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda done, total, label: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield show


def ranking(comparison: Comparison) -> Table:
    """Every map at its most columns, the best first, and the baselines."""
    summary, about = summarise(comparison.frame), comparison.about
    last = summary.loc[summary.groupby("map", sort=False)["columns"].idxmax()]
    last = last.sort_values(["error", "frobenius"] if about["task"] else ["frobenius"], kind="stable")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("map")
    names = ["columns", *(["test error"] if about["task"] else []), "frobenius", "spectral", "fit", "transform"]
    names += ["train", "size"] if about["task"] else ["size"]
    for name in names:
        table.add_column(name, justify="right")
    for _, row in last.iterrows():
        baseline = row["map"] in BASELINES
        cells = [
            f"{int(row['columns']):,}" if row["columns"] else "–",
            *([show_error(row["error"], about)] if about["task"] else []),
            show_share(row["frobenius"]),
            show_share(row["spectral"]),
            show_seconds(row["fit_seconds"]),
            show_seconds(row["transform_seconds"]),
            *([show_seconds(row["model_seconds"])] if about["task"] else []),
            show_bytes(row["bytes"]),
        ]
        table.add_row(str(row["map"]), *cells, style="dim" if baseline else None)
    return table


def facts(rows: dict[str, Any]) -> Table:
    """Two columns: what, and what it is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, str(value))
    return table
