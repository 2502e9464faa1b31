"""`bochner autotune`: the tiles of GPU kernels that are fastest on the card that is there."""

from __future__ import annotations

from typing import Annotated

import typer

from bochner.cli import OK


def autotune(
    device: Annotated[str, typer.Option(help="The card: cuda, cuda:1, …")] = "cuda",
    size: Annotated[int, typer.Option(help="Numbers in each kernel's problem.", min=1 << 16)] = 1 << 26,
) -> int:
    """Find the fastest tiles for the kernels of a GPU.

    Prints them as an entry of the table of plans.
    """
    from bochner.cli.screen import console
    from bochner.data.devices import open_device

    open_device(device)
    from bochner.backends.torch import autotune as tuning

    screen = console()
    plans = tuning.autotune(device, size, lambda name, measured: screen.print(f"{name}: {measured}", highlight=False))
    print(tuning.source_of(tuning.capability_of(device), plans))
    return OK
