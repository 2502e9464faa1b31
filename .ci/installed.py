"""What a user does first, with bochner as it is installed: `python installed.py README.md`, outside the source tree."""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import bochner
from bochner.backends.native import level, levels

place = Path(bochner.__file__).resolve()
site = Path(sysconfig.get_path("platlib")).resolve()
assert place.is_relative_to(site), f"expected the installed package in {site}, found {place}"
print(f"bochner {bochner.__version__}, {level()} of {', '.join(levels())}")

script = Path(sysconfig.get_path("scripts")) / ("bochner.exe" if sys.platform == "win32" else "bochner")
said = subprocess.run([script, "doctor"], check=True, capture_output=True, text=True).stdout
print(said)
for word in ("processor", "native code", bochner.__version__, "pip install 'bochner[torch]'"):
    assert word in said, f"bochner doctor does not say {word!r}"

lines = re.search(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(encoding="utf-8"), re.DOTALL)
assert lines, "expected Python code in the README"
names: dict = {}
exec(lines[1], names)
assert names["model"].score(names["X_test"], names["y_test"]) > 0.98
print("the README's lines run")
