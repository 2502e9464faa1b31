"""Checks of arguments: one function for each kind, which returns the value or says what it should have been."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

_MOST = 2**31 - 1  # upper limit for count arguments
# Upper limits for sums of weights, by the bytes of a number: Σ w zzᵀ with large features, and products of four weights,
# do not overflow.
_LARGEST_WEIGHT = {4: 1e30, 8: 1e75}


class ArgumentError(ValueError, TypeError):
    """An argument is not what it should be: both a ValueError and a TypeError, as in scikit-learn."""


class ConstantModelWarning(UserWarning):
    """A model is not clearly better than a constant on rows that it was not fitted to."""


_PASSED_ON = ("bochner", "sklearn", "joblib")  # packages whose lines are not the user's


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, below all frames of bochner, scikit-learn and joblib."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _PASSED_ON:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _refuse(name: str, expected: str, value: object, advice: str = "") -> ArgumentError:
    mark = ";" if "," in expected else ","
    return ArgumentError(f"{name} must be {expected}{mark} got {value!r}." + (f" {advice}" if advice else ""))


def check_count(name: str, value: object, *, least: int = 1, most: float = _MOST, advice: str = "") -> int:
    """Return an integer from `least` to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or int(value) < least:
        kind = "a positive integer" if least == 1 else f"an integer of at least {least}"
        raise _refuse(name, kind, value, advice)
    if int(value) > most:
        raise _refuse(name, f"at most {most}", value, advice)
    return int(value)


def check_positive(name: str, value: object, *, zero: bool = False, advice: str = "") -> float:
    """Return a finite number above 0, or 0 if `zero`."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else -1.0
    if not 0.0 <= number < math.inf or (number == 0.0 and not zero):
        raise _refuse(name, "a positive number or 0" if zero else "a positive number", value, advice)
    return number


def check_fraction(name: str, value: object, *, advice: str = "Pass 0.01 for one per cent.") -> float:
    """Return a number strictly between 0 and 1."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else -1.0
    if not 0.0 < number < 1.0:
        raise _refuse(name, "a number strictly between 0 and 1", value, advice)
    return number


def check_flag(name: str, value: object) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)) and not (isinstance(value, Integral) and value in (0, 1)):
        raise _refuse(name, "True or False", value)
    return bool(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return one of the choices."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise _refuse(name, f"one of {', '.join(map(repr, known))}", value)
    return str(value)


def check_device_name(device: object) -> None:
    """Refuse a string that is no name of a device; the machine need not have the device."""
    if not isinstance(device, str) or not re.fullmatch(r"cpu|cuda(:\d{1,3})?", device):
        raise _refuse("device", "None, 'cuda', 'cuda:0', … or 'cpu'", device)


def is_auto(value: object, name: str = "n_components") -> bool:
    """Return True for "auto", False for anything that is no string, and refuse other strings."""
    if isinstance(value, str) and value != "auto":
        raise _refuse(name, "a positive integer or 'auto'", value)
    return isinstance(value, str)


def is_positive(value: object) -> bool:
    """Return True for a positive finite number, or a list of them."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c":
            return False
        array = array.astype(float)
    except (TypeError, ValueError):
        return False
    return array.ndim <= 1 and array.size > 0 and bool(np.isfinite(array).all() and (array > 0).all())


def _floats(name: str, value: object) -> NDArray[np.float64]:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise _refuse(name, "an array of numbers", value, "Pass a NumPy array.") from None


def check_spectrum(name: str, value: object) -> NDArray[np.float64]:
    """Return eigenvalues as a 1-d array of finite numbers of at least 0, at least one of them."""
    array = _floats(name, value)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all() or (array < 0).any():
        raise ArgumentError(
            f"{name} must be a non-empty 1-d array of finite numbers >= 0, got shape {array.shape}. "
            "Pass a spectrum; clip rounding errors below zero with np.maximum(values, 0)."
        )
    return array


def check_points(name: str, value: object) -> NDArray[np.float64]:
    """Return an (n_samples, n_features) array of finite numbers, at least one row of them."""
    array = _floats(name, value)
    if array.ndim != 2 or array.shape[0] == 0 or not np.isfinite(array).all():
        raise ArgumentError(
            f"{name} must be a finite array of shape (n_samples, n_features) with at least one row, "
            f"got shape {array.shape}. Reshape one-dimensional data with X.reshape(-1, 1)."
        )
    return array


def check_weight(weight: ArrayLike, n: int, block: str = "", dtype: DTypeLike = np.float64) -> NDArray[np.float64]:
    """Return weights (n,), finite, not negative and not too large for rows of a dtype; one number stands for all.

    `block` says where the weights were found.
    """
    place = f"{block}: " if block else ""
    try:
        weight = np.asarray(weight)
        weight = weight.astype(np.float64, casting="unsafe" if weight.dtype.kind == "O" else "same_kind")
    except (TypeError, ValueError):
        raise ArgumentError(f"{place}sample_weight must be real numbers, one for each row.") from None
    weight = np.full(n, weight) if weight.ndim == 0 else weight
    if weight.shape != (n,):
        raise ArgumentError(f"{place}sample_weight should have shape ({n},), one for each row; got {weight.shape}.")
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ArgumentError(f"{place}sample_weight must be finite and not negative.")
    if weight.any() and weight.max() < 1e-140:
        raise ArgumentError(
            f"{place}the largest weight is {weight.max():.3g}, and the squares of such weights are zero; divide "
            "sample_weight, and alpha where it is a number, by the same small constant."
        )
    with np.errstate(over="ignore"):
        total = float(weight.sum())
    if total > _LARGEST_WEIGHT[np.dtype(dtype).itemsize]:
        other = ", or give X as float64" if dtype == np.float32 else ""
        raise ArgumentError(
            f"{place}the weights add up to {total:.3g}; sums of weighted {np.dtype(dtype)} rows or of squared weights "
            f"would overflow; divide sample_weight, and alpha where it is a number, by the same constant{other}."
        )
    return np.asarray(weight)


def power_of_two(x: Any) -> Any:
    """Return the least power of two above each number x >= 0, from 2^-1000 to 2^1000; 1 for 0.

    Rows divided by it keep their digits, and their squares neither overflow nor vanish.
    """
    return np.ldexp(1.0, np.clip(np.frexp(x)[1], -1000, 1000))
