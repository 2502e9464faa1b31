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
    listed: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size, in seconds.")] = False,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pages.")] = Path("docs/reproductions"),
) -> int:
    """Reproduce a published result: a figure, the numbers, and a page that compares them with the published ones."""
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
        raise DataError("name one published result, or give --all; --list says what there is.")
    if name is not None and name not in names:
        raise DataError(f"no reproduction is called {name!r}; {nearest(name, list(names), 'name')}")
    for each in names if name is None else [name]:
        start = time.perf_counter()
        files = reproductions.reproduce(each, quick=quick, folder=folder)
        print(f"{files[-1]} ({time.perf_counter() - start:.3g} s)", flush=True)
    return OK
