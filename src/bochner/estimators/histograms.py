"""Features of the additive χ² kernel as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

from bochner.checks import check_count, check_positive, is_auto
from bochner.estimators._validation import validate_rows
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import HistogramSamples, check_histograms, histogram_map
from bochner.kernels import AdditiveChi2
from bochner.keys import Key

_LONGEST = 100.0  # beyond it the spectrum is zero but at its first sample
_INTERVALS = {1: 0.8, 2: 0.5, 3: 0.4}  # by Vedaldi & Zisserman's figure, as in scikit-learn
_INTERVAL = 0.7  # of more steps, over their root: the ends of the spectrum and of the period then err alike


class AdditiveChi2Features(AdaptiveTransformer):
    """Features of the additive χ² kernel Σ_j 2 x_j y_j / (x_j + y_j) of histograms and counts.

    Without `n_components`, the spectrum is sampled at regular frequencies: the components of scikit-learn's
    AdditiveChi2Sampler, deterministic, sparse for sparse data, with a small fixed error. With `n_components`,
    frequencies are drawn at random: any number of components, without bias.

    Parameters
    ----------
    sample_steps : int, default=2
        Number of frequencies, including zero: 2 sample_steps - 1 components for each feature.
    sample_interval : float or None, default=None
        Distance of the frequencies; None takes the usual one for up to three steps, 0.7 / sqrt(sample_steps) for more.
    n_components : int, "auto" or None, default=None
        Number of components, with random instead of regular frequencies. "auto" takes as few regular frequencies as it
        takes for the relative Frobenius error of ZZᵀ on the rows given to `fit` to be at most `tol`; it falls like
        exp(-π sqrt(steps)).
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        For random frequencies only.

    Attributes
    ----------
    feature_map_ : HistogramSamples or HistogramWaves
    kernel_ : AdditiveChi2
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

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
        n_components: Any = None,
        tol: float = 0.05,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
    ) -> None:
        self.sample_steps = sample_steps
        self.sample_interval = sample_interval
        self.n_components = n_components
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
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
        if self.sample_interval is not None and check_positive("sample_interval", self.sample_interval) > _LONGEST:
            raise ValueError(f"sample_interval must be at most {_LONGEST}, got {self.sample_interval!r}.")
        self.kernel_ = AdditiveChi2()
        d = X.shape[1]

        def regular(n_components: int) -> HistogramSamples:
            steps = max(1, (n_components // d + 1) // 2)
            return HistogramSamples(d, steps, self._interval(steps))

        if self.n_components is None:
            return self._fit_components(X, regular, n_components=(2 * steps - 1) * d)
        self._most_components()
        if is_auto(self.n_components):
            return self._fit_components(X, regular, step=2 * d, first=1)
        key = Key.from_random_state(self.random_state)
        return self._fit_components(X, lambda n_components: histogram_map(X, n_components, key))

    def _interval(self, steps: int) -> float:
        if self.sample_interval is not None:
            return float(self.sample_interval)
        return _INTERVALS.get(steps, _INTERVAL / steps**0.5)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags
