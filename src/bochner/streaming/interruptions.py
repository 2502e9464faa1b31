"""SIGINT that waits while sums change, so that what an interrupted pass leaves behind is whole."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interruptions:
    """Ctrl-C as usual, except within `held`: there it strikes at the end.

    Python handles signals between any two instructions, so that a plain KeyboardInterrupt may come when a block has
    been added to one sum and not yet to the next. Threads other than the main one get no signals, and nothing is done.

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
        self._before: Any = None
        self._busy = self._waiting = False

    def __enter__(self) -> Interruptions:
        if threading.current_thread() is threading.main_thread():
            before = signal.getsignal(signal.SIGINT)
            if callable(before):  # neither ignored nor set by something that is not Python
                self._before = before
                signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: Any) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _handle(self, number: int, frame: Any) -> None:
        if self._busy:
            self._waiting = True
        else:
            self._before(number, frame)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run the body to its end, then raise what came meanwhile."""
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            if self._waiting:
                self._waiting = False
                self._before(signal.SIGINT, None)
