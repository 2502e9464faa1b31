"""Operations on a GPU: by Triton kernels where they take the tensors, otherwise by torch's own operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.linalg
import torch

from bochner.backends import PROFILES, Array, Form, matmul_precision, reference
from bochner.backends.plans import FEWEST_BITS, Plans, plans_for
from bochner.backends.torch import grams, operations
from bochner.backends.torch.memory import Tensor, place, placed

_WIDE_BYTES = 1 << 30  # bytes of float64 phases at a time
_DENSE_WIDTH = 64  # width up to which blocks of transforms are multiplied out
_FEW_COLUMNS = 2  # columns of V up to which Z is read once for each; more are faster as matrix products


_tried: ContextVar[Plans | None] = ContextVar("_tried", default=None)


@lru_cache
def _known_plans(device: int) -> Plans | None:
    return plans_for(torch.cuda.get_device_capability(device))


def plans_on(X: Tensor) -> Plans:
    """Return the plans of kernels on the device of X, which runs some."""
    plans = _tried.get() or _known_plans(X.device.index or 0)
    assert plans is not None
    return plans


@contextmanager
def use_plans(plans: Plans) -> Iterator[None]:
    """Run the body with other plans than those of the card."""
    token = _tried.set(plans)
    try:
        yield
    finally:
        _tried.reset(token)


@lru_cache
def kernels_for(device: int) -> Any:
    """Return the module of Triton kernels if they run on this device, else None."""
    try:
        from bochner.backends import _triton
    except (ImportError, AttributeError):  # no Triton, or a version with another Gluon
        return None
    return None if _known_plans(device) is None else _triton


def _fast(X: Tensor) -> ModuleType | None:
    """Return the kernels if they accept this tensor, else None."""
    if X.dtype != torch.float32 or X.shape[0] == 0 or (X.shape[1] > 1 and X.stride(1) != 1):
        return None
    return kernels_for(X.device.index or 0)


def fwht(X: Tensor) -> None:
    """Apply the Walsh-Hadamard transform to every row, in place."""
    q = X.shape[1].bit_length() - 1
    kernels = _fast(X)
    if kernels is None or not FEWEST_BITS <= q <= plans_on(X).most_bits:
        reference.fwht(X)
    else:
        kernels.transforms.fwht(X)


def dense_pairs(X: Tensor, W: Array, scale: float, tail: float, out: Tensor) -> None:
    """Write pairs of X Wᵀ, from products of half-precision parts."""
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _fast(out)
    if kernels is None or plans_on(X).dense is None:
        operations.dense_pairs(X, W, scale, tail, out)
        return
    precise, plans = matmul_precision() != "fast", plans_on(X)
    half = placed.get(W, (str(X.device), "half", precise, plans.dense), lambda: _half_matrix(kernels, W, X, precise))
    if half is None:  # too wide: phases in float64, whose products are as fast on these devices as those of float32
        for start in range(0, len(X), step := max(1, _WIDE_BYTES // (8 * len(W)))):
            rows = slice(start, start + step)
            turns = X[rows].double() @ place(W, X.new_empty(0, dtype=torch.float64)).T
            turns *= 0.5 / np.pi
            turns -= turns.round()
            reference.pairs(turns.to(out.dtype) * (2.0 * np.pi), scale, tail, out[rows])
        return
    halves = torch.empty((len(X), 32 * half.n_chunks * (3 if precise else 1)), dtype=torch.float16, device=X.device)
    scales = torch.empty(len(X), dtype=torch.float32, device=X.device)
    kernels.dense.dense_pairs(X, half, halves, scales, scale, tail, out, plans)


def _half_matrix(kernels: ModuleType, W: Array, X: Tensor, precise: bool) -> Any:
    half = kernels.dense.half_matrix(W, plans_on(X), precise=precise)
    if half is None:
        return None
    return replace(half, matrix=_as_tensor(half.matrix, X), scales=_as_tensor(half.scales, X))


def structured(
    X: Tensor, signs: Array, lengths: Array, scale: float, tail: float, out: Tensor, *, as_pairs: bool
) -> None:
    """Write structured phases, or their pairs."""
    p = signs.shape[2]
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _transforms_for(out, p, 0)
    if kernels is not None:
        plans, q = plans_on(X), p.bit_length() - 1
        words = placed.get(
            signs,
            (str(X.device), "words", plans.structured_plan(q)),
            lambda: _as_tensor(kernels.layouts.pack_signs(signs, plans), X),
        )
        factors = _factors(kernels, lengths, X, signs[:, 0].shape, p**-1.5, as_pairs)
        kernels.blocks.structured(X, words, *factors, scale, tail, out, plans, pairs=as_pairs)
    elif as_pairs and p < _DENSE_WIDTH and _fast(out) is not None:  # the faster way for so few columns
        W, *_ = placed.get(lengths, ("dense", id(signs)), lambda: (_dense_structured(signs, lengths), signs))
        dense_pairs(X, _narrow(W, X), scale, tail, out)
    elif as_pairs:
        operations.structured_pairs(X, signs, lengths, scale, tail, out)
    else:
        reference.structured_phases(X, signs, lengths, out)


def fastfood(
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
    """Write Fastfood phases, or their pairs."""
    p = signs.shape[1]
    X = X if X.stride(1) == 1 else X.contiguous()
    kernels = _transforms_for(out, p, 1)
    if kernels is not None:
        plans, q = plans_on(X), p.bit_length() - 1
        packed, *_ = placed.get(
            signs,
            (str(X.device), "fastfood", id(permutations), id(gains), plans.fastfood_plan(q)),
            lambda: (
                [_as_tensor(part, X) for part in kernels.layouts.pack_fastfood(signs, permutations, gains, plans)],
                permutations,  # held with the result, as long as the key has their ids
                gains,
            ),
        )
        factors = _factors(kernels, lengths, X, signs.shape, 1.0, as_pairs)
        kernels.blocks.fastfood(X, packed, *factors, scale, tail, out, plans, pairs=as_pairs)
    elif as_pairs and p <= _DENSE_WIDTH and _fast(out) is not None:
        parts = (signs, permutations, gains)
        W, *_ = placed.get(lengths, ("dense", *map(id, parts)), lambda: (_dense_fastfood(*parts, lengths), *parts))
        dense_pairs(X, _narrow(W, X), scale, tail, out)
    elif as_pairs:
        operations.fastfood_pairs(X, signs, permutations, gains, lengths, scale, tail, out)
    else:
        reference.fastfood_phases(X, signs, permutations, gains, lengths, out)


def _transforms_for(out: Tensor, p: int, more: int) -> ModuleType | None:
    """Return the kernels if they accept these tensors and transforms of this width, else None."""
    kernels = _fast(out)
    if kernels is None:
        return None
    return kernels if FEWEST_BITS + more <= p.bit_length() - 1 <= plans_on(out).most_bits else None


def _factors(
    kernels: ModuleType, lengths: Array, X: Tensor, shape: tuple[int, int], unit: float, as_pairs: bool
) -> list[Tensor]:
    """Return lengths of whole blocks (blocks, p), in turns for pairs, as float32 and float64, with their limits."""

    def padded() -> list[Tensor]:
        factors = np.zeros(shape)
        factors.reshape(-1)[: len(lengths)] = lengths.astype(float) * (unit / (2.0 * np.pi) if as_pairs else unit)
        parts = (factors.astype(np.float32).reshape(-1), factors.reshape(-1), kernels.blocks.limits_of(factors))
        return [_as_tensor(part, X) for part in parts]

    return placed.get(lengths, (str(X.device), shape, unit, as_pairs), padded)


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
    """Return the columns of W that X has; the same array every time."""
    d = X.shape[1]
    return W if d == W.shape[1] else placed.get(W, ("narrow", d), lambda: np.ascontiguousarray(W[:, :d]))


def _as_tensor(array: Array, X: Tensor) -> Tensor:
    return torch.from_numpy(array).to(X.device)


def structured_phases(X: Tensor, signs: Array, lengths: Array, out: Tensor) -> None:
    """Write structured phases."""
    structured(X, signs, lengths, 1.0, 0.0, out, as_pairs=False)


def fastfood_phases(X: Tensor, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Tensor) -> None:
    """Write Fastfood phases."""
    fastfood(X, signs, permutations, gains, lengths, 1.0, 0.0, out, as_pairs=False)


_DISTANCES = {
    "squared": operations.squared_distances,
    "absolute": operations.absolute_distances,
}


def distances(X: Tensor, Y: Tensor, out: Tensor, *, form: str) -> None:
    """Write distances, from the differences."""
    Y = place(Y, X)
    kernels = kernels_for(X.device.index or 0)
    if kernels is not None and len(X) and len(Y) and Y.dtype == X.dtype:
        kernels.tiles.stored(X, Y, form, 1, out, plans_on(X))
    else:
        _DISTANCES[form](X, Y, out)


def kernel_values(X: Tensor, Y: Tensor, profile: str, out: Tensor) -> None:
    """Write a kernel of unit length scale."""
    Y, kernels = place(Y, X), kernels_for(X.device.index or 0)
    if kernels is not None and len(X) and len(Y):
        if profile in PROFILES:
            kernels.tiles.stored(X, Y.to(X.dtype), profile, 1, out, plans_on(X))
        else:
            distances(X, Y, out, form="squared")
            operations.apply_profile(profile, out)
    else:
        operations.kernel_values(X, Y, profile, out)


def tiles(X: Tensor, Y: Tensor, form: Form, V: Tensor | None, out: Tensor) -> None:
    """Write kernel values, or their product with V without storing them."""
    Y, kernels = place(Y, X), kernels_for(X.device.index or 0)
    if not (len(X) and len(Y)):
        out.zero_()
    elif V is None:
        kernels.tiles.stored(X, Y.to(X.dtype), *form, out, plans_on(X))
    else:
        out.copy_(kernels.tiles.multiplied(X, Y.to(X.dtype), *form, V, plans_on(X)))


def sparse_rows(X: Tensor, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Tensor) -> None:
    """Write sums of signed columns."""
    kernels = kernels_for(X.device.index or 0)
    if kernels is None or not len(X) or not len(indices) or (out.shape[1] > 1 and out.stride(1) != 1):
        operations.sparse_rows(X, indptr, indices, signs, lengths, out)
        return
    if X.dtype == torch.float32 and kernels.sketches.dense_pays(X.shape[1], len(lengths), len(indices)):
        W = placed.get(
            indices,
            (str(X.device), "signs"),
            lambda: _as_tensor(kernels.sketches.dense_signs(indptr, indices, signs, len(lengths)), X).bfloat16(),
        )
        kernels.sketches.dense_rows(
            X if X.stride(1) == 1 else X.contiguous(), W, place(lengths, X), out, plans_on(X).signs
        )
        return
    terms, starts = placed.get(
        indices,
        (str(X.device), "tiles"),
        lambda: [_as_tensor(a, X) for a in kernels.sketches.pack_terms(indptr, indices, signs, len(lengths))],
    )
    kernels.sketches.sparse_rows(X, terms, starts, place(lengths, X), out)


def moments(Z: Tensor, right: Array, out: Tensor) -> None:
    """Add products with a few columns."""
    kernels = _fast(Z)
    if kernels is None or right.shape[1] > _FEW_COLUMNS or Z.shape[1] < 64:
        operations.moments(Z, right, out)
        return
    there = place(right, out)
    for j in range(right.shape[1]):
        out[:, j] += kernels.tiles.columns_product(Z, there[:, j].contiguous())


def split(Z: Tensor, units: Tensor, n_digits: int, bits: int) -> Tensor:
    """Split rows into digits and round them in place: see `grams.Split`."""
    kernels = _fast(Z)
    return (grams if kernels is None else kernels.digits).split(Z, units, n_digits, bits)


def multiply(a: Tensor, b: Tensor, units: Tensor, factor: float, out: Tensor) -> None:
    """Multiply digits: see `grams.Multiply`."""
    kernels = kernels_for(a.device.index or 0)
    plan = None if kernels is None else plans_on(a).digits
    if plan is None:
        grams.multiply(a, b, units, factor, out)
    else:
        kernels.digits.multiply(a, b, units, factor, out, plan)


def gram_product(Z: Tensor, V: Tensor, weights: Tensor | None, out: Tensor) -> None:
    """Add products with the Gram matrix of some rows."""
    kernels = _fast(Z)
    if kernels is None or V.shape[1] > _FEW_COLUMNS or Z.shape[1] < 64:
        operations.gram_product(Z, V, weights, out)
        return
    for j in range(V.shape[1]):
        product = kernels.tiles.rows_product(Z, V[:, j].contiguous())
        if weights is not None:
            product *= weights
        out[:, j] += kernels.tiles.columns_product(Z, product)
