"""`bochner recommend`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from bochner.cli import OK
from bochner.cli.options import (
    DataArgument,
    JsonOption,
    ModelKernelOption,
    RowOptions,
    ScaleOption,
    StandardizeOption,
    kernel_of,
)
from bochner.cli.screen import print_json, say, wrapped


def recommend(
    data: DataArgument,
    rows: RowOptions,
    kernel: ModelKernelOption = None,
    length_scale: ScaleOption = None,
    seconds: Annotated[float | None, typer.Option("--time", help="Seconds that fitting may take.")] = None,
    tol: Annotated[
        float, typer.Option(help="By which share the error may exceed the kernel's own, as for fit.")
    ] = 0.05,
    standardize: StandardizeOption = True,
    as_json: JsonOption = False,
) -> int:
    """Predict what fit will choose, and what it will cost.

    Prints the features, their number, the solver, seconds and memory, each with a reason.
    """
    rows.check(data)
    from bochner.cli.tables import load_table
    from bochner.recommendations import recommend as recommend_

    table = load_table(data, rows, standardize=standardize)
    say(*table.notes)
    learned = kernel_of(kernel, length_scale)
    found = recommend_(table.X, table.y, kernel=learned, budget_seconds=seconds, tol=tol, random_state=rows.seed)
    if as_json:
        print_json(vars(found) | {"trials": [vars(trial) for trial in found.trials]})
    else:
        print(wrapped(str(found), sys.stdout))
    return OK
