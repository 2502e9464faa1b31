"""Memory for large results, which is used again.

The operating system fills new pages with zeros when they are first written to, and that takes as long as writing
features. So the memory of an array that nobody uses any more is kept for the next one. It is marked as free, so that
the system takes it back whenever it needs it (Linux calls that lazily freed); until then its pages need no zeros.
"""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_PAGE = 1 << 21  # bytes of a huge page
_ALIGNED = 1 << 20  # bytes from which on an array begins at a cache line
_LENT = 2 * _PAGE  # bytes from which on memory is kept; malloc reuses smaller blocks
_MOST_KEPT = 1 << 30  # bytes of memory that is kept for reuse

_kept: list[mmap.mmap] = []
_lock = Lock()


def _forget() -> None:
    """Forget the kept memory in a child process: its pages would be copies of its parent's."""
    global _lock
    _kept.clear()
    _lock = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class _Loan:
    """The memory of one array, which comes back when the array and all views of it are gone."""

    def __init__(self, memory: mmap.mmap, n_bytes: int) -> None:
        self.memory = memory
        start = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
        start += -start % _PAGE
        self.__array_interface__ = {"version": 3, "shape": (n_bytes,), "typestr": "|u1", "data": (start, False)}

    def __del__(self) -> None:
        _give_back(self.memory)


def _take(n_bytes: int) -> mmap.mmap:
    """Take kept memory of up to twice the size, or new memory."""
    if _lock.acquire(blocking=False):  # whoever finds others at it does without
        try:
            for i, memory in enumerate(_kept):
                if n_bytes + _PAGE <= len(memory) <= 2 * n_bytes:
                    return _kept.pop(i)
        finally:
            _lock.release()
    # one page more, to begin at a page; memory that is never written to costs nothing
    memory = mmap.mmap(-1, -(-n_bytes // _PAGE) * _PAGE + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # of a system without huge pages
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _give_back(memory: mmap.mmap) -> None:
    # not waiting: garbage may be collected by the thread that has the lock
    if len(memory) > _MOST_KEPT or not _lock.acquire(blocking=False):
        return
    try:
        memory.madvise(mmap.MADV_FREE)
        _kept.append(memory)
        while sum(map(len, _kept)) > _MOST_KEPT:
            del _kept[0]
    except OSError:
        pass
    finally:
        _lock.release()


def empty_columns(n_rows: int, n_columns: int, dtype: DTypeLike) -> NDArray[Any]:
    """Return an uninitialised array for `pairs` and its like to write: a large one begins at a cache line.

    NumPy's own begin 16 bytes after one, and every vector stored would touch two lines.
    """
    n_bytes = n_rows * n_columns * np.dtype(dtype).itemsize
    if n_bytes < _ALIGNED:
        return np.empty((n_rows, n_columns), dtype)
    if n_bytes >= _LENT and hasattr(mmap, "MADV_FREE"):
        memory = np.asarray(_Loan(_take(n_bytes), n_bytes))
    else:
        memory = np.empty(n_bytes + 64, np.uint8)
        memory = memory[-memory.__array_interface__["data"][0] % 64 :][:n_bytes]
    return memory.view(dtype).reshape(n_rows, n_columns)


def product(A: object, B: NDArray[Any]) -> NDArray[Any]:
    """Multiply A B into such an array; A may be sparse."""
    if not isinstance(A, np.ndarray) or A.dtype != B.dtype:
        return np.asarray(A @ B)
    return np.matmul(A, B, out=empty_columns(len(A), B.shape[1], A.dtype))
