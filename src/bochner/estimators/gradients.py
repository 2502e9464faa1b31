"""Gradients of fitted models: how the prediction changes with each column of the data."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.data.execution import Execution
from bochner.data.sources import default_rows
from bochner.data.validation import as_host, map_dask_blocks, validate_rows


class GradientMixin:
    """`predict_gradient` for models that are linear in features with a derivative."""

    @map_dask_blocks
    def predict_gradient(self, X: Any) -> Array:
        """The gradient of the prediction (of a classifier: of the decision function) at each row, block by block.

        Fourier features of every kind and Nyström features of kernels with a derivative have one. Where a kernel has a
        kink, as the Laplacian has at its landmarks, the slope is the mean of both sides.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        gradient : ndarray of shape (n_samples, n_features), or (n_samples, n_scores, n_features)
            The latter where there are several targets, or more than two classes.
        """
        model: Any = self
        check_is_fitted(model)
        X = as_host(validate_rows(model, X, reset=False))
        coefficients = model.component_weights_.T if is_classifier(model) else model._current().coefficients
        single = coefficients.shape[1] == 1 if is_classifier(model) else model._target_shape == ()
        feature_map, rows = model.feature_map_, default_rows(coefficients.shape[0], X.dtype)
        with Execution.of(model).threads():
            parts = [feature_map.gradient(X[i : i + rows], coefficients) for i in range(0, X.shape[0], rows)]
        gradient = np.concatenate(parts)
        return gradient[:, 0] if single else gradient
