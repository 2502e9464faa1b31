"""The threads that jobs are handed out to."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

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


_controller = cache(ThreadpoolController)
_alone: list[Any] = []  # the limits in force, of as many threads as are inside `one_thread`
_alone_lock = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS on one thread, for LAPACK's many small steps and for jobs that have a thread each.

    After each small step threads wait for one another, and on a machine with other work to do a wait costs a time
    slice: a factorisation of 80 ms then takes 3 s. And threads of BLAS spin for some 20 ms after a product, on cores
    that ours would work on. The limit is the whole process's, until the last one inside leaves.
    """
    with _alone_lock:
        _alone.append(_alone[0] if _alone else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _alone_lock:
            limits = _alone.pop()
            if not _alone:
                limits.restore_original_limits()
