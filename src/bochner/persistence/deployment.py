"""What predictions need of a fitted model, and nothing else."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.kernel_kmeans import KernelKMeans
from bochner.estimators.ridge import KernelRidge
from bochner.features.nystrom import KernelColumns
from bochner.lab.projected_mixture import ProjectedMixture
from bochner.ridge.solution import RidgeSolution
from bochner.ridge.statistics import RidgeStatistics


def for_predictions(model: Any, *, fold: bool = True) -> Any:
    """Return a copy of a model that predicts the same, to the last bit.

    Labels of the training rows are left out, and of sums all but the number of rows. With `fold`, the coefficients of
    Nyström features Z = k(X, landmarks) A become those of kernel values, A w, so that A, n_components² numbers, is not
    needed.
    """
    if type(model) in (KernelKMeans, ProjectedMixture):
        made = copy(model)
        vars(made).pop("labels_", None)
        return made
    if type(model) not in (KernelRidge, KernelClassifier) or not hasattr(model, "feature_map_"):
        return model
    made = copy(model)
    if hasattr(model, "ridge_"):  # a classifier with squared loss
        made.ridge_ = for_predictions(model.ridge_, fold=fold)
        made.features_, made.feature_map_ = made.ridge_.features_, made.ridge_.feature_map_
        return made
    columns, matrix = model.feature_map_.factored()
    feature_map, transformer, root = model.feature_map_, model.features_, None
    if fold and isinstance(columns, KernelColumns):
        root = matrix.astype(np.float64, copy=False)
        feature_map = KernelColumns(replace(columns.nystrom, root=matrix[:, :0], n_components=0, triangular=False))
        transformer = copy(transformer)
        transformer.feature_map_ = feature_map
    if isinstance(model, KernelRidge):
        made._keep(
            replace(
                model._found,
                transformer=transformer,
                feature_map=feature_map,
                statistics=_counts(model.statistics_),
                solution=_folded(model._current(), root),
            )
        )
    else:
        made.features_, made.feature_map_ = transformer, feature_map
        made._coefficients = model._coefficients if root is None else root @ model._coefficients
    return made


def _folded(solution: RidgeSolution, root: Array | None) -> RidgeSolution:
    return solution if root is None else replace(solution, coefficients=root @ solution.coefficients)


def _counts(statistics: RidgeStatistics) -> RidgeStatistics:
    """Return sums of no features, which still hold the number of rows."""
    made = RidgeStatistics(0, statistics.n_targets, with_gram=False)
    made.weight, made.n_samples = statistics.weight, statistics.n_samples
    return made
