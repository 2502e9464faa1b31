"""Tall least squares through a sketch: solved in it, or preconditioned by it down to machine precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bochner.backends import Array, DType, is_sparse
from bochner.checks import check_choice, check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.linalg.reports import largest_ratio
from bochner.ridge.krylov import heavy_ball, lsqr
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_targets,
    column_blocks,
    dense,
    exponent_of,
    gram_product,
    in_column_units,
    in_units,
    in_units_of,
    residual_product,
)
from bochner.ridge.preconditioners import gaussian
from bochner.ridge.reports import CONFIDENCE, DELTA, Estimate, Report, Solution
from bochner.sketches import Gaussian, SketchLaw, SparseSign, as_sketch_law

METHODS = ("iterative", "precondition", "sketch")
SKETCH_AND_SOLVE = "sketch and solve"
MISSED = "the sketch missed directions of A and was replaced by a sparse-sign sketch"
_PASSES = 5  # most refinement passes; two make the methods backward stable


@dataclass(frozen=True)
class _Whitening:
    """N = V / s from S A = U diag(s) Vᵀ, so that A N is nearly orthonormal; singular values at rounding are cut.

    `rho` is d / rows of the sketch: the squared singular values of A N are near (1 ± sqrt(rho))⁻². `stretch` bounds how
    much the sketch changes lengths in the range of A, with confidence; None where no bound is known.
    """

    N: Array  # (d, rank)
    s: Array  # (rank,)
    rho: float
    x0: Array  # the solution of the sketched problem, (d, k)
    stretch: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()

    @property
    def condition(self) -> float:
        return float(self.s[0] / self.s[-1]) if len(self.s) else 1.0


def resolved(law: SketchLaw, A: Matrix, key: Key) -> SketchLaw:
    """Return the scheme with what it needs to know of the rows of A, or an error if A is an operator."""
    if not isinstance(A, Operator):
        return law.resolve(A, key)
    if type(law).resolve is not SketchLaw.resolve:
        raise ValueError(f"{law!r} needs the entries of the matrix, which an operator does not give; use another law.")
    return law


def sketch_rows(A: Matrix, size: int, law: SketchLaw, key: Key) -> Callable[[Matrix], Array]:
    """Draw S for the rows of A and return the map B ↦ S B, for A itself and for arrays with as many rows."""
    S = resolved(law, A, key).sample(A.shape[0], size, key)

    def product(B: Matrix) -> Array:
        if isinstance(B, Operator):
            return np.hstack([S @ block for block in column_blocks(B)])
        if is_sparse(B) and not law.accepts_sparse:
            raise ValueError(f"{law!r} needs dense data; use law='sparse_sign' for a sparse matrix.")
        return S @ B

    return product


def lstsq(
    A: MatrixLike,
    b: ArrayLike,
    *,
    method: str = "iterative",
    law: str | SketchLaw = "sparse_sign",
    sketch_size: int | None = None,
    tol: float | None = None,
    max_iter: int = 100,
    random_state: Seed = None,
) -> Solution:
    """Solve the least squares problem min ‖A x - b‖ for tall A, through a sketch S A with far fewer rows.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, d)
        Meant for n ≫ d. For n < d, and for a rank below d, the solution of minimum norm.
    b : array of shape (n,) or (n, k)
    method : {"iterative", "precondition", "sketch"}
        - "iterative": iterative sketching with momentum and refinement (FOSSILS; Epperly, Meier & Nakatsukasa 2024);
          backward stable.
        - "precondition": LSQR with the sketch's singular vectors as preconditioner (Blendenpik, LSRN), restarted once,
          which makes it backward stable too. Needs no knowledge of how good the sketch is.
        - "sketch": sketch and solve: min ‖S(A x - b)‖, one pass, and another for the report. For a Gaussian sketch of m
          rows its expected excess, relative to the optimum, is d / (m - d - 1) exactly.
    law : str or SketchLaw
        See `bochner.sketches`.
    sketch_size : int or None
        Rows m of the sketch. None for 20 d ("sketch") or 12 d, where A is that tall.
    tol : float or None
        Accuracy of A x wanted, relative to ‖b‖; None for machine precision. The method "sketch" does
        not iterate: ``report.converged`` says whether `tol` was met, and is None without one.
    max_iter : int
        Limit of iterations in each of the refinement passes.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Solution
        ``x, report``; ``lstsq(A, b)[0]`` is x, as in NumPy, and ``[1]`` is the report. ``report.residual`` is the
        backward error: the smallest ‖ΔA‖_F / ‖A‖_F for which x solves the problem with A + ΔA exactly (Karlson &
        Waldén's estimate with the sketch's singular values). ``report.estimates`` has the "condition" of A and, for
        "sketch", the "excess" ‖A(x - x*)‖² / ‖Ax* - b‖², the largest over right-hand sides.

    Notes
    -----
    Both estimates are measured: the condition is that of S A, and the excess that of the exact residual b - Ax, whose
    part in the range of A is measured with S A. How far S A may be from A is a theorem for a Gaussian sketch, whatever
    the matrix (Davidson & Szarek 2001), so that with ``law="gaussian"`` both have intervals. Under any other law a
    few heavy rows may be missed, or meet in one row of the sketch, so that no useful interval holds for every matrix,
    and `low` and `high` are infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import lstsq
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.normal(size=(2000, 5)), rng.normal(size=2000)
    >>> x, report = lstsq(A, b, random_state=0)
    >>> bool(np.allclose(x, np.linalg.lstsq(A, b)[0], rtol=1e-10)), report.converged
    (True, True)
    """
    A = as_matrix(A)
    b = as_targets(b, A.shape[0])
    check_choice("method", method, METHODS)
    law, limit = as_sketch_law(law), check_count("max_iter", max_iter)
    if tol is not None:
        tol = check_positive("tol", tol)
    A, unit = in_units(A)
    key = Key.from_random_state(random_state)
    B, exponents = in_column_units(b, A.dtype)
    X, report = _solved(A, B, method, law, sketch_size, tol, limit, key)
    X = in_units_of(X, exponents - exponent_of(unit))
    return Solution(X.reshape(A.shape[1], *b.shape[1:]), report)


def _solved(
    A: Matrix, B: Array, method: str, law: SketchLaw, sketch_size: int | None, tol: float | None, limit: int, key: Key
) -> tuple[Array, Report]:
    if A.shape[0] < A.shape[1]:
        if method == "sketch":
            raise ValueError(
                f"method='sketch' needs more rows than columns, A is {A.shape[0]} × {A.shape[1]}; "
                "use method='precondition'."
            )
        return _wide(A, B, law, sketch_size, tol, limit, key)
    white = _whiten(A, B, law, _size(A.shape, sketch_size, method), key)
    notes: tuple[str, ...] = ()
    if method == "sketch":
        X, steps, name = white.x0, 0, SKETCH_AND_SOLVE
        state = _State.of(A, B, X, white, tol)
    elif method == "precondition":
        X, state, steps = _preconditioned(A, B, white, tol, limit)
        name = "LSQR, sketch-preconditioned"
    else:
        X, state, steps, notes, name = _iterative(A, B, white, tol, limit)
    return X, _report(A, B, X, state, white, name, steps, tol, notes)


def _size(shape: tuple[int, int], size: int | None, method: str) -> int:
    n, d = shape
    if size is not None:
        size = check_count("sketch_size", size)
        if size < d:
            raise ValueError(
                f"sketch_size must be at least the number of columns, {d}, got {size}; "
                "ridge(method='partial_sketch') works with fewer rows."
            )
        return min(size, n)
    wanted = (20 if method == "sketch" else 12) * d
    return wanted if 2 * wanted <= n else n


def _whiten(A: Matrix, B: Array, law: SketchLaw, size: int, key: Key) -> _Whitening:
    n, d = A.shape
    if size < n:
        S = sketch_rows(A, size, law, key)
        SA, SB, rho, stretch = S(A), S(B), d / size, _stretch(law, size, d)
    else:  # the preconditioner is exact and one step is enough
        SA, SB, rho, stretch = dense(A), B, 0.0, (1.0, 1.0)
    # the triangle of [SA, SB] contains Qᵀ S B, so Q is never formed
    R = scipy.linalg.qr(np.hstack([SA, SB]), mode="r", check_finite=False)[0][: d + SB.shape[1]]
    U, s, Vt = _svd(np.ascontiguousarray(R[:d, :d]))
    kept = s > np.finfo(SA.dtype).eps * max(d, 16) * s.max(initial=0.0)
    N = Vt[kept].T / s[kept]
    white = _Whitening(N, s[kept], rho, N @ (U[:, kept].T @ R[:d, d:]), stretch)
    if size < n and not kept.all():
        # A must map to zero all directions that the sketch maps to zero
        directions = Vt[~kept].T @ gaussian((int((~kept).sum()), 2), SA, key.child("unseen"))
        missed = np.linalg.norm(A @ directions, axis=0) / np.linalg.norm(directions, axis=0)
        if (missed > 1e3 * max(d, 16) * np.finfo(SA.dtype).eps * s[0]).any():
            size = 12 * d if 24 * d <= n and law != SparseSign() else n
            return replace(_whiten(A, B, SparseSign(), size, key.child("again")), notes=(MISSED,))
    return white


def _stretch(law: SketchLaw, size: int, d: int) -> tuple[float, float] | None:
    """Bound the singular values of S Q for every Q with d orthonormal columns (Davidson & Szarek); None if unknown."""
    if not isinstance(law, Gaussian):
        return None
    width = (d / size) ** 0.5 + (2.0 * np.log(2.0 / DELTA) / size) ** 0.5
    return max(0.0, 1.0 - width), 1.0 + width


def _svd(R: Array) -> tuple[Array, Array, Array]:
    try:
        return scipy.linalg.svd(R, full_matrices=False, check_finite=False)
    except scipy.linalg.LinAlgError:  # the fast driver may fail to converge; the slow one does not
        return scipy.linalg.svd(R, full_matrices=False, check_finite=False, lapack_driver="gesvd")


@dataclass(frozen=True)
class _State:
    """The state of a solution: residual, c = NᵀAᵀr (about the error of A x) and backward error, column by column."""

    residual: Array
    c: Array
    backward: Array
    floor: Array  # steps that change A x by less than this are not taken

    @classmethod
    def of(cls, A: Matrix, B: Array, X: Array, white: _Whitening, tol: float | None) -> _State:
        residual, gradient = residual_product(A, X, B)
        c = white.N.T @ gradient
        s = white.s[:, None]
        x_norms = np.linalg.norm(X, axis=0)
        scale = np.where(x_norms > 0, x_norms, 1.0)
        # Karlson & Waldén: ‖(AᵀA + (‖r‖/‖x‖)² I)^(-1/2) Aᵀr‖ / ‖x‖, in the basis of the sketch
        damped = c * (s / np.sqrt(s**2 + (np.linalg.norm(residual, axis=0) / scale) ** 2))
        size = max(float(np.linalg.norm(s)), np.finfo(A.dtype).tiny)
        backward = np.linalg.norm(damped, axis=0) / scale / size
        eps = np.finfo(A.dtype).eps
        floor = eps * size * x_norms if tol is None else tol * np.linalg.norm(B, axis=0)
        # one pass gains only as many digits as rounding allows; the next pass gains as many again
        floor = np.maximum(floor, 10.0 * eps * white.condition * np.linalg.norm(c, axis=0))
        return cls(residual, c, backward, floor)

    def improved(self, other: _State, better: Array) -> _State:
        """Return this state, with the other's columns where they are better."""
        return _State(*(np.where(better, b, a) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def _refined(
    A: Matrix, B: Array, white: _Whitening, tol: float | None, solve: Callable[[_State], tuple[Array, int]]
) -> tuple[Array, _State, int]:
    """Improve the sketched solution by whitened corrections y(state) until the backward error is at rounding.

    The second pass is what makes these methods backward stable; more are needed only for very large conditions.
    """
    X = best = white.x0
    state = found = _State.of(A, B, X, white, tol)
    steps = 0
    for _ in range(_PASSES):
        Y, used = solve(state)
        X, steps = X + white.N @ Y, steps + used
        state = _State.of(A, B, X, white, tol)
        better = state.backward <= found.backward
        best, found = np.where(better, X, best), found.improved(state, better)
        if tol is None:
            done = found.backward <= 0.5 * np.finfo(A.dtype).eps
        else:
            done = np.linalg.norm(state.c, axis=0) <= tol * np.linalg.norm(B, axis=0)
        if done.all():
            break
    return best, found, steps


def _iterative(
    A: Matrix, B: Array, white: _Whitening, tol: float | None, limit: int
) -> tuple[Array, _State, int, tuple[str, ...], str]:
    N = white.N

    def correction(state: _State) -> tuple[Array, int]:
        Y, used, settled = heavy_ball(lambda V: N.T @ gram_product(A, N @ V), state.c, white.rho, state.floor, limit)
        if not settled and used < limit:
            raise _DivergedError(used)
        return Y, used

    try:
        X, state, steps = _refined(A, B, white, tol, correction)
    except _DivergedError as stop:
        X, state, steps = _preconditioned(A, B, white, tol, limit)
        note = "the sketch does not embed the range of A (a weak law, or too few rows): LSQR took over"
        return X, state, stop.steps + steps, (note,), "LSQR, sketch-preconditioned"
    return X, state, steps, (), "iterative sketching with momentum"


class _DivergedError(Exception):
    def __init__(self, steps: int) -> None:
        self.steps = steps


def _preconditioned(A: Matrix, B: Array, white: _Whitening, tol: float | None, limit: int) -> tuple[Array, _State, int]:
    N = white.N
    return _refined(
        A,
        B,
        white,
        tol,
        lambda state: lsqr(lambda V: A @ (N @ V), lambda U: N.T @ (A.T @ U), state.residual, state.floor, limit),
    )


def _wide(
    A: Matrix, B: Array, law: SketchLaw, size: int | None, tol: float | None, limit: int, key: Key
) -> tuple[Array, Report]:
    """Find the solution of minimum norm for n < d: LSQR on Mᵀ A x = Mᵀ b, M = U / s from A Sᵀ = U diag(s) Vᵀ (LSRN)."""
    white = _whiten(A.T, np.zeros((A.shape[1], 0), A.dtype), law, _size(A.shape[::-1], size, "precondition"), key)
    M, steps = white.N, 0
    X = np.zeros((A.shape[1], B.shape[1]), A.dtype)
    eps = np.finfo(A.dtype).eps if tol is None else tol
    target = np.linalg.norm(M.T @ B, axis=0)
    for _ in range(_PASSES):
        R = M.T @ (B - A @ X)  # the part of the residual that A can reach, whitened
        left = np.linalg.norm(R, axis=0)
        if (left <= 10.0 * eps * target).all():
            break
        Y, used = lsqr(lambda V: M.T @ (A @ V), lambda U: A.T @ (M @ U), R, eps * left, limit)
        X, steps = X + Y, steps + used
    residual = largest_ratio(np.linalg.norm(M.T @ (B - A @ X), axis=0), target)
    done = residual <= (100.0 * eps * white.condition if tol is None else 10.0 * tol)
    name = "LSQR, sketch-preconditioned, minimum norm"
    return X, Report(name, steps, bool(done), residual, {}, _rank_note(A, white))


def _report(
    A: Matrix,
    B: Array,
    X: Array,
    state: _State,
    white: _Whitening,
    name: str,
    steps: int,
    tol: float | None,
    notes: tuple[str, ...],
) -> Report:
    estimates = {"condition": _condition(white, A.dtype)}
    eps = np.finfo(A.dtype).eps
    if name == SKETCH_AND_SOLVE:
        sizes = np.linalg.norm(white.s) * np.linalg.norm(X, axis=0) + np.linalg.norm(B, axis=0)
        estimates["excess"] = _excess(state, white, 10.0 * eps * sizes)
    backward = float(state.backward.max(initial=0.0))
    if tol is None:
        done = backward <= float(100.0 * eps)
    else:
        done = bool((np.linalg.norm(state.c, axis=0) <= 10.0 * tol * np.linalg.norm(B, axis=0)).all())
    converged = None if name == SKETCH_AND_SOLVE and tol is None else done
    return Report(name, steps, converged, backward, estimates, (*notes, *_rank_note(A, white)))


def _condition(white: _Whitening, dtype: DType) -> Estimate:
    """Estimate the condition of A by that of S A, whose singular values differ by factors within the stretch."""
    if white.stretch is None or not len(white.s):
        return Estimate.without_interval(white.condition)
    (least, most), largest, smallest = white.stretch, float(white.s[0]), float(white.s[-1])
    rounding = float(np.finfo(dtype).eps) * max(len(white.N), 16) * largest
    low = largest / (smallest + rounding) * least / most
    high = largest * most / ((smallest - rounding) * least) if smallest > rounding and least > 0.0 else np.inf
    return Estimate(white.condition, 0.0, max(1.0, low), high, 0, 1.0 if least == most else CONFIDENCE)


def _excess(state: _State, white: _Whitening, rounding: Array) -> Estimate:
    """Estimate ‖A(x - x*)‖² / ‖Ax* - b‖²: the sketch measures the part of the residual in the range of A."""
    total, inside = (np.linalg.norm(part, axis=0).astype(np.float64) ** 2 for part in (state.residual, state.c))
    inside[inside <= rounding**2] = 0.0  # a system without a residual has no excess

    def ratio(factor: float) -> float:
        outside = total - factor**2 * inside
        ratios = factor**2 * inside / np.where(outside > 0.0, outside, 1.0)
        return float(np.where(inside == 0.0, 0.0, np.where(outside > 0.0, ratios, np.inf)).max(initial=0.0))

    if white.stretch is None:
        return Estimate.without_interval(ratio(1.0))
    least, most = white.stretch
    return Estimate(ratio(1.0), 0.0, ratio(least), ratio(most), 0, 1.0 if least == most else CONFIDENCE)


def _rank_note(A: Matrix, white: _Whitening) -> tuple[str, ...]:
    rank, full = len(white.s), min(A.shape)
    note = f"A has numerical rank {rank} of {full}: this is the solution of minimum norm"
    return (*white.notes, note) if rank < full else white.notes
