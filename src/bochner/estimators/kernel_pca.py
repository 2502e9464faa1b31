"""Kernel principal components from streamed sums."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg import eigh
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_count, check_flag, is_auto
from bochner.data.devices import on_device
from bochner.data.execution import Execution
from bochner.data.folds import Fold, accumulate
from bochner.data.sources import Block, Source
from bochner.data.validation import check_components, dask_aware, is_distributed, map_dask_blocks, validate_rows
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense
from bochner.estimators.inputs import rows_source
from bochner.estimators.models import KernelModel, check_sums
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.transformers import RowTransformer
from bochner.features.compositions import ProjectedMap
from bochner.features.maps import FeatureMap
from bochner.features.nystrom import Nystrom
from bochner.kernels.conversion import as_kernel
from bochner.ridge.statistics import RidgeStatistics

_TIE = 1e-4  # share of a column's range by which its two extremes must differ to count as different in float32


@dask_aware
@dataclass(eq=False, repr=False)
class KernelPCA(RowTransformer, KernelModel):
    """Kernel principal components: eigenvectors of the covariance of features ZZᵀ ≈ K, summed in one pass.

    The result is that of exact kernel PCA up to the error of the features. Signs follow scikit-learn's rule, in a
    second pass: for each principal component, the entry of largest absolute value over the rows of `fit` is positive.
    If the largest positive and negative entries are equally large, the sign is such that the covariance with one column
    of X, the one with the largest absolute covariance, is positive. So signs depend neither on the order of rows nor on
    random_state. `partial_fit` keeps the signs as components change.

    Parameters
    ----------
    n_components : int, default=2
        Number of principal components. If the features span fewer directions, the last ones are zero.
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name takes the median distance as length scale.
    n_feature_components : int or "auto", default=512
        Number of components of the features Z that the principal components are combinations of.
    features : {"auto", "nystrom", "fourier"} or transformer, default="auto"
        "auto" is "nystrom".
    fit_inverse_transform : bool, default=False
        Learn the map from components back to rows by kernel ridge regression (Bakır, Weston & Schölkopf 2004). Only in
        `fit`: with `partial_fit` the components change as rows are added.
    alpha : float or {"loo", "gcv", "evidence"}, default="loo"
        The penalty of that regression.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_feature_components="auto"``, as in `NystromFeatures` and `FourierFeatures`: components are added to the
        features until the relative trace error (Nyström) or Frobenius error (Fourier features) of the kernel matrix of
        the rows, or of a sample of 20,000, is at most `tol`.
    block_size : int or None
        Rows in a block. None for blocks whose features fit into the cache.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. See `KernelRidge`.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.
    verbose : int, default=0
        Above zero, a terminal shows progress.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Attributes
    ----------
    eigenvalues_ : ndarray of shape (n_components,)
        Eigenvalues of the centred kernel matrix of the rows seen: the sum of squares of each principal component.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        Shares of the variance of the features.
    components_ : ndarray of shape (n_components, n_feature_components)
        Weights of the centred features.
    features_, feature_map_
        The fitted features.
    inverse_ : KernelRidge
        The regression from components to rows; only with `fit_inverse_transform`.
    statistics_ : RidgeStatistics
    fit_seconds_ : float
        How long `fit` took.
    n_samples_seen_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelPCA
    >>> rng = np.random.default_rng(0)
    >>> angle, radius = rng.uniform(0, 2 * np.pi, 300), np.repeat([1.0, 4.0], 150)
    >>> X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> T = KernelPCA(3, random_state=0).fit_transform(X)
    >>> bool((T[:150, 2] > 0).all() != (T[150:, 2] > 0).all())  # the rings are apart in the third component
    True
    """

    n_components: int = 2
    _: KW_ONLY
    n_feature_components: Any = 512
    fit_inverse_transform: bool = False
    alpha: Any = "loo"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Find the components.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or a Source
        y : ignored
        sample_weight : array-like of shape (n_samples,) or None
        """
        self._check_parameters()
        with self._fitting():
            source = rows_source(self, X, sample_weight, reset=True)
            self._learn(source)
        if self.fit_inverse_transform:
            T = self.transform(X)
            dense = X if is_distributed(X) else X.toarray() if scipy.sparse.issparse(X) else np.asarray(X)
            options = {name: getattr(self, name) for name in ("block_size", "device", "n_jobs", "random_state")}
            kernel = self.kernel if isinstance(self.kernel, str) else as_kernel(self.kernel)
            ridge = KernelRidge(kernel, self.n_feature_components, features="nystrom", alpha=self.alpha, **options)
            self.inverse_ = ridge.partial_fit(T, dense, sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelPCA:
        """Add rows. The first call chooses the features, from the rows it is given.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or a Source
        y : ignored
        sample_weight : array-like of shape (n_samples,) or None
        """
        self._check_parameters()
        first = not hasattr(self, "statistics_")
        with Execution.of(self).threads():
            source = rows_source(self, X, sample_weight, reset=first)
            if first:
                self._learn(source)
            else:
                check_sums(self)
                more = RidgeStatistics(self.statistics_.n_components, 0)
                self.statistics_.merge(self._accumulate(source, more))
                self._find_components(source, self.components_)
        return self

    def _check_parameters(self) -> None:
        check_count("n_components", self.n_components)
        check_components(self, "n_feature_components")
        check_flag("fit_inverse_transform", self.fit_inverse_transform)
        self._check_options()
        if self.fit_inverse_transform and get_tags(self).input_tags.pairwise:
            raise ValueError(
                "Cannot fit_inverse_transform with a precomputed kernel: there are no rows to come back to. Give the "
                "rows and a kernel, or leave fit_inverse_transform out."
            )

    def _learn(self, source: Source) -> None:
        key = Key.from_random_state(self.random_state)
        m = self.n_feature_components
        m = m if is_auto(m) else max(m, self.n_components)
        self.features_, self.feature_map_ = replace(self._feature_spec(), auto="nystrom").fit(
            source, as_kernel(self.kernel), m, key
        )
        self.statistics_ = self._accumulate(source, RidgeStatistics(self.feature_map_.n_components, 0))
        self._find_components(source)

    def _accumulate(self, source: Source, statistics: RidgeStatistics) -> RidgeStatistics:
        options: dict[str, Any] = {"rows": self.block_size, "verbose": self.verbose}
        accumulate(on_device(source, self.device), self.feature_map_, statistics, np.asarray, **options)
        statistics.to_host()
        if not statistics.n_samples:
            raise ValueError("every row has weight zero.")
        return statistics

    def _find_components(self, source: Source, previous: Array | None = None) -> None:
        statistics = self.statistics_
        m = statistics.n_components
        operator = statistics.operator(True)
        G = operator.lower()
        total = float(np.trace(G))
        kept = min(self.n_components, m)
        values, V = eigh(G, lower=True, overwrite_a=True, subset_by_index=(m - kept, m - 1), check_finite=False)
        values, V = values[::-1], V[:, ::-1]
        real = values > operator.rounding
        V = V * real
        V = V * (self._signs(source, V) if previous is None else signs_like(V.T, previous))
        missing = self.n_components - kept
        self.eigenvalues_ = np.pad(np.where(real, values, 0.0), (0, missing))
        self.components_ = np.pad(V.T, ((0, missing), (0, 0)))
        self.explained_variance_ratio_ = self.eigenvalues_ / total if total > 0 else self.eigenvalues_
        self.n_samples_seen_ = statistics.n_samples

    def _signs(self, source: Source, V: Array) -> Array:
        """Signs of the columns of V (m, k), from the scores of all rows, which takes a pass over the data."""
        feature_map = self.feature_map_
        scores: FeatureMap
        if isinstance(feature_map, Nystrom):  # the root is multiplied with the few columns of V, not with every row
            root = (feature_map.root @ V[: feature_map.rank]).astype(feature_map.root.dtype)
            scores = replace(feature_map, root=root, n_components=V.shape[1], triangular=False)
        else:
            scores = ProjectedMap(feature_map, Dense(np.ascontiguousarray(V.T, dtype=source.dtype)))
        fold = ScoresFold(self.statistics_.feature_mean @ V, source.n_features)
        return fold.signs(on_device(source, self.device).fold(fold, scores, rows=self.block_size))

    def transform(self, X: Any) -> Array:
        """Components of rows, (n_samples, n_components), block by block.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        check_is_fitted(self, "components_")
        X = validate_rows(self, X, reset=False)
        return self._scores(X, self.components_.T, -self.components_ @ self.statistics_.feature_mean)

    @map_dask_blocks
    def inverse_transform(self, T: Any) -> Array:
        """Rows whose components are approximately T, (n_samples, n_features).

        Parameters
        ----------
        T : array-like of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        if not hasattr(self, "inverse_"):
            raise NotFittedError("inverse_transform needs fit_inverse_transform=True, and fit rather than partial_fit.")
        return self.inverse_.predict(T)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components)


@dataclass(frozen=True)
class ScoresFold(Fold):
    """For centred scores t (n, k), which are passed as features: max t, min t and Σ t x."""

    centre: Array  # (k,)
    n_features: int

    def zero(self) -> list[Any]:
        k = len(self.centre)
        return [np.full(k, -np.inf), np.full(k, np.inf), np.zeros((self.n_features, k))]

    def add(self, total: list[Any], Z: Array, block: Block, row: int) -> list[Any]:
        T, X = Z - self.centre, block.X
        if block.weight is not None:
            T, X = T[block.weight > 0], X[block.weight > 0]
        return self.merge(total, [T.max(axis=0, initial=-np.inf), T.min(axis=0, initial=np.inf), X.T @ T])

    def merge(self, total: list[Any], other: list[Any]) -> list[Any]:
        return [np.maximum(total[0], other[0]), np.minimum(total[1], other[1]), total[2] + other[2]]

    def signs(self, total: list[Any]) -> Array:
        """Signs that make the entry of largest absolute value in each column positive; see `KernelPCA` for ties."""
        high, low, moments = total
        ends = high + low
        rising = moments[np.abs(moments).argmax(axis=0), np.arange(len(ends))]
        return np.where(np.where(np.abs(ends) > _TIE * (high - low), ends, rising) < 0, -1.0, 1.0)


def signs_like(components: Array, previous: Array) -> Array:
    """Signs that orient each row of weights like the most similar row of the previous ones."""
    products = components @ previous[: len(components)].T
    return np.where(products[np.arange(len(products)), np.abs(products).argmax(axis=1)] < 0, -1.0, 1.0)
