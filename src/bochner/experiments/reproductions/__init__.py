"""The field's published results, done again: one function a result, named as on the command line.

Each takes `quick` (a reduced size) and returns `Findings`; `reproduce` writes the figure, the numbers and the page.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from bochner.experiments.reproductions.findings import Claim, Findings
from bochner.experiments.reproductions.pages import write

# name on the command line: the module, and what it shows. The function has the name with underscores.
REPRODUCTIONS = {
    "kernel-trick": ("liftings", "two rings, a plane, and one more coordinate"),
    "gram-convergence": ("gram_matrices", "the kernel matrix appears as waves are added"),
    "qmc-points": ("points", "random and quasi-random points, and what evenness buys"),
    "gp-posterior": ("posteriors", "a Gaussian process from 3 to 200 waves"),
    "greedy-vs-random": ("sinks", "searching for waves against drawing them"),
    "jl-newsgroups": ("projections", "distances between posts in 0.3 %, 1 % and 10 % of the columns"),
    "mog": ("mixtures", "random projections and mixtures of Gaussians"),
    "kernel-approximation": ("approximations", "six datasets, three pairs of methods"),
    "rff-vs-nystrom": ("eigengaps", "waves against landmarks, with and without an eigengap"),
    "speed": ("speeds", "the published Fastfood speed table, and a fair one"),
    "complexity": ("complexities", "measured exponents of time and memory"),
    "regression-table": ("regressions", "the published regression table under one protocol"),
    "bounds": ("bounds", "uniform bounds against the errors seen"),
}


def reproduce(name: str, *, quick: bool = False, folder: str | os.PathLike[str] = "docs/reproductions") -> list[Path]:
    """Redo a published result and write its figure (PNG, SVG), its numbers (CSV) and a page (Markdown).

    Parameters
    ----------
    name : str
        One of the keys of `bochner.experiments.REPRODUCTIONS`.
    quick : bool, default=False
        A reduced size that ends within seconds; its page says so.
    folder : path, default="docs/reproductions"
        Where the files go.

    Returns
    -------
    list of Path
        The files written; the page is the last.

    Examples
    --------
    >>> import tempfile
    >>> from bochner.experiments import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in reproduce("kernel-trick", quick=True, folder=folder)]
    ['kernel-trick.png', 'kernel-trick.svg', 'kernel-trick.csv', 'kernel-trick.md']
    """
    return write(name, findings_of(name, quick=quick), Path(folder), quick=quick)


def findings_of(name: str, *, quick: bool = False) -> Findings:
    """What `reproduce` writes, as a value."""
    if name not in REPRODUCTIONS:
        raise ValueError(f"no reproduction is called {name!r}; there are {', '.join(REPRODUCTIONS)}.")
    module = import_module(f"{__name__}.{REPRODUCTIONS[name][0]}")
    return getattr(module, name.replace("-", "_"))(quick)


__all__ = ["REPRODUCTIONS", "Claim", "Findings", "findings_of", "reproduce"]
