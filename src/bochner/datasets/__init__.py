"""Datasets by name: small ones that come with scikit-learn, real ones from a folder, a cache or the internet.

`load` looks for NAME.npz in the folder that BOCHNER_DATA names, then among the bundled sets, then in the cache, and
then fetches the files from their public source (with pooch) and converts them. What comes out is checked against a
checksum of the numbers themselves, which is ours; where a checksum of the source's own file is known, that is checked
as well.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.datasets.registry import REGISTRY, digest


@dataclass(frozen=True)
class Dataset:
    """Rows X (float32, or CSR), targets y, and how many of the first rows are the customary training set."""

    name: str
    X: Any
    y: Array
    n_train: int


class UnknownDatasetError(FileNotFoundError):
    """There is no dataset of that name."""


class OfflineError(OSError):
    """A dataset could not be fetched."""


_LOADERS = {name: f"load_{name}" for name in ("breast_cancer", "diabetes", "digits", "iris")}
_LOADERS |= {"wine_recognition": "load_wine"}  # of sklearn.datasets
BUNDLED = tuple(_LOADERS)


# -- where they are kept -------------------------------------------------------------------------------------------


def folder() -> Path | None:
    """The folder with the real datasets, or None when BOCHNER_DATA names none."""
    value = os.environ.get("BOCHNER_DATA", "")
    return Path(value) if value and Path(value).is_dir() else None


def cache() -> Path:
    """The folder that fetched datasets are kept in: $XDG_CACHE_HOME/bochner, or ~/.cache/bochner."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bochner"


def available() -> list[str]:
    """Names that `load` takes here without the internet."""
    here = folder()
    found = {path.stem for path in here.glob("*.npz")} if here else set()
    found |= {path.stem for path in cache().glob("*.npz")} & set(REGISTRY)
    return sorted(found | set(BUNDLED))


def names() -> list[str]:
    """Names that `load` knows, those to be fetched first included."""
    return sorted({*available(), *REGISTRY})


def load(name: str) -> Dataset:
    """Read a dataset, fetching it first where it is neither bundled, nor in BOCHNER_DATA, nor in the cache.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Dataset
        With X in float32, finite; rows in the order of the source.

    Examples
    --------
    >>> from bochner import datasets
    >>> data = datasets.load("digits")
    >>> data.X.shape, data.X.dtype, data.n_train
    ((1797, 64), dtype('float32'), 1797)
    """
    if not isinstance(name, str):
        raise ValueError(f"name must be that of a dataset, such as {names()[0]!r}; got {name!r}.")
    here = folder()
    if here is not None and (here / f"{name}.npz").exists():
        return _read(here / f"{name}.npz")
    if name in _LOADERS:
        loaders = import_module("sklearn.datasets")  # with scipy.io, which is slow to import
        X, y = getattr(loaders, _LOADERS[name])(return_X_y=True)
        return Dataset(name, X.astype(np.float32), y, len(X))
    if name not in REGISTRY:
        raise UnknownDatasetError(f"there is no dataset {name!r}; there are {', '.join(names())}.")
    kept = cache() / f"{name}.npz"
    if not kept.exists():
        fetch(name)
    return _read(kept)


def _read(path: Path) -> Dataset:
    with np.load(path) as archive:
        if "indptr" in archive:
            parts = (archive["data"].astype(np.float32), archive["indices"], archive["indptr"])
            X: Any = scipy.sparse.csr_matrix(parts, shape=tuple(archive["shape"]))
        else:
            X = archive["X"].astype(np.float32)
        n_train = int(archive["n_train"]) if "n_train" in archive else X.shape[0]
        return Dataset(path.stem, X, archive["y"], n_train)


# -- how they are fetched ------------------------------------------------------------------------------------------


def _beside(name: str) -> str:
    """What to do instead of fetching."""
    return f"put {name}.npz (arrays X and y) into a folder and name it in the environment variable BOCHNER_DATA"


def fetch(name: str) -> Path:
    """Fetch a public dataset into the cache, checked and converted, and return where it lies.

    A file whose source publishes no checksum is trusted only as far as the numbers in it have the checksum that we
    found when we converted it; a warning says so.
    """
    entry = REGISTRY.get(name)
    if entry is None:
        raise UnknownDatasetError(f"there is no public dataset {name!r}; there are {', '.join(sorted(REGISTRY))}.")
    if entry.convert is None:
        raise OfflineError(f"{name} is not fetched automatically: get it from {entry.source} and {_beside(name)}.")
    try:
        import pooch
    except ImportError as error:
        raise ImportError(f"fetching {name} needs pooch: pip install 'bochner[data]'; or {_beside(name)}.") from error
    pooch.get_logger().setLevel("ERROR")  # it prints the hash of every file that has none to compare with
    paths = []
    for file in entry.files:
        try:
            paths.append(Path(pooch.retrieve(file.url, file.checksum, path=cache() / "sources")))
        except ValueError as error:  # the checksum of the source's file differs
            raise OfflineError(f"{name}: {file.url} is not the file it was: {error}") from None
        except Exception as error:  # pooch lets through whatever its downloader raises
            reason = str(error).split("\n")[0][:200]
            raise OfflineError(
                f"{name} is not here and could not be fetched from {file.url} ({type(error).__name__}: {reason}). "
                f"Without the internet, {_beside(name)}."
            ) from None
    if not entry.verified:
        warnings.warn(
            f"{name}: the source publishes no checksum of its files; the numbers in them are compared with ours.",
            stacklevel=2,
        )
    try:
        X, y, n_train = entry.convert(paths)
    except (ValueError, IndexError, EOFError, OSError, UnicodeDecodeError) as error:
        raise OfflineError(f"{name}: {entry.files[0].url} is not in the format it had: {error}") from None
    if X.shape != entry.shape or digest(X, y) != entry.digest:
        raise OfflineError(
            f"{name}: the numbers fetched from {entry.files[0].url} (shape {X.shape}) are not those that we know "
            f"(shape {entry.shape}); the source has changed. They are kept in {cache() / 'sources'}; to use them "
            f"nevertheless, {_beside(name)}."
        )
    kept = cache() / f"{name}.npz"
    arrays: dict[str, Any] = {"X": X.astype(np.uint8 if X.dtype == np.uint8 else np.float32), "y": y}
    if n_train is not None:
        arrays["n_train"] = n_train
    partial = kept.with_suffix(f".{os.getpid()}.part")
    with partial.open("wb") as file_object:
        np.savez_compressed(file_object, **arrays)
    partial.replace(kept)  # never half a file under its name
    return kept
