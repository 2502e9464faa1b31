"""What a feature map is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import scipy.sparse

from bochner.backends import Array

_BLOCK_BYTES = 1 << 22  # of scaled or densified input held at a time


class FeatureMap(ABC):
    """X (n, n_features) ↦ Z (n, n_components), in the dtype of X. Takes arrays and CSR matrices, checks nothing."""

    n_components: int

    @abstractmethod
    def __call__(self, X: Array) -> Array:
        """Features of the rows of X."""

    def into(self, X: Array, out: Array) -> None:
        """Write the features of the rows of X into `out`, (n, n_components), of the dtype of X."""
        out[...] = self(X)


@dataclass(frozen=True)
class Identity(FeatureMap):
    """The columns themselves: features that were made already."""

    n_components: int

    def __call__(self, X: Any) -> Array:
        return X.toarray() if scipy.sparse.issparse(X) else X


def row_blocks(X: Any, n_columns: int | None = None) -> list[slice]:
    """Rows in blocks, so that a copy of a block with n_columns (None: those of X, scaled or densified) stays small."""
    n, d = X.shape
    rows = max(1, _BLOCK_BYTES // max(1, (n_columns or d) * X.dtype.itemsize))
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
