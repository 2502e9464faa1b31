"""Probabilities of classes, fitted on leave-one-out scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from bochner.backends import Array


@dataclass(frozen=True)
class Link:
    """Turns scores (n, k) into log odds: slope · score + levels."""

    slope: float
    levels: Array

    def __call__(self, scores: Array) -> Array:
        return np.asarray(self.slope * scores + self.levels)


def fit_link(scores: Array, codes: Array, weight: Array) -> Link:
    """The slope and levels of least log loss on leave-one-out scores; weights have mean one.

    Targets are smoothed by one row (Platt 1999), so that the slope is finite even if the classes are separable.
    """
    n, k = scores.shape
    targets = np.column_stack([1.0 - codes, codes]) if k == 1 else (codes[:, None] == np.arange(k)).astype(float)
    targets = (targets * n + 1.0) / (n + targets.shape[1])
    size, share = float(scores.std()) or 1.0, weight / weight.sum()

    def loss(parameters: Array) -> tuple[float, Array]:
        slope, levels = np.exp(parameters[0]) / size, parameters[1:]
        logits = slope * scores + levels
        full = np.column_stack([np.zeros(n), logits]) if k == 1 else logits
        logs = log_softmax(full, axis=1)
        D = (np.exp(logs) - targets)[:, full.shape[1] - k :] * share[:, None]
        return -float(share @ (targets * logs).sum(axis=1)), np.r_[slope * (D * scores).sum(), D.sum(axis=0)]

    start = np.zeros(1 + k)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(-5.0, 8.0)] + [(-30.0, 30.0)] * k)
    return Link(float(np.exp(found.x[0]) / size), found.x[1:])
