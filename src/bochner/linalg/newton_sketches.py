"""Newton's method with a sketched Hessian (Pilanci & Wainwright 2017) of adaptive size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import ArrayLike

from bochner.backends import Array, is_sparse
from bochner.checks import check_choice, check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.linalg.least_squares import sketch_rows
from bochner.newton.line_search import line_search
from bochner.newton.losses import Loss, as_loss
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_targets,
    column_blocks,
    exponent_of,
    in_units_of,
    in_units_with,
)
from bochner.ridge.reports import Report, Solution
from bochner.sketches import Achlioptas, CountSketch, Gaussian, Rademacher, SketchLaw, as_sketch_law


@dataclass(frozen=True)
class _Objective:
    """f(x) = Σ ℓ(aᵢ·x, yᵢ) + Σ alphaⱼ xⱼ² / 2."""

    loss: Loss
    A: Matrix
    y: Array
    alpha: Array  # (d,)


@dataclass(frozen=True)
class _Point:
    """x and its scores t = A x."""

    f: _Objective
    t: Array
    x: Array

    @cached_property
    def value(self) -> float:
        with np.errstate(over="ignore"):  # infinite values are refused at the start and by the line search
            return float(self.f.loss.value(self.t, self.f.y).sum() + 0.5 * (self.f.alpha * self.x) @ self.x)

    @cached_property
    def gradient(self) -> Array:
        f = self.f
        return np.asarray(f.A.T @ f.loss.slope(self.t, f.y) + f.alpha * self.x)

    def gradient_after(self, step: Array, dt: Array, weights: Array) -> Array:
        """Return the gradient g + Hp after a step p if the objective were quadratic.

        An exact step leaves nothing, and a sketch of m rows about (effective dimension / m) of the squared norm.
        """
        return np.asarray(self.gradient + self.f.A.T @ (weights * dt) + self.f.alpha * step)

    def moved(self, scale: float, dt: Array, step: Array) -> _Point:
        return _Point(self.f, self.t + scale * dt, self.x + scale * step)


def newton_sketch(
    loss: str | Loss,
    A: MatrixLike,
    y: ArrayLike,
    alpha: ArrayLike,
    *,
    law: str | SketchLaw = "count_sketch",
    sketch_size: int | None = None,
    finish: str = "auto",
    tol: float = 1e-8,
    max_iter: int = 100,
    random_state: Seed = None,
) -> Solution:
    """Minimise Σ ℓ(aᵢ·x, yᵢ) + alpha ‖x‖² / 2 by Newton steps whose Hessian BᵀB, B = D^(1/2) A, is sketched.

    The gradient and the penalty are exact, so the limit is the exact minimiser; the sketch decides only how fast it
    is reached. Its number of rows doubles whenever a step leaves more of the gradient than a tenth (of its squared
    norm in the Hessian, checked with one exact Hessian product), as in Lacotte, Wang & Pilanci (2021), and so ends near
    ten times the effective dimension, which need not be known. Changes of the Hessian along the step are left to the
    line search.

    Parameters
    ----------
    loss : {"log_loss", "poisson", "squared_hinge", "huber", "squared"} or Loss
        The loss of one row, by name or as an object.
    A : array, sparse matrix or operator of shape (n, d)
    y : array of shape (n,)
        ±1 or 0/1 for the classification losses, counts for "poisson".
    alpha : float or array of shape (d,)
        Penalty; an array has one for each coefficient, 0 for an intercept. It is scikit-learn's 1 / C.
    law : str or SketchLaw
        Steps are checked and the size adapts, so the default is the cheapest scheme. Schemes that depend on the data
        are resolved on B at every step.
    sketch_size : int or None
        Rows of the first sketch; None for min(d, 256).
    finish : {"auto", "sketch"}
        "auto" takes the exact Hessian as soon as the few steps it needs cost less than the sketched ones that are left;
        "sketch" never does.
    tol : float
        Stop when the norm of the gradient is at most this share of its norm at 0 or, if that is larger, of the norm it
        would have at 0 if the slopes had random signs; so the units of the data make no difference.
    max_iter : int
        At most this many steps.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Solution
        ``x, report``; ``report.residual`` is the norm of the gradient (absolute) and the notes say how many steps were
        sketched, with how many rows at the end, and how many were exact.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import newton_sketch
    >>> rng = np.random.default_rng(0)
    >>> A = rng.normal(size=(500, 4))
    >>> y = (A[:, 0] + rng.logistic(size=500) > 0).astype(float)
    >>> x, report = newton_sketch("log_loss", A, y, 1.0, random_state=0)
    >>> report.converged, bool(x[0] > 0.5)
    (True, True)
    """
    loss, A = as_loss(loss), as_matrix(A)
    n, d = A.shape
    y = as_targets(y, n, "y")
    if y.ndim != 1:
        raise ValueError(f"y must have one dimension, its shape is {y.shape}; fit one model for each column.")
    check_choice("finish", finish, ("auto", "sketch"))
    law, tol, limit = as_sketch_law(law), check_positive("tol", tol), check_count("max_iter", max_iter)
    rows = min(d, 256) if sketch_size is None else check_count("sketch_size", sketch_size)
    A, penalties, unit = in_units_with(A, _penalties(alpha, d), 2)
    f = _Objective(loss, A, loss.targets(y.astype(np.float64)), penalties)
    start = _Point(f, A @ np.zeros(d), np.zeros(d))
    if not np.isfinite(start.value):
        raise ValueError("the objective is infinite at the start: divide y by its scale.")
    x, report = _minimise(start, law, rows, finish == "auto", tol, limit, Key.from_random_state(random_state))
    residual = report.residual * unit
    return Solution(in_units_of(x, -exponent_of(unit)), replace(report, residual=residual))


def _penalties(alpha: ArrayLike, d: int) -> Array:
    penalties = np.asarray(alpha, np.float64)
    if penalties.ndim > 1 or penalties.size not in (1, d) or not np.isfinite(penalties).all() or (penalties < 0).any():
        raise ValueError(f"alpha must be a number >= 0, or one for each of the {d} columns; got {alpha!r}.")
    return np.broadcast_to(penalties, (d,)).copy()


def _minimise(here: _Point, law: SketchLaw, rows: int, may_finish: bool, tol: float, limit: int, key: Key) -> Solution:
    f = here.f
    goal = tol * _gradient_size(f, key.child("signs"))
    sketched = exact = 0
    notes: tuple[str, ...] = ()
    size, use_exact = float(np.linalg.norm(here.gradient)), False
    while size > goal and sketched + exact < limit:
        cost, exact_cost = _costs(f.A, rows, law)
        use_exact = use_exact or rows >= f.A.shape[0] or (may_finish and cost >= exact_cost)
        weights = f.loss.curvature(here.t, f.y)
        B = _hessian_root(f.A, weights, None if use_exact else rows, law, key.child(sketched + exact))
        solve = _solver(B, f.alpha, is_gram=use_exact)
        step = -solve(here.gradient)
        decrement = float(-here.gradient @ step)  # gᵀH⁻¹g, half of which is the predicted decrease
        if not decrement > 0:  # the gradient is orthogonal to the range of the Hessian or its sketch
            if use_exact:
                notes = ("the Hessian is singular here and alpha is 0: the minimum may not exist",)
                break
            rows, sketched = 2 * rows, sketched + 1
            continue
        dt = f.A @ step
        rounding = 1e3 * float(np.finfo(np.float64).eps) * max(1.0, abs(here.value))
        moved, scale, _ = line_search(partial(here.moved, dt=dt, step=step), here, decrement, rounding, 50)
        exact, sketched = exact + use_exact, sketched + (not use_exact)
        left = here.gradient_after(step, dt, weights)
        rate = 0.0 if use_exact else float(left @ solve(left)) / decrement
        if rate > 0.1 or (moved is None and not use_exact):
            rows *= 2
        if moved is None:
            if use_exact or rows >= 64 * f.A.shape[1]:
                notes = ("no step decreases the objective any more: rounding, or a minimum at infinity",)
                break
            continue
        quadratic = scale == 1.0 and here.value - moved.value > 0.25 * decrement
        here = moved
        size = float(np.linalg.norm(here.gradient))
        if may_finish and quadratic and 0.0 < rate < 1.0:
            use_exact = use_exact or _finish_is_cheaper(f.A, rows, law, rate, size / goal)
    notes += _notes(sketched, exact, rows, f.A.shape[0])
    return Solution(here.x, Report("Newton sketch", sketched + exact, bool(size <= goal), size, {}, notes))


def _notes(sketched: int, exact: int, rows: int, n: int) -> tuple[str, ...]:
    """Say how many steps were sketched, with how many rows at the end, and how many were exact."""
    notes: tuple[str, ...] = ()
    if sketched:
        notes += (f"{sketched} sketched steps, the last with at most {min(rows, n)} rows",)
    if exact:
        notes += (f"{exact} steps with the exact Hessian, which was cheaper than a sketch of {rows} rows",)
    return notes


def _gradient_size(f: _Objective, key: Key) -> float:
    """Return the larger norm of Aᵀs, s the slopes at 0, and Aᵀ(±s) with random signs (mean square Σ sᵢ² ‖aᵢ‖²)."""
    s = f.loss.slope(np.zeros(len(f.y)), f.y)
    signs = 2.0 * key.generator().integers(0, 2, len(s)) - 1.0
    return float(np.linalg.norm(f.A.T @ np.column_stack([s, signs * s]), axis=0).max())


def _costs(A: Matrix, rows: int, law: SketchLaw) -> tuple[float, float]:
    """Estimate the cost of a sketched and of an exact step, in multiplications of a dense matrix product.

    Measured: a scattered multiplication costs 4 of those in a dense matrix and 40 in a sparse one, a random number 300,
    and the rest of both kinds of step (scaling the rows, gradient, line search) 30 or 100 for each entry.
    """
    n, d = A.shape
    if is_sparse(A):
        nnz, weight, besides = A.nnz, 40.0, 100.0
        gram = weight * float((np.diff(A.indptr).astype(np.float64) ** 2).sum())
    else:
        nnz, weight, besides, gram = n * d, 4.0, 30.0, n * d**2 / 2.0
    column = min(rows, {Gaussian: rows, Rademacher: rows, Achlioptas: rows / 3, CountSketch: 1}.get(type(law), 8))
    small, large = sorted((rows, d))
    sketch = besides * nnz + column * (weight * nnz + 300.0 * n) + small**2 * large / 2.0 + small**3 / 3.0
    return sketch, besides * nnz + gram + d**3 / 3.0


def _finish_is_cheaper(A: Matrix, rows: int, law: SketchLaw, rate: float, ratio: float) -> bool:
    """Return True if exact steps reduce the gradient by `ratio` at less cost than sketched steps at this rate."""
    digits = 2.0 * np.log10(max(ratio, 1.0))  # digits of the decrement, a squared norm
    sketch, exact = _costs(A, rows, law)
    gained = max(-np.log10(rate), 0.1)
    return bool(exact * (1.0 + np.log2(1.0 + digits / gained)) < sketch * digits / gained)


def _hessian_root(A: Matrix, weights: Array, rows: int | None, law: SketchLaw, key: Key) -> Array:
    """Return the sketch S B of B = D^(1/2) A; or, if `rows` is None, BᵀB itself."""
    root = np.sqrt(weights)
    if isinstance(A, Operator):
        if rows is None:
            return np.hstack([A.T @ (weights[:, None] * block) for block in column_blocks(A)])
        scaled = Operator(A.shape, lambda V: root[:, None] * (A @ V), lambda U: A.T @ (root[:, None] * U))
        return sketch_rows(scaled, rows, law, key)(scaled)
    if is_sparse(A):
        B = scipy.sparse.csr_array(A).copy()
        B.data = B.data * np.repeat(root, np.diff(B.indptr))
    else:
        B = A * root[:, None].astype(A.dtype)
    if rows is not None:
        return np.asarray(sketch_rows(B, rows, law, key)(B), np.float64)
    gram = B.T @ B
    return np.asarray(gram.toarray() if is_sparse(gram) else gram, np.float64)


def _solver(B: Array, alpha: Array, *, is_gram: bool) -> Callable[[Array], Array]:
    """Return g ↦ (BᵀB + diag(alpha))⁻¹ g; with `is_gram`, B is BᵀB already. For a wide B by Woodbury's identity."""
    m, d = B.shape
    if not is_gram and m < d and (alpha > 0).all():
        C = B / alpha
        small = scipy.linalg.cho_factor(np.eye(m) + C @ B.T, check_finite=False)
        return lambda g: g / alpha - C.T @ scipy.linalg.cho_solve(small, C @ g, check_finite=False)
    H = (B if is_gram else B.T @ B) + np.diag(alpha)
    try:
        factor = scipy.linalg.cho_factor(H, check_finite=False)
    except scipy.linalg.LinAlgError:  # singular to working precision: the pseudo-inverse
        values, V = scipy.linalg.eigh(H, check_finite=False)
        kept = values > d * np.finfo(np.float64).eps * max(values[-1], 0.0)
        V, values = V[:, kept], values[kept]
        return lambda g: V @ ((V.T @ g) / values)
    return lambda g: scipy.linalg.cho_solve(factor, g, check_finite=False)
