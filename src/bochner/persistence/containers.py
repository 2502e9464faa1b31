"""The file: safetensors, written as a whole and read with a check of every number in the header.

A file is eight bytes with the length of a JSON header, the header, and the bytes of the tensors one after the other.
The header names the type, shape and place of each tensor and holds strings under ``__metadata__``. Ours are
``bochner``, the model as JSON, and ``digest``, of the model and all tensors: a changed bit anywhere is an error.

The package of the same name is not used for reading: it gives the metadata of a memory-mapped file only, and a file
that is cut short while mapped ends the process. The tests read our files with it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

import numpy as np

from bochner.backends import Array, DType
from bochner.outputs import replacing

Json: TypeAlias = dict[str, Any]

MAX_HEADER = 1 << 24  # largest header, in bytes
MAX_VALUES = 1 << 20  # largest number of values in the header: parsed JSON is about 50 times larger than its text
_ALIGNMENT = 64  # bytes; the first tensor begins at a multiple
_SUMS = "sums:"  # prefix of a file's checksum
_WORDS = 512  # 64-bit words in a row of the sums
_TYPES = {
    "BOOL": np.dtype(np.bool_),
    "U8": np.dtype("<u1"),
    "I8": np.dtype("<i1"),
    "U16": np.dtype("<u2"),
    "I16": np.dtype("<i2"),
    "F16": np.dtype("<f2"),
    "U32": np.dtype("<u4"),
    "I32": np.dtype("<i4"),
    "F32": np.dtype("<f4"),
    "U64": np.dtype("<u8"),
    "I64": np.dtype("<i8"),
    "F64": np.dtype("<f8"),
    "C64": np.dtype("<c8"),
}
TYPE_NAMES = {dtype: name for name, dtype in _TYPES.items()}


class ModelFileError(ValueError):
    """A file that is not a bochner model, or is damaged, or was written by a later version."""


def write(path: str | os.PathLike[str], model: str, tensors: Mapping[str, Array]) -> None:
    """Write the JSON of a model and its tensors (C-contiguous, of types in `TYPE_NAMES`): all of it, or nothing."""
    # types with larger items first, so that every tensor lies at a multiple of its items
    ordered = sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize)
    header: Json = {"__metadata__": {"bochner": model, "digest": digest(model, ordered)}}
    stop = 0
    for name, tensor in ordered:
        start, stop = stop, stop + tensor.nbytes
        header[name] = {"dtype": TYPE_NAMES[tensor.dtype], "shape": tensor.shape, "data_offsets": [start, stop]}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    _check_header(text, path)
    with replacing(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, tensor in ordered:
            file.write(_bytes(tensor))


def read(path: str | os.PathLike[str]) -> tuple[str, dict[str, Array]]:
    """Return the JSON of a model and its tensors, in no more memory than the file is long."""
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))
        if not 2 <= length <= size - 8:
            raise ModelFileError(f"{path} is not a safetensors file, or it is cut short.")
        if length > MAX_HEADER:
            raise ModelFileError(f"the header of {path} claims {length:,} bytes; at most {MAX_HEADER:,} are read.")
        text = file.read(length)
        _check_header(text, path)
        header = parse(text, path)
        metadata = header.pop("__metadata__", None)
        if not isinstance(metadata, dict) or not all(isinstance(metadata.get(k), str) for k in ("bochner", "digest")):
            raise ModelFileError(f"{path} is not a bochner model: its header does not say so.")
        places = _places(header, size - 8 - length, path)
        tensors = {}
        for name, dtype, shape in places:
            tensor = np.empty(shape, dtype)
            if tensor.nbytes and file.readinto(_bytes(tensor)) != tensor.nbytes:
                raise ModelFileError(f"{path} is cut short.")
            tensors[name] = tensor
    model = metadata["bochner"]
    if digest(model, tensors.items()) != metadata["digest"]:
        raise ModelFileError(f"{path} is damaged: its checksum does not match. Save the model again.")
    return model, tensors


def parse(text: bytes | str, path: str | os.PathLike[str]) -> Json:
    """Parse a JSON object without repeated names, not nested too deeply."""

    def unique(pairs: list[tuple[str, object]]) -> Json:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a name occurs twice")
        return found

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no JSON")

    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"the header of {path} is not valid JSON ({error}).") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"the header of {path} is not a JSON object.")
    return value


def digest(model: str, tensors: Iterable[tuple[str, Array]]) -> str:
    """Compute a checksum against damage: CRC-32 of the model, and of each tensor's name, type, shape and sums.

    The 64-bit words of a tensor are added up along rows and columns of a matrix, in a tenth of the time that CRC-32
    of the bytes takes: every changed bit changes two sums, and so does a word in another place. A cryptographic
    checksum protects no better, since whoever changes a file can change its checksum.
    """
    total = 0
    for part in _digested(model, tensors):
        total = zlib.crc32(part, total)
    return f"{_SUMS}{total:08x}"


def _digested(model: str, tensors: Iterable[tuple[str, Array]]) -> Iterator[bytes | memoryview]:
    yield _told(model)
    for name, tensor in tensors:
        yield _described(name, tensor)
        data = _bytes(tensor)
        whole = len(data) // (8 * _WORDS) * 8 * _WORDS
        if whole:
            table = np.frombuffer(data[:whole], "<u8").reshape(-1, _WORDS)
            for axis in (0, 1):
                yield np.ascontiguousarray(table.sum(axis=axis), "<u8").data
        yield data[whole:]


def _told(model: str) -> bytes:
    return model.encode("utf-8", "surrogatepass")


def _described(name: str, tensor: Array) -> bytes:
    return _told(f"\0{name}\0{TYPE_NAMES[tensor.dtype]}\0{tensor.shape}\0")


def _bytes(tensor: Array) -> memoryview:
    return tensor.reshape(-1).view(np.uint8).data if tensor.size else memoryview(b"")


def _check_header(text: bytes, path: str | os.PathLike[str]) -> None:
    values = sum(map(text.count, (b",", b"[", b"{")))
    if len(text) > MAX_HEADER or values > MAX_VALUES:
        raise ModelFileError(
            f"the header of {path} has {len(text):,} bytes and {values:,} values; at most {MAX_HEADER:,} and "
            f"{MAX_VALUES:,} can be read. Make long lists in parameters NumPy arrays."
        )


def _places(header: Json, size: int, path: str | os.PathLike[str]) -> list[tuple[str, DType, tuple[int, ...]]]:
    """List names, types and shapes in the order of the file; the tensors must fill the `size` bytes exactly."""
    found = []
    for name, entry in header.items():
        if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
            raise ModelFileError(f"tensor {name!r} in {path} is not described by dtype, shape and data_offsets.")
        dtype = _TYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        shape, offsets = entry["shape"], entry["data_offsets"]
        if dtype is None:
            raise ModelFileError(f"tensor {name!r} in {path} is of the unknown type {entry['dtype']!r}.")
        if not _are_counts(shape) or len(shape) > 8 or not _are_counts(offsets) or len(offsets) != 2:
            raise ModelFileError(f"the shape or the place of tensor {name!r} in {path} is invalid.")
        count = 1
        for axis in shape:
            count *= axis
        if offsets[1] - offsets[0] != count * dtype.itemsize:
            raise ModelFileError(f"tensor {name!r} in {path} does not have the size of its shape.")
        found.append((offsets[0], offsets[1], name, dtype, tuple(shape)))
    found.sort(key=lambda place: place[:2])
    end = 0
    for start, stop, name, *_ in found:
        if start != end:
            raise ModelFileError(f"tensor {name!r} in {path} does not begin where the one before it ends.")
        end = stop
    if end != size:
        raise ModelFileError(f"{path} holds {size:,} bytes of tensors and its header says {end:,}.")
    return [(name, dtype, shape) for _, _, name, dtype, shape in found]


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in values)
