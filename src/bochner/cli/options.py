"""Options that several commands have, alone and in records."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bochner.cli.errors import DataError, nearest
from bochner.cli.files import TextFormat

if TYPE_CHECKING:
    from bochner.kernels.algebra import Kernel


class Task(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


class Decimal(StrEnum):
    """Decimal signs."""

    point = "."
    comma = ","


FILES = "CSV, TSV (also .gz, .bz2, .xz), Parquet, Feather, NPZ or NPY file, or a dataset's name"
DataArgument = Annotated[str, typer.Argument(help=f"{FILES}.")]
MissingOption = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows in which something is missing.")]
StandardizeOption = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Give every column mean 0 and standard deviation 1.")
]
ModelKernelOption = Annotated[
    str | None,
    typer.Option("--kernel", help="The kernel; the model's default, or rbf with a length scale, if left out."),
]
ScaleOption = Annotated[float | None, typer.Option(help="Its length scale; chosen from the data if left out.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what was done as JSON, on standard output.")]


@dataclass(frozen=True)
class TextOptions:
    """How tables are read, where the file leaves it open."""

    gap: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Text that stands for a gap in a text file, such as ?; may be repeated."),
    ] = None
    sep: Annotated[
        str | None,
        typer.Option(help="What separates columns of a text file (tab for tabs); default: guessed."),
    ] = None
    decimal: Annotated[
        Decimal | None, typer.Option(help="Decimal point or comma of a text file; else as its numbers look.")
    ] = None
    encoding: Annotated[
        str | None, typer.Option(help="Encoding of a text file, such as utf-8 or cp1252; default: guessed.")
    ] = None

    @property
    def text_format(self) -> TextFormat:
        """Options for reading tables."""
        return TextFormat(self.sep, self.decimal, self.encoding, gaps=None if self.gap is None else tuple(self.gap))


@dataclass(frozen=True)
class RowOptions(TextOptions):
    """Which rows and columns of a table are used, and which of them is the target."""

    target: Annotated[
        str | None, typer.Option("--target", "-t", help="Column to predict (its number in an array).")
    ] = None
    task: Annotated[Task | None, typer.Option(help="What the target is; guessed from its values if left out.")] = None
    drop: Annotated[list[str] | None, typer.Option(metavar="COLUMN", help="Column to leave out; may be repeated.")] = (
        None
    )
    drop_missing: MissingOption = False
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Column to take as text, though it looks like numbers or dates; may be repeated."
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0

    @property
    def text_format(self) -> TextFormat:
        """Options for reading tables."""
        return replace(super().text_format, texts=tuple(self.text or ()))

    def check(self, data: str | None) -> None:
        """Refuse a file that does not exist or lacks a column, before it is read."""
        self.text_format.check(data, self.target, self.drop)


def with_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command one option for every field of the records that it takes."""
    hints = get_type_hints(command, include_extras=True)
    records: dict[str, type[Any]] = {
        name: kind for name, kind in hints.items() if isinstance(kind, type) and is_dataclass(kind)
    }
    flat: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        if name in records:
            types = get_type_hints(records[name], include_extras=True)
            own_first = sorted(
                fields(records[name]), key=lambda option: option.name not in records[name].__annotations__
            )
            options = [(option.name, option.default, types[option.name]) for option in own_first]
        else:
            options = [(name, parameter.default, hints[name])]
        flat |= {
            option: inspect.Parameter(option, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for option, default, kind in options
        }

    @wraps(command)
    def flattened(**given: Any) -> int:
        for name, kind in records.items():
            given[name] = kind(**{option.name: given.pop(option.name) for option in fields(kind)})
        return command(**given)

    flattened.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    flattened.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return flattened


def kernel_of(name: str | None, length_scale: float | None) -> str | Kernel | None:
    """Return a kernel by its name, with a length scale if one is given; None, the default, if both are None."""
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
