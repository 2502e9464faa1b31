"""Frames and tables as arguments: columns taken by name, and checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.data.arrow import batch_table


def is_frame(X: object) -> bool:
    """Return True for a pandas, polars or Arrow table, or one of a derived class, such as a GeoDataFrame."""
    return _is_of(X, "pandas", "polars", "pyarrow") and len(getattr(X, "shape", ())) == 2


def _is_of(X: object, *libraries: str) -> bool:
    """Return True if X is of a class of one of these libraries, or of a class derived from one."""
    return any(kind.__module__.split(".")[0] in libraries for kind in type(X).__mro__)


def _columns(X: Any) -> list[Any]:
    """Return the names of the columns of a frame."""
    return list(X.column_names if _is_of(X, "pyarrow") else X.columns)


def _select(X: Any, names: list[Any]) -> Any:
    """Return some columns of a frame."""
    return X.select(names) if _is_of(X, "polars", "pyarrow") else X[names]


def split_frame(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Take the columns that y and sample_weight name out of a frame; y may be a list of names.

    A list of as many strings as there are rows holds labels, unless all of them are columns.
    """
    names = _columns(X) if is_frame(X) else []
    taken: list[str] = []

    def values(role: str, value: Any) -> Any:
        several = isinstance(value, list) and bool(value) and isinstance(value[0], str)
        if several and (not names or (len(value) == len(X) and not set(value) <= set(names))):
            return value
        if not several and not isinstance(value, str):
            return value
        if not is_frame(X):
            kind = type(X).__name__
            raise ValueError(f"{role}={value!r} names a column of a frame, but X is a {kind}; give the values.")
        for name in value if several else [value]:
            if name not in names:
                raise ValueError(f"the frame has no column {name!r}; its columns are {', '.join(map(repr, names))}.")
            taken.append(name)
        return np.asarray(_select(X, value) if several else X[value])

    y, sample_weight = values("y", y), values("sample_weight", sample_weight)
    if taken:
        X = _select(X, [name for name in names if name not in taken])
    return X, y, sample_weight


def as_table(X: Any) -> Any:
    """Return Arrow rows as a table, whose names scikit-learn reads, and masked entries as gaps; refuse records."""
    if type(X).__name__ == "RecordBatch":
        return batch_table(X)
    first = X[0] if isinstance(X, (list, tuple)) and len(X) else X
    records = isinstance(first, dict) and not scipy.sparse.issparse(X)  # SciPy's DOK format is a dictionary
    if records or (isinstance(X, np.ndarray) and X.dtype.names):
        raise ValueError("X holds records; make a frame of them: pandas.DataFrame(X).")
    if type(X).__name__ == "LazyFrame":
        raise ValueError("X is a LazyFrame, whose rows are not in memory; pass X.collect().")
    if isinstance(X, np.ma.MaskedArray):
        return np.where(np.ma.getmaskarray(X), np.array(None), X.data) if X.mask.any() else X.data
    return X


def check_names(X: Any) -> None:
    """Refuse a frame with two columns of one name: they could not be told apart in `predict`."""
    if not is_frame(X):
        return
    names = _columns(X)
    twice = {name: names.count(name) for name in names} if len(set(names)) < len(names) else {}
    for name, count in twice.items():
        if count > 1:
            raise ValueError(f"{count} columns are called {name!r}; give each a name of its own.")


def take_rows(X: Any, rows: Array) -> Any:
    """Return some rows of a frame or an array."""
    if _is_of(X, "pandas"):
        return X.iloc[rows]
    return X.take(rows) if _is_of(X, "pyarrow") else X[rows]
