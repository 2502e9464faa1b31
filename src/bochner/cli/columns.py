"""Tables for models that take columns as they are, but for dates, which text files hold as text."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.cli.errors import DataError, check_column
from bochner.cli.files import Raw, TextFormat, pandas_module, read
from bochner.cli.screen import counted
from bochner.cli.tables import (
    Recipe,
    as_task,
    extremes,
    from_arrays,
    refuse_mixed,
    target_of,
    with_target,
    without_missing,
    without_target,
)

if TYPE_CHECKING:
    from bochner.backends import Array

_MOST_LEVELS = 1000  # texts of a column that are kept, so that new ones can be reported
_NAMED = 8  # columns that are named one by one
_SAMPLE = 1000  # texts by which a column is judged
_FEWEST = 20  # rows from which on a column can be said to number them
# how dates are written besides ISO 8601, with or without a time
_DAYS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y",
         "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y")  # fmt: skip
_TIMES = ("%H:%M", "%H:%M:%S")
_DATES = (*(f"{day}{time}" for day in _DAYS for time in ("", " %H:%M", " %H:%M:%S")), *_TIMES)
_MOMENT = datetime(2024, 12, 31, 12, 30)  # the example of how dates are written


@dataclass(frozen=True)
class Columns:
    """A frame or an array as a model of a table takes it, its targets, and which columns these are."""

    X: Any
    y: Array | None
    recipe: Recipe
    notes: tuple[str, ...] = ()
    n_dropped: int = 0  # rows left out
    left_out: tuple[str, ...] = ()  # columns, as the user said


def load_columns(
    data: str,
    target: str | None,
    *,
    task: str | None = None,
    drop: Sequence[str] | None = None,
    drop_missing: bool = False,
    text: TextFormat | None = None,
) -> Columns:
    """Read DATA and take the target out of it."""
    raw = read(data, text)
    if raw.frame is None:
        X, y, recipe = from_arrays(raw, target, drop or ())
        if y is None:
            return Columns(X, y, recipe)
        present = with_target(y)
        y, why = as_task(y[present], task, target)
        notes = [*without_target(present, target), why]
        return Columns(X[present], y, recipe, tuple(notes), int(np.count_nonzero(~present)))
    frame, notes, n_dropped = raw.frame, list(raw.notes), 0
    for name in () if text is None else text.texts:
        check_column(name, list(frame.columns), "--text")
    for name in drop or ():
        check_column(name, list(frame.columns), "--drop")
    frame = frame.drop(columns=list(drop or ()))
    if target is None:
        raise DataError("there is nothing to learn: name the column with --target.")
    check_column(target, list(frame.columns))
    if drop_missing:
        frame, n_dropped = without_missing(frame, target, raw.texts)
        if n_dropped:
            notes.append(f"{counted(n_dropped, 'row')} with missing values left out")
    values, present = target_of(frame[target], target, None if drop_missing else raw.line, task)
    frame = frame.drop(columns=target)
    if not frame.shape[1]:
        raise DataError("there is no column besides the target.")
    notes += extremes(frame)
    frame, dates, of_dates = with_dates(frame, texts=raw.texts)
    frame, n_dropped = frame[present].reset_index(drop=True), n_dropped + int(np.count_nonzero(~present))
    notes += without_target(present, target)
    y, why = as_task(values, task, target)
    gaps = frame.isna().sum()
    if gaps.any():
        notes.append(_gaps_of(gaps[gaps > 0]))
    texts = {name: sorted(set(frame[name].dropna().astype(str))) for name in frame.columns if _is_text(frame[name])}
    known = {name: levels for name, levels in texts.items() if len(levels) <= _MOST_LEVELS}
    recipe = Recipe(tuple(frame.columns), target, categories=known, dates=dates).of_file(raw, text)
    numbering = [f"column {name!r} numbers the rows: --drop {shlex.quote(name)}?" for name in _numbering(frame)]
    notes += [why, *of_dates, *numbering]
    return Columns(frame, y, recipe, tuple(notes), n_dropped, tuple(drop or ()))


def _gaps_of(counts: Any) -> str:
    shown = ", ".join(f"{name} {count:,}" for name, count in list(counts.items())[:_NAMED])
    return f"gaps: {shown}" + (f" and {len(counts) - _NAMED:,} more columns" if len(counts) > _NAMED else "")


def _is_text(values: Any) -> bool:
    present = values.dropna()
    return values.dtype.kind not in "biufcmM" and bool(len(present)) and isinstance(present.iloc[0], str)


def _numbering(frame: Any) -> list[str]:
    """Columns that count the rows up or down."""
    found = []
    for name in frame.columns:
        values = frame[name]
        if len(values) >= _FEWEST and values.dtype.kind in "iu" and values.diff().iloc[1:].abs().eq(1).all():
            found.append(name)
    return found


def with_dates(
    frame: Any, recipe: Recipe | None = None, texts: Sequence[str] = ()
) -> tuple[Any, dict[str, str], tuple[str, ...]]:
    """The frame with columns of text that are all dates as dates, how each is written, and what was assumed.

    Text among numbers or dates is refused, but in `texts`. The recipe of a model knows how its dates were written;
    dates that are written otherwise are read with a note.
    """
    known = None if recipe is None else recipe.dates or {}
    found, formats, notes = {}, {}, []
    for name in frame.columns:
        values = frame[name]
        if name in texts or not _is_text(values):
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
    """A date or a time of day as a format writes it."""
    return _MOMENT.strftime("%Y-%m-%d" if form == "ISO8601" else form)


def _dates_of(values: Any, known: str | None) -> dict[str, Any]:
    """The dates of a column of text by how they may be written; the known way, or ISO 8601, is the only one."""
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


def _refuse_mixed_dates(values: Any, name: str, known: dict[str, str] | None) -> None:
    """Refuse text most of which are dates, and text where a model has dates."""
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


def model_columns(raw: Raw, recipe: Recipe | None, model: Any, data: str) -> tuple[Any, tuple[str, ...]]:
    """Rows with the columns that a model of a table was trained on, and what was assumed about their dates."""
    names = getattr(model, "feature_names_in_", None)
    if raw.frame is not None and names is not None:
        for name in names:
            check_column(name, list(raw.frame.columns))
        frame, _, notes = with_dates(raw.frame[list(names)], recipe, raw.texts)
        return frame, notes
    X = raw.X if raw.frame is None else raw.frame.to_numpy()
    n_features = model.n_features_in_
    if X.shape[1] > n_features and recipe is not None and recipe.target is not None:
        X = X[:, [int(name) for name in recipe.columns]]  # the target is still among them
    if X.shape[1] != n_features:
        raise DataError(f"the model was trained on {n_features} features, and {data} gives {X.shape[1]}.")
    return (X if names is None else pandas_module().DataFrame(X, columns=names)), ()
