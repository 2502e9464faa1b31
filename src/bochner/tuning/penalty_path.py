"""The choice of a classifier's penalty: models of a few rows are compared by their loss on other rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from bochner.backends import Array
from bochner.data.sources import ArraySource, Block
from bochner.draws.keys import Key
from bochner.features.maps import Identity
from bochner.newton.losses import Loss
from bochner.newton.minimize import newton
from bochner.newton.objectives import SINGLE_SIZE, Problem

_TOL = 1e-2  # relative tolerance of the objectives
_MOST_DECADES = 8  # the most decades tried in each direction


class PenaltyPath:
    """Models of a few rows with several penalties, and their losses on other rows."""

    def __init__(self, train: Block, test: Block, problem: Callable[..., Problem], loss: Loss) -> None:
        Z, m = train.X, train.X.shape[1]
        squares = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)) / len(Z) or 1.0  # mean k(x, x)
        self.unit = squares * float(train.weights.mean())
        if Z.size >= SINGLE_SIZE:
            Z, test = Z.astype(np.float32, copy=False), replace(test, X=test.X.astype(np.float32, copy=False))
        self.test, self.loss = test, loss
        source = ArraySource(Z, train.y, train.weight)
        self.problem = partial(problem, source, Identity(m), loss)
        self.weight = test.weights
        self.points: dict[float, Array] = {}
        self.losses: dict[float, float] = {}

    @property
    def best(self) -> float:
        """The penalty with the least loss, of equal ones the largest."""
        return min(self.losses, key=lambda alpha: (self.losses[alpha], -alpha))

    @property
    def least(self) -> float:
        """Its loss."""
        return self.losses[self.best]

    def search(self, unit: float) -> None:
        """Try decades of a unit, upwards or downwards, while the loss falls; then half a decade beside the best."""

        def at(decade: float) -> float:
            return self.loss_at(unit * 10.0**decade)

        best, towards = (0, 1) if at(0) <= at(-1) else (-1, -1)
        while abs(best) < _MOST_DECADES and at(best + towards) < at(best):
            best += towards
        at(best + 0.5 if at(best + 1) < at(best - 1) else best - 0.5)

    def loss_at(self, alpha: float) -> float:
        """The mean loss on held-out rows; Newton's method starts from the model of the nearest penalty tried.

        Of n rows that are all right nobody knows a loss below 1 / n, which is what smaller ones count as: that of
        labels that can be separated would fall forever with the penalty.
        """
        alpha = float(alpha)
        if alpha not in self.losses:
            problem = replace(self.problem(alpha), rows=None, verbose=0, single=True)
            near = min(self.points, key=lambda other: abs(np.log(other / alpha)), default=None)
            start = np.zeros(problem.shape) if near is None else self.points[near]
            P, _, _ = newton(problem, Key(0), start, tol=_TOL, max_iter=500)
            F = self.test.X @ P[:-1] + P[-1]
            self.points[alpha] = P
            loss = float(self.weight @ self.loss.value(F, self.test.y) / self.weight.sum())
            self.losses[alpha] = max(loss, 1.0 / len(self.weight))
        return self.losses[alpha]
