"""A comparison as one HTML file that needs nothing else: no network, light and dark, wide and narrow."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from bochner.comparison.candidates import Candidate
from bochner.comparison.charts import NARROW, THEMES, WIDE, Axis, Chart, Series, gradient, matrix_image, save_figure
from bochner.comparison.compare import (
    Comparison,
    Verdict,
    conclude,
    headings,
    is_recommended,
    pareto,
    ranked,
    show_bytes,
    show_error,
    show_seconds,
    show_share,
    summarise,
)
from bochner.comparison.references import BASELINES, CONSTANT, EXACT, LINEAR
from bochner.outputs import replacing

if TYPE_CHECKING:
    from pandas import DataFrame
    from pandas import Series as DataRow


def write_report(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the report of a comparison, and return where it is."""
    page = Page(comparison).html().encode()
    with replacing(path) as file:
        file.write(page)
    return Path(path)


def write_picture(comparison: Comparison, path: str | os.PathLike[str]) -> Path:
    """Write the chart of error against components, SVG if the name ends so and else PNG; return where it is."""
    path, page = Path(path), Page(comparison)
    chart = replace(page.columns_chart(), y=Axis(f"{page.name}: relative Frobenius error", _percent))
    save_figure(chart.draw, (WIDE[0] / 72, WIDE[1] / 72), path)
    return path


def _section(title: str, text: str, body: str, caption: str = "") -> str:
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f"<section><h2>{escape(title)}</h2><p>{escape(text)}</p><figure>{body}{below}</figure></section>\n"


def _percent(value: float) -> str:
    return f"{100 * value:g} %"


def _both(chart: Chart) -> str:
    """Draw the chart for screens and the one for phones; the page shows one of them."""
    return f'<div class="wide">{chart.svg(*WIDE)}</div><div class="narrow">{chart.svg(*NARROW)}</div>'


def _colours(maps: dict[str, Candidate]) -> dict[str, str]:
    """Give every map a colour: one family of hues for Fourier features, one for landmarks, grey for peers."""
    found: dict[str, str] = {}
    for name, candidate in maps.items():
        family = "p" if candidate.peer else {"fourier": "f", "nystrom": "n"}.get(name.partition(":")[0], "o")
        hues = [colour for colour in THEMES if colour[0] == family and colour[1:].isdigit()]
        found[name] = hues[sum(colour[0] == family for colour in found.values()) % len(hues)]
    return found


class Page:
    """The sections of a report, in the order in which they are read."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison, self.about = comparison, comparison.about
        self.name = str(self.about.get("name", "your data"))
        self.summary, self.verdict = summarise(comparison.frame), conclude(comparison)
        self.maps = self.summary[~self.summary["map"].isin(BASELINES)]
        self.colours = _colours({name: comparison.candidates[name] for name in self.maps["map"].unique()})

    def html(self) -> str:
        """Write the report as a string of HTML."""
        verdict, about = self.verdict, self.about
        notes = [*about["notes"]]
        if about["interrupted"]:
            notes.append("It was interrupted: this is what had been measured by then.")
        sections = [self._header()]
        if verdict is None:
            notes.append("Nothing had been measured when it ended.")
        else:
            sections += [self._verdict(verdict), self._against_columns(), self._against_time()]
            sections += [self._predictions()] if about["task"] else []
            sections += [self._ranking(), self._grams(verdict), self._code(verdict), self._everything()]
        sections[1:1] = [f'<p class="notice">{escape(note)}</p>\n' for note in notes]
        sections.append(self._facts())
        light, dark = ("".join(f"--{name}: {pair[i]}; " for name, pair in THEMES.items()) for i in (0, 1))
        template = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
        title = f"{escape(self.name)}: which approximation suits it?"
        return template.substitute(title=title, light=light, dark=dark, body="".join(sections))

    def _header(self) -> str:
        about, kernel = self.about, self.comparison.kernel
        scale = np.ravel(getattr(kernel, "length_scale", []))
        facts = [
            f"{about['n_samples']:,} rows",
            f"{about['n_features']:,} features",
            f"{type(kernel).__name__} kernel" + (f", length scale {float(scale[0]):.4g}" if scale.size == 1 else ""),
            f"{len(set(self.comparison.frame['map']) - set(BASELINES))} maps",
            f"{about['n_runs']} runs" if about["n_runs"] > 1 else "one run",
        ]
        title = f"Which kernel approximation suits {escape(self.name)}?"
        return f"<header><h1>{title}</h1><p>{escape(' · '.join(facts))}</p></header>\n"

    def _verdict(self, verdict: Verdict) -> str:
        choice = f"{escape(verdict.map)} <span>with {verdict.columns:,} components</span>"
        text = verdict.paragraph
        if verdict.headline:  # it is not said twice
            text = text.removeprefix(f"{verdict.headline}: ")
            text = text[:1].upper() + text[1:]
        return (
            '<div class="verdict"><p class="eyebrow">Verdict</p>'
            f'<p class="choice">{escape(verdict.headline) or choice}</p>'
            f"<p>{escape(text)}</p></div>\n"
        )

    # -- charts

    def _series(self, x: str, y: str, title: Callable[[DataRow], str]) -> list[Series]:
        """Make a curve of every map from columns `x` and `y` of the summary, and the range of `y` over the runs."""
        found = []
        for name, colour in self.colours.items():
            group = self.maps[self.maps["map"] == name].sort_values("columns")
            titles = [f"{name}, {int(row['columns']):,} components: {title(row)}" for _, row in group.iterrows()]
            xs, ys, lows, highs = (group[column].tolist() for column in (x, y, f"{y}_low", f"{y}_high"))
            chosen = self.verdict is not None and name == self.verdict.map
            found.append(Series(name, xs, ys, lows, highs, titles, colour, strong=chosen, dashed=colour[0] == "p"))
        return found

    def _columns_axis(self) -> Axis:
        return Axis("components", lambda value: f"{value:,.0f}", ticks=sorted(set(self.maps["columns"])))

    def columns_chart(self) -> Chart:
        """Draw the error of the kernel matrix against the number of components."""
        curves = self._series("columns", "frobenius", lambda row: show_share(row["frobenius"]))
        title = "Relative Frobenius error of the kernel matrix against components"
        return Chart(title, curves, self._columns_axis(), Axis("relative Frobenius error", _percent))

    def _against_columns(self) -> str:
        shade = "Shaded bands span the runs. " if self.about["n_runs"] > 1 else ""
        return _section(
            "Error and number of components",
            "Distance of ZZᵀ from the exact kernel matrix. Lower is better; both scales are logarithmic.",
            _both(self.columns_chart()),
            f"{shade}Measured on {self.about['n_reference']:,} rows. Dashed lines are scikit-learn's maps.",
        )

    def _against_time(self) -> str:
        best = self.maps[pareto(self.maps["seconds"].to_numpy(), self.maps["frobenius"].to_numpy())]
        read = lambda row: f"{show_share(row['frobenius'])}, {show_seconds(row['seconds'])}"  # noqa: E731
        front, last = [], ""
        for _, row in best.sort_values("seconds").iterrows():  # a map is named once, then its numbers of components
            number = f"{int(row['columns']):,}"
            name = number if row["map"] == last else f"{row['map']} {number}"
            front.append((row["seconds"], row["frobenius"], name, self.colours[row["map"]]))
            last = row["map"]
        chart = Chart(
            "Relative Frobenius error against the seconds of fitting and transforming",
            [
                replace(c, lows=(), highs=(), faint=True, strong=False)
                for c in self._series("seconds", "frobenius", read)
            ],
            Axis("seconds to fit and transform", show_seconds),
            Axis("relative Frobenius error", _percent),
            front=front,
        )
        return _section(
            "What a second buys",
            "Large dots are Pareto-optimal: no other setting is both faster and closer to the exact kernel matrix.",
            _both(chart),
            "Labels give the map and its number of components; a number alone belongs to the map of the same colour. "
            "The line joins the Pareto front. Times are medians over the runs, on the machine below.",
        )

    def _predictions(self) -> str:
        about, base = self.about, self.summary[self.summary["map"].isin(BASELINES)].set_index("map")["error"]
        curves = self._series("columns", "error", lambda row: show_error(row["error"], about))
        curves = [c if c.strong else replace(c, lows=(), highs=()) for c in curves]  # many shades hide each other
        levels = [(name, float(base[name])) for name in (EXACT, LINEAR) if name in base]
        values = [y for curve in curves for y in curve.ys] + [value for _, value in levels]
        log = bool(values) and min(values) > 0 and max(values) > 4 * min(values)
        what = "wrong labels" if about["task"] == "classification" else "root mean squared error"
        y = Axis(what, lambda value: show_error(value, about), log=log)
        constant = f" A constant prediction scores {show_error(base[CONSTANT], about)}." if CONSTANT in base else ""
        return _section(
            "Predictions",
            f"Ridge regression on the features, tested on {about['n_test']:,} other rows: {what}.{constant}",
            _both(Chart("Test error against components", curves, self._columns_axis(), y, levels)),
            "The shaded band spans the runs of the recommended map." if about["n_runs"] > 1 else "",
        )

    # -- tables

    def _table(self, rows: DataFrame, name: str, *, coloured: bool = False) -> str:
        """Write rows of the summary as a sortable table, the recommended one marked; screen readers say `name`."""
        cells = headings(self.about)
        top = "".join(f'<th scope="col"><button type="button">{head}</button></th>' for head in ("map", *cells))
        body = ""
        for (_, row), chosen in zip(rows.iterrows(), is_recommended(rows, self.verdict), strict=True):
            title = str(row["map"])
            css = "baseline" if title in BASELINES else "chosen" if chosen else ""
            body += f'<tr class="{css}"><td data-value="{escape(title, quote=True)}">'
            if coloured and title in self.colours:
                body += f'<span class="key" style="background: var(--{self.colours[title]})"></span>'
            body += escape(title) + (' <span class="mark">recommended</span>' if chosen else "") + "</td>"
            for column, show in cells.values():
                value = float(row[column])
                body += f'<td data-value="{"" if math.isnan(value) else repr(value)}">{escape(show(value))}</td>'
            body += "</tr>"
        top, body = f"<thead><tr>{top}</tr></thead>", f"<tbody>{body}</tbody>"
        cue = '<p class="cue" aria-hidden="true">The table goes on to the right →</p>'
        region = f'<div class="scroll" role="region" aria-label="{escape(name, quote=True)}" tabindex="0">'
        return f'{cue}{region}<table class="sortable">{top}{body}</table></div>'

    def _ranking(self) -> str:
        rows = ranked(self.summary, self.about, self.verdict)
        return _section(
            "Ranking",
            "Each map at its largest number of components, best first, and the recommended setting. Click a heading to "
            "sort.",
            self._table(rows, "Ranking", coloured=True),
            "Errors are means and times are medians over the runs. Size is the size of the fitted map.",
        )

    def _everything(self) -> str:
        table = self._table(self.summary, "Everything measured")
        return _section("Everything measured", "Each map at each number of components.", table)

    # -- the matrix, the code, the machine

    def _grams(self, verdict: Verdict) -> str:
        try:
            exact, approximation = self.comparison.picture(verdict.map, verdict.columns)
        except ValueError:  # a transformer of the user's that needs more than these rows
            return ""
        low, high = float(exact.min()), float(exact.max())
        low = min(0.0, low) if high > 0 else low
        difference = approximation.astype(np.float64) - exact
        largest = float(np.abs(difference).max())
        most = float(np.quantile(np.abs(difference), 0.995)) or largest or 1e-300  # one odd row would hide all others
        panels = [
            ("Exact", exact, low, high, f"{low:.3g}", f"{high:.3g}"),
            (f"{verdict.map}, {verdict.columns:,} components", approximation, low, high, f"{low:.3g}", f"{high:.3g}"),
            ("Difference", difference, -most, most, f"−{most:.2g}", f"+{most:.2g}"),
        ]
        body = ""
        for title, values, bottom, top, left, right in panels:
            image = matrix_image(values, bottom, top, diverging=values is difference)
            body += (
                f'<div><h3>{escape(title)}</h3><img alt="{escape(title, quote=True)} kernel matrix" src="{image}">'
                f'<div class="ramp" style="background: {gradient(diverging=values is difference)}"></div>'
                f'<div class="ends"><span>{left}</span><span>{right}</span></div></div>'
            )
        return _section(
            "The matrix itself",
            f"The kernel between {len(exact)} of the rows, ordered so that similar rows are next to each other.",
            f'<div class="grams">{body}</div>',
            f"The difference has its own scale; the largest difference is {largest:.2g}.",
        )

    def _code(self, verdict: Verdict) -> str:
        return (
            "<section><h2>Use it</h2><p>The recommended map as it was measured, with its numbers.</p>"
            '<div class="code"><button type="button" class="copy">Copy</button>'
            f"<pre><code>{escape(verdict.code)}</code></pre></div></section>\n"
        )

    def _facts(self) -> str:
        about, machine = self.about, self.about["machine"]
        test = f", {about['n_test']:,} more for testing" if about["n_test"] else ""
        classes = f", {about['n_classes']} classes" if about["n_classes"] else ""
        memory = "" if machine["memory"] is None else f", {show_bytes(machine['memory'])}"
        level = f" ({machine['native_level']})" if machine["native_level"] else ""
        scaled = "standardised columns" if about.get("standardized") else "columns as they are"
        rows = {
            "Data": f"{about['n_samples']:,} × {about['n_features']:,}, {scaled}, {about['dtype']}",
            "Measured on": f"{about['n_reference']:,} rows drawn at random{test}",
            "Kernel": repr(self.comparison.kernel),
            "Task": f"{about['task']}{classes}" if about["task"] else "none given: kernel errors only",
            "Runs": f"{about['n_runs']}, seeds from {about['seed']}; {show_seconds(about['seconds'])} in all",
            **({"Command": about["command"]} if "command" in about else {}),
            "Processor": f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads{memory}",
            "Code": f"{machine['backend']}{level}; BLAS: {'; '.join(machine['blas']) or 'unknown'}",
            "Versions": ", ".join(f"{package} {number}" for package, number in machine["versions"].items()),
        }
        items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in rows.items())
        date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return (
            f"<section><h2>What was run, and where</h2><p></p><dl>{items}</dl></section>\n"
            f"<footer>Written by bochner on {date}. Times depend on the machine; errors depend on the seed "
            "only.</footer>\n"
        )
