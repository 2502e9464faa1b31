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
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, cast

from bochner.cli.errors import DataError, check_column, nearest
from bochner.cli.screen import counted
from bochner.outputs import followed, replacing

if TYPE_CHECKING:
    from pandas import DataFrame
    from scipy.sparse import spmatrix

    from bochner.backends import Array

SUFFIXES = {
    ".csv": "CSV",
    ".tsv": "CSV",
    ".txt": "CSV",
    ".parquet": "Parquet",
    ".feather": "Feather",
    ".npz": "NPZ",
    ".npy": "NPY",
}
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_HEAD = 1 << 18  # bytes of a text file from which its layout is guessed
_ROWS = 1000  # rows from which the decimal sign is guessed
_SEPARATORS = "\t;|, "  # of several that fit, the first: commas may be decimal, blanks may be in texts
_COMMA = re.compile(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+([eE][+-]?\d+)?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")  # 1,234 or 1,234,567
_POINT = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?|[+-]?\d{1,3}(,\d{3})+\.\d+")
_THOUSANDS = {".": (",", "'", "’", " ", "\u00a0", "\u202f"), ",": (".", "'", "’", " ", "\u00a0", "\u202f")}
_NAMES = {"\t": "tabs", " ": "blanks", "\u00a0": "a blank", "\u202f": "a blank"}
_UNIT = r"(?:[%‰$€£¥₹]|EUR|USD|GBP|CHF|JPY)"
_WITH_UNIT = re.compile(rf"([+-]?)({_UNIT}?)\s*([+-]?\d[\d.,'’ \u00a0\u202f]*?)\s*({_UNIT}?)")
_MINUS = "\u2212"  # as texts are typeset
_NEGATIVE = r"^\(([^()+-]+)\)$"  # as in accounting
_CODE = re.compile(r"0\d+|\d{20,}")  # digits that a number would lose
_GAPS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "<NA>", "#N/A")  # as pandas reads them
_MAGIC = {
    b"\x1f\x8b": "gzip (.csv.gz)",
    b"BZh": "bzip2 (.csv.bz2)",
    b"\xfd7zXZ": "xz (.csv.xz)",
    b"PAR1": "Parquet (.parquet)",
    b"ARROW1": "Feather (.feather)",
    b"PK\x03\x04": "ZIP, or a spreadsheet: save it as CSV",
}


def pandas_module() -> ModuleType:
    """Import pandas, or say how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("reading tables needs pandas: pip install 'bochner[cli]'.") from error
    return pandas


@dataclass(frozen=True)
class Layout:
    """How a text file looks: its first row, or None if that holds numbers, and what was assumed, in words.

    `skip` lines come before that row; `codes` are the places of columns whose digits are no numbers.
    """

    separator: str
    decimal: str
    encoding: str
    names: list[str] | None
    notes: tuple[str, ...]
    skip: int = 0
    codes: tuple[int, ...] = ()


@dataclass(frozen=True)
class TextFormat:
    """How tables are to be read; of text files, None is guessed from the beginning of the file.

    `texts` are columns to take as text, `gaps` the texts that stand for a gap. New rows for a model are read as those
    of training: `usual_decimal` decides where the file leaves it open, and no other columns are `codes`.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    texts: tuple[str, ...] = ()
    gaps: tuple[str, ...] | None = None
    usual_decimal: str | None = None
    codes: bool = True

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
                for name in self.texts:
                    check_column(name, names, "--text")
                if target is not None:
                    check_column(target, names)
        return self

    @property
    def _separator(self) -> str | None:
        return {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(
            self.separator or "", self.separator
        )

    def layout(self, path: Path, encoding: str | None = None) -> Layout:
        """Guess how a text file is written, from its beginning."""
        try:
            with _opened(path) as file:
                head = file.read(_HEAD)
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise DataError(f"{path} cannot be read: {error}") from None
        _refuse_binary(head, path)
        encoding = self.encoding or encoding or _encoding_of(head)
        text = codecs.getincrementaldecoder(encoding)(errors="replace").decode(head)
        if not text.strip():
            raise DataError(f"{path} is empty.")
        if len(head) == _HEAD:
            text = text[: text.rfind("\n") + 1] or text  # the last line may be cut
        said = re.match(r"\ufeff?sep=(.)\r?\n", text)  # as spreadsheets do
        separator = self._separator or (said and said[1]) or _separator_of(_without_comments(text), path)
        skip = 1 if said else _comments(text, separator)
        rows = _cells("".join(text.splitlines(keepends=True)[skip:]), separator)[:_ROWS]
        if not rows:
            raise DataError(f"{path} has no rows.")
        names = None if all(map(looks_numeric, rows[0])) else rows[0]
        values = rows[0 if names is None else 1 :]
        cells = [cell for row in values for cell in row]
        decimal = self.decimal or _decimal_of(cells, separator, self.usual_decimal)
        look = f"columns separated by {_name(separator)}, decimal {'comma' if decimal == ',' else 'point'}, {encoding}"
        notes = [f"{path.name}: {look}{', no header: columns are numbered from 0' if names is None else ''}"]
        if skip:
            notes.append(f"{counted(skip, 'line')} before the table left out: {text.splitlines()[0].strip()}")
        width = len(rows[0])
        if names is not None and len(rows) > 1 and len(rows[1]) > width:
            raise DataError(
                f"the first row of {path.name} has {width} names and the next {len(rows[1])} values (separated by "
                f"{_name(separator)}); give every column a name, or say --sep."
            )
        notes += _irregular(names or [], values, width)
        written = [word for word in _GAPS if word in set(cells)] if self.gaps is None else []
        if written:
            notes.append(f"{' and '.join(written)} read as gaps; --gap TEXT names what is one instead")
        of_columns = [[row[j] for row in values if len(row) > j and row[j]] for j in range(width)]
        codes = tuple(j for j, column in enumerate(of_columns) if self.codes and _is_code(column))
        return Layout(separator, str(decimal), encoding, names, tuple(notes), skip, codes)


def _irregular(names: Sequence[str], rows: Sequence[list[str]], width: int) -> list[str]:
    """Report rows with too few values, and columns of one name."""
    short, notes = [i + 1 for i, row in enumerate(rows) if len(row) < width], []
    if short:
        more = f" (and {len(short) - 1:,} more)" if len(short) > 1 else ""
        notes.append(f"row {short[0]}{more}: fewer values than the {width} columns; the others are gaps")
    counts = {name: count for name, count in Counter(names).items() if count > 1}
    later = [f"{count} columns are called {name!r}; the later ones are {name}.1, …" for name, count in counts.items()]
    return [*notes, *later]


def _refuse_binary(head: bytes, path: Path) -> None:
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if kind is not None:
        raise DataError(f"{path} is no text, whatever its name: it looks like {kind}.")
    if b"\0" in head and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(f"{path} is no text: it holds zero bytes.")


def _without_comments(text: str) -> str:
    return re.sub(r"\A(#.*\n)+", "", text) or text


def _comments(text: str, separator: str) -> int:
    """Count the lines with a # before the table; the last of them may be its header."""
    lines = text.splitlines()
    count = next((i for i, line in enumerate(lines) if not line.startswith("#")), 0)
    if count and len(_cells(lines[count - 1], separator)[0]) == len((_cells(lines[count], separator) or [[]])[0]) > 1:
        return count - 1
    return count


def _is_code(cells: Sequence[str]) -> bool:
    return bool(cells) and all(map(str.isdigit, cells)) and any(map(_CODE.fullmatch, cells))


def _opened(path: Path) -> BinaryIO:
    return cast("BinaryIO", _OPENERS.get(path.suffix.lower(), open)(path, "rb"))  # type: ignore[operator]


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
    """Return the separator by which the most rows have as many cells as the first one."""
    best, found = 0.0, "\t" if ".tsv" in path.suffixes else ","
    for separator in _SEPARATORS:
        widths = [len(row) for row in _cells(text, separator)[:_ROWS]]
        fitting = sum(width == widths[0] for width in widths) / len(widths)
        if widths[0] > 1 and fitting > best + (0.1 if separator == " " else 0.0):
            best, found = fitting, separator
    return found


def _decimal_of(cells: Sequence[str], separator: str, usual: str | None) -> str:
    """Return a comma if some number has a decimal comma and none a decimal point; `usual` if neither occurs."""
    cells = [_bare(cell) for cell in cells]
    commas = [cell for cell in cells if _COMMA.fullmatch(cell)]
    if any(_POINT.fullmatch(cell) for cell in cells if not re.fullmatch(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", cell)):
        return "."
    if all(_GROUPED.fullmatch(cell) for cell in commas):  # 1,234: where commas separate columns, they are English
        return usual or ("." if separator == "," or not commas else ",")
    return ","


def _bare(cell: str) -> str:
    """Strip the unit, such as % or $, from a number; other texts stay as they are."""
    found = _WITH_UNIT.fullmatch(re.sub(_NEGATIVE, r"-\1", cell.strip().replace(_MINUS, "-")))
    return found[1] + found[3] if found else cell


def looks_numeric(cell: str) -> bool:
    """Return True if a text is a number, with a decimal point or comma, or a gap."""
    try:
        float(_bare(cell).strip() or "nan")
    except ValueError:
        return bool(_COMMA.fullmatch(_bare(cell)) or _GROUPED.fullmatch(_bare(cell)))
    return True


# -- reading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Raw:
    """Content of a file: a frame of columns, or an array X and perhaps y.

    `line` is the line of the first row in a text file, and `layout` how that is written. `sampled` says that the file
    has more rows. `texts` are columns that stay text though they look like numbers.
    """

    name: str
    frame: DataFrame = None
    X: Array | spmatrix = None
    y: Array | None = None
    line: int | None = None
    sampled: bool = False
    texts: tuple[str, ...] = ()
    layout: Layout | None = None
    notes: tuple[str, ...] = ()


def kind_of(data: str) -> str | None:
    """Return the kind of a file by its suffix; None for the name of a dataset."""
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
    kind, path, text = kind_of(data), Path(data), text or TextFormat()
    if kind is None:
        return _read_dataset(data)
    try:
        if kind == "CSV":
            return _read_csv(path, text)
        if kind == "Parquet":
            from bochner.data.arrow import read_frame
            from bochner.draws.keys import Key

            frame, sampled = read_frame(path, max_rows=max_rows, key=Key(random_state))
            return Raw(path.name, frame=_as_texts(_named(frame), text.texts), sampled=sampled, texts=text.texts)
        if kind == "Feather":
            frame = _as_texts(_named(pandas_module().read_feather(path)), text.texts)
            return Raw(path.name, frame=frame, texts=text.texts)
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


def _named(frame: DataFrame) -> DataFrame:
    frame.columns = [str(name) for name in frame.columns]
    return frame


def _as_texts(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Turn columns into text; whole numbers have no decimal point."""
    for name in set(names) & set(frame.columns):
        values = frame[name]
        if values.dtype.kind == "f" and (values.dropna() % 1 == 0).all():
            values = values.astype("Int64")
        frame = frame.assign(**{name: values.astype(object).map(str, na_action="ignore")})
    return frame


def _read_csv(path: Path, text: TextFormat) -> Raw:
    pandas = pandas_module()
    layout = text.layout(path)
    for encoding in (layout.encoding, "cp1252", "latin-1"):
        try:
            layout = replace(layout, encoding=encoding)
            frame, texts = _parsed(path, layout, text.texts, text.gaps)
            break
        except pandas.errors.ParserError as error:
            longer = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", str(error))
            if longer:
                where = f"line {int(longer[2]) + layout.skip} has {longer[3]} values and the table {longer[1]} columns"
                raise DataError(f"{path}: {where} (separated by {_name(layout.separator)}); correct it.") from None
            raise DataError(f"{path} is not a table: {str(error).replace('C error: ', '').strip()}") from None
        except UnicodeDecodeError as error:
            if text.encoding is not None:
                raise DataError(f"{path} is not text in {text.encoding}: {error}") from None
            layout = text.layout(path, "cp1252")
    if not len(frame):
        raise DataError(f"{path} has a header and no rows.")
    frame, of_numbers = _with_numbers(frame, layout.decimal, texts)
    notes = layout.notes + of_numbers
    for name in (name for name in texts if name not in text.texts):
        code = next(cell for cell in frame[name].dropna() if _CODE.fullmatch(cell))
        notes += (f"column {name!r}: {code} is a code, whose digits a number would lose, so the column is text",)
    first = layout.skip + (1 if layout.names is None else 2)
    line = first if _lines(path) == len(frame) + first - 1 else None
    return Raw(path.name, frame, line=line, notes=notes, texts=texts, layout=layout)


def _parsed(
    path: Path, layout: Layout, texts: Sequence[str], gaps: Sequence[str] | None
) -> tuple[DataFrame, tuple[str, ...]]:
    """Parse a text file; return also which columns stay text as written: those asked for, and codes."""
    pandas = pandas_module()
    options: dict[str, object] = {
        "sep": layout.separator,
        "decimal": layout.decimal,
        "encoding": layout.encoding,
        "header": None if layout.names is None else 0,
        "skiprows": layout.skip,
        "skipinitialspace": True,
        "low_memory": False,
    }
    options |= {} if gaps is None else {"na_values": list(gaps), "keep_default_na": False}
    labels = list(pandas.read_csv(path, nrows=1, dtype=str, **options).columns)
    names = [str(label).strip() for label in labels]
    names = names if len(set(names)) == len(names) else [str(label) for label in labels]
    texts = [name for name in texts if name in names]
    codes = [name for j, name in enumerate(names) if j in layout.codes and name not in texts]
    kinds = {label: str for label, name in zip(labels, names, strict=True) if name in (*texts, *codes)}
    frame = pandas.read_csv(path, dtype=kinds, **options)
    frame.columns = names
    for name in names:
        if frame[name].dtype.kind not in "biufcM":
            frame[name] = frame[name].map(lambda cell: cell.strip() if isinstance(cell, str) else cell)
    return frame, (*texts, *codes)


def _lines(path: Path) -> int:
    """Count the lines of a file."""
    count, last = 0, b"\n"
    with _opened(path) as file:
        while block := file.read(1 << 20):
            count, last = count + block.count(b"\n"), block[-1:]
    return count + (last != b"\n")


def written(path: Path, layout: Layout, names: Sequence[str]) -> DataFrame:
    """Read columns of a text file as they are written."""
    return _parsed(path, layout, names, ())[0][list(names)]


def _with_numbers(frame: DataFrame, decimal: str, texts: Sequence[str]) -> tuple[DataFrame, tuple[str, ...]]:
    """Turn columns into numbers if all texts are numbers with separated thousands, or with one unit."""
    found, notes = {}, []
    for name in frame.columns:
        values = frame[name]
        if name in texts or values.dtype.kind in "biufcM" or not len(cells := values.dropna().astype(str)):
            continue
        parts = (
            cells.str.replace(_MINUS, "-")
            .str.replace(_NEGATIVE, r"-\1", regex=True)
            .str.extract(f"^{_WITH_UNIT.pattern}$")
        )
        if parts[2].isna().any() or len(set(parts[1] + parts[3])) > 1:
            continue  # a text, or several units
        bare = parts[0] + parts[2]
        for mark in _THOUSANDS[decimal]:
            number = rf"[+-]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d+)?"
            plain = rf"[+-]?\d+(?:{re.escape(decimal)}\d+)?"
            changed = cells[bare.str.fullmatch(number) | (bare != cells)]
            if len(changed) and bare.str.fullmatch(f"{number}|{plain}").all():
                numbers = bare.str.replace(mark, "", regex=False).str.replace(decimal, ".", regex=False).astype(float)
                found[name] = numbers.reindex(values.index)
                notes.append(f"column {name!r}: {changed.iloc[0]} is read as {numbers[changed.index[0]]:.12g}")
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
            X = scipy.sparse.csr_matrix(parts, shape=tuple(found["shape"]))
        elif "X" in names or len(names) == 1:
            X = found["X" if "X" in names else names[0]]
        else:
            raise DataError(f"{path} should hold an array named 'X' (and 'y'); it holds {', '.join(map(repr, names))}.")
        return Raw(path.name, X=X, y=found["y"] if "y" in names else None)


# -- writing -------------------------------------------------------------------------------------------------------


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuse outputs that could not be written, or that are among the inputs; links are followed."""
    read = [file for path in inputs for file in (path, *path.rglob("*.parquet")) if file.exists()]
    for path in outputs:
        if path.is_dir():
            raise DataError(f"{str(path)!r} is a folder; name a file in it.")
        folder = (followed(path) if path.is_symlink() else path).parent
        if not folder.is_dir():
            raise DataError(f"there is no folder {str(folder)!r} to write {path.name} into.")
        if path.exists() and any(path.samefile(file) for file in read):
            raise DataError(f"{path} is an input, and writing the output there would destroy it; name another file.")


def write_table(frame: DataFrame, path: Path) -> None:
    """Write a frame by the suffix of the path: CSV, Parquet, Feather, NPY or NPZ."""
    import numpy as np

    kind = table_kind(path)
    with replacing(path) as file:
        if kind == "CSV":
            frame.to_csv(file, mode="wb", index=False, sep="\t" if path.suffix == ".tsv" else ",")
        elif kind == "Parquet":
            from bochner.data.arrow import write_frame

            write_frame(frame, file)
        elif kind == "Feather":
            frame.to_feather(file)
        elif kind == "NPZ":
            np.savez(file, **{name: np.asarray(frame[name].tolist()) for name in frame.columns})  # type: ignore[arg-type]
        else:
            only = frame.shape[1] == 1
            np.save(file, np.asarray(frame.iloc[:, 0].tolist()) if only else frame.to_numpy())


def columns_file(model: Path) -> Path:
    """Return the file that describes the columns of a model: beside the model, or else beside what a link leads to."""
    beside, behind = (file.with_name(f"{file.name}.columns.json") for file in (model, followed(model)))
    return beside if beside.exists() else behind


def table_kind(path: Path) -> str:
    """Return the kind of table to write by the suffix; a pipe or a device without one is written CSV."""
    written_into = path.exists() and not path.is_file()
    kind = SUFFIXES.get(path.suffix.lower(), "CSV" if written_into else None)
    if kind is None:
        raise DataError(f"{path}: a table is written to {', '.join(SUFFIXES)}; choose one of these suffixes.")
    return kind
