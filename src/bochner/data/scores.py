"""Scores of predictions as folds: what `score` needs of rows that are elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.data.folds import Fold
from bochner.data.sources import Block

Predict = Callable[[Array], Array]


@dataclass(frozen=True)
class AccuracyFold(Fold):
    """Weight of the rows whose label is predicted, and of all."""

    predict: Predict

    def zero(self) -> list[float]:
        return [0.0, 0.0]

    def add(self, total: list[float], Z: Array, block: Block, row: int) -> list[float]:
        w = block.weights
        right = self.predict(block.X) == np.ravel(block.y)
        return [total[0] + float(w @ right), total[1] + float(w.sum())]

    def score(self, total: list[float]) -> float:
        """Return the share of rows with the right label."""
        return total[0] / total[1]


@dataclass(frozen=True)
class DeterminationFold(Fold):
    """Σ w, means of the targets, Σ w (y - mean)² and Σ w (y - ŷ)², the last three (k,)."""

    predict: Predict

    def zero(self) -> list[Any]:
        return [0.0, 0.0, 0.0, 0.0]

    def add(self, total: list[Any], Z: Array, block: Block, row: int) -> list[Any]:
        w = block.weights
        weight = float(w.sum())
        if not weight:
            return total
        y = np.asarray(block.y, dtype=np.float64).reshape(len(block), -1)
        error = y - np.asarray(self.predict(block.X), dtype=np.float64).reshape(y.shape)
        mean = w @ y / weight
        return self.merge(total, [weight, mean, w @ (y - mean) ** 2, w @ (error * error)])

    def merge(self, total: list[Any], other: list[Any]) -> list[Any]:
        if not total[0] or not other[0]:
            return total if total[0] else other
        weight = total[0] + other[0]
        gap = other[1] - total[1]
        squares = total[2] + other[2] + gap * gap * (total[0] * other[0] / weight)
        return [weight, total[1] + gap * (other[0] / weight), squares, total[3] + other[3]]

    def score(self, total: list[Any]) -> float:
        """Return the mean R² of the targets; a constant target counts 1 if it is met, else 0, as in scikit-learn."""
        _, _, squares, errors = total
        varies = squares > 0
        of_targets = np.where(errors > 0, 0.0, 1.0)
        of_targets[varies] = 1.0 - errors[varies] / squares[varies]
        return float(of_targets.mean())
