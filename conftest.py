"""Modules that cannot be imported without their optional packages are not collected."""

import signal
from importlib.util import find_spec

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; some tests send Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)

NEEDED = {
    "src/bochner/data/distributed.py": ("dask",),
    "src/bochner/backends/torch": ("torch",),
    "src/bochner/backends/_triton": ("triton",),
    "src/bochner/cli": ("typer",),
    "src/bochner/comparison/charts.py": ("matplotlib",),
    "src/bochner/comparison/compare.py": ("pandas",),
    "src/bochner/comparison/report.py": ("matplotlib",),
    "src/bochner/exports": ("onnx",),
    "src/bochner/data/arrow.py": ("pyarrow",),
    "reproductions/bochner_reproductions/__init__.py": ("matplotlib",),
    "tests/test_cli.py": ("typer", "rich", "pandas"),
    "tests/test_cli_files.py": ("typer", "rich", "pandas"),
    "tests/test_compare.py": ("pandas", "matplotlib"),
    "tests/test_honest_scores.py": ("pandas",),
    "tests/test_outputs.py": ("typer", "rich", "pandas"),
    "tests/test_plots.py": ("pandas", "matplotlib"),
    "tests/test_report.py": ("pandas", "matplotlib"),
    "tests/test_tabular.py": ("pandas",),
}
collect_ignore = [path for path, packages in NEEDED.items() if any(find_spec(package) is None for package in packages)]
