"""Statistics on disk: written atomically, checksummed, tied to the model and the data they belong to.

A file is a magic number, the length of a JSON header, the header (names, dtypes and shapes of the arrays, and
what they belong to), the arrays, and a BLAKE2 digest of all that. Nothing in it is ever executed.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.statistics import RidgeStatistics

_MAGIC = b"bochner\x01"
_DIGEST = 32


def fingerprint(*values: Any) -> str:
    """A digest of values: arrays by their bytes, objects by their attributes, functions by their code."""
    digest = hashlib.blake2b(digest_size=16)
    _absorb(digest, values)
    return digest.hexdigest()


def _absorb(digest: Any, value: Any) -> None:
    digest.update(type(value).__name__.encode() + b"(")
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        if value.dtype == object:
            _absorb(digest, value.tolist())
        else:
            digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        for key in sorted(value, key=repr):
            _absorb(digest, (key, value[key]))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _absorb(digest, item)
    elif scipy.sparse.issparse(value):
        value = value.tocsr()
        _absorb(digest, (value.shape, value.data, value.indices, value.indptr))
    elif is_dataclass(value):
        _absorb(digest, {field.name: getattr(value, field.name) for field in fields(value)})
    elif hasattr(value, "__code__"):
        digest.update(value.__code__.co_code + repr(value.__code__.co_consts).encode())
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        _absorb(digest, {k: v for k, v in vars(value).items() if not callable(v) or hasattr(v, "__code__")})
    else:
        digest.update(repr(value).encode())
    digest.update(b")")


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """Write named arrays and a JSON-able description: the file is either the old one or the new one, never half."""
    target = Path(path)
    table = {name: {"dtype": a.dtype.str, "shape": a.shape} for name, a in arrays.items()}
    header = json.dumps({"arrays": table, "about": dict(about)}).encode()
    digest = hashlib.blake2b(digest_size=_DIGEST)
    parts: list[Any] = [np.ascontiguousarray(a).reshape(-1).view(np.uint8).data for a in arrays.values()]
    with replacing(target) as file:
        for part in (_MAGIC + struct.pack("<Q", len(header)) + header, *parts):
            digest.update(part)
            file.write(part)
        file.write(digest.digest())


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the body has ended well: all of it, or nothing."""
    target = Path(path)
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # make the new name itself durable
        folder = os.open(target.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `write_arrays` wrote, or say what is wrong with the file."""
    data = Path(path).read_bytes()
    if not data.startswith(_MAGIC):
        raise ValueError(f"{path} is not a bochner checkpoint. Choose another path, or delete the file.")
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


class Checkpoint:
    """Where a fold saves its statistics, and how often.

    Parameters
    ----------
    path : path-like
    belongs_to : str
        Fingerprint of the model and the layout of the data.
    about : dict
        Anything else to keep, as JSON.
    every : float
        Seconds between writes.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        belongs_to: str,
        about: Mapping[str, Any] | None = None,
        every: float = 30.0,
    ) -> None:
        self.path = Path(path)
        self.belongs_to = belongs_to
        self.about = dict(about or {})
        self.every = every
        self.saved = time.monotonic()
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={str(path)!r}: the folder {self.path.parent} does not exist.")

    def load(self) -> tuple[RidgeStatistics, int] | None:
        """The statistics and the rows they have seen; None when there is no file."""
        if not self.path.exists():
            return None
        arrays, about = read_arrays(self.path)
        if about.get("belongs_to") != self.belongs_to:
            raise ValueError(
                f"the checkpoint {self.path} belongs to another model or other data: the features, the options or the "
                "layout of the data differ. Choose another path, or delete the file to start again."
            )
        return RidgeStatistics.from_arrays(arrays), int(about["rows"])

    def save(self, statistics: RidgeStatistics, rows: int) -> None:
        """Write now."""
        write_arrays(self.path, statistics.arrays(), {**self.about, "belongs_to": self.belongs_to, "rows": rows})
        self.saved = time.monotonic()

    def maybe_save(self, statistics: RidgeStatistics, rows: int) -> None:
        """Write when it is time."""
        if time.monotonic() - self.saved >= self.every:
            self.save(statistics, rows)

    def remove(self) -> None:
        """The fit is complete: a later fit starts from the first row."""
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.tmp"):  # by a process that was killed
            left.unlink(missing_ok=True)


def saved_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a checkpoint says about itself; empty when there is none."""
    return read_arrays(path)[1] if Path(path).exists() else {}
