"""A comparison as one HTML file that needs nothing else: no network, light and dark, wide and narrow."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from bochner.experiments.charts import Axis, Chart, Series, gradient, matrix_image
from bochner.experiments.compare import BASELINES, CONSTANT, EXACT, LINEAR, Comparison
from bochner.experiments.verdicts import (
    Verdict,
    conclude,
    pareto,
    show_bytes,
    show_error,
    show_seconds,
    show_share,
    summarise,
)

_SIZES = {"wide": (900, 440), "narrow": (356, 380)}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report of a comparison, and return where it is."""
    path = Path(path)
    path.write_text(report(comparison), encoding="utf-8")
    return path


def report(comparison: Comparison) -> str:
    """The report as a string of HTML."""
    summary = summarise(comparison.frame)
    about = comparison.about
    verdict = conclude(comparison)
    name = str(about.get("name", "your data"))
    colours = _colours([m for m in summary["map"].unique() if m not in BASELINES], comparison)
    chosen = None if verdict is None else verdict.map
    sections = [_header(comparison, name)]
    if about["interrupted"]:
        sections.append('<p class="notice">It was interrupted: this is what had been measured by then.</p>')
    if verdict is not None:
        sections += [
            _verdict(verdict),
            _against_columns(summary, colours, chosen, about),
            _against_time(summary, colours, chosen),
        ]
        if about["task"] is not None:
            sections.append(_predictions(summary, colours, chosen, about))
        sections += [_ranking(summary, colours, verdict, about), _grams(comparison, verdict), _code(verdict)]
        sections.append(_everything(summary, about))
    else:
        sections.append('<p class="notice">Nothing had been measured when it ended.</p>')
    sections.append(_facts(comparison))
    style, script = (Path(__file__).with_suffix(suffix).read_text(encoding="utf-8") for suffix in (".css", ".js"))
    classes = "".join(f".{css} {{ --c: var(--{css}); }}\n" for css in sorted(set(colours.values())))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(name)}: which approximation suits it?</title>\n<style>\n{style}{classes}</style>\n</head>\n"
        f"<body>\n<main>\n{''.join(sections)}</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _colours(maps: list[str], comparison: Comparison) -> dict[str, str]:
    """A class for every map: one family of hues for waves, one for landmarks, grey for scikit-learn's."""
    count = dict.fromkeys("fnop", 0)
    most = {"f": 8, "n": 4, "o": 4, "p": 3}
    found = {}
    for name in maps:
        peer = comparison.candidates[name].peer
        family = "p" if peer else "f" if name.startswith("fourier") else "n" if name.startswith("nystrom") else "o"
        found[name] = f"{family}{count[family] % most[family]}"
        count[family] += 1
    return found


def _css(name: str, colours: dict[str, str]) -> str:
    return colours[name] + (" peer" if colours[name].startswith("p") else "")


def _header(comparison: Comparison, name: str) -> str:
    about = comparison.about
    maps = comparison.frame["map"]
    facts = [
        f"{about['n_samples']:,} rows",
        f"{about['n_features']:,} features",
        _kernel(comparison),
        f"{len(set(maps) - set(BASELINES))} maps",
        f"{about['n_runs']} runs" if about["n_runs"] > 1 else "one run",
    ]
    title = f"Which kernel approximation suits {escape(name)}?"
    return f"<header><h1>{title}</h1><p>{escape(' · '.join(facts))}</p></header>\n"


def _kernel(comparison: Comparison) -> str:
    scale = np.ravel(getattr(comparison.kernel, "length_scale", []))
    kind = type(comparison.kernel).__name__
    return f"{kind} kernel, length scale {float(scale[0]):.4g}" if scale.size == 1 else f"{kind} kernel"


def _verdict(verdict: Verdict) -> str:
    return (
        '<div class="verdict"><p class="eyebrow">Recommendation</p>'
        f'<p class="choice">{escape(verdict.map)} <span>with {verdict.columns:,} columns</span></p>'
        f"<p>{escape(verdict.paragraph)}</p></div>\n"
    )


def _percent(value: float) -> str:
    return f"{100 * value:g} %"


def _plain(value: float) -> str:
    return f"{value:,.0f}" if 1e3 <= value < 1e9 else f"{value:g}"


def _both(chart: Chart) -> str:
    return "".join(f'<div class="{kind}">{chart.svg(*size)}</div>' for kind, size in _SIZES.items())


def _section(title: str, text: str, body: str, caption: str = "") -> str:
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p><figure>{body}{below}</figure></section>\n"


def _groups(summary: Any, names: dict[str, str]) -> list[tuple[str, Any]]:
    return [(name, summary[summary["map"] == name].sort_values("columns")) for name in names]


def _curves(summary: Any, colours: dict[str, str], chosen: str | None, measure: str, show: Any) -> list[Series]:
    series = []
    for name, group in _groups(summary, colours):
        titles = [
            f"{name}, {int(n):,} columns: {show(y)}" for n, y in zip(group["columns"], group[measure], strict=True)
        ]
        series.append(
            Series(
                name,
                group["columns"].tolist(),
                group[measure].tolist(),
                _css(name, colours),
                group[f"{measure}_low"].tolist(),
                group[f"{measure}_high"].tolist(),
                titles,
                strong=name == chosen,
            )
        )
    return series


def _columns_axis(summary: Any, colours: dict[str, str]) -> Axis:
    ticks = sorted(set(summary[summary["map"].isin(list(colours))]["columns"]))
    return Axis("columns", lambda v: f"{v:,.0f}", ticks=ticks)


def _against_columns(summary: Any, colours: dict[str, str], chosen: str | None, about: dict[str, Any]) -> str:
    chart = Chart(
        "Relative Frobenius error of the kernel matrix against columns",
        _curves(summary, colours, chosen, "frobenius", show_share),
        _columns_axis(summary, colours),
        Axis("relative Frobenius error", _percent),
    )
    shade = "Shades span the runs. " if about["n_runs"] > 1 else ""
    return _section(
        "What a column buys",
        "How far ZZᵀ is from the exact kernel matrix. Lower is better; both scales are logarithmic.",
        _both(chart),
        f"{shade}Measured on {about['n_reference']:,} rows. Dashed: scikit-learn.",
    )


def _against_time(summary: Any, colours: dict[str, str], chosen: str | None) -> str:
    maps = summary[summary["map"].isin(list(colours))]
    best = maps[pareto(maps["seconds"].to_numpy(), maps["frobenius"].to_numpy())].sort_values("seconds")
    series = []
    for name, group in _groups(summary, colours):
        titles = [
            f"{name}, {int(row['columns']):,} columns: {show_share(row['frobenius'])}, {show_seconds(row['seconds'])}"
            for _, row in group.iterrows()
        ]
        css = _css(name, colours) + ("" if name == chosen else " faint")
        series.append(Series(name, group["seconds"].tolist(), group["frobenius"].tolist(), css, titles=titles))
    front = list(zip(best["seconds"], best["frobenius"], strict=True))
    marks = [(r["seconds"], r["frobenius"], f"{r['map']} {int(r['columns']):,}") for _, r in best.iterrows()]
    chart = Chart(
        "Relative Frobenius error against the seconds of fitting and transforming",
        series,
        Axis("seconds to fit and transform", show_seconds),
        Axis("relative Frobenius error", _percent),
        front=front,
        marks=marks,
    )
    return _section(
        "What a second buys",
        "Every map at every number of columns. Nothing is both faster and nearer than what is ringed.",
        _both(chart),
        "The dashed staircase is the Pareto front. Times are medians over the runs, on the machine described below.",
    )


def _predictions(summary: Any, colours: dict[str, str], chosen: str | None, about: dict[str, Any]) -> str:
    base = {row["map"]: float(row["error"]) for _, row in summary[summary["map"].isin(BASELINES)].iterrows()}
    curves = _curves(summary, colours, chosen, "error", lambda value: show_error(value, about))
    curves = [c if c.strong else replace(c, lows=(), highs=()) for c in curves]  # so many shades would hide each other
    values = [y for s in curves for y in s.ys] + [base[name] for name in (EXACT, LINEAR) if name in base]
    log = bool(values) and min(values) > 0 and max(values) > 4 * min(values)
    levels = [(name, base[name]) for name in (EXACT, LINEAR) if name in base]
    what = "wrong labels" if about["task"] == "classification" else "root mean squared error"
    chart = Chart(
        "Test error against columns",
        curves,
        _columns_axis(summary, colours),
        Axis(what, _percent if about["task"] == "classification" else _plain, log=log),
        levels=levels,
    )
    constant = f" A constant has {show_error(base[CONSTANT], about)}." if CONSTANT in base else ""
    return _section(
        "What it means for predictions",
        f"Ridge regression on the features, tested on {about['n_test']:,} other rows: {what}.{constant}",
        _both(chart),
        "The shade spans the runs of the recommended map." if about["n_runs"] > 1 else "",
    )


# -- tables --------------------------------------------------------------------------------------------------------


def _table(heads: list[str], rows: list[tuple[str, list[tuple[Any, str]]]]) -> str:
    """A sortable table; a row is its class and its cells, each a value to sort by and HTML to show."""
    top = "".join(f'<th scope="col"><button type="button">{escape(head)}</button></th>' for head in heads)
    body = []
    for css, cells in rows:
        shown = "".join(f'<td data-value="{escape(str(value), quote=True)}">{html}</td>' for value, html in cells)
        body.append(f'<tr class="{css}">{shown}</tr>' if css else f"<tr>{shown}</tr>")
    return (
        f'<div class="scroll"><table class="sortable"><thead><tr>{top}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _number(value: float, shown: str) -> tuple[Any, str]:
    return ("" if math.isnan(value) else repr(float(value))), escape(shown)


def _cells(row: Any, about: dict[str, Any]) -> list[tuple[Any, str]]:
    error = [_number(row["error"], show_error(row["error"], about))] if about["task"] else []
    return [
        _number(row["columns"], f"{int(row['columns']):,}" if row["columns"] else "–"),
        *error,
        _number(row["frobenius"], show_share(row["frobenius"])),
        _number(row["spectral"], show_share(row["spectral"])),
        _number(row["fit_seconds"], show_seconds(row["fit_seconds"])),
        _number(row["transform_seconds"], show_seconds(row["transform_seconds"])),
        *([_number(row["model_seconds"], show_seconds(row["model_seconds"]))] if about["task"] else []),
        _number(row["bytes"], show_bytes(row["bytes"])),
    ]


def _heads(about: dict[str, Any]) -> list[str]:
    error, train = (["test error"], ["train"]) if about["task"] else ([], [])
    return ["map", "columns", *error, "Frobenius", "spectral", "fit", "transform", *train, "size"]


def _ranking(summary: Any, colours: dict[str, str], verdict: Verdict, about: dict[str, Any]) -> str:
    last = summary.loc[summary.groupby("map", sort=False)["columns"].idxmax()]
    last = last.sort_values(["error", "frobenius"] if about["task"] else ["frobenius"], kind="stable")
    rows = []
    for _, row in last.iterrows():
        name = str(row["map"])
        key = f'<span class="key {colours[name]}"></span>' if name in colours else ""
        css = "baseline" if name in BASELINES else "chosen" if name == verdict.map else ""
        rows.append((css, [(name, key + escape(name)), *_cells(row, about)]))
    return _section(
        "Ranking",
        "Every map at its most columns, the best first. Choose a heading to sort by it.",
        _table(_heads(about), rows),
        "Errors are means, times medians over the runs; the size is that of the fitted map. Bold: the recommended map.",
    )


def _everything(summary: Any, about: dict[str, Any]) -> str:
    rows = [
        ("baseline" if row["map"] in BASELINES else "", [(row["map"], escape(str(row["map"]))), *_cells(row, about)])
        for _, row in summary.iterrows()
    ]
    return _section("Everything measured", "All maps at all numbers of columns.", _table(_heads(about), rows))


# -- the matrix, the code, the machine -----------------------------------------------------------------------------


def _grams(comparison: Comparison, verdict: Verdict) -> str:
    try:
        exact, approximation = comparison.picture(verdict.map, verdict.columns)
    except ValueError:  # a transformer of the user's that needs more than these rows
        return ""
    low, high = float(exact.min()), float(exact.max())
    low = min(0.0, low) if high > 0 else low
    difference = approximation.astype(np.float64) - exact
    largest = float(np.abs(difference).max())
    most = float(np.quantile(np.abs(difference), 0.995)) or largest or 1e-300  # one odd row would hide all others
    panels = [
        ("Exact", matrix_image(exact, low, high), gradient(), f"{low:.3g}", f"{high:.3g}"),
        (
            f"{verdict.map}, {verdict.columns:,} columns",
            matrix_image(approximation, low, high),
            gradient(),
            f"{low:.3g}",
            f"{high:.3g}",
        ),
        (
            "Difference",
            matrix_image(difference, -most, most, diverging=True),
            gradient(diverging=True),
            f"−{most:.2g}",
            f"+{most:.2g}",
        ),
    ]
    body = "".join(
        f'<div><h3>{escape(title)}</h3><img alt="{escape(title, quote=True)} kernel matrix" src="{image}">'
        f'<div class="ramp" style="background: {ramp}"></div>'
        f'<div class="ends"><span>{left}</span><span>{right}</span></div></div>'
        for title, image, ramp, left, right in panels
    )
    return _section(
        "The matrix itself",
        f"The kernel between {len(exact)} of the rows, ordered so that rows alike are neighbours.",
        f'<div class="grams">{body}</div>',
        f"The difference has a scale of its own; the largest is {largest:.2g}.",
    )


def _code(verdict: Verdict) -> str:
    return (
        "<section><h2>Use it</h2><p>The recommended map as it was measured, with its numbers.</p>"
        '<div class="code"><button type="button" class="copy">Copy</button>'
        f"<pre><code>{escape(verdict.code)}</code></pre></div></section>\n"
    )


def _facts(comparison: Comparison) -> str:
    about, machine = comparison.about, comparison.about["machine"]
    test = f", {about['n_test']:,} more for testing" if about["n_test"] else ""
    classes = f", {about['n_classes']} classes" if about["n_classes"] else ""
    memory = "" if machine["memory"] is None else f", {show_bytes(machine['memory'])}"
    level = f"{machine['backend']} ({machine['native_levels'][-1]})" if machine["native_levels"] else machine["backend"]
    scaled = "standardised columns, " if about.get("standardized") else "columns as they are, "
    rows = {
        "Data": f"{about['n_samples']:,} × {about['n_features']:,}, {scaled}{about['dtype']}",
        "Measured on": f"{about['n_reference']:,} rows drawn at random{test}",
        "Kernel": repr(comparison.kernel),
        "Task": f"{about['task']}{classes}" if about["task"] else "none given: kernel errors only",
        "Runs": f"{about['n_runs']}, seeds from {about['seed']}; {show_seconds(about['seconds'])} in all",
        **({"Command": about["command"]} if "command" in about else {}),
        "Processor": f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads{memory}",
        "Code": f"{level}; BLAS: {'; '.join(machine['blas']) or 'unknown'}",
        "Versions": ", ".join(f"{package} {number}" for package, number in machine["versions"].items()),
    }
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows.items())
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        f"<section><h2>What was run, and where</h2><p></p><dl>{items}</dl></section>\n"
        f"<footer>Written by bochner on {date}. Times depend on the machine; errors depend on the seed only.</footer>\n"
    )
