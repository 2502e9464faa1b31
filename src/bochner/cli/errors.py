"""Mistakes that a user of the command line can correct, and hints how."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


class DataError(ValueError):
    """Something about the user's data or options that they can correct; the message says how."""


def nearest(name: str, names: Sequence[str], what: str = "column") -> str:
    """Suggest the names most similar to a missing one."""
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    lower = {other.lower(): other for other in names}
    if name.lower() in lower and lower[name.lower()] not in close:
        close.insert(0, lower[name.lower()])
    if close:
        return f"did you mean {' or '.join(repr(other) for other in close)}?"
    listed = ", ".join(map(repr, names[:12]))
    return f"the {what}s are {listed}{f' and {len(names) - 12} more' if len(names) > 12 else ''}."


def check_column(name: str, names: Sequence[str], option: str = "") -> None:
    """Refuse the name of a column that is not there, or that two columns have."""
    if name not in names:
        raise DataError(f"{option and option + ': '}there is no column {name!r}; {nearest(name, list(names))}")
    if list(names).count(name) > 1:
        raise DataError(f"{list(names).count(name)} columns are called {name!r}; give each a name of its own.")
