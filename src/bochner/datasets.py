"""Real datasets, read from the folder that BOCHNER_DATA names: one NAME.npz each, never part of the package."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array


@dataclass(frozen=True)
class Dataset:
    """Rows X (float32, or CSR), targets y, and how many of the first rows are the customary training set."""

    name: str
    X: Any
    y: Array
    n_train: int


def folder() -> Path | None:
    """The folder with the real datasets, or None when BOCHNER_DATA names none."""
    value = os.environ.get("BOCHNER_DATA", "")
    return Path(value) if value and Path(value).is_dir() else None


def available() -> list[str]:
    """Names that `load` takes here."""
    here = folder()
    return sorted(path.stem for path in here.glob("*.npz")) if here else []


def load(name: str) -> Dataset:
    """Read a real dataset.

    Parameters
    ----------
    name : str
        One of `available()`.

    Returns
    -------
    Dataset
        With X in float32, finite; rows in the order of the source.
    """
    here = folder()
    if here is None:
        raise FileNotFoundError(
            f"dataset {name!r} is not part of bochner: set the environment variable BOCHNER_DATA to a folder with "
            f"{name}.npz in it."
        )
    path = here / f"{name}.npz"
    if not path.exists():
        raise FileNotFoundError(f"{here} has no {name}.npz; it has {', '.join(available()) or 'no .npz file'}.")
    with np.load(path) as archive:
        if "indptr" in archive:
            parts = (archive["data"].astype(np.float32), archive["indices"], archive["indptr"])
            X: Any = scipy.sparse.csr_matrix(parts, shape=tuple(archive["shape"]))
        else:
            X = archive["X"].astype(np.float32)
        n_train = int(archive["n_train"]) if "n_train" in archive else X.shape[0]
        return Dataset(name, X, archive["y"], n_train)
