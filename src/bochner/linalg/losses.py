"""Losses of a linear model: value, slope and curvature in the score t = a·x, one number an observation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from bochner.backends import Array
from bochner.checks import check_positive


class Loss(ABC):
    """A convex, once differentiable loss ℓ(t, y) with a (generalised) second derivative."""

    def targets(self, y: Array) -> Array:
        """Return y in the form the formulas want, or say what is wrong with it."""
        return y

    @abstractmethod
    def value(self, t: Array, y: Array) -> Array:
        """ℓ."""

    @abstractmethod
    def slope(self, t: Array, y: Array) -> Array:
        """∂ℓ/∂t."""

    @abstractmethod
    def curvature(self, t: Array, y: Array) -> Array:
        """∂²ℓ/∂t², at least 0."""


def _signs(y: Array) -> Array:
    labels = np.unique(y)
    if len(labels) > 2 or not (np.isin(labels, (-1, 1)).all() or np.isin(labels, (0, 1)).all()):
        raise ValueError(
            f"y must hold two classes, -1 and 1 or 0 and 1; it has {labels[:5].tolist()}{'…' * (len(labels) > 5)}."
        )
    return np.where(y > 0, 1.0, -1.0)


@dataclass(frozen=True)
class LogLoss(Loss):
    """log(1 + exp(-y t)), y = ±1."""

    def targets(self, y: Array) -> Array:
        return _signs(y)

    def value(self, t: Array, y: Array) -> Array:
        return np.logaddexp(0.0, -y * t)

    def slope(self, t: Array, y: Array) -> Array:
        return -y * expit(-y * t)

    def curvature(self, t: Array, y: Array) -> Array:
        return expit(t) * expit(-t)


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y t)² / 2, y = ±1."""

    def targets(self, y: Array) -> Array:
        return _signs(y)

    def value(self, t: Array, y: Array) -> Array:
        return 0.5 * np.maximum(0.0, 1.0 - y * t) ** 2

    def slope(self, t: Array, y: Array) -> Array:
        return -y * np.maximum(0.0, 1.0 - y * t)

    def curvature(self, t: Array, y: Array) -> Array:
        return (y * t < 1.0).astype(t.dtype)


@dataclass(frozen=True)
class Poisson(Loss):
    """exp(t) - y t: counts y with mean exp(t)."""

    def targets(self, y: Array) -> Array:
        if (y < 0).any():
            raise ValueError(f"counts must not be negative; the smallest y is {y.min():.3g}.")
        return y

    def value(self, t: Array, y: Array) -> Array:
        return np.exp(t) - y * t

    def slope(self, t: Array, y: Array) -> Array:
        return np.exp(t) - y

    def curvature(self, t: Array, y: Array) -> Array:
        return np.exp(t)


@dataclass(frozen=True)
class Huber(Loss):
    """(t - y)² / 2 where |t - y| ≤ delta, growing linearly beyond."""

    delta: float = 1.35

    def __post_init__(self) -> None:
        check_positive("delta", self.delta)

    def value(self, t: Array, y: Array) -> Array:
        r = np.abs(t - y)
        return np.where(r <= self.delta, 0.5 * r * r, self.delta * (r - 0.5 * self.delta))

    def slope(self, t: Array, y: Array) -> Array:
        return np.clip(t - y, -self.delta, self.delta)

    def curvature(self, t: Array, y: Array) -> Array:
        return (np.abs(t - y) <= self.delta).astype(t.dtype)


@dataclass(frozen=True)
class Squared(Loss):
    """(t - y)² / 2."""

    def value(self, t: Array, y: Array) -> Array:
        return 0.5 * (t - y) ** 2

    def slope(self, t: Array, y: Array) -> Array:
        return t - y

    def curvature(self, t: Array, y: Array) -> Array:
        return np.ones_like(t)


LOSSES: dict[str, Loss] = {
    "log_loss": LogLoss(),
    "poisson": Poisson(),
    "squared_hinge": SquaredHinge(),
    "huber": Huber(),
    "squared": Squared(),
}


def as_loss(loss: Any) -> Loss:
    """Return the loss of a name, or the loss itself."""
    if isinstance(loss, Loss):
        return loss
    if isinstance(loss, str) and loss in LOSSES:
        return LOSSES[loss]
    raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, or a Loss; got {loss!r}.")
