"""`bochner compare`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bochner.cli import INTERRUPTED, OK
from bochner.cli.errors import DataError
from bochner.cli.files import check_outputs, table_kind, write_table
from bochner.cli.options import FILES, JsonOption, RowOptions, ScaleOption, StandardizeOption, kernel_of
from bochner.cli.screen import console, print_json, progress, say

if TYPE_CHECKING:
    import rich.table

    from bochner.comparison.compare import Comparison, Verdict

_NARROW = 100  # characters of a terminal below which some columns of the ranking are left out


@dataclass(frozen=True)
class Maps:
    """Maps to measure, and how."""

    kernel: Annotated[str, typer.Option(help="The kernel, such as rbf, matern or laplacian.")] = "rbf"
    length_scale: ScaleOption = None
    maps: Annotated[
        str | None,
        typer.Option(help="Names with commas between them, such as fourier:orthogonal,nystrom:auto,RBFSampler."),
    ] = None
    components: Annotated[
        str | None,
        typer.Option(help="Numbers of components, with commas between them; else 64 to 1024, at most half the rows."),
    ] = None
    runs: Annotated[int, typer.Option(min=1, help="Draws of every map.")] = 5
    reference: Annotated[int, typer.Option(min=10, help="Rows that everything is measured on.")] = 4000

    @property
    def names(self) -> list[str] | None:
        """Names of maps; None for all."""
        return None if self.maps is None else [part.strip() for part in self.maps.split(",") if part.strip()]

    @property
    def sizes(self) -> list[int] | None:
        """Numbers of components; None for the default."""
        try:
            return None if self.components is None else [int(part) for part in self.components.split(",")]
        except ValueError:
            raise DataError(f"--components takes numbers with commas between them, got {self.components!r}.") from None


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the report.")] = Path("report.html")
    csv: Annotated[Path | None, typer.Option(help="Write every run as a table, too.")] = None
    picture: Annotated[Path | None, typer.Option(help="Write error against components as a PNG or SVG file, too.")] = (
        None
    )

    def check(self, data: str | None) -> None:
        """Refuse files that cannot be written."""
        paths = [path for path in (self.out, self.csv, self.picture) if path is not None]
        check_outputs(paths, [] if data is None else [Path(data)])
        if self.csv is not None:
            table_kind(self.csv)

    def write(self, comparison: Comparison) -> None:
        """Write the report, and the table and the picture if they are asked for."""
        from bochner.comparison.report import write_picture, write_report

        write_report(comparison, self.out)
        if self.csv is not None:
            write_table(comparison.frame, self.csv)
        if self.picture is not None:
            write_picture(comparison, self.picture)


def compare(
    rows: RowOptions,
    maps: Maps,
    outputs: Outputs,
    data: Annotated[str | None, typer.Argument(help=f"{FILES}; the embedded digits if left out.")] = None,
    standardize: StandardizeOption = True,
    as_json: JsonOption = False,
) -> int:
    """Measure which approximation suits your data.

    The report has errors of the kernel matrix, times and sizes of every map, and with a target its test error, next to
    the exact kernel, a linear model and a constant. Ctrl-C ends it with a report of what is done.
    """
    outputs.check(data)
    rows.check(data)
    import bochner.comparison.report  # noqa: F401  # reports a missing package before anything is measured
    from bochner.cli.tables import load_table
    from bochner.comparison.compare import conclude, run_comparison

    kernel, sizes = kernel_of(maps.kernel, maps.length_scale), maps.sizes
    assert kernel is not None  # it has a default here
    table = load_table(data, rows, standardize=standardize)
    say(*table.notes)
    with progress() as callback:
        comparison = run_comparison(
            table.X,
            table.y,
            kernel=kernel,
            maps=maps.names,
            n_components=sizes,
            n_runs=maps.runs,
            n_reference=maps.reference,
            random_state=rows.seed,
            progress=callback,
        )
    about = comparison.about
    about["name"], about["standardized"] = table.name, standardize
    about["command"] = " ".join(["bochner", *sys.argv[1:]])
    verdict = conclude(comparison)
    if not as_json:
        _show(comparison, verdict)
    outputs.write(comparison)
    if as_json:
        files = {"report": outputs.out, "csv": outputs.csv, "picture": outputs.picture}
        print_json(_numbers(comparison, verdict) | files)
    else:
        for what, file in (("picture", outputs.picture), ("report", outputs.out)):
            if file is not None:
                console().print(f"\nThe {what} is in {file}", soft_wrap=True, markup=False)
    return INTERRUPTED if about["interrupted"] else OK


def _show(comparison: Comparison, verdict: Verdict | None) -> None:
    """Print what was run, the ranking and the verdict."""
    from rich.markup import escape

    from bochner.comparison.compare import rounded, show_seconds

    screen, about = console(), comparison.about
    kernel_text = escape(rounded(repr(comparison.kernel)))
    screen.print(
        f"\n[bold]{escape(about['name'])}[/bold]: {about['n_samples']:,} rows of {about['n_features']:,} features, "
        f"{kernel_text}; measured on {about['n_reference']:,} rows, {about['n_runs']} runs, "
        f"{show_seconds(about['seconds'])}\n",
    )
    screen.print(ranking(comparison, screen.width, verdict))
    if verdict is not None:
        screen.print("* recommended", style="dim")
        screen.print(f"\n{' '.join((verdict.paragraph, *about['notes']))}", markup=False)


def _numbers(comparison: Comparison, verdict: Verdict | None) -> dict[str, Any]:
    """Return what `_show` prints as numbers: errors as shares and times in seconds."""
    from bochner.comparison.compare import headings, is_recommended, ranked, summarise

    about = comparison.about
    rows = ranked(summarise(comparison.frame), about, verdict)
    columns = ["map", *(column for column, _ in headings(about).values())]
    facts = ("name", "task", "n_samples", "n_features", "n_reference", "n_test", "n_runs", "seconds", "interrupted")
    return {
        **{fact: about[fact] for fact in facts},
        "kernel": about["kernel"],
        "notes": about["notes"],
        "verdict": None if verdict is None else {**vars(verdict)},
        "ranking": [
            row | {"recommended": bool(chosen)}
            for row, chosen in zip(rows[columns].to_dict("records"), is_recommended(rows, verdict), strict=True)
        ],
    }


def ranking(comparison: Comparison, width: int, verdict: Verdict | None = None) -> rich.table.Table:
    """Rank every map at its most components, and the baselines; a narrow terminal shows fewer columns.

    The recommended map with its number of components is marked with a star.
    """
    from rich.table import Table

    from bochner.comparison.compare import headings, is_recommended, ranked, show_seconds, summarise
    from bochner.comparison.references import BASELINES

    about = comparison.about
    last, shown = ranked(summarise(comparison.frame), about, verdict), headings(about)
    if width < _NARROW:
        last = last.assign(time=last["seconds"] + (last["model_seconds"] if about["task"] else 0.0))
        size = shown.pop("size")
        shown = {name: cell for name, cell in shown.items() if name in ("components", "test error", "Frobenius")}
        shown |= {"time": ("time", show_seconds), "size": size}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("map", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for (_, row), chosen in zip(last.iterrows(), is_recommended(last, verdict), strict=True):
        cells = [show(row[column]) for column, show in shown.values()]
        style = "dim" if row["map"] in BASELINES else "bold" if chosen else None
        table.add_row(f"{row['map']}{' *' if chosen else ''}", *cells, style=style)
    return table
