"""Gaussian process regression from streamed sums: means, standard deviations, samples and marginal likelihood."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtri
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import check_count, check_fraction, check_positive, is_auto
from bochner.data.devices import is_there, on_device, rows_on
from bochner.data.execution import Execution
from bochner.data.progress import Progress
from bochner.data.sources import Block, Source, default_rows, positive
from bochner.data.targets import numeric_targets, warn_of_constant, warn_of_level
from bochner.data.validation import (
    DistributedScore,
    check_components,
    check_precision,
    is_distributed,
    map_dask_blocks,
    validate_rows,
)
from bochner.draws.keys import Key
from bochner.estimators.gradients import GradientMixin
from bochner.estimators.inputs import as_source
from bochner.estimators.models import check_sums
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.posteriors import (
    JOINT_ROWS,
    FunctionSamples,
    Posterior,
    ShareFold,
    draw_functions,
    left_out,
)
from bochner.estimators.supervised import SupervisedModel
from bochner.features.maps import features_of
from bochner.features.nystrom import Nystrom
from bochner.kernels.algebra import Kernel
from bochner.ridge.reports import Report
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.marginal_likelihood import MarginalLikelihood, noise_shares
from bochner.tuning.metrics import EVIDENCE
from bochner.tuning.policies import LikelihoodPolicy

POLICY = LikelihoodPolicy()


@dataclass(eq=False, repr=False)
class GaussianProcessRegressor(DistributedScore, GradientMixin, MultiOutputMixin, RegressorMixin, SupervisedModel):
    """Gaussian process regression in one pass and bounded memory, with hyperparameters of most evidence.

    The evidence is the marginal likelihood of the model y = b + f(x) + noise with f ~ GP(0, amplitude · k) and a flat
    prior on the constant b. The kernel is replaced by that of its features, ZZᵀ ≈ k, so that the posterior is that of m
    weights, computed from the sums that kernel ridge regression keeps. With Nyström features (the default) the part of
    the prior that the landmarks do not span is added again, as noise of the training rows and as uncertainty of new
    ones (FITC, Snelson & Ghahramani 2006): away from the data, standard deviations grow to those of the prior, and with
    as many components as rows the process is exact. With other features, standard deviations are those of m weights:
    with many rows they are too small everywhere, even far from the data ("variance starvation").

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name (or ``length_scale="auto"`` in a kernel) has its length scale fitted by evidence on a sample of the
        rows; a number in a kernel is used as it is. With up to 512 rows, a length scale that all columns share
        maximises the evidence of all rows with the exact kernel. "auto" chooses the kernel as `KernelRidge` does, but
        by evidence.
    n_components : int or "auto", default=1024
        Number of components, the dimension of the features. "auto" takes as few as `tol` needs.
    features : {"auto", "nystrom", "fourier"} or transformer, default="auto"
        "auto" is "nystrom".
    noise_variance : float or "auto", default="auto"
        Variance of the noise; "auto" maximises the evidence.
    amplitude : float or "auto", default="auto"
        Factor of the kernel, the prior variance of f where k(x, x) = 1; "auto" maximises the evidence, while the
        variance of the prior at the rows is at most a thousand times that of the targets. If both are "auto", a
        `bochner.checks.ConstantModelWarning` says when the model predicts rows left out no better than a constant does.
    fit_intercept : bool, default=True
        Whether the model has the constant b.
    metric : {"auto", "isotropic", "diagonal", "full"}, default="auto"
        How distances are measured, as in `KernelRidge`; but "diagonal" and "full" are learned by the evidence of exact
        Gaussian processes on a sample.
    n_restarts : int, default=1
        Further searches for a single length scale, from random starts.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `NystromFeatures` and `FourierFeatures`: components are added until the
        relative trace error (Nyström) or Frobenius error (Fourier features) of the kernel matrix of the rows, or of a
        sample of 20,000, is at most `tol`.
    block_size : int or None
        Rows in a block. None for blocks whose features fit into the cache.
    precision : {"full", "fast"}, default="full"
        Precision of computations with float32 data. See `KernelRidge`.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. Features and sums of data in host
        memory are computed there with torch, the system is solved there, and so are means and standard deviations. The
        fitted model is kept in host memory: it can be pickled, and predicts on machines without a GPU. Functions are
        drawn on the host.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.
    verbose : int, default=0
        Above zero, a terminal shows progress.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with its length scale as a number; multiplied by `amplitude_` it is the prior covariance.
    amplitude_, noise_variance_ : float, or ndarray of shape (n_targets,) for several targets
    alpha_ : float
        Noise over amplitude: the penalty of the equivalent ridge regression.
    effective_dimension_ : float
    features_, feature_map_, n_components_
        The fitted features.
    metric_, feature_importances_ : ndarray
        For a learned metric, see `KernelRidge`.
    statistics_ : RidgeStatistics
        The sums.
    n_samples_seen_ : int
        Rows of positive weight.
    report_ : Report
    fit_seconds_ : float
        How long `fit` took.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import GaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 5, size=(200, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    >>> model = GaussianProcessRegressor(random_state=0).fit(X, y)
    >>> mean, std = model.predict([[2.5], [50.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(5.0)) < 0.1), bool(std[0] < 0.1 < std[1])
    (True, True)
    >>> f = model.sample_functions(3, random_state=0)
    >>> f([[2.5], [50.0]]).shape
    (2, 3)
    """

    kernel: Any = "rbf"
    n_components: Any = 1024
    _: KW_ONLY
    noise_variance: Any = "auto"
    amplitude: Any = "auto"
    n_restarts: int = 1
    tol: float = 0.01

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianProcessRegressor:
        """Fit the model to data of any kind, discarding what was learned before.

        Parameters
        ----------
        X : array-like, memmap, CSR matrix, frame, Arrow table, path of a Parquet file or folder, Source, or a \
re-iterable of (X, y) or (X, y, weight) blocks
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or the name(s) of the target column(s)
            Several targets share kernel, length scales, components and the ratio of noise to amplitude. If they depend
            on different columns, `sklearn.multioutput.MultiOutputRegressor` fits a model to each.
        sample_weight : array-like of shape (n_samples,), or the name of a column
            The noise of a row of weight w has the variance ``noise_variance / w``.
        """
        self._check_parameters()
        with self._fitting():
            self._learn(as_source(self, X, y, sample_weight, reset=True))
        return self

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianProcessRegressor:
        """Learn from more rows. The first call chooses kernel, features and `alpha_`, from the rows it is given.

        `X`, `y` and `sample_weight` are those of `fit`.
        """
        self._check_parameters()
        first = not hasattr(self, "statistics_")
        with Execution.of(self).threads():
            source = as_source(self, X, y, sample_weight, reset=first)
            if first:
                self._learn(source)
            else:
                check_sums(self)
                self._see(source, self._log_weight)
        return self

    def _check_parameters(self) -> None:
        check_components(self)
        check_precision(self.precision)
        for name in ("noise_variance", "amplitude"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value == "auto"):
                value = check_positive(name, value, advice="Or pass 'auto'.")
                if not 1e-140 < value < 1e140:
                    raise ValueError(
                        f"{name}={value:g} is beyond what covariances can be computed with; divide the targets by a "
                        "constant, and it by the square of the constant."
                    )
        check_count("n_restarts", self.n_restarts, least=0)
        self._check_options()

    def _learn(self, source: Source) -> None:
        key = Key.from_random_state(self.random_state)
        features: Any = "nystrom" if isinstance(self.features, str) and self.features == "auto" else self.features
        spec = replace(self._feature_spec(), takes_shift=True)
        choice = replace(self._kernel_spec(), criterion=EVIDENCE).choose(source, spec, numeric_targets, key)
        kernel, self._spreads = choice.kernel, choice.spreads
        if isinstance(features, str):
            tuned = self._spreads is None and bool(self._kernel_spec().tuned())
            if tuned and source.n_samples is not None and source.n_samples <= POLICY.exact_rows:
                rows = positive(source.sample(POLICY.exact_rows, key))
                kernel = self._likelihood.best_scale(kernel, rows.X, numeric_targets(rows.y), rows.weight)
            most = 0 if is_auto(self.n_components) else self.n_components
            if features == "nystrom" and source.n_samples is not None and source.n_samples <= most:
                # every row is a landmark: the exact process
                features = NystromFeatures(kernel, self.n_components, landmarks="rpcholesky", random_state=key.seed)
        transformer, feature_map = replace(spec, features=features).fit(source, kernel, self.n_components, key)
        self.features_, self.feature_map_, self.n_components_ = transformer, feature_map, feature_map.n_components
        self.kernel_: Kernel | None = getattr(transformer, "kernel_", None)
        self._target_shape = tuple(np.shape(source.head().y)[1:])
        rows = positive(source.sample(POLICY.alpha_rows, key.child("alpha")))
        self._alpha = self._choose_alpha(rows)
        n_targets = int(np.prod(self._target_shape, dtype=int))
        self.statistics_ = RidgeStatistics(self.n_components_, n_targets)
        self._see(source, 0.0)
        if source.dtype == np.float32:
            warn_of_level(self.statistics_)
        if isinstance(self.noise_variance, str) and isinstance(self.amplitude, str):
            self._compare_with_constant(rows)

    def _compare_with_constant(self, block: Block) -> None:
        """Warn if the marginal likelihood chose a model that predicts rows left out no better than their mean."""
        posterior, statistics = self._current(), self.statistics_
        Z, Y, w = self.feature_map_(block.X).astype(np.float64, copy=False), numeric_targets(block.y), block.weights
        share = noise_shares(left_out(self._rest_kernel, block.X, Z, self._shift), w, posterior.alpha)
        residual = statistics.left_out_residuals(
            Z, Y, np.array([posterior.alpha]), posterior.spectrum, self.fit_intercept, w * share
        )
        warn_of_constant(Y, residual[:, 0], w)

    def _see(self, source: Source, log_weight: float) -> None:
        """Add a source to the sums. They change only when all of it has been read."""
        shape = tuple(np.shape(source.head().y)[1:])
        if shape != self._target_shape:
            raise ValueError(f"y has shape (n, *{shape}) here and had shape (n, *{self._target_shape}) before.")
        progress = Progress(source.n_samples, "fit", self.verbose > 0)
        fold = ShareFold(
            self.n_components_,
            self.statistics_.n_targets,
            self._rest_kernel,
            self._alpha,
            self._shift,
            source.n_samples,
        )
        more, of_rows = on_device(source, self.device).fold(
            fold, self.feature_map_, rows=self.block_size, after=lambda _, row: progress.reach(row)
        )
        progress.close()
        # the first sums are not copied: sums on a device stay there for the solver
        self.statistics_ = self.statistics_.merge(more) if self.statistics_.n_samples else more
        if not self.statistics_.n_samples:
            raise ValueError("every row has weight zero.")
        self._log_weight = log_weight + of_rows
        self.n_samples_seen_ = self.statistics_.n_samples
        self._posterior: Posterior | None = None
        self._current()
        self.statistics_.to_host()  # the device's memory is free again

    def _choose_alpha(self, block: Block) -> float:
        """Noise over amplitude: given, or that with the most evidence on a sample of rows."""
        likelihood = self._likelihood
        if likelihood.given_alpha is not None:
            return likelihood.given_alpha
        Z = self.feature_map_(block.X).astype(np.float64, copy=False)
        rest = left_out(self._rest_kernel, block.X, Z, self._shift) if self._has_rest else None
        return likelihood.best_alpha_of_rows(Z, numeric_targets(block.y), block.weights, rest)

    @property
    def _likelihood(self) -> MarginalLikelihood:
        noise, amplitude = (None if isinstance(v, str) else float(v) for v in (self.noise_variance, self.amplitude))
        return MarginalLikelihood(noise, amplitude, self.fit_intercept)

    @property
    def _has_rest(self) -> bool:
        """Whether the features leave out a part of the prior whose variance is known."""
        return self._rest_kernel is not None or self._shift > 0

    @property
    def _rest_kernel(self) -> Kernel | None:
        """The kernel, if the features are a projection and so leave a part of it out; None for other features."""
        found = self.feature_map_
        projection = isinstance(found, Nystrom) and found.triangular and found.kernel is not None
        return self.kernel_ if projection else None

    # -- the posterior -------------------------------------------------------------------------------------------

    def _current(self) -> Posterior:
        check_is_fitted(self, "statistics_")
        if self._posterior is None:
            with Execution.of(self).threads():
                self._posterior = self._solve(self.statistics_)
        return self._posterior

    def _solve(self, statistics: RidgeStatistics) -> Posterior:
        likelihood, alpha = self._likelihood, self._alpha
        spectrum = statistics.spectrum(self.fit_intercept)
        if not self._has_rest and likelihood.given_alpha is None:  # all rows, rather than a sample
            alpha = likelihood.best_alpha(spectrum)
        noise = np.array(likelihood.noise(spectrum, [alpha])[0])
        evidence = spectrum.log_evidence([alpha], noise).sum() + 0.5 * self._log_weight * statistics.n_targets
        return Posterior(
            spectrum,
            spectrum.coefficients(alpha),
            statistics.target_mean if self.fit_intercept else np.zeros(statistics.n_targets),
            statistics.feature_mean if self.fit_intercept else np.zeros(statistics.n_components),
            1.0 / statistics.weight if self.fit_intercept else 0.0,
            alpha,
            noise,
            noise / alpha,
            float(evidence),
            spectrum.factor.at(alpha).report,
        )

    def log_marginal_likelihood(self) -> float:
        """Log evidence of the rows seen, summed over targets; the flat prior on the constant uses up one row."""
        return self._current().evidence

    def _shaped(self, values: Array) -> Any:
        return float(values[0]) if self._target_shape == () else values

    @property
    def noise_variance_(self) -> Any:
        """Variance of the noise."""
        return self._shaped(self._current().noise)

    @property
    def amplitude_(self) -> Any:
        """Factor of the kernel."""
        return self._shaped(self._current().amplitude)

    @property
    def alpha_(self) -> float:
        """The penalty of the equivalent ridge regression."""
        return self._current().alpha

    @property
    def effective_dimension_(self) -> float:
        """Number of parameters in use."""
        posterior = self._current()
        return float(posterior.spectrum.effective_dimension([posterior.alpha])[0])

    @property
    def report_(self) -> Report:
        """How the system was solved."""
        return self._current().report

    def _chosen(self) -> dict[str, str]:
        facts = {}
        for name in ("noise_variance", "amplitude"):
            values = np.array2string(np.atleast_1d(getattr(self, f"{name}_")), precision=4, separator=", ").strip("[]")
            chosen = "of most evidence" if isinstance(getattr(self, name), str) else "as given"
            facts[name.replace("_", " ")] = f"{values}, {chosen}"
        return {**facts, "log evidence": f"{self.log_marginal_likelihood():.5g}"}

    # -- predictions ---------------------------------------------------------------------------------------------

    def _blocks(self, X: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Rows and their features, float64, block by block."""
        m = self.feature_map_.n_components
        rows = min(X.shape[0], self.block_size or default_rows(m, np.float64))
        buffer = np.empty((rows, m), X.dtype)
        for start in range(0, X.shape[0], rows):
            block = X[start : start + rows]
            Z = buffer[: block.shape[0]]
            self.feature_map_.into(block, Z)
            yield slice(start, start + rows), block, Z.astype(np.float64, copy=False)

    @map_dask_blocks
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, include_noise: bool = False) -> Any:
        """Posterior mean, and its standard deviations or covariances, block by block.

        Standard deviations are those of the function, without noise, unless ``include_noise=True``.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        return_std, return_cov : bool
            Return a second array: standard deviations in the shape of y, or covariances (n_samples, n_samples), with a
            last axis of n_targets if y has two dimensions.
        include_noise : bool, default=False
            False: the uncertainty of the function f, without noise, as in scikit-learn without a WhiteKernel. True:
            that of a new observation y = f + noise. With many rows f is known far better than any y: mean ± 2 std
            contains 95 % of new observations only with the noise. `predict_interval` includes it.

        Returns
        -------
        mean, or (mean, std), or (mean, cov)
            In the dtype of X when that is float32 or float64.
        """
        posterior = self._current()
        if return_std and return_cov:
            raise ValueError("ask for return_std or return_cov, not for both.")
        X = validate_rows(self, X, reset=False)
        mean = self._means(X, posterior).reshape(-1, *self._target_shape)
        if not (return_std or return_cov):
            return mean
        with Execution.of(self).threads():
            spread = self._covariances(X, posterior) if return_cov else self._variances(X, posterior)
        if include_noise:
            spread += np.eye(len(spread)) if return_cov else 1.0
        spread = (spread[..., None] * posterior.noise).reshape(*spread.shape, *self._target_shape)
        return mean, (spread if return_cov else np.sqrt(spread)).astype(X.dtype, copy=False)

    @map_dask_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9, *, include_noise: bool = True) -> Array:
        """Intervals that contain the target of a new row with a given probability, if the model is right.

        They end at quantiles of the normal distribution that `predict` describes: ``coverage=0.9`` at those of 5 and
        95 per cent.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        coverage : float, default=0.9
            Share of new observations that the intervals hold.
        include_noise : bool, default=True
            True: of a new observation. False: of the function, without noise.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2), or (n_samples, n_targets, 2)

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import GaussianProcessRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 5, size=(400, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
        >>> model = GaussianProcessRegressor(random_state=0).fit(X[:200], y[:200])
        >>> low, high = model.predict_interval(X[200:], coverage=0.9).T
        >>> bool(0.83 < np.mean((low < y[200:]) & (y[200:] < high)) < 0.97)
        True
        """
        width = float(ndtri(0.5 + check_fraction("coverage", coverage, advice="Pass 0.9 for 90 per cent.") / 2.0))
        return self._ends(X, [-width, width], include_noise)

    @map_dask_blocks
    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95), *, include_noise: bool = True) -> Array:
        """Quantiles of the target of a new row: those of the normal distribution that `predict` describes.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        quantiles : float or sequence of float, default=(0.05, 0.5, 0.95)
            Between 0 and 1; 0.5 is the mean.
        include_noise : bool, default=True
            True: of a new observation. False: of the function, without noise.

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles), or (n_samples, n_targets, n_quantiles)
            In the order of `quantiles`.

        Examples
        --------
        >>> import numpy as np
        >>> from bochner import GaussianProcessRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 5, size=(400, 1))
        >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=400)
        >>> model = GaussianProcessRegressor(random_state=0).fit(X[:200], y[:200])
        >>> bool(0.68 < np.mean(y[200:] < model.predict_quantiles(X[200:], 0.75)[:, 0]) < 0.82)
        True
        """
        shares = np.ravel(quantiles).tolist()
        found = [check_fraction("quantiles", share, advice="Pass 0.9 for 90 per cent.") for share in shares]
        return self._ends(X, ndtri(found), include_noise)

    def _ends(self, X: Any, deviations: Any, include_noise: bool) -> Array:
        """Means and so many standard deviations, on a last axis."""
        mean, std = self.predict(X, return_std=True, include_noise=include_noise)
        return np.stack([mean + float(number) * std for number in deviations], axis=-1)

    def _means(self, X: Array, posterior: Posterior) -> Array:
        """(n, k)."""
        offset = posterior.level - posterior.centre @ posterior.coefficients
        return self._scores(X, posterior.coefficients, offset)

    def _variances(self, X: Array, posterior: Posterior) -> Array:
        """Variances of the function, divided by that of the noise, (n,)."""
        out = np.empty(X.shape[0])
        for rows, block, Z in self._device_blocks(X) if is_there(self.device) else self._blocks(X):
            rest = left_out(self._rest_kernel, block, Z, self._shift)
            out[rows] = posterior.shares(Z) + posterior.level_share + rest / posterior.alpha
        return out

    def _device_blocks(self, X: Array) -> Iterator[tuple[slice, Array, Any]]:
        """`_blocks` with the features on the device."""
        start = 0
        for there in rows_on(str(self.device), X, 4 * self.feature_map_.n_components):
            rows = slice(start, start + len(there))
            yield rows, X[rows], features_of(self.feature_map_, there).double()
            start += len(there)

    def _covariances(self, X: Array, posterior: Posterior) -> Array:
        """Covariances of the function, divided by the variance of the noise, (n, n)."""
        Z = np.vstack([Z.copy() for _, _, Z in self._blocks(X)])
        half = posterior.half(Z)
        shared = half @ half.T + posterior.level_share
        kernel = self._rest_kernel
        rest = np.zeros_like(shared) if kernel is None else kernel(X).astype(np.float64) - Z @ Z.T
        np.fill_diagonal(rest, left_out(kernel, X, Z, self._shift))
        return np.asarray(shared + rest / posterior.alpha)

    def sample_functions(
        self, n_samples: int = 1, random_state: Any = None, *, n_components: int = 4096
    ) -> FunctionSamples:
        """Draw functions from the posterior; they can be evaluated at any rows, any number of times.

        Pathwise conditioning (Wilson et al. 2020): a draw of the prior, made of random Fourier features (or of others
        if the kernel is not stationary), is corrected with the exact kernel so that it agrees with a draw of the
        posterior at the landmarks. Far from the data the draw keeps the variance of the prior. With features other than
        Nyström's, only the weights are drawn. Covariances are those of `predict` up to an error of about
        1 / sqrt(n_components) of the prior's, and exactly those on average over random_state.

        Parameters
        ----------
        n_samples : int
            Number of functions.
        random_state : int, RandomState, Generator or None
            Seed of everything random: an int gives the same result every time.
        n_components : int
            Number of random components that the prior is drawn with.

        Returns
        -------
        functions : callable
            functions(X) has shape (n_rows, n_samples), or (n_rows, n_targets, n_samples) if y has two dimensions.
        """
        n_samples, n_components = check_count("n_samples", n_samples), check_count("n_components", n_components)
        return draw_functions(self, self._current(), n_samples, Key.from_random_state(random_state), n_components)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Draw values of the function at the rows of X from the posterior.

        Values at up to 2,048 rows are drawn from their joint normal distribution, with the means and covariances of
        `predict`, for any kernel. For more rows, and for Dask data, whose blocks are computed one by one, the values
        are those of `sample_functions`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        n_samples : int
            Number of draws.
        random_state : int, RandomState, Generator or None
            Seed of everything random: an int gives the same result every time.

        Returns
        -------
        y : ndarray of shape (n_rows, n_samples), or (n_rows, n_targets, n_samples) if y has two dimensions
        """
        n_samples = check_count("n_samples", n_samples)
        posterior, key = self._current(), Key.from_random_state(random_state)
        if is_distributed(X):
            return self._function_values(X, n_samples=n_samples, seed=key.seed)
        X = validate_rows(self, X, reset=False)
        if X.shape[0] > JOINT_ROWS:
            return self._function_values(X, n_samples=n_samples, seed=key.seed)
        with Execution.of(self).threads():
            covariance = self._covariances(X, posterior)
            sizes = np.sqrt(np.diagonal(covariance))  # correlations have rounding errors relative to each row's own
            units = np.where(sizes > 0, sizes, 1.0)
            values, vectors = eigh(covariance / units / units[:, None], check_finite=False)
            # the symmetric root, since signs of eigenvectors depend on rounding
            root = sizes[:, None] * ((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
            # in this order, the values of the first target do not depend on the number of targets
            draws = key.child("values").generator().standard_normal((len(posterior.noise), len(root), n_samples))
            spread = np.sqrt(posterior.noise)[:, None, None] * (root @ draws)  # (k, n, s)
        y = self._means(X, posterior)[:, :, None] + spread.transpose(1, 0, 2)
        return y.reshape(len(root), *self._target_shape, n_samples).astype(X.dtype, copy=False)

    @map_dask_blocks
    def _function_values(self, X: Any, n_samples: int, seed: int) -> Array:
        return self.sample_functions(n_samples, seed)(X)
