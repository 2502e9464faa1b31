"""Sums and factorisations of NumPy arrays in tiles, each multiplied on one thread of BLAS.

Their bits do not depend on the number of threads, none of which waits for another before the last tile, and no second
m × m array is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bochner import _native
from bochner.backends import Array, lapack, n_threads
from bochner.backends.reference import reference
from bochner.backends.threads import each, one_thread

_TILE = 512  # rows and columns of a Gram matrix that one thread adds to at a time
_PIECE_ROWS = 2048  # rows that one thread multiplies at a time if columns are few
_MOMENT_ROWS = 128  # rows converted to float64 at a time: they stay in the cache
_PANEL = 1024  # columns that LAPACK factors at a time
_FACTOR_TILE = 256  # rows and columns of a product within a factorisation
_STEP = 128  # columns solved for at a time, by the inverse of their triangle
_RIGHT = 16  # right-hand sides solved for at a time


def parts_of(m: int, step: int) -> list[slice]:
    """Return slices of `step` columns that cover m."""
    return [slice(start, start + step) for start in range(0, m, step)]


def triangle(m: int, step: int) -> list[tuple[slice, slice]]:
    """Return tiles of the upper triangle of m columns; those on the diagonal, half the work, come last."""
    parts = parts_of(m, step)
    return [(parts[i], parts[j]) for j in range(len(parts)) for i in range(j)] + [(part, part) for part in parts]


def gram(Z: Array, out: Array) -> None:
    """Add products of columns, in the precision of Z."""
    if Z.shape[1] < 2 * _TILE:  # too few tiles: a thread multiplies some rows
        pieces = [Z[rows] for rows in parts_of(len(Z), _PIECE_ROWS)]
        products = [np.empty((0, 0))] * len(pieces)

        def multiply(i: int) -> None:
            products[i] = pieces[i].T @ pieces[i]

        with one_thread():
            each(multiply, range(len(pieces)), n_threads())
        for product in products:  # in this order, whichever came first
            out += product.T
        return

    def add(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        out.T[rows, columns] += Z[:, rows].T @ Z[:, columns]

    with one_thread():
        each(add, triangle(Z.shape[1], _TILE), n_threads())


def mirrored(A: Array) -> Array:
    """Copy the lower triangle of A to its upper one, in place."""
    _native.mirror(A.T)
    return A


def add_outer(A: Array, U: Array, V: Array) -> None:
    """Add U Vᵀ, of a few columns, to the rows of A in pieces that stay in the cache."""
    if U.shape[1] == 1:  # NumPy takes six times as long for one column as for two
        U, V = np.repeat(0.5 * U, 2, axis=1), np.repeat(V, 2, axis=1)
    for rows in parts_of(len(A), _PIECE_ROWS // 32):
        A[rows] += U[rows] @ V.T


def congruent(G: Array, A: Array) -> Array:
    """Return the lower triangle of AᵀGA for an upper triangular A, from the lower triangle of G; in Fortran order."""
    whole = mirrored(np.array(G))
    half, out = np.empty(G.shape), np.zeros(G.shape, order="F")

    def multiply(columns: slice) -> None:
        half[:, columns] = whole[:, : columns.stop] @ A[: columns.stop, columns]

    def add(tile: tuple[slice, slice]) -> None:
        columns, rows = tile
        out.T[columns, rows] = half[: rows.stop, columns].T @ A[: rows.stop, rows]

    with one_thread():
        each(multiply, parts_of(len(G), _TILE), n_threads())
        each(add, triangle(len(G), _TILE), n_threads())
    return out


def moments(Z: Array, right: Array, out: Array) -> None:
    """Add products with a few columns, in float64."""
    left = np.ascontiguousarray(right.T)
    parts = parts_of(len(Z), max(2 * _MOMENT_ROWS, 16 * right.shape[1]))  # all their products: an eighth of Z at most
    products = np.zeros((len(parts), right.shape[1], Z.shape[1]))

    def add(i: int) -> None:
        for start in range(parts[i].start, min(parts[i].stop, len(Z)), _MOMENT_ROWS):
            rows = slice(start, min(start + _MOMENT_ROWS, parts[i].stop))
            products[i] += left[:, rows] @ Z[rows].astype(np.float64, copy=False)

    with one_thread():
        each(add, range(len(parts)), n_threads())
    for product in products:  # in this order, whichever came first
        out += product.T


def cholesky(G: Array, shift: float) -> Array | None:
    """Factor G + shift I in the memory of G, which is in Fortran order."""
    np.einsum("ii->i", G)[:] += shift
    return G if factor_in_place(G) else None


def factor_in_place(G: Array) -> bool:
    """Turn the lower triangle of G (m, m) into its Cholesky factor and clear the rest; tell whether there is one.

    Halves, until LAPACK takes over; what links them is pieces and tiles, each on one thread.
    """
    m = len(G)
    if m <= _PANEL or G.dtype == np.float32:
        by_columns = G if G.strides[0] == G.itemsize else np.asfortranarray(G)
        with one_thread():
            found = lapack.potrf(by_columns)
        if by_columns is not G:
            G[:] = by_columns
        return found
    half = m // 2 // _STEP * _STEP
    L, below, corner = G[:half, :half], G[half:, :half], G[half:, half:]
    if not factor_in_place(L):
        return False
    steps = parts_of(half, _STEP)
    inverses = [np.array(L[step, step], order="F") for step in steps]
    with one_thread():
        for inverse in inverses:
            lapack.trtri(inverse)

    # transposed: G is stored by columns, and products come by rows
    def solve(rows: slice) -> None:
        B = below[rows].T
        for step, inverse in zip(steps, inverses, strict=True):
            B[step] = inverse @ (B[step] - L[step, : step.start] @ B[: step.start])

    def subtract(tile: tuple[slice, slice]) -> None:
        rows, columns = tile
        corner[rows, columns].T[:] -= below[columns] @ below[rows].T

    parts = parts_of(m - half, _FACTOR_TILE)
    with one_thread():
        each(solve, parts, n_threads())
        each(subtract, [(a, b) for i, a in enumerate(parts) for b in parts[: i + 1]], n_threads())
    G[:half, half:] = 0.0
    return factor_in_place(corner)


def cholesky_solve(L: Array, B: Array) -> Array:
    """Solve with a few right-hand sides for each thread."""
    out = np.empty(B.shape)
    L = np.asfortranarray(L, np.result_type(L, B))

    def solve(columns: slice) -> None:
        solved = np.array(B[:, columns], L.dtype, order="F")
        lapack.potrs(L, solved)
        out[:, columns] = solved

    with one_thread():
        each(solve, parts_of(B.shape[1], _RIGHT), n_threads())
    return out


def cholesky_inverse(L: Array) -> Array:
    """Invert by LAPACK on one thread."""
    return _inverse(lapack.potri, L)


def triangular_inverse(L: Array) -> Array:
    """Invert by LAPACK on one thread."""
    return _inverse(lapack.trtri, L)


def _inverse(routine: Callable[[Array], None], L: Array) -> Array:
    L = np.asfortranarray(L)
    if len(L):  # of none LAPACK complains in print
        with one_thread():
            routine(L)
    return L


tiled = replace(
    reference,
    name="tiled",
    gram=gram,
    moments=moments,
    cholesky=cholesky,
    cholesky_solve=cholesky_solve,
    cholesky_inverse=cholesky_inverse,
    triangular_inverse=triangular_inverse,
)
