"""What the user sees of a pass, and how it is stopped.

A progress line on a terminal, silence everywhere else; and signals that wait while sums change, so that what an
interrupted pass leaves behind is whole.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO


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


def show(text: str, enabled: bool, stream: TextIO | None = None) -> None:
    """Write what is being done over the last line of a terminal, such as "length scale: 3 tried"; "" clears it."""
    stream = sys.stderr if stream is None else stream
    if enabled and stream.isatty():
        stream.write(f"\r{text}\x1b[K")
        stream.flush()


@contextmanager
def saying(kept: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C's KeyboardInterrupt say what it leaves behind, unless it does.

    Examples
    --------
    >>> from bochner.streaming.progress import saying
    >>> try:
    ...     with saying(lambda: "nothing was kept"):
    ...         raise KeyboardInterrupt
    ... except KeyboardInterrupt as interruption:
    ...     print(interruption)
    nothing was kept
    """
    try:
        yield
    except KeyboardInterrupt as interruption:
        if interruption.args:
            raise
        raise KeyboardInterrupt(kept()) from None


class Interruptions:
    """Signals as usual, except within `held`: there their handlers are called at the end.

    Python calls handlers between any two instructions, so that an exception of one (KeyboardInterrupt of Ctrl-C's, or
    what the program's own handlers of SIGTERM, SIGALRM, … raise) may come when a block has been added to one sum and
    not yet to the next. Threads other than the main one get no signals, and nothing is done.

    Examples
    --------
    >>> import os, signal
    >>> from bochner.streaming.progress import Interruptions
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
        self._before: dict[int, Any] = {}
        self._busy = False
        self._waiting: list[int] = []

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            for number in signal.valid_signals():
                before = signal.getsignal(number)
                if callable(before):  # neither left to the system, nor ignored, nor set by something that is not Python
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, before in self._before.items():
            if signal.getsignal(number) == self._handle:  # else a handler has put another in its place
                signal.signal(number, before)
        self._deliver()

    def _handle(self, number: int, frame: Any) -> None:
        if not self._busy:
            self._before[number](number, frame)
        elif number not in self._waiting:  # a signal that comes twice before it is handled is one
            self._waiting.append(number)

    def _deliver(self) -> None:
        while self._waiting:
            number = self._waiting.pop(0)
            self._before[number](number, None)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run the body to its end, then call the handlers of what came meanwhile."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            self._deliver()
