"""Predictions Zw + b that are linear in features, block by block, on the host or on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.backends import Array, backend_of, is_tensor, n_threads
from bochner.backends.threads import each, one_thread
from bochner.data.devices import is_there, rows_on
from bochner.data.execution import Execution
from bochner.data.sources import default_rows
from bochner.features.maps import FeatureMap, features_of, row_blocks
from bochner.features.nystrom import KernelColumns, Nystrom

_PIECE_ROWS = 1024  # rows whose scores one thread computes at a time


def linear_scores(
    feature_map: FeatureMap,
    X: Array,
    coefficients: Array,
    intercept: Array,
    run: Execution,
) -> Array:
    """Return Zw + b (n, k) in the dtype of X, for arrays, CSR matrices and tensors.

    A device that this machine lacks is ignored: models fitted on one predict on the host of other machines.
    """
    factored, matrix = feature_map.factored()
    m = factored.n_components
    if is_tensor(X):
        parts = [_tensor_scores(feature_map, X[rows], coefficients, intercept) for rows in row_blocks(X, 2 * m)]
        return backend_of(X).xp.vstack(parts)
    if is_there(run.device):
        blocks = rows_on(str(run.device), X, 2 * m)
        parts = [_tensor_scores(feature_map, block, coefficients, intercept) for block in blocks]
        return np.concatenate([backend_of(part).fetch(part) for part in parts])
    wide = factored.dtype_of(X.dtype)
    if matrix is not None:  # multiplied with the few coefficients, not with every row
        coefficients = matrix.astype(np.float64, copy=False) @ coefficients
    with np.errstate(over="ignore"):
        weights, level = coefficients.astype(wide), intercept.astype(X.dtype)
    if not (np.isfinite(weights).all() and np.isfinite(level).all()):
        raise ValueError(f"these predictions are too large for {X.dtype}, the type of X; give X as float64.")
    out = np.empty((X.shape[0], weights.shape[1]), X.dtype)
    rows = min(X.shape[0], run.block_size or default_rows(m, wide))
    buffer = np.empty((rows, m), wide)
    for start in range(0, X.shape[0], rows):
        block = X[start : start + rows]
        Z = buffer[: block.shape[0]]
        factored.into(block, Z)

        def score(part: slice, Z: Array = Z, scores: Array = out[start : start + rows]) -> None:
            scores[part] = Z[part] @ weights + level

        if len(Z) <= _PIECE_ROWS:
            score(slice(None))
            continue
        with one_thread():
            each(score, [slice(i, i + _PIECE_ROWS) for i in range(0, len(Z), _PIECE_ROWS)], n_threads())
    return out


def _tensor_scores(feature_map: FeatureMap, X: Any, coefficients: Array, intercept: Array) -> Array:
    backend = backend_of(X)
    # of a model saved for predictions the coefficients are those of kernel values: there is no root
    nystrom = feature_map.nystrom if isinstance(feature_map, KernelColumns) else feature_map
    if isinstance(nystrom, Nystrom):  # the root is multiplied with the few coefficients, not with every row
        given, X = X, X.double() if nystrom.root.dtype == np.float64 else X
        wide = X.new_empty(0, dtype=backend.xp.float64)
        folded = nystrom is not feature_map
        rank = len(nystrom.root) if folded else nystrom.rank
        weights = backend.place(np.ascontiguousarray(coefficients[:rank]), wide)
        weights = weights if folded else backend.place(nystrom.root, wide) @ weights
        if nystrom.kernel is not None and nystrom.runs_on_device:
            scores: Any = nystrom.kernel.product(X, backend.place(nystrom.landmarks, X), weights)
        else:
            scores = features_of(KernelColumns(nystrom), X) @ weights.to(X.dtype)
        return scores.to(given.dtype) + backend.place(intercept, given)
    return features_of(feature_map, X) @ backend.place(coefficients, X) + backend.place(intercept, X)
