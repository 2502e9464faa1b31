"""Reports of table models."""

from __future__ import annotations

from dataclasses import dataclass

from bochner.displays import Display
from bochner.tables.held_out import HeldOut


@dataclass(frozen=True, repr=False)
class TableReport(Display):
    """What was done with a table, and why.

    Attributes
    ----------
    columns : dict
        What each column became.
    tried : dict
        Leave-one-out error of each kernel and scaling tried on a sample, over the targets' standard deviation.
    used : tuple of str
        The members of the model, with their shares.
    leaf_sizes : tuple of int
        Numbers of rows that leaves learn from, of the member with the most leaves.
    held_out : HeldOut
        Score of rows that had no part in what was chosen.
    notes : tuple of str
    """

    columns: dict[str, str]
    tried: dict[str, float]
    used: tuple[str, ...]
    leaf_sizes: tuple[int, ...]
    held_out: HeldOut
    notes: tuple[str, ...]

    def _facts(self) -> tuple[str, dict[str, str]]:
        tried = sorted(self.tried.items(), key=lambda item: item[1])
        sizes = self.leaf_sizes
        facts = {
            "used": ", ".join(self.used),
            **self.held_out.facts(),
            "tried on a sample": ", ".join(f"{name} {error:.4f}" for name, error in tried),
            "leaves": f"{len(sizes)} of {min(sizes)} to {max(sizes)} rows",
            **{f"column {name}": why for name, why in self.columns.items()},
        }
        return "TableReport", {**facts, **({"notes": "; ".join(self.notes)} if self.notes else {})}
