"""Counts of the source that only go down: how entangled it is, and how it reads. Lower a limit when a count falls."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import bochner

SOURCE = Path(bochner.__file__).parent
FILES = {".".join(("bochner", *p.relative_to(SOURCE).with_suffix("").parts)): p for p in SOURCE.rglob("*.py")}
FILES = {name.removesuffix(".__init__"): path for name, path in sorted(FILES.items())}
TEXTS = {name: path.read_text("utf-8") for name, path in FILES.items()}
TREES = {name: ast.parse(text) for name, text in TEXTS.items()}
NO_VERB = re.compile(r"(Of|As|What|Another|Whether|Where|How|Which|The|A|An|One|Those|That|So)\b")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def executed_by(body):
    """Names of modules that statements import when they run; not those that only type checkers read."""
    for node in body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "bochner":
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)):
                yield from executed_by(node.body)
            yield from executed_by(getattr(node, "orelse", []))


@cache
def imports(name):
    """Modules that importing one executes, with the packages they are in."""
    parts = [found.split(".") for found in executed_by(TREES[name].body)]
    return {".".join(p[:i]) for p in parts for i in range(1, len(p) + 1)} & set(FILES)


def closure(name):
    seen, todo = set(), [name]
    while todo:
        if (one := todo.pop()) not in seen:
            seen.add(one)
            todo += imports(one)
    return seen


# public name: limits of the modules and lines that importing its module executes
IMPORTED = {
    "estimators.fourier": (44, 8_224),
    "estimators.ridge": (85, 17_907),
    "tables.estimators": (95, 20_227),
}


@pytest.mark.parametrize("module", IMPORTED)
def test_importing_one_class_does_not_import_them_all(module):
    found = closure(f"bochner.{module}")
    most_modules, most_lines = IMPORTED[module]
    assert len(found) <= most_modules, sorted(found)
    assert sum(TEXTS[name].count("\n") for name in found) <= most_lines


def body_lines(node):
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def is_own(owner):
    """Whether a private attribute is read from the object itself, or from a library that has no other way."""
    if isinstance(owner, ast.Name):
        return owner.id in ("self", "cls", "np", "torch", "da")
    return isinstance(owner, ast.Call) and getattr(owner.func, "id", "") == "super"


def kinds(name, node):
    """What a node counts as."""
    if isinstance(node, DEFINITIONS):
        if NO_VERB.match((ast.get_docstring(node) or "").strip()):
            yield "docstrings of functions that open without a verb"
        if body_lines(node) > 40:
            yield "functions of more than 40 lines"
        arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
        if len(arguments) > 10 and node.name != "__init__" and "_triton" not in name:
            yield "functions of more than 10 arguments"
    elif isinstance(node, ast.Attribute):
        if node.attr.startswith("_") and not node.attr.startswith("__") and not is_own(node.value):
            yield "private attributes of other objects"
    elif isinstance(node, ast.Call):
        if getattr(node.func, "id", "") in ("hasattr", "getattr", "setattr", "delattr"):
            yield "hasattr, getattr, setattr"
    elif isinstance(node, ast.Name) and node.id == "Any":
        yield "Any"


def is_number(node):
    """Whether a statement of a module gives a plain number, or several, a name."""
    value = getattr(node, "value", None)
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or value is None:
        return False
    plain = (ast.Constant, ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
    inside = list(ast.walk(value))
    numbers = [n for n in inside if isinstance(n, ast.Constant) and type(n.value) in (int, float)]
    return bool(numbers) and all(isinstance(n, plain) for n in inside)


def counts():
    found = Counter()
    for name, tree in TREES.items():
        found.update(kind for node in ast.walk(tree) for kind in kinds(name, node))
        found["modules that read the clock"] += bool(
            re.search(r"perf_counter|time\.monotonic|time\.time\(", TEXTS[name])
        )
        if not name.startswith("bochner.backends") and name != "bochner.tuning.policies":
            found["numeric constants outside policies and backends"] += sum(map(is_number, tree.body))
    return found


LIMITS = {
    "Any": 775,
    "docstrings of functions that open without a verb": 65,
    "functions of more than 10 arguments": 1,
    "functions of more than 40 lines": 10,
    "hasattr, getattr, setattr": 122,
    "modules that read the clock": 3,
    "numeric constants outside policies and backends": 237,
    "private attributes of other objects": 50,
}


@pytest.mark.parametrize("kind", LIMITS)
def test_counts_only_go_down(kind):
    assert counts()[kind] <= LIMITS[kind]
