"""`bochner reproduce`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from bochner.cli import OK
from bochner.cli.errors import DataError, nearest
from bochner.cli.screen import console, facts


def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which published result; --list names them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, one after the other.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="List the published results.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size, in seconds.")] = False,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pages.")] = Path("docs/reproductions"),
) -> int:
    """Reproduce a published result.

    Writes a figure, the numbers, and a page that compares them with the published ones.
    """
    try:
        import bochner_reproductions as reproductions
    except ModuleNotFoundError as error:
        if error.name != "bochner_reproductions":
            raise
        raise ImportError(
            "the published results are a package of their own, bochner_reproductions, which is not here: reinstall "
            "bochner, or add the folder reproductions of its source to PYTHONPATH."
        ) from None
    names = reproductions.REPRODUCTIONS
    if listed:
        console().print(facts(names))
        return OK
    if everything == (name is not None):
        raise DataError("name one published result, or give --all; --list names them.")
    if name is not None and name not in names:
        raise DataError(f"no reproduction is called {name!r}; {nearest(name, list(names), 'name')}")
    changes: list[str] = []
    began = time.perf_counter(), time.process_time()
    for each in names if name is None else [name]:
        start = time.perf_counter(), time.process_time()
        before = reproductions.verdicts(folder / f"{each}.md")
        page = reproductions.reproduce(each, quick=quick, folder=folder)[-1]
        print(f"{page} ({_taken(start)})", flush=True)
        changes += [f"{each}: {change}" for change in _changes(before, reproductions.verdicts(page))]
    print(f"{len(changes) or 'no'} verdicts changed" + (f" ({_taken(began)} in all)" if everything else ""))
    for change in changes:
        print(f"  {change}")
    return OK


def _taken(start: tuple[float, float]) -> str:
    """Write the seconds since the readings of two clocks."""
    return f"{time.perf_counter() - start[0]:.1f} s, {time.process_time() - start[1]:.1f} s of CPU"


def _changes(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """List the verdicts of a page that differ, are new, or are gone."""
    if not before:
        return []
    pairs = [(claim, before.get(claim, "not there"), after.get(claim, "not there")) for claim in {**before, **after}]
    return [f"{claim}: {old} → {new}" for claim, old, new in pairs if old != new]
