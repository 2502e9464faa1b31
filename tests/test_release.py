"""What must hold before a release: one version, bounds that are tested, workflows that run what `make` runs here."""

import ast
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bochner
from bochner.backends import machines

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_citation_has_the_version():
    assert f"\nversion: {bochner.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


CHANGES = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")  # of keepachangelog.com


def test_the_changelog_has_its_form():
    """Versions from the newest, dated once released; below each what changed for users, by kind."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    found = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - (unreleased|20\d\d-\d\d-\d\d)", heading) for heading in headings]
    assert all(found), f"expected '## [1.2.3] - date or unreleased', got {headings}"
    versions = [tuple(int(part) for part in match.groups()[:3]) for match in found]
    assert versions == sorted(set(versions), reverse=True)
    assert f"## [{bochner.__version__}] - " in text
    assert all(match[4] != "unreleased" for match in found[1:])
    assert set(re.findall(r"^### (.*)$", text, re.MULTILINE)) <= set(CHANGES)


def test_the_oldest_versions_are_the_lower_bounds(project):
    """`make test-oldest` tests what pyproject.toml allows: bounds of the library, its extras and the build."""
    bounds = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    bounds += [bound for extra in project["project"]["optional-dependencies"].values() for bound in extra]
    groups = project["dependency-groups"]
    bounds += [bound for bound in groups["bare"] + groups["test"] if isinstance(bound, str)]
    allowed: dict[str, set[str]] = {}
    for bound in bounds:
        name, _, oldest = re.sub(r"\[.*?\]", "", bound).partition(">=")
        allowed.setdefault(name, set()).add(oldest)
    lines = (ROOT / ".ci/oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for name, found in allowed.items():
        assert len(found) == 1, f"{name} has several lower bounds: {found}"
        oldest = found.pop()
        if name not in ("torch", "playwright", "pytest-xdist"):  # torch: `make test-torch`; the others run the tests
            assert re.fullmatch(rf"{re.escape(oldest)}(\.0)*", pinned[name]), f"{name}>={oldest} but {pinned[name]}"


def read_workflow(path: Path) -> dict:
    return pytest.importorskip("yaml").safe_load(path.read_text(encoding="utf-8"))


def runs_of(job: dict) -> list[dict]:
    """The values of a job's matrix, one dict a run."""
    matrix = dict(job.get("strategy", {}).get("matrix", {}))
    included = matrix.pop("include", [])
    product = [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
    return (product if matrix else []) + included or [{}]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_of_make(workflow):
    """Every step is somebody's action or a target that runs anywhere, for every value of the matrix."""
    jobs = read_workflow(workflow)["jobs"]
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for name, job in jobs.items():
        assert {job["needs"]} <= set(jobs) if "needs" in job else True, name
        if "uses" in job:
            assert (ROOT / job["uses"]).exists(), name
            continue
        for values in runs_of(job):
            assert all(isinstance(value, str) for value in values.values()), f"{name}: a Python 3.10 would be 3.1"
            for step in job["steps"]:
                assert len({"uses", "run"} & set(step)) == 1, name
                command = re.sub(
                    r"\$\{\{ matrix\.(\w+) \}\}", lambda match, of=values: of[match[1]], step.get("run", "")
                )
                if command:
                    assert "\n" not in command, name
                    program, target, *options = command.split()
                    assert program == "make", name
                    assert target in targets, name
                    assert all(re.match(r"[A-Z]+=", option) for option in options), name


def test_every_extra_is_tested_alone(project):
    """And none at all; torch, whose packages have gigabytes, beside the others."""
    jobs = read_workflow(ROOT / ".github/workflows/tests.yml")["jobs"]
    alone = [values["extra"] for values in runs_of(jobs["extras"])]
    assert sorted(alone) == sorted({"", *project["project"]["optional-dependencies"]} - {"torch"})
    assert "test-torch" in [values["target"] for values in runs_of(jobs["dependencies"])]


def imported_at_once(tree: ast.Module) -> set[str]:
    """Names of the modules that a module imports when it is imported."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


TESTS = sorted((ROOT / "tests").rglob("*.py"))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_tests_are_collected_without_any_extra(path):
    """What a module of tests imports is required, or named in conftest.py, or asked for by pytest.importorskip."""
    needed = runpy.run_path(str(ROOT / "conftest.py"))["NEEDED"]
    optional = {package: {package} for package in (*machines.OPTIONAL, "polars", "onnxruntime", "safetensors", "yaml")}
    for place, packages in needed.items():
        if place.startswith("src/"):
            files = [ROOT / place] if place.endswith(".py") else (ROOT / place).rglob("*.py")
            names = {
                name.split(".")[0] for file in files for name in imported_at_once(ast.parse(file.read_text("utf-8")))
            }
            # the others are needed by examples in docstrings only
            optional[place.removeprefix("src/").removesuffix(".py").replace("/", ".")] = names & set(packages)
    text = path.read_text(encoding="utf-8")
    asked = set(re.findall(r'^(?:\w+ = )?pytest\.importorskip\("(\w+)', text, re.MULTILINE))
    asked |= {"pandas"} if "dask" in asked else set()  # which its data frames bring
    asked |= set(needed.get(path.relative_to(ROOT).as_posix(), ()))
    for name in imported_at_once(ast.parse(text)):
        for module, packages in optional.items():
            if f"{name}.".startswith(f"{module}."):
                assert packages <= asked, f"{name} cannot be imported without {packages - asked}"


@pytest.fixture
def checkout(tmp_path, monkeypatch) -> Path:
    """A copy of what a release is checked by, with the tools of .ci at hand."""
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    named = ("pyproject.toml", "CITATION.cff", "mkdocs.yml", "README.md", "CHANGELOG.md", "LICENSE", "ARCHITECTURE.md")
    for path in (*(ROOT / name for name in named), *(ROOT / "docs").glob("*.*"), ROOT / "src/bochner/version.py"):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    return tmp_path


def test_a_release_waits_for_all_that_belongs_to_it(checkout):
    from address import write_address
    from check_version import faults

    version = bochner.__version__
    assert f"expected TAG=v{version}, the version in src/bochner/version.py, got 'v99'." in faults("v99", checkout)
    write_address("https://github.com/someone/bochner", checkout)
    changes = checkout / "CHANGELOG.md"
    text = changes.read_text(encoding="utf-8")
    changes.write_text(
        re.sub(r"^(## \[.*\] - )unreleased$", r"\g<1>2026-12-31", text, flags=re.MULTILINE), encoding="utf-8"
    )
    assert not faults(f"v{version}", checkout)
    for name, part in {
        "CHANGELOG.md": f"## [{version}] - 2026",
        "CITATION.cff": f"\nversion: {version}",
        "pyproject.toml": "[project.urls]",
    }.items():
        path = checkout / name
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(part, ""), encoding="utf-8")
        [sentence] = faults(f"v{version}", checkout)
        assert name in sentence
        path.write_text(text, encoding="utf-8")
    (checkout / "README.md").write_text("![a picture](docs/rows.png)", encoding="utf-8")
    [sentence] = faults(f"v{version}", checkout)
    assert "README.md" in sentence


def test_the_public_address_is_written_everywhere(checkout):
    """Twice does no more than once, and another address replaces it."""
    from address import write_address

    with pytest.raises(SystemExit, match=r"expected URL=https://github\.com/owner/name, got 'bochner\.org'"):
        write_address("bochner.org", checkout)
    (checkout / "README.md").write_text("![a picture](docs/rows.png) [text](docs/rows.md#a) [x](https://x.org) f[0](X)")
    url = "https://github.com/Some-One/bochner"
    write_address(url, checkout)
    once = {path.name: path.read_text(encoding="utf-8") for path in checkout.glob("*.*")}
    assert once["README.md"] == (
        f"![a picture]({url}/raw/main/docs/rows.png) [text]({url}/blob/main/docs/rows.md#a) [x](https://x.org) f[0](X)"
    )
    assert tomllib.loads(once["pyproject.toml"])["project"]["urls"]["Issues"] == f"{url}/issues"
    assert f"\nrepository-code: {url}\n" in once["CITATION.cff"]
    assert "\nsite_url: https://some-one.github.io/bochner/\n" in once["mkdocs.yml"]
    assert f"\n[{bochner.__version__}]: {url}/releases/tag/v{bochner.__version__}\n" in once["CHANGELOG.md"]
    write_address(url, checkout)
    assert once == {path.name: path.read_text(encoding="utf-8") for path in checkout.glob("*.*")}


def test_every_supported_python_is_named(project):
    """In the classifiers, the tests and the wheels: those built for 3.12 serve the later ones."""
    named = re.findall(r":: (3\.\d+)'", str(project["project"]["classifiers"]))
    tested = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    assert f">={named[0]}" == project["project"]["requires-python"]
    assert all(f'"{version}"' in tested for version in named)
    built = {f"cp{version.replace('.', '')}-*" for version in named[:2]}
    assert built == set(project["tool"]["cibuildwheel"]["build"])
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == f"cp{named[1].replace('.', '')}"


ASKING = {  # package: what cannot be done without it
    "pandas": "bochner.compare(X, y)",
    "rich": "command('recommend', 'table.csv')",
    "typer": "command('recommend', 'table.csv')",
    "pooch": "bochner.datasets.load('kin40k')",
    "matplotlib": "import bochner.comparison.charts",
    "pyarrow": "bochner.KernelRidge(n_components=8).fit('table.parquet', 'y')",
    "onnx": "bochner.export_onnx(model, 'model.onnx')",
    "dask": "import bochner.data.distributed",
    "torch": "bochner.KernelRidge(n_components=8, device='cuda').fit(X, y)",
}
BARE = """
import contextlib, io, sys

class Missing:  # what an import finds where packages are not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import numpy as np
import bochner, bochner.datasets

def command(*words):
    from bochner.cli import main
    sys.argv = ["bochner", *words]
    main()

X = np.random.default_rng(0).normal(size=(60, 3))
y = X[:, 0]
model = bochner.KernelRidge(bochner.RBF(1.0), 8, alpha=1.0, random_state=0).fit(X, y)
for package, statement in asking.items():
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            exec(statement)
    except (ImportError, ValueError) as error:
        print(package, error)
    except SystemExit as stop:
        print(package, said.getvalue().strip() if stop.code == 3 else stop.code)
"""


def test_every_extra_is_asked_for_where_it_is_missing(project, tmp_path):
    """A bare installation learns and predicts, and names the extra of everything else."""
    assert {extra for extra, _ in machines.OPTIONAL.values()} == set(project["project"]["optional-dependencies"])
    assert set(ASKING) == set(machines.OPTIONAL)
    code = f"packages, asking = {set(ASKING)}, {ASKING}\n{BARE}"
    nothing_fetched = {"BOCHNER_DATA": "", "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, **nothing_fetched},
    )
    assert done.returncode == 0, done.stderr
    said = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    for package, (extra, _) in machines.OPTIONAL.items():
        assert f"pip install 'bochner[{extra}]'" in said[package]
