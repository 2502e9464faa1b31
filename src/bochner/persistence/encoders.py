"""Values as JSON and tensors.

Numbers, strings, lists and None are themselves; everything else is an object with a member that says what it is.
Objects of our own classes are their fields.
"""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from bochner.backends import Array
from bochner.persistence.checks import check
from bochner.persistence.containers import TYPE_NAMES, ModelFileError
from bochner.persistence.registries import names
from bochner.statistics import RidgeStatistics, pack_upper

_FEW = 64  # items of an array below which packing saves nothing


class Encoder:
    """Turns values into JSON, and collects their arrays as tensors, equal ones once; Gram matrices with `sums` only."""

    def __init__(self, *, sums: bool = True) -> None:
        self.sums = sums
        self.tensors: dict[str, Array] = {}
        self._known: dict[bytes, str] = {}

    def encode(self, value: Any, where: str) -> Any:
        """JSON of a value; `where` names it in errors."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, list):
            return [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
        if type(value) is tuple:
            return {"tuple": [self.encode(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict:
            items = [(self.encode(k, f"a key of {where}"), self.encode(v, f"{where}[{k!r}]")) for k, v in value.items()]
            return {"dict": [list(item) for item in items]}
        if isinstance(value, np.ndarray):
            return self._array(value, where)
        if isinstance(value, np.generic):
            return {"scalar": self._array(np.asarray(value), where)}
        if isinstance(value, np.dtype):
            return {"dtype": value.str}
        if isinstance(value, type) and issubclass(value, np.generic):
            return {"dtype": np.dtype(value).str, "type": True}
        if scipy.sparse.issparse(value):
            return self._sparse(value, where)
        name = getattr(value, "__name__", "")
        if isinstance(value, np.ufunc) and getattr(np, name, None) is value:
            return {"ufunc": name}
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        if type(value) in names():
            try:
                check(value)
            except ModelFileError as error:
                raise TypeError(f"{where} could not be loaded again: {error}") from None
            return {"class": names()[type(value)], "fields": self._fields(value, where)}
        raise TypeError(_refusal(value, where))

    def _fields(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, RidgeStatistics):
            state = {name: array for name, array in value.arrays().items() if self.sums or name != "gram"}
        elif is_dataclass(value):
            state = {field.name: getattr(value, field.name) for field in fields(value) if field.init}
        else:
            summed = getattr(vars(value).get("statistics_"), "gram", None) is not None
            if summed and not self.sums and hasattr(value, "_current"):
                value._current()  # what follows from the sums is computed while they are there
            # what is lazy (labels of dask data) stays with the data
            state = {name: item for name, item in vars(value).items() if not type(item).__module__.startswith("dask.")}
        return {name: self.encode(item, f"{where}.{name}") for name, item in state.items()}

    def _array(self, array: Array, where: str) -> Any:
        if array.dtype == object:
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(array.ravel().tolist())]
            return {"objects": items, "shape": list(array.shape)}
        fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        made: dict[str, Any] = {"order": "F"} if fortran else {}
        plain = np.asarray(array.T if fortran else array)
        if plain.dtype.kind == "U":
            width = max(1, plain.dtype.itemsize // 4)
            codes = np.ascontiguousarray(plain.reshape(-1), f"<U{width}").view("<u4")
            return {**made, "text": width, "shape": list(plain.shape), "array": self._tensor(_narrow(codes))}
        if plain.dtype.kind == "c" and plain.dtype.itemsize == 16:
            made["complex"] = True
            plain = np.ascontiguousarray(plain).reshape(*plain.shape, 1).view(np.float64)
        if plain.dtype.newbyteorder("<") not in TYPE_NAMES:
            raise TypeError(f"{where} is an array of {array.dtype}, which a model file cannot hold; convert it first.")
        plain = np.require(plain, plain.dtype.newbyteorder("<"), "C")
        if plain.dtype == np.int8 and plain.size >= _FEW and (np.abs(plain) == 1).all():
            return {**made, "signs": self._tensor(np.packbits(plain.reshape(-1) > 0)), "shape": list(plain.shape)}
        if plain.ndim == 2 and len(plain) == plain.shape[1] >= 8 and not np.tril(plain, -1).any():
            return {**made, "upper": self._tensor(pack_upper(plain)), "size": len(plain)}
        if plain.dtype.kind in "iu" and plain.size >= _FEW:
            narrow = _narrow(plain)
            if narrow.dtype != plain.dtype:
                made["dtype"] = plain.dtype.str
            plain = narrow
        return {**made, "array": self._tensor(plain)}

    def _sparse(self, matrix: Any, where: str) -> Any:
        if matrix.format not in ("csr", "csc"):
            matrix = matrix.tocsr()
        arrays = {name: self._array(getattr(matrix, name), where) for name in ("data", "indices", "indptr")}
        kind = "matrix" if scipy.sparse.isspmatrix(matrix) else "array"
        return {"sparse": f"{matrix.format}_{kind}", "shape": [int(n) for n in matrix.shape], **arrays}

    def _tensor(self, array: Array) -> str:
        array = np.ascontiguousarray(array).reshape(array.shape)
        about = f"{array.dtype.str}{array.shape}".encode()
        bytes_ = array.reshape(-1).view(np.uint8).data if array.size else b""
        key = hashlib.blake2b(bytes_, digest_size=32, key=hashlib.sha256(about).digest()).digest()
        if key not in self._known:
            self._known[key] = f"t{len(self.tensors)}"
            self.tensors[self._known[key]] = array
        return self._known[key]


def _narrow(array: Array) -> Array:
    """Integers in the smallest type that holds them."""
    if not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for name in ("u1", "i1", "<u2", "<i2", "<u4", "<i4"):
        info = np.iinfo(name)
        if np.dtype(name).itemsize < array.dtype.itemsize and info.min <= low and high <= info.max:
            return array.astype(name)
    return array


def _refusal(value: Any, where: str) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, (np.random.RandomState, np.random.Generator)):
        return f"{where} is a random generator; model.set_params(random_state=an integer or None) before saving."
    if callable(value) and not isinstance(value, BaseEstimator):
        return (
            f"{where} is a function, {getattr(value, '__name__', kind)}; a model file holds no code. Use a kernel, an "
            "activation or an option that bochner has a name for, or a NumPy function such as np.cosh."
        )
    return (
        f"{where} is a {kind}, and a model file holds objects of bochner's own classes only, so that loading one never "
        "runs foreign code. Use features and options of bochner, or keep this model with joblib (for files you trust)."
    )
