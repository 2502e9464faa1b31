"""Linear projections as feature maps: ZZᵀ ≈ XXᵀ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import scipy.sparse

from bochner.backends import Array
from bochner.features.maps import FeatureMap
from bochner.operators import LinearMap, PickedRows, SparseRows


@dataclass(frozen=True)
class Projection(FeatureMap):
    """X ↦ X Sᵀ.

    Attributes
    ----------
    sketch : LinearMap
        S, of shape (n_components, n_features).
    dense_output : bool
        False keeps sparse rows sparse where S is.
    """

    sketch: LinearMap
    dense_output: bool = True
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.sketch.shape[0]

    def __call__(self, X: Any) -> Array:
        if scipy.sparse.issparse(X) and not self.dense_output and isinstance(self.sketch, (SparseRows, PickedRows)):
            form = scipy.sparse.csr_matrix if scipy.sparse.isspmatrix(X) else scipy.sparse.csr_array
            return form(self.sketch.sparse_product(X))
        return self.sketch.on(X)(X)
