"""Checks of what users hand in, made once, at the estimator."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from bochner.backends import FLOATS


def check_count(name: str, value: Any) -> int:
    """Return a positive integer, or say what it should have been."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a positive finite number, or say what it should have been."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0.0 < float(value) < float("inf"):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")
    return float(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices, or list them."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}.")
    return str(value)


def validate_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """X as a float32 or float64 array or CSR matrix with the right number of columns, finite."""
    if not reset and _is_plain(estimator, X):
        return X
    return validate_data(estimator, X, reset=reset, accept_sparse="csr", dtype=FLOATS)


def _is_plain(estimator: Any, X: Any) -> bool:
    """Whether X needs no conversion and no complaint: then scikit-learn's 100 µs of looking are saved."""
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype.type in FLOATS
        and len(X) > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
        and bool(np.isfinite(np.add.reduce(X, axis=None)))  # a sum that overflows goes the long way
    )
