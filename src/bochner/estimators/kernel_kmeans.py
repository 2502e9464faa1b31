"""Kernel k-means on streamed features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array, backend_of, is_host, is_tensor
from bochner.checks import check_count, check_positive
from bochner.data.devices import is_there, on_device
from bochner.data.execution import Execution
from bochner.data.folds import Fold
from bochner.data.sources import ArraySource, Block, Source
from bochner.data.validation import (
    as_host,
    check_components,
    dask_aware,
    is_distributed,
    map_dask_blocks,
    validate_rows,
)
from bochner.draws.keys import Key
from bochner.estimators.inputs import rows_source
from bochner.estimators.models import KernelModel
from bochner.estimators.transformers import RowTransformer
from bochner.kernels.conversion import as_kernel

_START_ROWS = 10_000  # rows of the sample on which initial centres are chosen


@dask_aware
@dataclass(eq=False, repr=False)
class KernelKMeans(ClusterMixin, RowTransformer, KernelModel):
    """Kernel k-means: Lloyd's algorithm on features ZZᵀ ≈ K, computed again in every pass and never stored.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters.
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name takes the median distance as length scale.
    n_components : int or "auto", default=256
        Number of components of the features.
    features : {"auto", "nystrom", "fourier"} or transformer, default="auto"
        "auto" is "nystrom".
    n_init : int, default=5
        Number of initialisations tried on a sample of the rows; the best is continued on all rows.
    max_iter : int, default=100
        At most this many passes over the rows.
    solver_tol : float, default=1e-4
        Stop when the centres move by less than this share of the features' spread.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `NystromFeatures` and `FourierFeatures`: components are added to the features
        until the relative trace error (Nyström) or Frobenius error (Fourier features) of the kernel matrix of the rows,
        or of a sample of 20,000, is at most `tol`.
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
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        In the space of the features.
    labels_ : ndarray of shape (n_samples,)
    inertia_ : float
        Sum of squared distances of the features to their centres.
    fit_seconds_ : float
        How long `fit` took.
    n_iter_ : int
        Passes over all rows.
    features_, feature_map_
        The fitted features.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, KernelKMeans
    >>> rng = np.random.default_rng(0)
    >>> angle, radius = rng.uniform(0, 2 * np.pi, 400), np.repeat([0.3, 3.0], 200)
    >>> X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    >>> labels = KernelKMeans(2, kernel=RBF(2.0), random_state=0).fit_predict(X)
    >>> len(set(labels[:200]))  # the inner ring stays together
    1
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_components: Any = 256
    n_init: int = 5
    max_iter: int = 100
    solver_tol: float = 1e-4

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelKMeans:
        """Find the clusters.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features), or a Source
        y : ignored
        sample_weight : array-like of shape (n_samples,) or None
        """
        k = check_count("n_clusters", self.n_clusters)
        check_components(self)
        check_count("max_iter", self.max_iter)
        check_positive("solver_tol", self.solver_tol, zero=True)
        self._check_options()
        with self._fitting():
            source = rows_source(self, X, sample_weight, reset=True)
            if source.n_samples is not None and source.n_samples < k:
                raise ValueError(f"n_samples={source.n_samples} should be at least n_clusters={k}.")
            key = Key.from_random_state(self.random_state)
            self.features_, self.feature_map_ = replace(self._feature_spec(), auto="nystrom").fit(
                source, as_kernel(self.kernel), self.n_components, key
            )
            rows = source.sample(_START_ROWS, key.child("start"))
            from sklearn.cluster import KMeans  # imported here because it takes a second

            start = KMeans(k, n_init=self.n_init, random_state=int(key.child("start").generator().integers(2**31)))
            start.fit(self.feature_map_(rows.X), sample_weight=rows.weight)
            centres = start.cluster_centers_.astype(np.float64)
            self.n_iter_ = 0
            for _ in range(self.max_iter):
                means, spread = self._step(source, centres)
                moved = float(((means - centres) ** 2).sum())
                centres = means
                self.n_iter_ += 1
                if moved <= self.solver_tol * spread:
                    break
            self.cluster_centers_ = centres
            if is_distributed(X):  # labels stay where the rows are
                self.inertia_ = source.fold(NearestFold(centres), self.feature_map_, rows=self.block_size)[2]
                self.labels_ = self.predict(X)
            else:
                self._assign(source)
        return self

    def _step(self, source: Source, centres: Array) -> tuple[Array, float]:
        """Means of the rows nearest to each centre, and the mean squared distance to the centres."""
        there = on_device(source, self.device)
        sums, totals, inertia = there.fold(NearestFold(centres), self.feature_map_, rows=self.block_size)
        if not totals.sum() > 0:
            raise ValueError("every row has weight zero.")
        # a centre without rows stays where it is
        means = np.where(totals[:, None] > 0, sums / np.where(totals > 0, totals, 1.0)[:, None], centres)
        return means, inertia / totals.sum()

    def _blocks(self, source: Source) -> Iterator[tuple[Any, Block]]:
        """Features of every block, on the device if this machine has it."""
        there = on_device(source, self.device if is_there(self.device) else None)
        return there.features(self.feature_map_, self.block_size)

    def _assign(self, source: Source) -> None:
        labels, self.inertia_ = [], 0.0
        for Z, block in self._blocks(source):
            squares = squared_distances_to(Z, self.cluster_centers_)
            labels.append(squares.argmin(axis=1).astype(np.int32))
            self.inertia_ += float(block.weights @ squares.min(axis=1))
        if isinstance(source, ArraySource) and source.kept is not None:  # rows of weight zero have labels too
            blocks = self._blocks(ArraySource(source.block.X))
            labels = [squared_distances_to(Z, self.cluster_centers_).argmin(axis=1).astype(np.int32) for Z, _ in blocks]
        self.labels_ = np.concatenate(labels)

    def transform(self, X: Any) -> Array:
        """Distances of the features to the centres, (n_samples, n_clusters), block by block.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        X, distances = self._distances(X)
        return backend_of(X).place(distances, X) if is_tensor(X) else distances.astype(X.dtype, copy=False)

    def _distances(self, X: Any) -> tuple[Any, Array]:
        """Validated rows, and their distances (n, k) in host memory."""
        check_is_fitted(self, "cluster_centers_")
        X = validate_rows(self, X, reset=False)
        with Execution.of(self).threads():
            blocks = self._blocks(ArraySource(as_host(X)))
            return X, np.concatenate([np.sqrt(squared_distances_to(Z, self.cluster_centers_)) for Z, _ in blocks])

    @map_dask_blocks
    def predict(self, X: Any) -> Array:
        """The cluster of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        X, distances = self._distances(X)
        labels = distances.argmin(axis=1).astype(np.int32)
        return backend_of(X).place(labels, X) if is_tensor(X) else labels

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters)


@dataclass(frozen=True)
class NearestFold(Fold):
    """For each centre, the weighted sum of features and the total weight of its nearest rows; squared distances."""

    centres: Array
    runs_on_device: ClassVar[bool] = True

    def zero(self) -> list[Any]:
        return [np.zeros(self.centres.shape), np.zeros(len(self.centres)), 0.0]

    def add(self, total: list[Any], Z: Any, block: Block, row: int) -> list[Any]:
        weight = block.weights
        squares = squared_distances_to(Z, self.centres)
        nearest = squares.argmin(axis=1)
        members = (nearest[:, None] == np.arange(len(self.centres))) * weight[:, None]
        sums, totals, inertia = total
        sums += members.T @ Z if is_host(Z) else backend_of(Z).fetch(backend_of(Z).place(members, Z).T @ Z)
        totals += members.sum(axis=0)
        return [sums, totals, inertia + float(weight @ squares[np.arange(len(Z)), nearest])]


def squared_distances_to(Z: Any, centres: Array) -> Array:
    """Squared distances of a block of features, on any device, to a few centres: a float64 array in host memory."""
    own = np.einsum("ij,ij->i", centres, centres)
    if is_host(Z):
        Z = Z.astype(np.float64)
        squares = np.einsum("ij,ij->i", Z, Z)[:, None] - 2.0 * Z @ centres.T + own
    else:
        backend, Z = backend_of(Z), Z.double()
        products = Z @ backend.place(centres, Z).T
        squares = backend.fetch((Z * Z).sum(1)[:, None] - 2.0 * products) + own
    return np.asarray(np.maximum(squares, 0.0))
