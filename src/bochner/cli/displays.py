"""What the command line shows: progress, ranked tables, facts about the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bochner.experiments.compare import BASELINES, Comparison
from bochner.experiments.compare import Progress as Callback
from bochner.experiments.verdicts import show_bytes, show_error, show_seconds, show_share, summarise

_WIDE = 120  # characters of a line that is not read on a terminal
_NARROW = 100  # fewer do not hold the whole table


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


def ranking(comparison: Comparison, width: int) -> Table:
    """Every map at its most columns, the best first, and the baselines; fewer columns on a narrow terminal."""
    summary, about = summarise(comparison.frame), comparison.about
    last = summary.loc[summary.groupby("map", sort=False)["columns"].idxmax()]
    last = last.sort_values(["error", "frobenius"] if about["task"] else ["frobenius"], kind="stable")
    train = last["model_seconds"] if about["task"] else 0.0
    last = last.assign(time=last["seconds"] + train)
    cells: dict[str, tuple[str, Callable[[Any], str]]] = {
        "columns": ("columns", lambda value: f"{int(value):,}" if value else "–"),
        "test error": ("error", lambda value: show_error(value, about)),
        "frobenius": ("frobenius", show_share),
        "spectral": ("spectral", show_share),
        "time": ("time", show_seconds),
        "fit": ("fit_seconds", show_seconds),
        "transform": ("transform_seconds", show_seconds),
        "train": ("model_seconds", show_seconds),
        "size": ("bytes", show_bytes),
    }
    left_out = {"spectral", "fit", "transform", "train"} if width < _NARROW else {"time"}
    left_out |= set() if about["task"] else {"test error", "train"}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("map", no_wrap=True)
    for name in (name for name in cells if name not in left_out):
        table.add_column(name, justify="right", no_wrap=True)
    for _, row in last.iterrows():
        shown = [show(row[source]) for name, (source, show) in cells.items() if name not in left_out]
        table.add_row(str(row["map"]), *shown, style="dim" if row["map"] in BASELINES else None)
    return table


def facts(rows: dict[str, Any]) -> Table:
    """Two columns: what, and what it is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(str(value)))  # brackets are brackets here
    return table
