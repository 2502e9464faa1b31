"""The threads that jobs are handed out to."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_pool_lock = Lock()


def _threads(n: int) -> ThreadPoolExecutor:
    """Return the pool, grown to at least n threads."""
    global _pool, _pool_size
    with _pool_lock:
        if _pool is None or _pool_size < n:
            _pool, _pool_size = ThreadPoolExecutor(n, thread_name_prefix="bochner"), n
        return _pool


def _forget_threads() -> None:
    """Threads do not survive a fork: the child starts its own pool when it needs one."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


def each(function: Callable[[Any], None], jobs: Iterable[Any], n: int) -> None:
    """Call `function` on every job, in order, on n threads of which this is one; it should release the GIL."""
    waiting = deque(jobs)

    def work() -> None:
        while True:
            try:
                job = waiting.popleft()
            except IndexError:
                return
            function(job)

    others = [_threads(n - 1).submit(work) for _ in range(min(n, len(waiting)) - 1)]
    work()
    for other in others:
        other.result()
