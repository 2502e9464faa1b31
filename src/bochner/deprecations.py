"""Old names that keep working for one version and warn what to write instead."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


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


def old_parameters(**names: str | tuple[str, Mapping[Any, Any]]) -> Callable[[F], F]:
    """Decorate a function or an estimator whose keyword parameters have new names: old=new; the old ones work and warn.

    With ``old=(new, values)`` the values have new names too. Of an estimator these are the parameters of the
    constructor and of `set_params`, the attributes, and what pickles of earlier versions hold.

    Examples
    --------
    >>> from bochner.deprecations import old_parameters
    >>> @old_parameters(width="side", unit=("scale", {"metre": 1.0}))
    ... def area(side, scale=1.0):
    ...     return (scale * side) ** 2
    """

    def decorate(function: F) -> F:
        if isinstance(function, type):
            return _with_old_parameters(function, names)

        @functools.wraps(function)
        def renamed(*arguments: Any, **options: Any) -> Any:
            for old, replacement in names.items():
                if old not in options:
                    continue
                new, values = _new(replacement)
                if new in options:
                    raise TypeError(f"{function.__qualname__}() got {old}, the old name of {new}, and {new} too.")
                given = options.pop(old)
                options[new] = values.get(given, given)
                instead = f"{new}={options[new]!r}" if values else f"{new}="
                warnings.warn(
                    f"{old}= is deprecated and goes in the next version. Write {instead} instead.",
                    FutureWarning,
                    stacklevel=2,
                )
            return function(*arguments, **options)

        return renamed  # type: ignore[return-value]

    return decorate


def _new(replacement: str | tuple[str, Mapping[Any, Any]]) -> tuple[str, Mapping[Any, Any]]:
    """The new name, and new names of values."""
    return (replacement, {}) if isinstance(replacement, str) else replacement


def _with_old_parameters(cls: Any, names: Mapping[str, str | tuple[str, Mapping[Any, Any]]]) -> Any:
    for method in ("__init__", "set_params"):
        setattr(cls, method, old_parameters(**names)(getattr(cls, method)))
    for old, replacement in names.items():
        setattr(cls, old, old_attribute(cls.__name__, old, _new(replacement)[0]))
    restore = cls.__setstate__

    def __setstate__(self: Any, state: dict[str, Any]) -> None:  # noqa: N807
        renamed = dict(state)
        for old, replacement in names.items():
            if old in renamed:
                new, values = _new(replacement)
                given = renamed.pop(old)
                renamed[new] = values.get(given, given)
        restore(self, renamed)

    cls.__setstate__ = __setstate__
    return cls
