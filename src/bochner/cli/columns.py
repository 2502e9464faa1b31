"""Columns of a frame as they were read: dates among texts, texts among numbers, gaps, and what is worth a note."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np

from bochner.cli.errors import DataError
from bochner.cli.files import looks_numeric, pandas_module
from bochner.cli.screen import listed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from bochner.cli.tables import Recipe

_SAMPLE = 1000  # texts used to decide whether a column holds dates
_FEWEST_NUMBERED = 20  # smallest number of rows for which a column of consecutive integers is taken for row numbers
_OUTSIZED = 1e9  # numbers that exceed the median size by this factor are reported
# formats of dates besides ISO 8601, with or without a time
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
         "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("%H:%M", "%H:%M:%S")
_DATES = (*(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")), *_TIMES)
_MOMENT = datetime(2024, 12, 31, 12, 30)  # the example of how dates are written


def is_text(values: Series) -> bool:
    """Return True if a column holds texts."""
    present = values.dropna()
    return values.dtype.kind not in "biufcmM" and bool(len(present)) and isinstance(present.iloc[0], str)


def notes_on(frame: DataFrame) -> list[str]:
    """Return a sentence about the columns with gaps, and one for each column that numbers the rows."""
    notes, gaps = [], frame.isna().sum()
    if gaps.any():
        notes.append(f"gaps: {listed([f'{name} {count:,}' for name, count in gaps[gaps > 0].items()])}")
    for name in frame.columns:
        values = frame[name]
        counts_rows = values.dtype.kind in "iu" and values.diff().iloc[1:].abs().eq(1).all()
        if len(values) >= _FEWEST_NUMBERED and counts_rows:
            notes.append(f"column {name!r} numbers the rows: --drop {shlex.quote(name)}?")
    return notes


def with_dates(
    frame: DataFrame, recipe: Recipe | None = None, texts: Sequence[str] = ()
) -> tuple[DataFrame, dict[str, str], tuple[str, ...]]:
    """Convert columns of texts that are all dates; return also how each is written, and notes on what was assumed.

    Text among numbers or dates is refused, except in `texts`. The recipe of a model knows how its dates were written;
    dates that are written otherwise are read with a note.
    """
    known = None if recipe is None else recipe.dates or {}
    found, formats, notes = {}, {}, []
    for name in frame.columns:
        values = frame[name]
        if name in texts or not is_text(values):
            continue
        refuse_mixed(values, name, recipe)
        written = _dates_of(values, (known or {}).get(name)) if known is None or name in known else {}
        if not written or (known and len(written) > 1):
            _refuse_mixed_dates(values, name, known)
        if len(written) > 1:
            ways, first = " or ".join(written), values.dropna().iloc[0]
            notes.append(f"column {name!r}: {first} may be {ways}, so the column stays text; write 2024-12-31")
        for form, dates in written.items() if len(written) == 1 else ():
            found[name], formats[name] = dates, form
            first = values.dropna().index[0]
            if form in _TIMES:
                found[name] = (dates - dates.dt.normalize()).dt.total_seconds() / 3600.0
                note = f"column {name!r}: times, {values[first]} is read as {found[name][first]:.6g} hours"
            else:
                read_as = f"{dates[first]:%Y-%m-%d}"
                same = str(values[first]).startswith(read_as)
                note = f"column {name!r}: dates, {'such as' if same else f'{values[first]} is read as'} {read_as}"
                note += "; years of two digits are 1969 to 2068" if "%y" in form else ""
            trained = form if known is None else known[name]
            note += "" if trained == form else f"; in training dates were written as {_example(trained)}"
            notes += [note] if known is None or trained != form else []
    return frame.assign(**found), formats, tuple(notes)


def _example(form: str) -> str:
    """Write a date or a time of day in a format, as an example."""
    return _MOMENT.strftime("%Y-%m-%d" if form == "ISO8601" else form)


def _dates_of(values: Series, known: str | None) -> dict[str, Series]:
    """Return the dates of a column of texts for each format that fits; the known format or ISO 8601 goes first."""
    found = {}
    for form in dict.fromkeys((known or "ISO8601", "ISO8601", *_DATES)):
        try:
            # in UTC, so that the offsets of summer and winter may differ
            dates = pandas_module().to_datetime(values, format=form, utc=True).dt.tz_localize(None)
        except (ValueError, TypeError):
            continue
        if form in (known, "ISO8601"):
            return {form: dates}
        if form.replace("%B", "%b") not in found:  # May is both a name and its short form
            found[form] = dates
    return found


def _refuse_mixed_dates(values: Series, name: str, known: dict[str, str] | None) -> None:
    """Refuse texts most of which are dates, and texts that are no dates if the model was trained on dates."""
    present = values.dropna()
    forms = ("ISO8601", *_DATES) if known is None else (known[name],) if name in known else ()
    for form in forms:
        sample = pandas_module().to_datetime(present[:_SAMPLE], format=form, errors="coerce", utc=True)
        if known is None and sample.notna().mean() <= 0.5:
            continue
        dates = pandas_module().to_datetime(present, format=form, errors="coerce", utc=True)
        other = present[dates.isna()]
        said = "" if known is None else f", written as {_example(form)} in training"
        gap, column = f"--gap {shlex.quote(str(other.iloc[0]))}", shlex.quote(name)
        ways = f"what it is: {gap} (a gap), --text {column} (the column is text) or --drop {column}"
        ways = ways if known is None else f"{gap} if it is a gap"
        kind = "times of day" if form in _TIMES else "dates"
        raise DataError(
            f"column {name!r} should be {kind}{said}, but row {values.index.get_loc(other.index[0]) + 1} has "
            f"{other.iloc[0]!r}; correct the file, or say {ways}."
        )


def refuse_mixed(values: Series, name: str, recipe: Recipe | None = None) -> None:
    """Refuse texts most of which are numbers, by rows or by different texts.

    With a recipe, also refuse texts in a column that held numbers in training.
    """
    texts = values.dropna().astype(str)
    numeric = texts.map(looks_numeric).astype(bool)
    if recipe is not None and name in (recipe.ranges or {}) and not numeric.all():
        row = int(np.flatnonzero(values.notna())[np.flatnonzero(~numeric)[0]])
        raise DataError(
            f"column {name!r} held numbers in training, but row {row + 1} has {values.iloc[row]!r}; correct the file, "
            f"or say --gap {shlex.quote(str(values.iloc[row]))} if it is a gap."
        )
    if not len(texts) or max(numeric.mean(), numeric[~texts.duplicated()].mean()) <= 0.5:
        return
    if numeric.all():
        raise DataError(
            f"column {name!r} is text that looks like numbers ({texts.iloc[0]!r}); say which decimal sign the file has "
            f"with --decimal , or --decimal ., or what the column is: --text {shlex.quote(name)} or --drop "
            f"{shlex.quote(name)}."
        )
    row = int(np.flatnonzero(values.notna())[np.flatnonzero(~numeric)[0]])
    raise DataError(
        f"column {name!r} should be numbers, but row {row + 1} has {values.iloc[row]!r}; correct the file, or say what "
        f"it is: --gap {shlex.quote(str(values.iloc[row]))} (a gap), --text {shlex.quote(name)} (the column is text) "
        f"or --drop {shlex.quote(name)}."
    )


def extremes(frame: DataFrame) -> list[str]:
    """Return a sentence for each column with a number much larger than is usual there."""
    notes = []
    for name in frame.columns:
        if frame[name].dtype.kind in "iuf":
            sizes = np.abs(frame[name].to_numpy(dtype=np.float64))
            usual = np.median(sizes[sizes > 0]) if (sizes > 0).any() else np.inf
            if np.nanmax(sizes, initial=0.0) > _OUTSIZED * usual:
                row = int(np.nanargmax(sizes))
                notes.append(
                    f"column {name!r} has {frame[name].iloc[row]:g} in row {row + 1}, usually some {usual:.3g}"
                )
    return notes
