"""Fits that are interrupted at a certain point, and rows that are changed a little."""

from contextlib import contextmanager

import numpy as np
import pytest

from bochner.data.checkpoints import Checkpoint


@contextmanager
def struck_after(n):
    """Ctrl-C when so many blocks have been added to the sums; where they are added up in a tree, so many rounds."""
    original, calls = Checkpoint.maybe_save, []

    def strike(self, *arguments):
        calls.append(1)
        if len(calls) == n:
            raise KeyboardInterrupt
        return original(self, *arguments)

    Checkpoint.maybe_save = strike
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        Checkpoint.maybe_save = original


def nudged(array, row):
    """One number of a row moved by its last bit."""
    array = array.copy()
    array[row : row + 1].flat[-1] = np.nextafter(array[row : row + 1].flat[-1], 9.0)
    return array


def swapped(array, i, j):
    """Two rows, i < j, in each other's place."""
    return array[np.r_[:i, j, i + 1 : j, i, j + 1 : len(array)]]


def changes(last):
    """Functions (X, y, weight) → the same, changed among the rows 0 … last, by the kind of what they change."""
    rows = (0, last // 2, last)
    return {
        "features": [
            *(lambda X, y, w, row=row: (nudged(X, row), y, w) for row in rows),
            lambda X, y, w: tuple(swapped(a, 10, 11) for a in (X, y, w)),
        ],
        "targets": [lambda X, y, w, row=row: (X, nudged(y, row), w) for row in rows],
        "weights": [lambda X, y, w, row=row: (X, y, nudged(w, row)) for row in rows],
    }
