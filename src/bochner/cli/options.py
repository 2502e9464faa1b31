"""Options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from bochner.cli.errors import DataError, nearest


class Encoding(StrEnum):
    """How text becomes numbers."""

    one_hot = "one-hot"
    ordinal = "ordinal"


class Task(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


class Decimal(StrEnum):
    """What stands between whole and fraction."""

    point = "."
    comma = ","


FILES = "CSV, TSV (also .gz, .bz2, .xz), Parquet, Feather, NPZ or NPY file, or a dataset's name"
DataArgument = Annotated[str, typer.Argument(help=f"{FILES}.")]
OptionalData = Annotated[str | None, typer.Argument(help=f"{FILES}; the embedded digits if left out.")]
TargetOption = Annotated[str | None, typer.Option("--target", "-t", help="Column to predict (its number in an array).")]
TaskOption = Annotated[Task | None, typer.Option(help="What the target is; guessed from its values if left out.")]
EncodeOption = Annotated[Encoding | None, typer.Option(help="How columns of text become numbers.")]
DropOption = Annotated[
    list[str] | None, typer.Option("--drop", metavar="COLUMN", help="Column to leave out; may be repeated.")
]
MissingOption = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows in which something is missing.")]
StandardizeOption = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Give every column mean 0 and standard deviation 1.")
]
KernelOption = Annotated[str, typer.Option(help="The kernel, such as rbf, matern or laplacian.")]
ModelKernelOption = Annotated[
    str | None,
    typer.Option("--kernel", help="The kernel; the model's default, or rbf with a length scale, if left out."),
]
ScaleOption = Annotated[float | None, typer.Option(help="Its length scale; chosen from the data if left out.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]
SeparatorOption = Annotated[
    str | None,
    typer.Option("--sep", help="What separates columns of a text file (tab for tabs); default: guessed."),
]
DecimalOption = Annotated[
    Decimal | None, typer.Option(help="Decimal point or comma of a text file; else as its numbers look.")
]
CharactersOption = Annotated[
    str | None,
    typer.Option("--encoding", help="Encoding of a text file, such as utf-8 or cp1252; default: guessed."),
]
ColumnTextOption = Annotated[
    list[str] | None,
    typer.Option(
        "--text",
        metavar="COLUMN",
        help="Column to take as text, though it looks like numbers or dates; may be repeated.",
    ),
]
GapOption = Annotated[
    list[str] | None,
    typer.Option(
        "--gap", metavar="TEXT", help="Text that stands for a gap in a text file, such as ?; may be repeated."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Say what was done as JSON, on standard output.")]


def kernel_of(name: str | None, length_scale: float | None) -> Any:
    """A kernel for its name, with a length scale if one is given; None, the model's default, if neither is."""
    if name is None and length_scale is None:
        return None
    name = name or "rbf"
    from bochner.kernels.conversion import KERNEL_NAMES

    if name not in KERNEL_NAMES:
        raise DataError(f"--kernel: there is no kernel {name!r}; {nearest(name, sorted(KERNEL_NAMES), 'kernel')}")
    if length_scale is None:
        return name
    if not 0.0 < length_scale < float("inf"):
        raise DataError(f"--length-scale must be a positive number, got {length_scale}.")
    try:
        return KERNEL_NAMES[name](length_scale=length_scale)
    except TypeError:
        raise DataError(f"the {name} kernel has no length scale.") from None
