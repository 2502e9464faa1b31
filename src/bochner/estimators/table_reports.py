"""What a model of a table says of itself."""

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
        Error of rows left out of each kernel and scaling tried on a sample, as a share of the targets' deviation.
    used : tuple of str
        What the model is made of, with shares.
    leaf_sizes : tuple of int
        Rows that each leaf of the first of these learns from.
    left_out_error : float
        Root mean square error of rows left out, as a share of the targets' standard deviation.
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
