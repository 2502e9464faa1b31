"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bochner.version import __version__ as __version__

if TYPE_CHECKING:
    from bochner import _public
    from bochner._public import *  # noqa: F403
    from bochner.kernels import dot_products, stationary
    from bochner.kernels.dot_products import *  # noqa: F403
    from bochner.kernels.stationary import *  # noqa: F403

    __all__ = ["__version__"]
    __all__ += _public.__all__  # type: ignore[has-type]
    __all__ += dot_products.__all__  # type: ignore[has-type]
    __all__ += stationary.__all__  # type: ignore[has-type]


def __getattr__(name: str) -> Any:
    """A public name, or a module; nothing is imported before, so that the command line answers at once."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    found = globals()[name] = getattr(import_module("bochner._public"), name)
    return found


def __dir__() -> list[str]:
    return sorted(import_module("bochner._public").__all__)
