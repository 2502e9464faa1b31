"""The field's published results, done again: a module for each, named as on the command line.

A module NAME has a function NAME, which takes `quick` (a reduced size) and returns `Findings`; `reproduce` writes its
figure, its numbers and its page. This package uses the library; of the library, only the command `bochner reproduce`
knows it.
"""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from bochner_reproductions.findings import Claim, Findings, verdicts, write

# Name on the command line: what it shows. Module and function have underscores for hyphens.
REPRODUCTIONS = {
    "kernel-trick": "two rings, a plane, and one more coordinate",
    "kernel-losses": "regression and two classes of one variable, with three losses",
    "gram-convergence": "the kernel matrix appears as Fourier features are added",
    "qmc-points": "random and quasi-random points, and the errors they give",
    "gp-posterior": "a Gaussian process from 3 to 200 Fourier features",
    "greedy-vs-random": "searching for frequencies against drawing them",
    "jl-newsgroups": "distances between posts after projection to 0.3 %, 1 % and 10 % of the dimensions",
    "mog": "random projections and mixtures of Gaussians",
    "kernel-approximation": "six datasets, three pairs of methods",
    "rff-vs-nystrom": "Fourier features against landmarks, with and without an eigengap",
    "speed": "the published Fastfood speed table, and a fair one",
    "complexity": "measured exponents of time and memory",
    "regression-table": "the published regression table under one protocol",
    "bounds": "uniform bounds against the errors seen",
}


def reproduce(name: str, *, quick: bool = False, folder: str | os.PathLike[str] = "docs/reproductions") -> list[Path]:
    """Redo a published result and write its figure (PNG, SVG), its numbers (CSV) and a page (Markdown).

    Parameters
    ----------
    name : str
        One of the keys of `REPRODUCTIONS`.
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
    >>> from bochner_reproductions import reproduce
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in reproduce("kernel-trick", quick=True, folder=folder)]
    ['kernel-trick.png', 'kernel-trick.svg', 'kernel-trick.csv', 'kernel-trick.md']
    """
    import_module("bochner.comparison.charts")  # where matplotlib is missing, it is said before the work
    return write(name, findings_of(name, quick=quick), Path(folder), quick=quick)


def findings_of(name: str, *, quick: bool = False) -> Findings:
    """What `reproduce` writes, as a value."""
    if name not in REPRODUCTIONS:
        raise ValueError(f"no reproduction is called {name!r}; there are {', '.join(REPRODUCTIONS)}.")
    short = name.replace("-", "_")
    module = import_module(f"{__name__}.{short}")
    # the criterion of a page is the documentation of the function that decides, in one paragraph
    return replace(getattr(module, short)(quick), criterion=" ".join(module.claims.__doc__.split()))


__all__ = ["REPRODUCTIONS", "Claim", "Findings", "findings_of", "reproduce", "verdicts"]
