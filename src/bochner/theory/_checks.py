"""Checks of arguments: each message says what was expected, what came and what to do."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


def count(name: str, value: Any, *, minimum: int = 1, advice: str = "") -> int:
    """Return `value` as an int of at least `minimum`."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Integral, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r}. Round it up with math.ceil if it is a float.")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, got {value}. {advice or 'Ask for more.'}")
    return int(value)


def positive(name: str, value: Any, *, zero: bool = False, advice: str = "") -> float:
    """Return `value` as a finite positive (or non-negative) float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (Real, np.number)):
        raise TypeError(f"{name} must be a real number, got {value!r}. Pass a float.")
    number = float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero):
        kind = "a finite number >= 0" if zero else "a finite number > 0"
        raise ValueError(f"{name} must be {kind}, got {value!r}. {advice or 'Check its units and its sign.'}")
    return number


def fraction(name: str, value: Any, *, advice: str = "") -> float:
    """Return `value` as a float strictly between 0 and 1."""
    number = positive(name, value, zero=True)
    if not 0 < number < 1:
        hint = advice or "Pass 0.01 for one per cent."
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value!r}. {hint}")
    return number


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """Return `value` if it is one of `options`."""
    known = list(options)
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}. Choose one of these.")
    return str(value)


def _floats(name: str, value: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be an array of numbers, got {value!r}. Pass a NumPy array.") from None


def vector(name: str, value: Any) -> NDArray[np.float64]:
    """Return `value` as a 1-d array of finite non-negative floats, with at least one entry."""
    array = _floats(name, value)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or (array < 0).any():
        raise ValueError(
            f"{name} must be a non-empty 1-d array of finite numbers >= 0, got shape {array.shape}. "
            "Pass a spectrum; clip rounding errors below zero with np.maximum(values, 0)."
        )
    return array


def points(name: str, value: Any) -> NDArray[np.float64]:
    """Return `value` as an (n_samples, n_features) array of finite floats, with at least one row."""
    array = _floats(name, value)
    if array.ndim != 2 or array.shape[0] == 0 or not np.isfinite(array).all():
        raise ValueError(
            f"{name} must be a finite array of shape (n_samples, n_features) with at least one row, "
            f"got shape {array.shape}. Reshape one-dimensional data with X.reshape(-1, 1)."
        )
    return array


def whole(name: str, value: float) -> int:
    """Round up, with a message where the promise needs more than any machine holds."""
    if not value < 2**62:
        raise ValueError(
            f"{name} would exceed 2**62: no feasible size keeps this promise. "
            "Allow a larger error or delta, or shrink the domain."
        )
    return max(1, math.ceil(value))
