"""Old names that keep working for one version and warn what to write instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any


def old_names(module: str, table: Mapping[str, tuple[str, Any]]) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a module from a table of its old names.

    Parameters
    ----------
    module : str
        Name of the module, as users write it.
    table : dict of str to (str, object)
        For each old name what to write instead, and the object that the name still stands for.

    Examples
    --------
    >>> from bochner.deprecations import old_names
    >>> __getattr__ = old_names("bochner.shapes", {"area": ("Square(side).area()", lambda side: side**2)})
    """

    def __getattr__(name: str) -> Any:  # noqa: N807
        if name not in table:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        replacement, thing = table[name]
        warnings.warn(
            f"{module}.{name} is deprecated and goes in the next version. Write {replacement} instead.",
            FutureWarning,
            stacklevel=2,
        )
        return thing

    return __getattr__


def old_attribute(owner: str, old: str, new: str) -> Any:
    """Build a property that stands for another one, and warns.

    Parameters
    ----------
    owner : str
        Name of the class, as users write it.
    old, new : str
        Names of the attribute.

    Examples
    --------
    >>> from bochner.deprecations import old_attribute
    >>> class Square:
    ...     side = 3.0
    ...     width = old_attribute("Square", "width", "side")
    """

    def read(self: Any) -> Any:
        warnings.warn(
            f"{owner}.{old} is deprecated and goes in the next version. Write {owner}.{new} instead.",
            FutureWarning,
            stacklevel=2,
        )
        return attrgetter(new)(self)

    return property(read, doc=f"Old name of `{new}`.")
