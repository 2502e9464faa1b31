"""Kernel classification: squared loss in one pass, logistic loss and squared hinge by Newton's method."""

from __future__ import annotations

import numbers
import os
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bochner.backends import Array
from bochner.checks import ConstantModelWarning, check_choice, check_count, check_positive, warn
from bochner.data.devices import on_device
from bochner.data.execution import Execution
from bochner.data.labels import SignSource, codes_of, find_labels, given_labels, labels_of, unique_labels
from bochner.data.sources import ArraySource, Block, Source, limited, positive
from bochner.data.validation import DistributedScore, map_dask_blocks, validate_rows
from bochner.draws.keys import Key
from bochner.estimators.feature_spec import FeatureSpec
from bochner.estimators.gradients import GradientMixin
from bochner.estimators.inputs import as_source
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.ridge_fit import choose_features, target_shape
from bochner.estimators.supervised import SupervisedModel
from bochner.features.maps import FeatureMap
from bochner.features.nystrom import Nystrom
from bochner.newton.losses import LogLoss, Loss, as_loss
from bochner.newton.minimize import newton
from bochner.newton.objectives import KEPT_BYTES, Problem
from bochner.ridge.reports import Report
from bochner.tuning.deadline import Deadline
from bochner.tuning.metrics import with_scales
from bochner.tuning.penalty_path import PenaltyPath, held_folds
from bochner.tuning.policies import ClassifierPolicy

POLICY = ClassifierPolicy()
LOSSES = ("log_loss", "squared_hinge", "squared")


def _squared(self: Any) -> bool:
    if self.loss == "squared":
        return True
    raise AttributeError("partial_fit needs loss='squared': Newton's method reads the data several times.")


def _seconds_left(deadline: Deadline) -> float | None:
    """Return what is left for `max_seconds` of a model fitted within another one."""
    return None if deadline.limit is None else max(1e-3, deadline.left())


def _has_probabilities(self: Any) -> bool:
    if self.loss == "log_loss":
        return True
    raise AttributeError(f"probabilities need loss='log_loss'; loss={self.loss!r} has decision_function alone.")


@dataclass(eq=False, repr=False)
class KernelClassifier(DistributedScore, GradientMixin, ClassifierMixin, SupervisedModel):
    """Kernel classification in bounded memory: min Σ w ℓ(f(x) + b, y) + alpha / 2 ‖f‖², f linear in features ZZᵀ ≈ K.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name (or ``length_scale="auto"`` in a kernel) has its length scale tuned on a sample of the rows, by ridge
        regression on targets ±1; a number in a kernel is used as it is. "auto" chooses the kernel as in `KernelRidge`.
    n_components : int or "auto", default="auto"
        Number of components. "auto" takes as few as `tol` needs.
    loss : {"log_loss", "squared_hinge", "squared"}, default="log_loss"
        Logistic or softmax regression with probabilities, ℓ = -log p; a support vector machine, one class against the
        rest, ℓ = max(0, 1 - y f)² / 2; or ridge regression on targets ±1, ℓ = (y - f)² / 2, in one pass, with
        `partial_fit`.
    features : {"auto", "fourier", "nystrom"} or transformer, default="auto"
        Which features, as for `KernelRidge`; a transformer is cloned and fitted, and determines kernel, metric and
        number of components.
    alpha : float, array-like or {"auto", "loo", "margin", "gcv", "evidence"}, default="auto"
        The penalty, never scaled by the number of rows: the prior precision of the scores (1 / C elsewhere). "auto"
        means "margin" for the squared loss. For the other losses, "auto" or an array-like takes the penalty of a grid,
        or of the given numbers, with the least loss on held-out rows of a sample, several folds of them if rows are
        few; as the penalty is a prior precision, it does not change with the number of rows. "auto" warns
        (`bochner.checks.ConstantModelWarning`) if no penalty is clearly better than a constant model.
        "loo", "margin", "gcv" and "evidence" are for the squared loss; see `KernelRidge`.
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the weights of the rows.
    solver : {"auto", "cholesky", "eigen", "cg", "sgd"} or RidgeSolver, default="auto"
        For the squared loss; see `KernelRidge`.
    fit_intercept : bool, default=True
        Add a constant to the model, which is not penalised.
    metric : {"auto", "isotropic", "diagonal", "full"}, default="auto"
        How distances are measured; "diagonal" and "full" are learned as in `KernelRidge`, with targets ±1.
    solver_tol : float, default=1e-4
        Newton's method stops when further steps would lower the objective by at most this fraction.
    max_iter : int, default=200
        Newton steps, at most.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `KernelRidge`: the number is chosen with the squared loss on at most 20,000
        rows. Features of all rows are kept in memory between passes if they take at most 512 MB and half of max_bytes;
        otherwise they are computed again, block by block.
    block_size : int or None
        Rows in a block. None for blocks whose features fit into the cache.
    precision : {"full", "fast"}, default="full"
        Precision of computations with float32 data. See `KernelRidge`.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. See `KernelRidge`.
    checkpoint : path or None
        For the squared loss; see `KernelRidge`.
    n_jobs : int or None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.
    verbose : int, default=0
        Above zero, a terminal shows progress.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    component_weights_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        The weight of each component, not of each column of X.
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
    alpha_path_ : dict of ndarray
        "alpha" and the "criterion" at each; empty for a given alpha.
    features_, feature_map_, n_components_
        The fitted features.
    metric_, feature_importances_ : ndarray
        For a learned metric, see `KernelRidge`.
    ridge_ : KernelRidge
        For the squared loss: the regression on targets ±1.
    n_iter_ : int
        Newton steps.
    report_ : Report
        Passes over the data, convergence, and the choices made, in words.
    fit_seconds_ : float
        How long `fit` took.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import KernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = KernelClassifier(random_state=0).fit(X[:500], y[:500])
    >>> bool(model.score(X[500:], y[500:]) > 0.9)
    True
    >>> model.predict_proba([[1.0, 1.0]]).round(1)
    array([[0., 1.]])
    """

    kernel: Any = "rbf"
    n_components: Any = "auto"
    _: KW_ONLY
    loss: str = "log_loss"
    alpha: Any = "auto"
    class_weight: Any = None
    solver: Any = "auto"
    solver_tol: float = 1e-4
    max_iter: int = 200
    checkpoint: str | os.PathLike[str] | None = None

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelClassifier:
        """Fit the model to data of any kind, discarding what was learned before.

        Parameters
        ----------
        X : array-like, memmap, CSR matrix, frame, Arrow table, path of a Parquet file or folder, Source, or a \
re-iterable of (X, y) or (X, y, weight) blocks
        y : array-like of shape (n_samples,), or the name of the label column
        sample_weight : array-like of shape (n_samples,), or the name of a column
        """
        deadline = Deadline(self.max_seconds)
        self._check_parameters()
        with self._fitting():
            source = as_source(self, X, y, sample_weight, reset=True, numeric=False)
            labels = find_labels(source, self.class_weight)
            for name in ("ridge_", "certificate_", "_coefficients", "_intercept", "_alpha", "_path", "_report"):
                if hasattr(self, name):
                    delattr(self, name)
            self._labels, self.classes_ = labels, labels.classes
            signs = SignSource(source, labels)
            if self.loss == "squared":
                self.ridge_ = self._ridge(max_seconds=_seconds_left(deadline)).fit(signs)
                self._adopt(self.ridge_)
            else:
                self._learn_by_newton(signs, deadline)
        return self

    @available_if(_squared)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> KernelClassifier:
        """Learn from more rows (squared loss). The first call chooses the features, from the rows it is given.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like
            All labels that will occur; needed in the first call if its rows do not contain them all.
        """
        self._check_parameters()
        first = not hasattr(self, "ridge_")
        with Execution.of(self).threads():
            source = as_source(self, X, y, sample_weight, reset=first, numeric=False)
            if first:
                if isinstance(self.class_weight, str):
                    raise ValueError(
                        "class_weight='balanced' needs to see all labels at once; give a dict to partial_fit."
                    )
                found = (
                    find_labels(source, self.class_weight)
                    if classes is None
                    else given_labels(classes, self.class_weight)
                )
                ridge = self._ridge().partial_fit(source.mapped(found))
                self._labels, self.classes_, self.ridge_ = found, found.classes, ridge
            else:
                if classes is not None and not np.array_equal(unique_labels(labels_of(classes)), self.classes_):
                    raise ValueError(f"classes differ from those of the first call, {self.classes_.tolist()}.")
                self.ridge_.partial_fit(source.mapped(self._labels))
            self._adopt(self.ridge_)
        return self

    def _check_parameters(self) -> None:
        check_choice("loss", self.loss, LOSSES)
        check_count("max_iter", self.max_iter)
        check_positive("solver_tol", self.solver_tol)
        if self.loss == "squared":
            self._ridge()._check_parameters()
            return
        if self.checkpoint is not None:
            raise ValueError("checkpoint needs loss='squared': Newton's method keeps no sums.")
        if isinstance(self.alpha, str):
            if self.alpha != "auto":
                raise ValueError(
                    f"alpha={self.alpha!r} is for loss='squared'; for loss={self.loss!r} give a positive number, a "
                    "list of them, or 'auto'."
                )
        else:
            try:
                alphas = np.asarray(self.alpha, dtype=float)
            except (TypeError, ValueError):
                alphas = np.empty(0)
            if alphas.ndim > 1 or not alphas.size or not (np.isfinite(alphas).all() and (alphas > 0).all()):
                raise ValueError(f"alpha must be a positive number, a list of them, or 'auto'; got {self.alpha!r}.")
        self._ridge(alpha="gcv")._check_parameters()

    def _ridge(self, **changes: Any) -> KernelRidge:
        """The regression on targets ±1, with the options of this model."""
        options = {name: getattr(self, name) for name in KernelRidge().get_params(deep=False)}
        options["alpha"] = "margin" if isinstance(self.alpha, str) and self.alpha == "auto" else self.alpha
        return KernelRidge(**{**options, **changes})

    def _adopt(self, ridge: KernelRidge) -> None:
        self.features_, self.feature_map_ = ridge.features_, ridge.feature_map_
        self.n_components_, self.n_iter_, self._spreads = ridge.n_components_, 1, ridge._spreads

    # -- Newton --------------------------------------------------------------------------------------------------

    def _learn_by_newton(self, signs: Source, deadline: Deadline) -> None:
        key = Key.from_random_state(self.random_state)
        notes: tuple[str, ...] = ()
        spec = replace(self._feature_spec(), scheme="mixed")
        if isinstance(self.n_components, str) and isinstance(self.features, str):
            rows = limited(signs.sample(POLICY.growth_rows, key.child("growth")))
            sample = ArraySource(rows.X, rows.y, rows.weight)
            ridge = self._ridge_spec(target_shape(sample), "margin", "auto").within(_seconds_left(deadline))
            ridge = ridge.for_rows(sample)
            grown = choose_features(sample, ridge, Key.from_random_state(key.seed), with_penalty=False)
            transformer, feature_map, self.certificate_ = grown.transformer, grown.feature_map, grown.certificate
            self._spreads, spec = grown.spreads, replace(spec, auto=ridge.features.auto)
            notes = (f"n_components={feature_map.n_components}, grown with the squared loss on {len(rows)} rows",)
        else:
            choice = self._kernel_spec().choose(signs, spec, np.asarray, key)
            self._spreads = choice.spreads
            transformer, feature_map = spec.fit(signs, choice.kernel, self.n_components, key)
        self.features_, self.feature_map_, self.n_components_ = transformer, feature_map, feature_map.n_components
        loss = as_loss(self.loss)
        alpha, path, how, start = self._choose_alpha(signs, spec, feature_map, loss, key)
        self.n_components_ = self.feature_map_.n_components  # a longer scale may leave fewer landmarks apart
        problem = self._problem(on_device(signs, self.device), self.feature_map_, loss, alpha)
        P, report, self.n_iter_ = newton(
            problem.kept(), key.child("newton"), start, tol=self.solver_tol, max_iter=self.max_iter
        )
        self._coefficients, self._intercept = P[:-1], P[-1]
        self._alpha, self._path, self._report = alpha, path, report.noting(*how, *notes)

    def _problem(self, signs: Source, feature_map: FeatureMap, loss: Loss, alpha: float) -> Problem:
        return Problem(
            signs,
            feature_map,
            loss,
            alpha,
            self._labels.n_scores,
            self.fit_intercept,
            self.block_size,
            self.verbose,
            budget=KEPT_BYTES if self.max_bytes is None else min(KEPT_BYTES, 0.5 * self.max_bytes),
            single=self.solver_tol >= POLICY.single_tol,
        )

    def _choose_alpha(
        self, signs: Source, spec: FeatureSpec, feature_map: FeatureMap, loss: Loss, key: Key
    ) -> tuple[float, dict[str, Array], tuple[str, ...], Array | None]:
        """A given penalty, or that of least loss on held-out rows of a sample, and a start for Newton's method."""
        if isinstance(self.alpha, numbers.Real):
            return float(self.alpha), {}, (), None
        draws = key.child("alpha")
        block = limited(positive(signs.sample(POLICY.alpha_rows, draws)))
        few, nested = feature_map, True  # whether the first components of the feature map are those of the few
        most = POLICY.alpha_components if self._labels.n_scores == 1 else POLICY.alpha_components_of_many
        if few.n_components > most and isinstance(self.features, str):
            # fewer components of the same kernel: the penalty has the same meaning for any number of them
            if isinstance(few, Nystrom):
                few = few.truncated(most)
            else:
                nested = False
                _, few = spec.fit(signs, self.features_.kernel_, most, draws.child("columns"))
        auto = isinstance(self.alpha, str)
        folds, n_first = held_folds(codes_of(block.y), POLICY.fold_rows, draws.child("held"))
        if not folds:
            alpha = 1.0 if auto else float(min(np.ravel(self.alpha), key=lambda alpha: abs(np.log(alpha))))
            warn(
                f"alpha={alpha:g} is a guess: fewer than two classes have two rows, so that none can be held out, and "
                "the model may have learned nothing. Give alpha as a number, or more rows of each class.",
                ConstantModelWarning,
            )
            return alpha, {}, (f"alpha={alpha:g}: too few rows to hold some out",), None

        def path_of(few: FeatureMap) -> PenaltyPath:
            rows = Block(few(block.X), block.y, block.weight)
            return PenaltyPath(rows, folds, n_first, self._problem, loss)

        path, notes = path_of(few), []
        if auto:
            path.search()
            kernel = self.features_.kernel_ if self._tunes_scale else None
            while kernel is not None:
                # length scales are tuned with the squared loss, which prefers shorter ones than the logistic loss
                kernel = with_scales(kernel, 2.0 * kernel.length_scale)
                columns = key if few.n_components == self.n_components_ else draws.child("columns")
                fitted = spec.fit(signs, kernel, few.n_components, columns)
                longer = path_of(fitted[1])
                # a model that is linear in the columns of X needs a fourth of the penalty
                start = longer.nearest(0.25 * path.best)
                if longer.loss_at(start) > POLICY.worse * path.least:
                    break
                longer.walk(start)
                if not longer.least < POLICY.better * path.least:
                    break
                path, few, nested = longer, fitted[1], columns is key
                if not nested:
                    fitted = spec.fit(signs, kernel, self.n_components_, key)
                self.features_, feature_map = fitted
                self.feature_map_ = feature_map
                notes = [f"length_scale={float(np.mean(kernel.length_scale)):.3g}: less loss on held-out rows"]
            path.warn()
        else:
            for alpha in np.sort(np.ravel(self.alpha))[::-1]:
                path.loss_at(alpha)
        tried = np.array(sorted(path.losses, reverse=True))
        found = {"alpha": tried, "criterion": np.array([path.losses[alpha] for alpha in tried])}
        held = f"{len(path.weight)} held-out rows in {len(path.parts)} folds"
        best = path.choice if auto else path.best
        notes += [f"alpha={best:g}: least loss on {held}, {few.n_components} components"]
        if auto:
            gain, error = path.gain()
            notes += [f"loss on them {path.least:.4g}, {gain:.2g} ± {error:.2g} less than that of a constant model"]
        if not nested and isinstance(feature_map, Nystrom):  # the same with landmarks that the model has
            path, nested = path_of(feature_map.truncated(few.n_components)), True
            path.loss_at(best)
        point, missing = None, feature_map.n_components + 1
        if nested:
            point = path.start(best)
            missing -= len(point)
        if point is None or missing < 0 or not np.isfinite(point).all():
            return best, found, tuple(notes), None
        # the components that the penalty was not chosen with begin at zero
        return best, found, tuple(notes), np.insert(point, [len(point) - 1] * missing, 0.0, axis=0)

    @property
    def _tunes_scale(self) -> bool:
        """Whether the length scale was tuned, and may be tuned again."""
        return self.metric != "full" and isinstance(self.features, str) and bool(self._kernel_spec().tuned())

    # -- fitted attributes ----------------------------------------------------------------------------------------

    def _learned(self, name: str) -> Any:
        check_is_fitted(self, "classes_")
        if hasattr(self, "ridge_"):
            return getattr(self.ridge_, f"{name}_")
        return getattr(self, f"_{name}")

    @property
    def alpha_(self) -> float:
        """The penalty used."""
        return float(self._learned("alpha"))

    @property
    def alpha_path_(self) -> dict[str, Array]:
        """The penalties tried and the criterion of each."""
        return dict(self.ridge_.alpha_path_ if hasattr(self, "ridge_") else self._learned("path"))

    @property
    def report_(self) -> Report:
        """Passes over the data, convergence, and the choices made, in words."""
        found: Report = self._learned("report")
        return found

    def _chosen(self) -> dict[str, str]:
        chosen, report = isinstance(self.alpha, str), self.report_
        return {
            "classes": f"{len(self.classes_):,}, {self.loss} loss",
            "alpha": f"{self.alpha_:.4g}, {'chosen from the data' if chosen else 'as given'}",
            "system": ", ".join((report.method, *report.notes)),
        }

    @property
    def component_weights_(self) -> Array:
        """The weight of each component, (1, n_components) or (n_classes, n_components)."""
        check_is_fitted(self, "classes_")
        return np.atleast_2d(self.ridge_.component_weights_) if hasattr(self, "ridge_") else self._coefficients.T

    @property
    def intercept_(self) -> Array:
        """The intercept of each score."""
        check_is_fitted(self, "classes_")
        return np.atleast_1d(self.ridge_.intercept_ if hasattr(self, "ridge_") else self._intercept)

    @map_dask_blocks
    def decision_function(self, X: Any) -> Array:
        """Scores of the classes, computed block by block: the larger the score, the likelier the class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)

        Returns
        -------
        scores : ndarray of shape (n_samples,) for two classes, (n_samples, n_classes) for more
            In the dtype of X when that is float32 or float64.
        """
        check_is_fitted(self, "classes_")
        X = validate_rows(self, X, reset=False)
        F = self._scores(X, np.asarray(self.component_weights_.T), self.intercept_)
        return F[:, 0] if self._labels.n_scores == 1 else F

    @map_dask_blocks
    def predict(self, X: Any) -> Array:
        """The likeliest label of each row.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        F = self.decision_function(X)
        return self.classes_[(F > 0).astype(int) if F.ndim == 1 else F.argmax(axis=1)]

    @available_if(_has_probabilities)
    @map_dask_blocks
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, (n_samples, n_classes).

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        F = self.decision_function(X)
        if F.ndim == 2:
            return LogLoss().probabilities(F)
        p = LogLoss().probabilities(F[:, None])
        return np.hstack([LogLoss().probabilities(-F[:, None]), p])

    @available_if(_has_probabilities)
    @map_dask_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, accurate even where the probabilities round to 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        F = self.decision_function(X)
        if F.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([F, -F]))
        top = F.max(axis=1, keepdims=True)
        return np.asarray(F - top - np.log(np.exp(F - top).sum(axis=1, keepdims=True)))
