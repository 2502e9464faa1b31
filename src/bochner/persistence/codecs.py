"""Values as JSON and tensors, and back, also from files that are not to be trusted.

Numbers, strings, lists and None are written as they are; everything else is an object with a member that names its
kind. Objects of our own classes are written as their fields; the name of a class is looked up in a closed list and
nowhere else.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import pkgutil
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from bochner.backends import Array, DType
from bochner.features.nystrom import KernelColumns
from bochner.persistence.checks import check
from bochner.persistence.containers import TYPE_NAMES, Json, ModelFileError
from bochner.ridge.reports import Report
from bochner.ridge.statistics import RidgeStatistics, pack_upper, unpack_upper
from bochner.tables.leaves import LocalModel

# Only data: making an object of a class defined here opens no file and calls none of its arguments.
_PLACES = (
    *("certificates", "data.labels", "draws", "estimators", "features", "kernels", "lab", "landmarks", "newton.losses"),
    *("ridge.solution", "ridge.solvers", "ridge.spectrum", "ridge.statistics"),
    *("sampling", "sketches", "tables", "tuning"),
)


@cache
def classes() -> dict[str, type]:
    """Return what a file may name: the dataclasses and estimators of these modules, by the names of the classes."""
    found: dict[str, type] = {Report.__name__: Report}
    for place in _PLACES:
        top = import_module(f"bochner.{place}")
        inside = pkgutil.iter_modules(top.__path__) if hasattr(top, "__path__") else ()
        for module in (top, *(import_module(f"{top.__name__}.{part.name}") for part in inside)):
            for value in vars(module).values():
                ours = isinstance(value, type) and value.__module__ == module.__name__ and _is_kind(value)
                if ours and found.setdefault(value.__name__, value) is not value:
                    raise RuntimeError(f"two classes are called {value.__name__}: a file could not tell them apart.")
    return found


def _is_kind(cls: type) -> bool:
    return is_dataclass(cls) or issubclass(cls, (BaseEstimator, RidgeStatistics))


@cache
def names() -> dict[type, str]:
    """Return the names of classes in files."""
    return {cls: name for name, cls in classes().items()}


_FEW = 64  # items of an array below which packing saves nothing


class Encoder:
    """Turns values into JSON, and collects their arrays as tensors, equal ones once; Gram matrices with `sums` only.

    With `weights`, coefficients are stored in that dtype, divided by a power of two so that the largest is about one;
    those of kernel values cancel one another and keep all their digits.
    """

    def __init__(self, *, sums: bool = True, weights: str | None = None) -> None:
        self.sums = sums
        self.weights = weights
        self.tensors: dict[str, Array] = {}
        self._known: dict[bytes, str] = {}

    def encode(self, value: Any, where: str) -> Any:
        """Return the JSON of a value; `where` names it in errors."""
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
        if isinstance(value, np.ufunc) and vars(np).get(name := str(value.__name__)) is value:
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

    def _fields(self, value: Any, where: str) -> Json:
        if isinstance(value, RidgeStatistics):
            state = {name: array for name, array in value.arrays().items() if self.sums or name != "gram"}
        elif is_dataclass(value) and not isinstance(value, BaseEstimator):
            state = {field.name: vars(value)[field.name] for field in fields(value) if field.init}
        else:
            summed = not self.sums and hasattr(value, "_current") and hasattr(value, "statistics_")
            if summed and value.statistics_.gram is not None:
                value._current()  # what follows from the sums is computed before they are left out
            # what is lazy (labels of dask data) stays with the data
            state = {name: item for name, item in vars(value).items() if not type(item).__module__.startswith("dask.")}
        weights = self.weights
        maps = state.get("feature_map"), state.get("feature_map_")
        if isinstance(value, LocalModel) or any(isinstance(feature_map, KernelColumns) for feature_map in maps):
            self.weights = None
        found = {name: self.encode(item, f"{where}.{name}") for name, item in state.items()}
        self.weights = weights
        return found

    def _array(self, array: Array, where: str) -> Json:
        if array.dtype == object:
            items = [self.encode(item, f"{where}[{i}]") for i, item in enumerate(array.ravel().tolist())]
            return {"objects": items, "shape": list(array.shape)}
        fortran = array.ndim > 1 and array.flags.f_contiguous and not array.flags.c_contiguous
        made: Json = {"order": "F"} if fortran else {}
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
        if self.weights is not None and where.endswith("coefficients") and plain.dtype.kind == "f" and plain.size:
            exponent = int(np.frexp(np.abs(plain).max())[1])
            made |= {"dtype": plain.dtype.str, "exponent": exponent}
            plain = np.ldexp(plain, -exponent).astype(self.weights)
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

    def _sparse(self, matrix: Any, where: str) -> Json:
        if matrix.format not in ("csr", "csc"):
            matrix = matrix.tocsr()
        parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
        arrays = {name: self._array(part, where) for name, part in parts.items()}
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
    """Convert integers to the smallest type that holds them."""
    if not array.size:
        return array
    low, high = int(array.min()), int(array.max())
    for name in ("u1", "i1", "<u2", "<i2", "<u4", "<i4"):
        info = np.iinfo(name)
        if np.dtype(name).itemsize < array.dtype.itemsize and info.min <= low and high <= info.max:
            return array.astype(name)
    return array


def _refusal(value: object, where: str) -> str:
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


# What decoding may do, in bytes, beside the bytes of the tensors: a forged file may name one tensor a million times.
_WORK, _COPY = 256, 8  # passes over all tensors; passes that one copy counts as
_FREE = 1 << 26


class Decoder:
    """Turns JSON and tensors back into values; raises whatever goes wrong, which `load` turns into one error."""

    def __init__(self, tensors: dict[str, Array]) -> None:
        self._tensors = tensors
        self._made: dict[str, Array] = {}
        self._left = _WORK * sum(tensor.nbytes for tensor in tensors.values()) + _FREE

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise ModelFileError("the model refers to the same arrays too often to be a model of bochner.")

    def decode(self, value: Any) -> Any:
        """Return the value of a piece of JSON."""
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        for tag, method in self._decoders.items():
            if tag in value:
                return method(self, value)
        raise ModelFileError(f"the model holds a value of an unknown kind: {sorted(value)[:5]}.")

    def _tuple(self, value: Json) -> tuple[object, ...]:
        return tuple(self.decode(_list(value["tuple"])))

    def _dict(self, value: Json) -> dict[object, object]:
        return {self.decode(key): self.decode(item) for key, item in _list(value["dict"])}

    def _float(self, value: Json) -> float:
        return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[value["float"]]

    def _scalar(self, value: Json) -> Any:
        array = self.decode(value["scalar"])
        if not isinstance(array, np.ndarray) or array.ndim:
            raise ModelFileError("expected a scalar in the model, got an array.")
        return array[()]

    def _dtype(self, value: Json) -> DType | type:
        dtype = _dtype(value["dtype"])
        return dtype.type if value.get("type") else dtype

    def _ufunc(self, value: Json) -> np.ufunc:
        found = vars(np).get(value["ufunc"])
        if not isinstance(found, np.ufunc):
            raise ModelFileError(f"NumPy has no function called {value['ufunc']!r}.")
        return found

    def _objects(self, value: Json) -> Array:
        items = self.decode(_list(value["objects"]))
        array = np.empty(len(items), object)
        array[:] = items
        return array.reshape(value["shape"])

    def _array(self, value: Json) -> Array:
        key = repr(sorted(value.items()))
        if key not in self._made:
            array = self._make(value)
            if value.keys() & {"upper", "signs", "text", "dtype"}:
                self._spend(_COPY * array.nbytes)
            self._made[key] = array
        return self._made[key]

    def _make(self, value: Json) -> Array:
        if "upper" in value:
            array = _triangle(self._tensors[value["upper"]], value["size"])
        elif "signs" in value:
            array = _unpacked(self._tensors[value["signs"]], value["shape"])
        else:
            array = self._tensors[value["array"]]
        if "text" in value:
            if array.dtype.kind != "u" or (array.size and array.max() > sys.maxunicode):
                raise ModelFileError("an array of strings does not hold strings.")
            array = array.astype("<u4").view(f"<U{int(value['text'])}").reshape(value["shape"])
        elif "complex" in value:
            if array.dtype != np.float64:
                raise ModelFileError("complex numbers are stored as pairs of float64.")
            array = array.view(np.complex128).reshape(array.shape[:-1])
        elif "dtype" in value:
            dtype = _dtype(value["dtype"])
            numbers = "f" if "exponent" in value else "iu"
            if dtype.kind not in numbers or array.dtype.kind not in numbers:
                raise ModelFileError("only integers and coefficients are stored in a smaller type.")
            array = array.astype(dtype)
            if "exponent" in value:
                array = np.ldexp(array, int(np.clip(value["exponent"], -2000, 2000)))
        return array.T if value.get("order") == "F" else array

    def _sparse(self, value: Json) -> Any:
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
            raise ModelFileError("a sparse matrix has indices out of bounds.")
        self._spend(_COPY * 8 * (data.nbytes + indices.nbytes + indptr.nbytes))
        matrix = make((data, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
        return matrix

    def _class(self, value: Json) -> Any:
        name: str = value["class"] if isinstance(value["class"], str) else ""
        cls = classes().get(name)
        if cls is None:
            raise ModelFileError(
                f"the model holds an object of class {value['class']!r}, which this version of bochner does not have."
            )
        if inspect.isabstract(cls):
            raise ModelFileError(f"{value['class']} is abstract.")
        state = {field: self.decode(item) for field, item in dict(value["fields"]).items()}
        sums = issubclass(cls, RidgeStatistics)
        for item in state.values():
            if isinstance(item, np.ndarray):
                self._spend((2 * _COPY if sums else 1) * item.nbytes)
        if sums:
            made: Any = _statistics(state)
        elif not issubclass(cls, BaseEstimator):
            made = _dataclass(cls, state)
        else:
            made = _estimator(cls, state)
        check(made)
        return made

    _decoders: ClassVar[Mapping[str, Callable[[Decoder, Json], Any]]] = {
        "class": _class,
        "sparse": _sparse,  # before array
        "array": _array,
        "signs": _array,
        "upper": _array,
        "tuple": _tuple,
        "dict": _dict,
        "float": _float,
        "scalar": _scalar,
        "dtype": _dtype,
        "ufunc": _ufunc,
        "objects": _objects,
    }


def _dtype(name: object) -> DType:
    if not isinstance(name, str) or not re.fullmatch(r"[<>|=]?[biufcUOSV]\d{0,6}", name):
        raise ModelFileError("a dtype in the model is invalid.")
    return np.dtype(name)


def _triangle(values: Array, m: object) -> Array:
    if type(m) is not int or values.shape != (m * (m + 1) // 2,):
        raise ModelFileError("a triangle of the wrong size.")
    return unpack_upper(values, m)


def _unpacked(bits: Array, shape: Any) -> Array:
    size = math.prod(shape)
    if bits.dtype != np.uint8 or bits.ndim != 1 or -(-size // 8) != bits.size or not all(n >= 0 for n in shape):
        raise ModelFileError("packed signs of the wrong size.")
    signs = np.unpackbits(bits, count=size).view(np.int8)
    signs *= 2
    signs -= 1
    return signs.reshape(shape)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ModelFileError("expected a list in the model.")
    return value


def _statistics(state: Json) -> RidgeStatistics:
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
            raise ModelFileError(f"sums of {m} features and {k} targets do not fit {name}.")
    return RidgeStatistics.from_arrays(state)


def _dataclass(cls: Any, state: Json) -> Any:
    known, needed = _fields(cls)
    if not needed <= state.keys() <= known:
        raise ModelFileError(f"{cls.__name__} has the fields {sorted(known)}; the model gives {sorted(state)}.")
    return cls(**state)


@cache
def _fields(cls: type) -> tuple[frozenset[str], frozenset[str]]:
    """Return the fields of a dataclass, and those without a default."""
    known = [field for field in fields(cls) if field.init]
    needed = [f.name for f in known if f.default is MISSING and f.default_factory is MISSING]
    return frozenset(field.name for field in known), frozenset(needed)


@cache
def _parameters(cls: Any) -> frozenset[str]:
    return frozenset(inspect.signature(cls.__init__).parameters) - {"self"}


def _estimator(cls: Any, state: Json) -> Any:
    """Build an estimator: its constructor stores the parameters; attributes set by `fit` are then restored."""
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
