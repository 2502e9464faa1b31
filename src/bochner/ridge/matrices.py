"""Matrices as arguments: arrays, CSR, and anything with a shape and a product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, TypeAlias, TypeGuard, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator
from sklearn.utils.validation import check_array

from bochner.backends import FLOATS, Array, DType, is_sparse, n_threads
from bochner.checks import power_of_two
from bochner.draws.keys import Key
from bochner.draws.linear_maps import LinearMap
from bochner.ridge.reports import check_range

_BLOCK = 1 << 26  # bytes of the columns of an operator that are held at a time
_CACHE = 1 << 20  # bytes of a block of rows that is read once for two products
_SHARES = 16  # parts of the rows, shared among threads
_TILE = 512  # rows and columns that are compared with their transpose at a time


@dataclass(frozen=True)
class Operator:
    """A matrix known by its products: ``A @ B`` and ``A.T @ B``, in float64."""

    shape: tuple[int, int]
    forward: Callable[[Array], Any]
    backward: Callable[[Array], Any]
    dtype: ClassVar[Any] = np.dtype(np.float64)

    @property
    def T(self) -> Operator:  # noqa: N802
        return Operator(self.shape[::-1], self.backward, self.forward)

    def __matmul__(self, B: Array) -> Array:
        if B.ndim == 1:
            return self @ B[:, None] @ np.ones(1)
        product = np.asarray(self.forward(B))
        expected = (self.shape[0], B.shape[1])
        if product.shape != expected:
            raise ValueError(
                f"an operator of shape {self.shape} times an array of shape {B.shape} gave shape {product.shape}, "
                f"not {expected}; check its matmul."
            )
        if np.iscomplexobj(product) or not np.isfinite(product).all():
            raise ValueError(
                "the operator's product is complex, NaN or infinite; only finite real matrices are handled."
            )
        return product.astype(np.float64, copy=False)


Matrix: TypeAlias = Array | scipy.sparse.csr_matrix | Operator  # what `as_matrix` returns
# What users may give as a matrix; other objects with a shape and a product are accepted too.
MatrixLike: TypeAlias = ArrayLike | scipy.sparse.csr_matrix | LinearOperator | LinearMap | Operator
Penalties = TypeVar("Penalties", float, Array)


def as_matrix(A: Any, name: str = "A") -> Matrix:
    """Return a finite float array, CSR matrix or `Operator`: each has ``shape``, ``dtype``, ``T`` and ``@``."""
    if isinstance(A, Operator):
        return A
    known = isinstance(A, (np.ndarray, list, tuple)) or is_sparse(A) or hasattr(A, "__array__")
    if known or not (hasattr(A, "shape") and hasattr(A, "__matmul__")):
        A = check_array(_native(A), accept_sparse="csr", dtype=FLOATS, input_name=name)
        if is_sparse(A) and not A.has_canonical_format:
            A = A.copy()
            A.sum_duplicates()
        return A
    if len(A.shape) != 2 or min(A.shape) < 1:
        raise ValueError(f"{name} must have two dimensions, both at least 1; its shape is {tuple(A.shape)}.")
    shape = (int(A.shape[0]), int(A.shape[1]))
    if isinstance(A, LinearMap):
        return Operator(shape, A.__matmul__, lambda B: A.adjoint(np.ascontiguousarray(B.T)).T)

    def forward(B: Array) -> Any:
        return _moderate(A @ B, B)

    def backward(B: Array) -> Any:
        try:
            return _moderate(A.rmatmat(B) if isinstance(A, LinearOperator) else A.T @ B, B)
        except (AttributeError, NotImplementedError, TypeError) as error:
            raise TypeError(
                f"this needs products with the transpose of {name}: give it a `T`, or a LinearOperator an `rmatvec`."
            ) from error

    return Operator(shape, forward, backward)


def _moderate(product: Any, B: Array) -> Any:
    """Return a product if its fourth powers are in range; the units of an operator, unlike an array's, are unknown."""
    size, scale = (float(np.abs(part).max(initial=0.0)) for part in (np.asarray(product), B))
    if 0.0 < size < np.inf and not 1e-75 * scale < size < 1e75 * scale:
        raise ValueError(
            f"the operator multiplies vectors by {size / scale:.1e}, whose powers are beyond the range of float64: "
            "divide it by its scale first."
        )
    return product


def _native(A: Any) -> Any:
    """Return floats in this machine's byte order; scikit-learn would make float64 of float32 in the other one."""
    if isinstance(A, np.ndarray) and A.dtype.kind == "f" and not A.dtype.isnative:
        return A.astype(A.dtype.newbyteorder("="))
    return A


def in_units(A: Matrix, norm: float | None = None) -> tuple[Matrix, float]:
    """Return A / unit and the unit (see `unit_of`), by which `times` of a result multiplies it again."""
    unit = unit_of(A, norm)
    return _divided(A, exponent_of(unit)), unit


def unit_of(A: Matrix, norm: float | None = None) -> float:
    """Return the power of two to divide A by if fourth powers of its entries would overflow or vanish, else 1.

    `norm` is ‖A‖_F where it is known already.
    """
    if isinstance(A, Operator):
        return 1.0
    bound = _bound(A.dtype)
    norm = known_norm(A) if norm is None else norm
    if norm == 0.0 or 1.0 / bound < norm < bound:
        return 1.0
    values = A.data if is_sparse(A) else A
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    # the largest entry is below 2^exponent, which itself may be beyond the range of the dtype
    return 1.0 if 1.0 / bound < largest < bound else float(power_of_two(largest)) / 2.0


def _bound(dtype: DType) -> float:
    """Sizes of less than this, and more than its inverse, are moderate."""
    return min(1e40, float(np.finfo(dtype).max) ** 0.25)


def as_square(A: MatrixLike, name: str = "A") -> Matrix:
    """Do the same as `as_matrix`, for square matrices only."""
    A = as_matrix(A, name)
    if A.shape[0] != A.shape[1]:
        raise ValueError(f"{name} must be square, its shape is {A.shape}.")
    return A


def as_targets(b: ArrayLike, n: int, name: str = "b") -> Array:
    """Return a finite float array of n rows, of one or two dimensions."""
    targets: Array = check_array(_native(b), ensure_2d=False, dtype=FLOATS, input_name=name)
    if targets.ndim not in (1, 2) or targets.shape[0] != n:
        raise ValueError(
            f"{name} must have {n} rows, as the matrix has, and one or two dimensions; its shape is {targets.shape}."
        )
    return targets


def in_column_units(b: Array, dtype: DType) -> tuple[Array, Array]:
    """Return columns b / 2^exponents (n, k) in `dtype`, and the exponents: not 0 where squares would overflow."""
    B = b.reshape(len(b), -1)
    largest = np.abs(B).max(axis=0)
    bound = _bound(dtype)
    moderate = (largest == 0.0) | ((largest > 1.0 / bound) & (largest < bound))
    exponents = np.where(moderate, 0, np.frexp(largest)[1])
    return (np.ldexp(B, -exponents) if exponents.any() else B).astype(dtype, copy=False), exponents


def exponent_of(unit: float) -> int:
    """Return the exponent of a power of two."""
    return int(np.frexp(unit)[1]) - 1


def in_units_of(X: Array, exponents: int | Array) -> Array:
    """Return X · 2^exponents, or raise an error if that is beyond the range of its dtype."""
    if np.any(exponents):
        with np.errstate(over="ignore", under="ignore"):
            X = np.ldexp(X, exponents)
        check_range(X)
    return X


def in_units_with(A: Matrix, alpha: Penalties, power: int) -> tuple[Matrix, Penalties, float]:
    """Return A / unit, alpha / unit^power and the unit, so that neither overflows."""
    exponent, largest = exponent_of(unit_of(A)), int(np.frexp(np.max(alpha))[1])
    if largest - power * exponent > 0.5 * np.finfo(A.dtype).maxexp:  # then A is zero to rounding
        exponent = -(-largest // power) if largest > 0.5 * np.finfo(A.dtype).maxexp else 0
    with np.errstate(under="ignore"):
        scaled: Any = np.ldexp(alpha, -power * exponent)
    # a Python float does not make float64 of float32
    scaled = scaled if np.ndim(alpha) else float(scaled)
    return _divided(A, exponent), scaled, 2.0**exponent


def _divided(A: Matrix, exponent: int) -> Matrix:
    """Return A / 2^exponent."""
    if exponent == 0:
        return A
    if isinstance(A, Operator):
        unit = 2.0**exponent
        return Operator(A.shape, lambda B: A.forward(B) / unit, lambda B: A.backward(B) / unit)
    if is_sparse(A):
        return type(A)((np.ldexp(A.data, -exponent), A.indices, A.indptr), shape=A.shape)
    return np.ldexp(A, -exponent)


def is_symmetric(A: Matrix, probes: Array | None = None, products: Array | None = None) -> bool:
    """Return True if A = Aᵀ, up to what float32 rounds: entry by entry where the entries are known.

    Of an operator, whether ωᵢᵀAωⱼ = ωⱼᵀAωᵢ up to 1e-3 of ‖Aω‖ for the standard normal `probes` ωᵢ, whose `products` may
    be given. With three or more of them an operator with ‖A - Aᵀ‖_F = η ‖A‖_F passes with a probability of about
    (2e-3 / η)² or less; its products need no more than three correct digits.
    """
    if not isinstance(A, Operator):
        tolerance = 100.0 * float(np.finfo(np.float32).eps)
        if is_sparse(A):
            gap = abs(A - A.T)
            return bool(gap.max() <= tolerance * abs(A).max()) if gap.nnz else True
        size = tolerance * max(float(A.max()), -float(A.min()))
        tiles = range(0, len(A), _TILE)
        return all(
            bool((np.abs(A[i : i + _TILE, j : j + _TILE] - A[j : j + _TILE, i : i + _TILE].T) <= size).all())
            for i in tiles
            for j in tiles
            if i <= j
        )
    if probes is None or probes.shape[1] < 3:
        products, probes = None, Key(0).child("symmetry").generator().standard_normal((A.shape[0], 3))
    products = A @ probes if products is None else products
    products = products / (np.abs(products).max() or 1.0)
    H = probes.T @ products
    return bool(np.abs(H - H.T).max() <= 1e-3 * np.linalg.norm(products, axis=0).max())


def check_symmetric(
    A: Matrix, name: str, advice: str, probes: Array | None = None, products: Array | None = None
) -> None:
    """Refuse a matrix that is not symmetric, see `is_symmetric`."""
    if not is_symmetric(A, probes, products):
        raise ValueError(f"{name} is not symmetric. {advice}")


def known_norm(A: Array | scipy.sparse.csr_matrix) -> float:
    """Return ‖A‖_F of an array or a sparse matrix."""
    values = (A.data if is_sparse(A) else A).ravel(order="K")
    if A.dtype == np.float64:
        with np.errstate(over="ignore", under="ignore"):
            square = float(values @ values)  # twice as fast as the safe norm, which is for what overflows or underflows
        if 1e-200 < square < 1e300:
            return square**0.5
    with np.errstate(over="ignore"):
        return float(scipy.linalg.norm(values, check_finite=False))


def diagonal(A: Matrix) -> Array | None:
    """Return the diagonal, or None for an operator."""
    return None if isinstance(A, Operator) else np.asarray(A.diagonal(), np.float64)


def columns(A: Matrix, indices: Array) -> Array:
    """Return A[:, indices], dense."""
    if isinstance(A, Operator):
        selection = np.zeros((A.shape[1], len(indices)))
        selection[indices, np.arange(len(indices))] = 1.0
        return A @ selection
    picked = A[:, indices]
    return picked.toarray() if is_sparse(picked) else np.ascontiguousarray(picked)


def gram_product(A: Matrix, V: Array) -> Array:
    """Return Aᵀ(A V), reading a row-ordered array once instead of twice."""
    if not _row_ordered(A):
        return A.T @ (A @ V)
    return _sum_over_rows(A, V, lambda rows: A[rows].T @ (A[rows] @ V))


def residual_product(A: Matrix, X: Array, B: Array) -> tuple[Array, Array]:
    """Return R = B - A X and AᵀR, reading a row-ordered array once instead of twice."""
    if not _row_ordered(A):
        R = B - A @ X
        return R, A.T @ R
    R = np.empty(B.shape, np.result_type(A, X, B))

    def part(rows: slice) -> Array:
        np.subtract(B[rows], A[rows] @ X, out=R[rows])
        return A[rows].T @ R[rows]

    gradient = _sum_over_rows(A, X, part)
    return R, gradient


def _row_ordered(A: Matrix) -> TypeGuard[Array]:
    return isinstance(A, np.ndarray) and A.flags.c_contiguous and A.nbytes > _CACHE


def _sum_over_rows(A: Array, V: Array, part: Callable[[slice], Array]) -> Array:
    """Sum of part(rows) over blocks of rows of A that stay in the cache, shared among the threads.

    BLAS shares no product of a block this small with few columns among its threads; with many columns it does. There
    are more shares than threads, so that a busy core does not delay the others, and their number is fixed, so that the
    sum does not depend on the number of threads.
    """
    step = max(1, _CACHE // (A.itemsize * A.shape[1]))
    few = V.size <= 4 * len(V)
    n_shares = min(_SHARES, -(-len(A) // step)) if few else 1
    bounds = np.linspace(0, len(A), n_shares + 1).astype(int).tolist()

    def share(start: int, stop: int) -> Array:
        total = np.zeros((A.shape[1], *V.shape[1:]), np.result_type(A, V))
        for first in range(start, stop, step):
            total += part(slice(first, min(first + step, stop)))
        return total

    n = min(n_threads(), n_shares)
    if n == 1:
        return np.sum([share(*pair) for pair in pairwise(bounds)], axis=0)
    with ThreadPoolExecutor(n) as pool:
        return np.sum(list(pool.map(share, bounds[:-1], bounds[1:])), axis=0)


def column_blocks(A: Operator) -> Iterator[Array]:
    """Yield the columns of an operator, as arrays of a bounded number of them."""
    width = max(1, _BLOCK // (8 * A.shape[0]))
    for start in range(0, A.shape[1], width):
        yield columns(A, np.arange(start, min(start + width, A.shape[1])))


def dense(A: Matrix) -> Array:
    """Return A as an array."""
    if isinstance(A, Operator):
        return A @ np.eye(A.shape[1])
    return A.toarray() if is_sparse(A) else A


def left_product(W: Array, A: Matrix) -> Array:
    """Return W A for few rows W; BLAS does it faster than AᵀWᵀ, which sparse matrices and operators get."""
    if isinstance(A, np.ndarray):
        return W @ A
    return np.asarray(A.T @ np.ascontiguousarray(W.T)).T


def orthonormal(Y: Array) -> Array:
    """Return an orthonormal basis of a space that contains the columns of Y, (n, min(n, k))."""
    return orthonormal_rows(Y.T).T


def orthonormal_rows(Y: Array, Q: Array | None = None) -> Array:
    """Return orthonormal rows (min(k, n), n) whose span contains Y; with Q, only those that Y adds to its rows.

    Cholesky factors of Gram matrices, twice: matrix products, where Householder's QR is several times slower on long
    rows. What was nearly inside Q is noise after the first round, and orthogonal to Q only after the second. The
    second Gram matrix says whether the first factor was good enough; if not, Householder, and what Y has outside Q
    only by rounding is dropped: rows made up in its place might be inside Q.
    """
    if not len(Y):
        return Y
    V = Y / (np.abs(Y).max(initial=0.0) or 1.0)
    for tolerance in (np.inf, 0.1):
        V = _without(Q, V)
        G = V @ V.T
        if not np.abs(G - np.eye(len(G), dtype=G.dtype)).max(initial=0.0) <= tolerance:
            break
        potrf, trtri = scipy.linalg.get_lapack_funcs(("potrf", "trtri"), (G,))
        L, failed = potrf(G, lower=True, clean=True)
        if failed:
            break
        V = trtri(L, lower=True, overwrite_c=True)[0] @ V
    else:
        return V
    if Q is None or not len(Q):
        return np.asarray(scipy.linalg.qr(Y.T, mode="economic", check_finite=False)[0].T)
    V = _without(Q, _without(Q, Y))
    basis, R, _ = scipy.linalg.qr(V.T, mode="economic", pivoting=True, check_finite=False)
    rounding = np.finfo(Y.dtype).eps * max(Y.shape) * np.linalg.norm(Y, axis=1).max()
    V = _without(Q, basis.T[np.abs(R.diagonal()) > rounding])
    return np.asarray(scipy.linalg.qr(V.T, mode="economic", check_finite=False)[0].T)


def _without(Q: Array | None, Y: Array) -> Array:
    """Return Y (I - QᵀQ)."""
    return Y if Q is None or not len(Q) else Y - (Y @ Q.T) @ Q
