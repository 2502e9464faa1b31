"""What a feature map is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse

from bochner.backends import Array, backend_of, is_host


class FeatureMap(ABC):
    """X (n, n_features) ↦ Z (n, n_components), in the dtype of X. Takes arrays and CSR matrices, checks nothing."""

    n_components: int

    @property
    def runs_on_device(self) -> bool:
        """Whether it takes arrays of every backend, not NumPy's and SciPy's alone; see `features_of`."""
        return False

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """Features of the rows of X."""

    def into(self, X: Array, out: Array) -> None:
        """Write the features of the rows of X into `out`, (n, n_components), of the dtype of X."""
        out[...] = self(X)

    def gradient(self, X: Array, coefficients: Array) -> Array:
        """Gradients (n, k, n_features) of the functions x ↦ z(x)·w for the k columns w of `coefficients`."""
        raise ValueError(
            f"no derivative is known of the features {type(self).__name__}; those of FourierFeatures and "
            "NystromFeatures have one."
        )


@dataclass(frozen=True)
class Identity(FeatureMap):
    """The columns themselves: features that were made already."""

    n_components: int
    runs_on_device: ClassVar[bool] = True

    def __call__(self, X: Any) -> Array:
        return X.toarray() if scipy.sparse.issparse(X) else X

    def gradient(self, X: Any, coefficients: Array) -> Array:
        return np.tile(coefficients.T.astype(X.dtype), (X.shape[0], 1, 1))


def row_blocks(X: Any, n_columns: int | None = None) -> list[slice]:
    """Rows in blocks, so that a copy of a block with n_columns (None: those of X, scaled or densified) stays small."""
    n, d = X.shape
    rows = max(1, backend_of(X).block_bytes // max(1, (n_columns or d) * X.dtype.itemsize))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def features_of(feature_map: FeatureMap, X: Any) -> Any:
    """Features of the rows of X, an array of any backend, as an array of the same kind on the same device.

    A map that knows host arrays only is given copies of the rows, block by block, and its features are copied back.
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


def check_overflow(Z: Any) -> None:
    """Refuse features of rows so large that products of them are not numbers any more."""
    if isinstance(Z, np.ndarray) and not np.isfinite(np.abs(Z).max(initial=0.0)):
        raise ValueError(
            f"products of these rows overflow {Z.dtype}; divide the rows by their largest norm before `fit`."
        )
