"""Kernel ridge regression in one pass over any number of rows."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.certificates import Certificate, grow
from bochner.estimators._validation import check_count, rowwise, validate_rows
from bochner.estimators.growths import budget_of, check_budget, is_auto
from bochner.estimators.models import DistributedScore, KernelModel, as_source, numeric_targets
from bochner.estimators.penalties import (
    LEFT_OUT,
    Solution,
    check_penalty,
    choose_solver,
    effective_dimension,
    rounding_variance,
    solve_sums,
)
from bochner.estimators.truncations import Division, Truncations, exact_excess, excess
from bochner.features import FeatureMap, Fourier
from bochner.kernels import Kernel, as_kernel
from bochner.keys import Key
from bochner.operators import Centred, PSDOperator
from bochner.solvers import ConjugateGradient, Report
from bochner.statistics import RidgeStatistics
from bochner.streaming import (
    Block,
    Checkpoint,
    Source,
    StreamedGram,
    default_rows,
    fingerprint,
    leave_one_out,
    on_device,
    sampled_preconditioner,
    saved_about,
)

Known = tuple[RidgeStatistics, Solution | None]  # of a feature map and all rows

_FIRST_COMPONENTS = 256  # of the first sums that n_components="auto" looks at
_PENALTY_COMPONENTS = 512  # up to which it chooses the penalty anew
_FEW_COMPONENTS = 2048  # which n_components="auto" may reach whatever the number of rows
LEFT_OUT_ROWS = 4096  # rows left out, one at a time, for alpha="loo" or "margin"
_ALPHA_COMPONENTS = 2048  # columns on which alpha is chosen when the Gram matrix does not fit


class KernelRidge(DistributedScore, MultiOutputMixin, RegressorMixin, KernelModel):
    """Kernel ridge regression: min ‖Zw + b - y‖² + alpha ‖w‖² with ZZᵀ ≈ K, in one pass and bounded memory.

    Rows are turned into features block by block and added up; of the data only m × m sums remain, from
    which the whole path of penalties follows. Nothing of size n_samples × n_components is ever held.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name (or ``length_scale="auto"`` in a kernel) has its length scale tuned on a sample of the rows; a number in
        a kernel is used as it is.
    n_components : int or "auto", default="auto"
        Columns of the features. "auto" takes as few as `tol` needs.
    features : {"auto", "fourier", "nystrom"} or transformer, default="auto"
        Which features; "auto" takes "nystrom" for kernels without waves and where `fit` finds `n_components` itself,
        else "fourier". A transformer is cloned and fitted, and `kernel` and `n_components` are then its own affair.
    alpha : float, array-like or {"loo", "margin", "gcv", "evidence"}, default="loo"
        The penalty, never scaled by the number of rows; a grid of them, of which GCV chooses; or the criterion that
        chooses: exact leave-one-out errors (of a sample of the rows), generalised cross-validation, marginal
        likelihood. GCV takes all rows for equally influential and chooses too small a penalty where some lie far from
        the others; after `partial_fit` and `merge` there are no rows to leave out, and evidence takes the place of
        leave-one-out. "margin" is leave-one-out for targets that are signs of three labels or more, a column each:
        errors are what the right label's score lacks to be two more than any other.
    solver : {"auto", "cholesky", "eigen", "cg"} or RidgeSolver, default="auto"
        "cg" never forms the m × m sums: it reads the data once an iteration, preconditioned by a sample of the rows on
        a device and by a sketch on the host; so does a `ConjugateGradient` with a tolerance and a number of iterations
        of your own. "auto" takes it only when the sums would not fit into half of the free memory, and says so in
        `report_`.
    fit_intercept : bool, default=True
    length_scales : {"shared", "per_feature"}, default="shared"
        One tuned length scale for all features, or one for each.
    tol : float, default=0.05
        For ``n_components="auto"``: on unseen rows like those given to `fit`, the mean squared error shall exceed that
        of exact kernel ridge regression, with the same kernel and penalty, by a share of at most `tol` (of a
        thousandth of the variance of the targets, where the error is less than that). It is measured on training rows
        left out one at a time, which are no landmarks, and the upper end of its 95 % interval must be below `tol`; see
        `certificate_`.
    max_components, max_seconds, max_bytes : int, float and float or None, default=4096, None and None
        For ``n_components="auto"``: at most so many columns, about so much time for finding how many, so many bytes of
        sums. Never more than the rows (twice, of waves), nor than the larger of 2,048 and a sixteenth of the rows. A
        ConvergenceWarning says what was reached where they do not suffice.
    block_size : int or None
        Rows in a block; None fits blocks of features into the cache.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) makes features and sums on a GPU and solves there, from data in host memory, with torch.
        What is learned is host data: it pickles, and predicts on machines without a GPU.
    checkpoint : path or None
        A file to which the sums are written every half minute and when interrupted. Calling `fit` again with the same
        options and data continues from there, with the same result to the last bit; it is removed when done.
    n_jobs : int or None
        Threads, for features and linear algebra alike; None uses every core.
    verbose : int, default=0
        1 shows rows a second and the time left, on a terminal.
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    alpha_ : float
        The penalty used.
    alpha_path_ : dict of ndarray
        "alpha", the "criterion" there (GCV and LOO: mean squared error in units of the variance of each target,
        averaged over targets; evidence: negative log likelihood) and "effective_dimension"; empty for a given alpha.
    effective_dimension_ : float
        tr G (G + alpha I)⁻¹, the number of parameters in use; nan for solver="cg".
    coef_ : ndarray of shape (n_components,) or (n_targets, n_components)
    intercept_ : float or ndarray of shape (n_targets,)
    features_ : transformer
        The fitted features; `features_.kernel_` is the kernel with its numbers.
    feature_map_ : FeatureMap
    statistics_ : RidgeStatistics
        The sums.
    n_samples_seen_ : int
        Rows of positive weight.
    n_components_ : int
    certificate_ : Certificate
        The excess that was estimated; with ``n_components="auto"`` only.
    report_ : Report
        Solver, condition number, jitter, iterations, and the choices made, in words.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelRidge
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(400, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.05 * rng.normal(size=400)
    >>> model = KernelRidge(random_state=0).fit(X[:300], y[:300])
    >>> bool(model.score(X[300:], y[300:]) > 0.98)
    True
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: Any = "auto",
        *,
        features: Any = "auto",
        alpha: Any = "loo",
        solver: Any = "auto",
        fit_intercept: bool = True,
        length_scales: str = "shared",
        tol: float = 0.05,
        max_components: int = 4096,
        max_seconds: float | None = None,
        max_bytes: float | None = None,
        block_size: int | None = None,
        device: str | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.features = features
        self.alpha = alpha
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.length_scales = length_scales
        self.tol = tol
        self.max_components = max_components
        self.max_seconds = max_seconds
        self.max_bytes = max_bytes
        self.block_size = block_size
        self.device = device
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    _landmarks = "mixed"  # predictions err where there are rows, not where there is room
    _tuning_landmarks = 768

    statistics_: RidgeStatistics
    _solution: Solution | None

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Learn from data of any kind, from the beginning.

        Parameters
        ----------
        X : array-like, memmap, CSR matrix, frame, Arrow table, path of a Parquet file or folder, Source, or a \
re-iterable of (X, y) or (X, y, weight) blocks
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or the name(s) of the target column(s)
        sample_weight : array-like of shape (n_samples,), or the name of a column
            A weight of w counts as w equal rows.
        """
        self._check_parameters()
        with self._threads():
            source = as_source(self, X, y, sample_weight, reset=True)
            self._forget()
            self._auto_features = "nystrom" if self._may_look(source) else None
            self._learn(source)
        return self

    def _may_look(self, source: Source) -> bool:
        """Whether the features may depend on the rows.

        Landmarks need half the columns of waves or fewer (benchmarks/bench_ridge.py time_to_error). But a given number
        of waves is the same for all rows, so that models of different rows can be merged and blocks added one by one.
        """
        dense = not scipy.sparse.issparse(next(source.blocks(1)).X)
        return dense and isinstance(self.n_components, str)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Learn from more rows. The first call chooses the features, from the rows it is given.

        Coefficients are computed when they are next asked for. Parameters are those of `fit`.
        """
        self._check_parameters()
        first = not hasattr(self, "statistics_")
        with self._threads():
            source = as_source(self, X, y, sample_weight, reset=first)
            if first or self.statistics_ is None:
                self._auto_features = None
                self._learn(source)
                return self
            if self.statistics_.gram is None:
                raise ValueError("a model fitted with solver='cg' keeps no sums to add to; use solver='cholesky'.")
            shape = _target_shape(source)
            if shape != self._target_shape:
                raise ValueError(f"y has shape (n, *{shape}) here and had shape (n, *{self._target_shape}) before.")
            # into a copy, so that a bad block in the middle leaves the model as it was
            more = RidgeStatistics(self.n_components_, self.statistics_.n_targets)
            self._accumulate(source, self.feature_map_, more)
            self.statistics_.merge(more)
            self._solution = None
        return self

    def merge(self, other: KernelRidge) -> KernelRidge:
        """Add what another model has learned from other rows; equal to having trained on both. Returns self.

        Both need the same features: the same kernel with the same numbers, n_components and random_state.
        """
        check_is_fitted(self)
        check_is_fitted(other)
        if fingerprint(self.feature_map_) != fingerprint(other.feature_map_):
            raise ValueError(
                "the models have different features, so their sums cannot be added. Fit both with the same "
                "kernel (with a number as length scale), n_components and random_state."
            )
        if self.statistics_.gram is None:
            raise ValueError("models fitted with solver='cg' keep no sums to add; use solver='cholesky'.")
        self.statistics_.merge(other.statistics_)
        self._solution = None
        return self

    def _check_parameters(self) -> None:
        check_penalty(self.alpha, self.solver)
        if not is_auto(self.n_components):
            check_count("n_components", self.n_components)
        check_budget(self)
        self._check_options()

    def _forget(self) -> None:
        for name in ("statistics_", "features_", "feature_map_", "certificate_", "_solution"):
            if hasattr(self, name):
                delattr(self, name)

    def _learn(self, source: Source) -> None:
        key = self._key()
        self._target_shape = _target_shape(source)
        kernel = as_kernel(self.kernel)
        if isinstance(self.features, str):
            kernel = self._choose_kernel(source, numeric_targets, key, self.fit_intercept)
        growing = is_auto(self.n_components) and isinstance(self.features, str)  # a transformer knows its own number
        known: Known | None = None
        if growing:
            transformer, feature_map, known = self._grow(source, kernel, key)
        else:
            transformer, feature_map = self._fit_features(source, kernel, self.n_components, key)
        self._learn_with(source, transformer, feature_map, key, known)
        self._current()
        self.statistics_.twin = None  # the device's memory is free again

    def _key(self) -> Key:
        """The key of random_state; of the checkpoint to be continued, when random_state is None."""
        if self.random_state is None and self.checkpoint is not None:
            seed = saved_about(self.checkpoint).get("seed")
            if seed is not None:
                return Key(int(seed))
        return Key.from_random_state(self.random_state)

    def _grow(self, source: Source, kernel: Kernel, key: Key) -> tuple[Any, FeatureMap, Known | None]:
        """Features with as few columns as `tol` needs, and what is known of them: sums, and the solution.

        The sums of M columns hold those of every smaller number. But m landmarks are better than the first m of M, and
        the penalty that few of them choose is another; so those that are returned were measured themselves, with it,
        against M landmarks and theirs.
        """
        name = self._features_name(kernel)
        division = Division.of(source, key.child("left out"))
        ceiling, n_samples = None, source.n_samples
        if n_samples is not None:  # the m³ of the eigendecomposition shall not exceed the n m² of the pass
            ceiling = max(_FEW_COMPONENTS, n_samples // 16)
            ceiling = min(ceiling, 2 * n_samples if name == "fourier" else n_samples)
        why = f"with {n_samples} rows more are not tried; give n_components as a number to have more"
        budget = budget_of(self, math.sqrt(8.0 * (self.max_bytes or 1.0)), ceiling, because=why)  # sums: 8 m² bytes
        most = budget.most if name == "fourier" else min(budget.most, division.most)
        largest: list[tuple[Division, Truncations]] = []
        made: dict[int, tuple[Any, FeatureMap, Known]] = {}  # features for the same rows, by their number

        def draw(size: int, divided: Division, alpha: float | None) -> Truncations:
            transformer, feature_map = self._fit_features(divided.others, kernel, size, key, growing=True)
            statistics = RidgeStatistics(feature_map.n_components, int(np.prod(self._target_shape, dtype=int)))
            self._accumulate(source, feature_map, statistics)
            if not statistics.n_samples:
                raise ValueError("every row has weight zero.")
            rows, solution = divided.rows, None
            if alpha is None:
                # as many rows as there are: few of them choose anything between a third and three times the penalty
                by_rows = isinstance(self.alpha, str) and self.alpha in LEFT_OUT
                solution = self._solve(statistics, division.pool[:LEFT_OUT_ROWS] if by_rows else None, feature_map)
                alpha = solution.alpha
            made.setdefault(size, (transformer, feature_map, (statistics, solution)))
            return Truncations(
                statistics,
                np.asarray(feature_map(rows.X)),
                numeric_targets(rows.y),
                rows.weight,
                alpha,
                self.fit_intercept,
                diagonal=None if isinstance(feature_map, Fourier) else kernel.diagonal(rows.X),
                asked=size,
            )

        def draws(size: int, folds: Sequence[Division], alpha: float | None) -> list[Truncations]:
            first = draw(size, folds[0], alpha)
            return [first, *(draw(size, fold, first.alpha) for fold in folds[1:])]

        def certify(n_components: int, sample: str) -> Certificate:
            if name == "nystrom" and n_components == n_samples:
                return exact_excess(n_components)
            while not largest or largest[0][1].n_components < 2 * n_components:
                size = min(most, max(_FIRST_COMPONENTS, 1 << (2 * n_components - 1).bit_length()))
                if largest and size <= largest[0][1].asked:
                    break
                # a penalty means the same for any number of columns; it is chosen while they are few
                alpha = largest[0][1].alpha if largest and size > _PENALTY_COMPONENTS else None
                divided = division.for_waves() if name == "fourier" else division.for_landmarks(size)
                made.clear()
                folds = divided.folds()
                largest[:] = list(zip(folds, draws(size, folds, alpha), strict=True))
            found = [of_all for _, of_all in largest]
            if sample == "final" and name == "nystrom" and n_components < found[0].asked:
                alpha = None if n_components <= _PENALTY_COMPONENTS else found[0].alpha
                chosen = draws(n_components, [fold for fold, _ in largest], alpha)
                return excess(found, n_components, chosen)
            return excess(found, n_components)

        size, self.certificate_ = grow(certify, tol=self.tol, budget=budget, rate=1.0, repeats=2)
        if size in made:
            return made[size]
        return *self._fit_features(source, kernel, size, key, growing=True), None

    def _learn_with(
        self,
        source: Source,
        transformer: Any,
        feature_map: FeatureMap,
        key: Key,
        known: Known | None = None,
    ) -> None:
        n_targets = int(np.prod(self._target_shape, dtype=int))
        solver, _ = choose_solver(self.solver, self.alpha, feature_map.n_components)
        iterative = solver == "cg" or isinstance(solver, ConjugateGradient)
        statistics = RidgeStatistics(feature_map.n_components, n_targets, with_gram=not iterative)
        self.features_, self.feature_map_ = transformer, feature_map
        self.n_components_ = feature_map.n_components
        checkpoint, start = None, 0
        if self.checkpoint is not None:
            rows = self.block_size or default_rows(feature_map.n_components, source.dtype)
            belongs_to = fingerprint(source.fingerprint(), rows, feature_map, n_targets, solver)
            checkpoint = Checkpoint(self.checkpoint, belongs_to, {"seed": key.seed})
            found = checkpoint.load()
            if found is not None:
                statistics, start = found
        statistics.variance = rounding_variance(self.alpha, source.n_samples)
        if checkpoint is not None or iterative:
            known = None
        if known is not None:
            statistics = known[0]
        try:
            if known is None:
                self._accumulate(source, feature_map, statistics, checkpoint, start)
        finally:
            # whatever ended the pass, what was learned until then is kept and can be used
            if statistics.n_samples:
                self.statistics_, self._solution = statistics, None
        if not statistics.n_samples:
            raise ValueError("every row has weight zero.")
        if known is not None and known[1] is not None:
            self._solution = known[1]
        elif iterative:
            self._solution = self._iterate(source, feature_map, statistics, key)
        elif isinstance(self.alpha, str) and self.alpha in LEFT_OUT:
            self._solution = self._solve(statistics, source.sample(LEFT_OUT_ROWS, key.child("left out")))
        if checkpoint is not None:
            self._current()
            checkpoint.remove()

    def _accumulate(
        self,
        source: Source,
        feature_map: FeatureMap,
        statistics: RidgeStatistics,
        checkpoint: Checkpoint | None = None,
        start: int = 0,
    ) -> None:
        on_device(source, self.device).accumulate(
            feature_map,
            statistics,
            numeric_targets,
            rows=self.block_size,
            start=start,
            checkpoint=checkpoint,
            verbose=self.verbose,
        )

    # -- solving -------------------------------------------------------------------------------------------------

    def _current(self) -> Solution:
        """The solution of the sums as they stand, computed when asked for."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            )
        if self._solution is None:
            if self.statistics_.gram is None:
                raise NotFittedError("the fit was interrupted before solver='cg' began; call fit again.")
            with self._threads():
                self._solution = self._solve(self.statistics_)
        return self._solution

    def _solve(
        self, statistics: RidgeStatistics, rows: Block | None = None, feature_map: FeatureMap | None = None
    ) -> Solution:
        """Solve from the sums; `rows` are left out one at a time where alpha asks for it."""
        left_out = None
        if rows is not None:
            left_out = partial(
                leave_one_out,
                rows,
                feature_map or self.feature_map_,
                statistics,
                numeric_targets,
                fit_intercept=self.fit_intercept,
                margins=isinstance(self.alpha, str) and self.alpha == "margin",
            )
        return solve_sums(statistics, self.alpha, self.solver, fit_intercept=self.fit_intercept, left_out=left_out)

    def _iterate(self, source: Source, feature_map: FeatureMap, statistics: RidgeStatistics, key: Key) -> Solution:
        """Conjugate gradients on a Gram matrix that is never formed."""
        there = on_device(source, self.device)
        gram: PSDOperator = StreamedGram(there, feature_map, self.block_size, self.verbose)
        if self.fit_intercept:
            gram = Centred(gram, statistics.feature_sum, statistics.weight)
        alpha, path, notes = self._alpha_for_iteration(source, key)
        rule = self.solver
        if not isinstance(rule, ConjugateGradient):
            rule = ConjugateGradient(tol=1e-6 if source.dtype == np.float32 else 1e-9, key=key.child("preconditioner"))
        if rule.preconditioner is None and rule.rank is None and alpha > 0:
            preconditioner = sampled_preconditioner(
                there, feature_map, alpha, statistics.weight, key.child("sample"), centred=self.fit_intercept
            )
            rule = replace(rule, preconditioner=preconditioner)
        factor = rule.factor(gram, alpha)
        weights = factor.solve(statistics.right_side(self.fit_intercept))
        chosen = choose_solver(self.solver, self.alpha, feature_map.n_components)[1]
        intercept = statistics.intercept(weights, self.fit_intercept)
        return Solution(weights, intercept, alpha, path, factor.report.noting(*chosen, *notes), float("nan"))

    def _alpha_for_iteration(self, source: Source, key: Key) -> tuple[float, dict[str, Array], tuple[str, ...]]:
        """A given alpha, or the one chosen with as many columns as can be squared: alpha means the same for any m."""
        if isinstance(self.alpha, numbers.Real):
            return float(self.alpha), {}, ()
        if not isinstance(self.features, str):
            raise ValueError("solver='cg' with features of your own needs a number as alpha.")
        fewer = min(self.n_components_, _ALPHA_COMPONENTS)
        kernel = getattr(self.features_, "kernel_", self.kernel)
        _, feature_map = self._fit_features(source, kernel, fewer, key)
        statistics = RidgeStatistics(feature_map.n_components, self.statistics_.n_targets)
        self._accumulate(source, feature_map, statistics)
        left_out = isinstance(self.alpha, str) and self.alpha in LEFT_OUT
        rows = source.sample(LEFT_OUT_ROWS, key.child("left out")) if left_out else None
        solution = self._solve(statistics, rows, feature_map)
        return solution.alpha, solution.path, (f"alpha was chosen with {fewer} components",)

    # -- what was learned ----------------------------------------------------------------------------------------

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        return self._current().alpha

    @property
    def alpha_path_(self) -> dict[str, Array]:
        """The penalties tried, and the criterion and effective dimension of each."""
        return self._current().path

    @property
    def effective_dimension_(self) -> float:
        """The trace of G (G + alpha I)⁻¹."""
        solution = self._current()
        if solution.effective_dimension is not None:
            return solution.effective_dimension
        with self._threads():
            return effective_dimension(self.statistics_, solution.alpha, self.fit_intercept)

    @property
    def coef_(self) -> Array:
        """Weights of the features: (n_components,), or (n_targets, n_components)."""
        weights = self._current().coefficients
        return weights[:, 0] if self._target_shape == () else weights.T

    @property
    def intercept_(self) -> Any:
        """The constant, one a target."""
        intercept = self._current().intercept
        return float(intercept[0]) if self._target_shape == () else intercept

    @property
    def report_(self) -> Report:
        """How the system was solved."""
        return self._current().report

    @property
    def n_samples_seen_(self) -> int:
        """Rows of positive weight learned from."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet.")
        return self.statistics_.n_samples

    @rowwise
    def predict(self, X: Any) -> Array:
        """Predict targets, block by block.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_targets)
            In the dtype of X when that is float32 or float64.
        """
        solution = self._current()
        X = validate_rows(self, X, reset=False)
        y = self._scores(X, solution.coefficients, solution.intercept)
        return y.reshape(-1, *self._target_shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        return tags


def _target_shape(source: Source) -> tuple[int, ...]:
    """() for y of shape (n,), (k,) for y of shape (n, k)."""
    shape = tuple(np.shape(source.head().y)[1:])
    if 0 in shape:
        raise ValueError("y has no columns; there is nothing to learn.")
    return shape
