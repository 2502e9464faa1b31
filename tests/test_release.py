"""What must hold before a release: one version, bounds that are tested, workflows that run what `make` runs here."""

import re
import tomllib
from pathlib import Path

import pytest

import bochner

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_citation_has_the_version():
    assert f"\nversion: {bochner.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_the_oldest_versions_are_the_lower_bounds(project):
    """`make test-oldest` tests what pyproject.toml allows: bounds of the library, its extras and the build."""
    bounds = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    bounds += [bound for extra in project["project"]["optional-dependencies"].values() for bound in extra]
    bounds += [bound for bound in project["dependency-groups"]["test"] if isinstance(bound, str)]
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


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_run_targets_of_make(workflow):
    text = workflow.read_text(encoding="utf-8")
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    commands = re.findall(r"^ *- run: (.*)$", text, re.MULTILINE)
    assert commands or "publish" in text
    chosen = re.findall(r"target: ([\w-]+)", text)
    for command in commands:
        program, target = command.split(maxsplit=2)[:2]
        assert program == "make"
        assert target in targets or (target == "${{" and chosen)
    assert set(chosen) <= set(targets)
    assert "run: |" not in text


def test_every_supported_python_is_named(project):
    """In the classifiers, the tests and the wheels: those built for 3.12 serve the later ones."""
    named = re.findall(r":: (3\.\d+)'", str(project["project"]["classifiers"]))
    tested = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8")
    assert f">={named[0]}" == project["project"]["requires-python"]
    assert all(f'"{version}"' in tested for version in named)
    built = {f"cp{version.replace('.', '')}-*" for version in named[:2]}
    assert built == set(project["tool"]["cibuildwheel"]["build"])
    assert project["tool"]["scikit-build"]["wheel"]["py-api"] == f"cp{named[1].replace('.', '')}"
