"""Torch tensors on any device: plain torch operations, and Triton kernels where there is a CUDA device.

Feature maps stay host data; `place` keeps a copy of each of their arrays on a device for as long as the array lives.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from bochner.backends import Backend
from bochner.backends.reference import reference
from bochner.backends.torch import gpu, operations
from bochner.backends.torch.grams import fixed_point, integer_gram
from bochner.backends.torch.memory import (
    Link,
    OutOfMemory,
    Tensor,
    check_device,
    empty,
    fetch,
    fetch_lower,
    forget_memory,
    free_memory,
    from_dlpack,
    keep,
    n_queues,
    own_queue,
    place,
    tensor_on,
)

__all__ = [
    "Link",
    "OutOfMemory",
    "backend_for",
    "check_device",
    "cuda",
    "forget_memory",
    "free_memory",
    "from_dlpack",
    "n_queues",
    "own_queue",
    "plain",
    "tensor_on",
]

plain = replace(
    reference,
    name="torch",
    xp=torch,
    empty=empty,
    place=place,
    keep=keep,
    fetch=fetch,
    dense_pairs=operations.dense_pairs,
    structured_pairs=operations.structured_pairs,
    fastfood_pairs=operations.fastfood_pairs,
    squared_distances=operations.squared_distances,
    absolute_distances=operations.absolute_distances,
    kernel_values=operations.kernel_values,
    signed_sums=operations.signed_sums,
    sparse_rows=operations.sparse_rows,
    gram=operations.gram,
    moments=operations.moments,
    gram_product=operations.gram_product,
    rank_one=operations.rank_one,
    cholesky=operations.cholesky,
    cholesky_solve=operations.cholesky_solve,
    cholesky_inverse=operations.cholesky_inverse,
    triangular_inverse=operations.triangular_inverse,
    eigh=operations.eigh,
    fetch_lower=fetch_lower,
)

# backend of devices that run no kernels of bochner
_slow_cuda = replace(plain, name="cuda", block_bytes=1 << 31, gram=integer_gram, fixed_point=fixed_point)
cuda = replace(
    _slow_cuda,
    fwht=gpu.fwht,
    dense_pairs=gpu.dense_pairs,
    structured_phases=gpu.structured_phases,
    structured_pairs=partial(gpu.structured, as_pairs=True),
    fastfood_phases=gpu.fastfood_phases,
    fastfood_pairs=partial(gpu.fastfood, as_pairs=True),
    squared_distances=partial(gpu.distances, form="squared"),
    absolute_distances=partial(gpu.distances, form="absolute"),
    kernel_values=gpu.kernel_values,
    tiles=gpu.tiles,
    sparse_rows=gpu.sparse_rows,
    gram=partial(integer_gram, split=gpu.split, multiply=gpu.multiply),
    fixed_point=partial(fixed_point, split=gpu.split, multiply=gpu.multiply),
    moments=gpu.moments,
    gram_product=gpu.gram_product,
)


def backend_for(X: Tensor) -> Backend:
    """Return the backend for tensors on the device of X."""
    if not X.is_cuda:
        return plain
    return _slow_cuda if gpu.kernels_for(X.device.index or 0) is None else cuda
