"""The machine in words: processor, memory, compiled code, linear algebra, packages and GPU."""

from __future__ import annotations

import os
import platform
import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from bochner.backends import backend_of, n_cores, n_threads
from bochner.version import __version__

REQUIRED = ("numpy", "scipy", "scikit-learn")
OPTIONAL = {  # package: (extra that brings it, what it is for)
    "pandas": ("cli", "compare, CSV files"),
    "rich": ("cli", "the command line"),
    "typer": ("cli", "the command line"),
    "pooch": ("data", "fetching datasets"),
    "matplotlib": ("plot", "figures"),
    "pyarrow": ("parquet", "Parquet and Arrow"),
    "onnx": ("onnx", "exporting models"),
    "dask": ("dask", "clusters"),
    "torch": ("torch", "GPUs"),
}
_FEATURES = ("sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512bw", "avx512dq", "amx_tile", "asimd")


def version_of(package: str) -> str | None:
    """Return the version of an installed package, without importing it."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cpu() -> tuple[str, list[str]]:
    """Return the processor's name and those of its vector instructions that matter here."""
    name, flags = platform.processor() or platform.machine(), set[str]()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text(errors="replace").splitlines():
            field, _, value = line.partition(":")
            if field.strip() in ("model name", "Model"):
                name = value.strip()
            elif field.strip() in ("flags", "Features"):
                flags |= set(value.split())
                break
    return name, [feature for feature in _FEATURES if feature in flags]


def memory_bytes() -> int | None:
    """Return the memory of the machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def native_levels() -> list[str]:
    """List the instruction levels of the compiled module, best last; empty without it."""
    try:
        from bochner.backends.native import levels
    except ImportError:
        return []
    return levels()


def native_level() -> str | None:
    """Return the level in use: the best, or the one named by BOCHNER_LEVEL."""
    try:
        from bochner.backends.native import level
    except ImportError:
        return None
    return level()


def blas() -> list[str]:
    """Describe the linear algebra libraries in this process."""
    return sorted(
        {
            f"{pool.get('internal_api', '?')} {pool.get('version') or ''} ({pool.get('architecture') or 'generic'}, "
            f"{pool['num_threads']} threads)"
            for pool in threadpool_info()
            if pool.get("user_api") == "blas"
        }
    )


def describe() -> dict[str, Any]:
    """Return the machine and the versions, as plain strings and numbers."""
    name, features = cpu()
    return {
        "cpu": name,
        "instructions": features,
        "cores": n_cores(),
        "threads": n_threads(),
        "memory": memory_bytes(),
        "system": f"{platform.system()} {platform.machine()}",
        "backend": backend_of(np.empty((0, 0))).name,
        "native_levels": native_levels(),
        "native_level": native_level(),
        "blas": blas(),
        "versions": {
            "python": ".".join(map(str, sys.version_info[:3])),
            "bochner": __version__,
            **{package: version_of(package) for package in REQUIRED},
        },
    }


def gpu() -> str:
    """Describe torch and the device it finds."""
    if version_of("torch") is None:
        return "none: torch is not installed"
    try:
        door = import_module("bochner.backends.torch")
    except ImportError:
        return f"torch {version_of('torch')} is installed; this build of bochner does not use it"
    cuda = door.torch.cuda
    if not cuda.is_available():
        return f"none found by torch {version_of('torch')}"
    names = [cuda.get_device_name(i) for i in range(cuda.device_count())]
    return f"{', '.join(names)} (torch {version_of('torch')})"
