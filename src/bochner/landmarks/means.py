"""Landmarks that are means of rows: k-means centres, from scratch or from pivots."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from bochner.backends import Array, Rows, densified, n_threads
from bochner.backends.threads import each, one_thread
from bochner.checks import power_of_two
from bochner.draws.keys import Key
from bochner.kernels.algebra import Kernel, Projected
from bochner.kernels.stationary import StationaryKernel
from bochner.landmarks.grams import Gram, row_slices
from bochner.landmarks.laws import LandmarkLaw, Landmarks
from bochner.landmarks.pivots import RPCholesky

_RANDOM = 3  # random rows for every pivot among mixed landmarks


def metric_scales(gram: Gram) -> Array:
    """Return the length scales of the kernel; means are taken of features divided by them."""
    if gram.kernel is None:
        raise ValueError(
            "k-means needs the rows themselves, and with kernel='precomputed' there are none; use "
            "landmarks='rpcholesky'."
        )
    kernel: Kernel = gram.kernel
    return kernel.scales(gram.X.shape[1]) if isinstance(kernel, StationaryKernel) else np.ones(())


def metric_rows(gram: Gram) -> tuple[Array, Callable[[Array], Array]]:
    """Return the rows in the kernel's own metric, in which means are taken, and a function from such means to rows.

    Features are divided by their length scales. Of directions, which may be fewer than the features, a mean of
    coordinates along them is that of the rows that have it as the nearest mean.
    """
    scales = metric_scales(gram)
    if isinstance(gram.kernel, Projected):
        X = gram.kernel.rows(gram.rows)
        return X, lambda centres: _means_of(gram.rows, X, centres)
    X = scaled(gram.rows, scales)
    return X, lambda centres: centres * scales.astype(X.dtype)


def _means_of(rows: Rows, X: Rows, centres: Array) -> Array:
    """Average the rows nearest to each centre in X; a centre without rows becomes the nearest row."""
    labels, k = assign(X, centres), len(centres)
    counts = np.bincount(labels, minlength=k)
    members = scipy.sparse.csr_matrix((np.ones(len(labels)), (labels, np.arange(len(labels)))), shape=(k, len(labels)))
    sums = densified(members @ rows)
    empty = counts == 0
    means = sums / np.maximum(counts, 1)[:, None]
    if empty.any():
        means[empty] = densified(rows[assign(centres[empty], X)])
    return np.asarray(means.astype(rows.dtype))


def scaled(X: Rows, scales: Array) -> Array:
    """Divide the rows by the scales."""
    factors = (1.0 / scales).astype(X.dtype)
    return X * factors if isinstance(X, np.ndarray) else X.multiply(factors).tocsr()


def _unit(X: Array) -> np.floating:
    """Return a power of two in which squares of rows neither overflow nor vanish."""
    return X.dtype.type(power_of_two(float(abs(X).max()) if X.size else 0.0))


def _subsample(gram: Gram, n_rows: int | None, key: Key) -> Gram:
    if n_rows is None or n_rows >= len(gram):
        return gram
    rows = np.sort(key.child("subsample").generator().permutation(len(gram))[:n_rows])
    return replace(gram, X=gram.X[rows], there=None)


def assign(X: Rows, centres: Array) -> Array:
    """Return the index of the nearest centre for every row."""
    unit = np.abs(centres).max(initial=0.0) or centres.dtype.type(1.0)
    centres = centres / unit  # squares of very large or small numbers would overflow or vanish
    half = 0.5 * unit * np.einsum("ij,ij->i", centres, centres)
    labels = np.empty(X.shape[0], dtype=np.intp)

    def nearest(rows: slice) -> None:
        labels[rows] = np.argmax(np.asarray(X[rows] @ centres.T) - half, axis=1)

    with one_thread():
        each(nearest, row_slices(X.shape[0], 8 * len(centres)), n_threads())
    return labels


def lloyd(X: Array, centres: Array, max_iter: int) -> Array:
    """Run Lloyd's iteration until nothing changes; a centre that loses all its rows stays in place."""
    n, k = X.shape[0], len(centres)
    if not k:
        return centres
    shift = np.zeros(X.shape[1], X.dtype) if scipy.sparse.issparse(X) else X.mean(axis=0, dtype=np.float64)
    X = X if scipy.sparse.issparse(X) else X - shift.astype(X.dtype)  # far from the origin ‖c‖² - 2xc would cancel
    centres = (centres - shift).astype(X.dtype)
    labels = np.full(n, -1)
    for _ in range(max_iter):
        new = assign(X, centres)
        if np.array_equal(new, labels):
            break
        labels = new
        counts = np.bincount(labels, minlength=k)
        members = scipy.sparse.csr_matrix((np.ones(n, X.dtype), (labels, np.arange(n))), shape=(k, n))
        sums = densified(members @ X)
        occupied = counts > 0
        centres[occupied] = sums[occupied] / counts[occupied, None]
    return (centres + shift).astype(X.dtype)


@dataclass(frozen=True)
class KMeans(LandmarkLaw):
    """Centres of k-means clusters (Zhang, Tsang & Kwok 2008).

    Parameters
    ----------
    init : {"k-means++", "rpcholesky", "mixed"}
        Where Lloyd's steps start: k-means++ seeds, the pivots of randomly pivoted Cholesky, or one such pivot for every
        three random rows. Pivots cover regions with few rows, random rows those with many.
    max_iter : int
        Lloyd's steps at most.
    n_rows : int or None
        Cluster a random sample of that many rows (but at least twenty for each landmark); None clusters all of them.
    """

    init: str = "k-means++"
    max_iter: int = 100
    n_rows: int | None = None

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        n_rows = None if self.n_rows is None else max(self.n_rows, 20 * n_landmarks)
        gram = _subsample(gram, n_rows, key)
        n_landmarks, (X, as_rows) = min(n_landmarks, len(gram)), metric_rows(gram)
        if self.init in ("rpcholesky", "mixed"):
            # all pivots drawn at random: Lloyd's steps undo most of what pools would gain
            n_pivots = n_landmarks if self.init == "rpcholesky" else -(-n_landmarks // (1 + _RANDOM))
            indices = RPCholesky("accelerated").factor(gram, n_pivots, key).pivots
            if self.init == "mixed":
                indices = _in_turns(indices, key.child("others").generator().permutation(len(gram)), n_landmarks)
        elif self.init == "k-means++":
            from sklearn.cluster import kmeans_plusplus  # a second to import

            seed = int(key.generator().integers(2**31))
            indices = kmeans_plusplus(X / _unit(X), n_landmarks, random_state=seed)[1]
        else:
            raise ValueError(f"init must be 'k-means++', 'rpcholesky' or 'mixed', got {self.init!r}.")
        return Landmarks(as_rows(lloyd(X, densified(X[indices]), self.max_iter)), None)


def _in_turns(first: Array, order: Array, n: int) -> Array:
    """Interleave one of the first with _RANDOM of the others, in order, so that every prefix contains both."""
    others = order[~np.isin(order, first)][: n - len(first)]
    places = np.concatenate([np.arange(len(first)) - 0.5 / _RANDOM, np.arange(len(others)) / _RANDOM])
    return np.concatenate([first, others])[np.argsort(places, kind="stable")]


@dataclass(frozen=True)
class MiniBatchKMeans(LandmarkLaw):
    """Centres of mini-batch k-means (scikit-learn's), for many rows.

    Parameters
    ----------
    batch_size : int
        Rows in a step, but at least as many as there are landmarks.
    max_iter : int
        Passes over the data at most.
    """

    batch_size: int = 1024
    max_iter: int = 100

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        from sklearn.cluster import MiniBatchKMeans as SklearnMiniBatchKMeans  # a second to import

        (X, as_rows), k = metric_rows(gram), min(n_landmarks, len(gram))
        unit = _unit(X)
        seed = int(key.generator().integers(2**31))
        model = SklearnMiniBatchKMeans(
            k, batch_size=max(k, self.batch_size), max_iter=self.max_iter, n_init=1, random_state=seed
        )
        with warnings.catch_warnings():  # fewer distinct rows than landmarks: the factorisation drops the copies
            warnings.simplefilter("ignore", ConvergenceWarning)
            centres = model.fit(X / unit).cluster_centers_ * unit
        return Landmarks(as_rows(centres.astype(X.dtype)), None)
