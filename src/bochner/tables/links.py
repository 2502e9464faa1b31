"""Probabilities of classes, fitted on leave-one-out scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax

from bochner.backends import Array
from bochner.tuning.policies import ColumnPolicy

POLICY = ColumnPolicy()


@dataclass(frozen=True)
class Link:
    """Turns scores (n, k) into log odds: slope · score + bend · score³ + levels.

    Scores of the squared loss estimate 2p - 1, whose log odds are 2 artanh(score) = 2 (score + score³ / 3 + …).
    """

    slope: float
    levels: Array
    bend: float = 0.0

    def __call__(self, scores: Any) -> Any:
        return scores * (scores * scores * self.bend + self.slope) + self.levels

    def tempered(self, factor: float) -> Link:
        """Multiply all log odds by a factor: probabilities change, and the likeliest class does not."""
        return Link(self.slope * factor, self.levels * factor, self.bend * factor)


def fit_link(scores: Array, codes: Array, weight: Array) -> Link:
    """Fit the slope, bend and levels of least log loss on leave-one-out scores; weights have mean one.

    Targets are smoothed by one row (Platt 1999), so that the slope is finite even if the classes are separable.
    """
    n, k = scores.shape
    targets = codes[:, None].astype(float) if k == 1 else (codes[:, None] == np.arange(k)).astype(float)
    targets = (targets * n + 1.0) / (n + max(2, k))
    size, share = float(scores.std()) or 1.0, weight / weight.sum()
    unit = scores / size
    cubes = unit**3

    def loss(parameters: Array) -> tuple[float, Array]:
        slope, bend, levels = np.exp(parameters[0]), parameters[1], parameters[2:]
        logits = slope * unit + bend * cubes + levels
        if k == 1:  # the same, with a second score of zero
            losses, p = np.logaddexp(0.0, logits) - targets * logits, expit(logits)
        else:
            logs = log_softmax(logits, axis=1)
            losses, p = -targets * logs, np.exp(logs)
        D = (p - targets) * share[:, None]
        slopes = [slope * (D * unit).sum(), (D * cubes).sum(), *D.sum(axis=0)]
        return float(share @ losses.sum(axis=1)), np.array(slopes)

    bounds = [(-5.0, 8.0), (0.0, POLICY.most_bent)] + [(-30.0, 30.0)] * k
    found = minimize(loss, np.zeros(2 + k), jac=True, method="L-BFGS-B", bounds=bounds)
    return Link(float(np.exp(found.x[0]) / size), found.x[2:], float(found.x[1]) / size**3)


def fit_temperature(logits: Array, codes: Array, weight: Array) -> float:
    """Return the factor, at most one, of log odds (n, k) of held-out rows that has the least log loss.

    Log odds fitted on rows that also chose the model are too large (temperature scaling: Guo et al. 2017).
    """
    logits = np.column_stack([np.zeros(len(logits)), logits]) if logits.shape[1] == 1 else logits

    def loss(log_factor: float) -> float:
        logs = log_softmax(np.exp(log_factor) * logits, axis=1)[np.arange(len(codes)), codes]
        return -float(np.average(logs, weights=weight))

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(POLICY.least_factor), 0.0), method="bounded").x))
