"""Which features, how many, which solver, and what it will cost: measured on a sample, with reasons."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from bochner.backends import Array, reading
from bochner.certificates.kernels import _factor, _whitened_norm
from bochner.certificates.residuals import Residual
from bochner.diagnostics import GramSpectrum, gram_spectrum
from bochner.diagnostics.distances import finite_points
from bochner.estimators import FourierFeatures, KernelRidge, NystromFeatures
from bochner.estimators._validation import check_positive
from bochner.estimators.classifier import labels_of, unique_labels
from bochner.estimators.models import check_target_size
from bochner.kernels import Kernel, as_kernel
from bochner.keys import Key
from bochner.solvers import memory_available
from bochner.stopwatches import GRAM_COPIES, Stopwatch, unfitted

_SAMPLE = 800  # rows on which errors and penalties are measured
_FIT_ROWS = 5000  # rows that trial features are fitted on
_MOST = 8192  # columns tried
_TINY = np.finfo(float).tiny
_TARGET = 0.5  # relative spectral error at which ridge regression on features is as good as the exact one


@dataclass(frozen=True)
class Candidate:
    """One way to do it: columns needed, the error measured with them, and the time predicted."""

    features: str
    n_components: int
    error: float
    reached: bool
    seconds: dict[str, float]

    @property
    def total(self) -> float:
        """Seconds of processor time in all."""
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Recommendation:
    """What `recommend` found; ``print(recommendation)`` is a page.

    Attributes
    ----------
    features : {"fourier", "nystrom"}
    kernel : Kernel
        With its length scale as a number.
    rows, landmarks : str or None
        The law of the frequencies, or of the landmarks.
    n_components : int
    solver : str
    alpha : float
        The penalty that the effective dimension is for.
    effective_dimension : (float, float)
        A bracket, measured.
    error : float
        Of these features on a sample of the rows, by `criterion`.
    criterion : str
    seconds : dict of str to float
        Predicted processor time of every step.
    bytes : float
        Predicted memory besides the data.
    candidates : tuple of Candidate
        What was compared.
    reasons : tuple of str
    shape : (int, int)
        Of the data.
    """

    features: str
    kernel: Kernel
    rows: str | None
    landmarks: str | None
    n_components: int
    solver: str
    alpha: float
    effective_dimension: tuple[float, float]
    error: float
    criterion: str
    seconds: dict[str, float]
    bytes: float
    candidates: tuple[Candidate, ...]
    reasons: tuple[str, ...]
    shape: tuple[int, int]

    @property
    def total_seconds(self) -> float:
        """Predicted processor time of all steps."""
        return sum(self.seconds.values())

    def transformer(self, random_state: Any = None) -> FourierFeatures | NystromFeatures:
        """The features, not fitted."""
        if self.features == "fourier":
            return FourierFeatures(self.kernel, self.n_components, rows=self.rows, random_state=random_state)
        return NystromFeatures(self.kernel, self.n_components, landmarks=self.landmarks, random_state=random_state)

    def model(self, random_state: Any = None) -> KernelRidge:
        """Kernel ridge regression with these features, not fitted."""
        return KernelRidge(
            self.kernel,
            self.n_components,
            features=self.features,
            alpha="loo" if self.solver == "eigen" else self.alpha,
            solver=self.solver,
            random_state=random_state,
        )

    def __repr__(self) -> str:
        n, d = self.shape
        low, high = self.effective_dimension
        law = f'rows="{self.rows}"' if self.features == "fourier" else f'landmarks="{self.landmarks}"'
        name = "FourierFeatures" if self.features == "fourier" else "NystromFeatures"
        between = f"{low:.4g}" if high - low < 0.01 * low else f"{low:.4g} to {high:.4g}"
        lines = [
            f"Recommendation for {n} rows of {d} features",
            "",
            f"  {name}({self.kernel!r}, n_components={self.n_components}, {law})",
            f"  solver: {self.solver}, alpha about {self.alpha:.3g}",
            "",
            f"  effective dimension       {between}",
            f"  {self.criterion:<25s} {self.error:.3g}, measured on {min(n, _SAMPLE)} rows",
            f"  processor time            {_seconds(self.total_seconds)} "
            f"({', '.join(f'{step} {_seconds(s)}' for step, s in self.seconds.items())})",
            f"  memory                    {_bytes(self.bytes)} besides the data",
            "",
            "Why",
            *(f"  - {reason}" for reason in self.reasons),
            "",
            "Compared",
        ]
        for c in self.candidates:
            reached = "" if c.reached else ", which is not enough"
            lines.append(
                f"  {c.features:<8s} {c.n_components:6d} columns, error {c.error:.3g}{reached}: {_seconds(c.total)}"
            )
        return "\n".join(lines)


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
    kernel: Any = "rbf",
    budget_seconds: float | None = None,
    budget_bytes: float | None = None,
    tol: float | None = None,
    random_state: Any = 0,
) -> Recommendation:
    """Say which features, how many, and which solver suit the data, with reasons and predicted costs.

    A sample of the rows is looked at: the effective dimension at the penalty that fits the targets (one tenth of
    k(x, x) without targets), the columns that Fourier and Nyström features need, and the time both take here.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    y : array-like of shape (n_samples,) or (n_samples, n_targets), optional
        Numbers, or labels.
    kernel : Kernel, str or callable
    budget_seconds : float, optional
        Processor time that fitting may take; fewer columns are recommended where it does not suffice, and that is said.
    budget_bytes : float, optional
        Memory besides the data; half of what is free unless given.
    tol : float, optional
        Relative Frobenius error of K that is wanted. Without it, columns are counted that make the relative spectral
        error of K + alpha I at most 1/2, with which ridge regression is about as good as with K itself.
    random_state : int, RandomState, Generator or None

    Returns
    -------
    Recommendation
        ``print`` it; `transformer()` and `model()` make what it recommends.

    Notes
    -----
    Times are operations counted by `theory.cost_estimate` times the rate measured on a small piece of the same work.

    Examples
    --------
    >>> import numpy as np
    >>> import bochner
    >>> X = np.random.default_rng(0).normal(size=(3000, 3))
    >>> advice = bochner.recommend(X, np.sin(X[:, 0]), kernel=bochner.RBF(2.0))
    >>> advice.features, advice.n_components < 400
    ('nystrom', True)
    """
    for name, value in (("budget_seconds", budget_seconds), ("budget_bytes", budget_bytes), ("tol", tol)):
        if value is not None:
            check_positive(name, value)
    X = finite_points(X)
    n, d = X.shape
    if n < 2:
        raise ValueError(f"a recommendation needs at least two rows, got {n}.")
    key = Key.from_random_state(random_state)
    resolved = as_kernel(kernel).resolve(X, key)
    spectrum = gram_spectrum(X, resolved, max_rows=_SAMPLE, random_state=key)
    Y = None if y is None else _targets(y, n)
    alpha, why_alpha = _penalty(X, Y, resolved, spectrum, key)
    low, high = spectrum.effective_dimension(alpha)
    reasons = [why_alpha, _dimension_reason(low, high, n)]
    trial = _Trial(X, resolved, alpha, tol, key)
    stopwatch = Stopwatch(X, resolved, 1 if Y is None else Y.shape[1], Y is not None, alpha, key)
    memory = float(budget_bytes) if budget_bytes is not None else memory_available() / 2.0
    solver = "eigen"
    most = max(16, min(_MOST, int(math.sqrt(memory / GRAM_COPIES / 8.0)), n))
    if most < min(_MOST, n):
        reasons.append(f"{_bytes(memory)} of memory hold the sums of {most} columns at most")
    names = ["fourier", "nystrom"] if resolved.stationary else ["nystrom"]
    if not resolved.stationary:
        reasons.append("the kernel is not a function of x - y, so it has no frequencies: Nyström")
    found = []
    for name in names:
        m, error, reached = trial.columns(name, most)
        found.append(Candidate(name, m, error, reached, stopwatch.predict(name, m, solver)))
    best = min(found, key=lambda c: (not c.reached, c.total if c.reached else c.error))
    reasons += _comparison(found, best, trial.criterion)
    if budget_seconds is not None and best.total > budget_seconds:
        best, said = _within(best, float(budget_seconds), trial, stopwatch, solver, names)
        reasons.append(said)
    if Y is not None and best.n_components > 3000 and best.seconds["solve"] > 0.5 * best.total:
        solver = "cholesky"
        best = replace(best, seconds=stopwatch.predict(best.features, best.n_components, solver))
        reasons.append("solver cholesky: all eigenvalues of so many columns would cost more than everything else")
    elif Y is not None:
        reasons.append("solver eigen: one factorisation gives every penalty")
    rows, landmarks = stopwatch.laws(best.features, best.n_components)
    return Recommendation(
        best.features,
        resolved,
        rows,
        landmarks,
        best.n_components,
        solver,
        alpha,
        (low, high),
        best.error,
        trial.criterion,
        best.seconds,
        stopwatch.memory(best.features, best.n_components),
        tuple(found),
        tuple(reasons),
        (n, d),
    )


def _targets(y: Any, n: int) -> Array:
    """Targets (n, k) as numbers; labels as indicators of the first few classes."""
    with reading("y"):
        y = np.asarray(y)
    if y.shape[:1] != (n,) or y.ndim > 2 or not y.size:
        raise ValueError(f"y has shape {y.shape} and X has {n} rows; they must agree.")
    if y.dtype.kind not in "fiub":
        y = labels_of(y)
        return np.asarray(y[:, None] == unique_labels(y)[:20], dtype=np.float64)
    out = np.asarray(y, dtype=np.float64).reshape(n, -1)
    if not np.isfinite(out).all():
        raise ValueError("y contains NaN or infinity; remove those rows first.")
    check_target_size(out)
    return out


def _penalty(X: Any, Y: Array | None, kernel: Kernel, spectrum: GramSpectrum, key: Key) -> tuple[float, str]:
    """The penalty of largest marginal likelihood on a sample; alpha means the same for any number of rows."""
    unit = float(spectrum.fresh_diagonal.mean()) or 1.0
    if Y is None:
        return 0.1 * unit, f"no targets: the penalty is taken as {0.1 * unit:.3g}, a tenth of k(x, x)"
    rows = key.child("penalty").generator().permutation(X.shape[0])[:_SAMPLE]
    values, vectors = scipy.linalg.eigh(kernel(X[rows].astype(np.float64)))
    values = np.maximum(values, 0.0)
    turned = vectors.T @ (Y[rows] - Y[rows].mean(axis=0))
    alphas = unit * np.logspace(-6, 3, 37)
    scores = []
    for alpha in alphas:
        shifted = values + alpha
        # the size of k is free: its maximum likelihood estimate is put in
        squares = np.maximum((turned**2 / shifted[:, None]).sum(axis=0), _TINY)
        scores.append(float(np.sum(0.5 * len(rows) * np.log(squares) + 0.5 * np.log(shifted).sum())))
    alpha = float(alphas[int(np.argmin(scores))])
    return alpha, f"alpha = {alpha:.3g} by marginal likelihood on {len(rows)} rows"


def _dimension_reason(low: float, high: float, n: int) -> str:
    share = "few" if high < 0.05 * n else "many"
    ends = sorted({f"{low:.3g}", f"{high:.3g}"}, key=float)
    return f"a fit with this penalty has {' to '.join(ends)} effective parameters for {n} rows: {share}"


def _comparison(found: list[Candidate], best: Candidate, criterion: str) -> list[str]:
    out = []
    for c in found:
        count = f"{c.features} features need {c.n_components} columns for a {criterion} of {c.error:.2g}"
        if not c.reached:
            most = f"{c.n_components} columns, the most tried"
            count = f"{c.features} features have a {criterion} of {c.error:.2g} with {most}"
        out.append(count)
    for c in found:
        if c is not best and c.reached and best.reached:
            out.append(f"{best.features} is predicted to take {_seconds(best.total)}, {c.features} {_seconds(c.total)}")
    return out


def _within(
    best: Candidate, budget: float, trial: _Trial, stopwatch: Stopwatch, solver: str, names: list[str]
) -> tuple[Candidate, str]:
    """The map with the smallest error among those that fit into the time."""
    options = []
    for name in names:
        m = _MOST if name == best.features else best.n_components
        m = max(m, best.n_components)
        while m > 8 and sum(stopwatch.predict(name, m, solver).values()) > budget:
            m = int(m / 1.1)
        options.append(Candidate(name, m, trial.error(name, m), False, stopwatch.predict(name, m, solver)))
    chosen = min(options, key=lambda c: (c.total > budget, c.error))
    said = (
        f"{_seconds(budget)} do not suffice for that: {chosen.n_components} columns fit, with a {trial.criterion} of "
        f"{chosen.error:.2g}"
    )
    return chosen, said


class _Trial:
    """Errors of features on a sample of the rows."""

    def __init__(self, X: Any, kernel: Kernel, alpha: float, tol: float | None, key: Key) -> None:
        order = key.child("trial").generator().permutation(X.shape[0])
        self.sample = X[np.sort(order[:_SAMPLE])]
        # landmarks are better on the rows they were chosen from: others, where there are others
        rest = order[_SAMPLE:] if X.shape[0] >= 2 * _SAMPLE else order
        self.fitted_on = X[np.sort(rest[:_FIT_ROWS])]
        self.kernel, self.key, self.tol = kernel, key, tol
        share = self.sample.shape[0] / X.shape[0]
        self.factor = None
        if tol is None:
            self.factor = _factor(kernel(self.sample.astype(np.float64)), alpha * share)
        self.criterion = "relative spectral error" if tol is None else "relative Frobenius error"
        self.target = _TARGET if tol is None else tol

    def error(self, name: str, n_components: int) -> float:
        """The criterion with so many columns."""
        transformer = unfitted(name, self.kernel, n_components, self.key).fit(self.fitted_on)
        residual = Residual(transformer, self.sample)
        rows = np.arange(self.sample.shape[0])
        E, K = residual.tile(rows, rows)
        if self.factor is not None:
            return _whitened_norm(E, self.factor)
        return float(np.linalg.norm(E) / np.linalg.norm(K))

    def columns(self, name: str, most: int) -> tuple[int, float, bool]:
        """The fewest columns whose error is below the target, within a tenth; with their error and whether it is."""
        if name == "nystrom":
            most = min(most, self.fitted_on.shape[0])
        low, high = 0, min(32, most)
        error = self.error(name, high)
        while error > self.target and high < most:
            low, high = high, min(2 * high, most)
            error = self.error(name, high)
        while error <= self.target and high - low > 0.1 * high and high > 16:
            middle = (low + high) // 2
            trial = self.error(name, middle)
            low, high, error = (low, middle, trial) if trial <= self.target else (middle, high, error)
        return high, error, error <= self.target
