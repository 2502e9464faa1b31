"""The README and the pages say what is so: every block of Python and every command runs, in the order of its page."""

import ast
import inspect
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest

import bochner
from bochner import landmarks, sketches
from bochner import sampling as rows
from bochner.estimators.parameters import DESCRIPTIONS
from bochner.newton import losses
from bochner.ridge import solvers

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
TEXTS = {page.relative_to(ROOT).as_posix(): page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md")}
TEXTS["README.md"] = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted(name for name, text in TEXTS.items() if FENCE.search(text))
NUMBER = re.compile(r"\d\.\d+")
NEEDS = {  # packages without which a page cannot run
    "docs/guide/choosing.md": ("pandas",),
    "docs/guide/command_line.md": ("pandas", "typer", "rich", "matplotlib", "pyarrow"),
    "docs/guide/dask.md": ("dask",),
    "docs/guide/files.md": ("onnx",),
    "docs/guide/gaussian_processes.md": ("matplotlib",),
    "docs/guide/gpu.md": ("torch",),
    "docs/guide/streams.md": ("pyarrow",),
    "docs/guide/tables.md": ("pandas",),
    "docs/tutorial.md": ("pandas", "typer", "rich", "matplotlib"),
}
SMALLER = {"docs/guide/gpu.md": {"cuda": "cpu", "16_384": "64", "20_000": "50"}}  # a page of large models


def given(name):
    """What a page takes for granted: rows, targets, files."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)).astype(np.float32)
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=400)
    known = {"np": np, "X": X, "y": y, "X_new": X[:50], "new": X[:50], "labels": (y > 0).astype(int), "images": X}
    if name == "docs/guide/dask.md":
        np.save("rows.npy", X)
    elif name in ("README.md", "docs/guide/command_line.md"):
        np.savetxt("data.csv", np.c_[X, y][:80], delimiter=",", header="a,b,c,d,e,f,price", comments="")
        np.savetxt("new.csv", X[:9], delimiter=",", header="a,b,c,d,e,f", comments="")
        if name != "README.md":
            import pandas as pd

            pd.read_csv("data.csv").to_parquet("data.parquet")
    elif name == "docs/guide/dot_products.md":
        import scipy.sparse

        known["counts"] = scipy.sparse.random(200, 300, 0.05, format="csr", random_state=0)
    elif name == "docs/guide/files.md":
        from bochner import RBF, KernelRidge

        known["model"] = KernelRidge(RBF(2.0), 32, alpha=1.0, random_state=0).fit(X, y)
    elif name == "docs/guide/linalg.md":
        A = rng.normal(size=(300, 60)) / np.arange(1.0, 61.0)
        known |= {"A": A, "b": A @ np.ones(60), "y": np.sign(A[:, 0]), "K": A @ A.T}
    elif name == "docs/guide/streams.md":
        import pandas as pd

        Path("data").mkdir()
        pd.DataFrame(X, columns=list("abcdef")).assign(price=y).to_parquet("data/rows.parquet")
    elif name == "docs/guide/tables.md":
        import pandas as pd

        table = pd.DataFrame({"hour": rng.integers(0, 24, 400), "kind": rng.choice(["a", "b"], 400)})
        table["cnt"] = np.cos(table["hour"] / 4) + (table["kind"] == "a")
        table.to_csv("hour.csv", index=False)
        known |= {"X": table[["hour", "kind"]], "new": table[["hour", "kind"]].head(30)}
    return known


def run_command(line, monkeypatch):
    for package in ("typer", "rich", "pandas"):
        pytest.importorskip(package)
    from bochner.cli import main

    monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code in (None, 0), line


@pytest.mark.parametrize("name", PAGES)
def test_blocks_run(name, tmp_path, monkeypatch):
    for package in NEEDS.get(name, ()):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    known, said = given(name), []
    monkeypatch.setitem(known, "print", lambda *words: said.append(" ".join(map(str, words))))
    for block in FENCE.finditer(TEXTS[name]):
        kind, text = block.groups()
        for old, new in SMALLER.get(name, {}).items():
            text = text.replace(old, new)
        if kind == "console":
            for line in text.splitlines():
                if line.startswith("$ "):
                    run_command(line[2:], monkeypatch)
            continue
        exec(compile(text, f"{name}, block at character {block.start()}", "exec"), known)
        if name == "README.md":  # what it says it prints
            (promised,) = (line[2:] for line in text.splitlines() if line.startswith("# "))
            assert NUMBER.sub("", promised) == NUMBER.sub("", said[-1])
            scores = (np.array(NUMBER.findall(line), float) for line in (promised, said[-1]))
            np.testing.assert_allclose(*scores, atol=0.015)  # on another processor
    if name == "docs/tutorial.md":  # what it says about the columns of its table
        lost = dict(zip(known["X"].columns, known["lost"], strict=True))
        assert lost["area"] > lost["built"] > lost["distance"] > 0.05 > 0.02 > max(lost["district"], lost["listed"])
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")  # matplotlib 3.9 warns the next test of figures left open


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_every_block_of_code_is_run(name):
    """`test_blocks_run` finds all blocks of Python and of commands; what has no language is a picture or output."""
    fences = re.findall(r"^[ \t>]*(?:```|~~~)(.*)$", TEXTS[name], re.MULTILINE)
    kinds = [kind.strip() for kind in fences[::2]]
    assert not any(fences[1::2]), "a block that does not end"
    assert set(kinds) <= {"python", "console", "text", ""}
    assert len(FENCE.findall(TEXTS[name])) == sum(kind in ("python", "console") for kind in kinds)
    for kind, block in re.findall(r"^```(text|)\n(.*?)^```", TEXTS[name], re.DOTALL | re.MULTILINE):
        code = re.search(r"^ *(import|from|>>>|bochner|\$) ", block, re.MULTILINE)
        assert not code, f"a block {kind} of {name} holds code that nobody runs: {code}"


FEATURES = sorted(set(bochner.__all__) - {"Kernel", "ModelFileError", "Recommendation"})  # one meets those


@pytest.mark.parametrize("module", ["bochner", "bochner.linalg"])
def test_every_feature_is_in_a_guide(module):
    """Every public name stands once in code that runs."""
    code = "".join(
        text
        for name in PAGES
        if name.startswith(("docs/guide/", "docs/tutorial", "docs/theory"))
        for _, text in FENCE.findall(TEXTS[name])
    )
    names = FEATURES if module == "bochner" else [name for name in bochner.linalg.__all__ if name[0].islower()]
    missing = [name for name in names if not re.search(rf"\b{name}\b", code)]
    assert [name for name in missing if name != "as_loss"] == []


def anchors(text):
    """Of the headings of a page, as the site and GitHub make them."""
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


@pytest.mark.parametrize("name", sorted([*TEXTS, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]))
def test_links_lead_somewhere(name):
    """Relative links of a page, also those to files outside the site, and the headings that they name."""
    text = re.sub(r"^```.*?^```", "", (ROOT / name).read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, heading = target.partition("#")
        file = (ROOT / name).parent / path if path else ROOT / name
        assert file.exists(), f"{name} links to {target}"
        if heading:
            assert heading in anchors(file.read_text("utf-8")), f"{name} links to {target}"


def test_every_page_is_in_the_navigation():
    """Every page is in the navigation of the site, and every public guide in the list of the first page."""
    navigation = (ROOT / "mkdocs.yml").read_text("utf-8")
    for name in TEXTS:
        if name.startswith("docs/"):
            assert name.removeprefix("docs/") in navigation, f"mkdocs.yml does not list {name}"
        if name.startswith("docs/guide/"):
            assert name.removeprefix("docs/") in TEXTS["docs/index.md"], f"docs/index.md does not list {name}"


def test_readme_keeps_its_commands():
    """A user of a checkout finds these words, and so does a machine that tests the README."""
    assert "make demo " in TEXTS["README.md"]
    assert "make test " in TEXTS["README.md"]


def shown():
    """What the reference shows: (name, object, is it called by users?), methods after their class."""
    hidden = re.search(r'filters: .*"!(\^\(.*?\)\$)"', (ROOT / "mkdocs.yml").read_text("utf-8"))[1]
    for page in sorted(name for name in TEXTS if name.startswith("docs/reference/")):
        for name, options in re.findall(r"^::: (\S+)\n((?:    .*\n)*)", TEXTS[page], re.MULTILINE):
            thing = find(name)
            yield name, thing, not (inspect.isclass(thing) and is_result(thing))
            if not inspect.isclass(thing) or "members: false" in options:
                continue
            listed = re.search(r"members: \[(.*)\]", options)
            for method in ast.literal_eval(f"[{listed[1]}]") if listed else dir(thing):
                found = getattr(thing, method)
                ours = inspect.isroutine(found) and str(getattr(found, "__module__", "")).startswith("bochner")
                if listed or (ours and found.__doc__ and not method.startswith("_") and not re.match(hidden, method)):
                    yield f"{name}.{method}", found, False


def find(name):
    thing = bochner
    for part in name.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def is_result(kind):
    """A frozen record that functions return: users read its fields, and do not make it."""
    return inspect.getmodule(kind).__name__.startswith(
        ("bochner.linalg", "bochner.ridge", "bochner.diagnostics", "bochner.datasets")
    )


SHOWN = {name: (thing, called) for name, thing, called in shown()}


def described(text):
    """Parameters of a numpydoc docstring: name -> (type, description)."""
    parts = re.split(r"^(.+)\n-{3,}$", inspect.cleandoc(text), flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    body = sections.get("Parameters") or sections.get("Attributes", "")  # a record that functions return has these
    found = {}
    entry = re.compile(r"^(\S[^\n]*?)(?: : ([^\n]*))?\n((?:[ ]+.*\n|\n)*)", re.MULTILINE)
    for names, kind, words in entry.findall(body.strip("\n") + "\n"):
        for name in names.split(", "):
            found[name.lstrip("*")] = kind, words.strip()
    return found


@pytest.mark.parametrize("name", SHOWN)
def test_every_parameter_is_described(name):
    """With words, or with a type that says all (data of a shape, what is ignored); and with its true default."""
    thing, called = SHOWN[name]
    assert thing.__doc__, f"{name} has no docstring"
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return
    parameters = {key: value for key, value in inspect.signature(thing).parameters.items() if key != "self"}
    entries = described(thing.__doc__)
    if "Parameters\n" in thing.__doc__:
        assert not set(entries) - set(parameters), "described, but no parameters"
    for key, parameter in parameters.items():
        if key not in entries:
            assert not called, f"{name} does not describe {key}"
            assert re.search(rf"(?<!\w){key}(?!\w)", thing.__doc__), f"{name} does not say what {key} is"
            continue
        kind, words = entries[key]
        assert words or re.search(r"array|matri|path|table|ignored|passed on", kind), f"{name}: {key} has no words"
        if default := re.search(r"default=(.*)$", kind):
            assert ast.literal_eval(default[1]) == parameter.default, f"{name}: the default of {key}"


def test_the_reference_is_complete():
    """Every public name has an entry, and so has what parameters take besides names; modules are taken apart."""
    modules = {name: thing for name in bochner.__all__ if inspect.ismodule(thing := getattr(bochner, name))}
    expected = {f"bochner.{name}" for name in set(bochner.__all__) - set(modules)}
    for name in ("linalg", "certificates", "theory", "diagnostics"):  # sketches and datasets have no such list
        expected |= {f"bochner.{name}.{thing}" for thing in modules[name].__all__ if thing[0].islower()}
    registries = {
        "sampling": rows.ROW_LAWS,
        "landmarks": landmarks.LANDMARK_LAWS,
        "sketches": sketches.SKETCH_LAWS,
        "linalg": losses.LOSSES,
    }
    for module, laws in registries.items():
        expected |= {f"bochner.{module}.{type(law).__name__}" for law in laws.values()}
    expected |= {f"bochner.ridge.solvers.{solver.__name__}" for solver in solvers.SOLVERS.values()}
    expected -= {"bochner.linalg.as_loss"}
    assert not expected - set(SHOWN)
    assert not [name for name, (thing, _) in SHOWN.items() if inspect.ismodule(thing)]
    for name in SHOWN:
        assert not any(part.startswith("_") for part in name.split(".")), f"{name} is internal"


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_a_parameter_that_many_have_is_described_in_the_same_words(name):
    """A limit or a device that cannot be None is a parameter of its own."""
    entry = re.compile(rf"^{name} : (.*)\n((?: +\S.*\n?)+)", re.MULTILINE)
    own, found = name in ("device", "max_seconds", "max_bytes"), {}
    for path in (ROOT / "src" / "bochner").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                for kind, words in entry.findall(ast.get_docstring(node) or ""):
                    if "None" in kind or not own:
                        found[f"{path.name}: {node.name}"] = " ".join(words.split())
    assert len(found) >= 2
    assert [place for place, words in found.items() if not f"{words} ".startswith(f"{DESCRIPTIONS[name]} ")] == []
