"""The verdict of a comparison: which map to use, why, and the code for it; and how its numbers are written."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner import estimators, kernels
from bochner.backends import Array
from bochner.experiments.compare import Comparison
from bochner.experiments.references import BASELINES, CONSTANT, EXACT, LINEAR

_CLOSE = 1.1  # kernel errors within this factor of the least are as good
_CHEAP = 1.25  # times within this factor of the least are the same
_LINE = 60  # characters of a line of code that a phone shows
_GOOD = 0.05  # a relative Frobenius error that is enough for looking at data


def summarise(frame: Any) -> Any:
    """One row for every map and number of columns: means over runs, their spread, and the median seconds."""
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


def ranked(summary: Any, about: dict[str, Any]) -> Any:
    """Every map at its most columns, and the baselines; the best first."""
    last = summary.loc[summary.groupby("map", sort=False)["columns"].idxmax()]
    return last.sort_values(["error", "frobenius"] if about["task"] else ["frobenius"], kind="stable")


def headings(about: dict[str, Any]) -> dict[str, tuple[str, Callable[[Any], str]]]:
    """Headings of a table, each with its column of the summary and how that is written."""
    found: dict[str, tuple[str, Callable[[Any], str]]] = {
        "columns": ("columns", lambda value: f"{int(value):,}" if value else "–"),
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
    """Which points no other beats in both time and error."""
    order, found = np.lexsort((errors, seconds)), np.zeros(len(errors), bool)
    found[order] = errors[order] < np.append(np.inf, np.minimum.accumulate(errors[order])[:-1])
    return found


@dataclass(frozen=True)
class Verdict:
    """The choice, why in one paragraph, and the code."""

    map: str
    columns: int
    paragraph: str
    code: str


def noise_of(error: float, about: dict[str, Any]) -> float:
    """One standard error of a test error, from the number of test rows."""
    n = max(1, about["n_test"])
    if about["task"] == "classification":
        return math.sqrt(max(error, 1.0 / n) * (1.0 - min(error, 1.0)) / n)
    return error / math.sqrt(2.0 * n)


def conclude(comparison: Comparison) -> Verdict | None:
    """The cheapest map that is as good as any, or None when nothing was measured."""
    summary, about = summarise(comparison.frame), comparison.about
    maps = summary[~summary["map"].isin(BASELINES)]
    if not len(maps):
        return None
    if about["task"] is None:
        return _by_kernel(comparison, maps)
    baselines = {row["map"]: row["error"] for _, row in summary[summary["map"].isin(BASELINES)].iterrows()}
    best = float(maps["error"].min())
    noise = noise_of(best, about)
    good = maps[maps["error"] <= best + noise]
    cost = good["seconds"] + good["model_seconds"]
    cheap = good[cost <= _CHEAP * cost.min()]
    chosen = cheap.loc[cheap["frobenius"].idxmin()]
    total = float(chosen["seconds"] + chosen["model_seconds"])
    name, columns = str(chosen["map"]), int(chosen["columns"])
    others = ", ".join(f"{other} {show_error(value, about)}" for other, value in baselines.items())
    margin = f"{100 * noise:.2g} points" if about["task"] == "classification" else show_error(noise, about)
    text = (
        f"{name} with {columns:,} columns is the cheapest map whose test error, {show_error(chosen['error'], about)}, "
        f"is within one standard error ({margin}, from {about['n_test']:,} test rows) of the least, "
        f"{show_error(best, about)}. For comparison: {others}. It takes {show_seconds(total)} to fit, transform and "
        f"train on {about['n_reference']:,} rows, and {show_bytes(chosen['bytes'])} to keep; its kernel matrix is "
        f"{show_share(chosen['frobenius'])} from the exact one."
    )
    if baselines.get(LINEAR, np.inf) <= best + noise:
        text += " A linear model is as good as any kernel here: use that."
    if baselines.get(CONSTANT, np.inf) <= best + noise:
        text += " Nothing tried is better than a constant: there may be nothing to learn, or the kernel does not suit."
    elif baselines.get(EXACT, np.inf) < best - 2.0 * noise:
        text += " The exact kernel is better still: more columns may help."
    return Verdict(name, columns, text, code(comparison, name, columns))


def _by_kernel(comparison: Comparison, maps: Any) -> Verdict:
    about = comparison.about
    least = float(maps["frobenius"].min())
    good = maps[maps["frobenius"] <= _CLOSE * least]
    chosen = good.loc[good["seconds"].idxmin()]
    name, columns = str(chosen["map"]), int(chosen["columns"])
    text = (
        f"{name} with {columns:,} columns comes nearest to the exact kernel matrix: it is "
        f"{show_share(chosen['frobenius'])} away in the Frobenius norm and {show_share(chosen['spectral'])} in the "
        f"spectral norm, after {show_seconds(chosen['seconds'])} of fitting and transforming "
        f"{about['n_reference']:,} rows, with {show_bytes(chosen['bytes'])} of state."
    )
    enough = maps[maps["frobenius"] <= _GOOD]
    if len(enough):
        quick = enough.loc[enough["seconds"].idxmin()]
        if (str(quick["map"]), int(quick["columns"])) != (name, columns):
            text += (
                f" Where {_GOOD:.0%} is near enough, {quick['map']} with {int(quick['columns']):,} columns takes "
                f"{show_seconds(quick['seconds'])}."
            )
    else:
        text += f" No map comes within {_GOOD:.0%} with so few columns."
    text += " Give a target to learn which differences matter for prediction."
    return Verdict(name, columns, text, code(comparison, name, columns))


def code(comparison: Comparison, name: str, columns: int) -> str:
    """Lines of Python that use a map of the comparison."""
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
    ours = sorted(words & {*estimators.__all__, *kernels.__all__})
    imports = [f"from bochner import {', '.join(ours)}"] if ours else []
    if kind not in ours:
        imports.append(f"from {_public_module(type(transformer))} import {kind}")
    return "\n".join([*imports, "", *lines])


def _public_module(kind: type) -> str:
    return ".".join(part for part in kind.__module__.split(".") if not part.startswith("_"))


def rounded(text: str) -> str:
    """Text in which long numbers have six digits."""
    return re.sub(r"\d+\.\d{7,}(e[+-]?\d+)?", lambda match: f"{float(match[0]):.6g}", text)


# -- numbers for people --------------------------------------------------------------------------------------------


def show_error(value: float, about: dict[str, Any]) -> str:
    """A test error: per cent of wrong labels, or a root mean squared error."""
    if not math.isfinite(value):
        return "–"
    if about["task"] == "classification":
        return f"{100 * value:.3g} %"
    return f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:.4g}"


def show_share(value: float) -> str:
    """A relative error in per cent."""
    if not math.isfinite(value):
        return "–"
    if value == 0 or value >= 1e-6:
        digits = 0 if value == 0 else max(0, 1 - math.floor(math.log10(100 * value)))
        return f"{100 * value:.{digits}f} %" if value < 0.1 else f"{100 * value:.0f} %"
    return f"{100 * value:.0e} %"


def show_seconds(value: float) -> str:
    """Seconds, milliseconds or microseconds."""
    if value >= 1.0:
        return f"{value:.3g} s"
    return f"{1e3 * value:.3g} ms" if value >= 1e-3 else f"{1e6 * value:.0f} µs"


def show_bytes(value: float) -> str:
    """Bytes in binary units."""
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.3g} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return f"{value:.3g} GiB"
