"""Randomly pivoted Cholesky: rows in proportion to what is left of the diagonal, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array
from bochner.keys import Key
from bochner.landmarks.factors import PartialCholesky, partial_cholesky, walk
from bochner.landmarks.grams import Gram
from bochner.landmarks.laws import LandmarkLaw, Landmarks

_MAX_BLOCK = 256
_CREDIT = 0  # entries candidates may cost before any have been saved


@dataclass(frozen=True)
class RPCholesky(LandmarkLaw):
    """Pivots in proportion to the residual diagonal (Chen, Epperly, Tropp & Webber 2025).

    At most (n_landmarks + 1) · n_samples kernel entries are evaluated and n_samples · n_landmarks numbers are kept;
    the trace of what is left is known exactly at every step.

    Parameters
    ----------
    method : {"accelerated", "simple", "greedy"}
        "accelerated" draws blocks of candidates and rejects as many as are needed for exactly the law of "simple"
        (Epperly, Tropp & Webber 2024), which draws one pivot at a time. "greedy" takes the largest residual.
    """

    method: str = "accelerated"

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        factor = self.factor(gram, min(n_landmarks, len(gram)), key, tol)
        columns = factor.F[:, : factor.rank] if gram.there is None else None
        return Landmarks(gram.points(factor.pivots), factor.pivots.copy(), columns, factor.triangle)

    def factor(self, gram: Gram, n_pivots: int, key: Key, tol: float = 0.0) -> PartialCholesky:
        """The partial Cholesky factor with these pivots, stopped once the relative trace error is at most tol."""
        if self.method not in ("accelerated", "simple", "greedy"):
            raise ValueError(f"method must be 'accelerated', 'simple' or 'greedy'; got {self.method!r}.")
        factor = partial_cholesky(gram, n_pivots)
        (self._accelerated if self.method == "accelerated" else self._simple)(factor, n_pivots, key, tol)
        return factor

    def _simple(self, factor: PartialCholesky, n_pivots: int, key: Key, tol: float) -> None:
        rng = key.generator()
        while factor.rank < n_pivots and factor.residual.sum() > tol * factor.trace:
            greedy = self.method == "greedy"
            row = factor.residual.argmax() if greedy else _draw(factor.residual, rng.random(1))[0]
            factor.extend(np.array([row]))

    def _accelerated(self, factor: PartialCholesky, n_pivots: int, key: Key, tol: float) -> None:
        # Candidates cost b² entries more; older pivots' rows cost none. b is such that the savings always pay, so
        # that (n_pivots + 1) n holds whatever is rejected; it never depends on n_pivots, so more pivots extend a draw.
        rng = key.generator()
        saved, largest = _CREDIT, _MAX_BLOCK
        while factor.rank < n_pivots and factor.residual.sum() > tol * factor.trace:
            before, j = factor.residual.sum(), factor.rank
            b = max(1, min(largest, int(0.5 + np.sqrt(max(0.25, 0.25 + saved + j)))))  # b (b - 1) <= saved + j
            candidates = _draw(factor.residual, rng.random(b))
            rows, place = np.unique(candidates, return_inverse=True)
            K, H = factor.schur(rows)
            thresholds = rng.random(b) * factor.residual[candidates]
            keep, L = walk(H[np.ix_(place, place)], factor.floor, thresholds, n_pivots - j)
            if not len(keep):  # what is left of these rows was rounding only
                factor.residual[rows] = 0.0
                saved -= len(rows) ** 2
                continue
            factor.append(candidates[keep], L, rows, K[:, place[keep]])
            a = len(keep)
            saved += a * (j + len(rows)) - len(rows) ** 2
            largest = max(1, largest // 2) if 4 * a < b else min(_MAX_BLOCK, 2 * largest)
            left = before - np.cumsum(factor.squares(j))
            enough = np.flatnonzero(left <= tol * factor.trace)
            if len(enough):
                factor.truncate(j + int(enough[0]) + 1)


def _draw(weights: Array, u: Array) -> Array:
    """Indices in proportion to the weights, by inversion."""
    total = np.cumsum(weights)
    # never an index of weight zero, even where u * total rounds up
    return np.minimum(np.searchsorted(total, u * total[-1], side="right"), np.flatnonzero(weights)[-1])
