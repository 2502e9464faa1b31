"""`bochner recommend`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from bochner.cli import OK
from bochner.cli.files import TextFormat
from bochner.cli.options import (
    CharactersOption,
    DataArgument,
    DecimalOption,
    DropOption,
    EncodeOption,
    JsonOption,
    KernelOption,
    MissingOption,
    ScaleOption,
    SeedOption,
    SeparatorOption,
    StandardizeOption,
    TargetOption,
    TaskOption,
    kernel_of,
)
from bochner.cli.screen import print_json, say


def recommend(
    data: DataArgument,
    target: TargetOption = None,
    kernel: KernelOption = "rbf",
    length_scale: ScaleOption = None,
    seconds: Annotated[float | None, typer.Option("--time", help="Seconds that fitting may take.")] = None,
    tol: Annotated[
        float, typer.Option(help="By which share the error may exceed the kernel's own, as for fit.")
    ] = 0.05,
    task: TaskOption = None,
    encode: EncodeOption = None,
    drop: DropOption = None,
    drop_missing: MissingOption = False,
    standardize: StandardizeOption = True,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: CharactersOption = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> int:
    """Say which features fit will choose, how many, and what they will cost, with reasons."""
    text = TextFormat(sep, decimal, encoding).check(data, target, drop)
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
        print(found)
    return OK
