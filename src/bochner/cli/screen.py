"""What the commands show: tables of facts, notes, a progress bar, or JSON for programs.

The package rich is imported where something is shown, as a mistake in the command needs none of it.
"""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import rich.console
    import rich.table

_WIDE = 120  # characters of a line if standard output is no terminal
_NAMED = 8  # names that are listed one by one


def console() -> rich.console.Console:
    """Open standard output; lines are wide enough for a table if it is a file."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def say(*notes: str) -> None:
    """Write notes to standard error, one in each line."""
    from rich.console import Console

    for note in notes:
        screen = Console(stderr=True, highlight=False)
        screen.print(wrapped(note, sys.stderr), style="dim", markup=False, soft_wrap=True)


def wrapped(text: str, stream: TextIO) -> str:
    """Break long lines between words if the stream is a terminal, and indent their continuation."""
    if not stream.isatty():
        return text
    width, lines = shutil.get_terminal_size().columns, text.split("\n")
    margins = [line[: len(line) - len(line.lstrip())] + "  " for line in lines]
    return "\n".join(
        textwrap.fill(line, width, subsequent_indent=margin, break_long_words=False, break_on_hyphens=False)
        for line, margin in zip(lines, margins, strict=True)
    )


def counted(count: int, what: str) -> str:
    """Write a count and its unit: "1 row", "2,000 rows"."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def listed(names: Sequence[str]) -> str:
    """Join the first names, and count the others."""
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@contextmanager
def progress() -> Iterator[Callable[[int, int, str], None]]:
    """Yield a callback that draws a bar on standard error, if that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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


def facts(rows: Mapping[str, object]) -> rich.table.Table:
    """Make a table of names and values."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(str(value)))  # brackets are brackets here
    return table


def print_json(found: Mapping[str, object]) -> None:
    """Print one JSON object; NaN and infinity are null."""
    print(json.dumps(_plain(found), indent=1, ensure_ascii=False, allow_nan=False))


def _plain(value: object) -> object:
    import numpy as np

    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
