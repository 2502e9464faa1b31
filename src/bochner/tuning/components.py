"""The search of ``KernelRidge(n_components="auto")`` for the fewest components that meet its tolerance."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bochner.backends import Array
from bochner.certificates.records import Certificate
from bochner.data.progress import Stopwatch, show
from bochner.data.sources import ArraySource, Source
from bochner.data.targets import numeric_targets
from bochner.draws.keys import Key
from bochner.features.fourier import Fourier
from bochner.features.maps import FeatureMap
from bochner.features.nystrom import Nystrom
from bochner.kernels.algebra import Kernel
from bochner.ridge.solution import Penalty, RidgeSolution
from bochner.ridge.spectrum import vertex
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.component_search import Budget, ComponentSearch
from bochner.tuning.deadline import NO_LIMIT, Deadline
from bochner.tuning.excess_risk import (
    FOURIER_POWER,
    LANDMARK_POWER,
    NestedRidge,
    RowSplit,
    exact_excess_risk,
    excess_risk,
)
from bochner.tuning.policies import ComponentPolicy

if TYPE_CHECKING:
    from bochner.estimators.ridge_fit import RidgeSpec

POLICY = ComponentPolicy()


@dataclass(frozen=True)
class FittedFeatures:
    """Fitted features, and what is already known of the model on them: its sums, solution or at least penalty."""

    transformer: Any
    feature_map: FeatureMap
    statistics: RidgeStatistics | None = None
    solution: RidgeSolution | None = None
    penalty: Penalty | None = None
    certificate: Certificate | None = None
    spreads: Array | None = None


def search_budget(
    limits: Mapping[str, Any],
    n_samples: int | None,
    *,
    landmarks: bool,
    deadline: Deadline = NO_LIMIT,
    affordable: Callable[[], int] = lambda: sys.maxsize,
) -> Budget:
    """Return the limits of a search for the number of components, of landmarks or else of Fourier features."""
    ceiling = None
    if n_samples is not None:
        # keeps the m³ operations of the eigendecomposition below the n m² of the pass
        ceiling = max(POLICY.few_components, n_samples // 16)
        ceiling = min(ceiling, n_samples if landmarks else 2 * n_samples)
    return Budget(
        limits["max_components"],
        deadline,
        limits["max_bytes"],
        bytes_for=lambda n_components: 8.0 * n_components**2,  # of the sums
        ceiling=ceiling,
        because=f"the search stops here for {n_samples} rows; pass an integer n_components to use more",
        affordable=affordable,
    )


class RidgeSearch:
    """Searches for the number of components of a `KernelRidge`.

    Models are fitted one after another, each with twice the components, so that all earlier ones together cost less
    than the last. The sums of a model contain those of its first m components for every m, so that its excess error,
    and whether fewer components suffice, are measured without another pass. A small model of a few rows tells whether
    the usual first model would be too small, or larger than needed. With many rows, a sample decides with how many
    components to begin. With few rows, models are so cheap that slightly smaller numbers are also tried, with landmarks
    chosen anew.

    Parameters
    ----------
    spec : RidgeSpec
        Fits features, computes sums and chooses penalties.
    source : Source
    kernel : Kernel
        With numbers as length scales.
    key : Key
    deadline : Deadline
    split : RowSplit or None
        None samples the rows.
    """

    def __init__(
        self,
        spec: RidgeSpec,
        source: Source,
        kernel: Kernel,
        key: Key,
        deadline: Deadline,
        split: RowSplit | None = None,
    ) -> None:
        self.spec, self.source, self.kernel, self.key = spec, source, kernel, key
        self.uses_landmarks = spec.features.name_for(kernel) == "nystrom"
        self.split = RowSplit.of(source, key.child("left out")) if split is None else split
        self.seconds = 0.0  # of the reference fits, per row and squared number of components
        self.budget = search_budget(
            spec.features.limits,
            source.n_samples,
            landmarks=self.uses_landmarks,
            affordable=self._affordable,
            deadline=deadline,
        )
        # the excess may fall in steps (see `NestedRidge`), and models below 1,024 components may all be on one step
        low, high = POLICY.first
        n_rows = source.n_samples if self.uses_landmarks else 0
        self.first = high if n_rows is None else min(high, max(low, n_rows // 8))
        if spec.features.limits["max_seconds"] is not None:  # a small first model, to measure how long larger ones take
            self.first = low
        self.tried_first = ComponentSearch.first
        self.folds: list[RowSplit] = []
        self.references: list[NestedRidge] = []  # one for each fold
        self.fitted: dict[int, tuple[FittedFeatures, NestedRidge]] = {}  # the first fold's, by number of components
        self.certificates: dict[int, Certificate] = {}  # of the references
        self.alpha: float | None = None  # the last one chosen
        self.expected: float | None = None  # a penalty of fewer rows, known before one of all rows is

    def run(self, *, with_penalty: bool = True) -> FittedFeatures:
        """Return the features to use, certified, with a refined penalty if one is asked for."""
        if self._starts_too_small():
            self.first *= 2
        elif self._has_many_rows:
            self._begin_with_sample()
        n_components, certificate = self._search().run()
        n_components = self._measured_size(n_components)
        if n_components in self.fitted:
            fitted, nested = self.fitted[n_components]
        elif self.uses_landmarks and self.fitted and n_components <= max(self.fitted):
            fitted, nested = self._first_of_reference(n_components)
        else:
            found = self.spec.features.fit(self.source, self.kernel, n_components, self.key, nested=True)
            return FittedFeatures(*found, certificate=certificate)
        if with_penalty and fitted.solution is None and self.spec.leaves_rows_out:
            margins = self.spec.kernel.margins and nested.statistics.n_targets > 1
            show(f"{n_components:,} components: penalty", self.spec.verbose > 0)
            n_steps = 0 if self.budget.deadline.is_late() else POLICY.penalty_steps
            fitted = replace(fitted, penalty=least_penalty(nested, margins, n_steps))
        return replace(fitted, certificate=certificate)

    def _search(self) -> ComponentSearch:
        few = self._is_cheap(self.first)
        return ComponentSearch(
            self._certify,
            self.spec.tol,
            self.budget,
            first=self.tried_first,
            rate=LANDMARK_POWER if self.uses_landmarks else FOURIER_POWER,
            # fewer could not even represent a linear function of all columns; the first model is fitted anyway
            least=min(self.first, self._for_linear),
            growth=(1.4, 2.0) if few else (2.0, 2.0),
            # if models are small, it pays to choose landmarks anew for slightly smaller numbers of components
            repeats=1 if few else 0,
        )

    @property
    def _for_linear(self) -> int:
        """Components that a linear function of all columns needs."""
        return POLICY.for_linear * (self.source.n_features + 1)

    @property
    def _has_many_rows(self) -> bool:
        """Return True if a pass over all rows takes much longer than one over the sample."""
        n_samples, size = self.source.n_samples, len(self.split.pool)
        return self.uses_landmarks and size >= POLICY.sample_rows and (n_samples is None or n_samples >= 2 * size)

    def _starts_too_small(self) -> bool:
        """Fit half the components of the first model to a quarter of the rows; whether that model would be too small.

        If the rows need more than that half, fewer are not tried; if they need far fewer, the first model is smaller.
        """
        pool, half = self.split.pool, self.first // 2
        if self.first < POLICY.first[1] or not self.uses_landmarks or len(pool) < 2 * POLICY.first_rows:
            return False
        if self.budget.most < self.first or self.budget.deadline.is_late():
            return False
        show("how many components to begin with", self.spec.verbose > 0)
        sample, tol = self._of_rows(RowSplit(pool[: max(POLICY.first_rows, len(pool) // 4)]), half), self.spec.tol
        excess = sample._certify(half, "search").high
        self.expected = sample.alpha
        if excess <= tol:
            if sample._certify(half // POLICY.much_fewer, "search").high <= tol:
                self.first = POLICY.much_more * half // POLICY.much_fewer
            return False
        needed = POLICY.more * half * (excess / tol) ** (1.0 / LANDMARK_POWER)
        too_small = needed > self.first and self.budget.most > self.first
        self.tried_first = self.first if too_small else half
        return too_small

    def _of_rows(self, split: RowSplit, max_components: int) -> RidgeSearch:
        """Return the same search on the rows of a split alone, which ends at `max_components`."""
        rows = ArraySource(split.pool.X, split.pool.y, split.pool.weight)
        search = RidgeSearch(self.spec, rows, self.kernel, self.key, self.budget.deadline, split)
        search.first = min(search.first, max_components)
        search.budget = replace(search.budget, max_components=min(max_components, search.budget.max_components))
        return search

    def _begin_with_sample(self) -> None:
        """Begin with somewhat more components than the sample needs; with twice its number if it needs more."""
        sample = self._of_rows(self.split, self.first)
        n_components, enough = sample._search().estimate()
        self.first = min(self.first, round(POLICY.more * n_components)) if enough else 2 * self.first
        self.alpha, self.seconds = sample.alpha, sample.seconds

    def _first_of_reference(self, n_components: int) -> tuple[FittedFeatures, NestedRidge]:
        """Return the first components of the largest model."""
        fitted, nested = self.fitted[self.references[0].n_requested]
        transformer, statistics = fitted.transformer._truncated(n_components), nested.statistics.first(n_components)
        nested = replace(nested, statistics=statistics, Z=nested.Z[:, :n_components], n_requested=n_components)
        return FittedFeatures(transformer, transformer.feature_map_, statistics), nested

    def _affordable(self) -> int:
        """Components of the largest model that fits into the time left; time grows with the square of their number."""
        if not self.seconds or math.isinf(self.budget.deadline.left()):
            return sys.maxsize
        least = self.references[0].n_requested if self.references else POLICY.first[0]
        of_square = self.seconds * (self.source.n_samples or len(self.split.pool))
        return max(least, int(math.sqrt(max(0.0, self.budget.deadline.left()) / of_square)))

    def _certify(self, n_components: int, sample: str) -> Certificate:
        if self.uses_landmarks and n_components == self.source.n_samples:
            return exact_excess_risk(n_components)
        self._enlarge_reference(n_components)
        found = self._measure(n_components, sample)
        if self._trusts_references:
            return found
        how = f"{found.how}; too few components to estimate what a larger model would gain"
        return replace(found, interval=(found.low, math.inf), how=how)

    @property
    def _trusts_references(self) -> bool:
        """Return True if the reference models are large enough to trust: exact, or as large as usual.

        Models that are all too small for the target predict the same, and seem to lack nothing.
        """
        usual = min(self.first, max(POLICY.first[0], self._for_linear), self.budget.ceiling or self.first)
        if self.uses_landmarks:
            usual = min(usual, self.split.most_landmarks)
        return self.references[0].n_requested >= usual or all(reference.exact for reference in self.references)

    def _measure(self, n_components: int, sample: str) -> Certificate:
        size = self._measured_size(n_components)
        most = self.references[0].n_requested
        if sample == "final" and self.uses_landmarks and size < most and self._is_cheap(most):
            return excess_risk(self.references, size, self._fit_folds(size))
        if size not in self.certificates:
            self.certificates[size] = excess_risk(self.references, size)
        return self.certificates[size]

    def _measured_size(self, n_components: int) -> int:
        """Return the components whose excess is measured: those of the references, unless far fewer suffice."""
        if not self.references:
            return n_components
        most = self.references[0].n_requested
        taken = most < POLICY.much_fewer * n_components <= POLICY.much_fewer * most and not self._is_cheap(most)
        return most if taken else n_components

    def _is_cheap(self, n_components: int) -> bool:
        """Return True if fitting a model with this number of components takes negligible time."""
        return n_components <= POLICY.penalty_components and not self._has_many_rows

    def _enlarge_reference(self, n_components: int) -> None:
        """Fit reference models with at least this many components if there are none yet and the budget allows."""
        most = min(self.budget.most, self.split.most_landmarks) if self.uses_landmarks else self.budget.most
        # large enough to detect a step of the excess, but only if there is time for it
        size = min(most, n_components if self.budget.deadline.is_late() else max(self.first, n_components))
        if self.references and size <= self.references[0].n_requested:
            return
        self.folds = (self.split.for_landmarks(size) if self.uses_landmarks else self.split.for_fourier()).folds()
        self.fitted.clear()
        self.certificates.clear()
        clock = Stopwatch()
        self.references = self._fit_folds(size)
        self.seconds = clock.seconds() / (self.references[0].statistics.n_samples * size**2)

    def _fit_folds(self, n_components: int) -> list[NestedRidge]:
        """Fit a model for each fold; the first one chooses the penalty of all."""
        models: list[NestedRidge] = []
        for fold in self.folds:
            models.append(self._fit_fold(n_components, fold, not models))
        return models

    def _fit_fold(self, n_components: int, fold: RowSplit, chooses: bool) -> NestedRidge:
        """Fit a model of all rows whose features do not depend on the rows that the fold measures."""
        rows = fold.measured
        show(f"{n_components:,} components: landmarks", self.spec.verbose > 0)
        found = self.spec.features.fit(fold.others, self.kernel, n_components, self.key, nested=True)
        feature_map = found[1]
        few = feature_map.n_components <= POLICY.penalty_components
        penalty = None if few and chooses else self.alpha or self.expected
        statistics = self.spec.empty_statistics(self.source, feature_map, penalty)
        self.spec.accumulate(self.source, feature_map, statistics)
        if not statistics.n_samples:
            raise ValueError("every row has weight zero.")
        solution = None
        if chooses and (few or self.alpha is None):
            # on all rows of the sample: with few rows the chosen penalty varies from a third to three times its value
            solution = self._choose_penalty(statistics, feature_map)
            self.alpha = solution.alpha
            solution = solution if few else None
        assert self.alpha is not None
        nested = NestedRidge(
            statistics,
            np.asarray(feature_map(rows.X)),
            numeric_targets(rows.y),
            rows.weight,
            self.alpha,
            self.spec.fit_intercept,
            diagonal=None if isinstance(feature_map, Fourier) else self.kernel.diagonal(rows.X),
            n_requested=n_components,
        )
        self.fitted.setdefault(n_components, (FittedFeatures(*found, statistics, solution), nested))
        return nested

    def _choose_penalty(self, statistics: RidgeStatistics, feature_map: FeatureMap) -> RidgeSolution:
        """Return the solution with the best penalty; with many landmarks, chosen with the first of them."""
        if isinstance(feature_map, Nystrom) and feature_map.n_components > POLICY.penalty_components:
            statistics = statistics.first(POLICY.penalty_components)
            feature_map = feature_map.truncated(POLICY.penalty_components)
        return self.spec.solve(statistics, feature_map, self.split.pool)


def least_penalty(model: NestedRidge, margins: bool, n_steps: int) -> Penalty:
    """Choose a penalty near that of a model with a small leave-one-out error.

    Each penalty tried takes a Cholesky factor, which costs less than eigenvectors. Of penalties whose errors do not
    differ significantly, the largest is taken: below some penalty the error of a model with too few components hardly
    changes, and with a very small penalty even unimportant components would seem to be needed.
    """
    few, tried = model.first_rows(POLICY.penalty_rows), dict[int, NestedRidge]()

    def errors(step: int) -> Array:
        if step not in tried:
            tried[step] = few.with_penalty(model.alpha * POLICY.penalty_step**step)
        return tried[step].left_out_errors(margins)

    def mean(values: Array) -> float:
        return float(np.average(values, weights=few.shares))

    def as_good(step: int, other: int) -> bool:
        more = errors(step) - errors(other)
        return mean(more) <= math.sqrt(mean((more - mean(more)) ** 2) / len(more))

    step = best = 0
    while step < n_steps and as_good(step + 1, best):
        step += 1
        best = min(best, step, key=lambda at: mean(errors(at)))
    while -n_steps < step <= 0 and not as_good(step, step - 1):
        step -= 1
    errors(step)  # at least this one, even if there is no time for others
    path = [tried[at] for at in sorted(tried)]
    criterion = [mean(of.left_out_errors(margins)) for of in path]
    around = [mean(errors(at)) for at in (step - 1, step, step + 1) if at in tried]
    offset = vertex(around) if len(around) == 3 else 0.0
    return Penalty(
        model.alpha * POLICY.penalty_step ** (step + offset),
        {
            "alpha": np.array([of.alpha for of in path]),
            "criterion": np.array(criterion),
            "effective_dimension": np.array([of.effective_dimension for of in path]),
        },
    )
