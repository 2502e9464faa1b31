"""What the site has besides the pages of docs/: the gallery, run when the site is built, and pages of results.

A hook of mkdocs (mkdocs.yml names it). `run_example` is also what the tests call.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import runpy
import tempfile
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
RESULTS = sorted((ROOT / "benchmarks/results").glob("*.md"))
GROUPS = {  # the order in which the gallery shows them
    "Features of a kernel": (
        *("kernel_trick", "features_converge", "sampling_schemes", "structured_speed", "landmarks"),
        *("drop_in", "invariant_kernel", "text"),
    ),
    "Models": (
        *("kernel_ridge", "learned_metric", "digits", "tables_and_boosting", "gaussian_process", "co2"),
        *("kernel_pca", "two_samples"),
    ),
    "Size and certainty": ("certificates", "million_rows", "cluster", "gpu", "low_rank"),
}


class Example:
    """A script of the gallery: its title and text are those of its docstring."""

    def __init__(self, path: Path) -> None:
        self.path, self.name, source = path, path.stem, path.read_text(encoding="utf-8")
        text = ast.get_docstring(ast.parse(source)) or ""
        self.title, _, self.text = text.partition("\n\n")
        self.title, self.code = self.title.rstrip("."), source.split('"""', 2)[2].strip()


def run_example(path: Path, pictures: Path) -> tuple[str, list[Path], dict[str, Any]]:
    """Run a script as a user would, in a folder of its own: what it printed, its pictures, and its names."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    said, found = io.StringIO(), []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(said):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*non-interactive.*")  # plt.show() where there is no screen
            names = runpy.run_path(str(path), run_name="__main__")
        for number in plt.get_fignums():
            found.append(pictures / f"{path.stem}{number if number > 1 else ''}.png")
            plt.figure(number).savefig(found[-1], dpi=110)
        plt.close("all")
    return said.getvalue(), found, names


def gallery_page(example: Example, said: str | None, pictures: list[Path], problem: str = "") -> str:
    """The page of an example as Markdown."""
    parts = [f"# {example.title}", example.text]
    parts += [f"![{example.title}]({picture.name})" for picture in pictures]
    parts.append(f"```python\n{example.code}\n```")
    if said:
        parts.append(f"It prints\n\n```text\n{said.rstrip()}\n```")
    if problem:
        parts.append(f"*Not run when this page was built: {problem}.*")
    parts.append(f"`python examples/{example.name}.py` runs it. [All examples](../gallery.md)")
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Run every example; add its page and pictures, and the pages of results."""
    from mkdocs.structure.files import File, InclusionLevel

    def add(uri: str, content: str | bytes) -> None:
        file = File.generated(config, uri, content=content, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(file)

    for page in RESULTS:
        add(f"results/{page.name}", page.read_text(encoding="utf-8"))
    config.extra["gallery"] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in EXAMPLES:
            example, said, pictures, problem = Example(path), None, [], ""
            try:
                said, pictures, _ = run_example(path, Path(folder))
            except ImportError as error:
                if not error.name or error.name.startswith("bochner"):
                    raise
                problem = f"it needs {error.name}"
            add(f"gallery/{example.name}.md", gallery_page(example, said, pictures, problem))
            for picture in pictures:
                add(f"gallery/{picture.name}", picture.read_bytes())
            config.extra["gallery"][example.name] = (example.title, bool(pictures))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links to files of the repository lead to their pages here; the gallery's page shows all pictures."""
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri in ("index.md", "tutorial.md", "gallery.md") or page.file.src_uri.startswith("gallery/"):
        page.meta["hide"] = ["navigation"]  # they have no neighbours
    markdown = re.sub(r"\]\((?:\.\./)+benchmarks/results/", f"]({up}results/", markdown)
    if page.file.src_uri == "gallery.md":
        markdown = markdown.replace("[`examples/`](../examples)", "`examples/`")
        found = config.extra["gallery"]
        for group, names in GROUPS.items():
            cards = "\n".join(_card(name, *found[name]) for name in names)
            markdown += f'\n## {group}\n\n<div class="gallery" markdown>\n{cards}\n</div>\n'
    return markdown


def _card(name: str, title: str, drawn: bool) -> str:
    picture = f"![](gallery/{name}.png)" if drawn else ""
    return f"[{picture}{title}](gallery/{name}.md)"
