"""Randomly pivoted Cholesky: rows in proportion to the diagonal of the residual, one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array
from bochner.backends.threads import one_thread
from bochner.checks import check_choice
from bochner.draws.keys import Key
from bochner.landmarks.grams import Gram, PartialCholesky, partial_cholesky, walk
from bochner.landmarks.laws import LandmarkLaw, Landmarks

METHODS = ("pooled", "accelerated", "simple", "greedy")
_MAX_BLOCK = 256
_CREDIT = 0  # kernel entries that candidates may cost before any are saved
_A_PIVOT = 3  # candidates for every pivot chosen from a pool; more of them make blocks smaller
_CHOSEN = 3  # pivots chosen from a pool for every pivot drawn


@dataclass(frozen=True)
class RPCholesky(LandmarkLaw):
    """Pivots in proportion to the residual diagonal (Chen, Epperly, Tropp & Webber 2025).

    At most (n_landmarks + 1) · n_samples kernel entries are evaluated and n_samples · n_landmarks numbers are kept;
    the trace of the residual is known exactly at every step.

    Parameters
    ----------
    method : {"pooled", "accelerated", "simple", "greedy"}
        "simple" draws one pivot at a time. "accelerated" draws blocks of candidates and rejects as many as are needed
        for exactly the same distribution (Epperly, Tropp & Webber 2024). "pooled" draws every fourth pivot in this way
        and chooses three from a pool of candidates drawn in this way, those that lower the trace of the pool's residual
        most: errors are smaller for the same number of entries, and as further pivots only help, the bounds of "simple"
        hold for a quarter of the pivots. "greedy" takes the largest residual.
    """

    method: str = "pooled"

    def sample(self, gram: Gram, n_landmarks: int, key: Key, tol: float = 0.0) -> Landmarks:
        factor = self.factor(gram, min(n_landmarks, len(gram)), key, tol)
        columns = factor.F[:, : factor.rank] if gram.there is None else None
        return Landmarks(gram.points(factor.pivots), factor.pivots.copy(), columns, factor.triangle)

    def factor(self, gram: Gram, n_pivots: int, key: Key, tol: float = 0.0) -> PartialCholesky:
        """Return the partial Cholesky factor with these pivots, stopped once the relative trace error reaches tol."""
        check_choice("method", self.method, METHODS)
        factor = partial_cholesky(gram, n_pivots)
        with one_thread():  # of BLAS, for many small products; the large ones are shared out
            (self._blocked if self.method in ("pooled", "accelerated") else self._simple)(factor, n_pivots, key, tol)
        return factor

    def _simple(self, factor: PartialCholesky, n_pivots: int, key: Key, tol: float) -> None:
        rng = key.generator()
        while factor.rank < n_pivots and factor.residual.sum() > tol * factor.trace:
            greedy = self.method == "greedy"
            row = factor.residual.argmax() if greedy else _draw(factor.residual, rng.random(1))[0]
            factor.extend(np.array([row]))

    def _blocked(self, factor: PartialCholesky, n_pivots: int, key: Key, tol: float) -> None:
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
            thresholds[0] = 0.0  # the first candidate is distributed as a new draw
            hoped = max(1, b // _A_PIVOT) if self.method == "pooled" else b
            select = pooled if self.method == "pooled" else walk
            keep, L = select(H[np.ix_(place, place)], factor.floor, thresholds, min(hoped, n_pivots - j))
            if not len(keep):  # the residual of these rows is only rounding
                factor.residual[rows[H.diagonal() <= factor.floor]] = 0.0
                saved -= len(rows) ** 2
                continue
            factor.append(candidates[keep], L, rows, K[:, place[keep]])
            a = len(keep)
            saved += a * (j + len(rows)) - len(rows) ** 2
            largest = max(1, largest // 2) if 4 * a < hoped else min(_MAX_BLOCK, 2 * largest)
            left = before - np.cumsum(factor.squares(j))
            enough = np.flatnonzero(left <= tol * factor.trace)
            if len(enough):
                factor.truncate(j + int(enough[0]) + 1)


def pooled(H: Array, floor: float, thresholds: Array, limit: int) -> tuple[Array, Array]:
    """Choose at most `limit` candidates, one drawn for every _CHOSEN chosen, and return positions and Cholesky factor.

    The first candidates are a queue: the next one whose residual exceeds its threshold is a pivot, as in `walk`. They
    are not used before, so that this is a draw in proportion to the residual diagonal. The others are the pool. Pivot i
    lowers the trace of the whole matrix by ‖Heᵢ‖² / Hᵢᵢ, and as candidates j were drawn in proportion to the diagonal h
    at the start, the sum of Hᵢⱼ² / (hⱼ Hᵢᵢ) over the pool estimates it without bias.
    """
    b = len(H)
    queue = -(-2 * max(1, b // _A_PIVOT) // (1 + _CHOSEN))  # twice as many as needed if none were rejected
    H, C, at = H.copy(), np.zeros((b, limit)), 0
    weights = 1.0 / np.maximum(H.diagonal()[queue:], floor)
    keep: list[int] = []
    while len(keep) < limit:
        left = H.diagonal()
        if len(keep) % (1 + _CHOSEN) == 0:
            while at < queue and left[at] <= max(floor, thresholds[at]):
                at += 1
            if at == queue:
                break
            i = at
        else:
            P, left = H[queue:, queue:], left[queue:]
            gains = np.where(left > floor, np.square(P) @ weights / np.maximum(left, floor), 0.0)
            if not gains.any():
                break
            # the first of equal ones, however they are rounded
            i = queue + int(np.argmax(gains >= (1.0 - 1e-9) * gains.max()))
        column = H[:, i] / np.sqrt(H[i, i])
        H -= np.outer(column, column)
        H[i] = H[:, i] = 0.0
        C[:, len(keep)] = column
        keep.append(i)
    kept = np.array(keep, dtype=np.intp)
    return kept, np.tril(C[kept, : len(kept)])


def _draw(weights: Array, u: Array) -> Array:
    """Draw indices in proportion to the weights, by inversion."""
    total = np.cumsum(weights)
    # never an index of weight zero, even where u * total rounds up
    return np.minimum(np.searchsorted(total, u * total[-1], side="right"), np.flatnonzero(weights)[-1])
