"""Sampling schemes of landmarks: which rows, and with what probabilities; ridge leverage scores."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.linalg import eigh, solve_triangular

from bochner.backends import Array, Rows, as_native
from bochner.checks import check_positive
from bochner.draws.keys import Key
from bochner.landmarks.grams import Gram, PartialCholesky, check_symmetric, cholesky


@dataclass(frozen=True)
class Landmarks:
    """Landmarks that were drawn.

    Attributes
    ----------
    points : ndarray or CSR matrix of shape (n_landmarks, n_features), or row indices of a precomputed matrix
    indices : ndarray of shape (n_landmarks,) or None
        Which rows of the data they are; None if they are not rows.
    factor : ndarray of shape (n_samples, n_landmarks) or None
        F with FFᵀ the Nyström approximation, column j using the first j + 1 landmarks, where it was computed while
        drawing.
    triangle : ndarray of shape (n_landmarks, n_landmarks) or None
        The landmarks' rows of F.
    """

    points: Rows
    indices: Array | None
    factor: Array | None = None
    triangle: Array | None = None


class LandmarkLaw(ABC):
    """A sampling scheme of at most n_landmarks points that represent all rows."""

    @abstractmethod
    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        """Draw landmarks: fewer than asked if more would add nothing, or if fewer have a relative trace error of tol.

        Schemes that do not know the trace error while they draw ignore tol.
        """


class RowChoice(LandmarkLaw):
    """A sampling scheme whose landmarks are rows of the data."""

    @abstractmethod
    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        """Return the indices of distinct rows."""

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        indices = self.choose(gram, min(n_landmarks, len(gram)), key)
        return Landmarks(gram.points(indices), indices)


def weighted_choice(weights: Array, n: int, key: Key) -> Array:
    """Return n distinct indices drawn one after the other in proportion to the weights, fewer if fewer are positive.

    The n largest of log(weight) + Gumbel noise have this distribution, and a larger n extends the same draw.
    """
    noise = key.generator().gumbel(size=len(weights))
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(weights) + noise), kind="stable")[:n]
    return order[weights[order] > 0.0]


@dataclass(frozen=True)
class Uniform(RowChoice):
    """Rows drawn uniformly without replacement: what scikit-learn's Nystroem does. Costs nothing."""

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        return key.generator().permutation(len(gram))[:n_landmarks]


@dataclass(frozen=True)
class ColumnNorms(RowChoice):
    """Rows in proportion to the squared norms of their columns of K (Drineas & Mahoney 2005); reads all of K once."""

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        everything = slice(0, len(gram))
        norms = [np.square(gram.block(rows, everything)).sum(axis=1) for rows in gram.row_blocks(len(gram))]
        return weighted_choice(np.concatenate(norms), n_landmarks, key)


@dataclass(frozen=True)
class Adaptive(RowChoice):
    """Rounds of rows in proportion to the squared column norms of the residual of K (Kumar, Mohri & Talwalkar 2012).

    Parameters
    ----------
    n_rounds : int
        The first round sees K itself, each further one the residual after the rounds before it.
    n_rows : int
        Column norms are estimated from that many random rows; with at least n_samples they are exact.
    """

    n_rounds: int = 10
    n_rows: int = 500

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        n = len(gram)
        factor = PartialCholesky(gram, n_landmarks)
        rows = np.sort(key.child("rows").generator().permutation(n)[: self.n_rows])
        a_round = -(-n_landmarks // self.n_rounds)
        round_ = 0
        while factor.rank < n_landmarks and factor.residual.any():
            F = factor.F[rows, : factor.rank]
            norms = np.zeros(n)
            for block in gram.row_blocks(len(rows)):
                left = gram.block(block, rows) - factor.F[block, : factor.rank] @ F.T
                norms[block] = np.square(left).sum(axis=1)
            norms[factor.residual == 0.0] = 0.0
            if not norms.any():  # the rows looked at are spanned, others are not
                norms = factor.residual.copy()
            count = min(a_round, n_landmarks - factor.rank)
            factor.extend(weighted_choice(norms, count, key.child(round_)))
            round_ += 1
        return factor.pivots.copy()


@dataclass(frozen=True)
class FarthestPoint(RowChoice):
    """A random row, then always the row farthest, in the kernel's own distance, from those chosen (Gonzalez 1985)."""

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        n, diagonal = len(gram), gram.diagonal()
        chosen = [int(key.generator().integers(n))]
        nearest = np.full(n, np.inf)
        for _ in range(n_landmarks):
            last = chosen[-1]
            for rows in gram.row_blocks(1):
                column = gram.block(rows, slice(last, last + 1))[:, 0]
                distances = diagonal[rows] + diagonal[last] - 2.0 * column
                nearest[rows] = np.minimum(nearest[rows], distances)
            nearest[last] = 0.0
            farthest = int(nearest.argmax())
            if len(chosen) == n_landmarks or nearest[farthest] <= gram.floor * diagonal.max():
                break
            chosen.append(farthest)
        return np.array(chosen, dtype=np.intp)


@dataclass(frozen=True, eq=False)
class Given(LandmarkLaw):
    """The user's own landmarks.

    Parameters
    ----------
    landmarks : array of int of shape (n_landmarks,), or array or CSR matrix of shape (n_landmarks, n_features)
        Indices of rows of the data, or points.
    """

    landmarks: Rows

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        given = self.landmarks if scipy.sparse.issparse(self.landmarks) else np.asarray(self.landmarks)
        if given.shape[0] > n_landmarks or given.shape[0] == 0:
            raise ValueError(
                f"landmarks holds {given.shape[0]} landmarks for n_components={n_landmarks}; give at least one and at "
                "most n_components of them."
            )
        if given.ndim == 1:
            return self._rows(gram, given)
        if gram.kernel is None:
            raise ValueError(
                "with kernel='precomputed' only rows can be landmarks, not points: give landmarks as "
                "an array of row indices."
            )
        if given.ndim != 2 or given.shape[1] != gram.X.shape[1]:
            raise ValueError(f"landmarks has shape {given.shape}, but the data has {gram.X.shape[1]} features.")
        if (
            given.dtype.kind not in "fiub"
            or not np.isfinite(given.data if scipy.sparse.issparse(given) else given).all()
        ):
            raise ValueError("landmarks must be finite numbers.")
        return Landmarks(as_native(given.astype(gram.X.dtype)), None)

    def _rows(self, gram: Gram, given: Array) -> Landmarks:
        n = len(gram)
        if given.dtype.kind not in "iu":
            raise ValueError(
                f"landmarks with one dimension are row indices and must be integers, got {given.dtype}; "
                "give points as a 2-D array."
            )
        if given.min() < -n or given.max() >= n:
            raise ValueError(f"landmarks name rows between {given.min()} and {given.max()} of data with {n} rows.")
        indices = given.astype(np.intp) % n
        return Landmarks(gram.points(indices), indices)


EXACT_ROWS = 8000  # rows up to which the whole kernel matrix (0.5 GB) is used


def leverage_scores(gram: Gram, rows: Array, sample: Array, probabilities: Array, alpha: float) -> Array:
    """Estimate ridge leverage scores of some rows from a sample whose members were kept with given probabilities.

    (kᵢᵢ - kᵢₛ (Kₛₛ + alpha diag(p))⁻¹ kₛᵢ) / alpha; exact if the sample is everything with probabilities one.
    """
    K = gram.block(sample, sample)
    check_symmetric(K, gram.floor)
    scale = max(K.diagonal().max(), np.finfo(float).tiny)
    K[np.diag_indices_from(K)] += alpha * probabilities + len(K) * np.finfo(float).eps * scale
    L = cholesky(K)
    scores = np.empty(len(rows))
    diagonal = gram.diagonal()[rows] if gram.kernel is None else Gram(gram.X[rows], gram.kernel).diagonal()
    step = max(1, (1 << 20) // len(sample))
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        V = solve_triangular(L, gram.block(rows[block], sample).T, lower=True, check_finite=False)
        scores[block] = (diagonal[block] - np.einsum("ij,ij->j", V, V)) / alpha
    return np.clip(scores, 0.0, 1.0)


@dataclass(frozen=True)
class RidgeLeverage(RowChoice):
    """Rows in proportion to their exact ridge leverage scores; for thousands of rows, as all of K is factored.

    Parameters
    ----------
    alpha : float or None
        The penalty of the kernel ridge regression they are for. None takes the one at which the effective dimension
        is half the number of landmarks.
    """

    alpha: float | None = None

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        if self.alpha is not None:
            check_positive("alpha", self.alpha, advice="Or pass None.")
        n = len(gram)
        if n > EXACT_ROWS:
            raise ValueError(
                f"exact leverage scores of {n} rows need a {n} × {n} matrix; use landmarks='recursive_leverage' or "
                f"'bless' for more than {EXACT_ROWS} rows."
            )
        K = gram.block(slice(0, n), slice(0, n))
        check_symmetric(K, gram.floor)
        values, vectors = eigh(K)
        values = np.maximum(values, 0.0)
        if not values.any():
            return np.arange(0)
        alpha = self.alpha if self.alpha is not None else penalty_for(values, 0.5 * n_landmarks)
        scores = np.square(vectors) @ (values / (values + alpha))
        return weighted_choice(np.clip(scores, 0.0, 1.0), n_landmarks, key)


def penalty_for(eigenvalues: Array, dimension: float) -> float:
    """Return the alpha at which Σ λ / (λ + alpha) equals the dimension, by bisection of log(alpha)."""
    top = eigenvalues.max()
    low, high = np.log(top * 1e-14), np.log(top * len(eigenvalues) * 1e3 / min(1.0, dimension))
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.sum(eigenvalues / (eigenvalues + np.exp(middle))) > dimension:
            low = middle
        else:
            high = middle
    return float(np.exp(high))


@dataclass(frozen=True)
class RecursiveLeverage(RowChoice):
    """Ridge leverage scores estimated from half the rows, whose scores come from a quarter, … (Musco & Musco 2017).

    Parameters
    ----------
    alpha : float or None
        None takes the mean of the eigenvalues beyond the first n_landmarks / (4 log n_landmarks), estimated.
    """

    alpha: float | None = None

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        if self.alpha is not None:
            check_positive("alpha", self.alpha, advice="Or pass None.")
        n = len(gram)
        order = key.child("order").generator().permutation(n)
        if not gram.diagonal().any():
            return order[:0]
        oversampling = max(1.0, np.log(n_landmarks))
        sizes = [n]
        while sizes[-1] > max(n_landmarks, 2):
            sizes.append(-(-sizes[-1] // 2))
        sample = order[: sizes[-1]]
        probabilities = np.ones(len(sample))
        for level, size in reversed(list(enumerate(sizes[:-1]))):
            rows = order[:size]
            alpha = self.alpha or _tail(gram, sample, probabilities, int(np.ceil(n_landmarks / (4.0 * oversampling))))
            scores = leverage_scores(gram, rows, sample, probabilities, alpha)
            if level == 0:
                return rows[weighted_choice(scores, n_landmarks, key.child("landmarks"))]
            keep = np.minimum(1.0, oversampling * scores)
            # the expected size is oversampling · d_eff; never more than the landmarks asked for, which bounds the cost
            keep *= min(1.0, n_landmarks / max(keep.sum(), np.finfo(float).tiny))
            kept = np.flatnonzero(key.child(level).generator().random(size) < keep)
            if len(kept):
                sample, probabilities = rows[kept], keep[kept]
        return order[:n_landmarks]


def _tail(gram: Gram, sample: Array, probabilities: Array, k: int) -> float:
    """Estimate the mean over k of the eigenvalues after the first k, from a weighted sample of K."""
    root = 1.0 / np.sqrt(probabilities)
    K = gram.block(sample, sample) * np.outer(root, root)
    values = np.sort(np.linalg.eigvalsh(K))[::-1]
    smallest = max(values[0], np.finfo(float).tiny) * 1e-10
    return float(max(values[k:].sum() / k, smallest))


@dataclass(frozen=True)
class BLESS(RowChoice):
    """Leverage scores down a path of halved penalties, from uniform candidates (Rudi et al. 2018).

    No score exceeds k(x, x) / alpha, so at a large alpha a few candidates are enough, and the rows kept there are used
    to estimate the scores of more candidates at half of it.

    Parameters
    ----------
    alpha : float or None
        Stop the path here; None stops when there are enough rows of large leverage for the landmarks asked for.
    oversampling : float
        Rows kept at each level, divided by the effective dimension there.
    """

    alpha: float | None = None
    oversampling: float = 3.0

    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        if self.alpha is not None:
            check_positive("alpha", self.alpha, advice="Or pass None.")
        n = len(gram)
        order = key.child("order").generator().permutation(n)  # candidates of every level are a prefix
        largest = float(gram.diagonal().max())
        if largest == 0.0:
            return order[:0]
        alpha = n * largest  # here every score is below one half, and uniform rows are enough
        sample, probabilities = order[:1], np.ones(1)
        level = 0
        while True:
            alpha = 0.5 * alpha if self.alpha is None else max(0.5 * alpha, self.alpha)
            n_candidates = min(n, int(np.ceil(self.oversampling * n * largest / alpha)))
            rows = order[:n_candidates]
            scores = leverage_scores(gram, rows, sample, probabilities, alpha)
            dimension = scores.sum() * n / n_candidates  # the effective dimension at alpha
            finished = 2.0 * dimension >= n_landmarks if self.alpha is None else alpha <= self.alpha
            exhausted = alpha <= gram.floor * n * largest
            if finished or exhausted:
                if n_candidates < min(n, 2 * n_landmarks):  # too few to choose from: look at more
                    rows = order[: 2 * n_landmarks]
                    scores = leverage_scores(gram, rows, sample, probabilities, alpha)
                return rows[weighted_choice(scores, n_landmarks, key.child("landmarks"))]
            expected = min(max(self.oversampling * dimension, 10.0), 2.0 * n_landmarks + 10.0)
            keep = np.minimum(1.0, expected * scores / max(scores.sum(), np.finfo(float).tiny))
            kept = np.flatnonzero(key.child(level).generator().random(n_candidates) < keep)
            if len(kept):
                # kept with probability (candidate) × (kept), as a sample of all n rows
                sample, probabilities = rows[kept], keep[kept] * n_candidates / n
            level += 1
