"""A progress line on a terminal; silence everywhere else."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Progress:
    """Rows done, rows a second and the time left, redrawn at most ten times a second.

    Parameters
    ----------
    total : int or None
        Rows to come; None when unknown.
    label : str
    enabled : bool
        Even then nothing is written unless the stream is a terminal.
    """

    def __init__(self, total: int | None, label: str, enabled: bool, stream: TextIO | None = None) -> None:
        self.total = total
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.enabled = enabled and self.stream.isatty()
        self.done = self.first = 0
        self.started = self.drawn = time.monotonic()

    def skip(self, rows: int) -> None:
        """Rows that were done before the clock started."""
        self.done = self.first = rows

    def advance(self, rows: int) -> None:
        """Count rows, and redraw when it is time."""
        self.done += rows
        now = time.monotonic()
        if self.enabled and now - self.drawn >= 0.1:
            self.drawn = now
            self.stream.write("\r" + self.line(now - self.started) + "\x1b[K")
            self.stream.flush()

    def reach(self, row: int) -> None:
        """Count up to this row."""
        self.advance(row - self.done)

    def line(self, seconds: float) -> str:
        """The text: label, bar, rows, rows a second, time left."""
        rate = (self.done - self.first) / max(seconds, 1e-9)
        if self.total is None:
            return f"{self.label} {self.done:,} rows, {rate:,.0f} rows/s"
        share = min(1.0, self.done / max(1, self.total))
        bar = "█" * int(24 * share) + "·" * (24 - int(24 * share))
        minutes, left = divmod(int((self.total - self.done) / rate) if rate else 0, 60)
        return f"{self.label} {bar} {100 * share:3.0f} %  {rate:,.0f} rows/s  {minutes}:{left:02d} left"

    def close(self) -> None:
        """Leave the last line standing."""
        if self.enabled:
            self.stream.write("\r" + self.line(time.monotonic() - self.started) + "\x1b[K\n")
            self.stream.flush()
