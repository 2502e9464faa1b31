"""What a model scores on rows left out, beside a linear model and a constant."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bochner.backends import Array
from bochner.estimators import NystromFeatures

_MOST_ROWS = 20_000  # that the models are tried on
_FEWEST_ROWS = 10


@dataclass(frozen=True)
class Scores:
    """Shares of right labels, or R²; NaN where there are too few rows to say."""

    model: float
    linear: float
    constant: float
    how: str

    @property
    def verdict(self) -> str | None:
        """A sentence where the model is no better than a plain one."""
        if self.model <= self.constant:
            return "no better than a constant: from these columns nothing was learned"
        return "a linear model is as good: use that" if self.model <= self.linear else None

    def __str__(self) -> str:
        shown = [f"{value:.4f}" if np.isfinite(value) else "none" for value in (self.model, self.linear, self.constant)]
        return f"{shown[0]}; a linear model has {shown[1]}, a constant {shown[2]} ({self.how})"


def _linear(y: Array, X: Any, classifies: bool) -> Any:
    model = LogisticRegression(max_iter=300) if classifies else RidgeCV(np.logspace(-3, 3, 7))
    return make_pipeline(StandardScaler(with_mean=not scipy.sparse.issparse(X)), model)


def beside_plain_models(score: float, A: Array, y: Array, classifies: bool) -> Scores:
    """A leave-one-out score beside those of plain models, by cross-validation in five folds."""
    rows = np.random.default_rng(0).permutation(len(A))[:_MOST_ROWS]
    A, y = A[rows], y[rows]
    counts = np.unique(y, return_counts=True)[1] if classifies else np.array([len(y)])
    folds = int(min(5, counts.min() if classifies else len(y) // 2))
    constant, linear = float(counts.max() / len(y)) if classifies else 0.0, float("nan")
    if folds >= 2:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            linear = float(np.mean(cross_val_score(_linear(y, A, classifies), A, y, cv=folds)))
    return Scores(score, linear, constant, "leave-one-out; linear model: five folds")


def held_out(model: Any, X: Any, y: Array) -> Scores:
    """Scores at a fifth of the rows, of models fitted to the others; ours with what was chosen for all rows."""
    classifies = is_classifier(model)
    rows = np.random.default_rng(0).permutation(X.shape[0])[:_MOST_ROWS]
    test, train = rows[: len(rows) // 5], rows[len(rows) // 5 :]
    if len(rows) < _FEWEST_ROWS or len(np.unique(y[train])) < 2:
        return Scores(np.nan, np.nan, np.nan, "too few rows to leave some out")
    chosen = {"kernel": model.features_.kernel_, "n_components": model.n_components_, "alpha": model.alpha_}
    chosen["features"] = "nystrom" if isinstance(model.features_, NystromFeatures) else "fourier"
    again = clone(model).set_params(**chosen, verbose=0)
    plain = (_linear(y, X, classifies), DummyClassifier() if classifies else DummyRegressor())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own, linear, constant = (float(m.fit(X[train], y[train]).score(X[test], y[test])) for m in (again, *plain))
    return Scores(own, linear, constant, f"{len(test):,} rows held out")
