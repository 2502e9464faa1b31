"""Write the public address of the repository wherever it stands: `make address URL=https://github.com/owner/bochner`.

The package index shows no pictures and follows no links of a README that are relative: those become whole addresses.
"""

import re
import sys
from pathlib import Path


def with_addresses(readme: str, url: str, root: Path) -> str:
    """The README with whole addresses of pictures and links to files of the repository."""

    def whole(match: re.Match) -> str:
        target = match["target"]
        if not (root / target.partition("#")[0]).exists():  # an address already, or code
            return match[0]
        kind = "raw" if match["picture"] else "blob"
        return f"{match['picture']}[{match['text']}]({url}/{kind}/main/{target})"

    return re.sub(r"(?P<picture>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s#]+(#[^()\s]*)?)\)", whole, readme)


def write_address(url: str, root: Path) -> None:
    """Set it in pyproject.toml, CITATION.cff, mkdocs.yml, README.md and CHANGELOG.md."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+)", url)
    if found is None:
        raise SystemExit(f"expected URL=https://github.com/owner/name, got {url!r}")
    site = f"https://{found[1].lower()}.github.io/{found[2]}/"

    def change(name: str, edit) -> None:
        path = root / name
        path.write_text(edit(path.read_text(encoding="utf-8")), encoding="utf-8")

    def with_line(text: str, key: str, line: str, after: str) -> str:
        text = re.sub(rf"^{key}: .*\n", "", text, flags=re.MULTILINE)
        return re.sub(rf"^({after}: .*\n)", rf"\g<1>{key}: {line}\n", text, flags=re.MULTILINE)

    urls = f"""[project.urls]
Homepage = "{url}"
Documentation = "{site}"
Issues = "{url}/issues"
Changelog = "{url}/blob/main/CHANGELOG.md"

"""
    without = re.compile(r"\[project\.urls\]\n(.+\n)*\n")
    change(
        "pyproject.toml",
        lambda text: without.sub("", text).replace("[project.scripts]\n", f"{urls}[project.scripts]\n"),
    )
    change("CITATION.cff", lambda text: with_line(text, "repository-code", url, after="license"))
    change(
        "mkdocs.yml",
        lambda text: with_line(with_line(text, "repo_url", url, "site_description"), "site_url", site, "repo_url"),
    )
    change("README.md", lambda text: with_addresses(text, url, root))
    versions = re.findall(r"^## \[(.*?)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    links = "".join(f"[{version}]: {url}/releases/tag/v{version}\n" for version in versions)
    change("CHANGELOG.md", lambda text: re.sub(r"\n(\[[\d.]+\]: .*\n)+$", "", text).rstrip("\n") + f"\n\n{links}")


if __name__ == "__main__":
    write_address(sys.argv[1], Path(__file__).parents[1])
