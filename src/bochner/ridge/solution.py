"""From sums to coefficients: the choice of solver and penalty, and a report of the solution."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgWarning, solve

from bochner.backends import Array
from bochner.checks import check_choice, warn
from bochner.ridge.reports import Report
from bochner.ridge.solvers import SOLVERS, Factor, RidgeSolver, memory_available, needs_sums
from bochner.ridge.spectrum import RidgeSpectrum
from bochner.ridge.statistics import RidgeStatistics

CRITERIA = ("gcv", "loo", "margin", "evidence")
LEFT_OUT = ("loo", "margin")  # criteria that hold rows out
_NO_DIMENSION = 0.01  # a model with a smaller effective dimension is a constant; penalties below the largest leave more
LeftOut = Callable[[RidgeSpectrum, Array], Array]  # leave-one-out mean squared errors (a, k) of penalties (a,)


@dataclass(frozen=True)
class Penalty:
    """A penalty, and the path it was chosen from."""

    alpha: float
    path: dict[str, Array]


@dataclass(frozen=True)
class RidgeSolution:
    """Coefficients (m, k), intercepts (k,), the penalty and how it was found."""

    coefficients: Array
    intercept: Array
    alpha: float
    path: dict[str, Array]
    report: Report
    effective_dimension: float | None = None

    @property
    def is_constant(self) -> bool:
        """Return True if the penalty was chosen from a path, and is so large that predictions hardly vary."""
        if not self.path:
            return False
        nearest = np.abs(self.path["alpha"] - self.alpha).argmin()
        return bool(self.path["effective_dimension"][nearest] < _NO_DIMENSION)


def check_penalty(alpha: object, solver: object) -> None:
    """Check that alpha is a number, a grid or the name of a criterion, and that the solver is known."""
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
        check_choice("solver", solver, ("auto", *SOLVERS))


def choose_solver(solver: str | RidgeSolver, alpha: str | ArrayLike, n_components: int) -> tuple[Any, tuple[str, ...]]:
    """Return the solver that "auto" stands for, and the reasons in words."""
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


def solve_sums(
    statistics: RidgeStatistics,
    alpha: str | ArrayLike,
    solver: str | RidgeSolver = "auto",
    *,
    fit_intercept: bool = True,
    left_out: LeftOut | None = None,
    shift: float = 0.0,
    given: bool = True,
) -> RidgeSolution:
    """Solve for a given penalty or the best of a path; `left_out` returns the errors for criteria in LEFT_OUT.

    A number that was chosen from the data is not `given`.

    For features with K ≈ ZZᵀ + shift I, the shift is added to a given penalty and is the smallest penalty of a path.
    """
    solver, notes = choose_solver(solver, alpha, statistics.n_components)
    if shift:
        notes = (*notes, f"alpha includes the shift of the features, {shift:.3g}: the kernel matrix is ZZᵀ + shift I")
    if isinstance(alpha, numbers.Real):
        alpha = float(alpha) + shift
    if statistics.rounding_noise:
        share = f"as if alpha were {statistics.rounding_noise:.1g} larger"
        notes = (*notes, f"float32 features were rounded to integers for their products, {share}; float64 data are not")
    if isinstance(alpha, numbers.Real) and solver != "eigen":
        if isinstance(solver, str) and not needs_sums(solver):
            solver = "cholesky"  # there are sums after all
        rule = solver if isinstance(solver, RidgeSolver) else SOLVERS[solver]()
        factor: Factor = rule.factor(statistics.operator(fit_intercept), float(alpha))
        if (
            given or statistics.rounding_noise + statistics.float32_error
        ):  # a penalty chosen from the data may be this small without a warning
            warn_of_jitter(factor.report, float(alpha), statistics)
        weights = factor.solve(statistics.right_side(fit_intercept))
        intercept = statistics.intercept(weights, fit_intercept)
        return RidgeSolution(weights, intercept, float(alpha), {}, factor.report.noting(*notes))
    spectrum = statistics.spectrum(fit_intercept)
    if isinstance(alpha, numbers.Real):
        chosen = Penalty(float(alpha), {})
    else:
        if isinstance(alpha, str) and alpha in LEFT_OUT and left_out is None:
            notes = (*notes, f"alpha={alpha!r} needs rows to leave out; after partial_fit or merge evidence chose")
            alpha = "evidence"
        chosen = _choose_penalty(spectrum, alpha, left_out, statistics.n_samples / statistics.weight, shift)
    weights = spectrum.coefficients(chosen.alpha)
    return RidgeSolution(
        weights,
        statistics.intercept(weights, fit_intercept),
        chosen.alpha,
        chosen.path,
        spectrum.factor.at(chosen.alpha).report.noting(*notes),
        float(spectrum.effective_dimension([chosen.alpha])[0]),
    )


def _choose_penalty(
    spectrum: RidgeSpectrum, alpha: str | ArrayLike, left_out: LeftOut | None, rows_per_weight: float, shift: float
) -> Penalty:
    """Return the best penalty of a grid, or of the spectrum's own for a criterion; at least the shift."""
    grid = None if isinstance(alpha, str) else np.ravel(np.asarray(alpha, dtype=float)) + shift
    if grid is None and shift:
        grid = np.maximum(spectrum.grid(), shift)
    criterion: str | Callable[[Array], Array] = alpha if isinstance(alpha, str) else "gcv"
    if left_out is not None:
        variance = spectrum.target_variance * rows_per_weight
        criterion = lambda alphas: (left_out(spectrum, alphas) / variance).mean(axis=1)  # noqa: E731
    best, alphas, values = spectrum.best(criterion, grid)
    path = {"alpha": alphas, "criterion": values, "effective_dimension": spectrum.effective_dimension(alphas)}
    return Penalty(best, path)


def warn_of_jitter(report: Report, alpha: float, statistics: RidgeStatistics) -> None:
    """Warn if more than a tenth of the penalty was added against rounding: the solution is that of another penalty."""
    # the smallest penalty that float64 needs is no reason to warn if no penalty was asked for
    least = 10.0 * float(np.finfo(float).eps) * statistics.trace
    if report.jitter > (0.1 * alpha or least):
        hint = "a larger alpha" if statistics.rounding_noise + statistics.float32_error == 0.0 else "float64 data"
        warn(
            f"alpha={alpha:g} is below the rounding of the sums: {report.jitter:.2g} was added to it "
            f"(report_.jitter). Use {hint} for the answer that alpha asks for.",
            LinAlgWarning,
        )


def effective_dimension_of_sums(statistics: RidgeStatistics, alpha: float, fit_intercept: bool) -> float:
    """Return the trace of G (G + alpha I)⁻¹."""
    G = statistics.operator(fit_intercept).to_dense()
    shifted = G + alpha * np.eye(len(G))
    return float(np.trace(solve(shifted, G, assume_a="pos", overwrite_a=True, overwrite_b=True)))
