"""Models of tables with columns of any type: kernels, length scales and penalties of least leave-one-out error."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin, clone, is_classifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data

from bochner.backends import Array, reading, refuse_mask
from bochner.checks import check_choice, check_count, check_fraction, check_positive, check_weight, warn
from bochner.data.copies import weigh_copies
from bochner.data.devices import open_device
from bochner.data.execution import Execution
from bochner.data.frames import as_table, check_names, is_frame, split_frame, take_rows
from bochner.data.labels import codes_of
from bochner.data.progress import Progress
from bochner.data.sources import limit_weights
from bochner.data.targets import JUDGED_ROWS, check_target_size, numeric_targets, warn_no_better
from bochner.data.validation import DistributedScore, dask, is_distributed, map_dask_blocks
from bochner.displays import Summary
from bochner.draws.keys import Key
from bochner.ridge.spectrum import leave_one_out
from bochner.tables.columns import comparable, encode_columns, find_gaps, plan_columns, raw_columns
from bochner.tables.held_out import HeldOut, HeldOutRows, Residuals, hold_out, joined, score_labels, score_numbers
from bochner.tables.links import fit_link, fit_temperature
from bochner.tables.members import SCALINGS, Member, Members, TableTask, fit_members
from bochner.tables.plans import fit_deadline, late_note, make_plan
from bochner.tables.reports import TableReport
from bochner.tuning.deadline import Deadline
from bochner.tuning.metrics import FAMILIES
from bochner.tuning.policies import TablePolicy

_TRIED = ("laplacian", "exponential", "matern32", "rbf")
_LARGEST_LABEL = 2.0**53  # up to this size float64 represents every integer
POLICY = TablePolicy()


@dataclass(eq=False, repr=False)
class TableModel(BaseEstimator):
    """What the models of tables have in common."""

    kernel: Any = "auto"
    scaling: str = "auto"
    _: KW_ONLY
    leaf_size: Any = "auto"
    metric: str = "auto"
    n_members: int = 3
    max_seconds: float = 60.0
    device: str | None = None
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0

    def _check_parameters(self) -> tuple[str, ...]:
        kernels = [self.kernel] if isinstance(self.kernel, str) else self.kernel
        if not isinstance(kernels, (list, tuple)) or not kernels:
            raise ValueError(f"kernel must be 'auto', a name or a list of names of {list(FAMILIES)}; got {kernels!r}.")
        for name in kernels:
            check_choice("kernel", name, ("auto", *FAMILIES))
        check_choice("scaling", self.scaling, ("auto", *SCALINGS))
        if not (isinstance(self.leaf_size, str) and self.leaf_size == "auto"):
            check_count("leaf_size", self.leaf_size, least=1)
        check_choice("metric", self.metric, ("auto", "diagonal", "full"))
        check_count("n_members", self.n_members)
        check_positive("max_seconds", self.max_seconds)
        check_count("verbose", int(self.verbose) if isinstance(self.verbose, bool) else self.verbose, least=0)
        if self.device is not None:
            open_device(self.device)
        families = _TRIED if "auto" in kernels else tuple(dict.fromkeys(kernels))
        if self.metric == "full" and families == ("laplacian",):
            raise ValueError(
                "metric='full' has directions across columns, and the Laplacian kernel adds up single columns; give "
                "another kernel as well, or metric='diagonal'."
            )
        return families

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[tuple[str, Array]], Array, Array]:
        """Columns, targets and weights (of mean one) of the rows of positive weight, after checks."""
        if hasattr(self, "report_"):
            del self.report_  # not fitted until the new model is complete
        if y is None:
            raise ValueError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        if is_distributed(X):  # the model stores all rows of the table, so they are loaded
            X, y, sample_weight = dask().collected(X, y, sample_weight)
        X, y, sample_weight = split_frame(X, y, sample_weight)
        refuse_mask(y, sample_weight)
        X, y = self._check_columns(X, reset=True), np.asarray(y)
        if not y.ndim:
            raise ValueError(f"y must have a target for each row; got the single value {y!r}.")
        if not y.size:
            raise ValueError("y is empty; there is nothing to learn.")
        n = X.shape[0]
        if len(y) != n:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: {n} and {len(y)}.")
        weight = np.ones(n) if sample_weight is None else check_weight(sample_weight, n, dtype=_float_of(X))
        if not weight.any():
            raise ValueError("sample_weight is zero for every row.")
        if not weight.all():
            kept = np.flatnonzero(weight)
            X, y, weight = take_rows(X, kept), y[kept], weight[kept]
        if len(y) < 2:
            raise ValueError(f"Found array with {len(y)} sample(s) while a minimum of 2 is required.")
        raw = raw_columns(X)
        weight = np.asarray(weigh_copies(comparable(raw), y, weight))
        if not weight.all():
            kept = np.flatnonzero(weight)
            raw, y, weight = [(kind, values[kept]) for kind, values in raw], y[kept], weight[kept]
        weight = limit_weights(weight)
        return raw, y, weight / weight.mean()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "report_")  # what `fit` sets last

    @property
    def held_out_(self) -> HeldOut:
        """Score of rows that had no part in what was chosen, and its standard error."""
        check_is_fitted(self)
        return self.report_.held_out

    def _check_columns(self, X: Any, *, reset: bool) -> Any:
        """Return a frame as it is, anything else as an array, after checks of the number and names of columns."""
        if scipy.sparse.issparse(X) and X.ndim == 2 and X.shape[1] > POLICY.sparse_columns:
            raise ValueError(
                f"X is sparse and has {X.shape[1]} columns; models of tables take up to {POLICY.sparse_columns}, as "
                "each has a length scale to learn. Make fewer of them (sklearn.decomposition.TruncatedSVD), or use "
                "KernelRidge or KernelClassifier, which take sparse rows."
            )
        X = as_table(X)
        check_names(X)
        if is_frame(X):
            if reset and 0 in X.shape:
                raise ValueError(f"Found array with {X.shape[0]} sample(s) and {X.shape[1]} feature(s): no data.")
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            least = 2 if reset else 1
            with reading("X"):
                if isinstance(X, (list, tuple)) and np.asarray(X).dtype.kind in "US":
                    X = np.array(X, dtype=object)  # numbers beside texts stay numbers
                X = validate_data(
                    self,
                    X,
                    reset=reset,
                    dtype=None,
                    accept_sparse="csr",
                    ensure_all_finite=False,
                    ensure_min_samples=least,
                )
        return X.toarray() if scipy.sparse.issparse(X) else X

    def _workers(self, X: Any) -> Execution | None:
        """Return how workers run their tasks; None if X is not Dask data or there are no workers."""
        return Execution.of(self).on_worker() if is_distributed(X) and dask().has_workers() else None

    def _fit(
        self, raw: list[tuple[str, Array]], Y: Array, weight: Array, workers: Execution | None, strata: Array
    ) -> None:
        """Fit on targets (n, k), and score held-out rows, with the same share of every stratum in each fold."""
        self._check_parameters()
        deadline, key = fit_deadline(float(self.max_seconds)), Key.from_random_state(self.random_state)
        found = self._learn(raw, Y, weight, workers, key, deadline)
        notes = list(found.notes)
        lost = [column.name for column in self._columns if "identifier" in column.why]
        if lost:
            warn(
                f"columns left out, since most rows have a text of their own: {', '.join(map(repr, lost))}; see "
                "report_.",
                UserWarning,
            )
        self.feature_importances_ = self._by_column(found.importances)
        if len(found.unseen):
            mean, rows = np.average(Y, axis=0, weights=weight), found.unseen
            means = Y - leave_one_out(Y - mean, weight / weight.sum())
            parts = [(self, HeldOutRows(rows, found.held_out, means[rows]))]
            how = "leave-one-out of rows that chose nothing"
        else:
            parts, how = self._cross_validate(raw, Y, weight, workers, strata, key, deadline, notes)
        self.fit_seconds_ = deadline.clock.seconds()
        self.report_ = TableReport(
            {str(column.name): column.why for column in self._columns},
            {f"{family}, {way}": float(np.sqrt(error)) for (way, family), error in sorted(found.tried.items())},
            tuple(f"{member.share:.0%} {member.name}" for member in self._members),
            found.leaf_sizes,
            self._score(parts, Y, weight, how),
            tuple(notes),
        )
        held_out = self.report_.held_out
        if not held_out.beats_constant and held_out.error > 0 and held_out.n_rows >= JUDGED_ROWS:
            warn_no_better(
                f"its {held_out.name} is {held_out}, that of a constant {held_out.constant:.4f}",
                labels=is_classifier(self),
            )

    def _cross_validate(
        self,
        raw: list[tuple[str, Array]],
        Y: Array,
        weight: Array,
        workers: Execution | None,
        strata: Array,
        key: Key,
        deadline: Deadline,
        notes: list[str],
    ) -> tuple[list[tuple[TableModel, HeldOutRows]], str]:
        """Predict rows by models that everything was chosen for without them, until these are enough rows."""
        n, taken = len(Y), deadline.clock.seconds()
        parts: list[tuple[TableModel, HeldOutRows]] = []
        n_folds = min(POLICY.folds, n)
        folds = hold_out(n, n_folds, strata, int(key.child("held out").generator().integers(2**31)))
        for number, rows in enumerate(folds[: math.ceil(POLICY.held_out_rows * n_folds / n)]):
            if parts and deadline.left() < taken:
                notes.append(late_note(f"{number} of {n_folds} folds were held out"))
                break
            kept = np.setdiff1d(np.arange(n), rows)
            mean = weight[kept].mean()
            model = clone(self).set_params(verbose=0)
            part = [(kind, values[kept]) for kind, values in raw]
            model._learn(part, Y[kept], weight[kept] / mean, workers, key.child(f"fold {number}"), deadline)
            scores = model._predict(model._encode([(kind, values[rows]) for kind, values in raw]))
            means = np.broadcast_to(np.average(Y[kept], axis=0, weights=weight[kept]), scores.shape)
            parts.append((model, HeldOutRows(rows, scores, means, 1.0 + len(rows) / len(kept))))
        several = f"{len(parts)} of {n_folds} folds" if len(parts) < n_folds else f"{n_folds}-fold cross-validation"
        return parts, several

    def _learn(
        self,
        raw: list[tuple[str, Array]],
        Y: Array,
        weight: Array,
        workers: Execution | None,
        key: Key,
        deadline: Deadline,
    ) -> Members:
        """Choose and fit what predictions need: columns, members and what turns scores into labels."""
        families = self._check_parameters()
        names = [str(name) for name in getattr(self, "feature_names_in_", range(len(raw)))]
        seed = int(key.child("folds").generator().integers(2**31))
        with Execution.of(self).threads():
            (self._columns, A), notes = plan_columns(names, raw, Y, weight, seed), tuple[str, ...]()
            if not A.shape[1]:
                A, notes = np.zeros((len(Y), 1)), ("no column varies: every prediction is the mean of the targets",)
            found = self._fit_members(A, Y, weight, families, key, workers, deadline)
        self._members = found.members
        self._calibrate(found.left_out, Y, weight)
        return replace(found, notes=notes + found.notes)

    def _calibrate(self, scores: Array, Y: Array, weight: Array) -> None:
        """Learn from leave-one-out scores how scores become labels."""

    @abstractmethod
    def _score(self, parts: Sequence[tuple[TableModel, HeldOutRows]], Y: Array, weight: Array, how: str) -> HeldOut:
        """Score held-out rows, and keep what intervals need of them."""

    def _fit_members(
        self,
        A: Array,
        Y: Array,
        weight: Array,
        families: Sequence[str],
        key: Key,
        workers: Execution | None,
        deadline: Deadline,
    ) -> Members:
        plan = make_plan(
            *A.shape,
            n_members=self.n_members,
            leaf_size=None if isinstance(self.leaf_size, str) else int(self.leaf_size),
            max_seconds=float(self.max_seconds),
            on_device=self.device is not None,
        )
        scalings = tuple(SCALINGS) if self.scaling == "auto" else (self.scaling,)
        progress = Progress(0, "kernels", bool(self.verbose))
        task = TableTask(A, Y, weight, plan, key, deadline, progress, self.device, workers)
        keeps_size = not isinstance(self.leaf_size, str)
        try:
            found = fit_members(task, families=families, scalings=scalings, metric=self.metric, keeps_size=keeps_size)
        finally:
            progress.close()
        return replace(found, notes=plan.notes + found.notes)

    @property
    def _divider(self) -> Member:
        """Return the member with the most leaves."""
        return max(self._members, key=lambda member: member.model.tree.n_leaves)

    def _by_column(self, weights: Array) -> Array:
        """Weights of the numeric columns, added up for the columns of the table that they come from."""
        widths = [column.width for column in self._columns]
        if not sum(widths):
            return np.full(len(widths), 1.0 / len(widths))
        owner = np.repeat(np.arange(len(widths)), widths)
        return np.bincount(owner, weights, minlength=len(widths))

    def summary(self) -> Summary:
        """Return what was chosen, how certain that is, and how long the fit took: a table in a terminal or notebook."""
        check_is_fitted(self)
        plans = self.report_.columns
        left_out = sum(why.startswith("left out") for why in plans.values())
        facts = {
            "used": ", ".join(self.report_.used),
            "columns": f"{len(plans) - left_out:,} used, {left_out:,} left out; report_ says why",
            **self.held_out_.facts(),
            "notes": "; ".join(self.report_.notes),
            "fit": f"{self.fit_seconds_:.3g} s" if hasattr(self, "fit_seconds_") else "",
        }
        headline = f"{type(self).__name__}, fitted to {self.n_features_in_:,} columns"
        return Summary(headline, {name: fact for name, fact in facts.items() if fact})

    def numbers_of(self, X: Any) -> Array:
        """Return the columns as numbers, (n_samples, n_numbers); means of targets are those of all rows of `fit`."""
        check_is_fitted(self)
        return self._encode(raw_columns(self._check_columns(X, reset=False)))

    def _encode(self, raw: list[tuple[str, Array]]) -> Array:
        A = encode_columns(self._columns, raw)
        return A if A.shape[1] else np.zeros((len(A), 1))

    def _predict(self, A: Array) -> Array:
        with Execution.of(self).threads():
            return np.asarray(sum(member.share * member.predict(A, self.device) for member in self._members))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        return tags


def _float_of(X: Any) -> Any:
    dtype = getattr(X, "dtype", None)
    return dtype if dtype in (np.float32, np.float64) else np.float64


@dataclass(eq=False, repr=False)
class TabularRegressor(DistributedScore, MultiOutputMixin, RegressorMixin, TableModel):
    """Regression on tables without preprocessing: numbers, categories, dates and missing values.

    Columns become numbers, standardised or ranked. The kernel, the length scale of every column and the penalty are
    those with the least leave-one-out error of exact models of a few thousand rows, which has a closed form, as has its
    derivative. A tree then divides the rows, and an exact kernel ridge regression is fitted in each of its leaves.

    Parameters
    ----------
    kernel : "auto", str or list of str, default="auto"
        Names among "laplacian", "exponential", "matern32", "matern52" and "rbf" to choose from.
    scaling : {"auto", "standard", "quantile"}, default="auto"
        Columns are divided by their standard deviation, or replaced by ranks.
    leaf_size : int or "auto", default="auto"
        The most rows in a leaf; "auto" is as many as `max_seconds` allows. A leaf of more rows that are all equal is
        not divided: its model is their mean, which needs no more memory.
    metric : {"auto", "diagonal", "full"}, default="auto"
        "diagonal" is a length scale for each column. With "full", one of the members also learns directions that
        combine columns. "auto" tries these if there are at most 40 columns and enough rows to compare on.
    n_members : int, default=3
        Number of models with different kernels or scalings that are averaged, with the shares of least leave-one-out
        error. If there are several, and the rows do not fit into one leaf, a model of all rows with some of them as
        landmarks is averaged as well: it is the better one where targets are noisy.
    max_seconds : float, default=60.0
        The time for which the size of leaves, the number of rows that scales are learned on and the number of members
        are planned, assuming one slow core. The model does not depend on the machine, unless the fit takes more than
        twice as long (and more than 15 seconds): then there are fewer steps, smaller leaves and fewer members, and
        `report_` says so.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. Leaves are larger on a GPU.
    n_jobs : int or None, default=None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random: an int gives the same result every time.
    verbose : int, default=0
        Above zero, a terminal shows progress.

    Attributes
    ----------
    feature_importances_ : ndarray of shape (n_features,)
        The share that each column has in the distances that the kernels measure: where the model may bend.
        scikit-learn's `permutation_importance` measures how much the predictions depend on a column.
    report_ : TableReport
        What was done with the table and why; can be printed.
    fit_seconds_ : float
        How long `fit` took.
    held_out_ : HeldOut
        R² of rows that had no part in what was chosen, its standard error, and how these rows were held out.

    Notes
    -----
    Constant columns, columns without values and texts of which most rows have one of their own (more than 12) are
    dropped, the last with a warning. A category with up to 12 levels becomes an indicator column for each level; with
    more levels it is replaced by the mean target of each level. Levels not seen in `fit` become zeros, or the mean of
    all targets. Columns of a categorical type are categories whatever their values; other integers are numbers. Missing
    numbers are replaced by the median, and if there were any in `fit`, an additional column indicates them; a missing
    category is a level of its own. Sparse rows may have up to 1,000 columns. Copies, rows that are equal in columns and
    target, count as one row with their total weight and are left out together. Rows of a grid, which are equal by
    nature, are left out one by one.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import TabularRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> model = TabularRegressor(random_state=0).fit(X, np.abs(X[:, 0]))
    >>> bool(model.score(X, np.abs(X[:, 0])) > 0.9)
    True
    >>> int(model.feature_importances_.argmax())
    0
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TabularRegressor:
        """Learn from a table.

        Parameters
        ----------
        X : pandas, polars or Arrow table, array-like of shape (n_samples, n_features), or Dask frame or array
            Rows of Dask data come into memory, as the model holds them; leaves are fitted by the client's workers.
        y : array-like of shape (n_samples,) or (n_samples, n_targets), or names of columns of X
            Several targets share kernels, length scales and leaves. If they depend on different columns,
            `sklearn.multioutput.MultiOutputRegressor` fits a model to each, often with smaller errors.
        sample_weight : array-like of shape (n_samples,), the name of a column of X, or None
            How much the error of each row counts; only ratios matter, since penalties are chosen. One row counts for
            at most a twentieth of all (of fewer than 80 rows, for four rows).
        """
        raw, y, weight = self._rows(X, y, sample_weight)
        Y = numeric_targets(y, "TabularClassifier")
        check_target_size(Y)
        self._target_shape = y.shape[1:]
        self._fit(raw, Y, weight, self._workers(X), np.zeros(len(Y)))
        return self

    def _score(self, parts: Sequence[tuple[TableModel, HeldOutRows]], Y: Array, weight: Array, how: str) -> HeldOut:
        found = joined([rows for _, rows in parts])
        leaves = self._divider.homes(len(Y))[found.rows]
        self._residuals = Residuals(np.abs(Y[found.rows] - found.values), leaves, weight[found.rows])
        return score_numbers(Y, weight, found, how)

    @map_dask_blocks
    def predict(self, X: Any) -> Array:
        """Predict targets.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_features)
            The columns of `fit`.
        """
        return self._predict(self.numbers_of(X)).reshape(-1, *self._target_shape)

    @map_dask_blocks
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Intervals that contain the target of a new row with a given probability.

        Their width is a quantile of the errors of held-out rows, of those in the same leaf if it has 100 or more of
        them: the error of a new row, drawn like those of `fit`, is as likely to be the largest as any of theirs
        (conformal prediction). The coverage holds on average over rows. With sample weights it is that of rows drawn
        with these weights: if noisy rows have small ones, fewer of the rows themselves are covered.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_features)
        coverage : float, default=0.9
            Share of new targets that the intervals hold.

        Returns
        -------
        interval : ndarray of shape (n_samples, 2), or (n_samples, n_targets, 2)
        """
        check_is_fitted(self)
        coverage = check_fraction("coverage", coverage, advice="Pass 0.9 for 90 per cent.")
        A = self.numbers_of(X)
        centre = self._predict(A)
        width = self._residuals.widths(self._divider.leaves(A), coverage)
        interval = np.stack([centre - width, centre + width], axis=-1)
        return interval.reshape(len(A), *self._target_shape, 2)


@dataclass(eq=False, repr=False)
class TabularClassifier(DistributedScore, ClassifierMixin, TableModel):
    """Classification on tables without preprocessing: numbers, categories, dates and missing values.

    Like `TabularRegressor`, with kernel ridge regression on targets ±1, one class against the rest. Probabilities are a
    softmax of the scores and their cubes, with factors and levels that are fitted on leave-one-out scores. If folds
    were held out, a temperature is fitted on their scores: without it, small tables of noise would look certain.

    Parameters
    ----------
    kernel : "auto", str or list of str, default="auto"
        Names among "laplacian", "exponential", "matern32", "matern52" and "rbf" to choose from.
    scaling : {"auto", "standard", "quantile"}, default="auto"
        Columns are divided by their standard deviation, or replaced by ranks.
    leaf_size : int or "auto", default="auto"
        The most rows in a leaf; "auto" is as many as `max_seconds` allows.
    metric : {"auto", "diagonal", "full"}, default="auto"
        How distances are learned, as for `TabularRegressor`.
    n_members : int, default=3
        Number of models with different kernels or scalings that are averaged.
    max_seconds : float, default=60.0
        Time for which sizes are planned, as for `TabularRegressor`.
    device : str or None, default=None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are. Leaves are larger on a GPU.
    n_jobs : int or None, default=None
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set.
    random_state : int, RandomState instance or None, default=None
        Seed of everything random: an int gives the same result every time.
    verbose : int, default=0
        Above zero, a terminal shows progress.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    feature_importances_ : ndarray of shape (n_features,)
    report_ : TableReport
    fit_seconds_ : float
        How long `fit` took.
    held_out_ : HeldOut
        Accuracy on rows that had no part in what was chosen, its standard error, and how these rows were held out.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import TabularClassifier
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = TabularClassifier(random_state=0).fit(X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other"))
    >>> model.predict([[1.0, 1.0], [1.0, -1.0]]).tolist()
    ['same', 'other']
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> TabularClassifier:
        """Learn from a table.

        Parameters
        ----------
        X : pandas, polars or Arrow table, array-like of shape (n_samples, n_features), or Dask frame or array
            Rows of Dask data come into memory, as the model holds them; leaves are fitted by the client's workers.
        y : array-like of shape (n_samples,), or the name of a column of X
        sample_weight : array-like of shape (n_samples,), the name of a column of X, or None
            How much the error of each row counts; only ratios matter. Rows of weight zero are ignored, and one row
            counts for at most a twentieth of all (of fewer than 80 rows, for four rows).
        """
        raw, y, weight = self._rows(X, y, sample_weight)
        y = _labels(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        k = len(self.classes_)
        if k < 2:
            raise ValueError(
                f"the targets hold one class, {self.classes_.tolist()[0]!r}; a classifier needs at least two."
            )
        Y = np.where(codes[:, None] == (np.arange(k) if k > 2 else 1), 1.0, -1.0)
        self._fit(raw, Y, weight, self._workers(X), codes)
        return self

    def _calibrate(self, scores: Array, Y: Array, weight: Array) -> None:
        self._link = fit_link(scores, codes_of(Y), weight)

    def _score(self, parts: Sequence[tuple[TableModel, HeldOutRows]], Y: Array, weight: Array, how: str) -> HeldOut:
        found, codes = joined([rows for _, rows in parts]), codes_of(Y)
        logits = np.concatenate([model._link(rows.values) for model, rows in parts])
        truth = codes[found.rows]
        if parts[0][0] is not self:  # leave-one-out scores of rows that chose the model look too certain
            self._link = self._link.tempered(fit_temperature(logits, truth, weight[found.rows]))
        return score_labels(codes_of(logits) == truth, codes_of(found.means) == truth, Y, weight, found, how)

    @map_dask_blocks
    def decision_function(self, X: Any) -> Array:
        """Log odds of the rows of X, (n_samples,); of three or more classes arguments of the softmax, one for each."""
        scores = self._predict(self.numbers_of(X))
        scores = self._link(scores)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    @map_dask_blocks
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes for the rows of X, (n_samples, n_classes)."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return np.asarray(softmax(scores, axis=1))

    @map_dask_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities that `predict_proba` gives for X."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny))

    @map_dask_blocks
    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row of X."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]


def _labels(y: Any) -> Array:
    """Labels (n,), none of them missing."""
    y = column_or_1d(np.asarray(y), warn=True)
    if not len(y):
        raise ValueError("y is empty; there is nothing to learn.")
    if y.dtype.kind == "f":
        assert_all_finite(y, input_name="y")
        if np.abs(y).max() > _LARGEST_LABEL:
            raise ValueError(
                f"labels that are numbers must be at most {_LARGEST_LABEL:.0e}; got {np.abs(y).max():.3g}."
            )
    gaps = int(np.count_nonzero(find_gaps(y))) if y.dtype.kind == "O" else 0
    if gaps:
        raise ValueError(f"the targets contain NaN or None in {gaps} rows; remove those rows.")
    if all(isinstance(label, bytes) for label in y):
        raise ValueError("the targets are bytes; make them texts, as in [label.decode() for label in y].")
    try:
        np.unique(y)
        check_classification_targets(y)
    except TypeError:
        raise ValueError("the targets are of several types that cannot be ordered; make them all texts.") from None
    return y
