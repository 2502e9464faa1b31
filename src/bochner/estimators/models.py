"""Base of the models: turns any kind of data into a source, and chooses and fits the features."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_count, check_device_name, check_flag
from bochner.data.execution import Execution
from bochner.data.linear import linear_scores
from bochner.data.progress import Stopwatch
from bochner.displays import Summary, shortened
from bochner.estimators.feature_spec import (
    LIMITS,
    FeatureSpec,
    shift_of,
)
from bochner.estimators.parameters import ModelParameters
from bochner.features.maps import FeatureMap


def check_sums(*models: Any) -> None:
    """Raise an error if a model has no sums to which rows can be added."""
    if any(model.statistics_.gram is None for model in models):
        raise ValueError(
            "this model keeps no sums to add to. If it was loaded from a file, fit again and keep them there with "
            "bochner.save(model, path, sums=True); if it was fitted with solver='cg' or 'sgd', use solver='cholesky'."
        )


class KernelModel(ModelParameters):
    """Parameters and steps that the models have in common."""

    n_components: Any
    feature_map_: FeatureMap
    # values for models that have no such parameter
    alpha: Any = None
    checkpoint: str | os.PathLike[str] | None = None
    fit_intercept: bool = True
    n_restarts: int = 0
    precision: str = "full"

    def _check_options(self) -> None:
        """Raise an error for an invalid value of an option that all models have."""
        if self.block_size is not None:
            check_count("block_size", self.block_size)
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, least=0)
        check_flag("fit_intercept", self.fit_intercept)
        if self.device is not None:
            check_device_name(self.device)
        if self.checkpoint is not None and not isinstance(self.checkpoint, (str, os.PathLike)):
            raise ValueError(f"checkpoint must be the path of a file or None, got {self.checkpoint!r}.")

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Set the number of threads, and measure the time of a fit."""
        self.__dict__.pop("fit_seconds_", None)
        started = Stopwatch()
        with Execution.of(self).threads():
            yield
        self.fit_seconds_ = started.seconds()

    def summary(self) -> Summary:
        """What was chosen, how certain that is, and how long the fit took: a table in a terminal or notebook.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import RBF, KernelRidge
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> print(KernelRidge(RBF(2.0), 64, alpha=0.1, random_state=0).fit(X, X[:, 0]).summary())
        KernelRidge, fitted to 200 rows of 2 columns
          kernel: RBF(2.0)
          features: FourierFeatures, 64 components, as given
          alpha: 0.1, as given
          system: cholesky, condition ...
          fit: ... s
        """
        check_is_fitted(self)
        rows = f"{self.n_samples_seen_:,} rows of " if hasattr(self, "n_samples_seen_") else ""
        headline = f"{type(self).__name__}, fitted to {rows}{self.n_features_in_:,} columns"
        return Summary(headline, {name: fact for name, fact in self._summary().items() if fact})

    def _summary(self) -> dict[str, str]:
        """Facts of the summary; subclasses add theirs."""
        certificate = getattr(self, "certificate_", None) or getattr(self.features_, "certificate_", None)
        wanted, m = self.n_components, self.feature_map_.n_components
        given = "" if certificate is not None or isinstance(wanted, str) else ", as given"
        if given and m < wanted:
            given = f" of the {wanted:,} given: the others would add nothing"
        seconds = getattr(self, "fit_seconds_", None)
        return {
            "kernel": shortened(repr(getattr(self.features_, "kernel_", self.kernel))),
            "features": f"{type(self.features_).__name__}, {m:,} components{given}",
            "certainty": "" if certificate is None else str(certificate),
            **self._chosen(),
            "fit": "" if seconds is None else f"{seconds:.3g} s",
        }

    def _chosen(self) -> dict[str, str]:
        """What the model chose besides its features, by name."""
        return {}

    def _scores(self, X: Array, coefficients: Array, intercept: Array) -> Array:
        """Return Zw + b (n, k) in the dtype of X, block by block."""
        run = Execution.of(self)
        with run.threads():
            return linear_scores(self.feature_map_, X, coefficients, intercept, run)

    def _feature_spec(self) -> FeatureSpec:
        """Return what the parameters say about features."""
        return FeatureSpec(
            self.features,
            limits={limit: getattr(self, limit) for limit in LIMITS},
            owner=type(self).__name__,
            precision=self.precision,
            device=self.device,
            n_jobs=self.n_jobs,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.features, "__sklearn_tags__"):  # scikit-learn then splits rows and columns of a kernel matrix
            tags.input_tags.pairwise = get_tags(self.features).input_tags.pairwise
        return tags

    @property
    def _shift(self) -> float:
        """The shift of the fitted features, K ≈ ZZᵀ + shift I."""
        return shift_of(getattr(self, "features_", None))
