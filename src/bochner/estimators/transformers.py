"""What all our transformers share."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array, limit_threads, use_precision
from bochner.estimators._validation import as_tensor, lazily, validate_rows
from bochner.features import features_of


@lazily
class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What all our transformers share: `fit` leaves a `feature_map_`, `transform` validates and calls it."""

    n_jobs: int | None = None
    precision: str = "full"

    def transform(self, X: Any) -> Array:
        """Map rows to features.

        Parameters
        ----------
        X : array-like, CSR matrix or torch tensor of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components), or a tensor on the device of X
            In the dtype of X when that is float32 or float64.
        """
        if not hasattr(self, "feature_map_"):
            check_is_fitted(self)
        X, back = as_tensor(X)
        X = validate_rows(self, X, reset=False)
        with limit_threads(self.n_jobs), use_precision(self.precision):
            Z = features_of(self.feature_map_, X)
        return Z if back is None else back(Z)

    @property
    def _n_features_out(self) -> int:
        return int(self.feature_map_.n_components)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
