"""Base of supervised models: the choice of kernel and metric on a sample of the rows."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_choice, is_auto
from bochner.data.folds import Targets
from bochner.data.sources import Source, limited
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import FeatureSpec
from bochner.estimators.models import KernelModel
from bochner.estimators.parameters import SupervisedParameters
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.kernels.stationary import StationaryKernel
from bochner.tuning.metric_search import (
    METRICS,
    chooses_kernel,
    families_for,
    learns_scales,
    metric_of,
    search_metric,
)
from bochner.tuning.metrics import LEFT_OUT, Criterion
from bochner.tuning.policies import ScalePolicy, StartPolicy
from bochner.tuning.scales import tune_length_scale

POLICY = ScalePolicy()


class SupervisedModel(KernelModel, SupervisedParameters):
    """Parameters and steps that supervised models have in common."""

    _criterion: Criterion = LEFT_OUT  # what metrics are learned to minimise
    _spreads: Array | None = None  # standard deviations of the columns, if a metric was learned
    _tuning_landmarks = 0  # landmarks with which leave-one-out errors correct the length scale that evidence chose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "full"
        return tags

    def _check_options(self) -> None:
        super()._check_options()
        self._check_metric()

    def _tuned_kernels(self) -> list[StationaryKernel]:
        """The kernels to choose from, whose length scales are tuned; none if the kernel is used as it is."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return families_for(self.metric)
        kernel = as_kernel(self.kernel)
        auto = isinstance(kernel, StationaryKernel) and isinstance(kernel.length_scale, str)
        if auto and (isinstance(self.kernel, str) or kernel.length_scale == "auto"):
            return [kernel]
        return []

    def _check_metric(self) -> None:
        """Raise an error for a metric that cannot be learned."""
        given = not isinstance(self.features, str)  # a transformer, which has a kernel of its own
        if check_choice("metric", self.metric, METRICS) in ("auto", "isotropic") or given or self._tuned_kernels():
            return
        kernel = as_kernel(self.kernel)
        if isinstance(kernel, StationaryKernel):
            raise ValueError(
                f"metric={self.metric!r} learns the length scales, and {kernel!r} has numbers for them, or a rule. "
                "Give the kernel by name, or with length_scale='auto'; or leave metric='auto', which uses the kernel "
                "as it is."
            )
        raise ValueError(
            f"metric={self.metric!r} is learned for a single stationary kernel, such as 'rbf' or 'matern32'; of "
            f"{type(kernel).__name__} kernels give the parts their length scales (an array has one for each column, "
            "and kernel.along(directions) a full metric), and leave metric='auto'."
        )

    def _choose_kernel(
        self, source: Source, spec: FeatureSpec, targets: Targets, key: Key, fit_intercept: bool
    ) -> Kernel:
        """The kernel with numbers as length scales, tuned if it is given by name or has length_scale="auto"."""
        self._spreads = None
        kernels = self._tuned_kernels()
        if not kernels or not spec.named:  # a transformer has a kernel of its own
            return kernels[0] if kernels else as_kernel(self.kernel)
        until = None if self.max_seconds is None else time.perf_counter() + POLICY.share * self.max_seconds
        block = limited(source.sample(POLICY.rows, key.child("tuning")))
        X, Y, learned = block.X, targets(block.y), None
        if not chooses_kernel(self.metric, X):
            kernels = kernels[-1:]
        kernel = kernels[0]
        if learns_scales(self.metric, X) or len(kernels) > 1:
            learned = search_metric(
                kernels,
                X,
                Y,
                block.weight,
                metric=self.metric,
                key=key,
                criterion=self._criterion,
                until=until,
                verbose=self.verbose,
            )
            if learned.weights.ndim:
                self._spreads = learned.spreads
                most = math.inf if is_auto(self.n_components) else self.n_components
                if len(block) <= min(StartPolicy().sample_rows, most):
                    return learned.scaled(1.0)  # learned on all rows, for as many components
            kernel, X = learned.kernel, learned.rows(X)
        # no more components than the model will have: with fewer components, longer scales are better
        most = POLICY.components if isinstance(self.n_components, str) else self.n_components
        tuned = tune_length_scale(
            kernel,
            X,
            Y,
            block.weight,
            key=key,
            n_components=min(POLICY.components, most),
            fit_intercept=fit_intercept,
            n_restarts=self.n_restarts,
            n_landmarks=min(self._tuning_landmarks, most) if spec.name_for(kernel) == "nystrom" else 0,
            margins=isinstance(self.alpha, str) and self.alpha == "margin",
            n_samples=source.n_samples,
            start=None if self._spreads is None else 1.0,
            until=until,
            verbose=self.verbose,
        )
        return tuned if learned is None else learned.scaled(float(tuned.length_scale))

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
        if self._spreads is None:
            raise AttributeError(
                "only a learned metric has weights of columns, and this model has one length scale, or a kernel with "
                "numbers: fit with metric='diagonal' or metric='full'."
            )
        return self._spreads
