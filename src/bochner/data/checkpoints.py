"""Statistics on disk: written atomically, checksummed, tied to the options and the rows that they are sums of.

A file is a magic number, the length of a JSON header, the header (names, dtypes and shapes of the arrays, and the
options), the arrays (sums, and digests of their rows), and a BLAKE2 digest of all that. Nothing in it is ever executed.

Digests of values distinguish models; digests of rows prove which rows were summed.
"""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import re
import struct
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator

from bochner.backends import Array, is_sparse
from bochner.checks import warn
from bochner.data.progress import Stopwatch
from bochner.outputs import followed, replacing
from bochner.ridge.statistics import RidgeStatistics

_BYTES = 16  # 128 bits: two data sets do not have the same digest by accident


def fingerprint(*values: object) -> str:
    """Return a digest of values: of arrays' bytes, objects' attributes, functions' code and what that uses.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.checkpoints import fingerprint
    >>> fingerprint(np.sin) == fingerprint(np.cos)
    False
    """
    digest = hashlib.blake2b(digest_size=_BYTES)
    _absorb(digest, values, ())
    return digest.hexdigest()


def described(value: object) -> str:
    """Return the repr of a value without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _absorb(digest: hashlib.blake2b, value: object, inside: tuple[int, ...]) -> None:
    """Feed a value to a digest; `inside` are the objects that it is a part of, since a function may refer to itself."""
    digest.update(type(value).__name__.encode() + b"(")
    if id(value) not in inside:
        parts = _parts(value)
        if isinstance(parts, bytes):
            digest.update(parts)
        else:
            for part in parts:
                _absorb(digest, part, (*inside, id(value)))
    digest.update(b")")


def _parts(value: Any) -> bytes | list[object]:
    """Return the parts of a value: bytes, or further values."""
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
    if is_dataclass(value) and not isinstance(value, (type, BaseEstimator)):
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
        return [getattr(value, "__name__", None), dict(vars(value))]  # compiled functions have only a name
    return described(value).encode()


def _constants(function: types.FunctionType) -> dict[str, object]:
    """Return the functions and numbers of its own module that a function names."""

    def plain(value: object) -> bool:
        same_module = getattr(value, "__module__", None) == function.__module__
        return isinstance(value, (bool, int, float, complex, str, np.ndarray, np.generic)) or (
            isinstance(value, types.FunctionType) and same_module
        )

    known = function.__globals__
    return {name: known[name] for name in function.__code__.co_names if name in known and plain(known[name])}


def _bytes(array: Array) -> Array:
    """Return the bytes of an array, row after row; without a copy if they are stored so."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


class Piece(NamedTuple):
    """A run of rows: how many, and the digests of their features, targets and weights."""

    rows: int
    X: bytes
    y: bytes
    weight: bytes


class RowDigest:
    """Which rows were summed: running digests of features, targets and weights, as they were added.

    They do not depend on how the rows were cut into blocks. Sums that were made in several places and merged have a
    piece from each.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.data.checkpoints import RowDigest
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
        self._running: dict[str, hashlib.blake2b] = {}
        self._rows = 0  # in the running piece

    @property
    def rows(self) -> int:
        """Return the number of all rows."""
        return sum(piece.rows for piece in self._closed) + self._rows

    @property
    def pieces(self) -> list[Piece]:
        """Return the runs of rows, in order."""
        return (
            [*self._closed, Piece(self._rows, *map(self._ended, ("X", "y", "weight")))] if self._rows else self._closed
        )

    @property
    def ends(self) -> list[int]:
        """Return the rows before which the pieces end."""
        return np.cumsum([piece.rows for piece in self.pieces], dtype=int).tolist()

    def update(self, X: Array, Y: Array, weight: Array | None) -> RowDigest:
        """Add rows: X (n, d) array or CSR, Y (n, k), weight (n,) or None. Returns self."""
        if not X.shape[0]:
            return self
        if is_sparse(X):
            rows = X.tocsr()
            held = slice(rows.indptr[0], rows.indptr[-1])
            self._add("X, values", rows.data[held])
            self._add("X, columns", rows.indices[held].astype(np.int64))
            self._add("X, counts", np.diff(rows.indptr).astype(np.int64))
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
        """Return the digest of the running piece's X, y or weight."""
        parts = [(part, self._running[part].digest()) for part in sorted(self._running) if part.split(",")[0] == name]
        return hashlib.blake2b(repr(parts).encode(), digest_size=_BYTES).digest()

    def close(self) -> RowDigest:
        """End the running piece: further rows begin another. Returns self."""
        self._closed, self._running, self._rows = self.pieces, {}, 0
        return self

    def merge(self, other: RowDigest) -> RowDigest:
        """Add the rows of another digest. Returns self."""
        self.close()
        self._closed.extend(other.pieces)
        return self

    def difference(self, found: RowDigest) -> str | None:
        """Say how rows differ from those of this digest; None if they do not."""
        first = 0
        for old, new in zip_longest(self.pieces, found.pieces):
            if old is None or new is None or old.rows != new.rows:
                return f"there are {found.rows} rows where {self.rows} were seen"
            for words, before, now in zip(("features", "targets", "weights"), old[1:], new[1:], strict=True):
                if before != now:
                    return f"the {words} of rows {first} to {first + old.rows - 1} differ"
            first += old.rows
        return None

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays, for a file."""
        digests = b"".join(piece.X + piece.y + piece.weight for piece in self.pieces)
        return {
            "digest_rows": np.array([piece.rows for piece in self.pieces], np.int64),
            "digests": np.frombuffer(digests, np.uint8).reshape(-1, 3, _BYTES),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> RowDigest:
        """Make an object of the arrays that `arrays` returned."""
        rows, digests = arrays["digest_rows"].tolist(), arrays["digests"]
        return cls([Piece(n, *map(bytes, each)) for n, each in zip(rows, digests, strict=True)])

    def __getstate__(self) -> dict[str, object]:
        return {"_closed": self.pieces, "_running": {}, "_rows": 0}


_NAME, _VERSION = b"bochner", b"\x02"
_MAGIC = _NAME + _VERSION
_DIGEST = 32
_START_AGAIN = "To start again, delete the file or choose another path."


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array], about: Mapping[str, object]) -> None:
    """Write named arrays and a JSON-able description: a file is replaced as a whole."""
    table = {name: {"dtype": a.dtype.str, "shape": a.shape} for name, a in arrays.items()}
    header = json.dumps({"arrays": table, "about": dict(about)}).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST)
    head = _MAGIC + struct.pack("<Q", len(header)) + header
    parts: list[bytes | memoryview] = [head, *(_bytes(a).data for a in arrays.values())]
    with replacing(path) as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `write_arrays` wrote, or say what is wrong with the file."""
    data = Path(path).read_bytes()
    if not data.startswith(_NAME):
        raise ValueError(f"{path} is not a bochner checkpoint. Choose another path, or delete the file.")
    if not data.startswith(_MAGIC):
        raise ValueError(f"the checkpoint {path} was written by another version of bochner. {_START_AGAIN}")
    body, digest = data[:-_DIGEST], data[-_DIGEST:]
    if len(data) < len(_MAGIC) + 8 + _DIGEST or hashlib.blake2b(body, digest_size=_DIGEST).digest() != digest:
        raise ValueError(
            f"the checkpoint {path} is truncated or corrupt: its checksum does not match. Delete it to start again."
        )
    start = len(_MAGIC) + 8
    (length,) = struct.unpack("<Q", data[len(_MAGIC) : start])
    header = json.loads(body[start : start + length])
    start += length
    arrays = {}
    for name, entry in header["arrays"].items():
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body[start : start + size], dtype).reshape(shape)
        start += size
    return arrays, header["about"]


def check_path(path: str | os.PathLike[str]) -> Path:
    """Return the path of a checkpoint, or raise an error that says why no file can be there."""
    found = Path(path)
    if not found.parent.is_dir():
        raise ValueError(f"checkpoint={str(path)!r}: the folder {found.parent} does not exist.")
    if found.is_dir():
        raise ValueError(
            f"checkpoint={str(path)!r} is a folder; give the name of a file, such as {str(found / 'sums')!r}."
        )
    if found.exists() and not found.is_file():
        raise ValueError(f"checkpoint={str(path)!r} must be a regular file, got a pipe or device; choose another path.")
    return found


class Checkpoint:
    """Where a pass saves its statistics, and how often.

    Parameters
    ----------
    path : path-like
    options : dict
        Everything that shapes the sums besides the rows, by name. A file with other options is refused.
    about : dict
        Anything else to keep, as JSON.
    every : float
        Seconds between writes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        options: Mapping[str, object],
        about: Mapping[str, object] | None = None,
        every: float = 30.0,
    ) -> None:
        self.path = check_path(path)
        self.options = json.loads(json.dumps(options, default=_plain))  # as they come back from a file
        self.about = dict(about or {})
        self.every = every
        self.saved = Stopwatch()
        self.warned = False

    def load(self) -> RidgeStatistics | None:
        """Read the statistics, with the digest of the rows they have seen; None if there is no file."""
        if not self.path.exists():
            return None
        arrays, about = read_arrays(self.path)
        before = about["options"]
        for name in (*self.options, *before):
            old, new = before.get(name), self.options.get(name)
            if old != new:
                self.refuse(f"another fit: {name} was {old!r} there and is {new!r} here")
        statistics = RidgeStatistics.from_arrays(arrays)
        statistics.digest = RowDigest.from_arrays(arrays)
        return statistics

    def prove(self, seen: RowDigest, found: RowDigest) -> None:
        """Refuse unless the rows found are those that the statistics have seen."""
        difference = seen.difference(found)
        if difference is not None:
            self.refuse(f"other data: {difference}")

    def refuse(self, reason: str) -> None:
        """Raise an error, and leave the file as it is."""
        raise ValueError(
            f"the checkpoint {self.path} belongs to {reason}. To continue, give the same data and options. "
            f"{_START_AGAIN}"
        )

    def save(self, statistics: RidgeStatistics) -> None:
        """Write now, or warn, once, that it cannot be done."""
        about = {**self.about, "options": self.options, "rows": statistics.digest.rows}
        arrays = {**statistics.arrays(), **statistics.digest.arrays()}
        self._try("written; the fit goes on without it", lambda: write_arrays(self.path, arrays, about))
        self.saved = Stopwatch()

    def maybe_save(self, statistics: RidgeStatistics) -> None:
        """Write when it is time."""
        if self.saved.seconds() >= self.every:
            self.save(statistics)

    def remove(self) -> None:
        """Remove the file after a complete fit; a later one starts from the first row."""

        def unlink() -> None:
            target = followed(self.path)
            target.unlink(missing_ok=True)
            for left in target.parent.glob(f"{glob.escape(target.name)}.*.tmp"):  # by a process that was killed
                left.unlink(missing_ok=True)

        self._try("removed", unlink)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            if not self.warned:
                self.warned = True
                message = f"the checkpoint {self.path} could not be {what}: {error}."
                warn(message, RuntimeWarning)


def _plain(value: object) -> object:
    """Convert a value that JSON cannot hold to one that it can."""
    return value.item() if isinstance(value, np.generic) else described(value)


def saved_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what a checkpoint says about itself; empty if there is none."""
    return read_arrays(path)[1] if Path(path).exists() else {}
