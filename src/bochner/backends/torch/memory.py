"""Arrays between host memory and devices: copies that live as long as the array, pinned buffers, free memory."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import scipy.sparse
import torch
import torch.utils.dlpack

from bochner.backends import Array, Memo, NoDeviceError, n_threads
from bochner.backends.threads import each

Tensor = Any  # torch ships types, but its operators are Any to mypy
OutOfMemory = torch.OutOfMemoryError

placed = Memo()
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_COPIED_BYTES = 1 << 21  # bytes that a thread copies at a time
_PINNED_BYTES = 1 << 23  # pinned bytes of a fetching thread: to pin half a gigabyte takes longer than to copy it


def empty(shape: tuple[int, ...], X: Tensor) -> Tensor:
    """Return an uninitialised tensor in the dtype and on the device of X."""
    return torch.empty(shape, dtype=X.dtype, device=X.device)


def place(array: Any, X: Tensor) -> Tensor:
    """Copy a NumPy array to the device of X, floating-point numbers in its dtype; once for each device and dtype."""
    if torch.is_tensor(array):
        return array
    if scipy.sparse.issparse(array):
        parts = [place(part, X) for part in (array.indptr, array.indices, array.data)]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse (CSR|invariant)")  # torch calls it beta
            return torch.sparse_csr_tensor(*parts, array.shape, check_invariants=False)  # type: ignore[call-arg]
    if array.ndim == 0:
        return array.item()
    dtype = {"f": X.dtype, "c": _COMPLEX[X.dtype]}.get(array.dtype.kind)

    def copy() -> Tensor:
        own = None if array.dtype.kind != "f" else getattr(torch, array.dtype.name, None)
        held = None if own is None else placed.made(array, (str(X.device), own))
        if held is not None:  # in its own dtype it is there already
            return held.to(dtype)
        # a fresh copy: torch refuses negative strides and warns of read-only memory
        return torch.from_numpy(np.array(array)).to(device=X.device, dtype=dtype)

    return placed.get(array, (str(X.device), dtype), copy)


def keep(array: Array, X: Tensor) -> None:
    """Take X for the copy of an array on its device."""
    placed.get(array, (str(X.device), X.dtype), lambda: X)


def from_dlpack(X: object) -> Tensor:
    """Wrap the memory of another library's array in a tensor."""
    return torch.utils.dlpack.from_dlpack(X)


def fetch(X: Tensor) -> Array:
    """Copy to host memory."""
    X = X.detach()
    if not X.is_cuda or X.nbytes < 8 * _PINNED_BYTES:
        return np.asarray(X.cpu().numpy())
    there = X.reshape(-1)
    out = np.empty(len(there), torch.empty(0, dtype=X.dtype).numpy().dtype)
    step = _PINNED_BYTES // X.itemsize
    _fetch_parts([(there[i : i + step], out[i : i + step]) for i in range(0, len(there), step)])
    return out.reshape(X.shape)


def fetch_lower(G: Tensor, out: Array) -> None:
    """Copy the lower triangle into an array in Fortran order; from a GPU on several threads."""
    m = len(G)
    if not G.is_cuda:
        out.T[...] = G.T.numpy()
        return
    width = max(16, _PINNED_BYTES // (8 * max(1, m)))
    _fetch_parts([(G[j:, j : j + width].T, out.T[j : j + width, j:]) for j in range(0, m, width)])


def check_device(device: str) -> None:
    """Refuse a device that is not there."""
    found = torch.device(device)
    if found.type == "cuda" and not torch.cuda.is_available():
        raise NoDeviceError(f"device={device!r} needs a GPU that torch can use, and there is none; use device=None.")
    if found.type == "cuda" and (found.index or 0) >= (count := torch.cuda.device_count()):
        raise NoDeviceError(f"device={device!r} is not there: the last GPU is 'cuda:{count - 1}'; use that or 'cuda'.")


def free_memory(device: str) -> int:
    """Return the bytes that may be allocated on a device."""
    if torch.device(device).type != "cuda":
        return 8 << 30
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + cached)


def n_queues(device: str) -> int:
    """Return the number of threads that may queue work on a device at a time, each in its `own_queue`."""
    if torch.device(device).type != "cuda":
        return 1
    torch.linalg.cholesky(torch.ones((1, 1), device=device))  # torch loads its solvers once, and not from two threads
    return 4


_streams: dict[str, list[torch.cuda.Stream]] = {}  # of each device, those that are free


@contextmanager
def own_queue(device: str) -> Iterator[None]:
    """Run the body in a queue of its own on the device; fetch its results inside it.

    Streams are used again: torch keeps free memory, and room for the libraries, for every stream it has seen.
    """
    if torch.device(device).type != "cuda":
        yield
        return
    free = _streams.setdefault(device, [])
    try:
        stream = free.pop()
    except IndexError:
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        free.append(stream)


def tensor_on(device: str, array: Array) -> Tensor:
    """Copy an array to a device."""
    return torch.from_numpy(np.array(array)).to(device)


def forget_memory() -> None:
    """Give cached memory back."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


class Link:
    """Arrays to a device, through two pinned buffers on a stream of their own where that is a GPU."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self.buffers: list[list[Tensor]] = []
        self.turn = 0

    def __call__(self, X: Array) -> Tensor:
        """Copy X to the device; X itself may be changed as soon as this returns."""
        if self.stream is None:
            return torch.from_numpy(np.array(X))
        if len(self.buffers) < 2:
            self.buffers.append([_pinned(X), torch.cuda.Event()])  # type: ignore[no-untyped-call]
        buffer = self.buffers[self.turn % 2]
        self.turn += 1
        buffer[1].synchronize()  # what it held last has arrived
        if buffer[0].numel() < X.size:
            buffer[0] = _pinned(X)
        pinned = buffer[0][: X.size].view(X.shape)
        _copy_rows(X, pinned.numpy())
        with torch.cuda.stream(self.stream):
            there = pinned.to(self.device, non_blocking=True)
            buffer[1].record(self.stream)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        there.record_stream(torch.cuda.current_stream(self.device))
        return there


def _copy_rows(X: Array, out: Array) -> None:
    """Copy an array on several threads: one alone copies a tenth of what a GPU takes."""
    step = max(1, _COPIED_BYTES * len(X) // max(1, X.nbytes))
    parts = [slice(start, start + step) for start in range(0, len(X), step)]
    each(lambda part: np.copyto(out[part], X[part]), parts, min(8, n_threads()))


def _pinned(X: Array) -> Tensor:
    kind = torch.from_numpy(np.empty(0, X.dtype)).dtype
    return torch.empty(X.size, dtype=kind, pin_memory=True)


def _fetch_parts(parts: list[tuple[Tensor, Array]]) -> None:
    """Copy tensors on one device into arrays of their dtypes through pinned memory, on several threads."""
    local, device = threading.local(), parts[0][0].device
    largest = max(part.numel() for part, _ in parts)
    torch.cuda.current_stream(device).synchronize()

    def copy(part: Tensor, out: Array) -> None:
        if not hasattr(local, "stream"):
            local.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            local.pinned = torch.empty(largest, dtype=part.dtype, pin_memory=True)
        with torch.cuda.stream(local.stream):
            pinned = local.pinned[: part.numel()].view(part.shape)
            pinned.copy_(part.contiguous(), non_blocking=True)
            local.stream.synchronize()
        np.copyto(out, pinned.numpy())

    each(lambda pair: copy(*pair), parts, min(8, n_threads()))
