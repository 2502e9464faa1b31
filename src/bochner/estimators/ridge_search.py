"""``KernelRidge(n_components="auto")``: as few components as its tolerance needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.certificates import Budget, Certificate, ComponentSearch
from bochner.estimators.excess_risk import NestedRidge, RowSplit, exact_excess_risk, excess_risk
from bochner.estimators.models import numeric_targets
from bochner.estimators.ridge_solution import RidgeSolution
from bochner.features import FeatureMap, Fourier
from bochner.kernels import Kernel
from bochner.keys import Key
from bochner.statistics import RidgeStatistics
from bochner.streaming import Source

if TYPE_CHECKING:
    from bochner.estimators.ridge import KernelRidge

_FIRST_COMPONENTS = 256  # of the first reference model
_PENALTY_COMPONENTS = 512  # up to which each model chooses its own penalty; larger ones take over the last one chosen
_FEW_COMPONENTS = 2048  # which the search may reach however few the rows


@dataclass(frozen=True)
class FittedFeatures:
    """Features of a model, and the sums and the solution where they are known already."""

    transformer: Any
    feature_map: FeatureMap
    statistics: RidgeStatistics | None = None
    solution: RidgeSolution | None = None


class RidgeSearch:
    """Searches for the number of components of a `KernelRidge`.

    A reference model with at least twice as many components is fitted once; its sums contain those of every smaller
    number of its components, so that trying one costs no pass over the data. But m landmarks chosen as such are better
    than the first m of many, and few of them prefer another penalty. So the final certificate is that of the landmarks
    and the penalty that the model will have.

    Parameters
    ----------
    model : KernelRidge
        Fits features, makes sums and chooses penalties.
    source : Source
    kernel : Kernel
        With numbers as length scales.
    key : Key
    """

    def __init__(self, model: KernelRidge, source: Source, kernel: Kernel, key: Key) -> None:
        self.model, self.source, self.kernel, self.key = model, source, kernel, key
        self.uses_landmarks = model._features_name(kernel) == "nystrom"
        self.split = RowSplit.of(source, key.child("left out"))
        self.budget = self._limits()
        self.folds: list[RowSplit] = []
        self.references: list[NestedRidge] = []  # one for each fold
        self.fitted: dict[int, FittedFeatures] = {}  # of the first fold, by number of components

    def run(self) -> tuple[FittedFeatures, Certificate]:
        """The features to use, and the excess risk that was certified."""
        search = ComponentSearch(self._certify, self.model.tol, self.budget, rate=1.0, repeats=2)
        n_components, certificate = search.run()
        if n_components in self.fitted:
            return self.fitted[n_components], certificate
        found = self.model._fit_features(self.source, self.kernel, n_components, self.key, nested=True)
        return FittedFeatures(*found), certificate

    def _limits(self) -> Budget:
        model, n_samples = self.model, self.source.n_samples
        ceiling = None
        if n_samples is not None:
            # the m³ operations of the eigendecomposition shall not exceed the n m² of the pass
            ceiling = max(_FEW_COMPONENTS, n_samples // 16)
            ceiling = min(ceiling, n_samples if self.uses_landmarks else 2 * n_samples)
        return Budget(
            model.max_components,
            model.max_seconds,
            model.max_bytes,
            bytes_for=lambda n_components: 8.0 * n_components**2,  # of the sums
            ceiling=ceiling,
            because=f"with {n_samples} rows more are not tried; give n_components as a number to have more",
        )

    def _certify(self, n_components: int, sample: str) -> Certificate:
        if self.uses_landmarks and n_components == self.source.n_samples:
            return exact_excess_risk(n_components)
        self._enlarge_reference(n_components)
        candidates: list[NestedRidge] = []
        reference = self.references[0]
        if sample == "final" and self.uses_landmarks and n_components < reference.n_requested:
            alpha = None if n_components <= _PENALTY_COMPONENTS else reference.alpha
            candidates = self._fit_folds(n_components, alpha)
        return excess_risk(self.references, n_components, candidates)

    def _enlarge_reference(self, n_components: int) -> None:
        """Fit reference models with at least twice as many components, where the budget allows, unless there are."""
        most = min(self.budget.most, self.split.most_landmarks) if self.uses_landmarks else self.budget.most
        size = min(most, max(_FIRST_COMPONENTS, 1 << (2 * n_components - 1).bit_length()))
        last = self.references[0] if self.references else None
        if last is not None and size <= last.n_requested:
            return
        # a penalty means the same for any number of components, so it is chosen while they are few
        alpha = last.alpha if last is not None and size > _PENALTY_COMPONENTS else None
        self.folds = (self.split.for_landmarks(size) if self.uses_landmarks else self.split.for_fourier()).folds()
        self.fitted.clear()
        self.references = self._fit_folds(size, alpha)

    def _fit_folds(self, n_components: int, alpha: float | None) -> list[NestedRidge]:
        """A model for each fold; with alpha None, the first one chooses the penalty of all."""
        models: list[NestedRidge] = []
        for fold in self.folds:
            models.append(self._fit_fold(n_components, fold, alpha))
            alpha = models[0].alpha
        return models

    def _fit_fold(self, n_components: int, fold: RowSplit, alpha: float | None) -> NestedRidge:
        """A model of all rows whose features do not depend on the rows that the fold measures."""
        model, rows, solution = self.model, fold.measured, None
        found = model._fit_features(fold.others, self.kernel, n_components, self.key, nested=True)
        feature_map = found[1]
        statistics = RidgeStatistics(feature_map.n_components, int(np.prod(model._target_shape, dtype=int)))
        model._accumulate(self.source, feature_map, statistics)
        if not statistics.n_samples:
            raise ValueError("every row has weight zero.")
        if alpha is None:
            # on all rows of the sample: few of them choose anything from a third to three times the penalty
            solution = model._solve(statistics, self.split.pool, feature_map)
            alpha = solution.alpha
        self.fitted.setdefault(n_components, FittedFeatures(*found, statistics, solution))
        return NestedRidge(
            statistics,
            np.asarray(feature_map(rows.X)),
            numeric_targets(rows.y),
            rows.weight,
            alpha,
            model.fit_intercept,
            diagonal=None if isinstance(feature_map, Fourier) else self.kernel.diagonal(rows.X),
            n_requested=n_components,
        )
