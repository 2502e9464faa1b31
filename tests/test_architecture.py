"""The import order of the package, walked with ast, and its optional doors."""

import ast
import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner.backends import limit_threads

SOURCE = Path(bochner.__file__).parent
ROOT = Path(__file__).parents[1]  # of the checkout or source distribution, wherever the package is installed

# The rings, from the outermost to the innermost: a module imports from its own package and from lines further down,
# never from its neighbours.
LAYERS = [
    # tools
    ["cli"],
    ["comparison", "recommendations"],
    # doors: model files and ONNX graphs
    ["exports", "persistence"],
    # libraries
    ["lab", "linalg", "diagnostics"],
    # core
    ["__init__"],
    ["tables"],
    ["estimators"],
    ["tuning"],
    ["certificates", "newton"],
    ["data"],
    ["features"],
    ["landmarks"],
    ["kernels", "sampling", "sketches", "ridge"],
    ["draws", "datasets"],
    ["backends", "theory"],
    ["_native", "checks", "displays", "lazy", "outputs", "version"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))
walk = pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))


def module_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def running(tree):
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if (
            isinstance(node, ast.If)
            and "TYPE_CHECKING" in ast.unparse(node.test)
            and "not" not in ast.unparse(node.test)
        ):
            continue
        yield node
        yield from running(node)


def imports(path):
    """What a file imports of ours, as (parts of the module's name below bochner, name or None)."""
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by dots"
            root, *parts = (node.module or "").split(".")
            if root == "bochner":
                for alias in node.names:
                    yield (parts, alias.name) if parts else ([alias.name], None)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root, *parts = alias.name.split(".")
                if root == "bochner":
                    yield parts or ["__init__"], None


def imported(path):
    return [parts[0] for parts, _ in imports(path)]


@walk
def test_imports_go_down_only(path):
    module = module_of(path)
    assert module in LEVEL, f"{module} has no layer: add it to LAYERS"
    for name in imported(path):
        assert name == module or LEVEL[name] > LEVEL[module], f"{module} imports {name}, which is beside or above it"


def test_modules_of_a_package_do_not_import_each_other_in_circles():
    below = {}
    for path in FILES:
        package, *rest = path.relative_to(SOURCE).with_suffix("").parts
        if len(rest) == 1:
            below[package, rest[0]] = {
                (package, parts[1]) for parts, _ in imports(path) if parts[:1] == [package] and parts[1:]
            }
    for start in below:
        seen, todo = set(), list(below[start])
        while todo:
            module = todo.pop()
            assert module != start, f"{'.'.join(start)} imports itself through others"
            todo += below.get(module, set()) - seen
            seen.add(module)


@walk
def test_nothing_private_is_imported_from_another_module(path):
    doors = {(("_native",), None), (("backends",), "_triton")}
    for parts, name in imports(path):
        if (tuple(parts), name) not in doors:
            assert not (name or "").startswith("_") or name == "__version__", f"{name} of {'.'.join(parts)} is private"


PACKAGES = sorted(p.parent.relative_to(SOURCE).parts for p in SOURCE.rglob("__init__.py"))
STUBBED = sorted(p.parent.relative_to(SOURCE).parts for p in SOURCE.rglob("__init__.pyi"))
# Packages whose `__init__.py` holds code.
FULL = {("backends",), ("backends", "_triton"), ("backends", "torch"), ("cli",), ("exports",), ("persistence",)}


@pytest.mark.parametrize("parts", [parts for parts in PACKAGES if parts not in FULL], ids=".".join)
def test_a_package_offers_what_its_stub_lists_or_nothing(parts):
    package = importlib.import_module(".".join(("bochner", *parts)))
    if parts in STUBBED:
        assert dir(package) == sorted(package.__all__)
        assert all(hasattr(package, name) for name in package.__all__)
    else:
        body = ast.parse((SOURCE.joinpath(*parts) / "__init__.py").read_text()).body
        assert [type(node.value) for node in body] == [ast.Constant], "only a docstring: others import the modules"


@walk
def test_modules_import_modules_and_not_packages(path):
    for parts, name in imports(path):
        if tuple(parts) in STUBBED and name is not None:
            assert (SOURCE.joinpath(*parts) / name).with_suffix(".py").exists(), f"import the module of {name}"


def test_the_version_stands_in_one_place():
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]
    stated = [path.name for path in FILES if f'"{bochner.__version__}"' in path.read_text()]
    assert stated == ["version.py"]


# What a fit with everything given passes through; fewer is better, and more needs a reason.
MOST_FUNCTIONS, MOST_MODULES = 196, 35


def test_the_way_of_a_plain_fit_is_short():
    X = np.random.default_rng(0).normal(size=(500, 3))
    model = bochner.KernelRidge(bochner.RBF(1.0), 2048, alpha=1.0, random_state=0)
    model.fit(X, X[:, 0])  # what is imported and looked up once only is no part of the way
    seen = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(SOURCE)):
            seen.add((code.co_filename, code.co_qualname))

    before = sys.getprofile()
    with limit_threads(1):  # on this thread alone, so that every run passes through the same
        sys.setprofile(note)
        try:
            model.fit(X, X[:, 0])
        finally:
            sys.setprofile(before)
    found = {(Path(file).stem, name) for file, name in seen if "<" not in name.rsplit(".", 1)[-1]}
    modules = {file for file, _ in seen}
    assert len(found) > 20
    assert len(found) <= MOST_FUNCTIONS, sorted(found)
    assert len(modules) <= MOST_MODULES, sorted(modules)


def test_only_one_command_knows_the_reproductions_and_only_when_it_runs():
    found = []
    for path in FILES:
        tree = ast.parse(path.read_text())
        inside = {id(n) for f in ast.walk(tree) if isinstance(f, ast.FunctionDef) for n in ast.walk(f)}
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found += [(str(path.relative_to(SOURCE)), id(node) in inside) for n in names if "reproductions" in n]
    assert found == [("cli/reproduce.py", True)]


def test_theory_imports_nothing_of_ours():
    for path in FILES:
        if module_of(path) == "theory":
            assert set(imported(path)) <= {"theory", "checks", "lazy"}


# slow to import, or not to be had everywhere
HEAVY = ("IPython", "PIL", "dask", "distributed", "matplotlib", "onnx", "pandas", "polars", "pyarrow", "torch",
         "scipy.cluster", "scipy.integrate", "scipy.interpolate", "scipy.io", "scipy.ndimage", "scipy.signal",
         "scipy.stats", "sklearn.cluster", "sklearn.ensemble", "sklearn.linear_model", "sklearn.metrics",
         "sklearn.model_selection", "sklearn.preprocessing")  # fmt: skip
_PLAIN = """
import json, sys
def loaded():
    return sorted(sys.modules)
import bochner
bochner.KernelRidge
found = [loaded()]
import numpy as np
X = np.random.default_rng(0).normal(size=(60, 2))
bochner.KernelRidge(bochner.RBF(1.0), 20, alpha=0.1).fit(X, X[:, 0]).predict(X)
bochner.KernelRidge().fit(X, X[:, 0]).predict(X)
bochner.KernelClassifier().fit(X, X[:, 0] > 0).predict(X)
bochner.FourierFeatures().fit_transform(X)
bochner.NystromFeatures().fit_transform(X)
print(json.dumps([*found, loaded()]))
"""


def output_of(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_nothing_heavy_is_imported_by_default():
    """Neither by `import bochner` nor by a plain fit, but for what scikit-learn's base and validation import."""
    of_scikit_learn = output_of(
        "import json, sys, sklearn.base, sklearn.exceptions, sklearn.utils.metaestimators, sklearn.utils.multiclass, "
        "sklearn.utils.validation; print(json.dumps(sorted(sys.modules)))"
    )
    for modules in output_of(_PLAIN):
        assert "bochner.estimators.ridge" in modules
        assert [m for m in HEAVY if m in modules and m not in of_scikit_learn] == []


def test_importing_the_package_alone_imports_nothing_else():
    """The command line answers `--help` and mistakes without NumPy, let alone scikit-learn."""
    modules = output_of("import json, sys, bochner; bochner.__version__; print(json.dumps(sorted(sys.modules)))")
    assert [name for name in modules if name.split(".")[0] in ("numpy", "scipy", "sklearn")] == []
    assert [name for name in modules if name.startswith("bochner")] == ["bochner", "bochner.lazy", "bochner.version"]


# extra: a package it brings, and what cannot be done without it
DOORS = {
    "dask": ("dask", "import bochner.data.distributed"),
    "torch": ("torch", "bochner.KernelRidge(device='cuda').fit(X, X[:, 0])"),
    "parquet": ("pyarrow", "bochner.KernelRidge().fit(__file__, 'y')"),
    "onnx": ("onnx", "bochner.export_onnx(bochner.FourierFeatures().fit(X), 'model.onnx')"),
    "data": ("pooch", "bochner.datasets.fetch('protein')"),
    "plot": ("matplotlib", "import bochner.comparison.charts"),
    "cli": ("pandas", "bochner.compare(X)"),
}


def test_every_extra_has_a_door():
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert set(DOORS) == set(tomllib.load(file)["project"]["optional-dependencies"])


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


def test_every_module_is_an_attribute_of_the_package():
    program = (
        "import json, bochner; print(json.dumps([bochner.kernels.RBF is bochner.RBF, bochner.data.__name__, "
        "hasattr(bochner, 'nonsense'), hasattr(bochner, '_nonsense')]))"
    )
    assert output_of(program) == [True, "bochner.data", False, False]


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
        "bochner.KernelRidge; print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    added = done.stdout.split()
    assert "bochner.estimators.ridge" in added
    heavy = {*(f"sklearn.{name}" for name in HEAVY), "scipy.io", "pandas", "pyarrow", "torch", "dask", "matplotlib"}
    assert not heavy & set(added)
