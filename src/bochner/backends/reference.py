"""The specification of every backend entry, in plain NumPy; torch shares the formulas that are the same."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.spatial.distance import cdist

from bochner.backends import SLOPES, Array, Backend, Rows, backend_of, densified
from bochner.backends.memory import empty_columns

FAR = 1e8  # distance from which on Matérn kernels are zero: farther out they would be ∞·0
_PANEL = 128  # rows transposed at a time, so that a panel of the result stays in the cache


def empty(shape: tuple[int, ...], X: Array) -> Array:
    """Return an uninitialised array in the dtype of X."""
    return empty_columns(*shape, X.dtype) if len(shape) == 2 else np.empty(shape, X.dtype)


def place(array: Array, X: Array) -> Array:
    """Return the array, floating-point numbers in the dtype of X."""
    if array.dtype.kind == "c":
        return array.astype(np.result_type(X.dtype, np.complex64), copy=False)
    return array.astype(X.dtype, copy=False) if array.dtype.kind == "f" else array


# -- for arrays of NumPy and of torch ---------------------------------------------------------------------------------


def fwht(X: Array) -> None:
    """Apply the Walsh-Hadamard transform to every row, in place: one butterfly level at a time."""
    xp, (n, p) = backend_of(X).xp, X.shape
    half = 1
    while half < p:
        both = X.reshape(n, p // (2 * half), 2, half)
        a, b = both[:, :, 0], both[:, :, 1]
        total = a + b
        xp.subtract(a, b, out=b)
        a[...] = total
        half *= 2


def pairs(A: Array, scale: float, tail: float, out: Array) -> None:
    """Write columns scale * cos(a), scale * sin(a) of every phase."""
    xp, n_columns = backend_of(A).xp, out.shape[1]
    out[:, 0::2] = xp.cos(A)
    out[:, 1::2] = xp.sin(A[:, : n_columns // 2])
    if n_columns % 2:
        out[:, -1] = xp.cos(A[:, -1] + tail)
    out *= scale


def cosines(A: Array, offsets: Array, scale: float, out: Array) -> None:
    """Write columns scale * cos(a + offset)."""
    backend = backend_of(A)
    out[...] = backend.xp.cos(A + backend.place(offsets, A))
    out *= scale


def dense_pairs(X: Array, W: Array, scale: float, tail: float, out: Array) -> None:
    """Write pairs of X Wᵀ."""
    pairs(X @ backend_of(X).place(W, X).T, scale, tail, out)


def _blocks(signs: Array, out: Array) -> list[tuple[int, slice]]:
    """List the blocks, each with its columns of the result; the last ones may be left out."""
    p = signs.shape[-1]
    return [(i, slice(i * p, min((i + 1) * p, out.shape[1]))) for i in range(len(signs))]


def _padded(X: Array, p: int) -> Array:
    V = backend_of(X).empty((X.shape[0], p), X)
    V[:, : X.shape[1]] = X
    V[:, X.shape[1] :] = 0.0
    return V


def structured_phases(X: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Apply three sign flips and three Hadamard transforms for each block; `lengths` are the row norms."""
    p, place = signs.shape[2], backend_of(X).place
    flips, scales = place(signs, X), place(lengths, X) * p**-1.5
    for block, rows in _blocks(signs, out):
        V = _padded(X, p)
        for flip in (2, 1, 0):
            V *= flips[block, flip]
            fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * scales[rows]


def structured_pairs(X: Array, signs: Array, lengths: Array, scale: float, tail: float, out: Array) -> None:
    """Write pairs of the structured phases."""
    A = backend_of(X).empty((X.shape[0], len(lengths)), X)
    structured_phases(X, signs, lengths, A)
    pairs(A, scale, tail, out)


def fastfood_phases(X: Array, signs: Array, permutations: Array, gains: Array, lengths: Array, out: Array) -> None:
    """Flip, transform, permute, gain, transform; `lengths` are the row scales."""
    place = backend_of(X).place
    flips, orders, factors, scales = (place(array, X) for array in (signs, permutations, gains, lengths))
    for block, rows in _blocks(signs, out):
        V = _padded(X, signs.shape[1])
        V *= flips[block]
        fwht(V)
        V = V[:, orders[block]] * factors[block]
        fwht(V)
        out[:, rows] = V[:, : rows.stop - rows.start] * scales[rows]


def fastfood_pairs(
    X: Array, signs: Array, permutations: Array, gains: Array, lengths: Array, scale: float, tail: float, out: Array
) -> None:
    """Write pairs of the Fastfood phases."""
    A = backend_of(X).empty((X.shape[0], len(lengths)), X)
    fastfood_phases(X, signs, permutations, gains, lengths, A)
    pairs(A, scale, tail, out)


def subsampled_hadamard(X: Array, signs: Array, picks: Array, lengths: Array, out: Array) -> None:
    """Write some coordinates of Hadamard transforms."""
    place = backend_of(X).place
    flips, places, scales = (place(array, X) for array in (signs, picks, lengths))
    for block, rows in _blocks(signs, out):
        V = _padded(X, signs.shape[1])
        V *= flips[block]
        fwht(V)
        out[:, rows] = V[:, places[rows]] * scales[rows]


def nonzeros(A: Array, stops: Array, columns: Array, values: Array) -> None:
    """Write entries that are not zero, row by row."""
    here = A != 0
    columns[stops[0] : stops[-1]] = backend_of(A).xp.where(here)[1]
    values[stops[0] : stops[-1]] = A[here]


# -- for arrays of NumPy ----------------------------------------------------------------------------------------------


def squared_distances(X: Array, Y: Array, out: Array) -> None:
    """Write squared Euclidean distances from the differences, in float64."""
    out[...] = cdist(X, Y, "sqeuclidean")


def absolute_distances(X: Array, Y: Array, out: Array) -> None:
    """Write city-block distances from the differences, in float64."""
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
            a = np.sqrt(3.0) * np.minimum(r, FAR)
            out[...] = (1.0 + a) * np.exp(-a)
        case "matern52":
            a = np.sqrt(5.0) * np.minimum(r, FAR)
            out[...] = (1.0 + a + a * a / 3.0) * np.exp(-a)
        case "gaussian slope":
            out[...] = -np.exp(-0.5 * r * r)
        case "matern12 slope":
            out[...] = -np.exp(-r) / np.where(r > 0, r, 1.0)
        case "matern32 slope":
            out[...] = -3.0 * np.exp(-np.sqrt(3.0) * r)
        case "matern52 slope":
            a = np.sqrt(5.0) * np.minimum(r, FAR)
            out[...] = -5.0 / 3.0 * (1.0 + a) * np.exp(-a)
    if profile in SLOPES:
        out[r == 0] = 0.0


def signed_sums(X: Array, Y: Array, W: Array, out: Array) -> None:
    """Write weights times the signs of differences, column by column, in float64."""
    for column, (x, y) in enumerate(zip(X.T, Y.T, strict=True)):
        out[:, column] = np.einsum("ij,ij->i", W, np.sign(x[:, None] - y), dtype=np.float64)


def sparse_rows(X: Rows, indptr: Array, indices: Array, signs: Array, lengths: Array, out: Array) -> None:
    """Write sums of signed columns."""
    S = scipy.sparse.csc_array((signs.astype(X.dtype), indices, indptr), shape=(len(lengths), X.shape[1]))
    if not isinstance(X, np.ndarray):
        out[...] = densified(X @ S.T)
    else:
        for start in range(0, len(X), _PANEL):
            out[start : start + _PANEL] = (S @ X[start : start + _PANEL].T).T
    out *= lengths.astype(X.dtype)


def gram(Z: Array, out: Array) -> None:
    """Add sums of products of columns, in float64."""
    Z = Z.astype(np.float64, copy=False)
    out += Z.T @ Z


def moments(Z: Array, right: Array, out: Array) -> None:
    """Add products with a few columns, in float64."""
    out += Z.astype(np.float64, copy=False).T @ right


def gram_product(Z: Array, V: Array, weights: Array | None, out: Array) -> None:
    """Add products with the Gram matrix of some rows, in the precision of Z."""
    product = Z @ V.astype(Z.dtype, copy=False)
    if weights is not None:
        product *= weights[:, None].astype(product.dtype, copy=False)
    out += Z.T @ product


def rank_one(G: Array, v: Array, scale: float) -> None:
    """Add scale v vᵀ to the lower triangle."""
    scipy.linalg.blas.dsyr(scale, v, a=G, lower=1, overwrite_a=1)


def cholesky(G: Array, shift: float) -> Array | None:
    """Return L with LLᵀ = G + shift I, or None."""
    try:
        return np.linalg.cholesky(G + shift * np.eye(len(G)))
    except np.linalg.LinAlgError:
        return None


def eigh(G: Array) -> tuple[Array, Array] | None:
    """Return eigenvalues and eigenvectors by divide and conquer, or None if that does not converge."""
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
    keep=lambda array, X: None,  # arrays are their own copies
    fetch=np.asarray,
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
    fixed_point=lambda Z, seen, budget: None,
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
