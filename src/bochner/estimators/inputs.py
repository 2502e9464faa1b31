"""Data of any kind as sources, checked, and the columns of a model set or compared."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from bochner.backends import (
    FLOATS,
    Array,
    as_native,
    check_moderate,
    reading,
    refuse_mask,
)
from bochner.checks import check_weight
from bochner.data.arrow import ArrowSource
from bochner.data.frames import split_frame
from bochner.data.labels import labels_of
from bochner.data.sources import ArraySource, Block, BlockSource, Source
from bochner.data.targets import check_target_size, numeric_targets
from bochner.data.validation import (
    as_host,
    check_same_names,
    check_width,
    dask,
    explain_rows,
    is_distributed,
    validate_rows,
)


def is_stream(X: Any) -> bool:
    """Whether X is an iterable of blocks rather than a table of numbers."""
    if hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__") or not hasattr(X, "__iter__"):
        return False
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(item, tuple) and len(item) in (2, 3) for item in X) and np.ndim(X[0][0]) == 2
    return True


def as_source(model: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool, numeric: bool = True) -> Source:
    """The data given to `fit` as a source, after checks; sets or checks the number and names of the columns.

    With a path, an Arrow table or a frame, y and sample_weight may be names of columns; see `split_frame`.
    """
    if is_distributed(X) or is_distributed(y):
        return distributed_source(model, X, y, sample_weight, reset=reset)
    if isinstance(X, Source):
        source = X
        if isinstance(X, ArraySource):
            X.check()
            source = X.merged()
    elif isinstance(X, (str, os.PathLike)) or type(X).__module__.split(".")[0] == "pyarrow":
        named = y is None or isinstance(y, str) or (isinstance(y, list) and all(isinstance(c, str) for c in y))
        if not named or not (sample_weight is None or isinstance(sample_weight, str)):
            raise ValueError("for Parquet and Arrow data, y and sample_weight are names of columns.")
        if y is None:
            raise ValueError("name the target's column: fit(data, y='column').")
        source = ArrowSource(X, target=y, weight=sample_weight)
    elif y is None and is_stream(X):
        if sample_weight is not None:
            raise ValueError("in a stream the weights are the third member of each block: (X, y, weight).")
        source = BlockSource(X)
    else:
        if any(isinstance(data, np.ma.MaskedArray) for data in (X, y, sample_weight)):
            refuse_mask(X, y, sample_weight)
        X, y, sample_weight = as_host(X), as_host(y), as_host(sample_weight)
        if hasattr(X, "columns") or isinstance(y, str):
            X, y, sample_weight = split_frame(X, y, sample_weight)
        if not numeric and hasattr(y, "__array__"):
            y = np.asarray(y)  # scikit-learn would make floats of pandas' nullable integers, and fails on its NA
            y = labels_of(y) if y.dtype == object else y
        if numeric and y is not None:
            with reading("y"):
                values = np.asarray(y)
            y = numeric_targets(values).reshape(values.shape) if values.dtype.kind in "OSU" else y
        # any byte order is accepted: the source converts it block by block
        dtypes = [*FLOATS, *(np.dtype(t).newbyteorder() for t in FLOATS)]
        checks: dict[str, Any] = {"accept_sparse": "csr", "dtype": dtypes, "multi_output": True}
        with reading("X or y", partial(explain_rows, model, X)):
            X, y = validate_data(model, X, as_native(y), reset=reset, y_numeric=numeric, **checks)
        check_moderate(X, alone=reset)
        if numeric and isinstance(y, np.ndarray):
            check_target_size(y)
        return ArraySource(X, y, None if sample_weight is None else _weights(sample_weight, X)).merged()
    _check_columns(model, source, reset=reset)
    return source


def _check_columns(model: Any, source: Source, *, reset: bool) -> None:
    """Set or check the number and names of the columns of a model by those of a source."""
    if not reset:
        check_same_names(model, source.feature_names)
        check_width(model, source.n_features)
        return
    model.n_features_in_ = source.n_features
    model.__dict__.pop("feature_names_in_", None)
    if source.feature_names is not None:
        model.feature_names_in_ = np.array(source.feature_names, dtype=object)


def _weights(sample_weight: Any, X: Any) -> Array:
    """Weights of the rows of X after checks, some of them positive."""
    weight = check_weight(sample_weight, X.shape[0], dtype=X.dtype)
    if not (weight > 0).any():
        raise ValueError("sample_weight is zero for every row.")
    return weight


def distributed_source(model: Any, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Source:
    """Dask data as a source; sets or checks the number and names of the columns."""
    source: Source = dask().checked_source(model, X, y, sample_weight, reset=reset)
    return source


def rows_source(model: Any, X: Any, sample_weight: Any, *, reset: bool) -> Source:
    """Rows without targets as a source, checked; sets or checks the number and names of the columns."""
    if is_distributed(X):
        return distributed_source(model, X, None, sample_weight, reset=reset).mapped(_no_targets)
    if isinstance(X, Source):
        if isinstance(X, ArraySource):
            X.check()
        _check_columns(model, X, reset=reset)
        return X.mapped(_no_targets)
    X = validate_rows(model, X, reset=reset)
    weight = None if sample_weight is None else _weights(sample_weight, X)
    return ArraySource(X, np.empty((X.shape[0], 0)), weight)


def _no_targets(block: Block) -> Block:
    return Block(block.X, np.empty((len(block), 0)), block.weight)
