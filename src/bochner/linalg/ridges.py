"""Ridge regression on a matrix and on a kernel matrix, through sketches."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bochner.backends import Array
from bochner.checks import check_choice, check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.linalg.least_squares import lstsq, resolved, sketch_rows
from bochner.linalg.reports import largest_ratio, met
from bochner.ridge.krylov import conjugate_gradient
from bochner.ridge.matrices import (
    Matrix,
    MatrixLike,
    Operator,
    as_matrix,
    as_square,
    as_targets,
    check_symmetric,
    exponent_of,
    gram_product,
    in_column_units,
    in_units_of,
    in_units_with,
)
from bochner.ridge.preconditioners import nystrom_preconditioner
from bochner.ridge.reports import Report, Solution
from bochner.sketches import RowSampling, SketchLaw, UniformRows, as_sketch_law

METHODS = ("precondition", "partial_sketch", "full_sketch")


def ridge(
    A: MatrixLike,
    b: ArrayLike,
    alpha: float,
    *,
    method: str = "precondition",
    law: str | SketchLaw | None = None,
    sketch_size: int | None = None,
    rank: int | None = None,
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: Seed = None,
) -> Solution:
    """Solve the ridge regression min ‖A x - b‖² + alpha ‖x‖².

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, d)
    b : array of shape (n,) or (n, k)
    alpha : float
        Not divided by n. 0 is `lstsq`.
    method : {"precondition", "partial_sketch", "full_sketch"}
        - "precondition": conjugate gradients on the smaller of the two normal equations, preconditioned by a
          randomised Nyström approximation; as accurate as `tol` says.
        - "partial_sketch": min ‖S(A x - b)‖² + alpha ‖x‖². Any number m of rows: the relative excess is about
          d_e / m, d_e the effective dimension.
        - "full_sketch": the penalty is sketched too, min ‖S([A; √alpha I] x - [b; 0])‖²; needs m > d + 1. Rows of the
          penalty's part of S have random signs, so that E[SᵀS] = I under every law.
    law, sketch_size : str or SketchLaw or None, int or None
        Of the two sketches only: law (None for "sparse_sign") and number of rows m (None for 20 d or n, whichever is
        less).
    rank, max_iter : int or None
        Of "precondition" only: rank of the preconditioner (None doubles it until it is enough), and limit of conjugate
        gradients.
    tol : float or None
        Of ``report.residual``; None for 1e-10 with "precondition". Sketches do not iterate:
        ``report.converged`` says whether `tol` was met, and is None without one.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Solution
        ``x, report``; ``report.residual`` is ‖Aᵀ(b - Ax) - alpha x‖ / ‖Aᵀb‖, whatever the method; with an alpha of 0,
        or one below the rounding error of AᵀA, the report is that of `lstsq`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import ridge
    >>> rng = np.random.default_rng(0)
    >>> A, b = rng.normal(size=(200, 10)), rng.normal(size=200)
    >>> x, report = ridge(A, b, 2.0, random_state=0)
    >>> bool(np.allclose(x, np.linalg.solve(A.T @ A + 2.0 * np.eye(10), A.T @ b)))
    True
    """
    A = as_matrix(A)
    b = as_targets(b, A.shape[0])
    alpha = check_positive("alpha", alpha, zero=True)
    check_choice("method", method, METHODS)
    key = Key.from_random_state(random_state)
    if tol is not None:
        tol = check_positive("tol", tol)
    _check_options(method, law=law, sketch_size=sketch_size, rank=rank, max_iter=max_iter)
    law = as_sketch_law("sparse_sign" if law is None else law)
    A, alpha, unit = in_units_with(A, alpha, 2)
    if alpha == 0.0:
        kind = "iterative" if method == "precondition" else "sketch"
        x, report = lstsq(A, b, method=kind, law=law, sketch_size=sketch_size, random_state=key)
        return Solution(in_units_of(x, -exponent_of(unit)), report)
    B, exponents = in_column_units(b, A.dtype)
    if method == "precondition":
        X, report = _preconditioned(A, B, alpha, rank, tol, max_iter, key)
    else:
        solve = _partial if method == "partial_sketch" else _full
        X = solve(A, B, alpha, law, _size(A.shape, sketch_size, method), key)
        residual = gradient_residual(A, B, X, alpha)
        report = Report(method.replace("_", " "), 0, met(residual, tol), residual)
    X = in_units_of(X, exponents - exponent_of(unit))
    return Solution(X.reshape(A.shape[1], *b.shape[1:]), report)


def gram_solve(
    A: MatrixLike,
    b: ArrayLike,
    alpha: float,
    *,
    rank: int | None = None,
    tol: float = 1e-10,
    max_iter: int | None = None,
    random_state: Seed = None,
) -> Solution:
    """Solve (AAᵀ + alpha I) x = b without the n × n matrix: x = (b - A w) / alpha, w the ridge regression of b on A.

    With features A = Z this is the kernel solve (ZZᵀ + alpha I)⁻¹ b in the m numbers of w (Woodbury's identity). ZZᵀ
    alone is singular. `bochner.FeatureMatrix` makes Z of rows block by block, so that nothing of n × m numbers is held.

    Parameters
    ----------
    A : array, sparse matrix or operator of shape (n, m)
    b : array of shape (n,) or (n, k)
    alpha : float
        Positive.
    rank, max_iter : int or None
        As in `ridge` with method "precondition", which solves for w.
    tol : float, default=1e-10
        Of ``report.residual``: w is refined from what is left of b until it is met, or gets no better:
        rounding leaves about 1e-16 ‖A‖² / alpha.
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Solution
        ``x, report``; ``report.residual`` is ‖b - (AAᵀ + alpha I) x‖ / ‖b‖, the largest over columns.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, FeatureMatrix, FourierFeatures
    >>> from bochner.linalg import gram_solve
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> features = FourierFeatures(RBF(1.0), 64, random_state=0).fit(X)
    >>> x, report = gram_solve(FeatureMatrix(features, X), X[:, 0], 0.1)
    >>> Z = features.transform(X)
    >>> bool(np.allclose(Z @ (Z.T @ x) + 0.1 * x, X[:, 0]))
    True
    """
    A = as_matrix(A)
    b = as_targets(b, A.shape[0])
    alpha = check_positive("alpha", alpha, advice="AAᵀ alone is singular where A has more rows than columns.")
    tol = max(check_positive("tol", tol), 4.0 * float(np.finfo(A.dtype).eps))
    key = Key.from_random_state(random_state)
    A, alpha, unit = in_units_with(A, alpha, 2)
    B, exponents = in_column_units(b, A.dtype)
    sizes = np.linalg.norm(B, axis=0)
    X, left, residual, iterations = np.zeros_like(B), B, np.inf, 0
    for _ in range(6):  # ridge regressions on what is left of b
        w, inner = ridge(A, left, alpha, rank=rank, max_iter=max_iter, random_state=key)
        tried = X + (left - A @ w) / alpha
        rest = B - A @ (A.T @ tried) - alpha * tried
        found = largest_ratio(np.linalg.norm(rest, axis=0), sizes)
        iterations += inner.iterations
        if found >= residual:
            break
        X, left, residual = tried, rest, found
        if residual <= tol:
            break
    report = Report("Woodbury's identity, " + inner.method, iterations, met(residual, tol), residual, notes=inner.notes)
    X = in_units_of(X, exponents - 2 * exponent_of(unit))
    return Solution(X.reshape(b.shape), report)


def _check_options(method: str, **options: object) -> None:
    """Refuse options that the method would ignore."""
    ours = ("rank", "max_iter") if method == "precondition" else ("law", "sketch_size")
    for name, value in options.items():
        if value is not None and name not in ours:
            others = "method='precondition'" if method != "precondition" else "method='partial_sketch' or 'full_sketch'"
            raise ValueError(f"{name} is not used by method={method!r}; remove it, or use {others}.")


def _size(shape: tuple[int, int], size: int | None, method: str) -> int:
    n, d = shape
    m = min(20 * d, n) if size is None else check_count("sketch_size", size)
    if method == "full_sketch":
        if m <= d + 1 and size is not None:
            raise ValueError(
                f"method='full_sketch' needs sketch_size > {d + 1}, the number of columns plus one, got {m}; "
                "method='partial_sketch' works with any."
            )
        m = max(m, 2 * d + 2) if size is None else m
    return m


def gradient_residual(A: Matrix, B: Array, X: Array, alpha: float) -> float:
    """Return ‖Aᵀ(b - Ax) - alpha x‖ / ‖Aᵀb‖, the largest over columns."""
    left = A.T @ (B - A @ X) - alpha * X
    return largest_ratio(np.linalg.norm(left, axis=0), np.linalg.norm(A.T @ B, axis=0))


def _preconditioned(
    A: Matrix, B: Array, alpha: float, rank: int | None, tol: float | None, max_iter: int | None, key: Key
) -> tuple[Array, Report]:
    n, d = A.shape
    tol = max(1e-10 if tol is None else tol, 4.0 * float(np.finfo(A.dtype).eps))  # not below rounding
    small = A if n >= d else A.T  # (AᵀA + alpha) x = Aᵀb, or x = Aᵀz with (AAᵀ + alpha) z = b
    size = min(n, d)

    def gram(V: Array) -> Array:
        return gram_product(small, V)

    operator = Operator((size, size), gram, gram)
    P = nystrom_preconditioner(operator, alpha, rank, random_state=key)
    z, inner = conjugate_gradient(
        lambda V: gram(V) + alpha * V,
        A.T @ B if n >= d else B,
        preconditioner=P,
        tol=tol,
        max_iter=max_iter,
    )
    X = z if n >= d else A.T @ z
    notes = (f"preconditioner of rank {P.rank}", *P.report.notes, *inner.notes)
    residual = gradient_residual(A, B, X, alpha)
    method = "conjugate gradients, Nyström-preconditioned"
    return X, Report(method, inner.iterations, inner.converged, residual, P.report.estimates, notes)


def _partial(A: Matrix, B: Array, alpha: float, law: SketchLaw, size: int, key: Key) -> Array:
    S = sketch_rows(A, size, law, key)
    U, z, Vt = scipy.linalg.svd(S(A), full_matrices=False, check_finite=False)
    # x = V (z² + alpha)⁻¹ z Uᵀ S b: the penalty is exact, so any number of rows works
    return Vt.T @ (_gains(z, alpha) * (U.T @ S(B)))


def _gains(z: Array, alpha: float) -> Array:
    """Return the column z / (z² + alpha)."""
    wide = z.astype(np.float64)  # a penalty may vanish in float32
    return (wide / (wide * wide + alpha)).astype(z.dtype)[:, None]


def _full(A: Matrix, B: Array, alpha: float, law: SketchLaw, size: int, key: Key) -> Array:
    # S = [S₁ D S₂], two draws of the sketch with n and d columns; the random signs D make E[S₁ᵀDS₂] = 0, and so
    # E[SᵀS] = I, even for sampled rows, whose mean is not zero
    S1 = sketch_rows(A, size, law, key.child("data"))
    identity = np.eye(A.shape[1], dtype=A.dtype)
    # the probabilities of a `RowSampling` are for the rows of A
    S2 = sketch_rows(identity, size, UniformRows() if isinstance(law, RowSampling) else law, key.child("penalty"))
    signs = 2 * key.child("signs").generator().integers(0, 2, (size, 1)) - 1
    M = S1(A) + (alpha**0.5 * signs).astype(A.dtype) * S2(identity)
    return scipy.linalg.lstsq(M, S1(B), check_finite=False)[0]


def sketched_kernel_ridge(
    K: MatrixLike,
    y: ArrayLike,
    alpha: float,
    *,
    side: str = "right",
    law: str | SketchLaw = "sparse_sign",
    sketch_size: int | None = None,
    random_state: Seed = None,
) -> Solution:
    """Solve the kernel ridge regression min ‖K a - y‖² + alpha aᵀKa with a sketch S of m ≪ n rows.

    Parameters
    ----------
    K : array, sparse matrix or operator of shape (n, n), symmetric positive semi-definite
    y : array of shape (n,) or (n, k)
    alpha : float
        Positive, not divided by n.
    side : {"right", "left"}
        - "right" restricts the coefficients to a = Sᵀz: (S K² Sᵀ + alpha S K Sᵀ) z = S K y, solved as the least
          squares problem it comes from, without squaring the condition.
        - "left" sketches the residual, min ‖S(K a - y)‖² + alpha aᵀKa: a = Sᵀ(S K Sᵀ + alpha I)⁻¹ S y.
    law : str or SketchLaw
        The sketch of the coefficients, one of `bochner.sketches`.
    sketch_size : int or None
        None for min(n, max(10, ceil(4 sqrt(n)))).
    random_state : None, int, RandomState, Generator or Key
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Solution
        ``a, report``; predictions are k(x, X) a. ``report.residual`` is ‖K (K a + alpha a - y)‖ / ‖K y‖, the gradient
        of the objective. It is zero if the predictions are exact; a itself may differ in the null space of K.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.linalg import sketched_kernel_ridge
    >>> x = np.linspace(-2.0, 2.0, 300)[:, None]
    >>> K, y = RBF(1.0)(x), np.sin(3.0 * x[:, 0])
    >>> a, report = sketched_kernel_ridge(K, y, 0.01, random_state=0)
    >>> bool(np.abs(K @ a - y).max() < 0.05)
    True
    """
    K = as_square(K, "K")
    n = K.shape[0]
    y = as_targets(y, n, "y")
    alpha = check_positive("alpha", alpha, advice="Without a penalty the sketched problem is not defined.")
    check_choice("side", side, ("right", "left"))
    size = max(10, int(np.ceil(4.0 * np.sqrt(n)))) if sketch_size is None else check_count("sketch_size", sketch_size)
    key, law = Key.from_random_state(random_state), as_sketch_law(law)
    K, alpha, unit = in_units_with(K, alpha, 1)
    alpha = max(alpha, float(np.finfo(np.float64).tiny))
    check_symmetric(K, "K", "It is not a kernel matrix. Check how it was computed.")
    Y, exponents = in_column_units(y, K.dtype)
    S = resolved(law, K, key).sample(n, min(size, n), key)
    St = np.ascontiguousarray(S.to_dense().T.astype(K.dtype))
    C = np.asarray(K @ St)  # (n, m)
    M = St.T @ C
    values, V = scipy.linalg.eigh((M + M.T) / 2.0, check_finite=False)
    size_of = max(abs(values[0]), abs(values[-1]))
    rounding = np.sqrt(np.finfo(K.dtype).eps) * size_of
    if values[0] < -rounding:
        raise ValueError("K is not positive semi-definite, so it is not a kernel matrix. Check how it was computed.")
    values = np.maximum(values, 0.0)
    if side == "left":
        a = St @ (V @ ((V.T @ (St.T @ Y)) / (values + alpha)[:, None]))
    else:
        # min ‖C z - y‖² + alpha zᵀMz with z = V values^(-1/2) u: ridge regression on the features C V values^(-1/2),
        # whose condition the penalty bounds; where M vanishes, so do C z and the penalty
        kept = values > n * np.finfo(K.dtype).eps * size_of
        whiten = V[:, kept] / np.sqrt(values[kept])
        U, s, Wt = scipy.linalg.svd(C @ whiten, full_matrices=False, check_finite=False)
        a = St @ (whiten @ (Wt.T @ (_gains(s, alpha) * (U.T @ Y))))
    left = K @ (K @ a + alpha * a - Y)
    residual = largest_ratio(np.linalg.norm(left, axis=0), np.linalg.norm(K @ Y, axis=0))
    a = in_units_of(a, exponents - exponent_of(unit))
    return Solution(a.reshape(y.shape), Report(f"{side} sketch", 0, None, residual))
