"""Base of supervised models: the choice of kernel and metric on a sample of the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.estimators.kernel_spec import KernelSpec
from bochner.estimators.models import KernelModel
from bochner.estimators.parameters import SupervisedParameters
from bochner.estimators.ridge_fit import RidgeSpec
from bochner.tuning.metric_search import (
    metric_of,
)
from bochner.tuning.policies import ScalePolicy


class SupervisedModel(KernelModel, SupervisedParameters):
    """Parameters and steps that supervised models have in common."""

    _spreads: Array | None  # standard deviations of the columns, if a metric was learned

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "full"
        return tags

    def _check_options(self) -> None:
        super()._check_options()
        self._kernel_spec().check(self._feature_spec())

    def _kernel_spec(self) -> KernelSpec:
        """Return what the parameters say about the kernel."""
        return KernelSpec(
            self.kernel,
            self.metric,
            self.n_components,
            self.fit_intercept,
            self.n_restarts,
            self.max_seconds,
            self.verbose,
        )

    def _ridge_spec(self, target_shape: tuple[int, ...], alpha: Any, solver: Any) -> RidgeSpec:
        """Return what the parameters say about ridge regression with this penalty."""
        margins = isinstance(alpha, str) and alpha == "margin"
        return RidgeSpec(
            # most landmarks are where most rows are, since that is where predictions are made
            replace(self._feature_spec(), scheme="mixed", takes_shift=True),
            replace(self._kernel_spec(), margins=margins, n_landmarks=ScalePolicy().landmarks),
            target_shape,
            self.n_components,
            alpha,
            solver,
            self.fit_intercept,
            self.tol,
            self.checkpoint,
            self.block_size,
            self.device,
            self.precision,
            self.verbose,
        )

    @property
    def metric_(self) -> Array:
        r"""M of the squared distance (x - y)ᵀ M (x - y) that the kernel measures.

        (n_features, n_features) for ``metric="full"``; for ``metric="diagonal"`` its diagonal, (n_features,), one over
        the squares of the length scales. The distance of the Laplacian kernel is the sum of √M_jj times |x_j - y_j|.
        """
        self._learned_spreads()
        return metric_of(self.features_.kernel_, self.n_features_in_)

    @property
    def feature_importances_(self) -> Array:
        """Shares of the columns in the distances that the kernel measures, (n_features,).

        Standard deviations of the columns (of the sample that the metric was learned on) over their length scales, or
        times the square roots of the diagonal of the metric; they sum to one.
        """
        spreads = self._learned_spreads()
        M = self.metric_
        weights = np.sqrt(M.diagonal() if M.ndim == 2 else M) * spreads
        return np.asarray(weights / weights.sum() if weights.sum() > 0 else np.full(len(weights), 1.0 / len(weights)))

    def _learned_spreads(self) -> Array:
        check_is_fitted(self, "features_")
        spreads = self._spreads
        if spreads is None:
            raise AttributeError(
                "only a learned metric has weights of columns, and this model has one length scale, or a kernel with "
                "numbers: fit with metric='diagonal' or metric='full'."
            )
        return spreads
