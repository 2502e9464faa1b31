"""Kernel ridge regression as a function of values: from rows, `RidgeSpec` and a key to a `RidgeFit`."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.certificates.records import Certificate
from bochner.checks import is_auto
from bochner.data.checkpoints import Checkpoint, described, fingerprint
from bochner.data.devices import on_device, sampled_preconditioner
from bochner.data.folds import StreamedGram, accumulate, accumulate_deflated, leave_one_out_errors, resumed
from bochner.data.progress import saying
from bochner.data.sources import Block, Source, default_rows
from bochner.data.targets import numeric_targets
from bochner.data.validation import usual_rows
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Centred, PSDOperator
from bochner.estimators.feature_spec import FeatureSpec, shift_of
from bochner.estimators.kernel_spec import KernelSpec
from bochner.features.maps import FeatureMap
from bochner.ridge.solution import LEFT_OUT, Penalty, RidgeSolution, choose_solver, solve_sums
from bochner.ridge.solvers import ConjugateGradient, RidgeSolver, StochasticGradient, needs_sums
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.components import FittedFeatures, RidgeSearch
from bochner.tuning.deadline import Deadline
from bochner.tuning.policies import ComponentPolicy

POLICY = ComponentPolicy()


@dataclass(frozen=True)
class RidgeFit:
    """What a fit found.

    Attributes
    ----------
    transformer : transformer
        The fitted features.
    feature_map : FeatureMap
    statistics : RidgeStatistics
        The sums.
    target_shape : tuple of int
        () for y of shape (n,), (k,) for y of shape (n, k).
    solution : RidgeSolution or None
        None until it is needed, after rows were added or a pass was interrupted.
    certificate : Certificate or None
        The excess error, if the number of components was searched for.
    spreads : ndarray of shape (n_features,) or None
        Standard deviations of the columns, if a scale for each was learned.
    """

    transformer: Any
    feature_map: FeatureMap
    statistics: RidgeStatistics
    target_shape: tuple[int, ...]
    solution: RidgeSolution | None = None
    certificate: Certificate | None = None
    spreads: Array | None = None

    def without_sums(self) -> RidgeFit:
        """Return the fit without what only further rows and other penalties need."""
        return replace(self, statistics=self.statistics.without_gram())


@dataclass(frozen=True)
class RidgeSpec:
    """What the parameters of a kernel ridge regression say.

    Attributes
    ----------
    features : FeatureSpec
    kernel : KernelSpec
    target_shape : tuple of int
    n_components, alpha, solver, fit_intercept, tol, checkpoint, block_size, device, precision, verbose
        Those of `KernelRidge`.
    """

    features: FeatureSpec
    kernel: KernelSpec
    target_shape: tuple[int, ...]
    n_components: Any
    alpha: Any
    solver: Any
    fit_intercept: bool = True
    tol: float = 0.05
    checkpoint: str | os.PathLike[str] | None = None
    block_size: int | None = None
    device: str | None = None
    precision: str = "full"
    verbose: int = 0

    def within(self, max_seconds: float | None) -> RidgeSpec:
        """Return the spec with another limit on the time of a search."""
        features = replace(self.features, limits={**self.features.limits, "max_seconds": max_seconds})
        return replace(self, features=features, kernel=replace(self.kernel, max_seconds=max_seconds))

    @property
    def n_targets(self) -> int:
        return int(np.prod(self.target_shape, dtype=int))

    @property
    def leaves_rows_out(self) -> bool:
        """Return True if leave-one-out errors choose the penalty."""
        return isinstance(self.alpha, str) and self.alpha in LEFT_OUT

    def for_rows(self, source: Source, *, merges: bool = False) -> RidgeSpec:
        """Return the meaning of ``features="auto"`` for these rows.

        Landmarks need at most half as many components as Fourier features (benchmarks/bench_ridge.py time_to_error).
        But Fourier features do not depend on the rows when their number is given, so that models of different rows can
        be merged and `partial_fit` can add rows.
        """
        if not is_auto(self.n_components) or merges or scipy.sparse.issparse(source.head().X):
            return self
        return replace(self, features=replace(self.features, auto="nystrom"))

    def empty_statistics(
        self, source: Source, feature_map: FeatureMap, alpha: float | None = None, *, with_gram: bool = True
    ) -> RidgeStatistics:
        """Return sums of no rows; `alpha` is the penalty to solve with if the parameter is not a number."""
        given, n = self.alpha if alpha is None else alpha, source.n_samples
        return RidgeStatistics(
            feature_map.n_components,
            self.n_targets,
            with_gram=with_gram,
            precision=self.precision,
            penalty=None if isinstance(given, str) or not n else float(np.min(given)) / n,  # None: chosen later
        )

    def accumulate(
        self,
        source: Source,
        feature_map: FeatureMap,
        statistics: RidgeStatistics,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Add all rows of a source to the sums."""
        label = f"fit, {feature_map.n_components:,} components"
        options: dict[str, Any] = {"rows": self.block_size, "verbose": self.verbose, "label": label}
        if checkpoint is None and self.device is None and not source.remote and self.precision == "full":
            accumulate_deflated(source, feature_map, statistics, numeric_targets, **options)
            return
        there = on_device(source, self.device)
        accumulate(there, feature_map, statistics, numeric_targets, checkpoint=checkpoint, **options)

    def solve(
        self, statistics: RidgeStatistics, feature_map: FeatureMap, rows: Block | None = None, *, shift: float = 0.0
    ) -> RidgeSolution:
        """Return the solution of the sums; if alpha is chosen by leave-one-out, `rows` are left out one at a time."""
        left_out = None
        if rows is not None and self.leaves_rows_out:
            rows = rows[: POLICY.left_out_rows]
            left_out = partial(
                leave_one_out_errors,
                rows[np.flatnonzero(usual_rows(rows.X))],  # no penalty predicts an outlier from the others
                feature_map,
                statistics,
                numeric_targets,
                fit_intercept=self.fit_intercept,
                margins=self.kernel.margins,
            )
        solution = solve_sums(
            statistics, self.alpha, self.solver, fit_intercept=self.fit_intercept, left_out=left_out, shift=shift
        )
        statistics.to_host()  # the device's memory is free again
        return solution

    def solve_with(self, statistics: RidgeStatistics, penalty: Penalty) -> RidgeSolution:
        """Return the solution with a penalty that the search for components has chosen."""
        solution = solve_sums(statistics, penalty.alpha, self.solver, fit_intercept=self.fit_intercept, given=False)
        statistics.to_host()
        return replace(solution, path=penalty.path)


def target_shape(source: Source) -> tuple[int, ...]:
    """Return () for y of shape (n,), (k,) for y of shape (n, k)."""
    shape = tuple(np.shape(source.head().y)[1:])
    if 0 in shape:
        raise ValueError("y has no columns; there is nothing to learn.")
    return shape


def choose_features(source: Source, spec: RidgeSpec, key: Key, *, with_penalty: bool = True) -> FittedFeatures:
    """Choose the kernel, and the number of components if it is "auto"; for another loss without a penalty."""
    deadline = Deadline(spec.kernel.max_seconds)
    with saying(lambda: "interrupted while the length scale was tuned: nothing was kept."):
        choice = spec.kernel.choose(source, spec.features, numeric_targets, key)
    # with a transformer, the number of components is the transformer's
    if is_auto(spec.n_components) and spec.features.named:
        with saying(lambda: "interrupted while the number of components was searched for: nothing was kept."):
            found = RidgeSearch(spec, source, choice.kernel, key, deadline).run(with_penalty=with_penalty)
    else:
        with saying(lambda: "interrupted while the features were fitted: nothing was kept."):
            found = FittedFeatures(*spec.features.fit(source, choice.kernel, spec.n_components, key))
    return replace(found, spreads=choice.spreads)


def fit_ridge(source: Source, spec: RidgeSpec, key: Key, keep: Callable[[RidgeFit], None]) -> RidgeFit:
    """Choose features and penalty, add up all rows, and solve.

    `keep` receives a fit without a solution as soon as there are sums that can be used, even if the pass is then
    interrupted.
    """
    fitted, kept = choose_features(source, spec, key), list[RidgeFit]()

    def keep_sums(fit: RidgeFit) -> None:
        kept[:] = [fit]
        keep(fit)

    def said() -> str:
        what = "nothing was kept."
        if kept:
            what = f"the model has the sums of {kept[0].statistics.n_samples} rows, and predicts from them"
            what += "." if spec.checkpoint is None else f"; fit continues from {os.fspath(spec.checkpoint)!r}."
        return f"interrupted while rows were added up or solved for: {what}"

    with saying(said):
        return _fit_with(source, spec, fitted, key, keep_sums)


def _fit_with(
    source: Source, spec: RidgeSpec, fitted: FittedFeatures, key: Key, keep: Callable[[RidgeFit], None]
) -> RidgeFit:
    """Compute the sums, unless they are known, and the solution."""
    feature_map, penalty = fitted.feature_map, fitted.penalty
    shift = shift_of(fitted.transformer)
    iterative = not needs_sums(choose_solver(spec.solver, spec.alpha, feature_map.n_components)[0])
    statistics = spec.empty_statistics(
        source, feature_map, None if penalty is None else penalty.alpha, with_gram=not iterative
    )
    checkpoint = None
    if spec.checkpoint is not None:
        checkpoint, statistics = _resume(source, spec, fitted, statistics, key)
    if checkpoint is not None or iterative:  # these compute their own sums
        fitted = replace(fitted, statistics=None, solution=None)
    statistics = statistics if fitted.statistics is None else fitted.statistics
    fit = RidgeFit(
        fitted.transformer,
        feature_map,
        statistics,
        spec.target_shape,
        certificate=fitted.certificate,
        spreads=fitted.spreads,
    )
    try:
        if fitted.statistics is None:
            spec.accumulate(source, feature_map, statistics, checkpoint)
    finally:
        statistics.digest = None
        if statistics.n_samples:
            keep(fit)
    if not statistics.n_samples:
        raise ValueError("every row has weight zero.")

    def solved(statistics: RidgeStatistics) -> RidgeSolution:
        left_out = spec.leaves_rows_out and penalty is None
        rows = source.sample(POLICY.left_out_rows, key.child("left out")) if left_out else None
        return spec.solve(statistics, feature_map, rows, shift=shift)

    solution = fitted.solution
    if solution is None and iterative:
        solution = _iterate(source, spec, fit, key)
    elif solution is None and penalty is None:
        solution = solved(statistics)
    if statistics.with_gram and spec.device is None:
        alpha = penalty.alpha if solution is None and penalty is not None else _alpha(solution)
        if statistics.is_coarse(alpha):
            # the chosen penalty is smaller than the rounding errors of the sums: compute again in float64
            finer = RidgeStatistics(feature_map.n_components, spec.n_targets, penalty=alpha / statistics.n_samples)
            spec.accumulate(source, feature_map, finer)
            statistics, solution = finer, None
            if penalty is None:
                solution = solved(finer)
    if penalty is not None and not iterative:
        solution = spec.solve_with(statistics, penalty)
    if checkpoint is not None:
        checkpoint.remove()
    return replace(fit, statistics=statistics, solution=solution)


def _alpha(solution: RidgeSolution | None) -> float:
    assert solution is not None
    return solution.alpha


def _resume(
    source: Source, spec: RidgeSpec, fitted: FittedFeatures, statistics: RidgeStatistics, key: Key
) -> tuple[Checkpoint, RidgeStatistics]:
    """Return the checkpoint, and the sums in it or else the given ones.

    A checkpoint made with other options that shape the sums is refused. Causes come before their consequences, since
    the refusal names the first option that differs.
    """
    assert spec.checkpoint is not None
    feature_map, precision, penalty = fitted.feature_map, statistics.precision, statistics.penalty
    named = spec.features.named  # otherwise the transformer has its own kernel and seed
    options = {
        **source.layout(),
        "kernel": described(getattr(fitted.transformer, "kernel_", None)) if named else None,
        "n_components": feature_map.n_components,
        "random_state": key.seed if named else None,
        "features, by their digest,": fingerprint(feature_map),
        "block_size": spec.block_size or default_rows(feature_map.n_components, source.dtype),
        "device": spec.device,
        "n_targets": spec.n_targets,
        "solver='cg' or 'sgd'": not statistics.with_gram,
        "precision": precision,
        # decides in which precision products are computed
        "alpha over the number of rows": penalty if source.dtype == np.float32 else None,
    }
    checkpoint = Checkpoint(spec.checkpoint, options, {"seed": key.seed})
    found = resumed(source, feature_map, numeric_targets, checkpoint, verbose=spec.verbose)
    statistics = statistics if found is None else found
    statistics.precision, statistics.penalty = precision, penalty
    return checkpoint, statistics


def _iterate(source: Source, spec: RidgeSpec, fit: RidgeFit, key: Key) -> RidgeSolution:
    """Solve by conjugate gradients, or stochastic ones, on a Gram matrix that is never formed."""
    there, feature_map, statistics = on_device(source, spec.device), fit.feature_map, fit.statistics
    gram: PSDOperator = StreamedGram(there, feature_map, spec.block_size, spec.verbose)
    if spec.fit_intercept:
        gram = Centred(gram, statistics.feature_sum, statistics.weight)
    alpha, path, notes = _alpha_for_iteration(source, spec, fit, key)
    solver, chosen = choose_solver(spec.solver, spec.alpha, feature_map.n_components)
    rule = solver
    if solver == "sgd":
        rule = StochasticGradient(key=key.child("sgd"))
    elif not isinstance(solver, RidgeSolver):
        rule = ConjugateGradient(tol=1e-6 if source.dtype == np.float32 else 1e-9, key=key.child("preconditioner"))
    unconditioned = isinstance(rule, ConjugateGradient) and rule.preconditioner is None and rule.rank is None
    if unconditioned and alpha > 0:
        preconditioner = sampled_preconditioner(
            there, feature_map, alpha, statistics.weight, key.child("sample"), centred=spec.fit_intercept
        )
        rule = replace(rule, preconditioner=preconditioner)
    factor = rule.factor(gram, alpha)
    weights = factor.solve(statistics.right_side(spec.fit_intercept))
    intercept = statistics.intercept(weights, spec.fit_intercept)
    return RidgeSolution(weights, intercept, alpha, path, factor.report.noting(*chosen, *notes), float("nan"))


def _alpha_for_iteration(
    source: Source, spec: RidgeSpec, fit: RidgeFit, key: Key
) -> tuple[float, dict[str, Array], tuple[str, ...]]:
    """Return a given alpha, or one chosen with fewer components: it has the same meaning for any number of them."""
    shift = shift_of(fit.transformer)
    if isinstance(spec.alpha, numbers.Real):
        return float(spec.alpha) + shift, {}, ()
    if not spec.features.named:
        raise ValueError("solver='cg' or 'sgd' with features of your own needs a number as alpha.")
    fewer = min(fit.feature_map.n_components, POLICY.alpha_components)
    _, feature_map = spec.features.fit(source, fit.transformer.kernel_, fewer, key)
    statistics = RidgeStatistics(feature_map.n_components, spec.n_targets)
    spec.accumulate(source, feature_map, statistics)
    rows = source.sample(POLICY.left_out_rows, key.child("left out")) if spec.leaves_rows_out else None
    solution = spec.solve(statistics, feature_map, rows, shift=shift)
    return solution.alpha, solution.path, (f"alpha was chosen with {fewer} components",)
