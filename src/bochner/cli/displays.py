"""What the command line shows: progress, ranked tables, facts about the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from bochner.experiments.compare import Comparison
from bochner.experiments.compare import Progress as Callback
from bochner.experiments.references import BASELINES
from bochner.experiments.verdicts import headings, ranked, show_seconds, summarise

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
    about = comparison.about
    last, shown = ranked(summarise(comparison.frame), about), headings(about)
    if width < _NARROW:
        last = last.assign(time=last["seconds"] + (last["model_seconds"] if about["task"] else 0.0))
        size = shown.pop("size")
        shown = {name: cell for name, cell in shown.items() if name in ("columns", "test error", "Frobenius")}
        shown |= {"time": ("time", show_seconds), "size": size}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("map", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for _, row in last.iterrows():
        cells = [show(row[column]) for column, show in shown.values()]
        table.add_row(str(row["map"]), *cells, style="dim" if row["map"] in BASELINES else None)
    return table


def facts(rows: dict[str, Any]) -> Table:
    """Two columns: what, and what it is."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(str(value)))  # brackets are brackets here
    return table
