"""Which features, how many, and at what cost: extrapolated to all rows from small fits that are timed."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import nnls

from bochner.backends import Array, check_moderate, reading
from bochner.checks import check_positive
from bochner.data.labels import labels_of
from bochner.data.targets import check_target_size
from bochner.draws.keys import Key, Seed
from bochner.estimators.classifier import KernelClassifier
from bochner.estimators.feature_spec import FEATURES
from bochner.estimators.fourier import FourierFeatures
from bochner.estimators.nystrom import NystromFeatures
from bochner.estimators.ridge import KernelRidge
from bochner.kernels.algebra import Kernel, finite_points
from bochner.kernels.conversion import KernelLike, as_kernel
from bochner.ridge.solvers import memory_available
from bochner.theory.costs import cost_estimate
from bochner.tuning.components import search_budget
from bochner.tuning.excess_risk import FOURIER_POWER, LANDMARK_POWER
from bochner.tuning.policies import ClassifierPolicy

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from scipy.sparse import csr_matrix
    from sklearn.base import BaseEstimator

_KERNEL_ROWS = 5000  # rows on which a model tunes a length scale
_FIRST_ROWS = 2000  # rows of the first search
_TYPICAL_GROWTH = 0.5  # power of the number of rows with which the number of components typically grows
_MORE_ROWS = 3  # factor by which the rows of a search exceed those of the search before it
_SEARCH_GROWTH = 3.0  # factor by which its time does
# Searches try at most a quarter of their rows and at most this many components; larger numbers are extrapolated.
_SEARCH_COMPONENTS = 1024
_FEWEST_COMPONENTS = 256  # smallest limit for a search; below it nothing is certified
_TIMED_ROWS = (5000, 20_000)  # rows of timed fits; beyond a few thousand, every row takes the same time
_TIMED_COMPONENTS = 512  # largest number of components of fits that are timed on all of these rows
_TIMED_GROWTH = 3.0  # factor of the time of a fit if the number of components doubles
_WIDTH_POWER = 1.75  # power of m in the time of m × m sums, whose products run faster the wider they are
_SUMS_COPIES = 4.5  # memory in units of the m × m sums: the sums, float32 scratch, eigenvectors, workspace

_TIMING = 0.25  # share of the time that is reserved for timing fits
Timing = tuple[int, int, float]  # rows, components, seconds

_clock = time.process_time


@dataclass(frozen=True)
class Trial:
    """Result of a search for the number of components on some of the rows.

    Attributes
    ----------
    features : {"fourier", "nystrom"}
    n_samples, n_components : int
    error : float
        Upper end of the certificate's interval.
    wanted : float
        Number of components that `tol` needs: more than `n_components` if the largest number tried was not enough. The
        excess of a model's error is assumed to fall with the power of this number that the search itself assumes, and
        the error of a kernel matrix with one over its square root.
    effective_dimension : float
        Of the fitted model; nan without targets.
    seconds : float
        Processor time of the search.
    """

    features: str
    n_samples: int
    n_components: int
    error: float
    wanted: float
    effective_dimension: float
    seconds: float


@dataclass(frozen=True)
class Recommendation:
    """Result of `recommend`; ``print(recommendation)`` shows all of it.

    Attributes
    ----------
    task : {"regression", "classification"} or None
        None without targets.
    features : {"fourier", "nystrom"}
        Which features suit the rows.
    kernel : Kernel
        The kernel with a number as its length scale.
    n_components : int
        How many components `fit` is predicted to choose.
    solver : str or None
        The solver that a fit uses; None without targets.
    alpha : float
        The penalty of the largest trial; nan without targets.
    effective_dimension : float
        Of a fit to all rows, extrapolated from the trials; nan without targets.
    error : float
        Upper end of the interval of the largest trial's certificate.
    tol : float
        The largest error that was allowed.
    seconds : float
        Predicted processor time of fitting `model` (without targets: of ``transformer().fit_transform``) to all rows.
    search_seconds : float
        The same for a model with default parameters, whose `fit` also finds the kernel's length scale and the number of
        components; nan without targets.
    bytes : float
        Predicted memory, without that of the data.
    trials : tuple of Trial
        The searches, on growing numbers of rows.
    reasons : tuple of str
        Why, a sentence each.
    shape : (int, int)
        Of the data.
    """

    task: str | None
    features: str
    kernel: Kernel
    n_components: int
    solver: str | None
    alpha: float
    effective_dimension: float
    error: float
    tol: float
    seconds: float
    search_seconds: float
    bytes: float
    trials: tuple[Trial, ...]
    reasons: tuple[str, ...]
    shape: tuple[int, int]

    def transformer(self, random_state: Seed = None) -> FourierFeatures | NystromFeatures:
        """Make the recommended transformer, not fitted, with this `random_state`."""
        made: type[FourierFeatures | NystromFeatures] = FEATURES[self.features]
        return made(self.kernel, self.n_components, random_state=random_state)

    def model(self, random_state: Seed = None) -> KernelRidge | KernelClassifier:
        """Make the recommended model with this `random_state`, not fitted: a classifier if y contains labels."""
        made = KernelClassifier if self.task == "classification" else KernelRidge
        return made(self.kernel, self.n_components, features=self.features, random_state=random_state)

    def __repr__(self) -> str:
        n, d = self.shape
        made = self.transformer() if self.task is None else self.model()
        features = "" if self.task is None else f', features="{self.features}"'
        facts = {
            "processor time": f"{_seconds(self.seconds)} for all rows",
            "memory": f"{_bytes(self.bytes)} besides the data",
        }
        if self.task is not None:
            facts["processor time"] += f", {_seconds(self.search_seconds)} if fit finds scale and components itself"
            facts = {"effective dimension": f"{self.effective_dimension:.3g}", "alpha": f"{self.alpha:.3g}"} | facts
        return "\n".join(
            (
                f"Recommendation for {n} rows of {d} features",
                "",
                f"  {type(made).__name__}({self.kernel!r}, n_components={self.n_components}{features})",
                "",
                *(f"  {name:<21s} {fact}" for name, fact in facts.items()),
                "",
                "Why",
                *(f"  - {reason}" for reason in self.reasons),
                "",
                f"Tried, until the error is at most {self.tol:g}",
                *(
                    f"  {t.features:<8s} {t.n_samples:6d} rows: {t.n_components:5d} components, error at most "
                    f"{t.error:.2g}, in {_seconds(t.seconds)}"
                    for t in self.trials
                ),
            )
        )


def _seconds(s: float) -> str:
    if s < 0.9995:
        return f"{1000 * s:.3g} ms"
    return f"{s:.3g} s" if s < 120 else f"{s / 60:.0f} min"


def _bytes(b: float) -> str:
    return f"{b / 2**20:.3g} MiB" if b < 2**30 else f"{b / 2**30:.3g} GiB"


def recommend(
    X: Any,
    y: Any = None,
    *,
    kernel: KernelLike | None = None,
    budget_seconds: float | None = None,
    budget_bytes: float | None = None,
    tol: float = 0.05,
    max_seconds: float = 5.0,
    random_state: Seed = 0,
) -> Recommendation:
    """Predict which features `fit` will choose, how many, and what they will cost, with reasons.

    Models with ``n_components="auto"`` are fitted to 2,000 rows, 6,000, and so on while there is time. Their numbers of
    components are extrapolated to all rows, and so are the times of some fits with few components.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Numbers, for `KernelRidge`, or labels, for `KernelClassifier`. Without targets `FourierFeatures` and
        `NystromFeatures` are compared.
    kernel : Kernel, str, callable or None
        The kernel to approximate; None is what the model has by default, "auto" for numbers and "rbf" otherwise.
    budget_seconds : float, optional
        Processor time that fitting may take. If it is too short, fewer components are recommended, and the reasons say
        so.
    budget_bytes : float, optional
        Memory that fitting may take besides the data; by default half of the free memory.
    tol : float, default=0.05
        As for the estimators: by how much the error may exceed that of the kernel itself, or, without targets, the
        error of the kernel matrix.
    max_seconds : float, default=5.0
        Processor time for the recommendation itself, approximately. With less than two seconds the
        recommendation is a rough guess.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Recommendation
        ``print`` it; `transformer()` and `model()` make what it recommends.

    Notes
    -----
    The number of components is assumed to grow like a power of the number of rows, up to the estimator's own limits.
    A fit is assumed to cost ``n (a + b m + c m^1.75) + d + e m² + f m³`` seconds with n rows and m components, as wide
    products run at a higher rate than narrow ones; the six coefficients, none of them negative, are estimated from fits
    on one thread.

    Examples
    --------
    >>> import numpy as np
    >>> import bochner
    >>> X = np.random.default_rng(0).normal(size=(3000, 3))
    >>> advice = bochner.recommend(X, np.sin(X[:, 0]), kernel=bochner.RBF(2.0))
    >>> advice.features, advice.n_components < 400
    ('nystrom', True)
    """
    limits = {"budget_seconds": budget_seconds, "budget_bytes": budget_bytes, "tol": tol, "max_seconds": max_seconds}
    for name, value in limits.items():
        if value is not None:
            check_positive(name, value)
    X = check_moderate(finite_points(X), alone=True)
    n, d = X.shape
    if n < 2:
        raise ValueError(f"a recommendation needs at least two rows, got {n}.")
    key = Key.from_random_state(random_state)
    y = None if y is None else _targets(y, n)
    task = None if y is None else "regression" if y.dtype.kind == "f" else "classification"
    if kernel is None:
        kernel = {"regression": KernelRidge, "classification": KernelClassifier, None: FourierFeatures}[task].kernel
    order = key.child("recommendation").generator().permutation(n)
    if task == "classification":
        order = _every_label_first(order, y)
    fits = _Fits(X, y, order, task, float(tol), key.seed)
    resolved, tuning, why, found = _candidates(fits, kernel, max_seconds)
    best = min(found, key=lambda c: (c.trials[-1].error > tol, c.seconds))
    m, limits_met = _affordable(fits, best, budget_seconds, budget_bytes)
    reasons = [why, *(reason for c in found for reason in c.reasons()), *limits_met]
    return Recommendation(
        task=task,
        features=best.features,
        kernel=resolved,
        n_components=m,
        solver=fits.solver,
        alpha=fits.alpha,
        effective_dimension=min(carried_on(best.trials, [t.effective_dimension for t in best.trials], n), float(m)),
        error=best.trials[-1].error,
        tol=float(tol),
        seconds=best.times(n, m),
        search_seconds=float("nan") if task is None else tuning + fits.search_seconds(best, m),
        bytes=fits.bytes(best.features, m),
        trials=tuple(trial for c in found for trial in c.trials),
        reasons=tuple(reasons),
        shape=(n, d),
    )


def _candidates(fits: _Fits, kernel: KernelLike, max_seconds: float) -> tuple[Kernel, float, str, list[_Candidate]]:
    """Try the features that `fit` considers.

    Returns the kernel, the seconds of tuning it, the reason for these features, and the candidates.
    """
    started = _clock()
    until, share = started + max_seconds, min(1.0, max_seconds / 5.0)
    resolved, chosen = fits.resolve(kernel, math.ceil(share * _KERNEL_ROWS))
    tuning = _clock() - started
    names: tuple[str, ...] = (chosen,)
    why = f"{chosen} features, which fit takes for these rows and this kernel"
    if not resolved.stationary:
        why = "the kernel is not a function of x - y, so it has no frequencies: Nyström"
    elif fits.task is None:
        names, why = ("fourier", "nystrom"), "no targets: of two kinds of features the faster one"
    found = []
    for i, name in enumerate(names):
        seconds = (until - _clock()) / (len(names) - i)
        found.append(_Candidate.of(fits, resolved, name, math.ceil(share * _FIRST_ROWS), seconds))
    return resolved, tuning, why, found


def _affordable(
    fits: _Fits, best: _Candidate, budget_seconds: float | None, budget_bytes: float | None
) -> tuple[int, list[str]]:
    """Return the number of components within the budgets, and the reasons if it is less than tol needs."""
    m, reasons = best.n_components, []
    memory = memory_available() / 2.0 if budget_bytes is None else float(budget_bytes)
    if fits.bytes(best.features, m) > memory:
        m = _largest(lambda size: fits.bytes(best.features, size) <= memory, m)
        reasons.append(f"{_bytes(memory)} of memory hold {m} components: the error will exceed tol")
    if budget_seconds is not None and best.times(fits.n_samples, m) > budget_seconds:
        m = _largest(lambda size: best.times(fits.n_samples, size) <= budget_seconds, m)
        reasons.append(
            f"{_seconds(budget_seconds)} do not suffice for that: {m} components fit, and the error will exceed tol"
        )
    return m, reasons


def _targets(y: ArrayLike, n: int) -> Array:
    """Return the targets: numbers as float64, labels unchanged."""
    with reading("y"):
        y = np.asarray(y)
    if y.shape[:1] != (n,) or y.ndim > 2 or not y.size:
        raise ValueError(f"y has shape {y.shape} and X has {n} rows; they must agree.")
    if y.dtype.kind not in "fiub":
        return labels_of(y)
    y = y.astype(np.float64)
    if not np.isfinite(y).all():
        raise ValueError("y contains NaN or infinity; remove those rows first.")
    check_target_size(y)
    return y


def _every_label_first(order: Array, y: Array) -> Array:
    """Move one row of each label to the front, so that every trial has all labels."""
    seen: dict[object, int] = {}
    for row, label in zip(order.tolist(), y[order].tolist(), strict=True):
        seen.setdefault(label, row)
    first = np.fromiter(seen.values(), dtype=order.dtype)
    return np.concatenate([first, order[~np.isin(order, first)]])


def _largest(allowed: Callable[[int], bool], most: int) -> int:
    """Return the largest number of components up to `most` that is allowed; 1 if none is."""
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if allowed(middle) else (low, middle)
    return low


class _Fits:
    """Fits of estimators to the first rows of a random order, on one thread, with their processor time."""

    def __init__(
        self, X: Array | csr_matrix, y: Array | None, order: Array, task: str | None, tol: float, seed: int
    ) -> None:
        self.X, self.y, self.order, self.task, self.tol, self.seed = X, y, order, task, tol, seed
        self.n_samples = len(order)
        self.solver: str | None = None
        self.alpha = float("nan")

    def _estimator(self, features: str, kernel: KernelLike, n_components: int | str, **options: Any) -> BaseEstimator:
        options |= {"n_jobs": 1, "random_state": self.seed}
        if self.task is None:
            return FEATURES[features](kernel, n_components, **options)
        if self.task == "regression":
            return KernelRidge(kernel, n_components, features=features, **options)
        # with "auto" the squared loss finds the number of components for every loss
        loss = "squared" if n_components == "auto" else "log_loss"
        return KernelClassifier(kernel, n_components, features=features, loss=loss, **options)

    def _fit(self, estimator: BaseEstimator, n_rows: int, searching: bool) -> float:
        rows = np.sort(self.order[:n_rows])
        X, y = self.X[rows], None if self.y is None else self.y[rows]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a trial may stop before it reaches tol, or learn a constant
            start = _clock()
            estimator.fit(X, y) if y is not None or searching else estimator.fit_transform(X)
            return _clock() - start

    def resolve(self, kernel: KernelLike, n_rows: int) -> tuple[Kernel, str]:
        """Tune the kernel as the estimator does; return also the kind of features that the estimator chooses."""
        if self.task is None:
            return as_kernel(kernel).resolve(self.X[np.sort(self.order[:n_rows])], Key(self.seed)), "nystrom"
        estimator = self._estimator("auto", kernel, "auto", max_components=8)  # as "auto", but faster
        self._fit(estimator, n_rows, searching=True)
        fitted = estimator.features_
        return fitted.kernel_, "fourier" if isinstance(fitted, FourierFeatures) else "nystrom"

    def search(self, features: str, kernel: Kernel, n_rows: int) -> Trial:
        """Search with n_components="auto"."""
        most = min(_SEARCH_COMPONENTS, max(_FEWEST_COMPONENTS, n_rows // 4))
        estimator = self._estimator(features, kernel, "auto", tol=self.tol, max_components=most)
        seconds = self._fit(estimator, n_rows, searching=True)
        model = estimator.ridge_ if self.task == "classification" else estimator
        dimension = float("nan")
        if self.task is not None:
            dimension, self.alpha = float(model.effective_dimension_), float(model.alpha_)
        m, error = int(model.n_components_), float(model.certificate_.high)
        power = 0.5 if self.task is None else LANDMARK_POWER if features == "nystrom" else FOURIER_POWER
        wanted = m * max(1.0, error / self.tol) ** (1.0 / power)
        return Trial(features, n_rows, m, error, wanted, dimension, seconds)

    def timed(self, features: str, kernel: Kernel, n_rows: int, n_components: int) -> Timing:
        """Time a fit with the given number of components."""
        n_rows = min(n_rows, self.n_samples)
        estimator = self._estimator(features, kernel, n_components)
        seconds = self._fit(estimator, n_rows, searching=False)
        self.solver = None if self.task is None else estimator.report_.method
        return n_rows, n_components, seconds

    def ceiling(self, features: str, kernel: Kernel) -> int:
        """Return the largest number of components that "auto" tries."""
        if self.task is None:
            most = self._estimator(features, kernel, "auto").max_components
            return int(min(most, 2 * self.n_samples if features == "fourier" else self.n_samples))
        # the squared loss finds the number of components for every loss
        limits = KernelRidge().get_params(deep=False)
        return search_budget(limits, self.search_rows, landmarks=features == "nystrom").most

    @property
    def search_rows(self) -> int:
        """Number of rows that "auto" uses."""
        return min(self.n_samples, ClassifierPolicy().growth_rows) if self.task == "classification" else self.n_samples

    def search_seconds(self, candidate: _Candidate, n_components: int) -> float:
        """Estimate the seconds of a fit with n_components="auto" to all rows.

        Its ratio to a fit with a given number of components is assumed to be that of the last trial. A classifier finds
        the number of components on some of the rows, and is then fitted with it to all.
        """
        last, times = candidate.trials[-1], candidate.times
        longer = last.seconds / max(times(last.n_samples, last.n_components), 1e-9)
        if self.task == "regression":
            return max(1.0, longer) * times(self.n_samples, n_components)
        return longer * times(self.search_rows, n_components) + times(self.n_samples, n_components)

    def bytes(self, features: str, n_components: int) -> float:
        """Estimate the memory of the map, and of the sums and a block of features or, without targets, all features."""
        size = {"n_samples": self.n_samples, "n_features": self.X.shape[1], "n_components": n_components}
        cost = cost_estimate(features, itemsize=self.X.dtype.itemsize, **size)
        if self.task is None:
            return cost.bytes
        return cost.state_bytes + min(cost.work_bytes, float(1 << 25)) + _SUMS_COPIES * 8.0 * n_components**2


@dataclass(frozen=True)
class _Times:
    """Seconds of a fit as a function of rows and components, with coefficients of at least zero."""

    coefficients: Array

    @staticmethod
    def _terms(n: float, m: float) -> list[float]:
        return [n, n * m, n * m**_WIDTH_POWER, 1.0, m**2, m**3]

    @classmethod
    def of(cls, timings: Sequence[Timing]) -> _Times:
        """Fit the function with the least squared relative error for timings (rows, components, seconds)."""
        terms = np.array([np.array(cls._terms(n, m)) / max(seconds, 1e-6) for n, m, seconds in timings], dtype=float)
        unit = terms.max(axis=0)
        return cls(nnls(terms / unit, np.ones(len(terms)))[0] / unit)

    def __call__(self, n: int, m: int) -> float:
        return float(self.coefficients @ self._terms(n, m))


def _slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log values against log sizes, by least squares; zero if there is only one size."""
    x = np.log(sizes) - np.mean(np.log(sizes))
    return float(x @ np.log(np.maximum(values, 1.0)) / (x @ x)) if len(sizes) > 1 else 0.0


def growth(trials: Sequence[Trial]) -> float:
    """Estimate the power of the number of rows with which the number of components grows, from 0 to 1.

    The power estimated from the components found is noisy and too low: intervals are narrower on more rows, so that
    fewer components are needed to be certain. The power estimated from the effective dimension is less noisy and too
    high: the more components a model has, the fewer it needs for each effective parameter. With targets, the result is
    the mean of both and of the power 1/2 that theory gives for many problems (Rudi & Rosasco 2017,
    "Generalization properties of learning with random features").
    """
    sizes = [t.n_samples for t in trials]
    slopes = [_slope(sizes, [t.wanted for t in trials])]
    if not math.isnan(trials[0].effective_dimension):
        slopes += (_TYPICAL_GROWTH, _slope(sizes, [t.effective_dimension for t in trials]))
    return min(1.0, max(0.0, sum(slopes) / len(slopes)))


def carried_on(trials: Sequence[Trial], values: Sequence[float], n: int) -> float:
    """Extrapolate values found in trials to n rows by a power law with the exponent `growth` through their mean."""
    if trials[-1].n_samples >= n:
        return float(values[-1])
    middle = np.mean([math.log(t.n_samples) for t in trials])
    return math.exp(np.mean(np.log(np.maximum(values, 1.0))) + growth(trials) * (math.log(n) - middle))


@dataclass(frozen=True)
class _Candidate:
    """A kind of features, the results of searches with it on some rows, and what follows for all rows."""

    features: str
    trials: tuple[Trial, ...]
    wanted: float  # components that tol needs; the estimator tries no more than n_components
    n_components: int
    times: _Times
    seconds: float

    @classmethod
    def of(cls, fits: _Fits, kernel: Kernel, features: str, first: int, seconds: float) -> _Candidate:
        """Run two searches, the first on `first` rows, and more while there is time, then time some fits."""
        until = _clock() + seconds
        n = fits.search_rows
        trials = [fits.search(features, kernel, min(n, first))]
        while (last := trials[-1]).n_samples < n and (
            len(trials) == 1 or _SEARCH_GROWTH * last.seconds < until - _clock() - _TIMING * seconds
        ):
            trials.append(fits.search(features, kernel, min(n, _MORE_ROWS * last.n_samples)))
        wanted = carried_on(trials, [t.wanted for t in trials], n)
        m = max(1, min(fits.ceiling(features, kernel), round(wanted)))
        times = _Times.of(_timings(fits, kernel, features, m, until))
        return cls(features, tuple(trials), wanted, m, times, times(fits.n_samples, m))

    def reasons(self) -> list[str]:
        rows, found = (
            [str(value) for value in of]
            for of in zip(*((t.n_samples, t.n_components) for t in self.trials), strict=True)
        )
        out = [f"{self.features}: of {', '.join(rows)} rows fit takes {', '.join(found)} components"]
        if len(rows) > 1:
            out[0] += f", a number that grows like the power {growth(self.trials):.2f} of the rows"
        if self.wanted > self.n_components + 1:
            out.append(f"all rows would need {self.wanted:.0f}; fit tries no more than {self.n_components} of them")
        return out


def _timings(fits: _Fits, kernel: Kernel, features: str, m: int, until: float) -> list[Timing]:
    """Time fits with a few components, four times as many, then doubled up to m while there is time."""
    fits.timed(features, kernel, 100, min(m, 8))  # includes what only a first fit does, and is not counted
    few, many = _TIMED_ROWS
    top = min(m, _TIMED_COMPONENTS)
    out: list[Timing] = []
    for size in dict.fromkeys((max(1, top // 4), top)):
        for n in (few, many):
            twice = [fits.timed(features, kernel, n, size) for _ in range(2 if size < _TIMED_COMPONENTS else 1)]
            out.append(min(twice, key=lambda timing: timing[2]))  # other work on the machine can only make it slower
    last = out[-2]  # the fit to few rows
    while top < m and _clock() + _TIMED_GROWTH * last[2] < until:
        top = min(m, 2 * top)
        last = fits.timed(features, kernel, few, top)
        out.append(last)
    return out
