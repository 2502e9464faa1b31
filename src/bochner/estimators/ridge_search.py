"""``KernelRidge(n_components="auto")``: as few components as its tolerance needs."""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.certificates import Budget, Certificate, ComponentSearch
from bochner.estimators.excess_risk import (
    FAR,
    FOURIER_POWER,
    LANDMARK_POWER,
    NestedRidge,
    RowSplit,
    exact_excess_risk,
    excess_risk,
)
from bochner.estimators.models import numeric_targets
from bochner.estimators.ridge_solution import Penalty, RidgeSolution
from bochner.features import FeatureMap, Fourier
from bochner.features.nystrom import Nystrom
from bochner.kernels import Kernel
from bochner.keys import Key
from bochner.statistics import RidgeStatistics
from bochner.streaming import Source
from bochner.tuning import least

if TYPE_CHECKING:
    from bochner.estimators.ridge import KernelRidge

_FIRST_COMPONENTS = (256, 1024)  # of the first model: an eighth of the rows, within these limits
_PENALTY_COMPONENTS = 512  # up to which each model chooses its own penalty; larger ones take over the last one chosen
_PENALTY_ROWS = 1024  # left out to refine a penalty
_PENALTY_STEP = 10.0**0.75  # between penalties that are tried then
_FEW_COMPONENTS = 2048  # which the search may reach however few the rows


@dataclass(frozen=True)
class FittedFeatures:
    """Features of a model, and what is known already: the sums, the solution, or at least its penalty."""

    transformer: Any
    feature_map: FeatureMap
    statistics: RidgeStatistics | None = None
    solution: RidgeSolution | None = None
    penalty: Penalty | None = None


class RidgeSearch:
    """Searches for the number of components of a `KernelRidge`.

    One model after another is fitted to all rows, each with so many more components that all those before cost less
    than the last. The sums of a model contain those of every smaller number of its components, so that it measures its
    own excess, and finds out whether much fewer would do, without another pass. Where much fewer do, a model with as
    many is fitted, since m landmarks chosen as such are better than the first m of many; otherwise the search has
    fitted the model already.

    Parameters
    ----------
    model : KernelRidge
        Fits features, makes sums and chooses penalties.
    source : Source
    kernel : Kernel
        With numbers as length scales.
    key : Key
    started : float or None
        When the clock of ``max_seconds`` started; None for now.
    """

    def __init__(
        self, model: KernelRidge, source: Source, kernel: Kernel, key: Key, started: float | None = None
    ) -> None:
        self.model, self.source, self.kernel, self.key = model, source, kernel, key
        self.uses_landmarks = model._features_name(kernel) == "nystrom"
        self.split = RowSplit.of(source, key.child("left out"))
        self.seconds = 0.0  # that fitting the references took
        self.budget = self._limits(time.perf_counter() if started is None else started)
        # fewer than 1,024 may all be on one step of an excess that falls in steps, see `NestedRidge`
        low, high = _FIRST_COMPONENTS
        n_rows = source.n_samples if self.uses_landmarks else 0
        self.first = high if n_rows is None else min(high, max(low, n_rows // 8))
        if model.max_seconds is not None:  # small enough to know how long more of them will take
            self.first = low
        self.folds: list[RowSplit] = []
        self.references: list[NestedRidge] = []  # one for each fold
        self.fitted: dict[int, tuple[FittedFeatures, NestedRidge]] = {}  # the first fold's, by number of components
        self.certificates: dict[int, Certificate] = {}  # of the references
        self.alpha: float | None = None  # the last one chosen

    def run(self) -> tuple[FittedFeatures, Certificate]:
        """The features to use, and the excess risk that was certified."""
        rate = LANDMARK_POWER if self.uses_landmarks else FOURIER_POWER
        # to try other landmarks with nearly as many components is worth it where models are small
        repeats = 1 if self.first <= _PENALTY_COMPONENTS else 0
        search = ComponentSearch(
            self._certify, self.model.tol, self.budget, rate=rate, growth=(1.4, 2.0), repeats=repeats
        )
        n_components, certificate = search.run()
        n_components = self._measured_size(n_components)
        if n_components not in self.fitted:
            found = self.model._fit_features(self.source, self.kernel, n_components, self.key, nested=True)
            return FittedFeatures(*found), certificate
        fitted, nested = self.fitted[n_components]
        if fitted.solution is None and self.model.alpha == "loo":
            fitted = replace(fitted, penalty=_refined(nested))
        return fitted, certificate

    def _limits(self, started: float) -> Budget:
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
            affordable=self._affordable,
            started=started,
        )

    def _affordable(self) -> int:
        """Components of the largest model that can be fitted in the time left: it takes the square of their number."""
        if not self.references or math.isinf(self.budget.seconds_left):
            return sys.maxsize
        size = self.references[0].n_requested
        return max(size, int(size * math.sqrt(max(0.0, self.budget.seconds_left) / max(self.seconds, 1e-9))))

    def _certify(self, n_components: int, sample: str) -> Certificate:
        if self.uses_landmarks and n_components == self.source.n_samples:
            return exact_excess_risk(n_components)
        self._enlarge_reference(n_components)
        size = self._measured_size(n_components)
        if sample == "final" and self.uses_landmarks and size < self.references[0].n_requested:
            return excess_risk(self.references, size, self._fit_folds(size))
        if size not in self.certificates:
            self.certificates[size] = excess_risk(self.references, size)
        return self.certificates[size]

    def _measured_size(self, n_components: int) -> int:
        """The number of components whose excess is measured: those of the references instead of nearly as many."""
        if not self.references:
            return n_components
        most = self.references[0].n_requested
        taken = most > _PENALTY_COMPONENTS and FAR * most < n_components <= most
        return most if taken else n_components

    def _enlarge_reference(self, n_components: int) -> None:
        """Fit reference models with at least as many components, where the budget allows, unless there are."""
        most = min(self.budget.most, self.split.most_landmarks) if self.uses_landmarks else self.budget.most
        # one so large that it tells a step only if there is time for it
        size = min(most, n_components if self.budget.is_late() else max(self.first, n_components))
        if self.references and size <= self.references[0].n_requested:
            return
        self.folds = (self.split.for_landmarks(size) if self.uses_landmarks else self.split.for_fourier()).folds()
        self.fitted.clear()
        self.certificates.clear()
        began = time.perf_counter()
        self.references = self._fit_folds(size)
        self.seconds = time.perf_counter() - began

    def _fit_folds(self, n_components: int) -> list[NestedRidge]:
        """A model for each fold; the first one chooses the penalty of all, unless there are too many components."""
        models: list[NestedRidge] = []
        few = self.alpha is None or n_components <= _PENALTY_COMPONENTS
        for fold in self.folds:
            models.append(self._fit_fold(n_components, fold, few and not models))
        return models

    def _fit_fold(self, n_components: int, fold: RowSplit, chooses: bool) -> NestedRidge:
        """A model of all rows whose features do not depend on the rows that the fold measures."""
        model, rows, solution = self.model, fold.measured, None
        found = model._fit_features(fold.others, self.kernel, n_components, self.key, nested=True)
        feature_map = found[1]
        statistics = model._empty_statistics(self.source, feature_map, None if chooses else self.alpha)
        model._accumulate(self.source, feature_map, statistics)
        if not statistics.n_samples:
            raise ValueError("every row has weight zero.")
        if chooses:
            # on all rows of the sample: few of them choose anything from a third to three times the penalty
            solution = self._choose_penalty(statistics, feature_map)
            self.alpha = solution.alpha
            solution = solution if len(solution.coefficients) == statistics.n_components else None
        assert self.alpha is not None
        nested = NestedRidge(
            statistics,
            np.asarray(feature_map(rows.X)),
            numeric_targets(rows.y),
            rows.weight,
            self.alpha,
            model.fit_intercept,
            diagonal=None if isinstance(feature_map, Fourier) else self.kernel.diagonal(rows.X),
            n_requested=n_components,
        )
        self.fitted.setdefault(n_components, (FittedFeatures(*found, statistics, solution), nested))
        return nested

    def _choose_penalty(self, statistics: RidgeStatistics, feature_map: FeatureMap) -> RidgeSolution:
        """The solution with the best penalty, of the first landmarks where there are many."""
        if isinstance(feature_map, Nystrom) and feature_map.n_components > _PENALTY_COMPONENTS:
            statistics = statistics.first(_PENALTY_COMPONENTS)
            feature_map = feature_map.truncated(_PENALTY_COMPONENTS)
        return self.model._solve(statistics, self.split.pool, feature_map)


def _refined(model: NestedRidge) -> Penalty:
    """The penalty of least left-out error near that of a model, by a Cholesky factor for each: eigenvectors cost more.

    It falls as components are added, slowly as a rule.
    """
    few, tried = model.first_rows(_PENALTY_ROWS), dict[int, NestedRidge]()

    def error(step: int) -> float:
        if step not in tried:
            tried[step] = replace(few, alpha=model.alpha * _PENALTY_STEP**step)
        return tried[step].left_out_error

    alpha = model.alpha * _PENALTY_STEP ** least(error)
    path = [tried[step] for step in sorted(tried)]
    return Penalty(
        alpha,
        {
            "alpha": np.array([of.alpha for of in path]),
            "criterion": np.array([of.left_out_error for of in path]),
            "effective_dimension": np.array([of.effective_dimension for of in path]),
        },
    )
