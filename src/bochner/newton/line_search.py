"""Armijo's rule, for objectives that are evaluated exactly and for those whose every evaluation is a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from bochner.backends import Array


class Point(Protocol):
    """Where an objective was evaluated."""

    @property
    def value(self) -> float:
        """Return the objective."""

    @property
    def gradient(self) -> Array:
        """Return its gradient."""


P = TypeVar("P", bound=Point)


def line_search(
    at: Callable[[float], P], here: Point, promise: float, rounding: float, most_tries: int
) -> tuple[P | None, float, int]:
    """Find the first point at(t) with enough decrease, t from 1 downwards; return it, t and the number of tries.

    Parameters
    ----------
    at : callable
        t ↦ the point t times the step away.
    here : Point
    promise : float
        Minus the slope of the objective along the step: twice what a quadratic model gains.
    rounding : float
        Below it, differences of the objective are rounding, and a smaller gradient counts as decrease.
    most_tries : int
    """
    t, norm = 1.0, np.linalg.norm(here.gradient)
    for tried in range(1, most_tries + 1):
        found = at(t)
        rise = found.value - here.value
        if promise > rounding:
            good = rise <= -1e-4 * t * promise
        else:
            good = bool(rise <= rounding and np.linalg.norm(found.gradient) < norm)
        if good:
            return found, t, tried
        if t * promise < 1e-3 * rounding:
            break
        # the least value of the parabola with this slope and this rise
        least = 0.5 * t * promise / (rise / t + promise) if np.isfinite(rise) and rise > -t * promise else 0.0
        t *= min(0.5, max(0.1, least / t))
    return None, t, tried
