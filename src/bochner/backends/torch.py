"""Torch tensors on any device: plain torch operations, and Triton kernels where there is a CUDA device.

Maps stay host data; `place` keeps a copy of each of their arrays on a device for as long as the array lives. Every
operation is deterministic: no sum is made by atomic additions.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import torch
import torch.utils.dlpack

from bochner.backends import Array, Backend, Form, Memo, NoDeviceError, matmul_precision, n_threads
from bochner.backends.threads import each

Tensor = Any  # torch ships types, but its operators are Any to mypy

_placed = Memo()
_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}


def empty(shape: tuple[int, ...], X: Tensor) -> Tensor:
    """Uninitialised, in the dtype and on the device of X."""
    return torch.empty(shape, dtype=X.dtype, device=X.device)


def place(array: Any, X: Tensor) -> Tensor:
    """A NumPy array on the device of X, floating-point numbers in its dtype; copied once a device and dtype."""
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
        held = None if own is None else _placed.made(array, (str(X.device), own))
        if held is not None:  # in its own dtype it is there already
            return held.to(dtype)
        # a fresh copy: torch refuses negative strides and warns of read-only memory
        return torch.from_numpy(np.array(array)).to(device=X.device, dtype=dtype)

    return _placed.get(array, (str(X.device), dtype), copy)


def keep(array: Array, X: Tensor) -> None:
    """Take X for the copy of an array on its device."""
    _placed.get(array, (str(X.device), X.dtype), lambda: X)


def from_dlpack(X: Any) -> Tensor:
    """A tensor over the memory of another library's array."""
    return torch.utils.dlpack.from_dlpack(X)


def fetch(X: Tensor) -> Array:
    """A copy in host memory."""
    X = X.detach()
    if not X.is_cuda or X.nbytes < 8 * _PINNED_BYTES:
        return np.asarray(X.cpu().numpy())
    there = X.reshape(-1)
    out = np.empty(len(there), torch.empty(0, dtype=X.dtype).numpy().dtype)
    step = _PINNED_BYTES // X.itemsize
    _fetch_parts([(there[i : i + step], out[i : i + step]) for i in range(0, len(there), step)])
    return out.reshape(X.shape)


def fwht(X: Tensor) -> None:
    """Walsh-Hadamard transform of every row, in place: one butterfly level at a time."""
    p = X.shape[1]
    half = 1
    while half < p:
        a, b = X.unflatten(1, (p // (2 * half), 2, half)).unbind(2)
        total = a + b
        torch.sub(a, b, out=b)
        a.copy_(total)
        half *= 2


def pairs(A: Tensor, scale: float, tail: float, out: Tensor) -> None:
    """Columns scale * cos(a), scale * sin(a) of every phase."""
    n_columns = out.shape[1]
    out[:, 0::2] = torch.cos(A)
    out[:, 1::2] = torch.sin(A[:, : n_columns // 2])
    if n_columns % 2:
        out[:, -1] = torch.cos(A[:, -1] + tail)
    out *= scale


def cosines(A: Tensor, offsets: Array, scale: float, out: Tensor) -> None:
    """Columns scale * cos(a + offset)."""
    out.copy_(torch.cos(A + place(offsets, A)))
    out *= scale


def dense_pairs(X: Tensor, W: Array, scale: float, tail: float, out: Tensor) -> None:
    """Pairs of X Wᵀ."""
    X = X.to(out.dtype)
    pairs(X @ place(W, X).T, scale, tail, out)


def _padded(X: Tensor, p: int) -> Tensor:
    return torch.nn.functional.pad(X, (0, p - X.shape[1]))


def structured_phases(X: Tensor, signs: Array, lengths: Array, out: Tensor) -> None:
    """Three sign flips and three Hadamard transforms a block; `lengths` are the row norms."""
    p = signs.shape[2]
    scales = place(lengths, X) * p**-1.5
    for block, (first, second, third) in enumerate(place(signs, X)):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p)
        for flip in (third, second, first):
            V = V * flip
            fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * scales[rows]


def structured_pairs(X: Tensor, signs: Array, lengths: Array, scale: float, tail: float, out: Tensor) -> None:
    """Pairs of the structured phases."""
    X = X.to(out.dtype)
    A = empty((X.shape[0], len(lengths)), X)
    structured_phases(X, signs, lengths, A)
    pairs(A, scale, tail, out)


def fastfood_phases(X: Tensor, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Tensor) -> None:
    """Flip, transform, permute, gain, transform; `lengths` are the row scales."""
    p = signs.shape[1]
    flips, orders, factors, scales = (place(array, X) for array in (signs, permutations, gains, lengths))
    for block in range(len(signs)):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p) * flips[block]
        fwht(V)
        V = V[:, orders[block]] * factors[block]
        fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * scales[rows]


def fastfood_pairs(
    X: Tensor,
    signs: Array,
    permutations: Array,
    gains: Array,
    lengths: Array,
    scale: float,
    tail: float,
    out: Tensor,
) -> None:
    """Pairs of the Fastfood phases."""
    X = X.to(out.dtype)
    A = empty((X.shape[0], len(lengths)), X)
    fastfood_phases(X, signs, permutations, gains, lengths, A)
    pairs(A, scale, tail, out)


def squared_distances(X: Tensor, Y: Tensor, out: Tensor) -> None:
    """Squared Euclidean distances, from the differences."""
    if X.shape[0] and Y.shape[0]:
        out.copy_(torch.cdist(X, place(Y, X), compute_mode="donot_use_mm_for_euclid_dist").square_())


def absolute_distances(X: Tensor, Y: Tensor, out: Tensor) -> None:
    """City-block distances, from the differences."""
    if X.shape[0] and Y.shape[0]:
        out.copy_(torch.cdist(X, place(Y, X), p=1.0))


def gaussians(X: Tensor, Y: Tensor, out: Tensor) -> None:
    """Gaussian kernel of unit length scale."""
    squared_distances(X, Y, out)
    out *= -0.5
    torch.exp(out, out=out)


def sparse_rows(X: Tensor, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Tensor) -> None:
    """Sums of signed columns: the terms of every result one after the other, in the order of the columns."""
    columns, flips = _placed.get(indices, "terms", lambda: _terms(indptr, indices, signs, len(lengths)))
    out.zero_()
    for column, flip in zip(columns, flips, strict=True):
        out += X[:, place(column, X)] * place(flip, X)
    out *= place(lengths, X)


def _terms(indptr: Array, indices: Array, signs: Array, n_rows: int) -> tuple[list[Array], list[Array]]:
    """Columns and signs of the first, second, … term of every row of a matrix given by its columns; sign 0 is none."""
    columns = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=n_rows)
    places = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    depth = int(counts.max(initial=0))
    index, flips = np.zeros((depth, n_rows), np.int64), np.zeros((depth, n_rows), np.int8)
    index[places, indices[order]], flips[places, indices[order]] = columns[order], signs[order]
    return [row.copy() for row in index], [row.copy() for row in flips]


def nonzeros(A: Tensor, stops: Array, columns: Tensor, values: Tensor) -> None:
    """Entries that are not zero, row by row."""
    here = A != 0
    columns[stops[0] : stops[-1]] = torch.nonzero(here)[:, 1].to(columns.dtype)
    values[stops[0] : stops[-1]] = A[here]


def subsampled_hadamard(X: Tensor, signs: Array, picks: Array, lengths: Array, out: Tensor) -> None:
    """Some coordinates of Hadamard transforms."""
    p = signs.shape[1]
    scales, places = place(lengths, X), place(picks, X)
    for block, flip in enumerate(place(signs, X)):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p) * flip
        fwht(V)
        out[:, rows] = V[:, places[rows]] * scales[rows]


def gram(Z: Tensor, out: Tensor) -> None:
    """Sums of products of columns, in float64."""
    Z = Z.to(torch.float64)
    out.addmm_(Z.T, Z)


_PRODUCT_ROWS = 8192  # of features widened to float64 at a time


def moments(Z: Tensor, right: Array, out: Tensor) -> None:
    """Products with a few columns, of rows widened a few at a time."""
    there = place(right, out)
    for start in range(0, len(Z), _PRODUCT_ROWS):
        rows = slice(start, start + _PRODUCT_ROWS)
        out += Z[rows].double().T @ there[rows]


def gram_product(Z: Tensor, V: Tensor, weights: Tensor | None, out: Tensor) -> None:
    """Products with the Gram matrix of some rows, widened a few at a time."""
    for start in range(0, len(Z), _PRODUCT_ROWS):
        rows = slice(start, start + _PRODUCT_ROWS)
        wide = Z[rows].double()
        product = wide @ V
        if weights is not None:
            product *= weights[rows, None]
        out += wide.T @ product


def rank_one(G: Tensor, v: Array, scale: float) -> None:
    """Add scale v vᵀ."""
    there = place(v, G)
    G.addr_(there, there, alpha=scale)


def cholesky(G: Tensor, shift: float) -> Tensor | None:
    """LLᵀ = G + shift I."""
    G.diagonal().add_(shift)
    L, failed = torch.linalg.cholesky_ex(G)
    return None if int(failed) else L


def cholesky_solve(L: Tensor, B: Tensor) -> Tensor:
    """(LLᵀ)⁻¹B."""
    return torch.cholesky_solve(B, L)


def cholesky_inverse(L: Tensor) -> Tensor:
    """(LLᵀ)⁻¹."""
    return torch.cholesky_inverse(L)


def triangular_solve(L: Tensor, B: Tensor) -> Tensor:
    """L⁻¹B."""
    return torch.linalg.solve_triangular(L, B, upper=False)


def eigh(G: Tensor) -> tuple[Tensor, Tensor] | None:
    """All eigenvalues and eigenvectors."""
    try:
        return torch.linalg.eigh(G)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        return None


def fetch_lower(G: Tensor, out: Array) -> None:
    """Copy the lower triangle into an array in Fortran order; from a GPU on several threads."""
    m = len(G)
    if not G.is_cuda:
        out.T[...] = G.T.numpy()
        return
    width = max(16, _PINNED_BYTES // (8 * max(1, m)))
    _fetch_parts([(G[j:, j : j + width].T, out.T[j : j + width, j:]) for j in range(0, m, width)])


plain = Backend(
    name="torch",
    xp=torch,
    block_bytes=1 << 22,
    empty=empty,
    place=place,
    keep=keep,
    fetch=fetch,
    fwht=fwht,
    pairs=pairs,
    cosines=cosines,
    dense_pairs=dense_pairs,
    structured_phases=structured_phases,
    structured_pairs=structured_pairs,
    fastfood_phases=fastfood_phases,
    fastfood_pairs=fastfood_pairs,
    squared_distances=squared_distances,
    absolute_distances=absolute_distances,
    gaussians=gaussians,
    sparse_rows=sparse_rows,
    nonzeros=nonzeros,
    subsampled_hadamard=subsampled_hadamard,
    gram=gram,
    fixed_point=lambda Z, seen, budget: None,
    moments=moments,
    gram_product=gram_product,
    rank_one=rank_one,
    cholesky=cholesky,
    cholesky_solve=cholesky_solve,
    cholesky_inverse=cholesky_inverse,
    triangular_solve=triangular_solve,
    eigh=eigh,
    fetch_lower=fetch_lower,
)


# ---------------------------------------------------------------------------------------------- host memory to a device

OutOfMemory = torch.OutOfMemoryError


def check_device(device: str) -> None:
    """Refuse a device that is not there."""
    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be None, 'cuda', 'cuda:0', … or 'cpu'; got {device!r}.") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise NoDeviceError(f"device={device!r} needs a GPU that torch can use, and there is none; use device=None.")


def free_memory(device: str) -> int:
    """Bytes that may be allocated on a device."""
    if torch.device(device).type != "cuda":
        return 8 << 30
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + cached)


def n_queues(device: str) -> int:
    """How many threads at most should hand work to a device at a time, each in its `own_queue`."""
    return 4 if torch.device(device).type == "cuda" else 1


def own_queue(device: str) -> AbstractContextManager[Any]:
    """Work of the body waits for no other on the device; what it leaves there must be fetched inside it."""
    if torch.device(device).type != "cuda":
        return nullcontext()
    return torch.cuda.stream(torch.cuda.Stream(device))  # type: ignore[no-untyped-call]


def tensor_on(device: str, array: Array) -> Tensor:
    """A copy of an array on a device."""
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
        self.buffers: list[list[Any]] = []
        self.turn = 0

    def __call__(self, X: Array) -> Tensor:
        """X on the device; X itself may be changed as soon as this returns."""
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
        np.copyto(pinned.numpy(), X)
        with torch.cuda.stream(self.stream):
            there = pinned.to(self.device, non_blocking=True)
            buffer[1].record(self.stream)
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        there.record_stream(torch.cuda.current_stream(self.device))
        return there


def _pinned(X: Array) -> Tensor:
    kind = torch.from_numpy(np.empty(0, X.dtype)).dtype
    return torch.empty(X.size, dtype=kind, pin_memory=True)


_PINNED_BYTES = 1 << 23  # of a thread that fetches: to pin half a gigabyte takes longer than to copy it


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


# ------------------------------------------------------------------------------------------------------------- on CUDA


@lru_cache
def _kernels(device: int) -> Any:
    """The module of Triton kernels if they run on this device, else None: torch's own operations do everything then."""
    try:
        from bochner.backends import _triton
    except (ImportError, AttributeError):  # no Triton, or one whose Gluon is another
        return None
    return _triton if torch.cuda.get_device_capability(device)[0] == 9 else None


def _fast(X: Tensor, *others: Tensor) -> Any:
    """The kernels, if they take these tensors."""
    if X.dtype != torch.float32 or X.shape[0] == 0 or any(A.stride(1) != 1 for A in (X, *others) if A.shape[1] > 1):
        return None
    return _kernels(X.device.index or 0)


def _fwht_cuda(X: Tensor) -> None:
    q = X.shape[1].bit_length() - 1
    kernels = _fast(X)
    if kernels is None or not kernels.layouts.FEWEST_BITS <= q <= kernels.layouts.MOST_BITS:
        fwht(X)
    else:
        kernels.transforms.fwht(X)


_WIDE_BYTES = 1 << 30  # of float64 phases at a time


def _dense_pairs_cuda(X: Tensor, W: Array, scale: float, tail: float, out: Tensor) -> None:
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _fast(out)
    if kernels is None:
        dense_pairs(X, W, scale, tail, out)
        return
    precise = matmul_precision() != "fast"
    half = _placed.get(W, (str(X.device), "half", precise), lambda: _half_matrix(kernels, W, X, precise))
    if half is None:  # too wide: phases in float64, whose products are as fast on these devices as those of float32
        for start in range(0, len(X), step := max(1, _WIDE_BYTES // (8 * len(W)))):
            rows = slice(start, start + step)
            turns = X[rows].double() @ place(W, X.new_empty(0, dtype=torch.float64)).T
            turns *= 0.5 / np.pi
            turns -= turns.round()
            pairs(turns.to(out.dtype) * (2.0 * np.pi), scale, tail, out[rows])
        return
    halves = torch.empty((len(X), 32 * half.n_chunks * (3 if precise else 1)), dtype=torch.float16, device=X.device)
    scales = torch.empty(len(X), dtype=torch.float32, device=X.device)
    kernels.dense.dense_pairs(X, half, halves, scales, scale, tail, out)


def _half_matrix(kernels: Any, W: Array, X: Tensor, precise: bool) -> Any:
    half = kernels.dense.half_matrix(W, precise=precise)
    if half is None:
        return None
    return replace(half, matrix=_as_tensor(half.matrix, X), scales=_as_tensor(half.scales, X))


def _structured_cuda(
    X: Tensor, signs: Array, lengths: Array, scale: float, tail: float, out: Tensor, *, as_pairs: bool
) -> None:
    p = signs.shape[2]
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _transforms_for(out, p, 0)
    if kernels is not None:
        words = _placed.get(signs, (str(X.device), "words"), lambda: _as_tensor(kernels.layouts.pack_signs(signs), X))
        factors = _factors(kernels, lengths, X, signs[:, 0].shape, p**-1.5, as_pairs)
        kernels.blocks.structured(X, words, *factors, scale, tail, out, pairs=as_pairs)
    elif as_pairs and p < _DENSE_WIDTH and _fast(out) is not None:  # the faster way for so few columns
        W = _placed.get(lengths, ("dense", id(signs)), lambda: _dense_structured(signs, lengths))
        _dense_pairs_cuda(X, _narrow(W, X), scale, tail, out)
    elif as_pairs:
        structured_pairs(X, signs, lengths, scale, tail, out)
    else:
        structured_phases(X, signs, lengths, out)


def _fastfood_cuda(
    X: Tensor,
    signs: Array,
    permutations: Array,
    gains: Array,
    lengths: Array,
    scale: float,
    tail: float,
    out: Tensor,
    *,
    as_pairs: bool,
) -> None:
    p = signs.shape[1]
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _transforms_for(out, p, 1)
    if kernels is not None:
        packed = _placed.get(
            signs,
            (str(X.device), "fastfood", id(permutations), id(gains)),
            lambda: [_as_tensor(part, X) for part in kernels.layouts.pack_fastfood(signs, permutations, gains)],
        )
        factors = _factors(kernels, lengths, X, signs.shape, 1.0, as_pairs)
        kernels.blocks.fastfood(X, packed, *factors, scale, tail, out, pairs=as_pairs)
    elif as_pairs and p <= _DENSE_WIDTH and _fast(out) is not None:
        key = ("dense", id(signs), id(permutations), id(gains))
        W = _placed.get(lengths, key, lambda: _dense_fastfood(signs, permutations, gains, lengths))
        _dense_pairs_cuda(X, _narrow(W, X), scale, tail, out)
    elif as_pairs:
        fastfood_pairs(X, signs, permutations, gains, lengths, scale, tail, out)
    else:
        fastfood_phases(X, signs, permutations, gains, lengths, out)


_DENSE_WIDTH = 64  # up to which blocks of transforms are multiplied out


def _transforms_for(out: Tensor, p: int, more: int) -> Any:
    """The kernels, if they take these tensors and transforms of this width."""
    kernels = _fast(out)
    if kernels is None:
        return None
    fewest = kernels.layouts.FEWEST_BITS + more
    return kernels if fewest <= p.bit_length() - 1 <= kernels.layouts.MOST_BITS else None


def _factors(
    kernels: Any, lengths: Array, X: Tensor, shape: tuple[int, int], unit: float, as_pairs: bool
) -> list[Tensor]:
    """Lengths of whole blocks (blocks, p), in turns for pairs, as float32 and as float64, and when they are large."""

    def padded() -> list[Tensor]:
        factors = np.zeros(shape)
        factors.reshape(-1)[: len(lengths)] = lengths.astype(float) * (unit / (2.0 * np.pi) if as_pairs else unit)
        parts = (factors.astype(np.float32).reshape(-1), factors.reshape(-1), kernels.blocks.limits_of(factors))
        return [_as_tensor(part, X) for part in parts]

    return _placed.get(lengths, (str(X.device), shape, unit, as_pairs), padded)


def _dense_structured(signs: Array, lengths: Array) -> Array:
    p = signs.shape[2]
    H = scipy.linalg.hadamard(p).astype(float)
    blocks = [H * a @ (H * b) @ (H * c) for a, b, c in signs]
    return np.asarray(np.vstack(blocks)[: len(lengths)] * (lengths[:, None].astype(float) * p**-1.5))


def _dense_fastfood(signs: Array, permutations: Array, gains: Array, lengths: Array) -> Array:
    H = scipy.linalg.hadamard(signs.shape[1]).astype(float)
    blocks = [H * g @ (H[order] * s) for s, order, g in zip(signs, permutations, gains, strict=True)]
    return np.asarray(np.vstack(blocks)[: len(lengths)] * lengths[:, None])


def _narrow(W: Array, X: Tensor) -> Array:
    """The columns of W that X has; the same array every time."""
    d = X.shape[1]
    return W if d == W.shape[1] else _placed.get(W, ("narrow", d), lambda: np.ascontiguousarray(W[:, :d]))


def _as_tensor(array: Array, X: Tensor) -> Tensor:
    return torch.from_numpy(array).to(X.device)


def _structured_phases_cuda(X: Tensor, signs: Array, lengths: Array, out: Tensor) -> None:
    _structured_cuda(X, signs, lengths, 1.0, 0.0, out, as_pairs=False)


def _fastfood_phases_cuda(
    X: Tensor, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Tensor
) -> None:
    _fastfood_cuda(X, signs, permutations, gains, lengths, 1.0, 0.0, out, as_pairs=False)


def _distances_cuda(X: Tensor, Y: Any, out: Tensor, *, form: str) -> None:
    Y = place(Y, X)
    kernels = _kernels(X.device.index or 0)
    if kernels is not None and len(X) and len(Y) and Y.dtype == X.dtype:
        kernels.tiles.stored(X, Y, form, 1, out)
    else:
        {"squared": squared_distances, "absolute": absolute_distances, "gaussian": gaussians}[form](X, Y, out)


def _tiles_cuda(X: Tensor, Y: Any, form: Form, V: Tensor | None, out: Tensor) -> None:
    Y, kernels = place(Y, X), _kernels(X.device.index or 0)
    if not (len(X) and len(Y)):
        out.zero_()
    elif V is None:
        kernels.tiles.stored(X, Y.to(X.dtype), *form, out)
    else:
        out.copy_(kernels.tiles.multiplied(X, Y.to(X.dtype), *form, V))


def _sparse_rows_cuda(X: Tensor, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Tensor) -> None:
    kernels = _kernels(X.device.index or 0)
    if kernels is None or not len(X) or not len(indices) or (out.shape[1] > 1 and out.stride(1) != 1):
        sparse_rows(X, indptr, indices, signs, lengths, out)
        return
    if X.dtype == torch.float32 and kernels.sketches.dense_pays(X.shape[1], len(lengths), len(indices)):
        W = _placed.get(
            indices,
            (str(X.device), "signs"),
            lambda: _as_tensor(kernels.sketches.dense_signs(indptr, indices, signs, len(lengths)), X).bfloat16(),
        )
        kernels.sketches.dense_rows(X if X.stride(1) == 1 else X.contiguous(), W, place(lengths, X), out)
        return
    terms, starts = _placed.get(
        indices,
        (str(X.device), "tiles"),
        lambda: [_as_tensor(a, X) for a in kernels.sketches.pack_terms(indptr, indices, signs, len(lengths))],
    )
    kernels.sketches.sparse_rows(X, terms, starts, place(lengths, X), out)


_FEW_COLUMNS = 2  # up to which features are read once a column; more are a matter for matrix products


def _gram_product_cuda(Z: Tensor, V: Tensor, weights: Tensor | None, out: Tensor) -> None:
    kernels = _fast(Z)
    if kernels is None or V.shape[1] > _FEW_COLUMNS or Z.shape[1] < 64:
        gram_product(Z, V, weights, out)
        return
    for j in range(V.shape[1]):
        product = kernels.tiles.rows_product(Z, V[:, j].contiguous())
        if weights is not None:
            product *= weights
        out[:, j] += kernels.tiles.columns_product(Z, product)


_GRAM_ROWS = 4096  # multiplied on the tensor cores before the product is added up in float64
_GRAM_PANEL = 4096


def _gram_cuda(Z: Tensor, out: Tensor) -> None:
    """ZᵀZ of float32 features by products of half-precision parts: Z = (H + L) diag(units), 11 bits in H and in L.

    HᵀH goes to float64 every 4,096 rows; HᵀL, 2^-12 of it, stays float32; LᵀL is left out. Tensor cores cut sums off
    rather than round them, which makes HᵀH smaller by some 1e-5 as a whole: it is scaled to the diagonal, which is
    summed in float64. With that an entry errs by at most some 4e-6 sqrt(G_ii G_jj) (measured), mostly in proportion to
    itself, which a ridge regression does not feel.
    """
    n, m = Z.shape
    if Z.dtype != torch.float32 or n < 16 or m < 16:
        gram(Z, out)
        return
    units = torch.exp2(torch.frexp(Z.abs().amax(0))[1].to(torch.float32))
    same = bool(units.min() == units.max())
    unit = float(units[0]) if same else 1.0
    cross = torch.zeros((m, m), dtype=torch.float32, device=Z.device)
    before = out.diagonal().clone()
    for start in range(0, n, _GRAM_ROWS):
        rows = Z[start : start + _GRAM_ROWS]
        scaled = rows * (1.0 / unit) if same else rows / units
        H = scaled.to(torch.float16)
        L = torch.sub(scaled, H, out=scaled).to(torch.float16)
        torch.addmm(cross, H.T, L, out_dtype=torch.float32, out=cross)
        exact = _squares(H[:, :_GRAM_PANEL])
        shrinkage = 1.0
        for j in range(0, m, _GRAM_PANEL):
            columns = slice(j, j + _GRAM_PANEL)
            product = torch.mm(H[:, j:].T, H[:, columns], out_dtype=torch.float32)
            if j == 0:
                shrinkage = float(exact.sum() / product.diagonal().sum(dtype=torch.float64).clamp_min(1e-300))
            if not same:
                product *= units[j:, None]
                product *= units[columns]
            out[j:, columns].add_(product, alpha=shrinkage * unit * unit)
    for j in range(0, m, _GRAM_PANEL):  # tiles of cross + crossᵀ on and below the diagonal
        columns = slice(j, j + _GRAM_PANEL)
        both = cross[j:, columns] + cross[columns, j:].T
        if not same:
            both *= units[j:, None]
            both *= units[columns]
        out[j:, columns].add_(both, alpha=unit * unit)
    out.diagonal().copy_(before + _squares(Z))


def _squares(Z: Tensor) -> Tensor:
    """Sums of squares of columns, in float64."""
    total = torch.zeros(Z.shape[1], dtype=torch.float64, device=Z.device)
    for start in range(0, len(Z), _GRAM_ROWS):
        total += torch.linalg.vector_norm(Z[start : start + _GRAM_ROWS], dim=0, dtype=torch.float64).square()
    return total


# for devices that run no kernels of ours
_slow_cuda = replace(plain, name="cuda", block_bytes=1 << 31, gram=_gram_cuda)
cuda = replace(
    _slow_cuda,
    fwht=_fwht_cuda,
    dense_pairs=_dense_pairs_cuda,
    structured_phases=_structured_phases_cuda,
    structured_pairs=partial(_structured_cuda, as_pairs=True),
    fastfood_phases=_fastfood_phases_cuda,
    fastfood_pairs=partial(_fastfood_cuda, as_pairs=True),
    squared_distances=partial(_distances_cuda, form="squared"),
    absolute_distances=partial(_distances_cuda, form="absolute"),
    gaussians=partial(_distances_cuda, form="gaussian"),
    tiles=_tiles_cuda,
    sparse_rows=_sparse_rows_cuda,
    gram_product=_gram_product_cuda,
)


def backend_for(X: Tensor) -> Backend:
    """The backend for tensors on the device of X."""
    if not X.is_cuda:
        return plain
    return _slow_cuda if _kernels(X.device.index or 0) is None else cuda
