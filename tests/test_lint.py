"""Lint is part of the tests: style, types and the format of the C++."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
COMMANDS = {
    "ruff": [BIN / "ruff", "check", "."],
    "format": [BIN / "ruff", "format", "--check", "."],
    "mypy": [BIN / "mypy"],
    "clang-format": [BIN / "clang-format", "--dry-run", "--Werror", *sorted((ROOT / "native").glob("*.?pp"))],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_lint(name):
    if not Path(COMMANDS[name][0]).exists():
        pytest.skip(f"{name} is not installed here; `make test` installs it")
    done = subprocess.run([str(part) for part in COMMANDS[name]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
