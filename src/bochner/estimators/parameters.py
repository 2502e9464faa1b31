"""Parameters that many estimators have, declared once.

An estimator is a dataclass without the comparison and the repr of one: its constructor stores its parameters and does
nothing else, as scikit-learn asks. An estimator declares a parameter again to change its default or to make it
positional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from bochner.displays import Written

# How docstrings begin to describe a parameter that many estimators and functions have; sentences may follow.
DESCRIPTIONS = {
    "random_state": "Seed of everything random: an int gives the same result every time.",
    "n_jobs": "Number of threads. None for every core, or OMP_NUM_THREADS if that is set.",
    "verbose": "Above zero, a terminal shows progress.",
    "device": '"cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are.',
    "block_size": "Rows in a block. None for blocks whose features fit into the cache.",
    "precision": "Precision of computations with float32 data.",
    "max_seconds": "Approximate time limit of the search, in seconds. None for no limit.",
    "max_bytes": "Memory limit, in bytes. None for no limit.",
}


@dataclass(eq=False, repr=False, kw_only=True)
class SearchParameters(Written, BaseEstimator):
    """Parameters of estimators that draw at random and search for the number of components if it is "auto"."""

    tol: Any = 0.05
    max_components: int = 16384
    max_seconds: float | None = None
    max_bytes: float | None = None
    random_state: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class ModelParameters(SearchParameters):
    """Parameters of estimators that read their rows in blocks."""

    kernel: Any = "rbf"
    features: Any = "auto"
    max_components: int = 2048
    block_size: int | None = None
    device: str | None = None
    n_jobs: int | None = None
    verbose: int = 0


@dataclass(eq=False, repr=False, kw_only=True)
class SupervisedParameters(ModelParameters):
    """Parameters of supervised estimators."""

    fit_intercept: bool = True
    metric: str = "auto"
    precision: str = "full"
