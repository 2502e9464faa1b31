"""What must hold for an object from a file before it is used: types of fields, shapes, and indices within bounds.

Compiled code (ours, SciPy's) trusts the indices and shapes it is given; a forged file must not reach it. Anything else
that is wrong raises an exception later, in NumPy at the latest. `save` checks too, so that what it writes can be read.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bochner.draws.compositions import Chained, Scaled, Selected, Stacked, Summed
from bochner.draws.linear_maps import Dense, LinearMap, Signs
from bochner.draws.structured import (
    CirculantBlocks,
    FastfoodBlocks,
    FFTBlocks,
    HadamardBlocks,
    PickedRows,
    SparseRows,
    SubsampledBlocks,
    SubsampledCosine,
    SubsampledHadamard,
)
from bochner.features.maps import FeatureMap, expect, within
from bochner.persistence.containers import ModelFileError
from bochner.tables.leaves import LocalModel, Tree


def check(value: Any) -> None:
    """Raise a ModelFileError unless an object is one that bochner could have made."""
    cls: type = type(value)
    hints, further = _plan(cls)
    try:
        for name, hint in hints:
            expect(_is(vars(value)[name], hint), value, f"{name} of the wrong type")
        if isinstance(value, FeatureMap):
            value.validate()
        elif further is not None:
            further(value)
        elif isinstance(value, BaseEstimator):
            _estimator(value)
    except ValueError as error:
        raise ModelFileError(str(error)) from None


def _estimator(value: BaseEstimator) -> None:
    fitted = vars(value)
    feature_map, n_features = fitted.get("feature_map_"), fitted.get("n_features_in_")
    width = feature_map.input_width if isinstance(feature_map, FeatureMap) else None
    if width is not None and n_features is not None:
        expect(width == n_features, value, f"a map of {width} features for data with {n_features}")


@cache
def _plan(cls: type) -> tuple[list[tuple[str, Any]], Callable[[Any], None] | None]:
    """Return the annotations of the fields of a map, and the further check of a class."""
    hints = []
    if is_dataclass(cls) and issubclass(cls, (FeatureMap, LinearMap)):
        known = _hints(cls)
        hints = [(field.name, known[field.name]) for field in fields(cls) if field.name in known]
    return hints, next((_CHECKS[kind] for kind in cls.__mro__ if kind in _CHECKS), None)


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except NameError:  # a name that only type checkers import
        return {}


def _is(value: Any, hint: Any) -> bool:
    """Return True if a value fits an annotation, or if that cannot be checked."""
    origin, arguments = _taken_apart(hint)
    if hint is Any or isinstance(hint, typing.TypeVar):
        return True
    if hint is None or hint is type(None):
        return value is None
    if origin in (typing.Union, types.UnionType):
        return any(_is(value, argument) for argument in arguments)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return all(_is(item, arguments[0]) for item in value)
        return len(value) == len(arguments) and all(map(_is, value, arguments))
    cls = origin or hint
    if cls is float:
        return isinstance(value, (float, int, np.floating)) and not isinstance(value, bool)
    if cls is int:
        return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if cls is bool:
        return isinstance(value, (bool, np.bool_))
    if cls is np.ndarray:  # a scalar of NumPy is an array without dimensions
        return isinstance(value, (np.ndarray, np.generic))
    if cls is Callable:
        return callable(value)
    return isinstance(value, cls) if isinstance(cls, type) else True


@cache
def _taken_apart(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return typing.get_origin(hint), typing.get_args(hint)


def _power(p: int) -> bool:
    return p > 0 and p & (p - 1) == 0


def _dense(map_: Dense) -> None:
    expect(map_.matrix.ndim == 2 and map_.matrix.dtype.kind == "f", map_, "a matrix that is not one of floats")


def _signs(map_: Signs) -> None:
    expect(map_.signs.ndim == 2 and map_.signs.dtype == np.int8, map_, "signs that are not a matrix")
    expect(map_.lengths.shape == map_.signs.shape[:1], map_, "a wrong number of lengths than rows")


def _hadamard(map_: HadamardBlocks) -> None:
    signs = map_.signs
    expect(signs.ndim == 3 and signs.dtype == np.int8 and signs.shape[1] == 3, map_, "signs of the wrong shape")
    _blocks(map_, signs.shape[2])


def _fastfood(map_: FastfoodBlocks) -> None:
    signs = map_.signs
    expect(signs.ndim == 2 and signs.dtype == np.int8, map_, "signs of the wrong shape")
    p = signs.shape[1]
    expect(map_.permutations.shape == map_.gains.shape == signs.shape, map_, "permutations or gains of the wrong shape")
    expect(map_.permutations.dtype == np.int32 and within(map_.permutations, p), map_, "invalid permutations")
    expect(map_.gains.dtype == np.float32, map_, "gains of the wrong type")
    _blocks(map_, p)


def _blocks(map_: Any, p: int) -> None:
    expect(_power(p) and 1 <= map_.n_features <= p, map_, f"blocks of {p} for {map_.n_features} features")
    lengths = map_.lengths
    expect(lengths.ndim == 1 and lengths.dtype == np.float32, map_, "lengths of the wrong type")
    expect(len(lengths) <= len(map_.signs) * p, map_, "more lengths than rows")


def _subsampled_blocks(map_: SubsampledBlocks) -> None:
    signs, picks, matrices = map_.signs, map_.picks, map_.matrices
    expect(signs.ndim == 2 and picks.ndim == 2 and matrices.ndim == 3, map_, "arrays of the wrong shape")
    p, k = signs.shape[1], picks.shape[1]
    expect(len(signs) == len(picks) == len(matrices) and matrices.shape[2] == k, map_, "arrays of the wrong shape")
    expect(_power(p) and 1 <= map_.n_features <= p and within(picks, p), map_, "invalid picks")
    expect(map_.lengths.ndim == 1 and len(map_.lengths) <= len(signs) * matrices.shape[1], map_, "too many lengths")


def _fft(map_: FFTBlocks) -> None:
    signs, d = map_.signs, map_.signs.shape[-1]
    expect(
        signs.ndim == 2 and map_.permutations.shape == map_.gains.shape == signs.shape,
        map_,
        "arrays of the wrong shape",
    )
    expect(within(map_.permutations, d), map_, "invalid permutations")
    expect(map_.lengths.ndim == 1 and len(map_.lengths) <= 2 * signs.size, map_, "too many lengths")


def _circulant(map_: CirculantBlocks) -> None:
    signs = map_.signs
    expect(signs.ndim == 2 and map_.generators.shape == signs.shape, map_, "generators of the wrong shape")
    expect(map_.lengths.ndim == 1 and len(map_.lengths) <= signs.size, map_, "too many lengths")


def _sparse_rows(map_: SparseRows) -> None:
    indptr, indices = map_.indptr, map_.indices
    expect(indptr.ndim == indices.ndim == map_.lengths.ndim == 1 and len(indptr) > 0, map_, "arrays of the wrong shape")
    expect(indptr.dtype in (np.int32, np.int64) and indices.dtype == np.int32, map_, "indices of the wrong type")
    expect(map_.signs.shape == indices.shape and map_.signs.dtype == np.int8, map_, "a wrong number of signs")
    expect(indptr[0] == 0 and indptr[-1] == len(indices) and (np.diff(indptr) >= 0).all(), map_, "an invalid indptr")
    expect(within(indices, len(map_.lengths)), map_, "indices out of bounds")


def _picked_rows(map_: PickedRows) -> None:
    expect(map_.picks.ndim == 1 and map_.lengths.shape == map_.picks.shape, map_, "a wrong number of lengths")
    expect(within(map_.picks, map_.n_features), map_, "picks out of bounds")


def _subsampled(map_: Any) -> None:
    signs, picks = map_.signs, map_.picks
    expect(signs.ndim == 2 and signs.dtype == np.int8 and picks.ndim == 1, map_, "arrays of the wrong shape")
    width = signs.shape[1]
    expect(picks.dtype == np.int32 and within(picks, width), map_, "picks out of bounds")
    expect(map_.lengths.shape == picks.shape and len(picks) <= signs.size, map_, "a wrong number of lengths")
    fits = _power(width) and map_.n_features <= width
    expect(fits if isinstance(map_, SubsampledHadamard) else map_.n_features == width, map_, "the wrong width")


def _scaled(map_: Scaled) -> None:
    expect(map_.columns.shape in ((), (map_.inner.shape[1],)), map_, "a wrong number of scales than features")


def _selected(map_: Selected) -> None:
    fits = map_.columns.shape == (map_.inner.shape[1],) and within(map_.columns, map_.n_features)
    expect(fits, map_, "invalid columns")


def _stacked(map_: Stacked) -> None:
    expect(map_.parts and len({part.shape[1] for part in map_.parts}) == 1, map_, "parts of different widths")


def _chained(map_: Chained) -> None:
    expect(map_.outer.shape[1] == map_.inner.shape[0], map_, "maps that do not fit together")


def _summed(map_: Summed) -> None:
    expect(map_.parts and len({part.shape for part in map_.parts}) == 1, map_, "parts of different shapes")


def _tree(tree: Tree) -> None:
    columns, children = tree.columns, tree.children
    n = len(columns) if columns.ndim == 1 else 0
    expect(n and children.shape == (n, 2) and tree.cuts.shape == (n,), tree, "arrays of the wrong shape")
    expect(
        columns.dtype.kind == children.dtype.kind == "i" and tree.cuts.dtype.kind == "f",
        tree,
        "arrays of the wrong type",
    )
    inner = columns >= 0
    nodes = np.arange(n)[inner, None]
    expect(within(children[inner], n) and (children[inner] > nodes).all(), tree, "nodes that lead back")
    expect(within(children[~inner], tree.n_leaves), tree, "leaves out of bounds")


def _local_model(model: LocalModel) -> None:
    n_leaves, starts, rows = model.tree.n_leaves, model.starts, model.rows
    fits = model.points.ndim == 2 and model.intercepts.ndim == 2 and len(model.intercepts) == n_leaves
    fits = fits and rows.ndim == 1 and starts.shape == (n_leaves + 1,)
    fits = fits and model.coefficients.shape == (len(rows), model.n_targets)
    expect(fits, model, "leaves of the wrong shape")
    expect(
        rows.dtype.kind == starts.dtype.kind == "i" and within(rows, len(model.points)), model, "points out of bounds"
    )
    expect(
        starts[0] == 0 and starts[-1] == len(rows) and (np.diff(starts) >= 0).all(), model, "leaves of the wrong size"
    )
    expect(model.tree.columns.max() < model.points.shape[1], model, "cuts of columns out of bounds")


_CHECKS: dict[type, Callable[[Any], None]] = {
    Chained: _chained,
    CirculantBlocks: _circulant,
    Dense: _dense,
    FFTBlocks: _fft,
    FastfoodBlocks: _fastfood,
    HadamardBlocks: _hadamard,
    LocalModel: _local_model,
    PickedRows: _picked_rows,
    Scaled: _scaled,
    Selected: _selected,
    Signs: _signs,
    SparseRows: _sparse_rows,
    Stacked: _stacked,
    SubsampledBlocks: _subsampled_blocks,
    SubsampledCosine: _subsampled,
    SubsampledHadamard: _subsampled,
    Summed: _summed,
    Tree: _tree,
}
