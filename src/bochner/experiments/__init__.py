"""Comparisons on the user's data, and the field's published results done again."""

from bochner.experiments.reproductions import REPRODUCTIONS, reproduce

__all__ = ["REPRODUCTIONS", "reproduce"]
