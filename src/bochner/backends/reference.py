"""The specification of every backend entry, in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.spatial.distance import cdist

from bochner.backends import SLOPES, Array, Backend
from bochner.backends.memory import empty_columns


def empty(shape: tuple[int, ...], X: Any) -> Array:
    """Uninitialised, in the dtype of X."""
    return empty_columns(*shape, X.dtype) if len(shape) == 2 else np.empty(shape, X.dtype)


def place(array: Array, X: Any) -> Array:
    """Return the array, floating-point numbers in the dtype of X."""
    if array.dtype.kind == "c":
        return array.astype(np.result_type(X.dtype, np.complex64), copy=False)
    return array.astype(X.dtype, copy=False) if array.dtype.kind == "f" else array


def keep(array: Array, X: Any) -> None:
    """Nothing to keep: arrays are their own copies."""


def fetch(X: Any) -> Array:
    """X itself."""
    return np.asarray(X)


def fwht(X: Array) -> None:
    """Walsh-Hadamard transform of every row, in place: one butterfly level at a time."""
    n, p = X.shape
    half = 1
    while half < p:
        pairs = X.reshape(n, p // (2 * half), 2, half)
        a, b = pairs[:, :, 0].copy(), pairs[:, :, 1]
        pairs[:, :, 0] += b
        np.subtract(a, b, out=b)
        half *= 2


def pairs(A: Array, scale: float, tail: float, out: Array) -> None:
    """Columns scale * cos(a), scale * sin(a) of every phase."""
    n_columns = out.shape[1]
    out[:, 0::2] = np.cos(A)
    out[:, 1::2] = np.sin(A[:, : n_columns // 2])
    if n_columns % 2:
        out[:, -1] = np.cos(A[:, -1] + A.dtype.type(tail))
    out *= scale


def cosines(A: Array, offsets: Array, scale: float, out: Array) -> None:
    """Columns scale * cos(a + offset)."""
    np.cos(A + offsets.astype(A.dtype, copy=False), out=out)
    out *= scale


def dense_pairs(X: Array, W: Array, scale: float, tail: float, out: Array) -> None:
    """Pairs of X Wᵀ."""
    pairs(X @ W.astype(X.dtype, copy=False).T, scale, tail, out)


def _padded(X: Array, p: int) -> Array:
    padded = np.zeros((X.shape[0], p), X.dtype)
    padded[:, : X.shape[1]] = X
    return padded


def structured_phases(X: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Three sign flips and three Hadamard transforms for each block; `lengths` are the row norms."""
    p = signs.shape[2]
    for block, (first, second, third) in enumerate(signs):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p)
        for flip in (third, second, first):
            V *= flip
            fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * (lengths[rows].astype(X.dtype) * X.dtype.type(p**-1.5))


def structured_pairs(X: Array, signs: Array, lengths: Array, scale: float, tail: float, out: Array) -> None:
    """Pairs of the structured phases."""
    A = np.empty((X.shape[0], len(lengths)), X.dtype)
    structured_phases(X, signs, lengths, A)
    pairs(A, scale, tail, out)


def fastfood_phases(X: Array, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Array) -> None:
    """Flip, transform, permute, gain, transform; `lengths` are the row scales."""
    p = signs.shape[1]
    for block in range(len(signs)):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p) * signs[block]
        fwht(V)
        V = V[:, permutations[block]] * gains[block].astype(X.dtype)
        fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * lengths[rows].astype(X.dtype)


def fastfood_pairs(
    X: Array,
    signs: Array,
    permutations: Array,
    gains: Array,
    lengths: Array,
    scale: float,
    tail: float,
    out: Array,
) -> None:
    """Pairs of the Fastfood phases."""
    A = np.empty((X.shape[0], len(lengths)), X.dtype)
    fastfood_phases(X, signs, permutations, gains, lengths, A)
    pairs(A, scale, tail, out)


def squared_distances(X: Array, Y: Array, out: Array) -> None:
    """Squared Euclidean distances from the differences, in float64."""
    out[...] = cdist(X, Y, "sqeuclidean")


def absolute_distances(X: Array, Y: Array, out: Array) -> None:
    """City-block distances from the differences, in float64."""
    out[...] = cdist(X, Y, "cityblock")


def kernel_values(X: Array, Y: Array, profile: str, out: Array) -> None:
    """Write a kernel of unit length scale, in float64."""
    r = cdist(X, Y, "cityblock" if profile == "laplacian" else "euclidean")
    match profile:
        case "gaussian":
            out[...] = np.exp(-0.5 * r * r)
        case "matern12" | "laplacian":
            out[...] = np.exp(-r)
        case "matern32":
            a = np.sqrt(3.0) * np.minimum(r, _FAR)
            out[...] = (1.0 + a) * np.exp(-a)
        case "matern52":
            a = np.sqrt(5.0) * np.minimum(r, _FAR)
            out[...] = (1.0 + a + a * a / 3.0) * np.exp(-a)
        case "gaussian slope":
            out[...] = -np.exp(-0.5 * r * r)
        case "matern12 slope":
            out[...] = -np.exp(-r) / np.where(r > 0, r, 1.0)
        case "matern32 slope":
            out[...] = -3.0 * np.exp(-np.sqrt(3.0) * r)
        case "matern52 slope":
            a = np.sqrt(5.0) * np.minimum(r, _FAR)
            out[...] = -5.0 / 3.0 * (1.0 + a) * np.exp(-a)
    if profile in SLOPES:
        out[r == 0] = 0.0


def signed_sums(X: Array, Y: Array, W: Array, out: Array) -> None:
    """Weights times the signs of differences, column by column, in float64."""
    for column, (x, y) in enumerate(zip(X.T, Y.T, strict=True)):
        out[:, column] = np.einsum("ij,ij->i", W, np.sign(x[:, None] - y), dtype=np.float64)


_FAR = 1e8  # farther out a·exp(-a) would be ∞·0
_PANEL = 128  # rows turned at a time, so that a panel of the result stays in the cache


def sparse_rows(X: Any, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Sums of signed columns."""
    S = scipy.sparse.csc_array((signs.astype(X.dtype), indices, indptr), shape=(len(lengths), X.shape[1]))
    if scipy.sparse.issparse(X):
        out[...] = (X @ S.T).toarray()
    else:
        for start in range(0, len(X), _PANEL):
            out[start : start + _PANEL] = (S @ X[start : start + _PANEL].T).T
    out *= lengths.astype(X.dtype)


def nonzeros(A: Array, stops: Array, columns: Array, values: Array) -> None:
    """Entries that are not zero, row by row."""
    places = A != 0
    columns[stops[0] : stops[-1]] = np.nonzero(places)[1]
    values[stops[0] : stops[-1]] = A[places]


def subsampled_hadamard(X: Array, signs: Array, picks: Array, lengths: Array, out: Array) -> None:
    """Some coordinates of Hadamard transforms."""
    p = signs.shape[1]
    for block, flip in enumerate(signs):
        rows = slice(block * p, min((block + 1) * p, out.shape[1]))
        V = _padded(X, p) * flip
        fwht(V)
        out[:, rows] = V[:, picks[rows]] * lengths[rows].astype(X.dtype)


def gram(Z: Array, out: Array) -> None:
    """Sums of products of columns, in float64."""
    Z = Z.astype(np.float64, copy=False)
    out += Z.T @ Z


def fixed_point(Z: Array, seen: int = 0, budget: float = 0.0) -> None:
    """Not faster here."""


def moments(Z: Array, right: Array, out: Array) -> None:
    """Products with a few columns, in float64."""
    out += Z.astype(np.float64, copy=False).T @ right


def gram_product(Z: Array, V: Array, weights: Array | None, out: Array) -> None:
    """Products with the Gram matrix of some rows, in the precision of Z."""
    product = Z @ V.astype(Z.dtype, copy=False)
    if weights is not None:
        product *= weights[:, None].astype(product.dtype, copy=False)
    out += Z.T @ product


def rank_one(G: Array, v: Array, scale: float) -> None:
    """Add scale v vᵀ to the lower triangle."""
    scipy.linalg.blas.dsyr(scale, v, a=G, lower=1, overwrite_a=1)


def cholesky(G: Array, shift: float) -> Array | None:
    """LLᵀ = G + shift I."""
    try:
        return np.linalg.cholesky(G + shift * np.eye(len(G)))
    except np.linalg.LinAlgError:
        return None


def eigh(G: Array) -> tuple[Array, Array] | None:
    """Divide and conquer; None if it does not converge."""
    try:
        return scipy.linalg.eigh(G, driver="evd", lower=True, overwrite_a=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        return None


reference = Backend(
    name="reference",
    xp=np,
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
    kernel_values=kernel_values,
    signed_sums=signed_sums,
    sparse_rows=sparse_rows,
    nonzeros=nonzeros,
    subsampled_hadamard=subsampled_hadamard,
    gram=gram,
    fixed_point=fixed_point,
    moments=moments,
    gram_product=gram_product,
    rank_one=rank_one,
    cholesky=cholesky,
    cholesky_solve=lambda L, B: scipy.linalg.cho_solve((L, True), B, check_finite=False),
    cholesky_inverse=lambda L: np.linalg.inv(L @ L.T),
    triangular_inverse=lambda L: scipy.linalg.solve_triangular(L, np.eye(len(L), dtype=L.dtype), lower=True),
    eigh=eigh,
    fetch_lower=lambda G, out: np.copyto(out, G),
)
