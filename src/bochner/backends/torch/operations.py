"""Operations of a backend in plain torch, for tensors on any device, that differ from the formulas of `reference`.

Deterministic: no sum is made by atomic additions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from bochner.backends import Array, reference
from bochner.backends.torch.memory import Tensor, place, placed

_PRODUCT_ROWS = 8192  # rows converted to float64 at a time
_INVERTED_ROWS = 128  # rows of triangles that are inverted column by column


def narrowed(entry: Callable[..., None]) -> Callable[..., None]:
    """Return an entry for pairs that computes phases in the dtype of the result, its last argument."""
    return lambda X, *arguments: entry(X.to(arguments[-1].dtype), *arguments)


dense_pairs = narrowed(reference.dense_pairs)
structured_pairs = narrowed(reference.structured_pairs)
fastfood_pairs = narrowed(reference.fastfood_pairs)


def squared_distances(X: Tensor, Y: Tensor, out: Tensor) -> None:
    """Write squared Euclidean distances, from the differences."""
    if X.shape[0] and Y.shape[0]:
        out.copy_(torch.cdist(X, place(Y, X), compute_mode="donot_use_mm_for_euclid_dist").square_())


def absolute_distances(X: Tensor, Y: Tensor, out: Tensor) -> None:
    """Write city-block distances, from the differences."""
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
        factor: Tensor = -1.0 if slope else 1.0
    else:
        a = math.sqrt({"matern12": 1.0, "matern32": 3.0, "matern52": 5.0}[name]) * out.sqrt().clamp(max=reference.FAR)
        values = torch.exp(-a)
        if slope:
            factor = {"matern12": -1.0 / a, "matern32": -3.0, "matern52": -5.0 / 3.0 * (1.0 + a)}[name]
        else:
            factor = {"matern12": 1.0, "matern32": 1.0 + a, "matern52": 1.0 + a + a * a / 3.0}[name]
    values = values * factor
    out.copy_(torch.where(out > 0, values, 0.0) if slope else values)


def signed_sums(X: Tensor, Y: Tensor, W: Tensor, out: Tensor) -> None:
    """Write weights times the signs of differences, column by column."""
    for column in range(X.shape[1]):
        out[:, column] = (W * torch.sign(X[:, column, None] - Y[:, column])).sum(dim=1)


def sparse_rows(X: Tensor, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Tensor) -> None:
    """Write sums of signed columns: the terms of every result one after the other, in the order of the columns."""
    columns, flips = placed.get(indices, "terms", lambda: _terms(indptr, indices, signs, len(lengths)))
    out.zero_()
    for column, flip in zip(columns, flips, strict=True):
        out += X[:, place(column, X)] * place(flip, X)
    out *= place(lengths, X)


def _terms(indptr: Array, indices: Array, signs: Array, n_rows: int) -> tuple[list[Array], list[Array]]:
    """List columns and signs of the first, second, … term of every row of a matrix given by columns; sign 0 is none."""
    columns = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    order = np.argsort(indices, kind="stable")
    counts = np.bincount(indices, minlength=n_rows)
    places = np.arange(len(indices)) - np.repeat(np.cumsum(counts) - counts, counts)
    depth = int(counts.max(initial=0))
    index, flips = np.zeros((depth, n_rows), np.int64), np.zeros((depth, n_rows), np.int8)
    index[places, indices[order]], flips[places, indices[order]] = columns[order], signs[order]
    return [row.copy() for row in index], [row.copy() for row in flips]


def gram(Z: Tensor, out: Tensor) -> None:
    """Add sums of products of columns, in float64."""
    Z = Z.to(torch.float64)
    out.addmm_(Z.T, Z)


def moments(Z: Tensor, right: Array, out: Tensor) -> None:
    """Add products with a few columns, of rows converted to float64 a few at a time."""
    there = place(right, out)
    for start in range(0, len(Z), _PRODUCT_ROWS):
        rows = slice(start, start + _PRODUCT_ROWS)
        out += Z[rows].double().T @ there[rows]


def gram_product(Z: Tensor, V: Tensor, weights: Tensor | None, out: Tensor) -> None:
    """Add products with the Gram matrix of some rows, converted to float64 a few at a time."""
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
    """Return L with LLᵀ = G + shift I, or None."""
    G.diagonal().add_(shift)
    L, failed = torch.linalg.cholesky_ex(G)
    return None if int(failed) else L


def cholesky_solve(L: Tensor, B: Tensor) -> Tensor:
    """Return (LLᵀ)⁻¹B."""
    return torch.cholesky_solve(B, L)


def cholesky_inverse(L: Tensor) -> Tensor:
    """Return (LLᵀ)⁻¹."""
    M = triangular_inverse(L)
    return M.T @ M


def triangular_inverse(L: Tensor) -> Tensor:
    """Return L⁻¹ by products of blocks, which a GPU computes faster than it solves for columns.

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
    """Return all eigenvalues and eigenvectors, or None."""
    try:
        return torch.linalg.eigh(G)
    except torch.linalg.LinAlgError:  # type: ignore[attr-defined]
        return None
