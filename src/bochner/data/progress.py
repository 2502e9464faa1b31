"""Progress lines and interruptions of a pass.

Progress is shown on a terminal and nowhere else. Signals are delayed while sums change, so that an interrupted pass
leaves consistent sums behind.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import TextIO


@dataclass(frozen=True)
class Stopwatch:
    """Seconds since a start, by default its construction."""

    started: float = field(default_factory=lambda: time.perf_counter())

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self.started


class Progress:
    """A line with rows done, rows per second and the time left, redrawn at most ten times per second.

    Parameters
    ----------
    total : int or None
        Number of rows of the pass; None if unknown.
    label : str
    enabled : bool
        Whether to write anything; nothing is written if the stream is not a terminal.
    first : int
        Number of rows that were done before, and do not count for the rate.
    """

    def __init__(
        self, total: int | None, label: str, enabled: bool, stream: TextIO | None = None, *, first: int = 0
    ) -> None:
        self.total = total
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.enabled = enabled and self.stream.isatty()
        self.done = self.first = first
        self.started = self.drawn = time.monotonic()

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
        """Return the text: label, bar, share of the rows, rows per second, time left."""
        rate = (self.done - self.first) / max(seconds, 1e-9)
        if self.total is None:
            return f"{self.label} {self.done:,} rows, {rate:,.0f} rows/s"
        share = min(1.0, self.done / max(1, self.total))
        bar = "█" * int(24 * share) + "·" * (24 - int(24 * share))
        minutes, left = divmod(int((self.total - self.done) / rate) if rate else 0, 60)
        return f"{self.label} {bar} {100 * share:3.0f} %  {rate:,.0f} rows/s  {minutes}:{left:02d} left"

    def close(self) -> None:
        """Draw the line a last time and end it."""
        if self.enabled:
            self.stream.write("\r" + self.line(time.monotonic() - self.started) + "\x1b[K\n")
            self.stream.flush()


def show(text: str, enabled: bool) -> None:
    """Replace the last line of a terminal by a text such as "length scale: 3 tried"; "" clears it."""
    if enabled and sys.stderr.isatty():
        sys.stderr.write(f"\r{text}\x1b[K")
        sys.stderr.flush()


@contextmanager
def saying(kept: Callable[[], str]) -> Iterator[None]:
    """Give the KeyboardInterrupt of Ctrl-C a message about what was kept, unless it has one."""
    try:
        yield
    except KeyboardInterrupt as interruption:
        if interruption.args:
            raise
        raise KeyboardInterrupt(kept()) from None


class Interruptions:
    """Delays the handlers of signals within `held` until its end.

    Python may call a handler between any two instructions. Its exception (KeyboardInterrupt for Ctrl-C, or whatever the
    program's own handlers of SIGTERM, SIGALRM, … raise) could come when a block has been added to one sum but not yet
    to the next. Only the main thread receives signals; in other threads this class does nothing.

    Examples
    --------
    >>> import os, signal
    >>> from bochner.data.progress import Interruptions
    >>> done = []
    >>> try:
    ...     with Interruptions() as interruptions, interruptions.held():
    ...         os.kill(os.getpid(), signal.SIGINT)
    ...         done.append("the whole block")
    ... except KeyboardInterrupt:
    ...     print(done)
    ['the whole block']
    """

    def __init__(self) -> None:
        self._before: dict[int, Callable[[int, FrameType | None], object]] = {}
        self._busy = False
        self._waiting: list[int] = []

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                before = signal.getsignal(number)
                if callable(before):  # not the default action, not ignored, and a Python handler
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:  # otherwise a handler has installed another one
                signal.signal(number, before)
        self._deliver()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._busy:
            self._before[number](number, frame)
        elif number not in self._waiting:  # a signal that comes twice before it is handled counts once
            self._waiting.append(number)

    def _deliver(self) -> None:
        while self._waiting:
            number = self._waiting.pop(0)
            self._before[number](number, None)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run the body to its end, then call the handlers of the signals that came meanwhile."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self._deliver()
