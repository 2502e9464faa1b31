"""Reports of table models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TableReport:
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
        Numbers of rows that the leaves of the first member learn from.
    left_out_error : float
        Leave-one-out root mean squared error, over the targets' standard deviation.
    notes : tuple of str
    """

    columns: dict[str, str]
    tried: dict[str, float]
    used: tuple[str, ...]
    leaf_sizes: tuple[int, ...]
    left_out_error: float
    notes: tuple[str, ...]

    def __str__(self) -> str:
        lines = ["columns:"]
        lines += [f"  {name}: {why}" for name, why in self.columns.items()]
        lines += ["error of rows left out of a sample, as a share of the targets' deviation:"]
        lines += [f"  {name}: {error:.4f}" for name, error in sorted(self.tried.items(), key=lambda item: item[1])]
        lines += [f"used: {', '.join(self.used)}"]
        sizes = self.leaf_sizes
        lines += [f"leaves: {len(sizes)} of {min(sizes)} to {max(sizes)} rows"]
        lines += [f"error of rows left out: {self.left_out_error:.4f}", *self.notes]
        return "\n".join(lines)
