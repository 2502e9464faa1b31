"""Features of the additive χ² kernel as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from bochner.estimators._validation import check_count, validate_rows
from bochner.estimators.transformers import FeatureTransformer
from bochner.features import FeatureMap, HistogramSamples, check_histograms, histogram_map
from bochner.kernels.algebra import is_positive
from bochner.keys import Key

_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}  # by Vedaldi & Zisserman's figure, as in scikit-learn


class AdditiveChi2Features(FeatureTransformer):
    """Features of the additive χ² kernel Σ_j 2 x_j y_j / (x_j + y_j) of histograms and counts.

    Without `n_components`, the spectrum is sampled at regular frequencies: the columns of scikit-learn's
    AdditiveChi2Sampler, deterministic, sparse for sparse data, with a small fixed error. With `n_components`, waves are
    drawn at random: any number of columns, without bias.

    Parameters
    ----------
    sample_steps : int, default=2
        Frequencies, zero included: 2 sample_steps - 1 columns a feature.
    sample_interval : float or None, default=None
        Distance of the frequencies; None takes the usual one for up to three steps.
    n_components : int or None, default=None
        Columns of random waves, instead of regular frequencies.
    random_state : int, RandomState, Generator or None
        For random waves only.

    Attributes
    ----------
    feature_map_ : HistogramSamples or HistogramWaves

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import AdditiveChi2, AdditiveChi2Features
    >>> X = np.random.default_rng(0).uniform(size=(20, 4))
    >>> Z = AdditiveChi2Features(sample_steps=3).fit_transform(X)
    >>> bool(abs(Z @ Z.T - AdditiveChi2()(X)).max() < 0.2)
    True
    """

    def __init__(
        self,
        sample_steps: int = 2,
        *,
        sample_interval: float | None = None,
        n_components: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> AdditiveChi2Features:
        """Choose the frequencies; random ones prefer the features that are large in X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), non-negative
        y : ignored
        """
        steps = check_count("sample_steps", self.sample_steps)
        X = validate_rows(self, X, reset=True)
        check_histograms(X)
        if self.n_components is not None:
            key = Key.from_random_state(self.random_state)
            self.feature_map_: FeatureMap = histogram_map(X, check_count("n_components", self.n_components), key)
            return self
        interval = _INTERVALS.get(steps) if self.sample_interval is None else self.sample_interval
        if interval is None:
            raise ValueError(f"sample_interval must be given for sample_steps={steps}, that is more than 3 steps.")
        if not is_positive(interval):
            raise ValueError(f"sample_interval must be positive, got {interval!r}.")
        self.feature_map_ = HistogramSamples(X.shape[1], steps, float(interval))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
