"""Walsh-Hadamard transforms of the rows of a tile; `layouts` says how they are spread over threads."""

from __future__ import annotations

from functools import lru_cache

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.ampere import async_copy

from bochner.backends._triton.layouts import tile
from bochner.backends.torch.memory import Tensor

_HALVES_BITS = 15  # log2 of the columns from which on a row is transformed in two halves
_ANY_COUNT = ("n",)  # arguments whose values do not trigger a new compilation


@gluon.constexpr_function
def _along(layout, axis):  # type: ignore[no-untyped-def]
    """Return the layout of one axis of a tile."""
    for other in range(5, -1, -1):
        if other != axis:
            layout = gl.SliceLayout(other, layout)
    return layout


@gluon.jit
def index(layout: gl.constexpr, axis: gl.constexpr, size: gl.constexpr):  # type: ignore[no-untyped-def]
    i = gl.arange(0, size, layout=_along(layout, axis))
    for other in gl.static_range(6):
        if other != axis:
            i = gl.expand_dims(i, other)
    return i


@gluon.jit
def column(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    """Return the column of every element, or of every number of a pair (last = 4)."""
    return threads_part(layout, shape, last) + registers_part(layout, shape, last)


# In layouts C and D one part is the same for all of a thread's registers, and the other is known to the compiler, which
# needs no address but that of the first where they are added to a pointer one after the other.
@gluon.jit
def threads_part(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    return (index(layout, 3, shape[3]) * 32 + index(layout, 4, 32)) * last


@gluon.jit
def registers_part(layout: gl.constexpr, shape: gl.constexpr, last: gl.constexpr):  # type: ignore[no-untyped-def]
    top = index(layout, 1, shape[1]) * shape[2] + index(layout, 2, shape[2])
    return top * (shape[3] * 32 * last) + index(layout, 5, last)


@gluon.jit
def read(X, row0, rows, d, x_stride, shape: gl.constexpr, C: gl.constexpr, WHOLE: gl.constexpr, kind: gl.constexpr):  # type: ignore[no-untyped-def]
    row, threads, registers = index(C, 0, shape[0]), threads_part(C, shape, 2), registers_part(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + threads + registers
    if WHOLE:
        x = gl.load(at)
    elif shape[0] == 1:
        x = gl.load(at, mask=registers < d - threads, other=0.0)
    else:
        x = gl.load(at, mask=(registers < d - threads) & (row < rows), other=0.0)
    return x.to(kind)


@gluon.jit
def _levels(x, pre: gl.constexpr, size: gl.constexpr, post: gl.constexpr, shape: gl.constexpr, layout: gl.constexpr):  # type: ignore[no-untyped-def]
    """Apply butterflies to one axis of the tile seen as (pre, size, post); its bits must be in registers."""
    for level in gl.static_range(7):
        if (1 << level) < size:
            split = gl.reshape(x, [pre, size >> (level + 1), 2, 1 << level, post])
            a, b = gl.split(gl.permute(split, [0, 1, 3, 4, 2]))
            x = gl.permute(gl.join(a + b, a - b), [0, 1, 4, 2, 3])
    x = gl.reshape(x, [shape[0], shape[1], shape[2], shape[3], 32, 2])
    return gl.convert_layout(x, layout, assert_trivial=True)


@gluon.jit
def in_c(x, shape: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    x = _levels(x, shape[0] * shape[1] * shape[2] * shape[3] * 32, 2, 1, shape, C)
    return _levels(x, shape[0], shape[1] * shape[2], shape[3] * 64, shape, C)


@gluon.jit
def in_a(x, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    x = _levels(x, shape[0] * shape[1] * shape[2] * shape[3], 32, 2, shape, A)
    if B is None:
        x = _levels(x, shape[0] * shape[1] * shape[2], shape[3], 64, shape, A)
    return x


@gluon.jit
def in_b(x, shape: gl.constexpr, B: gl.constexpr):  # type: ignore[no-untyped-def]
    return _levels(x, shape[0] * shape[1] * shape[2], shape[3], 64, shape, B)


@gluon.jit
def exchange(x, layout: gl.constexpr):  # type: ignore[no-untyped-def]
    """Convert X to another layout through shared memory, in two halves if it does not fit."""
    if x.dtype == gl.float64 and x.numel >= 32768:
        bits = x.to(gl.int64, bitcast=True)
        low = gl.convert_layout(bits.to(gl.int32), layout)
        high = gl.convert_layout((bits >> 32).to(gl.int32), layout)
        x = joined(low, high)
    else:
        x = gl.convert_layout(x, layout)
    return x


@gluon.jit
def joined(low, high):  # type: ignore[no-untyped-def]
    return ((high.to(gl.int64) << 32) | (low.to(gl.int64) & 4294967295)).to(gl.float64, bitcast=True)


@gluon.jit
def flip(x, words, places):  # type: ignore[no-untyped-def]
    sign = (words << (31 - places)) & -2147483648
    if x.dtype == gl.float64:
        x = (x.to(gl.int64, bitcast=True) ^ (sign.to(gl.int64) << 32)).to(gl.float64, bitcast=True)
    else:
        x = (x.to(gl.int32, bitcast=True) ^ sign).to(gl.float32, bitcast=True)
    return x


@gluon.jit
def _hadamard(v, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr):  # type: ignore[no-untyped-def]
    """Compute H v, from layout C to layout C."""
    v = in_c(v, shape, C)
    if B is not None:
        v = in_b(exchange(v, B), shape, B)
    return exchange(in_a(exchange(v, A), shape, A, B), C)


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _transform(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,  # type: ignore[no-untyped-def]
               WHOLE: gl.constexpr):  # fmt: skip
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    row0 = gl.program_id(0).to(gl.int64) * shape[0]
    rows = (n - row0).to(gl.int32)
    v = _hadamard(read(X, row0, rows, P, x_stride, shape, C, WHOLE, gl.float32), shape, A, B, C)
    row, col = index(C, 0, shape[0]), column(C, shape, 2)
    at = X + row0 * x_stride + row * x_stride + threads_part(C, shape, 2) + registers_part(C, shape, 2)
    if WHOLE:
        gl.store(at, v)
    else:
        gl.store(at, v, mask=(row < rows) & (col < P))


@gluon.jit
def _fetch(X, halves, P: gl.constexpr, n_warps: gl.constexpr):  # type: ignore[no-untyped-def]
    """Start copying a row of two halves to shared memory."""
    col = gl.arange(0, P, layout=gl.BlockedLayout([4], [32], [n_warps], [0]))
    async_copy.async_copy_global_to_shared(halves.index(0), X + col)
    async_copy.async_copy_global_to_shared(halves.index(1), X + P + col)
    async_copy.commit_group()


@gluon.jit(do_not_specialize=_ANY_COUNT)
def _transform_halves(X, n, x_stride, shape: gl.constexpr, A: gl.constexpr, B: gl.constexpr, C: gl.constexpr,  # type: ignore[no-untyped-def]
                      F: gl.constexpr):  # fmt: skip
    """Transform rows of twice as many columns: H of each half, and one more butterfly; prefetch the next row."""
    P: gl.constexpr = shape[1] * shape[2] * shape[3] * 64
    halves = gl.allocate_shared_memory(gl.float32, [2, P], gl.SwizzledSharedLayout(1, 1, 1, [0]))
    row = gl.program_id(0).to(gl.int64)
    _fetch(X + row * x_stride, halves, P, shape[3])
    while row < n:
        async_copy.wait_group(0)
        a = gl.convert_layout(gl.reshape(halves.index(0).load(F), shape), C, assert_trivial=True)
        b = gl.convert_layout(gl.reshape(halves.index(1).load(F), shape), C, assert_trivial=True)
        at = X + row * x_stride + threads_part(C, shape, 2) + registers_part(C, shape, 2)
        row += gl.num_programs(0)
        if row < n:
            _fetch(X + row * x_stride, halves, P, shape[3])
        a = _hadamard(a, shape, A, B, C)
        b = _hadamard(b, shape, A, B, C)
        gl.store(at, a + b)
        gl.store(at + P, a - b)


@lru_cache
def _processors(device: int) -> int:
    return int(triton.runtime.driver.active.utils.get_device_properties(device)["multiprocessor_count"])


def fwht(X: Tensor) -> None:
    """Transform every row of a float32 tensor (Walsh-Hadamard), in place."""
    n, q = len(X), X.shape[1].bit_length() - 1
    if q >= _HALVES_BITS:  # a program a processor: more do not fit
        t = tile(q - 1)
        grid = (min(n, _processors(X.device.index or 0)),)
        _transform_halves[grid](X, n, X.stride(0), t.shape, t.A, t.B, t.C, t.flat, num_warps=t.n_warps)
    else:
        t = tile(q, 6 if q == 14 else 5)
        whole = n % t.n_rows == 0
        _transform[(-(-n // t.n_rows),)](X, n, X.stride(0), t.shape, t.A, t.B, t.C, whole, num_warps=t.n_warps)
