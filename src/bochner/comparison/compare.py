"""Every approximation on the same rows of your data: error against components, time and memory.

The verdict says which map to use, why, and the code for it.
"""

from __future__ import annotations

import io
import math
import pickle
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy.special import stdtrit

import bochner
from bochner.backends import Array
from bochner.backends.machines import describe
from bochner.checks import check_count
from bochner.comparison.candidates import Candidate, as_candidates
from bochner.comparison.references import (
    BASELINES,
    CONSTANT,
    EXACT,
    LINEAR,
    Reference,
    Rows,
    as_table,
    baselines,
    dense,
    draw_rows,
    linear_losses,
)
from bochner.draws.keys import Key, Seed
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import KernelLike, as_kernel
from bochner.kernels.dot_products import Polynomial

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from scipy.sparse import csr_matrix
    from sklearn.base import TransformerMixin

COLUMNS = (
    *("map", "columns", "run", "frobenius", "spectral"),
    *("fit_seconds", "transform_seconds", "model_seconds", "bytes", "error"),
)
SIZES = (64, 128, 256, 512, 1024)  # default numbers of components
_PICTURE_ROWS = 96  # rows of the Gram matrix that the report draws
Progress = Callable[[int, int, str], None]
About: TypeAlias = dict[str, Any]  # facts about a comparison by their names


@dataclass
class Comparison:
    """A table with one row for each run, and what a report says about it."""

    frame: DataFrame
    kernel: Kernel
    about: About
    candidates: dict[str, Candidate]
    X: Array | csr_matrix = field(repr=False)  # reference rows
    K: Array = field(repr=False)
    losses: Array = field(repr=False)  # (rows of the frame, test rows)

    def transformer(self, name: str, n_components: int) -> TransformerMixin:
        """Make the map of that name as it was measured in the first run, not fitted."""
        return self.candidates[name].make(self.kernel, n_components, self.about["seed"])

    def picture(self, name: str, n_components: int) -> tuple[Array, Array]:
        """Return exact and approximated entries of some rows, similar rows next to each other."""
        n = min(_PICTURE_ROWS, len(self.K))
        rows = np.linspace(0, len(self.K) - 1, n).astype(int)
        Z = dense(self.transformer(name, n_components).fit(self.X).transform(self.X[rows]))
        K = self.K[np.ix_(rows, rows)]
        order = _seriation(K)
        return K[np.ix_(order, order)], (Z @ Z.T)[np.ix_(order, order)]


def _seriation(K: Array) -> Array:
    """Order rows such that similar ones are neighbours."""
    from scipy.cluster.hierarchy import leaves_list, linkage

    if len(K) < 3:
        return np.arange(len(K))
    # rows of K are their own description: alike where they resemble the same others
    return leaves_list(linkage(K.astype(np.float64), "average", optimal_ordering=True))


def compare(
    X: Any,
    y: Any = None,
    *,
    kernel: KernelLike = "rbf",
    maps: Any = None,
    n_components: int | Sequence[int] | None = None,
    n_runs: int = 5,
    n_reference: int = 4000,
    random_state: Seed = 0,
    progress: Progress | None = None,
) -> DataFrame:
    """Measure every approximation of a kernel on the same rows of your data.

    Maps are fitted to `n_reference` rows and compared with the exact kernel matrix of those rows. With targets, ridge
    regression (of ±1 for each class where the targets are labels) is trained on the features of those rows and tested
    on up to 5,000 other rows, next to the exact kernel, a linear model and a constant. The exact kernel is left out
    where solving for it would take longer than everything else together, and ``frame.attrs["notes"]`` says so. Ctrl-C
    ends it with what is done.

    Parameters
    ----------
    X : array-like, memmap or CSR matrix of shape (n_samples, n_features)
        Used as it is: scale columns of different units first. If there are many rows, a sample is measured.
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Labels (strings, booleans, integers of at most 50 distinct values, each twice or more on average) or numbers.
    kernel : Kernel, str or callable, default="rbf"
        The kernel that all maps approximate.
    maps : list of str and transformers, dict of transformers, or None
        None takes those that suit the kernel, ``bochner.comparison.candidates.default_maps``. A transformer is cloned
        and has `n_components` and `random_state` set; it keeps the kernel that it has.
    n_components : int, sequence of int or None, default=None
        Numbers of components. None takes those of 64, 128, 256, 512 and 1,024 that are at most half of
        the reference rows.
    n_runs : int, default=5
        Draws of every map: run r has the seed random_state + r.
    n_reference : int, default=4000
        Rows; their kernel matrix is held.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    progress : callable, optional
        Called as progress(done, total, label) before each measurement and at the end.

    Returns
    -------
    pandas.DataFrame
        One row for each run: "map", "columns" (the number of components), "run", relative errors "frobenius" and
        "spectral" of the kernel matrix, "fit_seconds", "transform_seconds" (of the reference rows), "bytes" (of the
        fitted map, pickled) and, with targets, "model_seconds" of training (the first run of a map chooses the penalty
        of the others) and "error" on the test rows (root mean squared error, or share of wrong labels). With targets
        the last rows are "exact kernel", "linear model" and "constant". ``frame.attrs`` says what was run.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import bochner
    >>> X, y = load_diabetes(return_X_y=True)
    >>> frame = bochner.compare(X, y, maps=["RBFSampler", "fourier:orthogonal"], n_components=[64], n_runs=2)
    >>> frame["map"].unique().tolist()
    ['RBFSampler', 'fourier:orthogonal', 'exact kernel', 'linear model', 'constant']
    >>> errors = frame.groupby("map")["frobenius"].mean()
    >>> bool(errors["fourier:orthogonal"] < errors["RBFSampler"])
    True
    """
    options = {"kernel": kernel, "maps": maps, "n_components": n_components, "n_runs": n_runs}
    options |= {"n_reference": n_reference, "random_state": random_state, "progress": progress}
    return run_comparison(X, y, **options).frame


def run_comparison(
    X: Any,
    y: Any = None,
    *,
    kernel: KernelLike = "rbf",
    maps: Any = None,
    n_components: int | Sequence[int] | None = None,
    n_runs: int = 5,
    n_reference: int = 4000,
    random_state: Seed = 0,
    progress: Progress | None = None,
) -> Comparison:
    """Measure as `compare` does, and keep what a report needs besides the table."""
    table, sizes = _table(), _sizes(n_components)
    check_count("n_runs", n_runs)
    if check_count("n_reference", n_reference) < 10:
        raise ValueError(f"n_reference must be at least 10 rows, got {n_reference}.")
    begun = time.perf_counter()
    key = Key.from_random_state(random_state)
    seed = key.seed % 2**31
    rows = draw_rows(X, y, n_reference, key)
    n_rows = int(rows.X.shape[0])
    # with more components than half the rows the exact kernel costs no more
    sizes = sizes or [n for n in SIZES if 2 * n <= n_rows] or [max(1, n_rows // 2)]
    resolved = _numeric(kernel, rows, key)
    candidates = as_candidates(maps, resolved)
    work = [(run, n, c) for run in range(n_runs) for n in sizes for c in candidates if not c.fixed or n == sizes[0]]
    report = progress or (lambda done, total, label: None)
    report(0, len(work) + 1, EXACT)
    reference = Reference(resolved, rows.X)
    done, others, notes, interrupted = list[About](), list[About](), tuple[str, ...](), False
    try:
        _warm_up(candidates, resolved, sizes[0], seed, rows.X)
        if rows.Y is not None:
            others, notes = baselines(reference, resolved, rows, [n for _, n, _ in work], key)
        done.extend(_measurements(work, resolved, rows, reference, seed, report))
    except KeyboardInterrupt:
        interrupted = True
    report(len(work) + 1, len(work) + 1, "interrupted" if interrupted else "done")
    order = {c.name: i for i, c in enumerate(candidates)}
    done.sort(key=lambda r: (order[r["map"]], r["columns"], r["run"]))
    frame = table([*done, *others], columns=list(COLUMNS))
    settings = {"n_runs": n_runs, "n_components": sizes, "random_state": seed}
    seconds = {"seconds": time.perf_counter() - begun, "kernel_seconds": reference.seconds}
    found = {"interrupted": interrupted, "notes": notes, **seconds}
    frame.attrs.update(kernel=repr(resolved), n_samples=int(as_table(X).shape[0]), **rows.facts, **settings, **found)
    about = {**frame.attrs, "seed": seed, "dtype": str(rows.X.dtype), "machine": describe()}
    losses = np.array([row["losses"] for row in (*done, *others)]) if rows.task else np.empty((len(frame), 0))
    return Comparison(frame, resolved, about, {c.name: c for c in candidates}, rows.X, reference.K, losses)


def _table() -> type[DataFrame]:
    """Import the class of the result, or say how to install it."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise ImportError("compare returns a pandas.DataFrame: pip install 'bochner[cli]'.") from error
    return DataFrame


def _sizes(n_components: int | Sequence[int] | None) -> list[int]:
    """Return the numbers of components that are asked for, sorted; empty for None."""
    asked = () if n_components is None else np.atleast_1d(np.asarray(n_components, object)).tolist()
    sizes = sorted({check_count("n_components", n) for n in asked})
    if n_components is not None and not sizes:
        raise ValueError("n_components is empty: give at least one number, or None for the default.")
    return sizes


def _numeric(kernel: KernelLike, rows: Rows, key: Key) -> Kernel:
    """Resolve a kernel on the rows; a polynomial has a number as gamma, which the peers need."""
    resolved = as_kernel(kernel).resolve(rows.X, key)
    if isinstance(resolved, Polynomial) and resolved.gamma is None:
        resolved.set_params(gamma=1.0 / rows.X.shape[1])
    return resolved


def _warm_up(candidates: list[Candidate], kernel: Kernel, n: int, seed: int, X: Array | csr_matrix) -> None:
    """Fit everything once on a few rows: threads start, and a map that does not suit the kernel says so now."""
    few = X[: min(X.shape[0], max(20, 2 * n))]
    for candidate in candidates:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                candidate.make(kernel, min(n, few.shape[0]), seed).fit(few).transform(few)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{candidate.name} does not work on this data with {kernel!r}: {error}") from error


def _measurements(
    work: list[tuple[int, int, Candidate]],
    kernel: Kernel,
    rows: Rows,
    reference: Reference,
    seed: int,
    report: Progress,
) -> Iterator[About]:
    """Yield a row of the table for each run, number of components and map."""
    penalties: dict[tuple[str, int], float] = {}
    for i, (run, n, candidate) in enumerate(work):
        report(i + 1, len(work) + 1, f"{candidate.name}, {n} components")
        yield _measure(candidate, kernel, n, seed + run, rows, reference, penalties) | {"run": run}


def _measure(
    candidate: Candidate,
    kernel: Kernel,
    n: int,
    seed: int,
    rows: Rows,
    reference: Reference,
    penalties: dict[tuple[str, int], float],
) -> About:
    """Return a row of the table, and its losses; the first draw of a map chooses the penalty of all."""
    transformer = candidate.make(kernel, n, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the table reports if there are more components than rows
        start = time.perf_counter()
        transformer.fit(rows.X)
        fitted = time.perf_counter()
        features = transformer.transform(rows.X)
        transformed = time.perf_counter()
    Z = dense(features)
    if Z.shape[0] != rows.X.shape[0] or not np.isfinite(Z).all():
        raise ValueError(f"{candidate.name} gave {Z.shape} features, or some that are not finite.")
    error, model_seconds, losses = np.nan, np.nan, None
    if rows.Y is not None:
        Z_test, key = dense(transformer.transform(rows.X_test)), (candidate.name, n)
        losses, model_seconds, penalties[key] = linear_losses(Z, Z_test, rows, penalties.get(key))
        error = rows.error(losses)
    frobenius, spectral = reference.errors(Z)
    return {
        "map": candidate.name,
        "columns": int(features.shape[1]),
        "frobenius": frobenius,
        "spectral": spectral,
        "fit_seconds": fitted - start,
        "transform_seconds": transformed - fitted,
        "model_seconds": model_seconds,
        "bytes": size_of(transformer),
        "error": error,
        "losses": losses,
    }


class _Sizer(pickle.Pickler):
    """A pickler that takes a function of the user's for its name, so that lambdas do not stop it."""

    def reducer_override(self, value: object) -> Any:
        return (str, (value.__qualname__,)) if isinstance(value, FunctionType) else NotImplemented


def size_of(transformer: TransformerMixin) -> int:
    """Return the bytes of a fitted transformer, pickled."""
    buffer = io.BytesIO()
    _Sizer(buffer, protocol=5).dump(transformer)
    return buffer.tell()


_LEVEL = 0.05  # probability that any map as good as the best is called worse
_CLOSE = 1.1  # factor of the least kernel error up to which errors count as equal
_LINE = 60  # characters of a line of code that fit on a phone
_GOOD = 0.05  # relative Frobenius error that suffices for exploring data


def summarise(frame: DataFrame) -> DataFrame:
    """Summarise the runs of each map and number of components: mean errors, their spread, and median seconds."""
    frame = frame.assign(seconds=frame["fit_seconds"] + frame["transform_seconds"])
    groups = frame.groupby(["map", "columns"], sort=False)
    return groups.agg(
        frobenius=("frobenius", "mean"),
        frobenius_low=("frobenius", "min"),
        frobenius_high=("frobenius", "max"),
        spectral=("spectral", "mean"),
        error=("error", "mean"),
        error_low=("error", "min"),
        error_high=("error", "max"),
        fit_seconds=("fit_seconds", "median"),
        transform_seconds=("transform_seconds", "median"),
        seconds=("seconds", "median"),
        model_seconds=("model_seconds", "median"),
        bytes=("bytes", "median"),
        runs=("run", "count"),
    ).reset_index()


def ranked(summary: DataFrame, about: About, verdict: Verdict | None = None) -> DataFrame:
    """Rank each map at its most components, the recommended one also as recommended, and the baselines."""
    shown = set(summary.groupby("map", sort=False)["columns"].idxmax())
    shown.update(summary.index[is_recommended(summary, verdict)])
    last = summary.loc[sorted(shown)]
    return last.sort_values(["error", "frobenius"] if about["task"] else ["frobenius"], kind="stable")


def is_recommended(summary: DataFrame, verdict: Verdict | None) -> Series:
    """Return True for the rows of a summary that are the recommended map with its number of components."""
    if verdict is None:
        return summary["columns"] < 0
    return (summary["map"] == verdict.map) & (summary["columns"] == verdict.columns)


def headings(about: About) -> dict[str, tuple[str, Callable[[float], str]]]:
    """Return the headings of a table, each with its column of the summary and how that is written."""
    found: dict[str, tuple[str, Callable[[float], str]]] = {
        "components": ("columns", lambda value: f"{int(value):,}" if value else "–"),
        "test error": ("error", lambda value: show_error(value, about)),
        "Frobenius": ("frobenius", show_share),
        "spectral": ("spectral", show_share),
        "fit": ("fit_seconds", show_seconds),
        "transform": ("transform_seconds", show_seconds),
        "train": ("model_seconds", show_seconds),
        "size": ("bytes", show_bytes),
    }
    return found if about["task"] else {k: v for k, v in found.items() if k not in ("test error", "train")}


def pareto(seconds: Array, errors: Array) -> Array:
    """Return True for each point that no other beats in both time and error."""
    order, found = np.lexsort((errors, seconds)), np.zeros(len(errors), bool)
    found[order] = errors[order] < np.append(np.inf, np.minimum.accumulate(errors[order])[:-1])
    return found


@dataclass(frozen=True)
class Verdict:
    """The choice, why in one paragraph, the code, and what matters more than the choice, if something does."""

    map: str
    columns: int
    paragraph: str
    code: str
    headline: str = ""


@dataclass(frozen=True)
class Paired:
    """Differences of mean test loss from the best map: negative where a map is better."""

    differences: Array
    thresholds: Array  # a difference above its threshold is significant

    @property
    def tied(self) -> Array:
        """Methods that are not significantly worse than the best map."""
        return self.differences <= self.thresholds

    @property
    def better(self) -> Array:
        """Methods that are significantly better than the best map."""
        return self.differences < -self.thresholds


def paired(losses: list[Array], columns: Array, best: int) -> Paired:
    """Compare losses (n_runs, n_test) of methods with those of the best, row by row.

    A difference has two sources of error. The test rows are shared by all methods, so the differences of each row
    count. The draws of a map are few, so their variance is pooled over all maps with the same number of columns.
    Satterthwaite's rule gives the degrees of freedom. The level is divided by the number of methods, from which the
    best was chosen.
    """
    rows = np.array([each.mean(axis=0) for each in losses])
    means, n_test = rows.mean(axis=1), rows.shape[1]
    n_runs = np.array([len(each) for each in losses])
    spread = np.array([np.sum((each.mean(axis=1) - mean) ** 2) for each, mean in zip(losses, means, strict=True)])
    alike = columns[:, None] == columns
    freedom = np.where(alike @ (n_runs - 1) > 0, alike @ (n_runs - 1), np.inf)  # nothing drawn, or one draw: no spread
    draws = alike @ spread / freedom / n_runs
    sampled = np.var(rows - rows[best], axis=1, ddof=1) / n_test
    drawn = draws + draws[best]
    squares = sampled**2 / (n_test - 1) + drawn**2 / np.minimum(freedom, freedom[best])
    variance = sampled + drawn
    freedom = np.divide(variance**2, squares, out=np.full(len(losses), n_test - 1.0), where=squares > 0)
    thresholds = stdtrit(freedom, 1.0 - _LEVEL / max(1, len(losses) - 1)) * np.sqrt(variance)
    thresholds[best] = 0.0
    return Paired(means - means[best], thresholds)


def _smallest(maps: DataFrame) -> Series:
    """Return the map with the fewest components, then bytes, among those with the least kernel error."""
    near = maps[maps["frobenius"] <= _CLOSE * maps["frobenius"].min()]
    return near.sort_values(["columns", "bytes", "frobenius"], kind="stable").iloc[0]


def conclude(comparison: Comparison) -> Verdict | None:
    """Return the verdict, or None if nothing was measured.

    The test rows decide first. Maps that they cannot separate from the best are told apart by the error of the kernel
    matrix, and equally near ones by size. No time decides.
    """
    summary, about = summarise(comparison.frame), comparison.about
    maps = summary[~summary["map"].isin(BASELINES)]
    if not len(maps):
        return None
    if about["task"] is None:
        return _by_kernel(comparison, maps)
    places = comparison.frame.groupby(["map", "columns"], sort=False).indices
    losses = [comparison.losses[places[row["map"], row["columns"]]] for _, row in summary.iterrows()]
    best = int(maps["error"].idxmin())
    found = paired(losses, np.where(summary["map"].isin(BASELINES), -1, summary["columns"]), best)
    tied = maps[found.tied[maps.index]]
    chosen = _smallest(tied)
    name, columns = str(chosen["map"]), int(chosen["columns"])
    total = float(chosen["seconds"] + chosen["model_seconds"])
    baselines = summary[summary["map"].isin(BASELINES)].set_index("map")["error"]
    others = ", ".join(f"{other} {show_error(value, about)}" for other, value in baselines.items())
    text = (
        f"{_why(maps, tied, best, chosen, found, about)} For comparison: {others}. {name} takes {show_seconds(total)} "
        f"to fit, transform and train on {about['n_reference']:,} rows, and {show_bytes(chosen['bytes'])} to keep."
    )
    as_good, better = set(summary["map"][found.tied]), set(summary["map"][found.better])
    headline = ""
    if CONSTANT in as_good:
        headline = "Nothing tried is better than a constant"
        text = f"{headline}: there may be nothing to learn, or the kernel does not suit. Among the maps: {text}"
    elif LINEAR in as_good:
        headline = "A linear model is as good as any kernel here"
        text = f"{headline}: use that. Among the maps: {text}"
    elif EXACT in better:
        text += " The exact kernel is better still: more components may help."
    return Verdict(name, columns, text, code(comparison, name, columns), headline)


def _why(maps: DataFrame, tied: DataFrame, best: int, chosen: Series, found: Paired, about: About) -> str:
    """Say which maps tie, what the rows can resolve, and what decided between the tied maps."""
    called = f"{chosen['map']} with {int(chosen['columns']):,} components"
    error, least = (show_error(value, about) for value in (chosen["error"], maps["error"][best]))
    rows = f"{about['n_test']:,} test rows" + (f" and {about['n_runs']} runs" if about["n_runs"] > 1 else "")
    if len(maps) == 1:
        return f"{called} has a test error of {error} on {about['n_test']:,} rows; no other map was measured."
    if len(tied) == 1:
        return f"{called} has the least test error, {error}: {rows} separate it from all other maps."
    apart = float(np.median(found.thresholds[tied.index[tied.index != best]]))
    if about["task"] == "regression":  # losses are squared errors
        apart = math.sqrt(maps["error"][best] ** 2 + apart) - maps["error"][best]
    margin = f"{100 * apart:.2g} points" if about["task"] == "classification" else f"{apart:.2g}"
    if len(tied) == len(maps):
        ties = f"so all {len(maps)} settings tie"
    else:
        ties = f"so {len(tied)} of the {len(maps)} settings tie with the best, {least}"
    return (
        f"{called} has a test error of {error}. {rows} cannot separate errors closer than {margin}, {ties}. "
        f"Among these, {chosen['map']} has the least error of the kernel matrix, {show_share(chosen['frobenius'])}."
    )


def _by_kernel(comparison: Comparison, maps: DataFrame) -> Verdict:
    about = comparison.about
    chosen = _smallest(maps)
    name, columns = str(chosen["map"]), int(chosen["columns"])
    text = (
        f"{name} with {columns:,} components comes nearest to the exact kernel matrix: it is "
        f"{show_share(chosen['frobenius'])} away in the Frobenius norm and {show_share(chosen['spectral'])} in the "
        f"spectral norm, after {show_seconds(chosen['seconds'])} of fitting and transforming "
        f"{about['n_reference']:,} rows, with {show_bytes(chosen['bytes'])} of state."
    )
    enough = maps[maps["frobenius"] <= _GOOD]
    if len(enough):
        least = enough.sort_values(["columns", "bytes"], kind="stable").iloc[0]
        if (str(least["map"]), int(least["columns"])) != (name, columns):
            text += (
                f" If {_GOOD:.0%} is near enough, {least['map']} with {int(least['columns']):,} components takes "
                f"{show_seconds(least['seconds'])}."
            )
    else:
        text += f" No map comes within {_GOOD:.0%} with so few components."
    text += " Give a target to learn which differences matter for prediction."
    return Verdict(name, columns, text, code(comparison, name, columns))


def code(comparison: Comparison, name: str, columns: int) -> str:
    """Write lines of Python that use a map of the comparison."""
    transformer = comparison.transformer(name, columns)
    parameters = transformer.get_params(deep=False)
    default = type(transformer)().get_params(deep=False) if not comparison.candidates[name].fixed else {}
    always = ("kernel", "n_components")
    shown = {k: v for k, v in parameters.items() if k in always or repr(v) != repr(default.get(k, ...))}
    kind = type(transformer).__name__
    inside = [rounded(f"{key}={value!r}") for key, value in shown.items()]
    call = f"features = {kind}({', '.join(inside)})"
    if len(call) > _LINE:
        call = f"features = {kind}(\n" + "".join(f"    {part},\n" for part in inside) + ")"
    lines = [call, "Z = features.fit_transform(X)"]
    if comparison.about["task"] == "regression":
        lines.append("model = KernelRidge(features=features).fit(X, y)")
    elif comparison.about["task"] == "classification":
        lines.append('model = KernelClassifier(features=features, loss="squared").fit(X, y)')
    words = set(re.findall(r"\b[A-Za-z]\w*(?=\()", "\n".join(lines)))
    ours = sorted(words & set(dir(bochner)))
    imports = [f"from bochner import {', '.join(ours)}"] if ours else []
    if kind not in ours:
        imports.append(f"from {_public_module(type(transformer))} import {kind}")
    return "\n".join([*imports, "", *lines])


def _public_module(kind: type) -> str:
    return ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))


def rounded(text: str) -> str:
    """Write the long numbers of a text with six digits."""
    return re.sub(r"\d+\.\d{7,}(e[+-]?\d+)?", lambda match: f"{float(match[0]):.6g}", text)


# -- numbers for people --------------------------------------------------------------------------------------------


def show_error(value: float, about: About) -> str:
    """Write a test error: per cent of wrong labels, or a root mean squared error."""
    if not math.isfinite(value):
        return "–"
    if about["task"] == "classification":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:.4g}"


def show_share(value: float) -> str:
    """Write a relative error in per cent."""
    if not math.isfinite(value):
        return "–"
    if value == 0 or value >= 1e-6:
        digits = 0 if value == 0 else max(0, 1 - math.floor(math.log10(100 * value)))
        return f"{100 * value:.{digits}f} %" if value < 0.1 else f"{100 * value:.0f} %"
    return f"{100 * value:.0e} %"


def show_seconds(value: float) -> str:
    """Write a time in seconds, milliseconds or microseconds."""
    if value >= 1.0:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.0f} µs"


def show_bytes(value: float) -> str:
    """Write a number of bytes in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.3g} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{value:.3g} GiB"
