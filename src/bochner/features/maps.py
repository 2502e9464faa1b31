"""What a feature map is, and the linear one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from bochner.backends import Array, DType, Rows, backend_of, check_moderate, densified, is_host
from bochner.backends.memory import empty_columns, product
from bochner.draws.linear_maps import LinearMap
from bochner.draws.structured import PickedRows, SparseRows
from bochner.kernels.algebra import as_points

_PANEL = 64  # columns multiplied at a time, without the rows that are zero in all of them


def expect(condition: object, value: object, problem: str) -> None:
    """Raise a ValueError unless the condition holds."""
    if not condition:
        raise ValueError(f"{type(value).__name__} with {problem}.")


def within(indices: Array, limit: int) -> bool:
    """Return True if these are integers, all in 0 … limit - 1."""
    return indices.dtype.kind in "iu" and (not indices.size or bool(indices.min() >= 0 and indices.max() < limit))


class FeatureMap(ABC):
    """X (n, n_features) ↦ Z (n, n_components). Takes arrays and CSR matrices, checks nothing."""

    n_components: int

    @property
    def input_width(self) -> int | None:
        """Return the number of features the map accepts, or None if it does not say."""
        return None

    def validate(self) -> None:  # noqa: B027
        """Raise a ValueError unless the fields, each of its own type, fit together: for maps read from files."""

    @property
    def runs_on_device(self) -> bool:
        """Return True if the map accepts arrays of every backend, not only of NumPy and SciPy; see `features_of`."""
        return False

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """Compute the features of the rows of X."""

    def into(self, X: Array, out: Array) -> None:
        """Write the features of the rows of X into `out`, (n, n_components), of the dtype that they have."""
        out[...] = self(X)

    def dtype_of(self, dtype: DType) -> DType:
        """Return the dtype of the features of rows of a dtype."""
        return dtype

    def factored(self) -> tuple[FeatureMap, Array | None]:
        """Return a cheaper map and a matrix A (its components, n_components) with Z = cheaper(X) A; None stands for I.

        Whatever is linear in the features, such as scores ZP and sums Zᵀs, can be multiplied by A once instead of row
        by row: ZP = cheaper(X) (AP) and Zᵀs = Aᵀ (cheaper(X)ᵀ s).
        """
        return self, None

    def gradient(self, X: Array, coefficients: Array) -> Array:
        """Return the gradients (n, k, n_features) of the functions x ↦ z(x)·w for the k columns w of `coefficients`."""
        raise ValueError(
            f"there is no derivative of the features {type(self).__name__}; those of FourierFeatures and "
            "NystromFeatures have one."
        )


@dataclass(frozen=True)
class LinearAfter(FeatureMap):
    """X ↦ inner(X) A.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.features.maps import Identity, LinearAfter
    >>> LinearAfter(Identity(2), np.array([[1.0], [2.0]]))(np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    inner: FeatureMap
    matrix: Array

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return int(self.matrix.shape[1])

    @property
    def runs_on_device(self) -> bool:
        return self.inner.runs_on_device

    @cached_property
    def _panels(self) -> list[tuple[int, slice]]:
        """List panels of columns, each with the number of rows up to the last that is not zero in the panel."""
        found, starts = [], range(0, self.n_components, _PANEL)
        for columns in (slice(start, start + _PANEL) for start in starts):
            used = np.flatnonzero(self.matrix[:, columns].any(axis=1))
            found.append((int(used[-1]) + 1 if len(used) else 0, columns))
        return found

    def __call__(self, X: Array) -> Array:
        Z = self.inner(X)
        if not is_host(Z):
            return Z @ backend_of(Z).place(self.matrix, Z)
        if scipy.sparse.issparse(Z) or Z.dtype != self.matrix.dtype:
            return product(Z, self.matrix)
        out = empty_columns(len(Z), self.n_components, Z.dtype)
        for used, columns in self._panels:
            np.matmul(Z[:, :used], self.matrix[:used, columns], out=out[:, columns])
        return out

    def factored(self) -> tuple[FeatureMap, Array | None]:
        return self.inner, self.matrix

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return self.inner.gradient(X, self.matrix @ coefficients)


@dataclass(frozen=True)
class Identity(FeatureMap):
    """The columns of X themselves: features that were made before."""

    n_components: int
    runs_on_device: ClassVar[bool] = True

    def __call__(self, X: Array) -> Array:
        return densified(X)

    def gradient(self, X: Array, coefficients: Array) -> Array:
        return np.tile(coefficients.T.astype(X.dtype), (X.shape[0], 1, 1))


@runtime_checkable
class HasFeatureMap(Protocol):
    """A fitted transformer or model of bochner with features."""

    feature_map_: FeatureMap


@runtime_checkable
class FittedTransformer(HasFeatureMap, Protocol):
    """A fitted transformer of bochner."""

    def transform(self, X: ArrayLike) -> Array: ...


# A feature map, what has one, or any other function or transformer of rows.
Features: TypeAlias = FeatureMap | HasFeatureMap | Callable[[Array], Array]


def feature_map_of(features: object) -> object:
    """Return the feature map of a fitted transformer of bochner; other features as they are."""
    return features.feature_map_ if isinstance(features, HasFeatureMap) else features


class FeatureMatrix:
    """The features Z of rows as a matrix that is never held: products make them again, block by block.

    It has a ``shape``, ``@`` and ``T``, so that every function of `bochner.linalg` takes it.

    Parameters
    ----------
    features : fitted transformer of bochner, or FeatureMap
        What makes the features of the rows.
    X : array or CSR matrix of shape (n_samples, n_features)

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FeatureMatrix, FourierFeatures
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> features = FourierFeatures(n_components=32, random_state=0).fit(X)
    >>> Z = FeatureMatrix(features, X)
    >>> Z.shape, bool(np.allclose(Z.T @ X, features.transform(X).T @ X))
    ((300, 32), True)
    """

    def __init__(self, features: FittedTransformer | FeatureMap, X: ArrayLike) -> None:
        feature_map = feature_map_of(features)
        if not isinstance(feature_map, FeatureMap):
            raise TypeError(f"features must be a fitted transformer of bochner or a FeatureMap, got {features!r}.")
        rows = check_moderate(as_points(X))
        if not rows.shape[0] or not np.isfinite(rows.data if scipy.sparse.issparse(rows) else rows).all():
            raise ValueError("X must have rows, and finite numbers only: no NaN, no infinity.")
        if isinstance(features, FittedTransformer):
            features.transform(rows[:1])  # checks the number of columns
        self.feature_map, self.X = feature_map, rows
        self.shape = (rows.shape[0], feature_map.n_components)

    @property
    def T(self) -> TransposedFeatures:  # noqa: N802
        """Return the transpose, which supports `@` as well."""
        return TransposedFeatures(self)

    def blocks(self) -> Iterator[tuple[slice, Array]]:
        """Yield slices of rows and their features, block by block."""
        for rows in row_blocks(self.X, max(self.X.shape[1], self.shape[1])):
            yield rows, self.feature_map(self.X[rows])

    def __matmul__(self, V: Array) -> Array:
        return np.concatenate([Z @ V for _, Z in self.blocks()])


class TransposedFeatures:
    """The transpose of a `FeatureMatrix`."""

    def __init__(self, matrix: FeatureMatrix) -> None:
        self.T = matrix
        self.shape = matrix.shape[::-1]

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(sum(Z.T @ V[rows] for rows, Z in self.T.blocks()))


def row_blocks(X: Rows, n_columns: int | None = None) -> list[slice]:
    """Split the rows into blocks of which a copy with n_columns (None: those of X, scaled or densified) stays small."""
    n, d = X.shape
    rows = max(1, backend_of(X).block_bytes // max(1, (n_columns or d) * X.dtype.itemsize))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def features_of(feature_map: FeatureMap, X: Array) -> Any:
    """Compute the features of the rows of X, an array of any backend, as an array of that backend on the same device.

    A map that takes only host arrays is given copies of the rows, block by block, and its features are copied back.
    """
    if is_host(X) or feature_map.runs_on_device:
        return feature_map(X)
    backend = backend_of(X)
    first = feature_map(backend.fetch(X[:1]))
    if scipy.sparse.issparse(first):
        return backend.place(feature_map(backend.fetch(X)), X)
    out = backend.empty((X.shape[0], first.shape[1]), backend.place(first, X))
    for rows in row_blocks(X, max(X.shape[1], first.shape[1])):
        out[rows] = backend.place(feature_map(backend.fetch(X[rows])), X)
    return out


def check_overflow(Z: Array) -> None:
    """Refuse features of rows so large that products of them overflow."""
    if isinstance(Z, np.ndarray) and not np.isfinite(np.abs(Z).max(initial=0.0)):
        raise ValueError(
            f"products of these rows overflow {Z.dtype}; divide the rows by their largest norm before `fit`."
        )


@dataclass(frozen=True)
class Projection(FeatureMap):
    """X ↦ X Sᵀ for a sketch S (n_components, n_features); without dense_output sparse rows stay sparse if S is."""

    sketch: LinearMap
    dense_output: bool = True
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.sketch.shape[0]

    @property
    def input_width(self) -> int:
        return self.sketch.shape[1]

    def __call__(self, X: Array) -> Array:
        if scipy.sparse.issparse(X) and not self.dense_output and isinstance(self.sketch, (SparseRows, PickedRows)):
            form = scipy.sparse.csr_matrix if scipy.sparse.isspmatrix(X) else scipy.sparse.csr_array
            return form(self.sketch.sparse_product(X))
        return self.sketch.on(X)(X)
