"""Files as columns (CSV, Parquet, Feather, NPZ, NPY), datasets by their names, and predictions as files.

Only the standard library is imported at first, so that a missing file, or a missing column in its header, is reported
at once. Separator, decimal sign and encoding of a text file are guessed from its beginning, and the guess is reported.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bochner.cli.errors import DataError, check_column, nearest

SUFFIXES = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".parquet": "Parquet",
    ".feather": "Feather",
    ".npz": "NPZ",
    ".npy": "NPY",
}
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_HEAD = 1 << 18  # bytes by which a text file is judged
_ROWS = 1000  # rows by which its numbers are judged
_SEPARATORS = "\t;|, "  # of several that fit, the first: commas may be decimal, blanks may be in texts
_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")  # 1,234 or 1,234,567
_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d{1,3}(,\d{3})+\.\d+")
_THOUSANDS = {".": (",", "'", "’", " ", "\u00a0", "\u202f"), ",": (".", "'", "’", " ", "\u00a0", "\u202f")}
_NAMES = {"\t": "tabs", " ": "blanks", "\u00a0": "a blank", "\u202f": "a blank"}


def pandas_module() -> Any:
    """The pandas package."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("reading tables needs pandas: pip install 'bochner[cli]'.") from error
    return pandas


@dataclass(frozen=True)
class Layout:
    """How a text file looks: its first row, or None if that holds numbers, and what was assumed, in words."""

    separator: str
    decimal: str
    encoding: str
    names: list[str] | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class TextFormat:
    """How text files are to be read; None is guessed from the beginning of the file."""

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None

    def check(self, data: str | None, target: str | None = None, drop: Sequence[str] | None = None) -> TextFormat:
        """Refuse a file that is not there or lacks a column, before anything is read or imported."""
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise DataError(f"--encoding: there is no encoding {self.encoding!r}; try utf-8 or cp1252.") from None
        if self.separator is not None and len(self._separator or "") != 1:
            raise DataError(f"--sep is one character, or tab; got {self.separator!r}.")
        if data is not None and kind_of(data) == "CSV":
            names = self.layout(Path(data)).names
            if names is not None:
                for name in drop or ():
                    check_column(name, names, "--drop")
                if target is not None:
                    check_column(target, names)
        return self

    @property
    def _separator(self) -> str | None:
        return {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(
            self.separator or "", self.separator
        )

    def layout(self, path: Path, encoding: str | None = None) -> Layout:
        """How a text file looks, by its beginning."""
        try:
            with _opened(path) as file:
                head = file.read(_HEAD)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise DataError(f"{path} cannot be read: {error}") from None
        encoding = self.encoding or encoding or _encoding_of(head)
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
        if not text.strip():
            raise DataError(f"{path} is empty.")
        if len(head) == _HEAD:
            text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
        separator = self._separator or _separator_of(text, path)
        rows = _cells(text, separator)[:_ROWS]
        names = None if all(map(looks_numeric, rows[0])) else rows[0]
        cells = [cell for row in rows[0 if names is None else 1 :] for cell in row]
        decimal = self.decimal or _decimal_of(cells, separator)
        if names is not None and len(rows) > 1 and len(rows[1]) > len(names):
            raise DataError(
                f"the first row of {path.name} has {len(names)} names and the next {len(rows[1])} values (separated by "
                f"{_name(separator)}); give every column a name, or say --sep."
            )
        notes = [
            f"{path.name}: columns separated by {_name(separator)}, decimal {'comma' if decimal == ',' else 'point'}, "
            f"{encoding}{', no header: columns are numbered from 0' if names is None else ''}"
        ]
        for name, count in Counter(names or ()).items():
            if count > 1:
                notes.append(f"{count} columns are called {name!r}; the later ones are {name}.1, …")
        return Layout(separator, str(decimal), encoding, names, tuple(notes))


def _opened(path: Path) -> Any:
    return _OPENERS.get(path.suffix.lower(), open)(path, "rb")


def _name(character: str) -> str:
    return _NAMES.get(character, repr(character))


def _encoding_of(head: bytes) -> str:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig" if head.startswith(codecs.BOM_UTF8) else "utf-8"


def _cells(text: str, separator: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
    try:
        return [[cell.strip() for cell in row] for row in reader if row]
    except csv.Error as error:
        raise DataError(f"this is not a table of text: {error}") from None


def _separator_of(text: str, path: Path) -> str:
    """The separator by which the most rows have as many cells as the first one."""
    best, found = 0.0, "\t" if ".tsv" in path.suffixes else ","
    for separator in _SEPARATORS:
        widths = [len(row) for row in _cells(text, separator)[:_ROWS]]
        fitting = sum(width == widths[0] for width in widths) / len(widths)
        if widths[0] > 1 and fitting > best + (0.1 if separator == " " else 0.0):
            best, found = fitting, separator
    return found


def _decimal_of(cells: Sequence[str], separator: str) -> str:
    """A comma if numbers have one that does not separate thousands, and none has a point."""
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if not commas or any(_POINT.fullmatch(cell) for cell in cells if not re.fullmatch(r"\d{1,3}(\.\d{3})+", cell)):
        return "."
    if all(_GROUPED.fullmatch(cell) for cell in commas):  # 1,234: where commas separate columns, they are English
        return "." if separator == "," else ","
    return ","


def looks_numeric(cell: str) -> bool:
    """Whether a text is a number, with a decimal point or comma, or a gap."""
    try:
        float(cell.strip() or "nan")
    except ValueError:
        return bool(_COMMA.fullmatch(cell) or _GROUPED.fullmatch(cell))
    return True


# -- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raw:
    """What a file holds before anything is decided: a frame of columns, or an array X with perhaps y."""

    name: str
    frame: Any = None
    X: Any = None
    y: Any = None
    line: int | None = None  # line of the file on which the first row stands, for text files
    sampled: bool = False  # whether there are more rows than these
    notes: tuple[str, ...] = ()


def kind_of(data: str) -> str | None:
    """What a file is by its suffix; None for the name of a dataset."""
    path = Path(data)
    suffix = path.suffix.lower()
    if suffix in _OPENERS:
        suffix = Path(path.stem).suffix.lower()
        if SUFFIXES.get(suffix, "CSV") != "CSV":
            raise DataError(f"{data}: only text files may be compressed; unpack it first.")
    if not path.is_dir() and suffix not in SUFFIXES:
        if path.exists():
            raise DataError(f"{data}: the suffix {path.suffix!r} is none of {', '.join(SUFFIXES)}.")
        return None
    if not path.exists():
        there = sorted(path.parent.glob("*")) if path.parent.is_dir() else []
        tables = [other.name for other in there if {*map(str.lower, other.suffixes)} & {*SUFFIXES}]
        hint = f"; {nearest(path.name, tables, 'table')}" if tables else ", nor any other table in its folder."
        raise DataError(f"there is no file {data!r}{hint}")
    return "Parquet" if path.is_dir() else SUFFIXES[suffix]


def read(
    data: str | None, text: TextFormat | None = None, *, max_rows: int | None = None, random_state: int = 0
) -> Raw:
    """Read a file by its suffix, or a dataset by its name; None is the embedded digits."""
    data = "digits" if data is None else data
    kind, path = kind_of(data), Path(data)
    if kind is None:
        return _read_dataset(data)
    try:
        if kind == "CSV":
            return _read_csv(path, text or TextFormat())
        if kind == "Parquet":
            from bochner.keys import Key
            from bochner.streaming.arrow import read_frame

            frame, sampled = read_frame(path, max_rows=max_rows, key=Key(random_state))
            return Raw(path.name, frame=_named(frame), sampled=sampled)
        if kind == "Feather":
            return Raw(path.name, frame=_named(pandas_module().read_feather(path)))
        return _read_numpy(path)
    except DataError:
        raise
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{data} cannot be read as {kind}: {error}") from None


def _read_dataset(data: str) -> Raw:
    from bochner import datasets

    try:
        found = datasets.load(data)
    except datasets.UnknownDatasetError:
        hint = nearest(data, datasets.names(), "dataset")
        raise DataError(f"{data!r} is neither a file nor the name of a dataset; {hint}") from None
    except (OSError, ImportError) as error:
        raise DataError(str(error)) from None
    return Raw(found.name, X=found.X, y=found.y)


def _named(frame: Any) -> Any:
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _read_csv(path: Path, text: TextFormat) -> Raw:
    pandas = pandas_module()
    layout = text.layout(path)
    for encoding in (layout.encoding, "cp1252", "latin-1"):
        try:
            frame = pandas.read_csv(
                path,
                sep=layout.separator,
                decimal=layout.decimal,
                encoding=encoding,
                header=None if layout.names is None else 0,
                skipinitialspace=True,
                low_memory=False,
            )
            break
        except pandas.errors.ParserError as error:
            raise DataError(f"{path} is not a table: {str(error).replace('C error: ', '').strip()}") from None
        except UnicodeDecodeError as error:
            if text.encoding is not None:
                raise DataError(f"{path} is not text in {text.encoding}: {error}") from None
            layout = text.layout(path, "cp1252")
    if not len(frame):
        raise DataError(f"{path} has a header and no rows.")
    frame, notes = _with_thousands(_named(frame), layout.decimal)
    return Raw(path.name, frame=frame, line=1 if layout.names is None else 2, notes=layout.notes + notes)


def _with_thousands(frame: Any, decimal: str) -> tuple[Any, tuple[str, ...]]:
    """The frame with columns of text as numbers where all are numbers whose thousands are separated."""
    found, notes = {}, []
    for name in frame.columns:
        values = frame[name]
        if values.dtype.kind in "biufcM" or not len(texts := values.dropna().astype(str).str.strip()):
            continue
        for mark in _THOUSANDS[decimal]:
            number = rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d+)?"
            plain = rf"[+-]?\d+(?:{re.escape(decimal)}\d+)?"
            grouped = texts[texts.str.fullmatch(number)]
            if len(grouped) and texts.str.fullmatch(f"{number}|{plain}").all():
                numbers = texts.str.replace(mark, "", regex=False).str.replace(decimal, ".", regex=False).astype(float)
                found[name] = numbers.reindex(values.index)
                notes.append(f"column {name!r}: {grouped.iloc[0]} is read as {numbers[grouped.index[0]]:.12g}")
                break
    return frame.assign(**found), tuple(notes)


def _read_numpy(path: Path) -> Raw:
    import numpy as np
    import scipy.sparse

    try:
        found = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise DataError(f"{path} cannot be read as NumPy data: {error}") from None
    if isinstance(found, np.ndarray):
        if found.ndim != 2:
            raise DataError(f"{path} holds an array of shape {found.shape}; a table has rows and columns.")
        return Raw(path.name, X=found)
    with found:
        names = found.files
        if "indptr" in names:
            parts = (found["data"], found["indices"], found["indptr"])
            X: Any = scipy.sparse.csr_matrix(parts, shape=tuple(found["shape"]))
        elif "X" in names or len(names) == 1:
            X = found["X" if "X" in names else names[0]]
        else:
            raise DataError(f"{path} should hold an array named 'X' (and 'y'); it holds {', '.join(map(repr, names))}.")
        return Raw(path.name, X=X, y=found["y"] if "y" in names else None)


# -- writing -------------------------------------------------------------------------------------------------------


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A file to write beside another, whose place it takes when it is complete: an interruption loses nothing."""
    other = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield other
        other.replace(path)
    finally:
        other.unlink(missing_ok=True)


def check_output(path: Path) -> None:
    """Refuse a file of predictions that could not be written."""
    if SUFFIXES.get(path.suffix.lower()) is None:
        raise DataError(f"{path}: write predictions to {', '.join(SUFFIXES)}.")
    if path.parent != Path() and not path.parent.is_dir():
        raise DataError(f"there is no folder {str(path.parent)!r}.")


def write_table(frame: Any, path: Path) -> None:
    """Write a frame by the suffix of the path: CSV, Parquet, Feather, NPY or NPZ."""
    import numpy as np

    check_output(path)
    kind = SUFFIXES[path.suffix.lower()]
    with beside(path) as other:
        if kind == "CSV":
            frame.to_csv(other, index=False, sep="\t" if path.suffix == ".tsv" else ",")
        elif kind == "Parquet":
            from bochner.streaming.arrow import write_frame

            write_frame(frame, other)
        elif kind == "Feather":
            frame.to_feather(other)
        elif kind == "NPZ":
            np.savez(other, **{name: np.asarray(frame[name].tolist()) for name in frame.columns})  # type: ignore[arg-type]
        else:
            only = frame.shape[1] == 1
            np.save(other, np.asarray(frame.iloc[:, 0].tolist()) if only else frame.to_numpy())
