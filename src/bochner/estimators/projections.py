"""Random projections as scikit-learn transformers: of the data, and of many components of any transformer."""

from __future__ import annotations

import numbers
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.certificates.kernels import distance_error
from bochner.certificates.records import Certificate
from bochner.checks import check_count, check_flag, check_fraction, is_auto
from bochner.data.validation import check_rows, count_rows, dask_aware, in_memory, map_dask_blocks, validate_rows
from bochner.draws.keys import Key
from bochner.estimators.dot_products import MaclaurinFeatures
from bochner.estimators.feature_spec import Transformed, real_features
from bochner.estimators.transformers import AdaptiveTransformer
from bochner.features.compositions import ProjectedMap
from bochner.features.maps import FeatureMap, Projection
from bochner.kernels.algebra import Kernel
from bochner.sketches import as_sketch_law
from bochner.theory.projection_bounds import JohnsonLindenstraussBound


@dask_aware
@dataclass(eq=False, repr=False)
class RandomProjection(AdaptiveTransformer):
    """Project to fewer dimensions, keeping distances (Johnson & Lindenstrauss 1984; Vempala 2004).

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components. "auto" is the Johnson-Lindenstrauss dimension 4 ln n / (eps²/2 - eps³/3) of the
        n_samples rows seen by `fit`, which looks at their number only; with `tol` it is measured on them instead.
    law : str or SketchLaw, default="sparse_sign"
        "sparse_sign", "gaussian", "rademacher", "achlioptas", "very_sparse", "srht", "srtt", "fjlt",
        "count_sketch", or "uniform", "norm", "leverage", which pick columns of X. See `bochner.sketches`.
    eps : float, default=0.1
        Relative error of squared distances that "auto" aims at.
    tol : float or None, default=None
        With ``n_components="auto"``: add components until the squared distances of the rows given to `fit` have at
        most this relative error: all of them for up to 724 rows; for more rows all but a share of 4e-4, with 95 %
        confidence. Sketches that spread a few signs over all components are drawn anew for each number tried.
    max_components, max_seconds, max_bytes : numbers
        With `tol`, as in `FourierFeatures`; never more components than features.
    dense_output : bool, default=False
        False returns a sparse matrix for sparse rows, if the sketch is sparse too.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

    Attributes
    ----------
    n_components_ : int
        Number of components.
    certificate_ : Certificate
        The error that `tol` limits; only with `tol`.
    feature_map_ : Projection
        The map itself; ``feature_map_.sketch`` is the linear map S, never a dense matrix unless ``to_dense()`` is
        called.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RandomProjection
    >>> X = np.random.default_rng(0).normal(size=(10, 5000))
    >>> Z = RandomProjection(500, random_state=0).fit_transform(X)
    >>> Z.shape
    (10, 500)
    >>> bool(abs(np.linalg.norm(Z[0] - Z[1]) / np.linalg.norm(X[0] - X[1]) - 1.0) < 0.2)
    True
    """

    n_components: Any = "auto"
    _: KW_ONLY
    law: Any = "sparse_sign"
    eps: float = 0.1
    tol: float | None = None
    dense_output: bool = False
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> RandomProjection:
        """Draw the projection; only the schemes "norm" and "leverage" use more of the data than its shape.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        law = as_sketch_law(self.law)
        check_flag("dense_output", self.dense_output)
        n_samples = None if isinstance(self.n_components, numbers.Integral) else count_rows(X)
        X = validate_rows(self, X, reset=True)
        self._check_sparse(X)
        key = Key.from_random_state(self.random_state)
        resolved = law.resolve(X.T, key)

        def make(n_components: int) -> Projection:
            return Projection(resolved.sample(X.shape[1], n_components, key), bool(self.dense_output))

        if self.tol is not None and is_auto(self.n_components):
            self._most_components()

            def certify(n_components: int, sample: str) -> Certificate:
                return distance_error(make(n_components), X, random_state=key.child("growth").child(sample))

            return self._fit_components(X, make, certify=certify, ceiling=X.shape[1], step=1, first=16)
        return self._fit_components(X, make, n_components=self._count(n_samples or X.shape[0], X.shape[1]))

    def transform(self, X: Any) -> Any:
        """Project rows.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        Z : ndarray or CSR matrix of shape (n_samples, n_components)
            In the dtype of X when that is float32 or float64.
        """
        check_is_fitted(self)
        self._check_sparse(X)
        return super().transform(X)

    @map_dask_blocks
    def inverse_transform(self, Z: Any) -> Array:
        """Return Z times the pseudo-inverse of the projection: the shortest rows that project to Z.

        Parameters
        ----------
        Z : array-like or sparse matrix of shape (n_samples, n_components)

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        Z = check_rows(Z)
        if Z.shape[1] != self.n_components_:
            raise ValueError(f"Z has {Z.shape[1]} columns, but the projection has {self.n_components_}.")
        Z = Z.toarray() if scipy.sparse.issparse(Z) else Z
        S = self.feature_map_.sketch
        # S⁺ = Sᵀ (S Sᵀ)⁺, with S Sᵀ built from blocks of rows of S
        gram = np.empty((self.n_components_, self.n_components_))
        step = max(1, (1 << 22) // S.shape[1])
        for start in range(0, self.n_components_, step):
            rows = np.eye(min(step, self.n_components_ - start), self.n_components_, start)
            gram[start : start + step] = S(S.adjoint(rows))
        weights = scipy.linalg.pinvh((gram + gram.T) / 2.0)
        return S.adjoint((Z @ weights).astype(Z.dtype))

    def _count(self, n_samples: int, n_features: int) -> int:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            n_components = check_count("n_components", self.n_components)
            if n_components > n_features:
                raise ValueError(
                    f"a projection has at most n_features components: n_components={n_components}, "
                    f"n_features={n_features}. Ask for fewer components, or use the data as they are."
                )
            return n_components
        bound = JohnsonLindenstraussBound(n_samples=max(n_samples, 2), rule="dasgupta-gupta")
        n_components = bound.printed_size(check_fraction("eps", self.eps)) if n_samples > 1 else 1
        if n_components > n_features:
            raise ValueError(
                f"eps={self.eps} and n_samples={n_samples} ask for n_components={n_components}, more than the "
                f"n_features={n_features} of the data. Choose a larger eps, or n_components itself."
            )
        return n_components

    def _check_sparse(self, X: Any) -> None:
        if scipy.sparse.issparse(X) and not as_sketch_law(self.law).accepts_sparse:
            raise ValueError(
                f"law={self.law!r} mixes all columns and would make sparse data dense; use law='sparse_sign' or "
                "'count_sketch', or pass X.toarray()."
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        try:
            tags.input_tags.sparse = as_sketch_law(self.law).accepts_sparse
        except ValueError:  # `fit` raises this error
            tags.input_tags.sparse = False
        return tags


@dataclass(eq=False, repr=False)
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
        The projection: "srht", "srtt", "gaussian", "rademacher", "sparse_sign", "count_sketch", ….
    expansion : int or None, default=4
        The clone of `features` gets n_components = expansion × n_components. None leaves it as it is.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `FourierFeatures`.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time. It is passed to `features` if that has no
        random_state of its own.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.

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

    features: Any = None
    n_components: Any = 256
    _: KW_ONLY
    projection: Any = "srht"
    expansion: int | None = 4
    tol: float = 0.1
    n_jobs: int | None = None

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
