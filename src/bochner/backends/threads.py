"""A pool of threads, and limits for those of BLAS."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache, partial
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from threadpoolctl import _ThreadpoolLimiter

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
    """Drop the pool in a child process: threads do not survive a fork."""
    global _pool, _pool_lock
    _pool, _pool_lock = None, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


Job = TypeVar("Job")


def each(function: Callable[[Job], None], jobs: Iterable[Job], n: int) -> None:
    """Call `function` on every job, in order, on n threads of which this is one; it should release the GIL.

    After an error or Ctrl-C no other job begins, and those that run are waited for. A job may itself call `each`: no
    thread waits for another that has not begun.
    """
    waiting = deque(jobs)

    def work() -> None:
        try:
            while True:
                try:
                    job = waiting.popleft()
                except IndexError:
                    return
                function(job)
        finally:
            waiting.clear()

    # each with the limits that hold here, which are a context's
    others = [_threads(n - 1).submit(copy_context().run, work) for _ in range(min(n, len(waiting)) - 1)]
    try:
        work()
    finally:
        others = [other for other in others if not other.cancel()]  # nothing is left for those that wait
        wait(others)
    for other in others:
        other.result()


_controller = cache(ThreadpoolController)  # finding the libraries takes milliseconds
_limits: dict[object, int] = {}  # of all threads that are inside `blas_threads`
_limits_lock = Lock()
_before: _ThreadpoolLimiter | None = None  # restores what was set before the first of them
_most = 1  # threads that BLAS had then: with more than it was started with, OpenBLAS 0.3.28 crashes
_least: int | None = None  # of the limits, as BLAS was told


def _limit_blas(caller: object, n: int | None) -> None:
    """Set the limit of a caller, or take it back, and tell BLAS the smallest; again is as good as once."""
    global _before, _most, _least
    with _limits_lock:
        _limits.pop(caller, None)
        if n is not None:
            _limits[caller] = n
        least = min(_limits.values(), default=None)
        if least is None and _before is not None:
            _before.restore_original_limits()
            _before = _least = None
        elif least is not None and least != _least:
            if _before is None:
                libraries = _controller().select(user_api="blas").info()
                _most = min((library["num_threads"] for library in libraries), default=1)
                _before = _controller().limit(limits=None, user_api="blas")  # remembers, and sets nothing
            _least = None  # unknown, if an interruption comes now
            _controller().limit(limits=min(least, _most), user_api="blas")
            _least = least


@contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """Limit BLAS to at most n threads. The limit is the whole process's: the smallest of those in force."""
    caller = object()
    try:
        _limit_blas(caller, n)
        yield
    finally:
        try:
            _limit_blas(caller, None)
        except BaseException:  # Ctrl-C, which must not leave a limit behind
            _limit_blas(caller, None)
            raise


#: BLAS on one thread, for LAPACK's many small steps and for jobs that have a thread each. After each small step threads
#: wait for one another, and on a machine with other work to do a wait costs a time slice: a factorisation of 80 ms then
#: takes 3 s. And threads of BLAS spin for some 20 ms after a product, on cores that ours would work on.
one_thread = partial(blas_threads, 1)
