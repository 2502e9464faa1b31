"""The closed list of classes that a model file may name: a name is looked up here and nowhere else."""

from __future__ import annotations

import sys
from dataclasses import is_dataclass
from functools import cache

from sklearn.base import BaseEstimator

from bochner.linalg import Report
from bochner.statistics import RidgeStatistics

# Data alone: making an object of a class defined here opens no file and calls nothing that it was given.
_PACKAGES = (
    "certificates",
    "estimators",
    "features",
    "kernels",
    "keys",
    "landmarks",
    "losses",
    "operators",
    "rows",
    "sketches",
    "solvers",
    "spectra",
    "statistics",
)


@cache
def classes() -> dict[str, type]:
    """What a file may name: the dataclasses and estimators of our packages, as ``package.Class``."""
    found: dict[str, type] = {"solvers.Report": Report}
    for name, module in sorted(sys.modules.items()):
        parts = name.split(".")
        if len(parts) < 2 or parts[0] != "bochner" or parts[1] not in _PACKAGES:
            continue
        for value in vars(module).values():
            if isinstance(value, type) and value.__module__ == name and _is_kind(value):
                key = f"{parts[1]}.{value.__name__}"
                if found.setdefault(key, value) is not value:
                    raise RuntimeError(f"two classes are called {key}: a file could not tell them apart.")
    return found


def _is_kind(cls: type) -> bool:
    return is_dataclass(cls) or issubclass(cls, (BaseEstimator, RidgeStatistics))


#: Names that earlier versions wrote: of classes, and of their fields.
OLD_CLASSES = {"estimators.Solution": "estimators.RidgeSolution"}
OLD_FIELDS: dict[str, dict[str, str]] = {"solvers.Report": {"solver": "method"}}


@cache
def names() -> dict[type, str]:
    """Class → its name in files."""
    return {cls: name for name, cls in classes().items()}
