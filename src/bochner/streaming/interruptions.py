"""Signals that wait while sums change, so that what an interrupted pass leaves behind is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruptions:
    """Signals as usual, except within `held`: there their handlers are called at the end.

    Python calls handlers between any two instructions, so that an exception of one (KeyboardInterrupt of Ctrl-C's, or
    what the program's own handlers of SIGTERM, SIGALRM, … raise) may come when a block has been added to one sum and
    not yet to the next. Threads other than the main one get no signals, and nothing is done.

    Examples
    --------
    >>> import os, signal
    >>> from bochner.streaming.interruptions import Interruptions
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
