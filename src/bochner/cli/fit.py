"""`bochner fit`."""

from __future__ import annotations

import sys
import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bochner.cli import OK
from bochner.cli.errors import DataError
from bochner.cli.files import TextFormat, check_outputs, columns_file, kind_of
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
    ScaleOption,
    SeedOption,
    SeparatorOption,
    TargetOption,
    Task,
    TaskOption,
    kernel_of,
)
from bochner.cli.screen import console, facts, print_json, say, wrapped

if TYPE_CHECKING:
    from bochner.cli.tables import Recipe

_NAMED = 8  # columns that are named one by one
_NOTHING = "there is nothing to learn: name the column with --target."


class ModelName(StrEnum):
    """Which models learn."""

    table = "table"
    kernel = "kernel"


def fit(
    data: DataArgument,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    target: TargetOption = None,
    model: Annotated[
        ModelName | None,
        typer.Option(help="table, or kernel (features of one kernel); kernel if an option of it is given."),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option("--time", help="Seconds that fitting may take; chooses sizes.")
    ] = None,
    task: TaskOption = None,
    drop: DropOption = None,
    drop_missing: MissingOption = False,
    as_text: ColumnTextOption = None,
    gap: GapOption = None,
    sep: SeparatorOption = None,
    decimal: DecimalOption = None,
    encoding: CharactersOption = None,
    seed: SeedOption = 0,
    report: Annotated[bool, typer.Option("--report", help="Table: say what became of every column, and why.")] = False,
    as_json: JsonOption = False,
    kernel: Annotated[
        str | None, typer.Option(help="Kernel: which one; if left out the model's default, or rbf with a length scale.")
    ] = None,
    length_scale: ScaleOption = None,
    components: Annotated[str | None, typer.Option(help="Kernel: number of components, or auto.")] = None,
    features: Annotated[str | None, typer.Option(help="Kernel: auto, fourier or nystrom.")] = None,
    alpha: Annotated[
        float | None, typer.Option(min=0.0, help="Kernel: the penalty; chosen from the data if left out.")
    ] = None,
    encode: EncodeOption = None,
    standardize: Annotated[
        bool | None, typer.Option("--standardize/--no-standardize", help="Kernel: columns of mean 0 and deviation 1.")
    ] = None,
) -> int:
    """Learn a target column, and write the model.

    TabularRegressor learns numbers and TabularClassifier labels, from a table as it is: text, dates and gaps may stay.
    With --model kernel they are KernelRidge and KernelClassifier. MODEL.columns.json beside MODEL remembers which
    columns there were, their texts, how dates were written and how columns were scaled, for `bochner predict`.
    """
    check_outputs([out, columns_file(out)], [Path(data)])
    options = {
        "--kernel": kernel,
        "--length-scale": length_scale,
        "--components": components,
        "--features": features,
        "--alpha": alpha,
        "--encode": encode,
        "--standardize": standardize,
    }
    given = [name for name, value in options.items() if value is not None]
    if model is ModelName.table and given:
        raise DataError(f"{given[0]} is an option of --model kernel.")
    if components not in (None, "auto") and not (str(components).isdigit() and int(str(components))):
        raise DataError(f"--components is a positive number or auto, got {components!r}.")
    text = TextFormat(sep, decimal, encoding, tuple(as_text or ()), None if gap is None else tuple(gap)).check(
        data, target, drop
    )
    if target is None and kind_of(data) not in (None, "NPZ"):
        raise DataError(_NOTHING)
    shared: dict[str, Any] = {"task": task, "drop": drop, "drop_missing": drop_missing, "text": text}
    if model is ModelName.kernel or given:
        learned = kernel_of(kernel, length_scale)
        shape: dict[str, Any] = {"components": components or "auto", "features": features or "auto", "alpha": alpha}
        shared |= {"encode": encode, "standardize": standardize is not False}
        found = _fit_kernel(data, out, target, learned, seconds=seconds, seed=seed, **shape, **shared)
    else:
        found = _fit_table(data, out, target, seconds, seed, report=report and not as_json, **shared)
    found["file"], found["bytes"] = str(out), out.stat().st_size
    if as_json:
        print_json(found)
    else:
        console().print(facts(_shown(found)))
    return OK


def _shown(found: dict[str, Any]) -> dict[str, str]:
    """What was done, in words."""
    from bochner.comparison.compare import show_bytes, show_seconds

    columns, score = found["columns"], found["score"]
    rows = f"{found['rows']:,} in {show_seconds(found['seconds'])}"
    rows += f"; {found['rows_left_out']:,} left out" if found["rows_left_out"] else ""
    used = f"{len(columns['used']):,} used: {_listed(columns['used'])}"
    used += f"; text as numbers: {_listed(columns['encoded'])}" if columns["encoded"] else ""
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


def _listed(names: list[str]) -> str:
    return ", ".join(map(str, names[:_NAMED])) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")


def _score(scores: Any) -> dict[str, Any]:
    own = scores.model
    plain = {"linear_model": scores.linear, "constant": own.constant, "rows": own.n_rows, "how": own.how}
    told = {"text": str(scores), "verdict": scores.verdict}
    return {"name": own.name, "value": own.score, "standard_error": own.error, **plain, **told}


def _timed_fit(model: Any, *data: Any) -> float:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: say(
            f"warning: {str(message).replace('see report_', 'see --report')}"
        )
        model.fit(*data)
    return time.perf_counter() - start


def _write(model: Any, recipe: Recipe, out: Path) -> None:
    """Write a model, and its columns beside it; beside a pipe or a device no file can be found again."""
    from bochner.persistence import save

    save(model, out)
    if out.is_file():
        recipe.save(columns_file(out))


def _fit_table(
    data: str, out: Path, target: str | None, seconds: float | None, seed: int, *, report: bool, **options: Any
) -> dict[str, Any]:
    from bochner.cli.columns import load_columns

    table = load_columns(data, target, **options)
    say(*table.notes)
    if table.y is None:
        raise DataError(_NOTHING)
    from bochner.cli.scores import beside_plain_models
    from bochner.comparison.references import task_of
    from bochner.tables.estimators import TabularClassifier, TabularRegressor

    classifies = task_of(table.y) == "classification"
    kind: Any = TabularClassifier if classifies else TabularRegressor
    model = kind(random_state=seed, verbose=1, **({} if seconds is None else {"max_seconds": seconds}))
    taken = _timed_fit(model, table.X, table.y)
    scores = beside_plain_models(model.held_out_, table.X, table.y, classifies)
    _write(model, table.recipe, out)
    if report:
        print(wrapped(str(model.report_), sys.stdout), end="\n\n")
    plans = {str(name): why for name, why in model.report_.columns.items()}
    left_out = {name: why for name, why in plans.items() if why.startswith("left out")}
    return {
        "model": kind.__name__,
        "description": ", ".join(model.report_.used),
        "task": "classification" if classifies else "regression",
        "target": target,
        "rows": table.X.shape[0],
        "rows_left_out": table.n_dropped,
        "columns": {
            "used": [name for name in plans if name not in left_out],
            "encoded": [name for name, why in plans.items() if " levels, " in why],
            "left_out": dict.fromkeys(table.left_out, "left out, as --drop says") | left_out,
        },
        "score": _score(scores),
        "seconds": taken,
        "notes": list(model.report_.notes),
    }


def _fit_kernel(
    data: str,
    out: Path,
    target: str | None,
    learned: Any,
    *,
    components: str,
    features: str,
    alpha: float | None,
    seconds: float | None,
    task: Task | None,
    seed: int,
    **options: Any,
) -> dict[str, Any]:
    from bochner.cli.tables import load_table

    table = load_table(data, target=target, task=task, all_rows=True, **options)
    say(*table.notes)
    if table.y is None:
        raise DataError(_NOTHING)
    from bochner.cli.scores import held_out
    from bochner.comparison.compare import show_seconds
    from bochner.comparison.references import task_of
    from bochner.estimators.classifier import KernelClassifier
    from bochner.estimators.ridge import KernelRidge
    from bochner.recommendations import recommend

    n_components: Any = "auto" if components == "auto" else int(components)
    if seconds is not None:
        advice = recommend(table.X, table.y, kernel=learned, budget_seconds=seconds, random_state=seed)
        features, n_components = advice.features, advice.n_components
        say(f"{n_components:,} {features} components are predicted to take {show_seconds(advice.seconds)}")
    classifies = task_of(table.y) == "classification"
    kind: Any = KernelClassifier if classifies else KernelRidge
    chosen = {name: value for name, value in (("kernel", learned), ("alpha", alpha)) if value is not None}
    model = kind(n_components=n_components, features=features, random_state=seed, verbose=1, **chosen)
    taken = _timed_fit(model, *((table.X, table.y) if table.source is None else (table.source,)))
    scores = held_out(model, table.X, table.y)
    _write(model, table.recipe, out)
    used = getattr(model.features_, "kernel_", model.kernel)
    return {
        "model": kind.__name__,
        "description": f"{model.n_components_:,} components, {used!r}, alpha {model.alpha_:.3g}",
        "task": "classification" if classifies else "regression",
        "target": target,
        "rows": table.X.shape[0] if table.source is None else table.source.n_samples,
        "rows_left_out": table.n_dropped,
        "columns": {
            "used": list(table.recipe.columns),
            "encoded": list(table.recipe.categories or ()),
            "left_out": dict.fromkeys(options["drop"] or (), "left out, as --drop says"),
        },
        "score": _score(scores),
        "seconds": taken,
        "notes": [],
    }
