"""Scores of a model for held-out rows, beside those of a linear model and a constant."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner.backends import Array
from bochner.cli.tables import Recipe, target_columns
from bochner.data.frames import is_frame
from bochner.tables.columns import encode_columns, plan_columns, raw_columns
from bochner.tables.held_out import NO_BETTER, HeldOut, HeldOutRows, score_numbers

if TYPE_CHECKING:
    from pandas import DataFrame
    from scipy.sparse import spmatrix

_MOST_ROWS = 20_000  # largest number of rows on which models are compared
_FEWEST_ROWS = 10  # smallest number of rows of which some are held out


@dataclass(frozen=True)
class Scores:
    """The score of a model and that of a linear one; NaN if there are too few rows."""

    model: HeldOut
    linear: float
    linear_how: str = ""

    @property
    def verdict(self) -> str | None:
        """Advice if a simpler model is as good; None otherwise."""
        if not self.model.beats_constant and np.isfinite(self.model.score):
            return NO_BETTER
        return "a linear model is as good: use that" if self.model.score <= self.linear else None

    def __str__(self) -> str:
        plain = [f"{value:.4f}" if np.isfinite(value) else "none" for value in (self.linear, self.model.constant)]
        if not np.isfinite(self.model.score):
            return f"none: {self.model.how}"
        own = f"{self.model.score:.4f} ± {self.model.error:.4f}"
        how = f"{self.model.n_rows:,} rows, {self.model.how}{self.linear_how}"
        return f"{own}; a linear model has {plain[0]}, a constant {plain[1]} ({how})"


def _linear(X: Array | spmatrix, classifies: bool) -> Pipeline:
    model = LogisticRegression(max_iter=300) if classifies else RidgeCV(np.logspace(-3, 3, 7))
    return make_pipeline(StandardScaler(with_mean=not scipy.sparse.issparse(X)), model)


def _encoded(raw: list[tuple[str, Array]], y: Array, train: Array, test: Array) -> tuple[Array, Array]:
    """Turn columns into numbers as a model of tables does, by the targets of the training rows alone."""
    known, new = ([(kind, values[part]) for kind, values in raw] for part in (train, test))
    columns, A = plan_columns(range(len(raw)), known, target_columns(y)[train], np.ones(len(train)), 0)
    return A, encode_columns(columns, new)


def beside_plain_models(score: HeldOut, X: DataFrame | Array | spmatrix, y: Array, classifies: bool) -> Scores:
    """Set the score of a table model beside that of a linear model, by five-fold cross-validation."""
    raw = raw_columns(X.toarray() if scipy.sparse.issparse(X) else X)  # type: ignore[union-attr]
    rows = np.random.default_rng(0).permutation(len(y))[:_MOST_ROWS]
    raw, y = [(kind, values[rows]) for kind, values in raw], y[rows]
    codes = np.unique(y, return_inverse=True)[1] if classifies else y
    n_folds = int(min(5, np.bincount(codes).min() if classifies else len(y) // 2))
    found = []
    for train, test in (StratifiedKFold if classifies else KFold)(n_folds).split(y, codes) if n_folds >= 2 else ():
        A, B = _encoded(raw, y, train, test)
        if not A.shape[1]:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(_linear(A, classifies).fit(A, y[train]).score(B, y[test]))
    return Scores(score, float(np.mean(found)) if found else np.nan, "; linear model: five folds")


def held_out(model: BaseEstimator, X: DataFrame | Array | spmatrix, y: Array, *, standardize: bool = True) -> Scores:
    """Score a model like this one, chosen and fitted without a fifth of the rows, and a linear one, on that fifth.

    Columns X become numbers by the other rows alone.
    """
    classifies = is_classifier(model)
    rows = np.random.default_rng(0).permutation(X.shape[0])[:_MOST_ROWS]
    test, train = rows[: len(rows) // 5], rows[len(rows) // 5 :]
    name = "accuracy" if classifies else "R²"
    none = Scores(HeldOut(name, np.nan, np.nan, np.nan, False, 0, "too few rows to hold some out"), np.nan)
    if len(rows) < _FEWEST_ROWS or len(np.unique(y[train])) < 2:
        return none
    A, B = _encoded(raw_columns(X), y, train, test) if is_frame(X) else (X[train], X[test])
    if not A.shape[1]:
        return none
    recipe = Recipe(()).standardising(A) if standardize else Recipe(())
    A, B = recipe.numbers(A), recipe.numbers(B)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = clone(model).set_params(verbose=0).fit(A, y[train]).predict(B)
        linear = float(_linear(A, classifies).fit(A, y[train]).score(B, y[test]))
    how = "chosen and fitted without them"
    if not classifies:
        means = np.full((len(test), 1), y[train].mean())
        found = HeldOutRows(test, np.reshape(predicted, (-1, 1)), means)
        return Scores(score_numbers(np.reshape(y, (-1, 1)), np.ones(len(y)), found, how), linear)
    classes, counts = np.unique(y[train], return_counts=True)
    right, commonest = predicted == y[test], y[test] == classes[counts.argmax()]
    score, gain = float(right.mean()), right * 1.0 - commonest
    error = float(right.std() / np.sqrt(len(test)))
    better = bool(gain.mean() > 2.0 * gain.std() / np.sqrt(len(test)))
    return Scores(HeldOut(name, score, error, float(commonest.mean()), better, len(test), how), linear)
