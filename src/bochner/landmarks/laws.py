"""Laws of Nyström points that look at the kernel matrix little or not at all, and what a law is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array, as_native
from bochner.keys import Key
from bochner.landmarks.factors import PartialCholesky
from bochner.landmarks.grams import Gram


@dataclass(frozen=True)
class Landmarks:
    """What a law draws.

    Attributes
    ----------
    points : ndarray or CSR matrix of shape (n_landmarks, n_features), or row indices of a precomputed matrix
    indices : ndarray of shape (n_landmarks,) or None
        Which rows of the data they are; None if they are not rows.
    factor : ndarray of shape (n_samples, n_landmarks) or None
        F with FFᵀ the Nyström approximation, column j using the first j + 1 landmarks, where the law has computed it.
    triangle : ndarray of shape (n_landmarks, n_landmarks) or None
        The landmarks' rows of F.
    """

    points: Any
    indices: Array | None
    factor: Array | None = None
    triangle: Array | None = None


class LandmarkLaw(ABC):
    """A law of at most n_landmarks points that stand for all rows."""

    @abstractmethod
    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        """Draw landmarks: fewer than asked if the rest would add nothing, or at once when the trace error is tol.

        Laws that do not know the trace error as they go draw as many as asked.
        """


class RowChoice(LandmarkLaw):
    """A law whose landmarks are rows of the data."""

    @abstractmethod
    def choose(self, gram: Gram, n_landmarks: int, key: Key) -> Array:
        """Indices of distinct rows."""

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        indices = self.choose(gram, min(n_landmarks, len(gram)), key)
        return Landmarks(gram.points(indices), indices)


def weighted_choice(weights: Array, n: int, key: Key) -> Array:
    """Return n distinct indices drawn one after the other in proportion to the weights, fewer if fewer are positive.

    The n largest of log(weight) + Gumbel noise have this law, and a larger n extends the same draw.
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
    """Rounds of rows in proportion to the squared column norms of what is left of K (Kumar, Mohri & Talwalkar 2012).

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

    landmarks: Any

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
            raise ValueError("kernel='precomputed' knows rows, not points: give landmarks as an array of row indices.")
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
