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


def old_parameters(**names: str) -> Callable[[F], F]:
    """Decorate a function or an estimator whose keyword parameters have new names: old=new; the old ones work and warn.

    Of an estimator these are the parameters of the constructor and of `set_params`, the attributes, and what pickles
    of earlier versions hold.

    Examples
    --------
    >>> from bochner.deprecations import old_parameters
    >>> @old_parameters(width="side")
    ... def area(side):
    ...     return side**2
    """

    def decorate(function: F) -> F:
        if isinstance(function, type):
            return _with_old_parameters(function, names)

        @functools.wraps(function)
        def renamed(*arguments: Any, **options: Any) -> Any:
            for old, new in names.items():
                if old not in options:
                    continue
                if new in options:
                    raise TypeError(f"{function.__qualname__}() got {old}, the old name of {new}, and {new} too.")
                warnings.warn(
                    f"{old}= is deprecated and goes in the next version. Write {new}= instead.",
                    FutureWarning,
                    stacklevel=2,
                )
                options[new] = options.pop(old)
            return function(*arguments, **options)

        return renamed  # type: ignore[return-value]

    return decorate


def _with_old_parameters(cls: Any, names: Mapping[str, str]) -> Any:
    for method in ("__init__", "set_params"):
        setattr(cls, method, old_parameters(**names)(getattr(cls, method)))
    for old, new in names.items():
        setattr(cls, old, old_attribute(cls.__name__, old, new))
    restore = cls.__setstate__

    def __setstate__(self: Any, state: dict[str, Any]) -> None:  # noqa: N807
        restore(self, {names.get(name, name): value for name, value in state.items()})

    cls.__setstate__ = __setstate__
    return cls
