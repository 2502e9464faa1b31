"""Kernel ridge regression in one pass over any number of rows."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.certificates.records import Certificate
from bochner.data.checkpoints import check_path, fingerprint, saved_about
from bochner.data.execution import Execution
from bochner.data.progress import show
from bochner.data.sources import Source
from bochner.data.targets import warn_of_largest_penalty, warn_of_level
from bochner.data.validation import (
    DistributedScore,
    check_components,
    check_precision,
    map_dask_blocks,
    validate_rows,
)
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import shift_of
from bochner.estimators.gradients import GradientMixin
from bochner.estimators.inputs import as_source
from bochner.estimators.models import check_sums
from bochner.estimators.ridge_fit import RidgeFit, RidgeSpec, fit_ridge, target_shape
from bochner.estimators.supervised import SupervisedModel
from bochner.features.maps import FeatureMap
from bochner.ridge.reports import Report
from bochner.ridge.solution import (
    LEFT_OUT,
    RidgeSolution,
    check_penalty,
    effective_dimension_of_sums,
)
from bochner.ridge.statistics import RidgeStatistics


@dataclass(eq=False, repr=False)
class KernelRidge(DistributedScore, GradientMixin, MultiOutputMixin, RegressorMixin, SupervisedModel):
    """Kernel ridge regression: min ‖Zw + b - y‖² + alpha ‖w‖² with ZZᵀ ≈ K, in one pass and bounded memory.

    Rows are turned into features block by block and summed. Only m × m sums are kept for m components, and every
    penalty is solved from them; no array of size n_samples × n_components is ever stored.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="auto"
        The length scale is tuned on a sample of the rows if the kernel is given by name or has
        ``length_scale="auto"``; a number is used as it is. "auto" chooses among "rbf", "matern52", "matern32",
        "exponential" and "laplacian" by the leave-one-out error of exact fits to a sample: tables want rougher kernels
        than smooth functions. With ``metric="auto"`` it is "rbf" for fewer than 2,000
        rows and where no scales of columns are learned.
    n_components : int or "auto", default="auto"
        Number of components, the dimension of the features. "auto" takes about as few as `tol` needs: the number is
        doubled until it suffices. A model with more than 512 components keeps all of them unless a fourth suffices.
    features : {"auto", "fourier", "nystrom"} or transformer, default="auto"
        Which features. "auto" means "nystrom" where `fit` finds `n_components` itself and for kernels that are not
        stationary, otherwise "fourier". A transformer is cloned and fitted, and determines kernel, metric and number of
        components instead of the parameters `kernel`, `metric` and `n_components`.
    alpha : float, array-like or {"loo", "margin", "gcv", "evidence"}, default="loo"
        The penalty, not scaled by the number of rows; a grid of penalties, from which GCV chooses; or the criterion
        that chooses it: exact leave-one-out errors (of a sample of the rows), generalised cross-validation, or the
        marginal likelihood. Leave-one-out prefers a smaller penalty only if the preference does not depend on a single
        row, such as the only large target, and the largest penalty it tries predicts a constant; `fit` warns
        (`bochner.checks.ConstantModelWarning`) if that is chosen. Rows with an outlier, a value far from all others of
        its column such as 9999 for a gap, are not among those that are left out, nor do scales and `n_components`
        depend on them. GCV assumes that all rows are equally influential and chooses too small a penalty where some lie
        far from the others. After `partial_fit` and `merge` there are no rows to leave out, and evidence replaces
        leave-one-out. "margin" is leave-one-out for three or more classes, whose targets are signs, one column for each
        class: the error is how much the score of the right class falls short of exceeding another score by two,
        squared and averaged over the other classes.
        With features that have a spectral shift (``NystromFeatures(variant="shifted")``) the shift is added to a given
        alpha, and is a lower limit for a chosen one.
    solver : {"auto", "cholesky", "eigen", "cg", "sgd"} or RidgeSolver, default="auto"
        "cg" never forms the m × m sums: it reads the data once an iteration, preconditioned by a sample of the rows on
        a device and by a sketch on the host. Pass a `ConjugateGradient` to set its tolerance and number of iterations.
        "auto" chooses "cg" only if the sums need more than half of the free memory, and says so in `report_`.
        "sgd" forms no sums either: averaged stochastic gradient descent, whose predictions of the rows differ from the
        solution's by a share of at most 0.01, or that of a `StochasticGradient`. It takes more passes than "cg".
    fit_intercept : bool, default=True
        Add a constant to the model, which is not penalised.
    metric : {"auto", "isotropic", "diagonal", "full"}, default="auto"
        How distances between rows are measured: with one length scale for all columns, one for each, or along
        directions that combine columns. "diagonal" and "full" are learned on a sample of up to 1,000 rows, by gradient
        descent on the leave-one-out error of exact fits. They are then shrunk towards equal scales of standardised
        columns ("full" towards one scale for each column), by the amount that has the least error on up to 1,000 other
        rows, and their common factor is tuned like a single length scale. The units of the columns then make no
        difference. Both need a single stationary kernel whose length scale is tuned; "full" also needs an array of at
        most 1,000 columns. "auto" is "diagonal", unless one scale for the columns in their own units has less error on
        those other rows; with fewer than 180 rows, which are too few to learn scales and to compare them, equal scales
        of standardised columns are. It is "isotropic" for more than 300 columns, fewer than 20 rows, and kernels that
        are used as they are.
    tol : float, default=0.05
        For ``n_components="auto"``: the mean squared error on unseen rows may exceed that of exact kernel ridge
        regression, with the same kernel and penalty, by a share of at most `tol`. Errors below a thousandth of the
        variance of the targets count as that thousandth. The excess is measured on training rows that are left out one
        at a time and are not landmarks, and the upper end of its 95 % interval must be below `tol`; see `certificate_`.
    max_components : int, default=2048
        Limit for ``n_components="auto"``. There are never more components than rows (twice as many for Fourier
        features), nor more than the larger of 2,048 and a sixteenth of the rows. A ConvergenceWarning says what was
        reached if `tol` was not. A limit below 256, or below the 2 (n_features + 1) that a linear function needs, also
        leaves too few components to tell what more would learn: the interval of `certificate_` is then unbounded.
    max_seconds : float or None, default=None
        Approximate time limit of the search, in seconds. None for no limit. It includes the tuning of the length scale.
    max_bytes : float or None, default=None
        Memory limit, in bytes. None for no limit. It applies to the sums.
    block_size : int or None
        Rows in a block. None for blocks whose features fit into the cache.
    precision : {"full", "fast"}, default="full"
        Precision of computations with float32 data. With "full", predictions for float32 data are those for float64
        data to 1e-4 of their spread, on every device. "fast" rounds float32 features to integers on processors that
        multiply them faster (AVX-512 VNNI): to 8 bits if `alpha` is a number and rounding adds at most a hundredth to
        it, which moves predictions by at most a tenth of their standard error, and to 13 or 16 bits otherwise. It also
        drops landmarks that in float32 are indistinguishable from combinations of others, and lets a GPU keep 11 bits
        of the data in dense phases and round features to 14 bits. `report_` says what rounding added to alpha.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. Features and sums of data in host
        memory are computed there with torch, and the system is solved there. The fitted model is kept in host memory:
        it can be pickled, and predicts on machines without a GPU.
    checkpoint : path or None
        A file to which the sums are written every half minute and when interrupted. Calling `fit` again with the same
        options and data continues from there, with the same result to the last bit; the file is removed at the end.
        Rows that are skipped are checked against a digest in the file, so that other data or options are refused.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set. Features and linear algebra use the
        same threads.
    verbose : int, default=0
        Above zero, a terminal shows progress.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Attributes
    ----------
    alpha_ : float
        The penalty used, including the spectral shift of the features if they have one.
    alpha_path_ : dict of ndarray
        "alpha", the "criterion" there (GCV and LOO: mean squared error in units of the variance of each target,
        averaged over targets; evidence: negative log likelihood) and "effective_dimension"; empty for a given alpha.
    effective_dimension_ : float
        tr G (G + alpha I)⁻¹, the number of parameters in use; nan for solver="cg" or "sgd".
    component_weights_ : ndarray of shape (n_components,) or (n_targets, n_components)
        The weight of each component, not of each column of X.
    intercept_ : float or ndarray of shape (n_targets,)
    features_ : transformer
        The fitted features; `features_.kernel_` is the kernel with its length scale as a number.
    feature_map_ : FeatureMap
    metric_ : ndarray of shape (n_features,) or (n_features, n_features)
        For a learned metric: one over the squares of the length scales, or the matrix M of (x - y)ᵀ M (x - y).
    feature_importances_ : ndarray of shape (n_features,)
        For a learned metric: the share that each column has in the distances.
    statistics_ : RidgeStatistics
        The sums.
    n_samples_seen_ : int
        Number of rows of positive weight; copies count once.
    n_components_ : int
    certificate_ : Certificate
        The excess of the mean squared error that `tol` limits; only with ``n_components="auto"``.
    report_ : Report
        Solver, condition number, jitter, iterations, and the choices made, in words.
    fit_seconds_ : float
        How long `fit` took.

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

    Only two of these six columns matter, and the columns have different units:

    >>> X = rng.normal(size=(400, 6)) * [1.0, 1.0, 100.0, 1.0, 0.01, 1.0]
    >>> y = np.sin(X[:, 0]) + np.cos(100.0 * X[:, 4])
    >>> model = KernelRidge("auto", metric="diagonal", random_state=0).fit(X[:300], y[:300])
    >>> sorted(model.feature_importances_.argsort()[-2:].tolist())
    [0, 4]
    """

    kernel: Any = "auto"
    n_components: Any = "auto"
    _: KW_ONLY
    alpha: Any = "loo"
    solver: Any = "auto"
    checkpoint: str | os.PathLike[str] | None = None

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Fit the model to data of any kind, discarding what was learned before.

        Parameters
        ----------
        X : array-like, memmap, CSR matrix, frame, Arrow table, path of a Parquet file or folder, Source, or a \
re-iterable of (X, y) or (X, y, weight) blocks
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or the name(s) of the target column(s)
            Several targets share kernel, length scales, components and penalty. If they depend on different columns,
            `sklearn.multioutput.MultiOutputRegressor` fits a model to each, often with smaller errors.
        sample_weight : array-like of shape (n_samples,), or the name of a column
            A weight of w counts as w equal rows. Where penalty, scales and number of components are chosen, a row is
            left out with all its weight: weights may have any unit, such as one over the variance of the noise. The
            error of one row then counts for at most a twentieth of all (of fewer than 80 rows, for four rows). Copies,
            rows that are equal in columns and target, count as one row with their total weight. Only the copies within
            a sample of a stream or file are found; `fit` warns if there are many more.
        """
        self._check_parameters()
        with self._fitting():
            source = as_source(self, X, y, sample_weight, reset=True)
            self.__dict__.pop("_fit", None)
            self._learn(source)
        if isinstance(self.alpha, str) and self._current().is_constant:
            warn_of_largest_penalty(self.statistics_, self.alpha)
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelRidge:
        """Learn from more rows; the first call chooses the features from its rows.

        Coefficients are computed when they are next needed. `X`, `y` and `sample_weight` are those of `fit`.
        """
        self._check_parameters()
        first = not hasattr(self, "_fit")
        with Execution.of(self).threads():
            source = as_source(self, X, y, sample_weight, reset=first)
            if first:
                self._learn(source, merges=True)
                return self
            check_sums(self)
            shape, fit = target_shape(source), self._found
            if shape != fit.target_shape:
                raise ValueError(f"y has shape (n, *{shape}) here and had shape (n, *{fit.target_shape}) before.")
            # summed separately first, so that an error in a later block leaves the model unchanged
            more = RidgeStatistics(fit.feature_map.n_components, fit.statistics.n_targets)
            self._spec(shape).accumulate(source, fit.feature_map, more)
            fit.statistics.merge(more)
            self._keep(replace(fit, solution=None))
        return self

    def merge(self, other: KernelRidge) -> KernelRidge:
        """Add the rows that `other` was fitted on, as if this model had been fitted on both. Returns self.

        Both models need the same features: the same kernel and length scale, n_components and random_state.
        """
        check_is_fitted(self)
        check_is_fitted(other)
        if fingerprint(self.feature_map_) != fingerprint(other.feature_map_):
            raise ValueError(
                "the models have different features, so their sums cannot be added. Fit both with the same "
                "kernel (with a number as length scale), n_components and random_state."
            )
        check_sums(self, other)
        self.statistics_.merge(other.statistics_)
        self._keep(replace(self._found, solution=None))
        return self

    def _check_parameters(self) -> None:
        check_penalty(self.alpha, self.solver)
        check_components(self)
        check_precision(self.precision)
        if self.checkpoint is not None:
            check_path(self.checkpoint)
        self._check_options()

    def _spec(self, target_shape: tuple[int, ...]) -> RidgeSpec:
        return self._ridge_spec(target_shape, self.alpha, self.solver)

    def _learn(self, source: Source, *, merges: bool = False) -> None:
        seed = self.random_state
        if seed is None and self.checkpoint is not None:  # that of the checkpoint to continue
            seed = saved_about(self.checkpoint).get("seed")
        spec = self._spec(target_shape(source)).for_rows(source, merges=merges)
        self._keep(fit_ridge(source, spec, Key.from_random_state(seed), self._keep))
        if source.dtype == np.float32:
            warn_of_level(self.statistics_)
        show("", self.verbose > 0)

    def _keep(self, fit: RidgeFit) -> None:
        self._fit: RidgeFit = fit

    def _current(self) -> RidgeSolution:
        """Return the solution of the current sums, computed when first needed."""
        fit = self._found
        if fit.solution is None:
            if not fit.statistics.with_gram:
                raise NotFittedError("the fit was interrupted before its solver began; call fit again.")
            with Execution.of(self).threads():
                spec = self._spec(fit.target_shape)
                solution = spec.solve(fit.statistics, fit.feature_map, shift=shift_of(fit.transformer))
            fit = replace(fit, solution=solution)
            self._keep(fit)
        assert fit.solution is not None
        return fit.solution

    @property
    def _found(self) -> RidgeFit:
        try:
            return self._fit
        except AttributeError:
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
                "using this estimator."
            ) from None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fit")

    # -- fitted attributes ----------------------------------------------------------------------------------------

    @property
    def features_(self) -> Any:
        """The fitted features."""
        return self._found.transformer

    @property
    def feature_map_(self) -> FeatureMap:  # type: ignore[override]
        """The map that the fitted features apply."""
        return self._found.feature_map

    @property
    def n_components_(self) -> int:
        """The number of components."""
        return self._found.feature_map.n_components

    @property
    def statistics_(self) -> RidgeStatistics:
        """The sums."""
        return self._found.statistics

    @property
    def certificate_(self) -> Certificate:
        """The excess of the mean squared error that `tol` limits."""
        found = self._found.certificate
        if found is None:
            raise AttributeError("only a search for the number of components measures the excess error.")
        return found

    @property
    def _target_shape(self) -> tuple[int, ...]:
        return self._found.target_shape

    @property
    def _spreads(self) -> Array | None:  # type: ignore[override]
        return self._found.spreads

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        return self._current().alpha

    @property
    def alpha_path_(self) -> dict[str, Array]:
        """Penalties tried, with the criterion and the effective dimension of each."""
        return self._current().path

    @property
    def effective_dimension_(self) -> float:
        """The trace of G (G + alpha I)⁻¹."""
        solution = self._current()
        if solution.effective_dimension is None:
            if not self.statistics_.with_gram:
                raise AttributeError(
                    "effective_dimension_ needs the sums, which the file of this model lacks: save it with "
                    "bochner.save(model, path, sums=True), or look at effective_dimension_ before you save it."
                )
            with Execution.of(self).threads():
                found = effective_dimension_of_sums(self.statistics_, solution.alpha, self.fit_intercept)
            self._keep(replace(self._found, solution=replace(solution, effective_dimension=found)))
            return found
        return solution.effective_dimension

    @property
    def component_weights_(self) -> Array:
        """The weight of each component, (n_components,) or (n_targets, n_components)."""
        weights = self._current().coefficients
        return weights[:, 0] if self._target_shape == () else weights.T

    @property
    def intercept_(self) -> Any:
        """The intercept, one for each target."""
        intercept = self._current().intercept
        return float(intercept[0]) if self._target_shape == () else intercept

    @property
    def report_(self) -> Report:
        """How the system was solved."""
        return self._current().report

    def _chosen(self) -> dict[str, str]:
        chosen, report = isinstance(self.alpha, str), self.report_
        criterion = (
            self.alpha_path_.get("criterion", ()) if isinstance(self.alpha, str) and self.alpha in LEFT_OUT else ()
        )
        error = f"{float(np.min(criterion)):.4g} of the targets' variance" if len(criterion) else ""
        notes = (f"condition {report.condition:.3g}" if np.isfinite(report.condition) else "", *report.notes)
        return {
            "alpha": f"{self.alpha_:.4g}, {f'chosen by {self.alpha!r}' if chosen else 'as given'}",
            "leave-one-out error, which chose alpha": error,
            "system": ", ".join((report.method, *filter(None, notes))),
        }

    @property
    def n_samples_seen_(self) -> int:
        """Number of rows of positive weight the model was fitted on."""
        return self.statistics_.n_samples

    @map_dask_blocks
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
