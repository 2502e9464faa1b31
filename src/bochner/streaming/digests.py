"""Digests: of values, to tell models apart, and of rows, so that sums can prove which rows they are of."""

from __future__ import annotations

import functools
import hashlib
import re
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bochner.backends import Array

_BYTES = 16  # 128 bits: no two data sets meet by accident


def fingerprint(*values: Any) -> str:
    """A digest of values: arrays by their bytes, objects by their attributes, functions by their code and what it uses.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.streaming import fingerprint
    >>> fingerprint(np.sin) == fingerprint(np.cos)
    False
    """
    digest = hashlib.blake2b(digest_size=_BYTES)
    _absorb(digest, values, ())
    return digest.hexdigest()


def described(value: Any) -> str:
    """The repr of a value without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _absorb(digest: Any, value: Any, inside: tuple[int, ...]) -> None:
    """Feed a value to a digest; `inside` are the objects that it is a part of, since a function may name itself."""
    digest.update(type(value).__name__.encode() + b"(")
    if id(value) not in inside:
        parts = _parts(value)
        if isinstance(parts, bytes):
            digest.update(parts)
        else:
            for part in parts:
                _absorb(digest, part, (*inside, id(value)))
    digest.update(b")")


def _parts(value: Any) -> bytes | list[Any]:
    """What a value is made of: bytes, or further values."""
    if isinstance(value, np.ndarray):
        about = f"{value.dtype.str}{value.shape}".encode()
        return [about, value.tolist()] if value.dtype == object else about + _bytes(value).tobytes()
    if isinstance(value, Mapping):
        return [part for key in sorted(value, key=repr) for part in (key, value[key])]
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if scipy.sparse.issparse(value):
        value = value.tocsr()
        return [value.shape, value.data, value.indices, value.indptr]
    if is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in fields(value) if field.compare]
    if isinstance(value, types.CodeType):
        return [value.co_code, value.co_names, value.co_consts, value.co_varnames[: value.co_argcount]]
    if isinstance(value, types.MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, types.FunctionType):
        closure = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__code__, value.__defaults__, value.__kwdefaults__, closure, _constants(value)]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if hasattr(value, "__dict__") and not isinstance(value, (type, types.ModuleType)):
        return [getattr(value, "__name__", None), dict(vars(value))]  # compiled functions have nothing but a name
    return described(value).encode()


def _constants(function: types.FunctionType) -> dict[str, Any]:
    """The functions and the numbers of its own module that a function names."""

    def plain(value: Any) -> bool:
        same_module = getattr(value, "__module__", None) == function.__module__
        return isinstance(value, (bool, int, float, complex, str, np.ndarray, np.generic)) or (
            isinstance(value, types.FunctionType) and same_module
        )

    known = function.__globals__
    return {name: known[name] for name in function.__code__.co_names if name in known and plain(known[name])}


def _bytes(array: Array) -> Array:
    """The bytes of an array, row after row; without a copy where they lie so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class Piece(NamedTuple):
    """A run of rows: how many, and the digests of their features, targets and weights."""

    rows: int
    X: bytes
    y: bytes
    weight: bytes


class RowDigest:
    """Which rows some sums are of: running digests of features, targets and weights, as they were added.

    They do not depend on how the rows were cut into blocks. Sums that were made in several places and merged have a
    piece from each.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.streaming import RowDigest
    >>> X, y = np.arange(8.0).reshape(4, 2), np.ones((4, 1))
    >>> whole = RowDigest().update(X, y, None)
    >>> blocks = RowDigest().update(X[:1], y[:1], None).update(X[1:], y[1:], None)
    >>> blocks.pieces == whole.pieces
    True
    >>> whole.difference(RowDigest().update(X, 2 * y, None))
    'the targets of rows 0 to 3 differ'
    """

    def __init__(self, pieces: list[Piece] | None = None) -> None:
        self._closed = list(pieces or ())
        self._running: dict[str, Any] = {}
        self._rows = 0  # in the running piece

    @property
    def rows(self) -> int:
        """All rows."""
        return sum(piece.rows for piece in self._closed) + self._rows

    @property
    def pieces(self) -> list[Piece]:
        """The runs of rows, in order."""
        return [*self._closed, Piece(self._rows, *map(self._ended, Piece._fields[1:]))] if self._rows else self._closed

    @property
    def ends(self) -> list[int]:
        """The rows before which the pieces end."""
        return np.cumsum([piece.rows for piece in self.pieces], dtype=int).tolist()

    def update(self, X: Any, Y: Array, weight: Array | None) -> RowDigest:
        """Add rows: X (n, d) array or CSR, Y (n, k), weight (n,) or None. Returns self."""
        if not X.shape[0]:
            return self
        if scipy.sparse.issparse(X):
            X = X.tocsr()
            held = slice(X.indptr[0], X.indptr[-1])
            self._add("X, values", X.data[held])
            self._add("X, columns", X.indices[held].astype(np.int64))
            self._add("X, counts", np.diff(X.indptr).astype(np.int64))
        else:
            self._add("X", X)
        self._add("y", Y)
        if weight is not None:
            self._add("weight", weight)
        self._rows += X.shape[0]
        return self

    def _add(self, part: str, array: Array) -> None:
        if part not in self._running:
            self._running[part] = hashlib.blake2b(digest_size=_BYTES)
        self._running[part].update(_bytes(array).data)

    def _ended(self, name: str) -> bytes:
        """The digest of the running piece's X, y or weight."""
        parts = [(part, self._running[part].digest()) for part in sorted(self._running) if part.split(",")[0] == name]
        return hashlib.blake2b(repr(parts).encode(), digest_size=_BYTES).digest()

    def close(self) -> RowDigest:
        """End the running piece: further rows begin another. Returns self."""
        self._closed, self._running, self._rows = self.pieces, {}, 0
        return self

    def merge(self, other: RowDigest) -> RowDigest:
        """Add the rows of another digest. Returns self."""
        self.close()._closed.extend(other.pieces)
        return self

    def difference(self, found: RowDigest) -> str | None:
        """What is different about rows that should be those of this digest, in words; None where nothing is."""
        first = 0
        for old, new in zip_longest(self.pieces, found.pieces):
            if old is None or new is None or old.rows != new.rows:
                return f"there are {found.rows} rows where {self.rows} were seen"
            for name, words in (("X", "features"), ("y", "targets"), ("weight", "weights")):
                if getattr(old, name) != getattr(new, name):
                    return f"the {words} of rows {first} to {first + old.rows - 1} differ"
            first += old.rows
        return None

    def arrays(self) -> dict[str, Array]:
        """Everything as named arrays, for a file."""
        digests = b"".join(piece.X + piece.y + piece.weight for piece in self.pieces)
        return {
            "digest_rows": np.array([piece.rows for piece in self.pieces], np.int64),
            "digests": np.frombuffer(digests, np.uint8).reshape(-1, 3, _BYTES),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> RowDigest:
        """What `arrays` wrote."""
        rows, digests = arrays["digest_rows"].tolist(), arrays["digests"]
        return cls([Piece(n, *map(bytes, each)) for n, each in zip(rows, digests, strict=True)])

    def __getstate__(self) -> dict[str, Any]:
        return {"_closed": self.pieces, "_running": {}, "_rows": 0}
