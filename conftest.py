"""Modules that cannot be imported without their optional package have no doctests to collect."""

from importlib.util import find_spec

collect_ignore = [
    f"src/bochner/{path}"
    for package, path in (
        ("dask", "distributed.py"),
        ("torch", "backends/torch"),
        ("triton", "backends/_triton"),
        ("matplotlib", "experiments/charts.py"),
        ("matplotlib", "experiments/report.py"),
    )
    if find_spec(package) is None
]
