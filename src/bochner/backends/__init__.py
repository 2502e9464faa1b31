"""Backends: a frozen record of the functions that differ between devices, chosen once by the type of the array.

`reference` is plain NumPy and the specification of every entry; the others replace entries one by one. Entries
write into `out`, which the caller has allocated, and return nothing, except for factorisations.
"""

from __future__ import annotations

import math
import numbers
import os
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Array = NDArray[Any]
# Rows in host memory.
Rows: TypeAlias = Array | scipy.sparse.sparray | scipy.sparse.spmatrix
DType: TypeAlias = np.dtype[Any]
# True for a sparse matrix or array of SciPy, as type checkers understand too.
is_sparse: Callable[[object], TypeGuard[scipy.sparse.csr_matrix]] = scipy.sparse.issparse
T = TypeVar("T")
FLOATS = (np.float64, np.float32)
# Kernels of unit length scale for `Backend.kernel_values`: of squared Euclidean distances, and of absolute ones.
PROFILES = ("gaussian", "matern12", "matern32", "matern52", "laplacian")
# Slopes k'(r) / r of the kernels of Euclidean distances, zero for r = 0.
SLOPES = ("gaussian slope", "matern12 slope", "matern32 slope", "matern52 slope")
# A kernel of two rows for `Backend.tiles`: one of these, or "polynomial", (x·y)^degree.
Form = tuple[str, int]


class FixedPoint(Protocol):
    """Rows of features that are multiples of a unit."""

    @property
    def noise(self) -> float:
        """Return the number of rows times the variance of the rounding errors of an entry."""

    def gram(self, out: Array) -> None:
        """Add ZᵀZ to the lower triangle of `out`, as the entry `gram` does."""


@dataclass(frozen=True)
class Backend:
    """The functions that differ between devices. Shapes: n rows, d features, p = 2^q >= d, T frequencies.

    A pair is the two columns ``scale * cos(a), scale * sin(a)`` of one phase a, side by side. `out` has 2T
    columns, or 2T - 1: then the last one is the single column ``scale * cos(a + tail)``. X, A and out share one
    dtype, float32 or float64; X and out may be rows of a larger array (unit stride along columns). Signs are
    int8 ±1 of shape (blocks, 3, p) (structured) or (blocks, p) (Fastfood), lengths and gains float32; T may end
    inside the last block. No entry changes its inputs except `fwht`.

    What belongs to a map (W, signs, lengths, offsets, picks, …) is always a NumPy array: maps are host data, and a
    backend whose arrays live elsewhere keeps a copy there for as long as the map lives.
    """

    name: str
    # Functions of arrays under NumPy's names: numpy, or torch.
    xp: Any
    # Bytes of a block that a map works through at a time.
    block_bytes: int
    # (shape, X): an uninitialised array of the type, device and dtype of X.
    empty: Callable[[tuple[int, ...], Array], Array]
    # (array, X): a NumPy array (or CSR matrix) as arrays like X are, and where they are; floats in the dtype of X.
    place: Callable[[Array, Any], Any]
    # (array, X): X is what `place` of this NumPy array returns from now on, for arrays like X.
    keep: Callable[[Array, Array], None]
    # (X): X as a NumPy array.
    fetch: Callable[[Array], Array]
    # (X (n, p)): unnormalised Walsh-Hadamard transform of every row, in place, Sylvester order.
    fwht: Callable[[Array], None]
    # (A (n, T), scale, tail, out): pairs of given phases.
    pairs: Callable[[Array, float, float, Array], None]
    # (A (n, T), offsets (T,), scale, out (n, T)): scale * cos(A + offsets).
    cosines: Callable[[Array, Array, float, Array], None]
    # (X, W (T, d), scale, tail, out): pairs of the phases X Wᵀ; X may be float64 where out is float32.
    dense_pairs: Callable[[Array, Array, float, float, Array], None]
    # (X, signs, lengths (T,), out (n, T)): phases lengths * p^(-3/2) * H D0 H D1 H D2 x, block by block.
    structured_phases: Callable[[Array, Array, Array, Array], None]
    # (X, signs, lengths, scale, tail, out): pairs of those phases; X may be float64 where out is float32.
    structured_pairs: Callable[[Array, Array, Array, float, float, Array], None]
    # (X, signs, permutations (blocks, p) int32, gains (blocks, p), lengths (T,), out (n, T)):
    # phases lengths * H (gains * (H (signs * x))[permutation]), block by block; the caller folds in every scale.
    fastfood_phases: Callable[[Array, Array, Array, Array, Array, Array], None]
    # (X, signs, permutations, gains, lengths, scale, tail, out): pairs of those phases, X as there.
    fastfood_pairs: Callable[[Array, Array, Array, Array, Array, float, float, Array], None]
    # (X (n, d), Y (m, d), out (n, m)): sums of squared differences, computed from the differences.
    squared_distances: Callable[[Array, Array, Array], None]
    # (X (n, d), Y (m, d), out (n, m)): sums of absolute differences.
    absolute_distances: Callable[[Array, Array, Array], None]
    # (X (n, d), Y (m, d), profile, out (n, m)): k(X, Y) of a kernel in PROFILES or SLOPES, from the differences.
    kernel_values: Callable[[Array, Array, str, Array], None]
    # (X (n, d), Y (m, d), W (n, m), out (n, d)): Σ_j W_ij sign(x_il - y_jl), in the precision of X.
    signed_sums: Callable[[Array, Array, Array, Array], None]
    # (X (n, d), dense or CSR, indptr (d + 1,), indices and signs (nnz,), lengths (T,), out (n, T)):
    # lengths * X Sᵀ, column j of S having the int8 signs ±1 at the rows indices[indptr[j]:indptr[j + 1]].
    sparse_rows: Callable[[Rows, Array, Array, Array, Array, Array], None]
    # (A (n, T), stops (n + 1,), columns int32, values): where A is not zero and what it is there, row i written from
    # stops[i] to stops[i + 1].
    nonzeros: Callable[[Array, Array, Array, Array], None]
    # (X, signs (blocks, p), picks (T,) int32, lengths (T,), out (n, T)): coordinates lengths * (H (signs * x))[picks]
    # of every block; signs may be zero.
    subsampled_hadamard: Callable[[Array, Array, Array, Array, Array], None]
    # (Z (n, m), out (m, m) float64): adds ZᵀZ to the lower triangle of out, to the precision of Z or better; what is
    # above the diagonal afterwards is not defined.
    gram: Callable[[Array, Array], None]
    # (Z (n, m), seen, budget): the rows as integers that multiply faster than floats, with Z rounded to them in
    # place; or None, where they would not, and Z as it was. They are the last of so many rows, and rounding may add so
    # much to the variance of an entry, or what the finest integers add.
    fixed_point: Callable[[Array, int, float], FixedPoint | None]
    # (Z (n, m), right (n, k) a NumPy array, out (m, k)), all but Z in float64: adds Zᵀ right, summed in float64.
    moments: Callable[[Array, Array, Array], None]
    # (Z (n, m), V (m, k), weights (n,) or None, out (m, k)), all but Z in float64: adds Zᵀ diag(weights) Z V, to the
    # precision of Z or better.
    gram_product: Callable[[Array, Array, Array | None, Array], None]
    # Factorisations of a matrix G (m, m) in float64 of which only the lower triangle is read and which may be
    # overwritten; NumPy's in Fortran order. Those that may fail return None then.
    # (G, v (m,) a NumPy array, scale): adds scale v vᵀ to the lower triangle, in place.
    rank_one: Callable[[Array, Array, float], None]
    # (G, shift): the lower Cholesky factor of G + shift I, zero above its diagonal.
    cholesky: Callable[[Array, float], Array | None]
    # (L (m, m), B (m, k)): (LLᵀ)⁻¹B.
    cholesky_solve: Callable[[Array, Array], Array]
    # (L (m, m)): the lower triangle of (LLᵀ)⁻¹; what is above the diagonal is not defined. L may be overwritten.
    cholesky_inverse: Callable[[Array], Array]
    # (L (m, m)): L⁻¹, zero above the diagonal. L may be overwritten.
    triangular_inverse: Callable[[Array], Array]
    # (G): eigenvalues, the smallest first, and eigenvectors in columns.
    eigh: Callable[[Array], tuple[Array, Array] | None]
    # (G, out (m, m) a NumPy array in Fortran order): copies the lower triangle.
    fetch_lower: Callable[[Array, Array], None]
    # (X (n, d), Y (m, d), form, V (m, k) or None, out): k(X, Y) into out (n, m), or k(X, Y) V into out (n, k), of which
    # k(X, Y) is never stored. None: formulas of distances do it.
    tiles: Callable[[Array, Array, Form, Array | None, Array], None] | None = None


class NoDeviceError(ValueError):
    """A device that exists, but not on this machine."""


def backend_of(X: object) -> Backend:
    """Return the backend for arrays of the type of X."""
    if isinstance(X, np.ndarray) or scipy.sparse.issparse(X):
        return _host_backend()
    if is_tensor(X):
        from bochner.backends.torch import backend_for

        return backend_for(X)
    raise TypeError(
        f"expected a NumPy array or a torch tensor, got {type(X).__name__}; convert it with numpy.asarray first."
    )


def is_tensor(X: object) -> bool:
    """Return True if X is a torch tensor, without importing torch."""
    return any(t.__module__ == "torch" and t.__name__ == "Tensor" for t in type(X).__mro__)


def is_host(X: object) -> bool:
    """Return True if X is an array of NumPy or a sparse matrix of SciPy."""
    return isinstance(X, np.ndarray) or scipy.sparse.issparse(X)


def densified(X: Any) -> Array:
    """Return X with its zeros, if it is sparse."""
    return X.toarray() if scipy.sparse.issparse(X) else X


def times_columns(A: Array, V: Array) -> Array:
    """Multiply A V for arrays of one backend; a single column is multiplied as a vector, which is faster."""
    return (A @ V[:, 0])[:, None] if V.shape[1] == 1 else A @ V


def as_native(X: Any) -> Any:
    """Return X as compiled code reads it: native byte order, aligned, row after row, every entry stored once.

    Arrays and sparse matrices that are so already, and everything else, come back as they are. Rows may be those of a
    larger array.
    """
    if not is_host(X):
        return X
    if isinstance(X, np.ma.MaskedArray):
        refuse_mask(X)
    if not X.dtype.isnative:
        X = X.astype(X.dtype.newbyteorder("="))
    if isinstance(X, np.ndarray):
        # BLAS takes only rows whose entries lie side by side, and how it rounds depends on the layout
        by_rows = X.ndim != 2 or (
            (X.shape[1] <= 1 or X.strides[1] == X.itemsize) and (X.shape[0] <= 1 or X.strides[0] > 0)
        )
        X = X if X.flags.aligned and by_rows else X.copy()
    elif not getattr(X, "has_canonical_format", True):
        X = X.copy()
        X.sum_duplicates()
    return X


def refuse_mask(*arrays: object) -> None:
    """Refuse arrays with masked entries, of which NumPy would take the numbers behind the mask."""
    # extension arrays of pandas have a mask as well, for their gaps, and are checked as such
    if any(isinstance(array, np.ma.MaskedArray) and np.ma.is_masked(array) for array in arrays):
        raise ValueError("the data has masked entries; leave out their rows, or put numbers in their place.")


# Messages of NumPy and pandas about data that are not tables of numbers.
_CONVERSIONS = (
    *("could not convert", "float() argument", "setting an array element", "at least one array or dtype"),
    *("unsupported dtype", "Cannot cast", "cannot convert", "Cannot convert", "not a real number", "be promoted by"),
)


@contextmanager
def reading(name: str, explain: Callable[[str], str | None] | None = None) -> Iterator[None]:
    """Run checks of a user's data, without NumPy's warnings, and with plain errors for what is not a number.

    `explain` may replace a message by a better one, or return None.
    """
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except OverflowError as error:
        raise ValueError(f"{name} holds a number that is too large for float64: {error}.") from None
    except (TypeError, ValueError) as error:
        kind, message = TypeError if isinstance(error, TypeError) else ValueError, str(error)
        if any(part in message for part in _CONVERSIONS):
            message = f"{name} must hold numbers; encode text and fill in what is missing ({error})."
        better = explain(message) if explain is not None else None
        if better is None and message == str(error):
            raise
        raise kind(better or message) from None


def is_moderate(X: Rows) -> bool:
    """Return True if all numbers are so small that their differences and sums are finite."""
    if type(X) is np.ndarray and X.flags.c_contiguous and math.isfinite(np.vdot(X, X)):
        return True  # one quick pass: where squares can be added, every number is below √most
    low, high, most = _extent(X)
    return -most < low and high < most


def check_moderate(X: Array, *, alone: bool = False) -> Array:
    """Return X if `is_moderate`, else raise; with `alone`, also check that rows can be divided by their size."""
    low, high, most = _extent(X)
    largest = max(-low, high)
    if not largest < most:
        raise ValueError(
            f"X holds numbers beyond {most:.1e}, of which differences and sums are infinite in {X.dtype}; divide those "
            f"columns by a constant{', or give float64' if X.dtype.itemsize == 4 else ''}."
        )
    if alone and 0.0 < largest < 1.0 / most:
        raise ValueError(
            f"the largest number of X is {largest:.1e}, too small to divide by in {X.dtype}; multiply X by a "
            f"constant{', or give float64' if X.dtype.itemsize == 4 else ''}."
        )
    return X


def _extent(X: Rows) -> tuple[float, float, float]:
    """Return the smallest and largest number of X (or 0), and the limit for moderate numbers."""
    values = X if isinstance(X, np.ndarray) else X.data
    most = float(np.finfo(values.dtype).max) / 1e4
    return (float(values.min()), float(values.max()), most) if values.size else (0.0, 0.0, most)


class Memo:
    """What was made of an object, remembered for as long as the object lives; objects are compared by identity."""

    def __init__(self) -> None:
        self._made: dict[int, dict[Hashable, Any]] = {}

    def get(self, owner: object, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of `make` for this owner and key, from the first call."""
        number = id(owner)
        found = self._made.get(number)
        if found is None:
            found = self._made[number] = {}
            weakref.finalize(owner, self._made.pop, number, None).atexit = False
        if key not in found:
            found[key] = make()
        return found[key]

    def made(self, owner: object, key: Hashable) -> Any:
        """Return the value remembered for this owner and key, or None."""
        return self._made.get(id(owner), {}).get(key)


@cache
def _host_backend() -> Backend:
    try:
        from bochner.backends.native import native
    except ImportError:  # built without a compiler: everything works, but slower
        from bochner.backends.tiled import tiled

        return tiled
    return native


PRECISIONS = ("full", "fast")
_precision: ContextVar[str] = ContextVar("_precision", default="full")


def matmul_precision() -> str:
    """Return how precisely a GPU computes dense phases: "full" for float32's, or "fast" for 11 bits of the data."""
    return _precision.get()


@contextmanager
def use_precision(precision: str) -> Iterator[None]:
    """Run the body with that precision of dense phases on GPUs; processors always compute in the data's own."""
    token = _precision.set(precision)
    try:
        yield
    finally:
        _precision.reset(token)


_MOST_THREADS = 1 << 16
_thread_limit: ContextVar[int | None] = ContextVar("_thread_limit", default=None)


def n_threads() -> int:
    """Return how many threads a native call may use: `limit_threads`, else OMP_NUM_THREADS, else the cores."""
    limit = _thread_limit.get()
    if limit is not None:
        return limit
    variable = os.environ.get("OMP_NUM_THREADS", "")
    if variable.isdigit() and int(variable) > 0:
        return int(variable)
    return n_cores()


def n_cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def limit_threads(n_jobs: int | None) -> Iterator[None]:
    """Run the body with at most `n_jobs` threads; None changes nothing, -1 means every core, -2 all but one."""
    if n_jobs is None:
        yield
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, numbers.Integral) or not 0 < abs(n_jobs) <= _MOST_THREADS:
        raise ValueError(
            f"n_jobs must not be {n_jobs!r}; use None or -1 for every core, or a positive number of threads."
        )
    token = _thread_limit.set(int(n_jobs) if n_jobs > 0 else max(1, n_cores() + 1 + int(n_jobs)))
    try:
        yield
    finally:
        _thread_limit.reset(token)
