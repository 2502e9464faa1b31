"""Whether what is tagged is what is released: `python .ci/check_version.py v1.2.3`."""

import re
import sys
from pathlib import Path


def faults(tag: str, root: Path) -> list[str]:
    """What is to be done before the release, a sentence each."""
    text = {
        name: (root / name).read_text(encoding="utf-8")
        for name in ("src/bochner/version.py", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "README.md")
    }
    [version] = re.findall(r'__version__ = "(.*)"', text["src/bochner/version.py"])
    holds = {
        f"expected TAG=v{version}, the version in src/bochner/version.py, got {tag!r}.": tag == f"v{version}",
        f"expected a line '## [{version}] - date' in CHANGELOG.md.": re.search(
            rf"^## \[{re.escape(version)}\] - 20", text["CHANGELOG.md"], re.MULTILINE
        ),
        f"expected 'version: {version}' in CITATION.cff.": f"\nversion: {version}\n" in text["CITATION.cff"],
        "expected [project.urls] in pyproject.toml, where the source and its issues are public: make address.": (
            "\n[project.urls]\n" in text["pyproject.toml"]
        ),
        "expected whole addresses of the pictures in README.md, as the package index shows no others: make address.": (
            not re.search(r"!\[.*\]\(docs/", text["README.md"])
        ),
    }
    return [sentence for sentence, done in holds.items() if not done]


if __name__ == "__main__":
    sys.exit("\n".join(faults(" ".join(sys.argv[1:]), Path(__file__).parents[1])) or None)
