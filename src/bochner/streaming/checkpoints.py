"""Statistics on disk: written atomically, checksummed, tied to the options and the rows that they are sums of.

A file is a magic number, the length of a JSON header, the header (names, dtypes and shapes of the arrays, and the
options), the arrays (sums, and digests of their rows), and a BLAKE2 digest of all that. Nothing in it is ever executed.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bochner.backends import Array
from bochner.statistics import RidgeStatistics
from bochner.streaming.digests import RowDigest, described

_NAME, _VERSION = b"bochner", b"\x02"
_MAGIC = _NAME + _VERSION
_DIGEST = 32
_START_AGAIN = "To start again, delete the file or choose another path."


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
    """The path of a checkpoint, or an error that says why no file can be there."""
    found = Path(path)
    if not found.parent.is_dir():
        raise ValueError(f"checkpoint={str(path)!r}: the folder {found.parent} does not exist.")
    if found.is_dir():
        raise ValueError(
            f"checkpoint={str(path)!r} is a folder; give the name of a file, such as {str(found / 'sums')!r}."
        )
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
        options: Mapping[str, Any],
        about: Mapping[str, Any] | None = None,
        every: float = 30.0,
    ) -> None:
        self.path = check_path(path)
        self.options = json.loads(json.dumps(options, default=_plain))  # as they come back from a file
        self.about = dict(about or {})
        self.every = every
        self.saved = time.monotonic()
        self.warned = False

    def load(self) -> RidgeStatistics | None:
        """The statistics, with the digest of the rows they have seen; None when there is no file."""
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
        """Raise, and leave the file as it is."""
        raise ValueError(
            f"the checkpoint {self.path} belongs to {reason}. To continue, give the same data and options. "
            f"{_START_AGAIN}"
        )

    def save(self, statistics: RidgeStatistics) -> None:
        """Write now, or warn, once, that it cannot be done."""
        about = {**self.about, "options": self.options, "rows": statistics.digest.rows}
        arrays = {**statistics.arrays(), **statistics.digest.arrays()}
        self._try("written; the fit goes on without it", lambda: write_arrays(self.path, arrays, about))
        self.saved = time.monotonic()

    def maybe_save(self, statistics: RidgeStatistics) -> None:
        """Write when it is time."""
        if time.monotonic() - self.saved >= self.every:
            self.save(statistics)

    def remove(self) -> None:
        """The fit is complete: a later fit starts from the first row."""

        def unlink() -> None:
            self.path.unlink(missing_ok=True)
            for left in self.path.parent.glob(f"{glob.escape(self.path.name)}.*.tmp"):  # by a process that was killed
                left.unlink(missing_ok=True)

        self._try("removed", unlink)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            if not self.warned:
                self.warned = True
                message = f"the checkpoint {self.path} could not be {what}: {error}."
                warnings.warn(message, RuntimeWarning, stacklevel=2)


def _plain(value: Any) -> Any:
    """What JSON cannot hold as it can."""
    return value.item() if isinstance(value, np.generic) else described(value)


def saved_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a checkpoint says about itself; empty when there is none."""
    return read_arrays(path)[1] if Path(path).exists() else {}
