"""Convex losses of scores: value, slope and curvature, one family for classifiers, regressions and learned features.

Formulas take arrays of any backend. One score per row is F (n,) with targets Y (n,); several are (n, k). Targets of
classes are signs: 1 in the column of the row's class, -1 elsewhere; two classes have one column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from bochner.backends import Array, backend_of
from bochner.checks import check_positive


class Loss(ABC):
    """A convex, once differentiable loss ℓ(f, y) with a (generalised) second derivative.

    With several scores per row, it is the sum over them, unless a subclass says otherwise.
    """

    def targets(self, y: Array) -> Array:
        """Return y in the form the formulas want, or say what is wrong with it."""
        return y

    @abstractmethod
    def value(self, F: Array, Y: Array) -> Array:
        """Return ℓ of every row, (n,)."""

    @abstractmethod
    def slope(self, F: Array, Y: Array) -> Array:
        """Return ∂ℓ/∂f, of the shape of F."""

    @abstractmethod
    def curvature(self, F: Array, Y: Array) -> Array:
        """Return ∂²ℓ/∂f² ≥ 0 of every score, of the shape of F."""

    def curvature_product(self, F: Array, Y: Array, D: Array) -> Array:
        """Return the second derivative of every row times a direction D, of the shape of F."""
        return self.curvature(F, Y) * D

    def mean_curvature(self, F: Array, Y: Array) -> Array:
        """Return the second derivative of each row, (n,), averaged over the directions in which ℓ changes."""
        return self.curvature(F, Y).mean(1)

    def curvature_bound(self, n_scores: int = 1) -> float:
        """Return the largest eigenvalue that the second derivative of a row can have."""
        return np.inf

    def ignores_shifts(self, n_scores: int = 1) -> bool:
        """Return True if ℓ stays the same when a constant is added to all scores of a row."""
        return False


def _of_rows(values: Array) -> Array:
    """Sum over the columns, if there are columns."""
    return values if values.ndim == 1 else values.sum(1)


def _indicator(holds: Array, F: Array) -> Array:
    """Return 1 where a condition holds and 0 elsewhere, in the dtype of F."""
    xp = backend_of(F).xp
    return xp.where(holds, xp.ones_like(F), 0.0)


def _signs(y: Array) -> Array:
    labels = np.unique(y)
    if len(labels) > 2 or not (np.isin(labels, (-1, 1)).all() or np.isin(labels, (0, 1)).all()):
        raise ValueError(
            f"y must hold two classes, -1 and 1 or 0 and 1; it has {labels[:5].tolist()}{'…' * (len(labels) > 5)}."
        )
    return np.where(y > 0, 1.0, -1.0)


@dataclass(frozen=True)
class LogLoss(Loss):
    """-log p of the row's class: p = 1 / (1 + exp(-y f)) of one score, a softmax of more."""

    def targets(self, y: Array) -> Array:
        return _signs(y)

    def value(self, F: Array, Y: Array) -> Array:
        xp = backend_of(F).xp
        if _one_score(F):
            margin = Y * F
            return _of_rows(xp.log1p(xp.exp(-abs(margin))) - xp.clip(margin, None, 0.0))
        top = xp.amax(F, 1)
        return top + xp.log(xp.exp(F - top[:, None]).sum(1)) - xp.where(Y > 0, F, 0.0).sum(1)

    def slope(self, F: Array, Y: Array) -> Array:
        if _one_score(F):
            return -Y * self.probabilities(-Y * F)
        return self.probabilities(F) - _indicator(Y > 0, F)

    def probabilities(self, F: Array) -> Array:
        """Return the probability of the second class, or of each class, at the scores F."""
        xp = backend_of(F).xp
        if _one_score(F):
            e = xp.exp(-abs(F))
            return xp.where(F > 0, 1.0, e) / (1.0 + e)
        P = xp.exp(F - xp.amax(F, 1)[:, None])
        P /= P.sum(1)[:, None]
        return P

    def curvature(self, F: Array, Y: Array) -> Array:
        P = self.probabilities(F)
        return P * (self.probabilities(-F) if _one_score(F) else 1.0 - P)

    def curvature_product(self, F: Array, Y: Array, D: Array) -> Array:
        if _one_score(F):
            return self.curvature(F, Y) * D
        P = self.probabilities(F)
        PD = P * D
        return PD - P * PD.sum(1)[:, None]

    def mean_curvature(self, F: Array, Y: Array) -> Array:
        # adding a constant to all k scores changes nothing: the trace belongs to k - 1 directions
        return self.curvature(F, Y).sum(1) / max(1, F.shape[1] - 1)

    def curvature_bound(self, n_scores: int = 1) -> float:
        return 0.25 if n_scores == 1 else 0.5

    def ignores_shifts(self, n_scores: int = 1) -> bool:
        return n_scores > 1


def _one_score(F: Array) -> bool:
    return F.ndim == 1 or F.shape[1] == 1


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y f)² / 2, y = ±1; of several columns, one class against the rest in every one."""

    def targets(self, y: Array) -> Array:
        return _signs(y)

    def value(self, F: Array, Y: Array) -> Array:
        return _of_rows(0.5 * backend_of(F).xp.clip(1.0 - Y * F, 0.0, None) ** 2)

    def slope(self, F: Array, Y: Array) -> Array:
        return -Y * backend_of(F).xp.clip(1.0 - Y * F, 0.0, None)

    def curvature(self, F: Array, Y: Array) -> Array:
        return _indicator(Y * F < 1.0, F)

    def curvature_bound(self, n_scores: int = 1) -> float:
        return 1.0


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(f) - y f: counts y with mean exp(f)."""

    def targets(self, y: Array) -> Array:
        if (y < 0).any():
            raise ValueError(f"counts must not be negative; the smallest y is {y.min():.3g}.")
        return y

    def value(self, F: Array, Y: Array) -> Array:
        return _of_rows(backend_of(F).xp.exp(F) - Y * F)

    def slope(self, F: Array, Y: Array) -> Array:
        return backend_of(F).xp.exp(F) - Y

    def curvature(self, F: Array, Y: Array) -> Array:
        return backend_of(F).xp.exp(F)


@dataclass(frozen=True)
class Huber(Loss):
    """(f - y)² / 2 where |f - y| ≤ delta, growing linearly beyond.

    Parameters
    ----------
    delta : float, default=1.35
        The error from which on the loss is linear.
    """

    delta: float = 1.35

    def __post_init__(self) -> None:
        check_positive("delta", self.delta)

    def value(self, F: Array, Y: Array) -> Array:
        inner = self.slope(F, Y)
        return _of_rows(inner * (F - Y - 0.5 * inner))

    def slope(self, F: Array, Y: Array) -> Array:
        return backend_of(F).xp.clip(F - Y, -self.delta, self.delta)

    def curvature(self, F: Array, Y: Array) -> Array:
        return _indicator(abs(F - Y) <= self.delta, F)

    def curvature_bound(self, n_scores: int = 1) -> float:
        return 1.0


@dataclass(frozen=True)
class Squared(Loss):
    """(f - y)² / 2."""

    def value(self, F: Array, Y: Array) -> Array:
        return _of_rows(0.5 * (F - Y) ** 2)

    def slope(self, F: Array, Y: Array) -> Array:
        return F - Y

    def curvature(self, F: Array, Y: Array) -> Array:
        return backend_of(F).xp.ones_like(F)

    def curvature_bound(self, n_scores: int = 1) -> float:
        return 1.0


LOSSES: dict[str, Loss] = {
    "log_loss": LogLoss(),
    "poisson": Poisson(),
    "squared_hinge": SquaredHinge(),
    "huber": Huber(),
    "squared": Squared(),
}


def as_loss(loss: str | Loss) -> Loss:
    """Return the loss of a name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, or a Loss; got {loss!r}.")
