"""The commands, and what they show: progress, ranked tables, facts about the machine."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import scipy.sparse
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid
from rich.text import Text

import bochner
from bochner.cli import INTERRUPTED, MISSING, OK, UNEXPECTED, USAGE
from bochner.cli.columns import load_columns, plain_scores, table_rows
from bochner.cli.doctor import report
from bochner.cli.tables import DataError, Recipe, Table, load_table, nearest, pandas_module, read, write_table
from bochner.estimators import KernelClassifier, KernelRidge, TabularClassifier, TabularRegressor
from bochner.experiments.compare import (
    Comparison,
    conclude,
    headings,
    ranked,
    rounded,
    run_comparison,
    show_bytes,
    show_seconds,
    summarise,
)
from bochner.experiments.compare import Progress as Callback
from bochner.experiments.references import BASELINES, task_of
from bochner.kernels.conversion import KERNEL_NAMES
from bochner.recommendations import recommend as recommend_

_WIDE = 120  # characters of a line that is not read on a terminal
_NARROW = 100  # fewer do not hold the whole table


def console() -> Console:
    """Standard output, wide enough for a table where it is a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


@contextmanager
def progress() -> Iterator[Callback]:
    """Yield a callback that draws a bar on standard error; nothing where that is not a terminal."""
    screen = Console(stderr=True)
    if not screen.is_terminal:
        yield lambda done, total, label: None
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=screen, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(done: int, total: int, label: str) -> None:
            bar.update(task, completed=done, total=total, description=label)

        yield show


def ranking(comparison: Comparison, width: int) -> Grid:
    """Every map at its most columns, the best first, and the baselines; fewer columns on a narrow terminal."""
    about = comparison.about
    last, shown = ranked(summarise(comparison.frame), about), headings(about)
    if width < _NARROW:
        last = last.assign(time=last["seconds"] + (last["model_seconds"] if about["task"] else 0.0))
        size = shown.pop("size")
        shown = {name: cell for name, cell in shown.items() if name in ("columns", "test error", "Frobenius")}
        shown |= {"time": ("time", show_seconds), "size": size}
    table = Grid(box=None, pad_edge=False, header_style="bold")
    table.add_column("map", no_wrap=True)
    for name in shown:
        table.add_column(name, justify="right", no_wrap=True)
    for _, row in last.iterrows():
        cells = [show(row[column]) for column, show in shown.values()]
        table.add_row(str(row["map"]), *cells, style="dim" if row["map"] in BASELINES else None)
    return table


def facts(rows: dict[str, Any]) -> Grid:
    """Two columns: what, and what it is."""
    table = Grid(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(Text(name), Text(str(value)))  # brackets are brackets here
    return table


app = typer.Typer(
    name="bochner",
    help="Kernel methods on millions of rows: which approximation suits your data, and models that use it.",
    epilog="Exit codes: 0 done, 1 unexpected, 2 a mistake in the command or the data, 3 a package is missing, "
    "130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"bochner {bochner.__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Say the version and end.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    """Options of the program itself."""


class Encoding(StrEnum):
    """How text becomes numbers."""

    one_hot = "one-hot"
    ordinal = "ordinal"


class Task(StrEnum):
    """What the target is."""

    regression = "regression"
    classification = "classification"


class ModelName(StrEnum):
    """Which models learn."""

    table = "table"
    kernel = "kernel"


KernelName = Enum("KernelName", {name: name for name in sorted(KERNEL_NAMES)}, type=str)  # type: ignore[misc]

DataArgument = Annotated[str, typer.Argument(help="CSV, Parquet, NPZ or NPY file, or a dataset's name.")]
OptionalData = Annotated[
    str | None,
    typer.Argument(help="CSV, Parquet, NPZ or NPY file, or a dataset's name; the embedded digits if left out."),
]
TargetOption = Annotated[str | None, typer.Option("--target", "-t", help="Column to predict (its number in an array).")]
TaskOption = Annotated[Task | None, typer.Option(help="What the target is; guessed from its values if left out.")]
EncodeOption = Annotated[Encoding | None, typer.Option(help="How columns of text become numbers.")]
DropOption = Annotated[list[str] | None, typer.Option("--drop", help="Column to leave out; may be repeated.")]
MissingOption = Annotated[bool, typer.Option("--drop-missing", help="Leave out rows in which something is missing.")]
StandardizeOption = Annotated[
    bool, typer.Option("--standardize/--no-standardize", help="Give every column mean 0 and standard deviation 1.")
]
KernelOption = Annotated[KernelName, typer.Option(help="The kernel.")]
ScaleOption = Annotated[float | None, typer.Option(help="Its length scale; chosen from the data if left out.")]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of everything random.")]


def _kernel(name: Enum, length_scale: float | None) -> Any:
    if length_scale is None:
        return name.value
    if not (np.isfinite(length_scale) and length_scale > 0):
        raise DataError(f"--length-scale must be a positive number, got {length_scale}.")
    try:
        return KERNEL_NAMES[name.value](length_scale=length_scale)
    except TypeError:
        raise DataError(f"the {name.value} kernel has no length scale.") from None


def _note(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, style="dim", markup=False, soft_wrap=True)


def _load(data: str | None, **options: Any) -> Table:
    encode, task = options.pop("encode"), options.pop("task", None)
    table = load_table(
        data,
        encode=None if encode is None else encode.value,
        task=None if task is None else task.value,
        drop=options.pop("drop") or (),
        **options,
    )
    for note in table.notes:
        _note(note)
    return table


def _writable(path: Path) -> Path:
    if path.parent != Path() and not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r} to write {path.name} into.")
    return path


@app.command()
def compare(
    data: OptionalData = None,
    target: TargetOption = None,
    kernel: KernelOption = KernelName.rbf,  # type: ignore[attr-defined]
    length_scale: ScaleOption = None,
    maps: Annotated[
        str | None,
        typer.Option(help="Names with commas between them, such as fourier:orthogonal,nystrom:auto,RBFSampler."),
    ] = None,
    components: Annotated[
        str | None,
        typer.Option(help="Numbers of columns, with commas between them; else 64 to 1024, at most half the rows."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Draws of every map.")] = 5,
    reference: Annotated[int, typer.Option(min=10, help="Rows that everything is measured on.")] = 4000,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the report.")] = Path("report.html"),
    csv: Annotated[Path | None, typer.Option(help="Write every run as a table, too.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Write error against columns as a PNG, too.")] = None,
    task: TaskOption = None,
    encode: EncodeOption = None,
    drop: DropOption = None,
    drop_missing: MissingOption = False,
    standardize: StandardizeOption = True,
    seed: SeedOption = 0,
) -> int:
    """Measure which approximation suits your data, and write a report.

    Errors of the kernel matrix, times and sizes of every map, and with a target its test error, next to the exact
    kernel, a linear model and a constant. Ctrl-C ends it with a report of what is done.
    """
    from bochner.experiments.report import write_picture, write_report  # without matplotlib this says so at once

    for path in (out, csv, picture):
        if path is not None:
            _writable(path)
    try:
        sizes = None if components is None else [int(part) for part in components.split(",")]
    except ValueError:
        raise DataError(f"--components takes numbers with commas between them, got {components!r}.") from None
    options = {"encode": encode, "drop": drop, "drop_missing": drop_missing, "standardize": standardize}
    table = _load(data, target=target, task=task, **options)
    with progress() as callback:
        comparison = run_comparison(
            table.X,
            table.y,
            kernel=_kernel(kernel, length_scale),
            maps=None if maps is None else [part.strip() for part in maps.split(",") if part.strip()],
            n_components=sizes,
            n_runs=runs,
            n_reference=reference,
            random_state=seed,
            progress=callback,
        )
    about = comparison.about
    about["name"], about["standardized"] = table.name, standardize
    about["command"] = " ".join(["bochner", *sys.argv[1:]])
    verdict = conclude(comparison)
    screen = console()
    kernel_text = escape(rounded(repr(comparison.kernel)))
    screen.print(
        f"\n[bold]{escape(table.name)}[/bold]: {about['n_samples']:,} rows of {about['n_features']:,} features, "
        f"{kernel_text}; measured on {about['n_reference']:,} rows, {about['n_runs']} runs, "
        f"{show_seconds(about['seconds'])}\n",
    )
    screen.print(ranking(comparison, screen.width))
    if verdict is not None:
        screen.print(f"\n{' '.join((verdict.paragraph, *about['notes']))}", markup=False)
    write_report(comparison, out)
    if csv is not None:
        write_table(comparison.frame, csv)
    if picture is not None:
        screen.print(f"\nThe picture is in {write_picture(comparison, picture)}", soft_wrap=True, markup=False)
    screen.print(f"\nThe report is in {out}", soft_wrap=True, markup=False)
    return INTERRUPTED if about["interrupted"] else OK


@app.command()
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
    seed: SeedOption = 0,
    report: Annotated[bool, typer.Option("--report", help="Table: say what became of every column, and why.")] = False,
    kernel: Annotated[KernelName | None, typer.Option(help="Kernel: which one, rbf if left out.")] = None,
    length_scale: ScaleOption = None,
    components: Annotated[str | None, typer.Option(help="Kernel: columns of the features, or auto.")] = None,
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
    With --model kernel they are KernelRidge and KernelClassifier; then MODEL.columns.json beside MODEL remembers which
    columns there were, how text was encoded and how columns were scaled, for `bochner predict`.
    """
    _writable(out)
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
    if model is ModelName.kernel or given:
        chosen = kernel or KernelName.rbf  # type: ignore[attr-defined]
        table: dict[str, Any] = {
            "encode": encode,
            "drop": drop,
            "drop_missing": drop_missing,
            "standardize": standardize is not False,
        }
        learned = _kernel(chosen, length_scale)
        shape: dict[str, Any] = {"components": components or "auto", "features": features or "auto", "alpha": alpha}
        return _fit_kernel(data, out, target, learned, seconds=seconds, task=task, seed=seed, **shape, **table)
    return _fit_table(data, out, target, seconds, task, drop, drop_missing, seed, report)


def _fit_table(
    data: str,
    out: Path,
    target: str | None,
    seconds: float | None,
    task: Task | None,
    drop: list[str] | None,
    drop_missing: bool,
    seed: int,
    report: bool,
) -> int:
    from bochner.persistence import save

    if target is None and not data.endswith(".npz") and Path(data).exists():
        raise DataError("there is nothing to learn: name the column with --target.")
    wanted = None if task is None else task.value
    table = load_columns(data, target, task=wanted, drop=drop or (), drop_missing=drop_missing)
    for note in table.notes:
        _note(note)
    if table.y is None:
        raise DataError("there is nothing to learn: name the column with --target.")
    classifies = task_of(table.y) == "classification"
    kind: Any = TabularClassifier if classifies else TabularRegressor
    chosen = {} if seconds is None else {"max_seconds": seconds}
    model = kind(random_state=seed, verbose=1, **chosen)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        model.fit(table.X, table.y)
    taken = time.perf_counter() - start
    save(model, out)
    if table.recipe is None:
        _columns_of(out).unlink(missing_ok=True)  # of an earlier model
    else:
        table.recipe.save(_columns_of(out))
    linear, constant = plain_scores(model.numbers_of(table.X), table.y, classifies)
    score = "right labels" if classifies else "R²"
    rows = {
        "model": f"{kind.__name__}: {', '.join(model.report_.used)}",
        "rows": f"{table.X.shape[0]:,} of {table.X.shape[1]:,} columns in {show_seconds(taken)}",
        f"{score} of rows left out": f"{model.left_out_score_:.4f}; a linear model has {linear:.4f}, a constant "
        f"{constant:.4f}",
        **{f"note {i + 1}": note for i, note in enumerate(model.report_.notes)},
        "written": f"{out} ({show_bytes(out.stat().st_size)})",
    }
    if report:
        print(model.report_, end="\n\n")
    console().print(facts(rows))
    return OK


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
) -> int:
    from bochner.persistence import save

    if components != "auto" and not (components.isdigit() and int(components)):
        raise DataError(f"--components is a positive number or auto, got {components!r}.")
    table = _load(data, target=target, task=task, all_rows=True, **options)
    if table.y is None:
        raise DataError("there is nothing to learn: name the column with --target.")
    n_components: Any = "auto" if components == "auto" else int(components)
    if seconds is not None:
        advice = recommend_(table.X, table.y, kernel=learned, budget_seconds=seconds, random_state=seed)
        features, n_components = advice.features, advice.n_components
        _note(f"{n_components:,} {features} columns are predicted to take {show_seconds(advice.seconds)}")
    kind: Any = KernelClassifier if task_of(table.y) == "classification" else KernelRidge
    chosen = {} if alpha is None else {"alpha": alpha}
    model = kind(learned, n_components, features=features, random_state=seed, verbose=1, **chosen)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        model.fit(table.X, table.y) if table.source is None else model.fit(table.source)
    taken = time.perf_counter() - start
    save(model, out)
    table.recipe.save(_columns_of(out))
    n_rows = table.X.shape[0] if table.source is None else table.source.n_samples
    used = getattr(model.features_, "kernel_", learned)
    rows = {
        "model": f"{kind.__name__}, {model.n_components_:,} columns, {used!r}",
        "alpha": f"{model.alpha_:.3g}",
        "rows": f"{n_rows:,} of {table.X.shape[1]:,} features in {show_seconds(taken)}",
    }
    criterion = getattr(model, "alpha_path_", {}).get("criterion", ())
    if kind is KernelRidge and len(criterion) and alpha is None:
        rows["left-one-out R²"] = f"{1.0 - float(np.min(criterion)):.4f}"
    rows["written"] = f"{out} ({show_bytes(out.stat().st_size)}), {_columns_of(out)}"
    console().print(facts(rows))
    return OK


def _columns_of(model: Path) -> Path:
    return model.with_name(model.name + ".columns.json")


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="What `bochner fit` or `bochner.save` wrote.")],
    data: DataArgument,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="CSV, Parquet, NPZ or NPY file; - writes CSV to the terminal.")
    ],
    probabilities: Annotated[bool, typer.Option("--probabilities", help="Add a column for each class.")] = False,
    coverage: Annotated[
        float | None, typer.Option("--interval", help="Add bounds that hold the target this often, such as 0.9.")
    ] = None,
) -> int:
    """Predict the target of every row, in their order."""
    from bochner.persistence import load

    pandas = pandas_module()

    if not model.exists():
        siblings = sorted(path.name for path in model.parent.glob("*")) if model.parent.is_dir() else []
        raise DataError(f"there is no model {str(model)!r}; {nearest(model.name, siblings, 'file')}")
    found = load(model)
    if not hasattr(found, "predict"):
        raise DataError(f"{model} is a {type(found).__name__}, which predicts nothing.")
    if isinstance(found, (TabularClassifier, TabularRegressor)):
        X = table_rows(data, _columns_of(model), found)
    else:
        X = _named(_features(data, _columns_of(model), found.n_features_in_), found)
    predicted = np.asarray(found.predict(X))
    columns = {"prediction": predicted} if predicted.ndim == 1 else dict(enumerate_columns(predicted))
    if probabilities:
        if not hasattr(found, "predict_proba"):
            raise DataError(f"a {type(found).__name__} has no probabilities.")
        for label, column in zip(found.classes_, found.predict_proba(X).T, strict=True):
            columns[f"probability of {label}"] = column
    if coverage is not None:
        if not hasattr(found, "predict_interval"):
            raise DataError(f"a {type(found).__name__} has no intervals; a TabularRegressor has.")
        columns["lower"], columns["upper"] = found.predict_interval(X, coverage).T
    frame = pandas.DataFrame(columns)
    if str(out) == "-":
        frame.to_csv(sys.stdout, index=False)
        return OK
    write_table(frame, out)
    _note(f"{len(frame):,} predictions are in {out}")
    return OK


def enumerate_columns(values: Any) -> list[tuple[str, Any]]:
    """Columns of a table of predictions under their names."""
    return [(f"prediction {j}", column) for j, column in enumerate(values.T)]


def _features(data: str, recipe_path: Path, n_features: int) -> Any:
    """Rows as the model was trained on them."""
    raw = read(data)
    recipe = Recipe.load(recipe_path) if recipe_path.exists() else None
    if raw.frame is not None:
        if recipe is None:
            recipe = Recipe.of(raw.frame, None, None)
        X = recipe(raw.frame, raw.line)
    else:
        X = raw.X
        if recipe is not None and X.shape[1] > len(recipe.columns) and all(c.isdigit() for c in recipe.columns):
            X = X[:, [int(c) for c in recipe.columns]]  # the target is still among them
        if X.dtype not in (np.float32, np.float64):
            X = X.astype(np.float32 if X.dtype.itemsize < 4 else np.float64)
        X = X if recipe is None or X.shape[1] != n_features else recipe.scale_rows(X)
    if X.shape[1] != n_features:
        raise DataError(f"the model was trained on {n_features} features, and {data} gives {X.shape[1]}.")
    values = X.data if scipy.sparse.issparse(X) else X
    if not np.isfinite(values).all():
        raise DataError(f"{data} contains NaN or infinity.")
    return X


def _named(X: Any, model: Any) -> Any:
    """The features under the names that the model was trained with, if any."""
    names = getattr(model, "feature_names_in_", None)
    return X if names is None or scipy.sparse.issparse(X) else pandas_module().DataFrame(X, columns=names)


@app.command()
def recommend(
    data: DataArgument,
    target: TargetOption = None,
    kernel: KernelOption = KernelName.rbf,  # type: ignore[attr-defined]
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
    seed: SeedOption = 0,
) -> int:
    """Say which features fit will choose, how many, and what they will cost, with reasons."""
    options = {"encode": encode, "drop": drop, "drop_missing": drop_missing, "standardize": standardize}
    table = _load(data, target=target, task=task, **options)
    learned = _kernel(kernel, length_scale)
    advice = recommend_(table.X, table.y, kernel=learned, budget_seconds=seconds, tol=tol, random_state=seed)
    print(advice)
    return OK


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which published result; --list names them.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them, one after the other.")] = False,
    listed: Annotated[bool, typer.Option("--list", help="Say what there is.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A reduced size, in seconds.")] = False,
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pages.")] = Path("docs/reproductions"),
) -> int:
    """Do a published result again: a figure, the numbers, and a page with the published numbers beside ours."""
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
        print(f"{files[-1]} ({show_seconds(time.perf_counter() - start)})", flush=True)
    return OK


@app.command()
def doctor() -> int:
    """Say what this installation can use: processor, native code, linear algebra, threads, packages, GPU."""
    console().print(facts(report()))
    return OK


def run(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; mistakes end in one line on standard error."""
    try:
        code = app(args=arguments, standalone_mode=False)
        return code if isinstance(code, int) else OK
    except typer.Exit as done:
        return int(done.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted.", INTERRUPTED)
    except ImportError as error:
        return _fail(str(error), MISSING)
    except (ValueError, FileNotFoundError, PermissionError, IsADirectoryError) as error:
        return _fail(str(error), USAGE)
    except Exception as error:
        if type(error).__module__.startswith(("click", "typer")) and hasattr(error, "format_message"):
            return _fail(f"{error.format_message()} (bochner --help)", USAGE)
        import traceback

        traceback.print_exc()
        return UNEXPECTED


def _fail(message: str, code: int) -> int:
    print(f"bochner: {message}", file=sys.stderr)
    return code
