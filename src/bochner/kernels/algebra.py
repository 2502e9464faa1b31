"""What a kernel is, and what sums, products, multiples, powers, restrictions and projections of kernels are."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from bochner.backends import (
    FLOATS,
    Array,
    Form,
    as_native,
    backend_of,
    is_host,
    is_moderate,
    is_sparse,
    is_tensor,
    reading,
)
from bochner.checks import check_count, check_positive, check_weight
from bochner.draws.keys import Key, Seed

_FEW_COLUMNS = 16  # largest number of columns for which `product` uses the tiles of a kernel (bench_gpu)
_GRADIENT_BYTES = 1 << 20  # size of a block of kernel values in `gradient`; a few of them fit into the cache
_SHOWN = 8  # numbers of an array that the repr of a kernel shows
_SCALE_SAMPLE = 1000  # rows used to choose a length scale by "median" or "mean"
Tile = tuple[Array, Array, Form]  # rows to compare, and the name and degree of the kernel that `Backend.tiles` computes


def as_points(X: ArrayLike) -> Array:
    """Return X as a 2-D float32 or float64 array or CSR matrix, see `as_native`; other dtypes become float64."""
    points: Any = X
    if is_sparse(X):
        points = as_native(X).tocsr()
    elif not is_tensor(X):
        with reading("X"):
            points = np.asarray(X)
            if points.dtype.newbyteorder("=") not in FLOATS:  # real numbers; text and complex numbers raise an error
                points = points.astype(np.float64, casting="unsafe" if points.dtype == object else "same_kind")
        points = as_native(points)
    if points.ndim != 2:
        raise ValueError(f"expected a 2-D array of shape (n_samples, n_features), got {points.ndim} dimension(s).")
    if is_tensor(points):
        return points if points.is_floating_point() else points.double()
    return points if points.dtype in FLOATS else points.astype(np.float64)


def finite_points(X: ArrayLike) -> Array:
    """Return `as_points` of at least one row and one column of finite numbers."""
    X = as_points(X)
    if 0 in X.shape:
        raise ValueError(f"X has no rows or no columns, shape {X.shape}.")
    if not np.isfinite(X.data if is_sparse(X) else X).all():
        raise ValueError("X contains NaN or infinity; remove or fill in those values first.")
    return X


class Kernel(BaseEstimator, ABC):
    """A positive definite function k(x, y). Calling it gives the exact Gram block of two sets of rows.

    A kernel is a dataclass without the comparison and the repr of one: its constructor stores its parameters as they
    are, and raises an error for invalid ones.
    """

    __array_ufunc__ = None  # NumPy scalars times a kernel call the kernel's __rmul__
    #: True if k(x, y) depends on x - y alone, so that it has random frequencies
    stationary: bool = False

    @property
    def runs_on_device(self) -> bool:
        """True if blocks are computed for arrays of every backend, not only of NumPy and SciPy."""
        return False

    def __post_init__(self) -> None:
        """Raise an error for an invalid parameter."""

    def set_params(self, **params: object) -> Kernel:
        """Set parameters by their names, after the checks of the constructor."""
        super().set_params(**params)
        self.__post_init__()
        return self

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Array:
        """Return the exact Gram block k(x_i, y_j), (n_samples_X, n_samples_Y); Y defaults to X."""
        X = as_points(X)
        Y = X if Y is None else as_points(Y)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; they must have the same number.")
        if is_tensor(X) or is_tensor(Y):
            return self._tensor_block(X, Y)
        dtype = np.result_type(X.dtype, Y.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            K = self.block(X.astype(dtype, copy=False), Y.astype(dtype, copy=False))
        return self._representable(K)

    def _representable(self, K: Array) -> Array:
        """Refuse a K that has overflowed, which only kernels that grow with the data can."""
        if not self.stationary and K.size and not (np.isfinite(K.max()) and np.isfinite(K.min())):
            raise ValueError(
                f"{self!r} is not finite on these rows; if it overflows {K.dtype}, divide the rows by their scale "
                "(such as the largest norm) or lower gamma."
            )
        return K

    def _tensor_block(self, X: Array, Y: Array) -> Array:
        """Return the block for one or two tensors, through host memory if the kernel requires it."""
        tensor = X if is_tensor(X) else Y
        backend = backend_of(tensor)
        if is_sparse(X) or is_sparse(Y) or not self.runs_on_device:
            X, Y = (backend.fetch(A) if is_tensor(A) else A for A in (X, Y))
            return backend.place(self(X, Y), tensor)
        return self.block(*(A if is_tensor(A) else backend.place(A, tensor) for A in (X, Y)))

    def diagonal(self, X: ArrayLike) -> Array:
        """Return k(x_i, x_i) for every row of X, (n_samples,), without the Gram matrix."""
        X = as_points(X)
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.block_diagonal(X)
        return values if is_tensor(X) else self._representable(values)

    def resolve(self, X: ArrayLike, random_state: Seed = 0, sample_weight: ArrayLike | None = None) -> Kernel:
        """Return a copy in which every length scale is a number, taken from (a sample of) the rows of X.

        A row of weight w in `sample_weight` counts as w equal rows; `random_state` draws the sample.
        """
        X = as_points(X)
        if 0 in X.shape:
            raise ValueError(
                f"a length scale is chosen from at least one row and one column; X has shape {tuple(X.shape)}."
            )
        weight = np.ones(X.shape[0]) if sample_weight is None else check_weight(sample_weight, X.shape[0])
        if not (weight > 0).all():
            X, weight = X[weight > 0], weight[weight > 0]
            if not len(weight):
                raise ValueError("sample_weight is zero for every row.")
        if X.shape[0] > _SCALE_SAMPLE:
            key = Key.from_random_state(random_state).child("scale")
            rows = np.sort(key.generator().choice(X.shape[0], _SCALE_SAMPLE, replace=False))
            X, weight = X[rows], weight[rows]
        return self.with_scales(backend_of(X).fetch(X) if is_tensor(X) else X, weight)

    def on(self, columns: Sequence[int]) -> Kernel:
        """Return this kernel restricted to some columns of the data."""
        return Restricted(self, columns)

    def along(self, directions: ArrayLike) -> Kernel:
        """Return this kernel of the rows x U: of their coordinates along some directions, the columns of U.

        Parameters
        ----------
        directions : array-like of shape (n_features, n_directions)

        Examples
        --------
        >>> from bochner import RBF
        >>> across = RBF(1.0).along([[1.0], [-1.0]])  # a kernel of the difference of two columns
        >>> float(across([[1.0, 1.0]], [[5.0, 5.0]])[0, 0])
        1.0
        """
        return Projected(self, directions)

    def product(self, X: ArrayLike, Y: ArrayLike, V: ArrayLike) -> Array:
        """Compute k(X, Y) V without storing k(X, Y): V is (n_samples_Y, k), an array like X and Y or wider.

        On a GPU with a program for this kernel, kernel values never leave the registers, and sums are made in
        float64; elsewhere one block of rows is multiplied at a time.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import RBF
        >>> X = np.arange(6.0).reshape(3, 2)
        >>> np.allclose(RBF(2.0).product(X, X, X), RBF(2.0)(X) @ X)
        True
        """
        X, Y = as_points(X), as_points(Y)
        V = _as_columns(V, X)
        if V.ndim != 2 or V.shape[0] != Y.shape[0]:
            raise ValueError(
                f"V must have two dimensions and a row for each of the {Y.shape[0]} rows of Y; got shape "
                f"{tuple(V.shape)}. Write v[:, None] for a single vector."
            )
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y {Y.shape[1]}; a kernel compares rows of equal length.")
        backend = backend_of(X)
        tile = self.tile(X, Y) if backend.tiles is not None and V.shape[1] <= _FEW_COLUMNS else None
        out = backend.empty((X.shape[0], V.shape[1]), V)
        if tile is not None:
            rows, others, form = tile
            backend.tiles(rows, others, form, V, out)  # type: ignore[misc]
            return out
        step = max(1, backend.block_bytes // max(1, 4 * X.dtype.itemsize * Y.shape[0]))
        for start in range(0, X.shape[0], step):
            K: Any = self(X[start : start + step], Y)
            out[start : start + step] = (K.to(V.dtype) if is_tensor(K) else K) @ V
        return out

    def gradient(self, X: ArrayLike, Y: ArrayLike, C: ArrayLike) -> Array:
        """Compute Σ_j C_jk ∂k(x_i, y_j)/∂x_i, (n_samples_X, k, n_features): gradients of Σ_j C_jk k(·, y_j).

        Rows of X are worked through in blocks, so that nothing of n_samples_X × n_samples_Y × n_features numbers is
        made; arrays of devices and sparse ones come to host memory. Where a kernel has a kink, at x_i = y_j or in
        a coordinate in which they agree, its slope is taken to be zero, the mean of both sides.

        Parameters
        ----------
        X : array-like of shape (n_samples_X, n_features)
        Y : array-like of shape (n_samples_Y, n_features)
        C : array-like of shape (n_samples_Y, k)

        Examples
        --------
        >>> from bochner import RBF
        >>> RBF(1.0).gradient([[1.0, 1.0]], [[0.0, 0.0]], [[1.0]]).round(4)
        array([[[-0.3679, -0.3679]]])
        """
        X, Y = (dense(backend_of(A).fetch(A) if is_tensor(A) else A) for A in (as_points(X), as_points(Y)))
        C = as_points(C)
        if X.shape[1] != Y.shape[1]:
            raise ValueError(f"X has {X.shape[1]} features and Y {Y.shape[1]}; a kernel compares rows of equal length.")
        if C.shape[0] != Y.shape[0]:
            raise ValueError(f"C must have a row for each of the {Y.shape[0]} rows of Y; got shape {C.shape}.")
        dtype = np.result_type(X.dtype, Y.dtype)
        X, Y, C = (A.astype(dtype, copy=False) for A in (X, Y, C))
        out = np.empty((X.shape[0], C.shape[1], X.shape[1]), dtype)
        step = max(1, _GRADIENT_BYTES // max(1, dtype.itemsize * Y.shape[0]))
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step]
            for k, c in enumerate(C.T):
                out[start : start + step, k] = self.block_gradient(rows, Y, np.broadcast_to(c, (len(rows), len(c))))
        return out

    def weighted_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        """Compute Σ_j W_ij ∂k(x_i, y_j)/∂x_i, (n, d), of dense rows: coefficients that differ from row to row.

        X, Y and W are arrays of one backend, any of those whose blocks of the kernel are computed there.
        """
        backend = backend_of(X)
        out = backend.empty(tuple(X.shape), X)
        step = max(1, (_GRADIENT_BYTES if is_host(X) else backend.block_bytes) // max(1, X.itemsize * Y.shape[0]))
        for start in range(0, X.shape[0], step):
            rows = slice(start, start + step)
            out[rows] = self.block_gradient(X[rows], Y, W[rows])
        return out

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        """Compute Σ_j W_ij ∂k(x_i, y_j)/∂x_i, (n, d), of a few dense rows; W (n, m) is not changed."""
        raise ValueError(f"there is no derivative of {self!r}; use one of bochner's own kernels.")

    def tile(self, X: Array, Y: Array) -> Tile | None:
        """Return rows to compare, and the name and degree of this kernel, if `Backend.tiles` supports it."""
        return None

    @abstractmethod
    def block(self, X: Array, Y: Array) -> Array: ...

    @abstractmethod
    def block_diagonal(self, X: Array) -> Array: ...

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return clone(self)

    def __add__(self, other: object) -> Kernel:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        if isinstance(other, numbers.Real):
            return Multiple(self, float(other))
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Kernel:
        return Power(self, exponent)

    def __repr__(self) -> str:
        """Write the kernel as an expression, such as ``RBF(3.0) + 0.5 * Matern(1.0)``."""
        shown, values = [], self.get_params(deep=False)
        for name, parameter in signature(type(self)).parameters.items():
            value = values[name]
            if name == "length_scale" or parameter.default is parameter.empty:
                shown.append(_written(value))
            elif repr(value) != repr(parameter.default):
                shown.append(f"{name}={_written(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


def _written(value: object) -> str:
    """Write a parameter as a user would; a long array shows its first numbers only."""
    if isinstance(value, (list, tuple, np.ndarray)):
        if np.size(value) <= _SHOWN:
            return repr(np.asarray(value).tolist())
        if np.ndim(value) > 1:
            return f"{' × '.join(map(str, np.shape(value)))} matrix"
        return f"[{', '.join(map(repr, np.asarray(value).tolist()[:_SHOWN]))}, … {len(value)} in all]"
    if isinstance(value, np.generic):
        return repr(value.item())
    return str(value.__name__) if callable(value) and hasattr(value, "__name__") else repr(value)


def _bracketed(kernel: Kernel, *inside: type) -> str:
    """Write a kernel, in brackets if it is one of these types."""
    return f"({kernel!r})" if isinstance(kernel, inside) else repr(kernel)


def _as_columns(V: ArrayLike, X: Array) -> Array:
    """Return V as an array of moderate numbers, as wide as X or wider; tensors come back as they are."""
    columns: Any = V
    if is_tensor(V):
        return columns
    with reading("V"):
        columns = np.asarray(V)
        kind = np.float64 if columns.dtype.kind not in "fiub" else np.result_type(X.dtype, columns.dtype)
        columns = columns.astype(kind, casting="unsafe" if columns.dtype == object else "same_kind", copy=False)
    if not is_moderate(columns) and np.isfinite(columns).all():
        raise ValueError(f"V holds numbers beyond {np.finfo(columns.dtype).max / 1e4:.1e}; divide it by a constant.")
    return columns


def dense(X: Array) -> Array:
    """Return X as a contiguous array."""
    if is_tensor(X):
        return X
    return X.toarray() if is_sparse(X) else np.ascontiguousarray(X)


def squared_norms(X: Array, dtype: type[np.float64] | None = None) -> Array:
    """Return ‖x‖² of every row of an array or sparse matrix, (n,), summed in a dtype, by default that of X."""
    if is_sparse(X):
        return np.asarray(X.multiply(X).sum(axis=1, dtype=dtype)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=dtype)


def check_kernel(name: str, kernel: object) -> None:
    """Raise an error for a part of a kernel that is no kernel."""
    if not isinstance(kernel, Kernel):
        raise ValueError(f"{name} must be a kernel of bochner, got {kernel!r}; as_kernel makes one of others.")


def check_function(function: object) -> None:
    """Raise an error for a function of a kernel that is none."""
    if not callable(function):
        raise ValueError(f"function must be a function of an array, got {function!r}.")


def entrywise(function: Callable[[Array], Array], t: Array) -> Array:
    """Evaluate a user's function at every entry of t, in the dtype of t, and check what it returns."""
    values = np.asarray(function(t))
    if values.shape != t.shape or values.dtype.kind not in "fiub":
        raise ValueError(
            f"the function of a kernel must return a number for each entry of its argument, of shape {t.shape}; it "
            f"returned an array of shape {values.shape} and type {values.dtype}."
        )
    return values.astype(t.dtype, copy=False)


def numeric_slope(function: Callable[[Array], Array], t: Array, *, even: bool = False) -> Array:
    """Differentiate a user's function at every entry of t by central differences, to about ten digits.

    With `even`, the function is one of distances, and its value at -t is that at t.
    """
    t = t.astype(np.float64, copy=False)
    h = np.cbrt(np.finfo(np.float64).eps) * np.maximum(np.abs(t), 1.0)
    high, low = t + h, t - h
    return np.asarray((function(high) - function(np.abs(low) if even else low)) / (high - low))


@dataclass(eq=False, repr=False)
class Pair(Kernel):
    """Two kernels, from which a third is made."""

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernel("left", self.left)
        check_kernel("right", self.right)

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        return bool(self.left.stationary and self.right.stationary)

    @property
    def runs_on_device(self) -> bool:
        return self.left.runs_on_device and self.right.runs_on_device

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return type(self)(self.left.with_scales(sample, weight), self.right.with_scales(sample, weight))


class Sum(Pair):
    """left + right."""

    def __repr__(self) -> str:
        return f"{self.left!r} + {_bracketed(self.right, Sum)}"

    def block(self, X: Array, Y: Array) -> Array:
        return self.left.block(X, Y) + self.right.block(X, Y)

    def product(self, X: ArrayLike, Y: ArrayLike, V: ArrayLike) -> Array:
        return self.left.product(X, Y, V) + self.right.product(X, Y, V)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        return self.left.block_gradient(X, Y, W) + self.right.block_gradient(X, Y, W)

    def block_diagonal(self, X: Array) -> Array:
        return self.left.block_diagonal(X) + self.right.block_diagonal(X)


class Product(Pair):
    """left * right."""

    def __repr__(self) -> str:
        return f"{_bracketed(self.left, Sum)} * {_bracketed(self.right, Sum, Product, Multiple)}"

    def block(self, X: Array, Y: Array) -> Array:
        return self.left.block(X, Y) * self.right.block(X, Y)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        left, right = self.left, self.right
        return left.block_gradient(X, Y, W * right.block(X, Y)) + right.block_gradient(X, Y, W * left.block(X, Y))

    def block_diagonal(self, X: Array) -> Array:
        return self.left.block_diagonal(X) * self.right.block_diagonal(X)


@dataclass(eq=False, repr=False)
class Wrapper(Kernel):
    """One kernel, `kernel`, from which another is made."""

    kernel: Kernel

    def __post_init__(self) -> None:
        check_kernel("kernel", self.kernel)

    @property
    def stationary(self) -> bool:  # type: ignore[override]
        return bool(self.kernel.stationary)

    @property
    def runs_on_device(self) -> bool:
        return self.kernel.runs_on_device


@dataclass(eq=False, repr=False)
class Multiple(Wrapper):
    """factor * kernel, factor > 0."""

    factor: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("the factor of a kernel", self.factor)

    def __repr__(self) -> str:
        return f"{self.factor!r} * {_bracketed(self.kernel, Sum, Product, Multiple)}"

    def block(self, X: Array, Y: Array) -> Array:
        return self.factor * self.kernel.block(X, Y)

    def product(self, X: ArrayLike, Y: ArrayLike, V: ArrayLike) -> Array:
        return self.factor * self.kernel.product(X, Y, V)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        return self.factor * self.kernel.block_gradient(X, Y, W)

    def block_diagonal(self, X: Array) -> Array:
        return self.factor * self.kernel.block_diagonal(X)

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return Multiple(self.kernel.with_scales(sample, weight), self.factor)


@dataclass(eq=False, repr=False)
class Power(Wrapper):
    """kernel ** exponent for a positive integer exponent: other powers may be indefinite."""

    exponent: int

    def __post_init__(self) -> None:
        super().__post_init__()
        exponent = check_positive("the power of a kernel", self.exponent)
        whole = int(exponent) if exponent.is_integer() else self.exponent
        check_count("the power of a kernel", whole, most=1 << 20)

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel, Pair, Multiple, Power)} ** {self.exponent!r}"

    def block(self, X: Array, Y: Array) -> Array:
        return self.kernel.block(X, Y) ** int(self.exponent)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        q = int(self.exponent)
        return self.kernel.block_gradient(X, Y, q * W * self.kernel.block(X, Y) ** (q - 1))

    def block_diagonal(self, X: Array) -> Array:
        return np.asarray(self.kernel.block_diagonal(X) ** int(self.exponent))

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return Power(self.kernel.with_scales(sample, weight), self.exponent)


@dataclass(eq=False, repr=False)
class Restricted(Wrapper):
    """A kernel of some columns of the data; write ``kernel.on(columns)``."""

    columns: Sequence[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            columns = np.asarray(self.columns)
        except ValueError:
            columns = np.empty(0)
        if columns.ndim != 1 or columns.size == 0 or columns.dtype.kind not in "iu":
            raise ValueError(f"columns must be a non-empty list of integers, got {self.columns!r}.")

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel, Pair, Multiple, Power)}.on({_written(self.columns)})"

    def indices(self, n_features: int) -> Array:
        """Return the columns as an index array, checked against the width of the data."""
        columns = np.asarray(self.columns)
        if columns.min() < -n_features or columns.max() >= n_features:
            raise ValueError(f"columns {self.columns!r} do not exist in data with {n_features} features.")
        return columns % n_features

    def block(self, X: Array, Y: Array) -> Array:
        columns = self.indices(X.shape[1])
        return self.kernel.block(X[:, columns], Y[:, columns])

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        columns = self.indices(X.shape[1])
        out = np.zeros(X.shape, X.dtype)
        inner = self.kernel.block_gradient(np.ascontiguousarray(X[:, columns]), np.ascontiguousarray(Y[:, columns]), W)
        for j, column in enumerate(columns):  # a column may be given twice
            out[:, column] += inner[:, j]
        return out

    def block_diagonal(self, X: Array) -> Array:
        return self.kernel.block_diagonal(X[:, self.indices(X.shape[1])])

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return Restricted(self.kernel.with_scales(sample[:, self.indices(sample.shape[1])], weight), self.columns)


@dataclass(eq=False, repr=False)
class Projected(Wrapper):
    """A kernel of the rows x U, of a linear map of the data; write ``kernel.along(directions)``."""

    directions: ArrayLike

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            U = np.asarray(self.directions, dtype=np.float64)
        except (TypeError, ValueError):
            U = np.empty(0)
        if U.ndim != 2 or not U.size or not np.isfinite(U).all():
            raise ValueError(
                "directions must be finite numbers of shape (n_features, n_directions), a direction in each column; "
                f"got {self.directions!r}."
            )

    def __repr__(self) -> str:
        return f"{_bracketed(self.kernel, Pair, Multiple, Power)}.along({_written(self.directions)})"

    def matrix(self, n_features: int) -> Array:
        """Return U (n_features, n_directions), checked against the width of the data."""
        U = np.asarray(self.directions, dtype=np.float64)
        if U.shape[0] != n_features:
            raise ValueError(f"directions have {U.shape[0]} rows but the data has {n_features} features.")
        return U

    def rows(self, X: Array) -> Array:
        """Return X U, in the dtype of X."""
        U = backend_of(X).place(self.matrix(X.shape[1]), X)
        return np.asarray(X @ U) if is_sparse(X) else X @ U

    def block(self, X: Array, Y: Array) -> Array:
        return self.kernel.block(self.rows(X), self.rows(Y))

    def tile(self, X: Array, Y: Array) -> Tile | None:
        return self.kernel.tile(self.rows(X), self.rows(Y))

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        U = backend_of(X).place(self.matrix(X.shape[1]), X)
        return self.kernel.block_gradient(self.rows(X), self.rows(Y), W) @ U.T

    def block_diagonal(self, X: Array) -> Array:
        return self.kernel.block_diagonal(self.rows(X))

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        return Projected(self.kernel.with_scales(self.rows(sample), weight), self.directions)
