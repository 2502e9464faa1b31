"""From sums to coefficients: which solver, which penalty, and how it went."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve

from bochner.backends import Array
from bochner.estimators._validation import check_choice
from bochner.solvers import Cholesky, Factor, Report, RidgeSolver, memory_available
from bochner.statistics import RidgeSpectrum, RidgeStatistics

CRITERIA = ("gcv", "loo", "margin", "evidence")
LEFT_OUT = ("loo", "margin")  # those for which rows are left out
SOLVERS = ("auto", "cholesky", "eigen", "cg")
_ROUNDING_SHARE = 0.01  # of alpha, that rounding features may add to it
LeftOut = Callable[[RidgeSpectrum, Any], Array]  # leave-one-out mean squared errors (a, k) of penalties (a,)


@dataclass(frozen=True)
class Solution:
    """Coefficients (m, k), intercepts (k,), the penalty and how it was found."""

    coefficients: Array
    intercept: Array
    alpha: float
    path: dict[str, Array]
    report: Report
    effective_dimension: float | None = None


def check_penalty(alpha: Any, solver: Any) -> None:
    """A number, a grid or the name of a criterion; and a solver."""
    if isinstance(alpha, str):
        check_choice("alpha", alpha, CRITERIA)
    else:
        try:
            alphas = np.asarray(alpha, dtype=float)
        except (TypeError, ValueError):
            alphas = np.empty(0)
        if alphas.ndim > 1 or not alphas.size or not (np.isfinite(alphas).all() and (alphas >= 0).all()):
            raise ValueError(
                f"alpha must be a number ≥ 0, a list of them, or one of {', '.join(map(repr, CRITERIA))}; "
                f"got {alpha!r}."
            )
    if not isinstance(solver, RidgeSolver):
        check_choice("solver", solver, SOLVERS)


def choose_solver(solver: Any, alpha: Any, n_components: int) -> tuple[Any, tuple[str, ...]]:
    """What solver="auto" means, and why, in words."""
    if solver != "auto":
        return solver, ()
    copies = 2.5 if isinstance(alpha, numbers.Real) else 4.5  # sums, float32 scratch, factor, workspace
    needed, free = int(copies * 8 * n_components**2), memory_available()
    if needed > free // 2:
        return "cg", (
            f"solver='cg': the sums of {n_components} components need {needed / 2**30:.1f} GiB and "
            f"{free / 2**30:.1f} GiB are free, so the data is read once an iteration instead",
        )
    name = "cholesky" if isinstance(alpha, numbers.Real) else "eigen"
    why = "one penalty" if name == "cholesky" else "a path of penalties"
    return name, (f"solver={name!r}: {why}; the sums need {needed / 2**30:.2g} GiB",)


def rounding_variance(alpha: Any, n_samples: int | None) -> float:
    """The variance that rounding may add to an entry of the features: together a hundredth of a known penalty.

    Random errors of variance v in n rows work like a further penalty of n v (Zhang et al. 2019). They move predictions
    by a tenth, at most, of the standard error that noise of variance (‖y - Zw‖² + alpha ‖w‖²)/n gives them
    (tests/test_statistics.py).
    """
    if isinstance(alpha, str) or not n_samples:
        return 0.0
    return _ROUNDING_SHARE * float(np.min(alpha)) / n_samples


def solve_sums(
    statistics: RidgeStatistics,
    alpha: Any,
    solver: Any = "auto",
    *,
    fit_intercept: bool = True,
    left_out: LeftOut | None = None,
    shift: float = 0.0,
) -> Solution:
    """Coefficients of a given penalty, or of the best of a path; `left_out` measures the path of LEFT_OUT.

    Of K ≈ ZZᵀ + shift I the shift is added to a given penalty, and is the least of a path.
    """
    solver, notes = choose_solver(solver, alpha, statistics.n_components)
    if shift:
        notes = (*notes, f"alpha includes the shift of the features, {shift:.3g}: the kernel matrix is ZZᵀ + shift I")
    if isinstance(alpha, numbers.Real):
        alpha = float(alpha) + shift
    if statistics.noise:
        share = f"as if alpha were {statistics.noise:.1g} larger"
        notes = (*notes, f"float32 features were rounded to integers for their products, {share}; float64 data are not")
    if isinstance(alpha, numbers.Real) and solver != "eigen":
        rule = solver if isinstance(solver, RidgeSolver) else Cholesky()
        factor: Factor = rule.factor(statistics.operator(fit_intercept), float(alpha))
        weights = factor.solve(statistics.right_side(fit_intercept))
        intercept = statistics.intercept(weights, fit_intercept)
        return Solution(weights, intercept, float(alpha), {}, factor.report.noting(*notes))
    spectrum = statistics.spectrum(fit_intercept)
    path: dict[str, Array] = {}
    if not isinstance(alpha, numbers.Real):
        grid = None if isinstance(alpha, str) else np.ravel(np.asarray(alpha, dtype=float)) + shift
        if grid is None and shift:
            grid = np.maximum(spectrum.grid(), shift)
        criterion: Any = alpha if isinstance(alpha, str) else "gcv"
        if criterion in LEFT_OUT and left_out is None:
            notes = (*notes, f"alpha={criterion!r} needs rows to leave out; after partial_fit or merge evidence chose")
            criterion = "evidence"
        if left_out is not None:
            errors = left_out
            criterion = lambda a: (errors(spectrum, a) / spectrum.target_variance).mean(axis=1)  # noqa: E731
        alpha, alphas, values = spectrum.best(criterion, grid)
        path = {"alpha": alphas, "criterion": values, "effective_dimension": spectrum.effective_dimension(alphas)}
    alpha = float(alpha)
    weights = spectrum.coefficients(alpha)
    return Solution(
        weights,
        statistics.intercept(weights, fit_intercept),
        alpha,
        path,
        spectrum.factor.at(alpha).report.noting(*notes),
        float(spectrum.effective_dimension([alpha])[0]),
    )


def effective_dimension(statistics: RidgeStatistics, alpha: float, fit_intercept: bool) -> float:
    """The trace of G (G + alpha I)⁻¹."""
    G = statistics.operator(fit_intercept).to_dense()
    shifted = G + alpha * np.eye(len(G))
    return float(np.trace(solve(shifted, G, assume_a="pos", overwrite_a=True, overwrite_b=True)))
