"""Columns of tables as numbers: categories, texts of few values, booleans, dates and missing values (gaps)."""

from __future__ import annotations

import datetime
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bochner.backends import Array, n_threads
from bochner.backends.threads import each
from bochner.data.frames import is_frame
from bochner.tuning.policies import ColumnPolicy

POLICY = ColumnPolicy()
_DAY = 86_400.0
_FLAGS = {"0": "False", "1": "True"}
_PARTS = ("time", "month", "weekday", "hour")


def raw_columns(X: Any) -> list[tuple[str, Array]]:
    """Return the columns of a table: ("number", floats), ("category", texts or None) or ("date", seconds)."""
    if is_frame(X):
        names = list(getattr(X, "column_names", None) or X.columns)
        return [_raw(_values(X, name, i), name) for i, name in enumerate(names)]
    return [_raw(X[:, j], j) for j in range(X.shape[1])]


def comparable(raw: list[tuple[str, Array]]) -> Array:
    """Return the columns of `raw_columns` as numbers (n, d) that are equal for equal values, and for two gaps.

    Without a column of numbers or dates there are no columns (n, 0): rows of categories alone are equal by nature.
    """
    n = len(raw[0][1])
    if all(kind == "category" for kind, _ in raw):
        return np.empty((n, 0))
    A = np.empty((n, len(raw)), order="F")
    for j, (kind, values) in enumerate(raw):
        if kind == "category":
            codes: dict[Any, int] = {}
            A[:, j] = [codes.setdefault(value, len(codes)) for value in values.tolist()]
        else:
            A[:, j] = np.where(np.isnan(values), np.nan, values)
    return A


def _values(X: Any, name: Any, index: int) -> Array:
    """Return one column of a frame as an array; gaps are NaN, NaT or None."""
    if hasattr(X, "iloc"):
        column = X.iloc[:, index]
        kind = getattr(column.dtype, "kind", "O")
        if type(column.dtype).__name__ == "CategoricalDtype":  # also if the categories are numbers
            return _texts(column.astype(object).to_numpy())
        if type(column.dtype).__name__ == "ArrowDtype":
            return _arrow_values(column.array.__arrow_array__())
        if kind in "iufb" and not isinstance(column.dtype, np.dtype):  # may have gaps
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
        if kind == "M":
            return np.asarray(column.dt.tz_convert(None) if getattr(column.dt, "tz", None) else column)
        return np.asarray(column)
    column = X[name]
    if hasattr(column, "to_pylist"):
        return _arrow_values(column)
    plain = str(column.dtype)
    if plain.startswith(("Categorical", "Enum", "String", "Boolean", "Decimal", "Null", "Object")):
        return np.array(column.to_list(), dtype=object)
    return np.asarray(column.to_numpy())


def _arrow_values(column: Any) -> Array:
    plain = str(column.type)
    if plain.startswith("dictionary"):
        return _texts(np.array(column.to_pylist(), dtype=object))
    if plain.startswith(("string", "large_string", "bool", "decimal", "null")):
        return np.array(column.to_pylist(), dtype=object)
    return np.asarray(column.to_numpy())


def _raw(values: Array, name: Any) -> tuple[str, Array]:
    kind = values.dtype.kind
    if kind in "biuf":
        with np.errstate(over="ignore"):
            return "number", np.asarray(values, np.float64)
    if kind == "M":
        return "date", _seconds(values)
    if kind == "m":
        return "number", _seconds(values)
    if kind in "US":
        return "category", np.array([_text(value) for value in values.tolist()], dtype=object)
    if kind != "O":
        raise ValueError(f"Complex data not supported: column {name!r} is of type {values.dtype}.")
    gaps = find_gaps(values)
    present = values[~gaps]
    if all(isinstance(value, (numbers.Real, np.bool_)) or _is_decimal(value) for value in present):
        out = np.full(len(values), np.nan)
        try:
            out[~gaps] = present.astype(np.float64)
        except OverflowError:
            raise ValueError(f"column {name!r} holds integers that are too large for float64.") from None
        return "number", out
    if all(isinstance(value, (datetime.date, np.datetime64)) for value in present):
        out = np.full(len(values), np.nan)
        out[~gaps] = _seconds(np.array([np.datetime64(_in_utc(value)) for value in present]))
        return "date", out
    if all(isinstance(value, (datetime.time, datetime.timedelta)) for value in present):
        out = np.full(len(values), np.nan)
        out[~gaps] = [_day_seconds(value) for value in present]
        return "number", out
    for value in present:
        if not isinstance(value, (str, bytes, numbers.Real, np.bool_)):
            raise TypeError(
                f"column {name!r} holds a {type(value).__name__}; an entry of a table must be a string or a number, a "
                "date or a gap. Convert it, or leave it out."
            )
    return "category", _texts(values)


def find_gaps(values: Array) -> Array:
    """Return where objects are None, NaN, NaT or NA."""
    return np.array([_is_gap(value) for value in values], dtype=bool)


def _texts(values: Array) -> Array:
    """Objects as texts; gaps as None."""
    gaps, out = find_gaps(values), np.full(len(values), None, dtype=object)
    out[~gaps] = [_text(value) for value in values[~gaps]]
    return out


def _in_utc(value: Any) -> Any:
    """Return a date without its time zone: a moment is the same number in every zone and every kind of frame."""
    aware = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return value.astimezone(datetime.UTC).replace(tzinfo=None) if aware else value


def _day_seconds(value: Any) -> float:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    return value.hour * 3600.0 + value.minute * 60.0 + value.second + value.microsecond / 1e6


def _is_plain(value: Any) -> bool:
    return isinstance(value, (str, bytes, numbers.Number, np.generic))


def _is_gap(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return bool(value != value) if _is_plain(value) else False


def _is_decimal(value: Any) -> bool:
    return type(value).__name__ == "Decimal"


def _text(value: Any) -> str:
    """Return the text of a level; 3 and 3.0 are the same level."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value)


def _number(text: str) -> float:
    """Return the value of a text that is a finite number; NaN for any other."""
    try:
        value = float(text)
    except ValueError:
        return np.nan
    return value if np.isfinite(value) else np.nan


def _seconds(values: Array) -> Array:
    """Dates as seconds since 1970, times as seconds; gaps as NaN."""
    unit = "datetime64" if values.dtype.kind == "M" else "timedelta64"
    whole = values.astype(f"{unit}[us]").astype(np.int64).astype(np.float64) / 1e6
    return np.where(np.isnat(values), np.nan, whole)


@dataclass(frozen=True)
class Column:
    """How one column becomes numbers.

    Attributes
    ----------
    name : str or int
    kind : {"number", "category", "date"}
    plan : {"number", "parts", "indicators", "target", "left out"}
        The number itself; parts of a date; a column for each level; mean targets of each level; or no column at all.
    why : str
        The reason for the plan, for the report.
    levels : ndarray of objects
        Texts that are the levels of a category; a gap is a level if the rows of `fit` have gaps.
    encodings : ndarray of shape (n_levels + 1, n_targets)
        Means of the targets, the last one that of all rows, for levels not seen in `fit`.
    fills : ndarray
        Medians, which replace gaps.
    gaps : bool
        Whether rows of `fit` have gaps, so that an additional column indicates them.
    parts : tuple of str
        The parts of a date that vary.
    """

    name: Any
    kind: str
    plan: str
    why: str
    levels: Array = field(default_factory=lambda: np.empty(0, dtype=object))
    encodings: Array = field(default_factory=lambda: np.empty((0, 0)))
    fills: Array = field(default_factory=lambda: np.empty(0))
    gaps: bool = False
    parts: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """Number of columns made."""
        made = {
            "number": 1,
            "parts": len(self.parts),
            "indicators": len(self.levels),
            "target": self.encodings.shape[1],
            "left out": 0,
        }[self.plan]
        return made + (self.gaps and self.plan in ("number", "parts"))

    def encode(self, kind: str, values: Array) -> Array:
        """Return the numbers of new values, (n, width)."""
        if self.plan == "left out":
            return np.empty((len(values), 0))
        if self.kind == "category":
            values = values if kind == "category" else self._as_texts(kind, values)
            codes = self.codes(values)
            if self.plan == "indicators":
                return (codes[:, None] == np.arange(len(self.levels))).astype(np.float64)
            return np.asarray(self.encodings[codes])
        if kind != self.kind and not (kind == "number" and np.isnan(values).all()):
            raise self._changed(kind)
        check_finite(self.name, values)
        gaps = np.isnan(values)
        parts = [values] if self.plan == "number" else [_part(part, values) for part in self.parts]
        filled = [np.where(gaps, fill, part) for part, fill in zip(parts, self.fills, strict=True)]
        return np.column_stack([*filled, gaps.astype(np.float64)] if self.gaps else filled)

    def _changed(self, kind: str) -> ValueError:
        return ValueError(f"column {self.name!r} held a {self.kind} in `fit` and holds a {kind} now; convert it back.")

    def _as_texts(self, kind: str, values: Array) -> Array:
        """Levels of numbers, where `fit` had texts: that of the same text, or else the one of the same value.

        One and zero are also True and False, if those are levels. Numbers are an error if no level is a number, or
        several have the value.
        """
        gaps = np.isnan(values)
        known = {level: level for level in self.levels.tolist()}
        if not known.keys() & {"0", "1"}:
            known |= {text: name for text, name in _FLAGS.items() if name in known}
        same: dict[float, list[str]] = {}
        for text, level in known.items():
            same.setdefault(_number(text), []).append(level)
        if kind == "date" or not (gaps.all() or any(value == value for value in same)):
            raise self._changed(kind)
        texts = np.full(len(values), None, dtype=object)
        for i in np.flatnonzero(~gaps):
            text = _text(values[i])
            levels = [known[text]] if text in known else same.get(values[i], [text])
            if len(levels) > 1:
                raise self._changed(kind)
            texts[i] = levels[0]
        return texts

    def codes(self, values: Array) -> Array:
        """Return the index of each value among the levels; len(levels) for a value that is not among them."""
        place = {level: i for i, level in enumerate(self.levels.tolist())}
        return np.array([place.get(_GAP if value is None else value, len(place)) for value in values], dtype=np.intp)


def check_finite(name: Any, values: Array) -> None:
    """Refuse infinite and nearly infinite numbers; gaps are allowed."""
    largest = float(np.nanmax(np.abs(values), initial=0.0))
    if largest > POLICY.largest:
        what = "infinity" if np.isinf(largest) else f"{largest:.3g}, next to infinity,"
        raise ValueError(f"Input X contains {what} in column {name!r}; replace it by a number or a gap (NaN).")


_GAP = "\0gap"  # the level of a gap; no text in a table is equal to it


def _part(name: str, seconds: Array) -> Array:
    """Return a part of dates, as a number."""
    if name == "time":
        return seconds
    days = np.floor(seconds / _DAY)
    if name == "hour":
        return np.asarray((seconds - days * _DAY) / 3600.0)
    whole = np.where(np.isnan(days), 0.0, days).astype(np.int64)
    if name == "weekday":
        return ((whole + 3) % 7).astype(np.float64)
    dates = whole.astype("datetime64[D]")
    return (dates.astype("datetime64[M]").astype(np.int64) % 12).astype(np.float64)


def plan_column(name: Any, kind: str, values: Array, Y: Array, weight: Array, seed: int) -> tuple[Column, Array]:
    """Decide how a column becomes numbers, and return those of these rows; a row of weight two counts as two rows.

    If the numbers are mean targets, those of each row are computed from other rows, so that its own target is not used.
    """
    n = len(values)
    if kind == "category":
        return _plan_category(name, values, Y, weight, seed)
    check_finite(name, values)
    gaps = np.isnan(values)
    if gaps.all():
        return Column(name, kind, "left out", "left out: every value is missing"), np.empty((n, 0))
    parts = {"number": values}
    if kind == "date":
        parts = {part: _part(part, values) for part in _PARTS}
        parts = {part: v for part, v in parts.items() if np.ptp(v[~gaps]) > 0}
    if not gaps.any() and not any(np.ptp(v) > 0 for v in parts.values()):
        return Column(name, kind, "left out", "left out: every value is the same"), np.empty((n, 0))
    why = "a number" if kind == "number" else f"a date: {', '.join(parts)}"
    if gaps.any():
        why += f"; {gaps.mean():.1%} missing, filled with the median, and a column says where"
    column = Column(
        name,
        kind,
        "number" if kind == "number" else "parts",
        why,
        fills=np.array([_median(v[~gaps], weight[~gaps]) for v in parts.values()]),
        gaps=bool(gaps.any()),
        parts=() if kind == "number" else tuple(parts),
    )
    return column, column.encode(kind, values)


def plan_columns(
    names: Sequence[Any], raw: Sequence[tuple[str, Array]], Y: Array, weight: Array, seed: int
) -> tuple[tuple[Column, ...], Array]:
    """Plan all columns of a table, and return their numbers (n, d) for these rows."""
    planned: list[Any] = [None] * len(raw)

    def plan(j: int) -> None:
        planned[j] = plan_column(names[j], *raw[j], Y, weight, seed)

    each(plan, range(len(raw)), n_threads())
    return tuple(column for column, _ in planned), _stacked(len(Y), [numbers for _, numbers in planned])


def encode_columns(columns: Sequence[Column], raw: Sequence[tuple[str, Array]]) -> Array:
    """Return the numbers (n, d) of new rows."""
    parts = [column.encode(*values) for column, values in zip(columns, raw, strict=True)]
    return _stacked(len(raw[0][1]), parts)


def _stacked(n: int, parts: Sequence[Array]) -> Array:
    return np.column_stack([np.empty((n, 0)), *parts])


def _median(values: Array, weight: Array) -> float:
    """Return the value with half of the weight on either side."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    at, after = np.searchsorted(below, below[-1] / 2.0 * np.array([1.0 - 1e-12, 1.0 + 1e-12]))
    return float(values[order[at]] / 2.0 + values[order[min(after, len(order) - 1)]] / 2.0)


def _plan_category(name: Any, values: Array, Y: Array, weight: Array, seed: int) -> tuple[Column, Array]:
    n = len(values)
    texts = [_GAP if value is None else value for value in values]
    levels = np.array(sorted(set(texts)), dtype=object)  # not "U", where every text takes the memory of the longest
    place = {level: i for i, level in enumerate(levels)}
    codes = np.array([place[text] for text in texts], dtype=np.intp)
    if len(levels) == 1:
        why = "left out: every value is missing" if levels[0] == _GAP else "left out: every value is the same"
        return Column(name, "category", "left out", why), np.empty((n, 0))
    singles = np.count_nonzero(np.bincount(codes) == 1)
    if len(levels) > max(POLICY.identifier_levels, n // 2) or (len(levels) > POLICY.few_levels and 2 * singles > n):
        why = f"left out: {len(levels)} different texts in {n} rows, an identifier"
        return Column(name, "category", "left out", why), np.empty((n, 0))
    if len(levels) <= POLICY.few_levels:
        column = Column(name, "category", "indicators", f"{len(levels)} levels, a column each", levels=levels)
        return column, column.encode("category", values)
    folds = np.random.default_rng(seed).permutation(n) % POLICY.folds
    made = np.empty(Y.shape)
    for fold in range(POLICY.folds):
        rows = folds == fold
        made[rows] = _level_means(codes[~rows], Y[~rows], weight[~rows], len(levels))[codes[rows]]
    why = f"{len(levels)} levels, the mean target of each"
    encodings = _level_means(codes, Y, weight, len(levels))
    return Column(name, "category", "target", why, levels=levels, encodings=encodings), made


def _level_means(codes: Array, Y: Array, weight: Array, n_levels: int) -> Array:
    """Mean targets of every level, and of all rows, (n_levels + 1, k); rare levels are shrunk to the mean of all rows.

    Each level is given additional rows with the overall mean; their number is the ratio of the variance within levels
    to that of the levels' means (empirical Bayes), or the most there are where too few levels repeat to estimate it.
    """
    counts, total = np.bincount(codes, weight, minlength=n_levels)[:, None], float(weight.sum())
    sums = np.column_stack([np.bincount(codes, weight * y, minlength=n_levels) for y in Y.T])
    means, centre = sums / np.where(counts > 0, counts, 1.0), sums.sum(axis=0) / total
    within = weight @ np.square(Y - means[codes]) / max(1.0, total - np.count_nonzero(counts))
    between = np.maximum((counts * np.square(means - centre)).sum(axis=0) / total - within * n_levels / total, 0.0)
    known = (between > 0) & (len(codes) - np.count_nonzero(counts) >= POLICY.least_repeats)
    extra = np.clip(np.divide(within, between, out=np.full(len(centre), np.inf), where=known), 0.0, POLICY.most_extra)
    means = (sums + extra * centre) / np.maximum(counts + extra, 1e-300)
    return np.vstack([np.where(counts + extra > 0, means, centre), centre])
