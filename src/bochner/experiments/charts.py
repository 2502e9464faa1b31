"""Charts as SVG that takes its colours from the page around it, so that they suit light and dark."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from bochner.backends import Array


@dataclass(frozen=True)
class Series:
    """A curve: its name, points, range at each point, and the class that colours it."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float]
    css: str
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()
    titles: Sequence[str] = ()
    strong: bool = False


@dataclass(frozen=True)
class Axis:
    """A label, how numbers are written, and whether the scale is logarithmic."""

    label: str
    show: Callable[[float], str]
    log: bool = True
    ticks: Sequence[float] = ()


@dataclass(frozen=True)
class Chart:
    """Curves in one frame, drawn at any width."""

    name: str
    series: Sequence[Series]
    x: Axis
    y: Axis
    levels: Sequence[tuple[str, float]] = ()  # named horizontal lines
    front: Sequence[tuple[float, float]] = ()  # a staircase of points that nothing beats
    marks: Sequence[tuple[float, float, str]] = field(default=())  # points with a name beside them

    def svg(self, width: int, height: int) -> str:
        """The chart as an SVG element of so many pixels, with the class "chart"."""
        labels = [s.name for s in self.series] + [name for name, _ in self.levels]
        right = 14 if self.marks else 10 + 6.4 * max(map(len, labels), default=0) + 14
        values = [y for s in self.series for y in (*s.ys, *s.lows, *s.highs)] + [value for _, value in self.levels]
        to_y = _scale(values, height - 40.0, 26.0, self.y.log, 0.05)
        left = 14.0 + 6.6 * max((len(self.y.show(value)) for value in to_y.ticks()), default=4)
        box = (left, 26.0, width - right, height - 40.0)  # left, top, right, bottom
        to_x = _scale([x for s in self.series for x in s.xs], box[0], box[2], self.x.log, 0.02)
        parts = [
            f'<svg class="chart" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="{escape(self.name, quote=True)}">'
        ]
        parts += self._grid(box, to_x, to_y)
        parts += [f'<path class="level" d="M{box[0]:.1f} {to_y(value):.1f}H{box[2]:.1f}"/>' for _, value in self.levels]
        for s in sorted(self.series, key=lambda s: s.strong):
            parts += _curve(s, to_x, to_y)
        if self.front:
            parts.append(_staircase(self.front, to_x, to_y, box[2]))
        for s in self.series:
            parts += _points(s, to_x, to_y)
        if self.marks:
            parts += _marks(self.marks, to_x, to_y, box)
        else:
            parts += self._labels(box, to_x, to_y)
        return "".join([*parts, "</svg>"])

    def _grid(self, box: tuple[float, ...], to_x: _Scale, to_y: _Scale) -> list[str]:
        left, _, right, bottom = box
        parts = []
        for value in to_y.ticks():
            y = to_y(value)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right:.1f}"/>')
            parts.append(f'<text class="tick" x="{left - 8:.1f}" y="{y + 4:.1f}" text-anchor="end">')
            parts.append(f"{escape(self.y.show(value))}</text>")
        last = -math.inf
        for value in self.x.ticks or to_x.ticks():
            x, text = to_x(value), self.x.show(value)
            if x - last < 8 + 6.5 * len(text):
                continue
            last = x
            parts.append(f'<path class="grid" d="M{x:.1f} {bottom:.1f}v4"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 18:.1f}" text-anchor="middle">{text}</text>')
        parts.append(f'<path class="axis" d="M{left:.1f} {bottom:.1f}H{right:.1f}"/>')
        parts.append(f'<text class="label" x="0" y="12">{escape(self.y.label)}</text>')
        place = f'x="{(left + right) / 2:.1f}" y="{bottom + 36:.1f}"'
        parts.append(f'<text class="label" {place} text-anchor="middle">{escape(self.x.label)}</text>')
        return parts

    def _labels(self, box: tuple[float, ...], to_x: _Scale, to_y: _Scale) -> list[str]:
        ends = [(to_y(s.ys[-1]), to_x(s.xs[-1]), s.name, s.css, s.strong) for s in self.series if len(s.ys)]
        ends += [(to_y(value), box[2], name, "level", False) for name, value in self.levels]
        ends.sort()
        places = spread([end[0] for end in ends], 15.0, 8.0, box[3] - 4.0)
        parts = []
        for (y, x, name, css, strong), place in zip(ends, places, strict=True):
            start = box[2] + 12
            parts.append(f'<path class="leader {css}" d="M{x + 5:.1f} {y:.1f}L{start - 2:.1f} {place:.1f}"/>')
            weight = " strong" if strong else ""
            parts.append(f'<text class="name{weight}" x="{start:.1f}" y="{place + 4:.1f}">{escape(name)}</text>')
        return parts


class _Scale:
    """Numbers to pixels."""

    def __init__(self, low: float, high: float, start: float, stop: float, log: bool) -> None:
        self.low, self.high, self.start, self.stop, self.log = low, high, start, stop, log

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self.low) / (self.high - self.low)
        return self.start + min(1.05, max(-0.05, share)) * (self.stop - self.start)

    def _of(self, value: float) -> float:
        return math.log10(max(value, 1e-300)) if self.log else value

    def ticks(self) -> list[float]:
        """Round numbers inside, at most about six."""
        if not self.log:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) / 2.0))
            step = next(step * k for k in (0.5, 1, 2, 2.5, 5, 10) if (self.high - self.low) / (step * k) <= 6)
            first = math.ceil(self.low / step - 1e-9)
            return [round(i * step, 12) for i in range(first, math.floor(self.high / step + 1e-9) + 1)]
        decades = self.high - self.low
        stride = max(1, math.ceil(decades / 6))
        digits = (1, 2, 5) if decades <= 1.7 else (1, 3) if decades <= 2.7 else (1,)
        powers = range(math.floor(self.low), math.ceil(self.high) + 1)
        found = [d * 10.0**p for p in powers if p % stride == 0 for d in digits]
        return [value for value in found if self.low - 1e-9 <= math.log10(value) <= self.high + 1e-9]


def _scale(values: Sequence[float], start: float, stop: float, log: bool, margin: float) -> _Scale:
    finite = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if log:
        finite = [math.log10(v) for v in finite]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    room = margin * (high - low)
    return _Scale(low - room, high + room, start, stop, log)


def spread(places: Sequence[float], gap: float, low: float = -math.inf, high: float = math.inf) -> list[float]:
    """Sorted places moved as little as it takes to be `gap` apart and between `low` and `high`."""
    groups: list[list[float]] = []  # [mean of place - i * gap, number]: isotonic regression
    for i, place in enumerate(places):
        groups.append([place - i * gap, 1.0])
        while len(groups) > 1 and groups[-2][0] > groups[-1][0]:
            value, size = groups.pop()
            total = groups[-1][1] + size
            groups[-1] = [(groups[-1][0] * groups[-1][1] + value * size) / total, total]
    found = [value for value, size in groups for _ in range(round(size))]
    found = [value + i * gap for i, value in enumerate(found)]
    n = len(found)
    found = [min(value, high - (n - 1 - i) * gap) for i, value in enumerate(found)]
    return [max(value, low + i * gap) for i, value in enumerate(found)]


def _line(xs: Sequence[float], ys: Sequence[float], to_x: _Scale, to_y: _Scale) -> str:
    return "L".join(f"{to_x(x):.1f} {to_y(y):.1f}" for x, y in zip(xs, ys, strict=True))


def _curve(s: Series, to_x: _Scale, to_y: _Scale) -> list[str]:
    strong = " strong" if s.strong else ""
    parts = []
    if len(s.lows) and len(s.xs) > 1:
        there, back = _line(s.xs, s.highs, to_x, to_y), _line(s.xs[::-1], s.lows[::-1], to_x, to_y)
        parts.append(f'<path class="band {s.css}" d="M{there}L{back}Z"/>')
    if len(s.xs) > 1:
        parts.append(f'<path class="curve {s.css}{strong}" d="M{_line(s.xs, s.ys, to_x, to_y)}"/>')
    return parts


def _points(s: Series, to_x: _Scale, to_y: _Scale) -> list[str]:
    titles = s.titles or [s.name] * len(s.xs)
    radius = 4.2 if s.strong else 3.2
    return [
        f'<circle class="point {s.css}" cx="{to_x(x):.1f}" cy="{to_y(y):.1f}" r="{radius}">'
        f"<title>{escape(t)}</title></circle>"
        for x, y, t in zip(s.xs, s.ys, titles, strict=True)
    ]


def _staircase(front: Sequence[tuple[float, float]], to_x: _Scale, to_y: _Scale, right: float) -> str:
    points = sorted(front)
    path = f"M{to_x(points[0][0]):.1f} {to_y(points[0][1]):.1f}"
    for x, y in points[1:]:
        path += f"H{to_x(x):.1f}V{to_y(y):.1f}"
    return f'<path class="front" d="{path}H{right:.1f}"/>'


def _marks(marks: Sequence[tuple[float, float, str]], to_x: _Scale, to_y: _Scale, box: tuple[float, ...]) -> list[str]:
    """Rings around points, and a name beside each for which there is room."""
    parts, taken = [], [(to_x(x) - 5, to_y(y) - 5, to_x(x) + 5, to_y(y) + 5) for x, y, _ in marks]
    for x, y, name in marks:
        px, py = to_x(x), to_y(y)
        parts.append(f'<circle class="ring" cx="{px:.1f}" cy="{py:.1f}" r="6.5"/>')
        wide = 6.3 * len(name)
        for dx, dy, anchor in ((-9, 16, "end"), (9, -8, "start"), (9, 16, "start"), (-9, -8, "end")):
            left = px + dx - (wide if anchor == "end" else 0.0)
            room = (left, py + dy - 10, left + wide, py + dy + 3)
            inside = room[0] >= box[0] - 2 and room[2] <= box[2] + 10 and room[1] >= box[1] - 6 and room[3] <= box[3]
            if inside and not any(_overlap(room, other) for other in taken):
                taken.append(room)
                place = f'x="{px + dx:.1f}" y="{py + dy:.1f}" text-anchor="{anchor}"'
                parts.append(f'<text class="name halo" {place}>{escape(name)}</text>')
                break
    return parts


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


# -- pictures of matrices ------------------------------------------------------------------------------------------

_SEQUENTIAL = ("#f4f6f9", "#cfdcec", "#93b4d8", "#4f83b9", "#215a94", "#0d2f5c")
_DIVERGING = ("#9c3a16", "#d9793f", "#f2c9a6", "#f5f5f3", "#b3cfe6", "#4f8fc4", "#1a4f86")


def matrix_image(values: Array, low: float, high: float, *, diverging: bool = False) -> str:
    """A matrix as a PNG in a data: address, one pixel an entry."""
    colours = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (_DIVERGING if diverging else _SEQUENTIAL)])
    share = np.clip((values.astype(np.float64) - low) / max(high - low, 1e-300), 0.0, 1.0) * (len(colours) - 1)
    floor = np.minimum(share.astype(int), len(colours) - 2)
    rest = (share - floor)[..., None]
    pixels = np.rint(colours[floor] * (1.0 - rest) + colours[floor + 1] * rest).astype(np.uint8)
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    height, width = values.shape
    png = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    png += _chunk(b"IDAT", zlib.compress(rows, 9)) + _chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def gradient(*, diverging: bool = False) -> str:
    """The colours of `matrix_image` as a CSS gradient from left to right."""
    return f"linear-gradient(to right, {', '.join(_DIVERGING if diverging else _SEQUENTIAL)})"
