"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bochner.version import __version__ as __version__

if TYPE_CHECKING:
    from bochner import _public
    from bochner import datasets as datasets
    from bochner import diagnostics as diagnostics
    from bochner._public import *  # noqa: F403
    from bochner.experiments.compare import compare as compare
    from bochner.experiments.plots import plot_intervals as plot_intervals
    from bochner.exports import export_onnx as export_onnx
    from bochner.kernels import dot_products, stationary
    from bochner.kernels.dot_products import *  # noqa: F403
    from bochner.kernels.stationary import *  # noqa: F403
    from bochner.persistence import ModelFileError as ModelFileError
    from bochner.persistence import load as load
    from bochner.persistence import save as save
    from bochner.recommendations import Recommendation as Recommendation
    from bochner.recommendations import recommend as recommend

    __all__ = ["ModelFileError", "Recommendation", "compare", "datasets", "diagnostics", "export_onnx", "load"]
    __all__ += ["plot_intervals", "recommend", "save"]
    __all__ += _public.__all__  # type: ignore[has-type]
    __all__ += dot_products.__all__  # type: ignore[has-type]
    __all__ += stationary.__all__  # type: ignore[has-type]

# Nothing is imported before it is used, so that the command line answers at once: estimators and kernels all together
# (bochner/_public.py), and what no estimator needs one by one: public name -> module.
_LATER = {
    "ModelFileError": "persistence",
    "Recommendation": "recommendations",
    "compare": "experiments.compare",
    "datasets": "datasets",
    "diagnostics": "diagnostics",
    "export_onnx": "exports",
    "load": "persistence",
    "plot_intervals": "experiments.plots",
    "recommend": "recommendations",
    "save": "persistence",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return [*import_module("bochner._public").__all__, *_LATER]
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    module = import_module(f"{__name__}.{_LATER.get(name, '_public')}")
    if not hasattr(module, name):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(module, name)
    return found


def __dir__() -> list[str]:
    return sorted(__getattr__("__all__"))
