"""JSON and tensors as values again, whoever wrote them: see `encoders` for what they mean."""

from __future__ import annotations

import inspect
import math
import re
import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.persistence.checks import check
from bochner.persistence.containers import ModelFileError
from bochner.persistence.registries import OLD_CLASSES, OLD_FIELDS, classes
from bochner.statistics import RidgeStatistics, unpack_upper

# What decoding may do, in bytes, beside the bytes of the tensors: a forged file may name one tensor a million times.
_WORK, _COPY = 256, 8  # passes over all tensors; passes that a copy counts for
_FREE = 1 << 26


class Decoder:
    """Turns JSON and tensors back into values; raises whatever goes wrong, which `load` turns into one error."""

    def __init__(self, tensors: dict[str, Array]) -> None:
        self._tensors = tensors
        self._made: dict[Any, Array] = {}
        self._left = _WORK * sum(tensor.nbytes for tensor in tensors.values()) + _FREE

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise ModelFileError("the model names the same arrays over and over; no model of bochner does.")

    def decode(self, value: Any) -> Any:
        """The value of a piece of JSON."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        for tag, method in _DECODERS.items():
            if tag in value:
                return method(self, value)
        raise ModelFileError(f"the model holds a value of an unknown kind: {sorted(value)[:5]}.")

    def _tuple(self, value: dict[str, Any]) -> Any:
        return tuple(self.decode(_list(value["tuple"])))

    def _dict(self, value: dict[str, Any]) -> Any:
        return {self.decode(key): self.decode(item) for key, item in _list(value["dict"])}

    def _float(self, value: dict[str, Any]) -> Any:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value["float"]]

    def _scalar(self, value: dict[str, Any]) -> Any:
        array = self.decode(value["scalar"])
        if not isinstance(array, np.ndarray) or array.ndim:
            raise ModelFileError("a scalar in the model is none.")
        return array[()]

    def _dtype(self, value: dict[str, Any]) -> Any:
        dtype = _dtype(value["dtype"])
        return dtype.type if value.get("type") else dtype

    def _ufunc(self, value: dict[str, Any]) -> Any:
        found = getattr(np, value["ufunc"], None) if str(value["ufunc"]).isidentifier() else None
        if not isinstance(found, np.ufunc):
            raise ModelFileError(f"NumPy has no function called {value['ufunc']!r}.")
        return found

    def _objects(self, value: dict[str, Any]) -> Any:
        items = self.decode(_list(value["objects"]))
        array = np.empty(len(items), object)
        array[:] = items
        return array.reshape(value["shape"])

    def _array(self, value: dict[str, Any]) -> Any:
        key = repr(sorted(value.items()))
        if key not in self._made:
            array = self._make(value)
            if value.keys() & {"upper", "signs", "text", "dtype"}:
                self._spend(_COPY * array.nbytes)
            self._made[key] = array
        return self._made[key]

    def _make(self, value: dict[str, Any]) -> Any:
        if "upper" in value:
            array = _triangle(self._tensors[value["upper"]], value["size"])
        elif "signs" in value:
            array = _unpacked(self._tensors[value["signs"]], value["shape"])
        else:
            array = self._tensors[value["array"]]
        if "text" in value:
            if array.dtype.kind != "u" or (array.size and array.max() > sys.maxunicode):
                raise ModelFileError("an array of strings holds no text.")
            array = array.astype("<u4").view(f"<U{int(value['text'])}").reshape(value["shape"])
        elif "complex" in value:
            if array.dtype != np.float64:
                raise ModelFileError("complex numbers are stored as pairs of float64.")
            array = array.view(np.complex128).reshape(array.shape[:-1])
        elif "dtype" in value:
            dtype = _dtype(value["dtype"])
            if dtype.kind not in "iu" or array.dtype.kind not in "iu":
                raise ModelFileError("only integers are stored in a smaller type.")
            array = array.astype(dtype)
        return array.T if value.get("order") == "F" else array

    def _sparse(self, value: dict[str, Any]) -> Any:
        make = {
            "csr_matrix": scipy.sparse.csr_matrix,
            "csr_array": scipy.sparse.csr_array,
            "csc_matrix": scipy.sparse.csc_matrix,
            "csc_array": scipy.sparse.csc_array,
        }[value["sparse"]]
        shape = tuple(value["shape"])
        data, indices, indptr = (self._array(value[name]) for name in ("data", "indices", "indptr"))
        # before SciPy sees them: its compiled code trusts indices
        axis = 0 if value["sparse"].startswith("csr") else 1
        ok = (
            all(type(n) is int and 0 <= n < 1 << 62 for n in shape)
            and all(a.ndim == 1 for a in (data, indices, indptr))
            and all(a.dtype.kind in "iu" for a in (indices, indptr))
            and len(shape) == 2
            and len(indptr) == shape[axis] + 1
            and len(data) == len(indices) == indptr[-1]
            and indptr[0] == 0
            and (np.diff(indptr) >= 0).all()
            and (not len(indices) or (indices.min() >= 0 and indices.max() < shape[1 - axis]))
        )
        if not ok:
            raise ModelFileError("a sparse matrix whose indices lead outside of it.")
        self._spend(_COPY * 8 * (data.nbytes + indices.nbytes + indptr.nbytes))
        matrix = make((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        return matrix

    def _class(self, value: dict[str, Any]) -> Any:
        name: str = value["class"] if isinstance(value["class"], str) else ""
        cls = classes().get(OLD_CLASSES.get(name, name))
        if cls is None:
            raise ModelFileError(
                f"the model holds an object of class {value['class']!r}, which this version of bochner does not have."
            )
        if inspect.isabstract(cls):
            raise ModelFileError(f"{value['class']} is abstract.")
        renamed = OLD_FIELDS.get(name, {})
        given: dict[str, Any] = dict(value["fields"])
        state = {renamed.get(field, field): self.decode(item) for field, item in given.items()}
        sums = issubclass(cls, RidgeStatistics)
        for item in state.values():
            if isinstance(item, np.ndarray):
                self._spend((2 * _COPY if sums else 1) * item.nbytes)
        if sums:
            made: Any = _statistics(state)
        elif is_dataclass(cls):
            made = _dataclass(cls, state)
        else:
            made = _estimator(cls, state)
        check(made)
        return made


_DECODERS = {
    "class": Decoder._class,
    "sparse": Decoder._sparse,  # before array
    "array": Decoder._array,
    "signs": Decoder._array,
    "upper": Decoder._array,
    "tuple": Decoder._tuple,
    "dict": Decoder._dict,
    "float": Decoder._float,
    "scalar": Decoder._scalar,
    "dtype": Decoder._dtype,
    "ufunc": Decoder._ufunc,
    "objects": Decoder._objects,
}


def _dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or not re.fullmatch(r"[<>|=]?[biufcUOSV]\d{0,6}", name):
        raise ModelFileError("a dtype in the model is none.")
    return np.dtype(name)


def _triangle(values: Array, m: Any) -> Array:
    if type(m) is not int or values.shape != (m * (m + 1) // 2,):
        raise ModelFileError("a triangle of the wrong size.")
    array = np.zeros((m, m), values.dtype)
    unpack_upper(values, array)
    return array


def _unpacked(bits: Array, shape: Any) -> Array:
    size = math.prod(shape)
    if bits.dtype != np.uint8 or bits.ndim != 1 or -(-size // 8) != bits.size or not all(n >= 0 for n in shape):
        raise ModelFileError("packed signs of the wrong size.")
    signs = np.unpackbits(bits, count=size).view(np.int8)
    signs *= 2
    signs -= 1
    return signs.reshape(shape)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ModelFileError("a list in the model is none.")
    return value


def _statistics(state: dict[str, Any]) -> RidgeStatistics:
    m, k = state["moment"].shape
    shapes = {
        "moment": (m, k),
        "target_squares": (k,),
        "target_sum": (k,),
        "feature_sum": (m,),
        "offset": (k,),
        "totals": (3,),
        "noise": (1,),
        "gram": (m * (m + 1) // 2,),
    }
    for name, array in state.items():
        if not isinstance(array, np.ndarray) or array.shape != shapes[name] or array.dtype != np.float64:
            raise ModelFileError(f"sums of {m} features and {k} targets do not go with {name}.")
    return RidgeStatistics.from_arrays(state)


def _dataclass(cls: Any, state: dict[str, Any]) -> Any:
    known = {field.name: field for field in fields(cls) if field.init}
    needed = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    if not needed <= set(state) <= set(known):
        raise ModelFileError(f"{cls.__name__} has the fields {sorted(known)}; the model gives {sorted(state)}.")
    return cls(**state)


@cache
def _parameters(cls: Any) -> frozenset[str]:
    return frozenset(inspect.signature(cls.__init__).parameters) - {"self"}


def _estimator(cls: Any, state: dict[str, Any]) -> Any:
    """Parameters go to the constructor, which stores them; what `fit` left is put beside them."""
    parameters = _parameters(cls)
    made = cls(**{name: item for name, item in state.items() if name in parameters})
    for name, item in state.items():
        if name in parameters:
            continue
        taken = next((vars(kind)[name] for kind in cls.__mro__ if name in vars(kind)), None)
        if not name.isidentifier() or name.startswith("__") or callable(taken) or hasattr(taken, "__get__"):
            raise ModelFileError(f"{cls.__name__} cannot have an attribute {name!r} of its own.")
        if not (name.startswith("_") or name.endswith("_")):
            raise ModelFileError(f"{cls.__name__} has no parameter {name!r}.")
        vars(made)[name] = item
    return made
