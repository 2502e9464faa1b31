"""Files that are written: every writer of the package opens its file with `replacing`."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file whose content goes to `path` when the body ends without an error, and nowhere otherwise.

    A regular file is replaced as a whole and keeps its permissions. A link is followed. Pipes and devices are written
    into.
    """
    target = followed(path)
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        with tempfile.TemporaryFile() as file:  # some formats need a file that can be rewound
            yield file
            file.seek(0)
            with Path(path).open("wb") as out:
                shutil.copyfileobj(file, out)
        return
    temporary = target.with_name(f"{target.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(stat.S_IMODE(mode))
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    if hasattr(os, "O_DIRECTORY"):  # make the new name itself durable
        folder = os.open(target.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def followed(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path leads to through links, whether it exists or not."""
    return Path(os.path.realpath(path))
