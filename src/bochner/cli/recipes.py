"""A recipe turns the columns of a table into numbers, and is kept beside a model so that new rows go the same way."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array

ENCODINGS = ("one-hot", "ordinal")
_MANY_CATEGORIES = 256  # of more, one column each is no use


class DataError(ValueError):
    """Something about the user's data or options that they can mend; the message says how."""


def pandas_module() -> Any:
    """The pandas package."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("reading tables needs pandas: pip install 'bochner[cli]'.") from error
    return pandas


def nearest(name: str, names: Sequence[str], what: str = "column") -> str:
    """A sentence that lists the names most like a missing one."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    lower = {other.lower(): other for other in names}
    if name.lower() in lower and lower[name.lower()] not in close:
        close.insert(0, lower[name.lower()])
    if close:
        return f"did you mean {' or '.join(repr(other) for other in close)}?"
    listed = ", ".join(map(repr, names[:12]))
    return f"the {what}s are {listed}{f' and {len(names) - 12} more' if len(names) > 12 else ''}."


@dataclass(frozen=True)
class Recipe:
    """How columns become features: which, how text is encoded, and what is subtracted and divided by."""

    columns: tuple[str, ...]
    target: str | None = None
    encode: str | None = None
    categories: dict[str, list[str]] | None = None
    mean: tuple[float, ...] | None = None
    scale: tuple[float, ...] | None = None

    @classmethod
    def of(cls, frame: Any, target: str | None, encode: str | None) -> Recipe:
        """The recipe for a frame, without scaling."""
        names = [name for name in frame.columns if name != target]
        if not names:
            raise DataError("there is no column besides the target.")
        categories: dict[str, list[str]] = {}
        for name in names:
            if not is_numeric(frame[name]):
                categories[name] = _categories(frame[name], name, encode)
        return cls(tuple(names), target, encode, categories)

    def scaled(self, X: Any) -> Recipe:
        """The same with the means and standard deviations of X; constant columns are left as they are."""
        # squares of very large or small numbers would overflow or vanish; a power of two rounds nothing
        largest = abs(X).max(axis=0)
        largest = np.ravel(largest.toarray() if scipy.sparse.issparse(largest) else largest).astype(np.float64)
        units = 2.0 ** np.clip(np.frexp(largest)[1], -1000, 1000)
        if scipy.sparse.issparse(X):  # divided only, so that zeros stay zeros
            mean = np.zeros(X.shape[1])
            S = X @ scipy.sparse.diags(1.0 / units)
            centre, second = (np.asarray(A.mean(axis=0)).ravel() for A in (S, S.multiply(S)))
            scale = units * np.sqrt(np.maximum(second - centre**2, 0.0))
            varies = scale > 1e-12 * units * np.abs(centre)
        else:
            S = X / units
            mean, scale = units * S.mean(axis=0, dtype=np.float64), units * S.std(axis=0, dtype=np.float64)
            varies = scale > 1e-12 * np.abs(mean)
        scale = np.where(varies, scale, 1.0)
        return replace(self, mean=tuple(map(float, mean)), scale=tuple(map(float, scale)))

    def scale_rows(self, X: Any) -> Any:
        """Rows with the means subtracted and divided by the standard deviations, in their own float type."""
        if self.scale is None:
            return X
        dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
        if scipy.sparse.issparse(X):
            return (X @ scipy.sparse.diags(1.0 / np.asarray(self.scale))).astype(dtype).tocsr()
        return ((X - np.asarray(self.mean)) / np.asarray(self.scale)).astype(dtype)

    def __call__(self, frame: Any, line: int | None = None) -> Array:
        """Features (n, d), float64, of a frame that has the columns."""
        missing = [name for name in self.columns if name not in frame.columns]
        if missing:
            raise DataError(f"there is no column {missing[0]!r}; {nearest(missing[0], list(frame.columns))}")
        parts = [self._column(frame[name], name, line) for name in self.columns]
        return np.asarray(self.scale_rows(np.column_stack(parts)))

    def _column(self, values: Any, name: str, line: int | None) -> Array:
        categories = (self.categories or {}).get(name)
        if categories is None:
            return _numbers(values, name, line)[:, None]
        missing = np.flatnonzero(values.isna().to_numpy())
        if missing.size:
            raise DataError(f"column {name!r} is empty in {place(int(missing[0]), line)}; fill it or --drop-missing.")
        text = values.astype(str).to_numpy(dtype=str)
        table = np.asarray(categories)
        codes = np.minimum(np.searchsorted(table, text), len(table) - 1)
        known = table[codes] == text
        if self.encode == "one-hot":  # a value never seen is none of the known ones
            return ((codes[:, None] == np.arange(len(table))) & known[:, None]).astype(np.float64)
        if not known.all():
            row = int(np.flatnonzero(~known)[0])
            raise DataError(
                f"column {name!r} has {str(text[row])!r} in {place(row, line)}, which was not there in training."
            )
        return codes.astype(np.float64)[:, None]

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps({"format": 1, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> Recipe:
        """Read what `save` wrote."""
        try:
            found = json.loads(path.read_text())
            if found.pop("format") != 1:
                raise DataError(f"{path} was written by a later version of bochner; update bochner.")
            lists = {name: tuple(found[name]) for name in ("columns", "mean", "scale") if found[name] is not None}
            return cls(**{**found, **lists})
        except (json.JSONDecodeError, KeyError, TypeError, UnicodeDecodeError) as error:
            raise DataError(f"{path} is not a recipe of columns: {error!r}") from None


def is_numeric(values: Any) -> bool:
    """Whether a column holds numbers; dates are refused."""
    types = pandas_module().api.types
    if types.is_numeric_dtype(values.dtype):
        return True
    if types.is_datetime64_any_dtype(values.dtype):
        raise DataError(f"column {values.name!r} holds dates; turn them into numbers, or leave them out with --drop.")
    return False


def place(row: int, line: int | None) -> str:
    """Where a row is, counted from one, and on which line of the file."""
    return f"row {row + 1}" + ("" if line is None else f" (line {row + line})")


def _numbers(values: Any, name: str, line: int | None) -> Array:
    pandas = pandas_module()
    numbers = pandas.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        row = int(bad[0])
        value = values.iloc[row]
        what = "is empty" if pandas.isna(value) else f"has {str(value)!r}"
        more = f" (and {bad.size - 1:,} more)" if bad.size > 1 else ""
        raise DataError(f"column {name!r} {what} in {place(row, line)}{more}; mend it or --drop-missing.")
    return numbers


def _categories(values: Any, name: str, encode: str | None) -> list[str]:
    pandas = pandas_module()
    present = values.dropna()
    numbers = pandas.to_numeric(present, errors="coerce")
    if len(present) and numbers.notna().mean() > 0.5:  # numbers with something else among them
        row = int(np.flatnonzero(pandas.to_numeric(values, errors="coerce").isna() & values.notna())[0])
        raise DataError(
            f"column {name!r} should be numbers, but row {row + 1} has {values.iloc[row]!r}; mend the file, "
            f"--drop-missing, or leave the column out with --drop {name}."
        )
    distinct = sorted(set(present.astype(str)))
    if encode is None:
        shown = ", ".join(map(repr, distinct[:3]))
        raise DataError(
            f"column {name!r} is text ({len(distinct)} distinct: {shown}{', …' if len(distinct) > 3 else ''}). "
            f"Add --encode one-hot (a column for each) or --encode ordinal (numbers 0, 1, …), or --drop {name}."
        )
    if encode == "one-hot" and len(distinct) > _MANY_CATEGORIES:
        raise DataError(
            f"column {name!r} has {len(distinct):,} distinct values, too many for --encode one-hot: use --encode "
            f"ordinal, or --drop {name}."
        )
    return distinct
