"""Many components of any transformer, projected to fewer."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from bochner.checks import check_count, is_auto
from bochner.estimators._validation import in_memory, validate_rows
from bochner.estimators.maclaurin import MaclaurinFeatures
from bochner.estimators.models import Transformed, real_features
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features import FeatureMap, ProjectedMap
from bochner.kernels import Kernel
from bochner.keys import Key
from bochner.sketches import as_sketch_law


class CompactFeatures(AdaptiveTransformer):
    """Many components of any transformer, projected to fewer (CRAFT maps, Hamid et al. 2014).

    Random features with a high variance, such as the published random Maclaurin features, need many components.
    Projected to fewer, they keep the error of the many, up to the error of the projection.

    Parameters
    ----------
    features : transformer or None, default=None
        Any transformer, cloned in `fit`; None is MaclaurinFeatures().
    n_components : int or "auto", default=256
        Number of components, exactly. "auto" adds components until the relative Frobenius error to the kernel of
        `features`, which must have a `kernel_`, is certified to be at most `tol`; each number tried fits `features`
        and draws the projection anew, with the same key.
    projection : str or SketchLaw, default="srht"
        How to go down: "srht", "srtt", "gaussian", "rademacher", "sparse_sign", "count_sketch", ….
    expansion : int or None, default=4
        The clone of `features` gets n_components = expansion × n_components. None leaves it as it is.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Of the projection, and of `features` where that has no random_state of its own.
    n_jobs : int or None

    Attributes
    ----------
    features_ : transformer
        The fitted clone.
    feature_map_ : FeatureMap
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with ``n_components="auto"``.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import CompactFeatures, MaclaurinFeatures, Polynomial
    >>> X = np.random.default_rng(0).uniform(size=(50, 8))
    >>> kernel = Polynomial(2, gamma=1.0, coef0=0.0)
    >>> published = MaclaurinFeatures(kernel, n_components=64, allocation="geometric", random_state=0)
    >>> compact = CompactFeatures(published, n_components=64, random_state=0).fit(X)
    >>> compact.transform(X).shape, compact.features_.n_components
    ((50, 64), 256)
    """

    def __init__(
        self,
        features: Any = None,
        n_components: Any = 256,
        *,
        projection: Any = "srht",
        expansion: int | None = 4,
        tol: float = 0.1,
        max_components: int = 16384,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.features = features
        self.n_components = n_components
        self.projection = projection
        self.expansion = expansion
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> CompactFeatures:
        """Fit the transformer and draw the projection.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : passed on to the transformer
        """
        self._most_components()
        if self.expansion is not None:
            check_count("expansion", self.expansion)
        if self.features is not None and not (hasattr(self.features, "fit") and hasattr(self.features, "get_params")):
            raise ValueError(f"features must be a transformer or None, got {self.features!r}.")
        law = as_sketch_law(self.projection)
        X, y = in_memory(self, X, y)
        X = validate_rows(self, X, reset=True)
        key = Key.from_random_state(self.random_state)

        def make(n_components: int) -> ProjectedMap:
            inner = self._fit_inner(X, y, n_components, key)
            return ProjectedMap(inner, law.sample(inner.n_components, n_components, key.child("projection")))

        ceiling = None
        if is_auto(self.n_components):
            first = self._fit_inner(X, y, 1, key)
            if not isinstance(getattr(self.features_, "kernel_", None), Kernel):
                raise ValueError(
                    "n_components='auto' compares with the kernel of the features, and "
                    f"{type(self.features_).__name__} has no kernel_; give a number of components."
                )
            if self.expansion is None:
                ceiling = first.n_components
        return self._fit_components(X, make, ceiling=ceiling)

    @property
    def kernel_(self) -> Any:
        """The kernel of the features."""
        return self.features_.kernel_

    def _fit_inner(self, X: Any, y: Any, n_components: int, key: Key) -> FeatureMap:
        """The map of `features_`, a clone with enough components to be projected to `n_components`."""
        features = MaclaurinFeatures() if self.features is None else clone(self.features)
        params = features.get_params(deep=False)
        if self.expansion is not None and "n_components" in params:
            features.set_params(n_components=self.expansion * n_components)
        if "random_state" in params and params["random_state"] is None:
            features.set_params(random_state=int(key.child("features").generator().integers(2**31)))
        self.features_ = features.fit(X, y)
        width = real_features(features, features.transform(X[:1]), X[:1]).shape[1]
        inner: FeatureMap = getattr(features, "feature_map_", None) or Transformed(features, width)
        if inner.n_components < n_components:
            raise ValueError(
                f"{type(features).__name__} has {inner.n_components} components, fewer than n_components="
                f"{n_components}: there is nothing to project. Give it more components, ask for fewer, or use it alone."
            )
        return inner
