"""Every operation of a backend in plain torch, for tensors on any device.

Deterministic: no sum is made by atomic additions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from bochner.backends import Array
from bochner.backends.torch.memory import Tensor, empty, place, placed

_PRODUCT_ROWS = 8192  # rows converted to float64 at a time
_FAR = 1e8  # a distance from which on Matérn kernels are zero: farther out they would be ∞·0
_INVERTED_ROWS = 128  # rows of triangles that are inverted column by column


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
    """Three sign flips and three Hadamard transforms for each block; `lengths` are the row norms."""
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


def kernel_values(X: Tensor, Y: Tensor, profile: str, out: Tensor) -> None:
    """Write a kernel of unit length scale, or its slope."""
    if X.shape[0] and Y.shape[0]:
        (absolute_distances if profile == "laplacian" else squared_distances)(X, Y, out)
        apply_profile(profile, out)


def apply_profile(profile: str, out: Tensor) -> None:
    """Turn absolute or squared distances into values of a kernel, or into its slope over the distance."""
    name, _, slope = profile.partition(" ")
    if name in ("laplacian", "gaussian"):
        values = torch.exp(-out if name == "laplacian" else -0.5 * out)
        factor: Any = -1.0 if slope else 1.0
    else:
        a = math.sqrt({"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[name]) * out.sqrt().clamp(max=_FAR)
        values = torch.exp(-a)
        if slope:
            factor = {"matern12": -1.0 / a, "matern32": -3.0, "matern52": -5.0 / 3.0 * (1.0 + a)}[name]
        else:
            factor = {"matern12": 1.0, "matern32": 1.0 + a, "matern52": 1.0 + a + a * a / 3.0}[name]
    values = values * factor
    out.copy_(torch.where(out > 0, values, 0.0) if slope else values)


def signed_sums(X: Tensor, Y: Tensor, W: Tensor, out: Tensor) -> None:
    """Weights times the signs of differences, column by column."""
    for column in range(X.shape[1]):
        out[:, column] = (W * torch.sign(X[:, column, None] - Y[:, column])).sum(dim=1)


def sparse_rows(X: Tensor, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Tensor) -> None:
    """Sums of signed columns: the terms of every result one after the other, in the order of the columns."""
    columns, flips = placed.get(indices, "terms", lambda: _terms(indptr, indices, signs, len(lengths)))
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
    M = triangular_inverse(L)
    return M.T @ M


def triangular_inverse(L: Tensor) -> Tensor:
    """L⁻¹ by products of blocks, which a GPU computes faster than it solves for columns.

    The blocks on the diagonal are inverted at once; then [A 0; B C]⁻¹ = [A⁻¹ 0; -C⁻¹BA⁻¹ C⁻¹] doubles their size.
    """
    n = len(L)
    doublings = max(0, -(-n // _INVERTED_ROWS) - 1).bit_length()
    size = -(-n >> doublings)
    padded = L.new_zeros((size << doublings, size << doublings))
    padded[:n, :n] = L
    padded.diagonal()[n:] = 1.0
    M = torch.zeros_like(padded)
    blocks = _diagonal_blocks(padded, size).contiguous()
    unit = torch.eye(size, dtype=L.dtype, device=L.device).expand_as(blocks)
    _diagonal_blocks(M, size).copy_(torch.linalg.solve_triangular(blocks, unit, upper=False))
    for _ in range(doublings):
        both, inverses = (_diagonal_blocks(A, 2 * size) for A in (padded, M))
        upper, lower = inverses[:, :size, :size], inverses[:, size:, size:]
        inverses[:, size:, :size] = -(lower @ both[:, size:, :size]) @ upper
        size *= 2
    return M[:n, :n]


def _diagonal_blocks(A: Tensor, size: int) -> Tensor:
    """Return the blocks (count, size, size) on the diagonal, as a view."""
    count = len(A) // size
    return A.view(count, size, count, size).diagonal(dim1=0, dim2=2).permute(2, 0, 1)


def eigh(G: Tensor) -> tuple[Tensor, Tensor] | None:
    """All eigenvalues and eigenvectors."""
    try:
        return torch.linalg.eigh(G)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        return None
