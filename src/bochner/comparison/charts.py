"""Figures in one look, by matplotlib: as files, and inside a page that has a light and a dark theme.

`save_figure` writes whatever a function draws. A `Chart` is curves in one frame; its `svg` names its colours instead of
stating them, so that it follows the theme of the page around it.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
from scipy.optimize import isotonic_regression

try:
    from cycler import cycler
    from matplotlib import rc, rc_context
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as MatplotlibAxis
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.image import imsave
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator
    from matplotlib.transforms import Bbox
except ImportError as error:
    raise ImportError("figures need matplotlib: pip install 'bochner[plot]'.") from error

from bochner.backends import Array
from bochner.outputs import replacing

# Name of a colour: in a light and in a dark page. Maps have families: f for Fourier features, n for Nyström, o for
# others, p for scikit-learn's.
THEMES = {
    "paper": ("#fcfcfb", "#14181b"),
    "panel": ("#f3f4f2", "#1d2327"),
    "ink": ("#22303c", "#e8eaea"),
    "soft": ("#59626b", "#a3adb5"),
    "line": ("#dfe2e0", "#333b41"),
    "grid": ("#e8eae8", "#262d32"),
    "f0": ("#7d93b8", "#93a9cc"),
    "f1": ("#2a8c9e", "#4fbccb"),
    "f2": ("#1f4e9c", "#8fb8f5"),
    "f3": ("#6a5acd", "#ada0f8"),
    "f4": ("#4a86cf", "#68a0ee"),
    "f5": ("#27768a", "#5fb3c6"),
    "f6": ("#8779d6", "#b9aef8"),
    "f7": ("#3d6aa8", "#86aee0"),
    "n0": ("#b4490f", "#ff9d66"),
    "n1": ("#cb7a1f", "#f0bd6b"),
    "n2": ("#9c6b3f", "#cfa27a"),
    "n3": ("#8f3f3f", "#e08a8a"),
    "o0": ("#2f7d4f", "#7fcf99"),
    "o1": ("#7d8a1f", "#c3cf6c"),
    "o2": ("#a0487a", "#e093ba"),
    "o3": ("#6d5b4b", "#b9a898"),
    "p0": ("#6d7680", "#98a2ab"),
    "p1": ("#8f979f", "#77818a"),
    "p2": ("#505962", "#b4bcc3"),
}
LIGHT = {name: light for name, (light, _) in THEMES.items()}
INK, FAINT = LIGHT["ink"], "#8a98a5"
CYCLE = ("#1f6fb2", "#d1582c", "#3a8f5c", "#8a5bb0", "#b08a1f", "#4a5560")
WIDE, NARROW = (900, 440), (356, 380)  # points of a chart on a screen and on a phone
_NAME_GAP = 15.0  # smallest distance between two names, in points

Draw = Callable[[Figure], None]  # takes an empty figure


@contextmanager
def _drawn(draw: Draw, size: tuple[float, float]) -> Iterator[Figure]:
    """Draw a figure, `size` inches large; save it inside the context, where the style applies."""
    with rc_context():
        rc("axes", edgecolor=FAINT, labelcolor=INK, titlecolor=INK, titlesize=10, titleweight="bold")
        rc("axes", axisbelow=True, grid=True, prop_cycle=cycler(color=CYCLE))
        rc("axes.spines", right=False, top=False)
        rc("grid", color="#e6eaee", linewidth=0.6)
        rc("legend", frameon=False, fontsize=8)
        rc("xtick", color=FAINT, labelcolor=INK)
        rc("ytick", color=FAINT, labelcolor=INK)
        rc("font", size=9)
        rc("lines", linewidth=1.6)
        rc("svg", fonttype="none", hashsalt="bochner")  # the same figure is the same file
        rc("text", color=INK)
        figure = Figure(figsize=size, dpi=72, layout="constrained")
        draw(figure)
        yield figure


def save_figure(draw: Draw, size: tuple[float, float], *paths: Path) -> None:
    """Write what `draw(figure)` draws, `size` inches large, to every path: SVG if its name ends so, else PNG."""
    with _drawn(draw, size) as figure:
        for axes in figure.findobj(Axes):
            if axes.get_xscale() == "log":  # "2 × 10³" beside "3 × 10³" would overlap
                axes.xaxis.set_minor_formatter(NullFormatter())
        for path in paths:  # no date and no version, so that the same figure is the same bytes
            kind, stamp = ("svg", "Date") if path.suffix == ".svg" else ("png", "Software")
            with replacing(path) as file:
                figure.savefig(file, format=kind, dpi=130, metadata={stamp: None})


@dataclass(frozen=True)
class Series:
    """A curve: its name and points, the range at each (or none), what a pointer reads there, a colour of THEMES."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    titles: Sequence[str]
    colour: str
    strong: bool = False
    faint: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """A label, how numbers are written, whether the scale is logarithmic, and which numbers to mark, if not round."""

    label: str
    show: Callable[[float], str]
    log: bool = True
    ticks: Sequence[float] = ()

    def mark(self, axis: MatplotlibAxis, most: int) -> None:
        """Mark numbers on an axis of matplotlib, as far as there is room for them."""
        low, high = axis.get_view_interval()
        digits = (1, 2, 5) if high < 50 * low else (1, 3) if high < 500 * low else (1,)
        locators = [LogLocator(subs=digits), MaxNLocator(5)] if self.log else [MaxNLocator(5)]
        choices = [[v for v in locator.tick_values(low, high) if low <= v <= high] for locator in locators]
        ticks = self.ticks or next((ticks for ticks in choices if len(ticks) > 1), choices[-1])
        ticks = ticks[:: math.ceil(len(ticks) / most) or 1]
        axis.set_minor_locator(NullLocator())
        axis.set_ticks(ticks, [self.show(value) for value in ticks])


@dataclass(frozen=True)
class Chart:
    """Curves in one frame, with their names at their ends, or with names for the points of a front."""

    name: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    levels: Sequence[tuple[str, float]] = ()  # named horizontal lines
    front: Sequence[tuple[float, float, str, str]] = ()  # x, y, name, colour: what nothing beats, joined by a staircase

    def svg(self, width: int, height: int) -> str:
        """Return the chart as an SVG element, whose colours are variables of the page; sizes are in pixels."""
        buffer = StringIO()
        with _drawn(self.draw, (width / 72, height / 72)) as figure:
            rc("svg", hashsalt=f"{self.name}, {width}")  # of two charts in a page one may be hidden, with its parts
            rc("font", **{"family": "sans-serif", "sans-serif": ["DejaVu Sans"]})
            figure.savefig(buffer, format="svg", transparent=True)
        root = ElementTree.fromstring(buffer.getvalue())
        for element in root.iter():  # a page needs no namespaces
            element.tag = element.tag.rpartition("}")[2]
            for key in list(element.attrib):
                element.set(key.rpartition("}")[2], _themed(element.attrib.pop(key)))
        for child in [*root.findall("metadata"), *root.findall("defs[style]")]:
            root.remove(child)
        for i, series in enumerate(self.series):
            for point, title in zip(root.findall(f".//g[@id='series{i}']//use"), series.titles, strict=False):
                ElementTree.SubElement(point, "title").text = title
        for group in root.iter("g"):
            group.attrib.pop("id", None)
        root.attrib.update({"class": "chart", "role": "img", "aria-label": self.name})
        return re.sub(r"\s*\n\s*", " ", ElementTree.tostring(root, encoding="unicode"))

    def draw(self, figure: Figure) -> None:
        """Draw the chart on an empty figure."""
        soft, line = LIGHT["soft"], LIGHT["line"]
        rc("font", size=12)
        rc("axes", edgecolor=line, labelcolor=soft, titlecolor=soft, titlesize=12, titleweight="normal")
        rc("lines", markeredgecolor=LIGHT["paper"])
        rc("text", parse_math=False)
        axes = figure.subplots()
        axes.set(xscale="log" if self.x.log else "linear", yscale="log" if self.y.log else "linear")
        axes.set_title(self.y.label, loc="left")
        axes.set_xlabel(self.x.label)
        axes.spines.left.set_visible(False)
        axes.grid(axis="x", visible=False)
        axes.grid(color=LIGHT["grid"], axis="y")
        heights = [y for series in self.series for y in series.ys] + [value for _, value in self.levels]
        least = min((y for y in heights if y > 0), default=1.0) if self.y.log else -math.inf
        for i, series in enumerate(self.series):
            _curve(axes, series, f"series{i}", least)
        for _, value in self.levels:
            axes.axhline(value, color=soft, linewidth=1.0, linestyle=(0, (2, 4)), zorder=1)
        self.y.mark(axes.yaxis, 8)
        self.x.mark(axes.xaxis, 6 if figure.get_figwidth() > 6 else 5)
        axes.tick_params(color=line, labelcolor=soft)
        axes.tick_params("y", length=0)
        front = [(x, max(y, least), name, colour) for x, y, name, colour in self.front]
        _staircase(figure, axes, front) if front else self._names(axes, least, *(72 * figure.get_size_inches()))

    def _names(self, axes: Axes, least: float, width: float, height: float) -> None:
        """Write each curve's name at its end, moved apart where names would overlap."""
        ends = [(s.xs[-1], s.ys[-1], s.name, s.colour, "bold" if s.strong else "normal") for s in self.series if s.ys]
        ends += [(axes.get_xlim()[1], value, name, "soft", "normal") for name, value in self.levels]
        share = axes.transScale + axes.transLimits  # of the frame
        places = [(*share.transform((x, max(y, least))), *rest) for x, y, *rest in ends]
        places.sort(key=lambda place: place[1])
        room, letters = height - 70.0, int(width / 17)  # points of the frame itself, and how long a name may be
        heights = spread([room * float(place[1]) for place in places], _NAME_GAP, 0.0, room)
        for (x, y, name, colour, weight), moved in zip(places, heights, strict=True):
            leader = {"arrowstyle": "-", "color": LIGHT[colour], "alpha": 0.55, "relpos": (0, 0.5), "shrinkB": 5}
            where: dict[str, Any] = {
                "xytext": (1.02, moved / room),
                "xycoords": "axes fraction",
                "annotation_clip": False,
            }
            name = name if len(name) <= letters else f"{name[: letters - 1]}…"
            axes.annotate(name, (x, y), **where, arrowprops=leader, verticalalignment="center", weight=weight)


def _themed(text: str) -> str:
    """Rewrite an attribute of SVG with the fonts and colours of the page, and places to a hundredth of a pixel."""
    names = {colour: name for name, colour in LIGHT.items()}
    text = re.sub("|".join(names), lambda found: f"var(--{names[found[0]]})", text)
    text = re.sub(r"'DejaVu Sans'[^;]*", "var(--font)", text)
    return re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", text)


def _curve(axes: Axes, s: Series, gid: str, least: float) -> None:
    colour, ys = LIGHT[s.colour], [max(y, least) for y in s.ys]  # a logarithmic scale has no place for zero
    if len(s.lows) and len(s.xs) > 1:
        axes.fill_between(s.xs, s.lows, s.highs, color=colour, alpha=0.13, linewidth=0, zorder=1)
    width, size, order = (2.6, 8.4, 3) if s.strong else (1.6, 5.0, 1) if s.faint else (1.6, 6.4, 2)
    line = "none" if s.faint else (0, (4, 2.5)) if s.dashed else "-"  # faint: dots alone
    look: dict[str, Any] = {"color": colour, "linestyle": line, "linewidth": width, "markersize": size, "zorder": order}
    axes.plot(s.xs, ys, "o", alpha=0.4 if s.faint else None, gid=gid, **look)


def _staircase(figure: Figure, axes: Axes, front: Sequence[tuple[float, float, str, str]]) -> None:
    """Join the points of the front and name those for which there is room."""
    xs, ys, names, colours = zip(*sorted(front), strict=True)
    axes.autoscale(False)
    stairs = [*xs, axes.get_xlim()[1]], [*ys, ys[-1]]
    axes.step(*stairs, where="post", color=INK, linewidth=1.4, alpha=0.6)
    for x, y, colour in zip(xs, ys, colours, strict=True):
        axes.plot([x], [y], "o", markersize=10, color=LIGHT[colour], zorder=3)
    figure.draw_without_rendering()  # now places are known
    frame = axes.get_window_extent()
    places = axes.transData.transform(list(zip(xs, ys, strict=True)))
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in places]
    for x, y, name in zip(xs, ys, names, strict=True):
        for dx, dy, side in ((-9, -16, "right"), (9, 8, "left"), (9, -16, "left"), (-9, 8, "right")):
            text = axes.annotate(name, (x, y), (dx, dy), textcoords="offset points", horizontalalignment=side)
            text.set_in_layout(False)
            room = text.get_window_extent()
            inside = frame.x0 <= room.x0 < room.x1 <= frame.x1 and frame.y0 <= room.y0 < room.y1 <= frame.y1
            if inside and not any(room.overlaps(other) for other in taken):
                taken.append(room)
                break
            text.remove()


def spread(places: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Sorted places moved as little as it takes to be `gap` apart and between `low` and `high`."""
    if not len(places):
        return []
    steps = gap * np.arange(len(places))
    moved = isotonic_regression(np.asarray(places, dtype=float) - steps).x + steps
    return np.maximum(np.minimum(moved, high - steps[::-1]), low + steps).tolist()


# -- pictures of matrices ------------------------------------------------------------------------------------------

_SEQUENTIAL = ("#f4f6f9", "#cfdcec", "#93b4d8", "#4f83b9", "#215a94", "#0d2f5c")
_DIVERGING = ("#9c3a16", "#d9793f", "#f2c9a6", "#f5f5f3", "#b3cfe6", "#4f8fc4", "#1a4f86")


def matrix_image(values: Array, low: float, high: float, *, diverging: bool = False) -> str:
    """Return a matrix as a PNG in a data: address, one pixel an entry."""
    colours = LinearSegmentedColormap.from_list("matrix", _DIVERGING if diverging else _SEQUENTIAL)
    buffer = BytesIO()
    imsave(buffer, values, vmin=low, vmax=high, cmap=colours, format="png")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def gradient(*, diverging: bool = False) -> str:
    """Return the colours of `matrix_image` as a CSS gradient from left to right."""
    return f"linear-gradient(to right, {', '.join(_DIVERGING if diverging else _SEQUENTIAL)})"
