"""The import order of the package, walked with ast, and its optional doors."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bochner

SOURCE = Path(bochner.__file__).parent

# A module may import from the same layer's own package and from layers further down.
LAYERS = [
    ["__init__", "cli"],
    ["experiments", "recommendations"],
    ["estimators", "exports", "persistence"],
    ["diagnostics", "distributed", "streaming", "tuning"],
    ["features", "certificates"],
    ["landmarks", "losses", "statistics", "solvers", "linalg"],
    ["kernels", "rows", "sketches"],
    ["spectra", "operators", "datasets"],
    ["keys", "theory", "backends", "_native"],
    ["deprecations"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "bochner":
            parts = node.module.split(".")[1:]
            yield from [parts[0]] if parts else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("bochner."):
                    yield alias.name.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_down_only(path):
    module = module_of(path)
    assert module in LEVEL, f"{module} has no layer: add it to LAYERS"
    for name in imported(path):
        same = name == module
        assert same or LEVEL[name] >= LEVEL[module], f"{module} imports {name}, which is above it"


def test_only_one_command_knows_the_reproductions_and_only_when_it_runs():
    found = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(str(path.relative_to(SOURCE)), id(node) in inside) for n in names if "reproductions" in n]
    assert found == [("cli/commands.py", True)]


def test_theory_imports_nothing_of_ours():
    for path in FILES:
        if module_of(path) == "theory":
            assert set(imported(path)) <= {"theory", "deprecations"}


def test_no_optional_package_is_imported_by_default():
    import subprocess
    import sys

    # pandas, which scikit-learn imports where it is installed, may bring pyarrow along
    code = (
        "import sklearn.base, sys; others = set(sys.modules); import bochner; "
        "print([m for m in ('torch', 'dask', 'matplotlib', 'pyarrow', 'onnx') if m in sys.modules and m not in others])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# extra: a package it brings, and what cannot be done without it
DOORS = {
    "dask": ("dask", "import bochner.distributed"),
    "torch": ("torch", "bochner.KernelRidge(device='cuda').fit(X, X[:, 0])"),
    "parquet": ("pyarrow", "bochner.KernelRidge().fit(__file__, 'y')"),
    "onnx": ("onnx", "bochner.export_onnx(bochner.FourierFeatures().fit(X), 'model.onnx')"),
}


_HIDDEN = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "{package}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden())
import numpy as np
import bochner
X = np.arange(20.0).reshape(10, 2)
"""


@pytest.mark.parametrize("extra", DOORS)
def test_without_an_optional_package_the_error_names_its_extra(extra, tmp_path):
    import subprocess
    import sys

    package, call = DOORS[extra]
    script = tmp_path / "script.py"
    script.write_text(_HIDDEN.format(package=package) + call)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0
    message = done.stderr.strip().splitlines()[-1]
    assert message.startswith(("ImportError: ", "bochner.backends.NoDeviceError: "))
    assert f"bochner[{extra}]" in message


def test_every_public_name_is_documented():
    for name in bochner.__all__:
        thing = getattr(bochner, name)
        if callable(thing):
            assert thing.__doc__, f"bochner.{name} has no docstring"


HEAVY = ("cluster", "datasets", "decomposition", "kernel_approximation", "linear_model", "metrics", "preprocessing")


def test_importing_the_package_imports_little_besides_scikit_learn_s_base():
    """What only some calls need, and takes long to import, waits for them."""
    program = (
        "import sys, sklearn.base, sklearn.utils.validation; before = set(sys.modules); import bochner;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    added = done.stdout.split()
    assert "bochner.estimators" in added
    heavy = {*(f"sklearn.{name}" for name in HEAVY), "scipy.io", "pandas", "pyarrow", "torch", "dask", "matplotlib"}
    assert not heavy & set(added)
