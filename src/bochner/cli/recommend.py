"""`bochner recommend`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bochner.cli import OK
from bochner.cli.files import TextFormat
from bochner.cli.options import (
    CharactersOption,
    ColumnTextOption,
    DataArgument,
    DecimalOption,
    DropOption,
    EncodeOption,
    GapOption,
    JsonOption,
    MissingOption,
    ModelKernelOption,
    ScaleOption,
    SeedOption,
    SeparatorOption,
    StandardizeOption,
    TargetOption,
    TaskOption,
    kernel_of,
)
from bochner.cli.screen import print_json, say, wrapped


def recommend(
    data: DataArgument,
    target: TargetOption = None,
    kernel: ModelKernelOption = None,
    length_scale: ScaleOption = None,
    seconds: Annotated[float | None, typer.Option("--time", help="Seconds that fitting may take.")] = None,
    tol: Annotated[
        float, typer.Option(help="By which share the error may exceed the kernel's own, as for fit.")
    ] = 0.05,
    task: TaskOption = None,
    encode: EncodeOption = None,
    drop: DropOption = None,
    drop_missing: MissingOption = False,
    as_text: ColumnTextOption = None,
    gap: GapOption = None,
    standardize: StandardizeOption = True,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: CharactersOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> int:
    """Predict what fit will choose, and what it will cost.

    Which features, how many of them, which solver, seconds and memory, each with a reason.
    """
    text = TextFormat(sep, decimal, encoding, tuple(as_text or ()), None if gap is None else tuple(gap))
    text.check(data, target, drop)
    from bochner.cli.tables import load_table
    from bochner.recommendations import recommend as recommend_

    options: dict[str, Any] = {"encode": encode, "drop": drop, "drop_missing": drop_missing, "standardize": standardize}
    table = load_table(data, target=target, task=task, text=text, **options)
    say(*table.notes)
    learned = kernel_of(kernel, length_scale)
    found = recommend_(table.X, table.y, kernel=learned, budget_seconds=seconds, tol=tol, random_state=seed)
    if as_json:
        print_json(vars(found) | {"trials": [vars(trial) for trial in found.trials]})
    else:
        print(wrapped(str(found), sys.stdout))
    return OK
