"""Mixtures of Gaussians found in a random projection of the rows."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array, DType, densified
from bochner.checks import check_count, is_auto, power_of_two
from bochner.data.validation import as_host, dask_aware, map_dask_blocks, validate_rows
from bochner.displays import Written
from bochner.draws.keys import Key, Seed
from bochner.estimators.projections import RandomProjection

if TYPE_CHECKING:
    from sklearn.utils import Tags


@dask_aware
@dataclass(eq=False, repr=False)
class ProjectedMixture(ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, Written, BaseEstimator):
    """A mixture of Gaussians by expectation-maximisation in a random projection to few dimensions.

    A projection makes eccentric clusters rounder, and covariances in few dimensions need few rows (Dasgupta 2000). Each
    start draws its own projection and finds the clusters there; weights, means and covariances of all dimensions then
    follow from the probabilities of the rows. Covariances are drawn towards round ones by a share of d / (d + rows of
    the cluster). The start with the largest likelihood in all dimensions is kept.

    It is for fewer rows than a covariance in all dimensions has numbers, n_samples < n_features²: clusters two radii
    apart are then found that `sklearn.mixture.GaussianMixture` with full covariances misses, and new rows get a higher
    density. Diagonal covariances find as many of those clusters, and more of closer ones; with many rows, full
    covariances are better (`bochner reproduce mog`).

    Parameters
    ----------
    n_clusters : int, default=8
        Number of Gaussians.
    n_dimensions : int or "auto", default="auto"
        Dimensions of the projection; "auto" is 4 ln(n_clusters) + 2, or n_features if that is less.
    n_init : int, default=5
        Number of starts.
    max_iter : int, default=200
        Largest number of steps of a start.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Attributes
    ----------
    weights_ : ndarray of shape (n_clusters,)
    means_ : ndarray of shape (n_clusters, n_features)
    covariances_ : ndarray of shape (n_clusters, n_features, n_features)
    labels_ : ndarray of shape (n_samples,)
        The cluster of every row.
    projection_ : RandomProjection
        That of the best start.
    n_iter_ : int
        Steps of the best start.

    References
    ----------
    Dasgupta (2000), "Experiments with random projection", UAI.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import ProjectedMixture
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 50)) * np.geomspace(1.0, 10.0, 50)
    >>> X[100:] += 10.0  # two long clusters in 50 dimensions, of 100 rows each
    >>> labels = ProjectedMixture(2, random_state=0).fit_predict(X)
    >>> [len(set(labels[:100].tolist())), len(set(labels[100:].tolist()))]
    [1, 1]
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_dimensions: int | Literal["auto"] = "auto"
    n_init: int = 5
    max_iter: int = 200
    random_state: Seed = None

    def fit(self, X: ArrayLike, y: object = None) -> ProjectedMixture:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        y : ignored
        """
        from sklearn.mixture import GaussianMixture  # imported here because it takes a second

        k, n_init = check_count("n_clusters", self.n_clusters), check_count("n_init", self.n_init)
        max_iter = check_count("max_iter", self.max_iter)
        if not is_auto(self.n_dimensions, "n_dimensions"):
            check_count("n_dimensions", self.n_dimensions)
        # many steps in float32 end elsewhere than in float64
        rows: Array = densified(validate_rows(self, X, reset=True)).astype(np.float64, copy=False)
        n, d = rows.shape
        if n < max(2, k):
            raise ValueError(f"n_samples={n} should be at least n_clusters={k}, and at least 2.")
        self._scale(rows)
        rows = self._scaled(rows)
        q = int(np.ceil(4.0 * np.log(k))) + 2 if is_auto(self.n_dimensions, "n_dimensions") else int(self.n_dimensions)
        key, best = Key.from_random_state(self.random_state), -np.inf
        for start in range(n_init):
            seed = int(key.child(f"start {start}").generator().integers(2**31))
            projection = RandomProjection(min(d, q), law="gaussian", random_state=seed).fit(rows)
            Z = projection.transform(rows)
            mixture = GaussianMixture(
                k, init_params="random_from_data", reg_covar=_FLOOR, max_iter=max_iter, random_state=seed
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                probabilities = mixture.fit(Z).predict_proba(Z)
            parts = _moments(rows, probabilities)
            densities = _log_densities(rows, *parts)
            likelihood = float(logsumexp(densities, axis=1).mean())
            if likelihood > best:
                best, self._parts, self.projection_, self.n_iter_ = likelihood, parts, projection, int(mixture.n_iter_)
                self.labels_ = densities.argmax(axis=1)
        return self

    def _scale(self, X: Array) -> None:
        """Set the centre and the unit of the rows; the unit is a power of two, which changes no digit."""
        self._unit = float(power_of_two(np.abs(X).max(initial=0.0) or 1.0)) / 2.0
        self._centre = (X / self._unit).mean(axis=0)
        spread = float(np.sqrt(np.mean((X / self._unit - self._centre) ** 2)))
        self._spread = spread or 1.0

    def _scaled(self, X: Array) -> Array:
        """Divide rows by their spread, and clip them at `_FARTHEST`, so that squares are finite."""
        return np.clip((X / self._unit - self._centre) / self._spread, -_FARTHEST, _FARTHEST)

    @property
    def weights_(self) -> Array:
        """Return the share of each cluster."""
        return self._fitted()[0]

    @property
    def means_(self) -> Array:
        """Return the centre of each cluster."""
        return np.asarray((self._fitted()[1] * self._spread + self._centre) * self._unit)

    @property
    def covariances_(self) -> Array:
        """Return the covariance of each cluster."""
        return np.asarray(self._fitted()[2] * (self._spread * self._unit) ** 2)

    def _fitted(self) -> tuple[Array, Array, Array]:
        check_is_fitted(self, "_parts")
        return self._parts

    def _densities(self, X: ArrayLike) -> tuple[Array, DType]:
        """Return log(weight · density) of scaled rows, (n, k), and the dtype of the rows."""
        parts = self._fitted()
        rows = densified(as_host(validate_rows(self, X, reset=False)))
        return _log_densities(self._scaled(rows.astype(np.float64, copy=False)), *parts), rows.dtype

    @map_dask_blocks
    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable cluster of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        return np.asarray(self._densities(X)[0].argmax(axis=1))

    def transform(self, X: ArrayLike) -> Array:
        """Return the probability of every cluster for each row, (n_samples, n_clusters).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        densities, dtype = self._densities(X)
        return np.asarray(np.exp(densities - logsumexp(densities, axis=1, keepdims=True)).astype(dtype))

    @map_dask_blocks
    def score_samples(self, X: ArrayLike) -> Array:
        """Return the logarithm of the density at each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        densities, _ = self._densities(X)
        volume = self.n_features_in_ * (np.log(self._spread) + np.log(self._unit))
        return np.asarray(logsumexp(densities, axis=1) - volume)

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


_FLOOR = 1e-6  # constant added to variances, relative to the variances of the rows
_FARTHEST = 1e15  # largest distance in units of the spread; its square over `_FLOOR` fits in float32


def _moments(X: Array, probabilities: Array) -> tuple[Array, Array, Array]:
    """Estimate weights, means and shrunk covariances of clusters from the probabilities (n, k) of rows."""
    d, k = X.shape[1], probabilities.shape[1]
    sizes = probabilities.sum(axis=0) + 10.0 * np.finfo(float).eps
    means = probabilities.T @ X / sizes[:, None]
    covariances = np.empty((k, d, d))
    for c in range(k):
        centred = X - means[c]
        covariance = (probabilities[:, c, None] * centred).T @ centred / sizes[c]
        share = d / (d + sizes[c])
        covariances[c] = (1.0 - share) * covariance
        covariances[c][np.diag_indices(d)] += share * np.trace(covariance) / d + _FLOOR
    return sizes / sizes.sum(), means, covariances


def _log_densities(X: Array, weights: Array, means: Array, covariances: Array) -> Array:
    """Return log(weight) + log N(x; mean, covariance) for every row and cluster, (n, k)."""
    out = np.empty((len(X), len(weights)))
    for c, covariance in enumerate(covariances):
        L = np.linalg.cholesky(covariance)
        whitened = solve_triangular(L, (X - means[c]).T, lower=True, check_finite=False)
        constant = np.log(weights[c]) - np.log(L.diagonal()).sum() - 0.5 * X.shape[1] * np.log(2.0 * np.pi)
        out[:, c] = constant - 0.5 * np.einsum("ij,ij->j", whitened, whitened)
    return out
