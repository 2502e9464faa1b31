"""Packages that import what they offer when it is first used."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_EXPORT = re.compile(r"^from (\S+) import (\S+)", re.MULTILINE)


def exports(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that offers what the stub beside its file lists.

    The stub, ``__init__.pyi``, holds lines such as ``from bochner.kernels.algebra import Sum as Sum``. After
    ``from bochner.kernels.stationary import *`` the package offers what ``__all__`` of that module lists. Type checkers
    read the same lines. Submodules are attributes as well.
    """
    listed = [(module, name) for module, name in _EXPORT.findall(Path(file).with_suffix(".pyi").read_text())]
    modules = {name: module for module, name in listed if name != "*" and module != package}
    submodules = [name for module, name in listed if module == package]
    starred = [module for module, name in listed if name == "*"]

    def find(name: str) -> Any:
        if name in modules:
            owner = import_module(modules[name])
            return getattr(owner, name)
        if name == "__all__":
            return names()
        if not name.startswith("_"):
            if find_spec(f"{package}.{name}") is not None:
                return import_module(f"{package}.{name}")
            for module in map(import_module, starred):
                if name in module.__all__:
                    return getattr(module, name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def get(name: str) -> Any:
        found = find(name)
        vars(sys.modules[package])[name] = found
        return found

    def names() -> list[str]:
        public = [name for name in modules if not name.startswith("_")]
        return sorted({*public, *submodules, *(name for module in starred for name in import_module(module).__all__)})

    return get, names
