"""Modules that cannot be imported without their optional packages are not collected."""

from importlib.util import find_spec

NEEDED = {
    "src/bochner/distributed.py": ("dask",),
    "src/bochner/backends/torch": ("torch",),
    "src/bochner/backends/_triton": ("triton",),
    "src/bochner/cli": ("typer",),
    "src/bochner/experiments/charts.py": ("matplotlib",),
    "src/bochner/experiments/report.py": ("matplotlib",),
    "src/bochner/exports": ("onnx",),
    "tests/test_cli.py": ("typer", "rich", "pandas"),
    "tests/test_cli_files.py": ("typer", "rich", "pandas"),
    "tests/test_compare.py": ("pandas", "matplotlib"),
    "tests/test_report.py": ("pandas", "matplotlib"),
    "tests/test_tabular.py": ("pandas",),
}
collect_ignore = [path for path, packages in NEEDED.items() if any(find_spec(package) is None for package in packages)]
