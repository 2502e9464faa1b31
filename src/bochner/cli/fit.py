"""`bochner fit`."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bochner.cli import OK
from bochner.cli.errors import DataError
from bochner.cli.files import check_outputs, columns_file, kind_of
from bochner.cli.options import DataArgument, JsonOption, RowOptions, ScaleOption, kernel_of
from bochner.cli.screen import console, facts, listed, print_json, say, wrapped
from bochner.data.progress import Stopwatch

if TYPE_CHECKING:
    from bochner.cli.scores import Scores
    from bochner.cli.tables import Recipe, Table
    from bochner.estimators.classifier import KernelClassifier
    from bochner.estimators.ridge import KernelRidge
    from bochner.tables.estimators import TabularClassifier, TabularRegressor

_NO_TARGET = "there is nothing to learn: name the column with --target."


class ModelName(StrEnum):
    """Kinds of models."""

    table = "table"
    kernel = "kernel"


class FeatureName(StrEnum):
    """Kinds of features."""

    auto = "auto"
    fourier = "fourier"
    nystrom = "nystrom"


@dataclass(frozen=True)
class KernelOptions:
    """Options of models of one kernel; None is the model's default."""

    kernel: Annotated[
        str | None, typer.Option(help="Kernel: which one; if left out the model's default, or rbf with a length scale.")
    ] = None
    length_scale: ScaleOption = None
    components: Annotated[str | None, typer.Option(help="Kernel: number of components, or auto.")] = None
    features: Annotated[FeatureName | None, typer.Option(help="Kernel: kind of features.")] = None
    alpha: Annotated[
        float | None, typer.Option(min=0.0, help="Kernel: the penalty; chosen from the data if left out.")
    ] = None
    standardize: Annotated[
        bool | None, typer.Option("--standardize/--no-standardize", help="Kernel: columns of mean 0 and deviation 1.")
    ] = None

    @property
    def given(self) -> list[str]:
        """Names of the options that have a value."""
        names = [option.name for option in fields(self) if getattr(self, option.name) is not None]
        return [f"--{name.replace('_', '-')}" for name in names]

    @property
    def n_components(self) -> int | str:
        """Number of components, or "auto"."""
        count = self.components or "auto"
        if count != "auto" and not (count.isdigit() and int(count)):
            raise DataError(f"--components is a positive number or auto, got {count!r}.")
        return count if count == "auto" else int(count)


def fit(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    rows: RowOptions,
    options: KernelOptions,
    model: Annotated[
        ModelName | None,
        typer.Option(help="table, or kernel (features of one kernel); kernel if an option of it is given."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--time", help="Seconds that fitting may take; chooses sizes.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="Table: show what became of every column, and why.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Train a model to predict a column and save it.

    TabularRegressor learns numbers and TabularClassifier labels, from a table as it is: text, dates and gaps may stay.
    With --model kernel they are KernelRidge and KernelClassifier. MODEL.columns.json beside MODEL remembers which
    columns there were, their texts, how dates were written and how columns became numbers, for `bochner predict`.
    """
    check_outputs([out, columns_file(out)], [Path(data)])
    if model is ModelName.table and options.given:
        raise DataError(f"{options.given[0]} is an option of --model kernel.")
    _ = options.n_components  # a mistake is reported before the data is read
    rows.check(data)
    if rows.target is None and kind_of(data) not in (None, "NPZ"):
        raise DataError(_NO_TARGET)
    if model is ModelName.kernel or options.given:
        found = _fit_kernel(data, out, rows, options, seconds)
    else:
        found = _fit_table(data, out, rows, seconds, report=report and not as_json)
    found["file"], found["bytes"] = str(out), out.stat().st_size
    if as_json:
        print_json(found)
    else:
        console().print(facts(_shown(found)))
    return OK


def _shown(found: dict[str, Any]) -> dict[str, str]:
    """Say what was done."""
    from bochner.comparison.compare import show_bytes, show_seconds

    columns, score = found["columns"], found["score"]
    rows = f"{found['rows']:,} in {show_seconds(found['seconds'])}"
    rows += f"; {found['rows_left_out']:,} left out" if found["rows_left_out"] else ""
    used = f"{len(columns['used']):,} used: {listed(columns['used'])}"
    used += f"; text as numbers: {listed(columns['encoded'])}" if columns["encoded"] else ""
    used += "".join(f"; {name} {why}" for name, why in columns["left_out"].items())
    return {
        "model": f"{found['model']}: {found['description']}",
        "task": found["task"],
        "rows": rows,
        "columns": used,
        f"{score['name']} (held out)": score["text"],
        **({} if score["verdict"] is None else {"verdict": score["verdict"]}),
        **{f"note {i + 1}": note for i, note in enumerate(found["notes"])},
        "written": f"{found['file']} ({show_bytes(found['bytes'])})",
    }


def _score(scores: Scores) -> dict[str, object]:
    own = scores.model
    plain = {"linear_model": scores.linear, "constant": own.constant, "rows": own.n_rows, "how": own.how}
    text = {"text": str(scores), "verdict": scores.verdict}
    return {"name": own.name, "value": own.score, "standard_error": own.error} | plain | text


def _timed_fit(model: TabularRegressor | TabularClassifier | KernelRidge | KernelClassifier, table: Table) -> float:
    """Fit a model to all rows of a table, and return the seconds that it took."""
    start = Stopwatch()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: say(
            f"warning: {str(message).replace('see report_', 'see --report')}"
        )
        model.fit(*((table.X, table.y) if table.source is None else (table.source,)))
    return start.seconds()


def _write(
    model: TabularRegressor | TabularClassifier | KernelRidge | KernelClassifier, recipe: Recipe, out: Path
) -> None:
    """Write a model, and its columns beside it; beside a pipe or a device no file can be found again."""
    from bochner.persistence import save

    save(model, out)
    if out.is_file():
        recipe.save(columns_file(out))


def _found(table: Table, rows: RowOptions, seconds: float, scores: Scores) -> dict[str, Any]:
    """Return what is reported for any model."""
    from bochner.comparison.references import task_of

    assert table.y is not None
    return {
        "task": task_of(table.y),
        "target": rows.target,
        "rows": table.X.shape[0] if table.source is None else table.source.n_samples,
        "rows_left_out": table.n_dropped,
        "score": _score(scores),
        "seconds": seconds,
    }


def _fit_table(data: str, out: Path, rows: RowOptions, seconds: float | None, *, report: bool) -> dict[str, Any]:
    from bochner.cli.tables import load_columns

    table = load_columns(data, rows)
    say(*table.notes)
    if table.y is None:
        raise DataError(_NO_TARGET)
    from bochner.cli.scores import beside_plain_models
    from bochner.comparison.references import task_of
    from bochner.tables.estimators import TabularClassifier, TabularRegressor

    classifies = task_of(table.y) == "classification"
    kind = TabularClassifier if classifies else TabularRegressor
    model = kind(random_state=rows.seed, verbose=1)
    model.set_params(**({} if seconds is None else {"max_seconds": seconds}))
    taken = _timed_fit(model, table)
    scores = beside_plain_models(model.held_out_, table.X, table.y, classifies)
    _write(model, table.recipe, out)
    if report:
        print(wrapped(str(model.report_), sys.stdout), end="\n\n")
    plans = {str(name): why for name, why in model.report_.columns.items()}
    left_out = {name: why for name, why in plans.items() if why.startswith("left out")}
    return _found(table, rows, taken, scores) | {
        "model": kind.__name__,
        "description": ", ".join(model.report_.used),
        "columns": {
            "used": [name for name in plans if name not in left_out],
            "encoded": [name for name, why in plans.items() if " levels, " in why],
            "left_out": table.left_out | left_out,
        },
        "notes": list(model.report_.notes),
    }


def _fit_kernel(
    data: str, out: Path, rows: RowOptions, options: KernelOptions, seconds: float | None
) -> dict[str, Any]:
    from bochner.cli.tables import load_table

    learned = kernel_of(options.kernel, options.length_scale)
    standardize = options.standardize is not False
    table = load_table(data, rows, standardize=standardize, all_rows=True)
    say(*table.notes)
    if table.y is None:
        raise DataError(_NO_TARGET)
    from bochner.cli.scores import held_out
    from bochner.comparison.compare import show_seconds
    from bochner.comparison.references import task_of
    from bochner.estimators.classifier import KernelClassifier
    from bochner.estimators.ridge import KernelRidge
    from bochner.recommendations import recommend

    features, n_components = str(options.features or "auto"), options.n_components
    if seconds is not None:
        advice = recommend(table.X, table.y, kernel=learned, budget_seconds=seconds, random_state=rows.seed)
        features, n_components = advice.features, advice.n_components
        say(f"{n_components:,} {features} components are predicted to take {show_seconds(advice.seconds)}")
    kind = KernelClassifier if task_of(table.y) == "classification" else KernelRidge
    chosen = {name: value for name, value in (("kernel", learned), ("alpha", options.alpha)) if value is not None}
    model = kind(n_components=n_components, features=features, random_state=rows.seed, verbose=1).set_params(**chosen)
    taken = _timed_fit(model, table)
    scores = held_out(model, table.columns, table.y, standardize=standardize)
    _write(model, table.recipe, out)
    used = getattr(model.features_, "kernel_", model.kernel)
    return _found(table, rows, taken, scores) | {
        "model": kind.__name__,
        "description": f"{model.n_components_:,} components, {used!r}, alpha {model.alpha_:.3g}",
        "columns": {
            "used": list(table.recipe.columns),
            "encoded": [column.name for column in table.recipe.encoded if column.kind == "category"],
            "left_out": table.left_out,
        },
        "notes": [],
    }
