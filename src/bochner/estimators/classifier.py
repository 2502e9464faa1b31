"""Kernel classification: squared loss in one pass, logistic loss and squared hinge in a few, by quasi-Newton steps."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bochner.backends import Array, reading
from bochner.checks import check_choice, check_count, check_flag, check_positive, check_weight
from bochner.estimators._validation import map_dask_blocks, validate_rows
from bochner.estimators.exact import exact_rows
from bochner.estimators.gradients import GradientMixin
from bochner.estimators.models import DistributedScore, as_source
from bochner.estimators.ridge import KernelRidge
from bochner.estimators.supervised import SupervisedModel, old_metric
from bochner.features import FeatureMap, Identity, Nystrom
from bochner.kernels import as_kernel
from bochner.keys import Key
from bochner.losses import LogLoss, Loss, as_loss
from bochner.solvers import Report
from bochner.streaming import (
    ArraySource,
    Block,
    Fold,
    Problem,
    Source,
    StatisticsFold,
    newton,
    on_device,
    positive,
)
from bochner.streaming.newton import KEPT_BYTES, Secants

_ALPHA_ROWS = 6_000  # rows on which alpha is chosen, a third of them held out
_ALPHA_COMPONENTS = 1024
_GROWTH_ROWS = 20_000  # rows on which n_components="auto" grows
_FEW_ROWS = 30  # too few to hold some out
LOSSES = ("log_loss", "squared_hinge", "squared")


@dataclass(frozen=True)
class Labels:
    """Classes in order, and how much the rows of each weigh. A function of blocks: labels become signs.

    Signs are (n, k), 1 in the column of the row's class and -1 elsewhere; (n, 1) for two classes, 1 for the second.
    """

    classes: Array
    weights: Array

    @property
    def n_scores(self) -> int:
        """Columns of the signs."""
        return 1 if len(self.classes) == 2 else len(self.classes)

    def codes(self, y: Any) -> Array:
        """Which class each label is."""
        y = labels_of(y)
        try:
            codes = np.minimum(np.searchsorted(self.classes, y), len(self.classes) - 1)
            known = self.classes[codes] == y
        except TypeError:  # labels that cannot be compared with ours
            codes, known = np.zeros(len(y), int), np.zeros(len(y), bool)
        if not np.all(known):
            unknown = y[~np.broadcast_to(known, len(y))].tolist()[0]
            raise ValueError(f"the label {unknown!r} is none of the classes {self.classes.tolist()}.")
        return codes

    def __call__(self, block: Block) -> Block:
        block = positive(block)  # labels of no other rows are no classes
        codes = self.codes(block.y)
        signs = 2.0 * (codes[:, None] == np.arange(len(self.classes))) - 1.0
        weight = block.weight
        if (self.weights != 1.0).any():
            weight = self.weights[codes] * (1.0 if weight is None else weight)
        return replace(block, y=signs[:, 1:] if self.n_scores == 1 else signs, weight=weight)


def labels_of(y: Any) -> Array:
    """Labels (n,) of any type, none of them missing."""
    with reading("y"):
        y = column_or_1d(np.asarray(y), warn=True)
    missing = y != y if y.dtype.kind in "fcO" else np.zeros(len(y), bool)
    if y.dtype == object:
        missing = missing | np.array([label is None for label in y], bool)
    if np.any(missing):
        raise ValueError("y contains missing labels (NaN or None); remove those rows.")
    with np.errstate(invalid="ignore"):  # it casts numbers beyond 2^63 to integers
        check_classification_targets(y)
    return y


def unique_labels(y: Array) -> Array:
    """The classes in order."""
    try:
        return np.unique(y)
    except TypeError:
        raise ValueError("the labels are of types that cannot be ordered; make them all strings or numbers.") from None


class LabelFold(Fold):
    """The classes in order, and the weights of their rows."""

    def zero(self) -> list[Array]:
        return [np.empty(0), np.empty(0)]

    def add(self, total: list[Array], Z: Any, block: Block, row: int) -> list[Array]:
        y = labels_of(block.y)
        here = unique_labels(y)
        return self.merge(total, [here, np.bincount(np.searchsorted(here, y), block.weight, len(here))])

    def merge(self, total: list[Array], other: list[Array]) -> list[Array]:
        if not len(total[0]) or not len(other[0]):
            return total if len(total[0]) else other
        classes = unique_labels(np.concatenate([total[0], other[0]]))
        sums = np.zeros(len(classes))
        for found, weights in (total, other):
            sums[np.searchsorted(classes, found)] += weights
        return [classes, sums]


def _squared(self: Any) -> bool:
    if self.loss == "squared":
        return True
    raise AttributeError("partial_fit needs loss='squared': Newton's method reads the data several times.")


def _has_probabilities(self: Any) -> bool:
    if self.loss == "log_loss":
        return True
    raise AttributeError(f"probabilities need loss='log_loss'; loss={self.loss!r} has decision_function alone.")


@old_metric
@dataclass(eq=False, repr=False)
class KernelClassifier(DistributedScore, GradientMixin, ClassifierMixin, SupervisedModel):
    """Kernel classification in bounded memory: min Σ w ℓ(f(x) + b, y) + alpha / 2 ‖f‖², f linear in features ZZᵀ ≈ K.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name (or ``length_scale="auto"`` in a kernel) has its length scale tuned on a sample of the rows, by ridge
        regression of signs; a number in a kernel is used as it is. "auto" chooses the kernel as `KernelRidge` does.
    n_components : int or "auto", default="auto"
        Columns of the features. "auto" takes as few as `tol` needs.
    loss : {"log_loss", "squared_hinge", "squared"}, default="log_loss"
        Logistic or softmax regression with probabilities, ℓ = -log p; a support vector machine, one class against the
        rest, ℓ = max(0, 1 - y f)² / 2; or ridge regression of signs, ℓ = (y - f)² / 2, in one pass, with `partial_fit`.
    features : {"auto", "fourier", "nystrom"} or transformer, default="auto"
    alpha : float, array-like or {"auto", "loo", "margin", "gcv", "evidence"}, default="auto"
        The penalty, never scaled by the number of rows: the prior precision of the scores (1 / C elsewhere). "auto"
        means "margin" for the squared loss. For the others it is the penalty, of a grid or of the given numbers, with
        the least loss on held-out rows of a sample; as it is a prior, it does not change with the number of rows.
        "loo", "margin", "gcv" and "evidence" are for the squared loss; see `KernelRidge`.
    class_weight : dict, "balanced" or None
        Weights of the classes, multiplied with the weights of the rows.
    solver : {"auto", "cholesky", "eigen", "cg"} or RidgeSolver, default="auto"
        For the squared loss; see `KernelRidge`.
    fit_intercept : bool, default=True
    metric : {"isotropic", "diagonal", "full"}, default="isotropic"
        How distances are measured; "diagonal" and "full" are learned as in `KernelRidge`, from signs of the labels.
    solver_tol : float, default=1e-4
        Newton's method stops when further steps would lower the objective by no more than this share.
    max_iter : int, default=200
        Quasi-Newton steps, at most. Each is a pass over the data.
    tol, max_components, max_seconds, max_bytes : numbers
        For ``n_components="auto"``, as in `KernelRidge`, whose squared loss on at most 20,000 rows decides. Features
        of all rows are held from pass to pass where they take at most 256 MB and half of max_bytes; otherwise they
        are made again, block by block.
    block_size : int or None
        Rows in a block; None fits blocks of features into the cache.
    precision : {"full", "fast"}, default="full"
        Of features and sums; see `KernelRidge`.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) makes features and sums on a GPU; see `KernelRidge`.
    checkpoint : path or None
        For the squared loss; see `KernelRidge`.
    n_jobs : int or None
    verbose : int, default=0
    random_state : int, RandomState, Generator or None

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
    intercept_ : ndarray of shape (1,) or (n_classes,)
    alpha_ : float
    alpha_path_ : dict of ndarray
        "alpha" and the "criterion" there; empty for a given alpha.
    features_, feature_map_, n_components_
        The fitted features.
    metric_, feature_importances_ : ndarray
        For a learned metric, see `KernelRidge`.
    ridge_ : KernelRidge
        For the squared loss: the regression of the signs.
    n_iter_ : int
        Quasi-Newton steps.
    report_ : Report
        Passes over the data, convergence, and the choices made, in words.

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

    _landmarks = KernelRidge._landmarks

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> KernelClassifier:
        """Learn from data of any kind, from the beginning.

        Parameters
        ----------
        X : array-like, memmap, CSR matrix, frame, Arrow table, path of a Parquet file or folder, Source, or a \
re-iterable of (X, y) or (X, y, weight) blocks
        y : array-like of shape (n_samples,), or the name of the label column
        sample_weight : array-like of shape (n_samples,), or the name of a column
        """
        self._check_parameters()
        with self._threads():
            source = as_source(self, X, y, sample_weight, reset=True, numeric=False)
            labels = self._find_labels(source)
            for name in ("ridge_", "_coefficients", "_intercept", "_alpha", "_path", "_report"):
                if hasattr(self, name):
                    delattr(self, name)
            self._labels, self.classes_ = labels, labels.classes
            signs = source.mapped(labels)
            if self.loss == "squared":
                self.ridge_ = self._ridge().fit(signs)
                self._adopt(self.ridge_)
            else:
                self._descend(signs)
        return self

    @available_if(_squared)
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, classes: Any = None) -> KernelClassifier:
        """Learn from more rows (squared loss). The first call chooses the features, from the rows it is given.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like
            All labels that will ever come; needed in the first call when its rows do not have them all.
        """
        self._check_parameters()
        first = not hasattr(self, "ridge_")
        with self._threads():
            source = as_source(self, X, y, sample_weight, reset=first, numeric=False)
            if first:
                if isinstance(self.class_weight, str):
                    raise ValueError(
                        "class_weight='balanced' needs to see all labels at once; give a dict to partial_fit."
                    )
                found = self._find_labels(source) if classes is None else self._given_labels(classes)
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
        """The regression of the signs with our options."""
        options = {name: getattr(self, name) for name in KernelRidge().get_params(deep=False)}
        options["alpha"] = "margin" if isinstance(self.alpha, str) and self.alpha == "auto" else self.alpha
        return KernelRidge(**{**options, **changes})

    def _adopt(self, ridge: KernelRidge) -> None:
        self.features_, self.feature_map_ = ridge.features_, ridge.feature_map_
        self.n_components_, self.n_iter_, self._spreads = ridge.n_components_, 1, ridge._spreads

    def _find_labels(self, source: Source) -> Labels:
        """The classes of a source and their weights: one pass over the labels of a stream."""
        # of rows in memory all labels are looked at together
        rows = source.n_samples if isinstance(source, ArraySource) else None
        classes, totals = source.fold(LabelFold(), rows=rows)
        classes, totals = classes[totals > 0], totals[totals > 0]  # a row of weight zero is no row
        if len(classes) < 2:
            raise ValueError(f"a classifier needs two classes or more; the rows have one class: {classes.tolist()}.")
        return Labels(classes, self._class_weights(classes, totals))

    def _given_labels(self, classes: Any) -> Labels:
        classes = unique_labels(labels_of(classes))
        if len(classes) < 2:
            raise ValueError(f"a classifier needs two classes or more, got {classes.tolist()}.")
        return Labels(classes, self._class_weights(classes, np.ones(len(classes))))

    def _class_weights(self, classes: Array, totals: Array) -> Array:
        if self.class_weight is None:
            return np.ones(len(classes))
        if isinstance(self.class_weight, str):
            check_choice("class_weight", self.class_weight, ("balanced",))
            return np.divide(totals.sum() / len(classes), totals, out=np.zeros(len(classes)), where=totals > 0)
        if not isinstance(self.class_weight, Mapping):
            raise ValueError(f"class_weight must be None, 'balanced' or a dict of classes; got {self.class_weight!r}.")
        weights = np.array([self.class_weight.get(label, 1.0) for label in classes.tolist()], dtype=float)
        unknown = [label for label in self.class_weight if label not in classes.tolist()]
        if unknown or not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError(
                f"class_weight must give classes of {classes.tolist()} weights ≥ 0; got {self.class_weight!r}."
            )
        return weights

    # -- Newton --------------------------------------------------------------------------------------------------

    def _descend(self, signs: Source) -> None:
        key = Key.from_random_state(self.random_state)
        notes: tuple[str, ...] = ()
        if isinstance(self.n_components, str) and isinstance(self.features, str):
            rows = signs.sample(_GROWTH_ROWS, key.child("growth"))
            changes = {"alpha": "margin", "random_state": key.seed, "solver": "auto"}
            ridge = self._ridge(**changes).fit(ArraySource(rows.X, rows.y, rows.weight))
            transformer, feature_map, self.certificate_ = ridge.features_, ridge.feature_map_, ridge.certificate_
            self._spreads = ridge._spreads
            notes = (f"n_components={feature_map.n_components}, grown with the squared loss on {len(rows)} rows",)
        else:
            kernel = self._choose_kernel(signs, np.asarray, key, self.fit_intercept)
            transformer, feature_map = self._fit_features(signs, kernel, self.n_components, key)
        self.features_, self.feature_map_, self.n_components_ = transformer, feature_map, feature_map.n_components
        loss = as_loss(self.loss)
        alpha, path, choice, start = self._choose_alpha(signs, feature_map, loss, key.child("alpha"))
        problem = self._problem(on_device(signs, self.device), feature_map, loss, alpha)
        budget = KEPT_BYTES if self.max_bytes is None else min(KEPT_BYTES, 0.5 * self.max_bytes)
        P, report, self.n_iter_ = newton(
            problem.kept(budget), key.child("newton"), start, tol=self.solver_tol, max_iter=self.max_iter
        )
        self._coefficients, self._intercept = P[:-1], P[-1]
        self._alpha, self._path, self._report = alpha, path, report.noting(*choice, *notes)

    def _problem(self, signs: Source, feature_map: FeatureMap, loss: Loss, alpha: float) -> Problem:
        n_scores = self._labels.n_scores
        return Problem(signs, feature_map, loss, alpha, n_scores, self.fit_intercept, self.block_size, self.verbose)

    def _choose_alpha(
        self, signs: Source, feature_map: FeatureMap, loss: Loss, key: Key
    ) -> tuple[float, dict[str, Array], tuple[str, ...], Array | None]:
        """A given penalty, or the one with the least loss on held-out rows of a sample, and where to start with it."""
        if isinstance(self.alpha, numbers.Real):
            return float(self.alpha), {}, (), None
        block = signs.sample(_ALPHA_ROWS, key)
        if block.weight is not None:
            block = block[block.weight > 0]
        columns, given = feature_map.n_components, feature_map
        if columns > _ALPHA_COMPONENTS and isinstance(self.features, str):
            # fewer columns of the same kernel: the penalty means the same for any number of them
            columns = _ALPHA_COMPONENTS
            if isinstance(feature_map, Nystrom):
                feature_map = feature_map.truncated(columns)
            else:
                _, feature_map = self._fit_features(signs, self.features_.kernel_, columns, key.child("columns"))
        Z = feature_map(block.X)
        unit = float(np.einsum("ij,ij->", Z, Z, dtype=np.float64)) / len(Z) or 1.0  # mean k(x, x)
        auto = isinstance(self.alpha, str)
        grid = unit * np.geomspace(100.0, 1e-6, 17) if auto else np.sort(np.ravel(self.alpha))[::-1]
        if len(block) < _FEW_ROWS:
            alpha = float(grid[np.argmin(abs(np.log(grid / unit)))])
            return alpha, {}, (f"alpha={alpha:g}: too few rows to hold some out",), None
        held = key.child("held").generator().permutation(len(block)) < len(block) // 3
        rows = Block(Z, block.y, block.weight)
        path = _PenaltyPath(rows[~held], rows[held], self._problem, loss)
        if auto:  # decades from smooth to rough, then the numbers beside the best
            for alpha in grid[::2]:
                if path.loss_at(alpha) > 1.05 * min(path.losses.values()) and len(path.losses) > 2:
                    break
            best = int(np.flatnonzero(grid == path.best)[0])
            grid = grid[max(0, best - 1) : best + 2]
        for alpha in grid:
            path.loss_at(alpha)
        tried = np.array(sorted(path.losses, reverse=True))
        found = {"alpha": tried, "criterion": np.array([path.losses[alpha] for alpha in tried])}
        note = f"alpha={path.best:g}: least loss on {len(path.test)} held-out rows, {columns} components"
        return path.best, found, (note,), path.points[path.best] if feature_map is given else None

    # -- what was learned ----------------------------------------------------------------------------------------

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
        """How it went."""
        found: Report = self._learned("report")
        return found

    @property
    def coef_(self) -> Array:
        """Weights of the features, (1, m) or (n_classes, m)."""
        check_is_fitted(self, "classes_")
        return np.atleast_2d(self.ridge_.coef_) if hasattr(self, "ridge_") else self._coefficients.T

    @property
    def intercept_(self) -> Array:
        """Of each score."""
        check_is_fitted(self, "classes_")
        return np.atleast_1d(self.ridge_.intercept_ if hasattr(self, "ridge_") else self._intercept)

    @map_dask_blocks
    def decision_function(self, X: Any) -> Array:
        """Scores, block by block: the larger, the likelier.

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
        F = self._scores(X, np.asarray(self.coef_.T), self.intercept_)
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
        """Logarithms of the probabilities, exact where those round to 0.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
        """
        F = self.decision_function(X)
        if F.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([F, -F]))
        top = F.max(axis=1, keepdims=True)
        return np.asarray(F - top - np.log(np.exp(F - top).sum(axis=1, keepdims=True)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.metric != "full"
        return tags


class _PenaltyPath:
    """Models of a few rows with several penalties, and their losses on others.

    All share the sums of the features: times the mean curvature, and with each penalty added, they are the metric.
    """

    def __init__(self, train: Block, test: Block, problem: Callable[..., Problem], loss: Loss) -> None:
        self.test, self.loss = test, loss
        source, m = ArraySource(train.X, train.y, train.weight), train.X.shape[1]
        self.problem = partial(problem, source, Identity(m), loss)
        self.sums = source.fold(StatisticsFold(m, 0, np.asarray), Identity(m))
        self.weight = np.ones(len(test)) if test.weight is None else test.weight
        self.points: dict[float, Array] = {}
        self.secants, self.last = Secants(), 0.0
        self.losses: dict[float, float] = {}

    @property
    def best(self) -> float:
        """The penalty with the least loss."""
        return min(self.losses, key=self.losses.__getitem__)

    def loss_at(self, alpha: float) -> float:
        """The mean loss of held-out rows; the search begins at the nearest penalty that was tried."""
        alpha = float(alpha)
        if alpha not in self.losses:
            problem = replace(self.problem(alpha), rows=None, verbose=0)
            near = min(self.points, key=lambda other: abs(np.log(other / alpha)), default=None)
            start = np.zeros(problem.shape) if near is None else self.points[near]
            self.secants.penalised(alpha - self.last)
            P, _, _ = newton(problem, Key(0), start, tol=3e-3, max_iter=500, sums=self.sums, secants=self.secants)
            self.last = alpha
            F = self.test.X @ P[:-1] + P[-1]
            self.points[alpha] = P
            self.losses[alpha] = float(self.weight @ self.loss.value(F, self.test.y) / self.weight.sum())
        return self.losses[alpha]


def exact_kernel_classifier(
    kernel: Any,
    X: Any,
    y: Any,
    X_new: Any,
    alpha: float,
    *,
    loss: str = "log_loss",
    sample_weight: Any = None,
    fit_intercept: bool = True,
) -> Array:
    """Scores of exact kernel classification, from the n × n kernel matrix by L-BFGS: the truth for small n.

    Parameters
    ----------
    kernel : str, Kernel or scikit-learn kernel
    X : array-like of shape (n_samples, n_features)
    y : array-like of shape (n_samples,)
    X_new : array-like of shape (n_new, n_features)
    alpha : float
        The penalty of Σ w ℓ(f(x) + b, y) + alpha / 2 ‖f‖².
    loss : {"log_loss", "squared_hinge", "squared"}
    sample_weight : array-like of shape (n_samples,) or None
    fit_intercept : bool

    Returns
    -------
    scores : ndarray of shape (n_new,) for two classes, (n_new, n_classes) for more

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, exact_kernel_classifier
    >>> X = np.linspace(-2, 2, 30)[:, None]
    >>> exact_kernel_classifier(RBF(1.0), X, X[:, 0] > 0, [[0.0]], alpha=1.0).round(3) + 0.0
    array([0.])
    """
    rule = as_loss(check_choice("loss", loss, LOSSES))
    alpha, fit_intercept = check_positive("alpha", alpha), check_flag("fit_intercept", fit_intercept)
    X, X_new = exact_rows(X, X_new)
    y = labels_of(y)
    if len(y) != len(X):
        raise ValueError(f"X has {len(X)} rows and y has {len(y)}; they must agree.")
    w = np.ones(len(X)) if sample_weight is None else check_weight(sample_weight, len(X))
    X, y, w = X[w > 0], y[w > 0], w[w > 0]
    classes = unique_labels(y)
    if len(classes) < 2:
        raise ValueError(f"a classifier needs two classes or more, got {classes.tolist()}.")
    labels = Labels(classes, np.ones(len(classes)))
    Y = labels(Block(X, y)).y
    k = as_kernel(kernel).resolve(X, sample_weight=w)
    # f = K a in an orthonormal basis of the functions k(·, x_i): K = V λ Vᵀ, f(X) = V √λ c
    values, V = np.linalg.eigh(k(X))
    keep = values > 1e-13 * values[-1]
    Z, to_dual = V[:, keep] * np.sqrt(values[keep]), V[:, keep] / np.sqrt(values[keep])

    def objective(flat: Array) -> tuple[float, Array]:
        P = flat.reshape(-1, Y.shape[1])
        F = Z @ P[:-1] + P[-1]
        slope = rule.slope(F, Y) * w[:, None]
        gradient = np.vstack([Z.T @ slope + alpha * P[:-1], slope.sum(axis=0) * float(fit_intercept)])
        return float(w @ rule.value(F, Y)) + 0.5 * alpha * float((P[:-1] ** 2).sum()), gradient.ravel()

    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 50}
    start = np.zeros((Z.shape[1] + 1) * Y.shape[1])
    P = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x.reshape(-1, Y.shape[1])
    F = k(X_new, X) @ (to_dual @ P[:-1]) + P[-1]
    return np.asarray(F[:, 0] if Y.shape[1] == 1 else F)
