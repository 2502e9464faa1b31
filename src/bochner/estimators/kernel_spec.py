"""What `kernel` and `metric` of a model mean, and the choice of both on a sample of its rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from bochner.backends import Array
from bochner.checks import check_choice, is_auto
from bochner.data.folds import Targets
from bochner.data.sources import Source, limited
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import FeatureSpec
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.kernels.stationary import StationaryKernel
from bochner.tuning.deadline import Deadline
from bochner.tuning.metric_search import (
    METRICS,
    chooses_kernel,
    families_for,
    learns_scales,
    search_metric,
)
from bochner.tuning.metrics import LEFT_OUT, Criterion
from bochner.tuning.policies import ScalePolicy, StartPolicy
from bochner.tuning.scales import tune_length_scale

POLICY = ScalePolicy()


@dataclass(frozen=True)
class KernelChoice:
    """A kernel with numbers as length scales, and what is known of its metric.

    Attributes
    ----------
    kernel : Kernel
    spreads : ndarray of shape (n_features,) or None
        Standard deviations of the columns, if a scale for each was learned.
    """

    kernel: Kernel
    spreads: Array | None = None


@dataclass(frozen=True)
class KernelSpec:
    """What the parameters of a model say about its kernel.

    Attributes
    ----------
    kernel, metric, n_components, fit_intercept, n_restarts, max_seconds, verbose
        Those of the model.
    margins : bool
        Whether the error is that of margins between classes.
    criterion : Criterion
        What metrics are learned to minimise.
    n_landmarks : int
        Landmarks with which leave-one-out errors correct the length scale that evidence chose.
    """

    kernel: Any
    metric: str
    n_components: Any
    fit_intercept: bool = True
    n_restarts: int = 0
    max_seconds: float | None = None
    verbose: int = 0
    margins: bool = False
    criterion: Criterion = LEFT_OUT
    n_landmarks: int = 0

    def tuned(self) -> list[StationaryKernel]:
        """Return the kernels to choose from, whose length scales are tuned; none if the kernel is used as it is."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            return families_for(self.metric)
        kernel = as_kernel(self.kernel)
        auto = isinstance(kernel, StationaryKernel) and isinstance(kernel.length_scale, str)
        if auto and (isinstance(self.kernel, str) or kernel.length_scale == "auto"):
            return [kernel]
        return []

    def check(self, features: FeatureSpec) -> None:
        """Raise an error for a metric that cannot be learned."""
        plain = check_choice("metric", self.metric, METRICS) in ("auto", "isotropic")
        if plain or not features.named or self.tuned():  # a transformer has a kernel of its own
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

    def choose(self, source: Source, features: FeatureSpec, targets: Targets, key: Key) -> KernelChoice:
        """Return the kernel, tuned on a sample of the rows if it is given by name or has length_scale="auto"."""
        kernels = self.tuned()
        if not kernels or not features.named:
            return KernelChoice(kernels[0] if kernels else as_kernel(self.kernel))
        deadline = Deadline(self.max_seconds).share(POLICY.share)
        block = limited(source.sample(POLICY.rows, key.child("tuning")))
        X, Y, learned, spreads = block.X, targets(block.y), None, None
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
                criterion=self.criterion,
                deadline=deadline,
                verbose=self.verbose,
            )
            if learned.weights.ndim:
                spreads = learned.spreads
                most = math.inf if is_auto(self.n_components) else self.n_components
                if len(block) <= min(StartPolicy().sample_rows, most):
                    return KernelChoice(learned.scaled(1.0), spreads)  # learned on all rows, for as many components
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
            fit_intercept=self.fit_intercept,
            n_restarts=self.n_restarts,
            n_landmarks=min(self.n_landmarks, most) if features.name_for(kernel) == "nystrom" else 0,
            margins=self.margins,
            n_samples=source.n_samples,
            start=None if spreads is None else 1.0,
            deadline=deadline,
            verbose=self.verbose,
        )
        return KernelChoice(tuned if learned is None else learned.scaled(float(tuned.length_scale)), spreads)
