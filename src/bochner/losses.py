"""Losses of a row's scores: value, slope, and curvature, for Newton's method on any number of classes.

Targets are signs Y (n, k): 1 in the column of the row's class, -1 elsewhere; two classes have one column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp

from bochner.backends import Array


class ScoreLoss(ABC):
    """A convex loss ℓ(f, y) of k scores f. Arrays are (n, k) unless said otherwise."""

    @abstractmethod
    def value(self, F: Array, Y: Array) -> Array:
        """ℓ of every row, (n,)."""

    @abstractmethod
    def slope(self, F: Array, Y: Array) -> tuple[Array, Array]:
        """∂ℓ/∂f, and whatever `curve` and `curvature` need to know of F and Y."""

    @abstractmethod
    def curve(self, state: Array, D: Array) -> Array:
        """The second derivative of every row times a direction."""

    @abstractmethod
    def curvature(self, state: Array) -> Array:
        """One number ≥ 0 a row, (n,): the second derivative averaged over the scores."""


@dataclass(frozen=True)
class LogLoss(ScoreLoss):
    """-log p of the row's class: a sigmoid of one score, a softmax of more."""

    def value(self, F: Array, Y: Array) -> Array:
        if F.shape[1] == 1:
            return np.logaddexp(0.0, -(Y * F)[:, 0])
        return np.asarray(logsumexp(F, axis=1) - (F * (Y > 0)).sum(axis=1))

    def slope(self, F: Array, Y: Array) -> tuple[Array, Array]:
        P = self.probabilities(F)
        return P - (Y > 0), P

    def probabilities(self, F: Array) -> Array:
        """Of the second class, or of each class."""
        if F.shape[1] == 1:
            return np.asarray(expit(F))
        P = np.exp(F - F.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return P

    def curve(self, state: Array, D: Array) -> Array:
        if D.shape[1] == 1:
            return state * (1.0 - state) * D
        PD = state * D
        return PD - state * PD.sum(axis=1, keepdims=True)

    def curvature(self, state: Array) -> Array:
        # all k scores moved together change nothing: the trace belongs to k - 1 directions
        return np.asarray((state * (1.0 - state)).sum(axis=1) / max(1, state.shape[1] - 1))


@dataclass(frozen=True)
class SquaredHinge(ScoreLoss):
    """Σ max(0, 1 - y f)² / 2, one class against the rest in every column."""

    def value(self, F: Array, Y: Array) -> Array:
        return np.asarray(0.5 * (np.maximum(0.0, 1.0 - Y * F) ** 2).sum(axis=1))

    def slope(self, F: Array, Y: Array) -> tuple[Array, Array]:
        gap = np.maximum(0.0, 1.0 - Y * F)
        return -Y * gap, (gap > 0).astype(F.dtype)

    def curve(self, state: Array, D: Array) -> Array:
        return state * D

    def curvature(self, state: Array) -> Array:
        return np.asarray(state.mean(axis=1))


SCORE_LOSSES: dict[str, Any] = {"log_loss": LogLoss(), "squared_hinge": SquaredHinge()}
