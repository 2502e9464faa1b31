"""Scores and intervals from rows that had no part in what a model chose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bochner.backends import Array
from bochner.displays import Display

_GROUP_ROWS = 100  # leaves with fewer residuals have intervals of the width for the whole table
_CONSTANT = 1e-14  # targets that deviate by less than this share of the largest are constant up to rounding
NO_BETTER = "no better than a constant, within two standard errors"
_ERRORS = 2.0  # standard errors by which a model must be better than a constant


@dataclass(frozen=True, repr=False)
class HeldOut(Display):
    """Score of rows that had no part in the choice of kernels, scales, penalties and shares.

    Attributes
    ----------
    name : str
        "R²", relative to the mean of the targets that the model learned from, or "accuracy".
    score : float
    error : float
        Standard error of the score.
    constant : float
        Score of a constant prediction on the same rows.
    beats_constant : bool
        True if the squared error is smaller than that of a constant by two standard errors.
    n_rows : int
        Number of held-out rows.
    how : str
        How they were held out.
    """

    name: str
    score: float
    error: float
    constant: float
    beats_constant: bool
    n_rows: int
    how: str

    def __str__(self) -> str:
        return f"{self.score:.4f} ± {self.error:.4f} ({self.n_rows:,} rows, {self.how})"

    def facts(self) -> dict[str, str]:
        """Return what reports print."""
        verdict = {} if self.beats_constant else {"verdict": NO_BETTER}
        return {f"{self.name} (held out)": str(self), **verdict}

    def _facts(self) -> tuple[str, dict[str, str]]:
        return "HeldOut", self.facts()


@dataclass(frozen=True)
class HeldOutRows:
    """Predictions for held-out rows.

    Attributes
    ----------
    rows : ndarray of int, shape (n,)
    values, means : ndarray of shape (n, k)
        Predictions by a model fitted without the row, and by the mean of the targets it was fitted to.
    doubt : float
        Factor of the variance of scores: models fitted to other rows would differ (Nadeau & Bengio 2003).
    """

    rows: Array
    values: Array
    means: Array
    doubt: float = 1.0


def hold_out(n: int, n_folds: int, strata: Array, seed: int) -> list[Array]:
    """Divide n rows into folds, each with its share of every stratum."""
    folds = np.empty(n, dtype=np.intp)
    folds[np.lexsort((np.random.default_rng(seed).permutation(n), strata))] = np.arange(n) % n_folds
    return [np.flatnonzero(folds == fold) for fold in range(n_folds)]


def joined(parts: Sequence[HeldOutRows]) -> HeldOutRows:
    """Concatenate predictions of several folds."""
    rows, values, means = zip(*((part.rows, part.values, part.means) for part in parts), strict=True)
    doubt = sum(part.doubt - 1.0 for part in parts) + 1.0
    return HeldOutRows(np.concatenate(rows), np.concatenate(values), np.concatenate(means), doubt)


def score_numbers(Y: Array, weight: Array, found: HeldOutRows, how: str) -> HeldOut:
    """Score numbers: R², averaged over the targets (n, k) that vary."""
    score, error = _r2(Y[found.rows], weight[found.rows], found)
    return HeldOut("R²", score, error, 0.0, bool(score > _ERRORS * error), len(found.rows), how)


def score_labels(right: Array, commonest: Array, Y: Array, weight: Array, found: HeldOutRows, how: str) -> HeldOut:
    """Score labels: accuracy.

    Parameters
    ----------
    right, commonest : ndarray of shape (n_held_out,)
        True if the model, or the commonest class of its rows, is right.
    Y : ndarray of shape (n, k)
        Signs of all rows. Comparing their squared errors with those of a constant also does justice to rare classes.
    weight, found, how
    """
    w = weight[found.rows]
    score, r2, error = float(np.average(right, weights=w)), *_r2(Y[found.rows], w, found)
    constant = float(np.average(commonest, weights=w))
    own_error = _standard_error(right - score, w, found.doubt)
    return HeldOut("accuracy", score, own_error, constant, bool(r2 > _ERRORS * error), len(w), how)


def _r2(Y: Array, weight: Array, found: HeldOutRows) -> tuple[float, float]:
    """R² and its standard error, from the influence of each row on a ratio of means."""
    errors, spreads = np.square(Y - found.values), np.square(Y - found.means)
    means = np.average(spreads, axis=0, weights=weight)
    varies = np.sqrt(means) > _CONSTANT * np.abs(Y).max(axis=0)
    if not varies.any():
        return 0.0, 0.0
    lost = np.average(errors, axis=0, weights=weight)[varies] / means[varies]
    influences = (lost * spreads[:, varies] - errors[:, varies]) / means[varies]
    return float(np.mean(1.0 - lost)), _standard_error(influences.mean(axis=1), weight, found.doubt)


def _standard_error(influences: Array, weight: Array, doubt: float) -> float:
    """Standard error of a weighted mean of numbers whose mean is zero."""
    n = len(weight)
    return float(np.sqrt(doubt * np.square(weight * influences).sum() * n / max(1, n - 1)) / weight.sum())


@dataclass(frozen=True)
class Residuals:
    """Absolute residuals (n, k) of held-out rows, the leaves these rows fall in, and their weights."""

    sizes: Array
    leaves: Array
    weight: Array

    def widths(self, leaves: Array, coverage: float) -> Array:
        """Half the widths of intervals (n, k) for rows that fall in these leaves.

        A leaf with enough residuals has a width of its own; all others share that of the whole table.
        """
        widths = np.repeat(conformal_widths(self.sizes, self.weight, coverage)[None], len(leaves), axis=0)
        for leaf in np.unique(leaves):
            own = self.leaves == leaf
            weight = self.weight[own]
            if own.any() and weight.sum() ** 2 >= _GROUP_ROWS * np.square(weight).sum():  # effective number of rows
                widths[leaves == leaf] = conformal_widths(self.sizes[own], weight, coverage)
        return widths


def conformal_widths(errors: Array, weight: Array, coverage: float) -> Array:
    """Return the (n + 1) coverage-th smallest of n errors, by column; the largest if that number exceeds n.

    With weights, it is the smallest error with that share of the weight at or below it, if a new row has the mean
    weight.
    """
    order = np.argsort(errors, axis=0, kind="stable")
    below = np.cumsum(weight[order], axis=0)
    wanted = (below[-1] + weight.mean()) * coverage * (1.0 - 1e-12)
    at = np.minimum((below < wanted).sum(axis=0), len(errors) - 1)
    return np.asarray(np.take_along_axis(errors, order, axis=0)[at, np.arange(errors.shape[1])])
