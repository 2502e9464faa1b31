"""Ridge regression on a matrix and on a kernel matrix, through sketches."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from bochner.backends import Array
from bochner.keys import Key
from bochner.linalg.iterations import conjugate_gradient
from bochner.linalg.least_squares import lstsq, sketch_rows
from bochner.linalg.matrices import Operator, as_matrix, as_square, as_targets, gram_product, unit_of
from bochner.linalg.preconditioners import nystrom_preconditioner
from bochner.linalg.reports import Estimate, Report, Solution
from bochner.sketches import as_sketch_law
from bochner.theory import _arguments as check

METHODS = ("precondition", "partial_sketch", "full_sketch")


def ridge(
    A: Any,
    b: Any,
    alpha: float,
    *,
    method: str = "precondition",
    law: Any = "sparse_sign",
    sketch_size: int | None = None,
    rank: int | None = None,
    tol: float = 1e-10,
    max_iter: int | None = None,
    random_state: Any = None,
) -> Solution:
    """Ridge regression min ‖A x - b‖² + alpha ‖x‖².

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
        - "full_sketch": the penalty is sketched too, min ‖S([A; √alpha I] x - [b; 0])‖²; needs m > d + 1.
    law : str or SketchLaw
    sketch_size : int or None
        Rows m of the sketch. None for 20 d or n, whichever is less.
    rank : int or None
        Of the preconditioner; None doubles it until it is enough.
    tol, max_iter : float, int or None
        Of conjugate gradients.
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Solution
        ``x, report``; ``report.residual`` is ‖Aᵀ(b - Ax) - alpha x‖ / ‖Aᵀb‖, whatever the method.

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
    alpha = check.positive("alpha", alpha, zero=True)
    check.choice("method", method, METHODS)
    key = Key.from_random_state(random_state)
    tol = max(check.positive("tol", tol), 4.0 * float(np.finfo(A.dtype).eps))  # nothing is known beyond rounding
    unit = unit_of(A)
    if unit != 1.0 and np.isfinite(alpha / unit / unit):  # a penalty beyond that leaves nothing to be rounded
        options: dict[str, Any] = {"method": method, "law": law, "sketch_size": sketch_size, "rank": rank}
        options |= {"tol": tol, "max_iter": max_iter, "random_state": key}
        x, report = ridge(A / A.dtype.type(unit), b, alpha / unit / unit, **options)
        return Solution(x / x.dtype.type(unit), report)
    if alpha == 0.0:
        exact = {"partial_sketch": "sketch", "full_sketch": "sketch"}.get(method, "iterative")
        return lstsq(A, b, method=exact, law=law, sketch_size=sketch_size, random_state=key)
    B = b.reshape(len(b), -1).astype(A.dtype, copy=False)
    if method == "precondition":
        X, report = _preconditioned(A, B, alpha, rank, tol, max_iter, key)
    else:
        size = _size(A.shape, sketch_size, method)
        solve = _partial if method == "partial_sketch" else _full
        X, report = solve(A, B, alpha, law, size, key)
    return Solution(X.reshape(A.shape[1], *b.shape[1:]), report)


def _size(shape: tuple[int, int], size: Any, method: str) -> int:
    n, d = shape
    m = min(20 * d, n) if size is None else check.count("sketch_size", size)
    if method == "full_sketch":
        if m <= d + 1 and size is not None:
            raise ValueError(
                f"method='full_sketch' needs sketch_size > {d + 1}, the number of columns plus one, got {m}; "
                "method='partial_sketch' works with any."
            )
        m = max(m, 2 * d + 2) if size is None else m
    return m


def gradient_residual(A: Any, B: Array, X: Array, alpha: float) -> float:
    """‖Aᵀ(b - Ax) - alpha x‖ / ‖Aᵀb‖, the largest over columns."""
    sizes = np.linalg.norm(A.T @ (B - A @ X) - alpha * X, axis=0)
    scales = np.linalg.norm(A.T @ B, axis=0)
    return float((sizes / np.where(scales > 0, scales, 1.0)).max(initial=0.0))


def _preconditioned(
    A: Any, B: Array, alpha: float, rank: int | None, tol: float, max_iter: int | None, key: Key
) -> tuple[Array, Report]:
    n, d = A.shape
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


def _partial(A: Any, B: Array, alpha: float, law: Any, size: int, key: Key) -> tuple[Array, Report]:
    S = sketch_rows(A, size, law, key)
    U, z, Vt = scipy.linalg.svd(S(A), full_matrices=False, check_finite=False)
    # x = V (z² + alpha)⁻¹ z Uᵀ S b: exact in the penalty, so no number of rows is too small
    X = Vt.T @ ((z / (z * z + alpha))[:, None] * (U.T @ S(B)))
    return X, _sketch_report("partial sketch", A, B, X, alpha, z, size)


def _full(A: Any, B: Array, alpha: float, law: Any, size: int, key: Key) -> tuple[Array, Report]:
    # S = [S₁ S₂]: independent columns, so the penalty's part is a second draw of the same law, d columns wide
    law, d = as_sketch_law(law), A.shape[1]
    S = sketch_rows(A, size, law, key.child("data"))
    identity = np.eye(d, dtype=A.dtype)
    S2 = sketch_rows(identity, size, law, key.child("penalty"))
    M = S(A) + alpha**0.5 * S2(identity)
    X, _, _, z = scipy.linalg.lstsq(M, S(B), check_finite=False)
    return X, _sketch_report("full sketch", A, B, X, alpha, np.sqrt(np.maximum(z**2 - alpha, 0.0)), size)


def _sketch_report(name: str, A: Any, B: Array, X: Array, alpha: float, z: Array, size: int) -> Report:
    found = float((z**2 / (z**2 + alpha)).sum())
    # sketching inflates small singular values, so this is no bound; its relative error is about sqrt(d_e / m)
    spread = found * np.sqrt(found / size)
    estimates = {
        "effective_dimension": Estimate(found, spread, max(0.0, found - 3.3 * spread), found + 3.3 * spread, size)
    }
    return Report(name, 0, True, gradient_residual(A, B, X, alpha), estimates)


def sketched_kernel_ridge(
    K: Any,
    y: Any,
    alpha: float,
    *,
    side: str = "right",
    law: Any = "sparse_sign",
    sketch_size: int | None = None,
    random_state: Any = None,
) -> Solution:
    """Kernel ridge regression min ‖K a - y‖² + alpha aᵀKa with a sketch S of m ≪ n rows.

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
    sketch_size : int or None
        None for min(n, max(10, ceil(4 sqrt(n)))).
    random_state : None, int, RandomState, Generator or Key

    Returns
    -------
    Solution
        ``a, report``; predictions are k(x, X) a. ``report.residual`` is ‖K a + alpha a - y‖ / ‖y‖, zero for the exact
        solution.

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
    alpha = check.positive("alpha", alpha, advice="Without a penalty a sketch has nothing to be compared with.")
    check.choice("side", side, ("right", "left"))
    size = max(10, int(np.ceil(4.0 * np.sqrt(n)))) if sketch_size is None else check.count("sketch_size", sketch_size)
    key = Key.from_random_state(random_state)
    Y = y.reshape(n, -1).astype(K.dtype, copy=False)
    law = as_sketch_law(law)
    S = (law if isinstance(K, Operator) else law.resolve(K, key)).sample(n, min(size, n), key)
    St = np.ascontiguousarray(S.to_dense().T.astype(K.dtype))
    C = np.asarray(K @ St)  # (n, m)
    M = St.T @ C
    gap = np.abs(M - M.T).max(initial=0.0)
    values, V = scipy.linalg.eigh((M + M.T) / 2.0, check_finite=False)
    size_of = max(abs(values[0]), abs(values[-1]))
    rounding = np.sqrt(np.finfo(K.dtype).eps) * size_of
    if gap > 10.0 * rounding or values[0] < -rounding:
        raise ValueError("K is not symmetric positive semi-definite: it is no kernel matrix. Check how it was made.")
    values = np.maximum(values, 0.0)
    if side == "left":
        a = St @ (V @ ((V.T @ (St.T @ Y)) / (values + alpha)[:, None]))
    else:
        # min ‖C z - y‖² + alpha zᵀMz with z = V values^(-1/2) u: ridge regression on the features C V values^(-1/2),
        # whose condition the penalty bounds; where M vanishes, so do C z and the penalty
        kept = values > n * np.finfo(K.dtype).eps * size_of
        whiten = V[:, kept] / np.sqrt(values[kept])
        U, s, Wt = scipy.linalg.svd(C @ whiten, full_matrices=False, check_finite=False)
        a = St @ (whiten @ (Wt.T @ ((s / (s * s + alpha))[:, None] * (U.T @ Y))))
    left = np.linalg.norm(K @ a + alpha * a - Y, axis=0)
    scale = np.linalg.norm(Y, axis=0)
    residual = float((left / np.where(scale > 0, scale, 1.0)).max(initial=0.0))
    found = float((values / (values + alpha)).sum())
    estimates = {"effective_dimension": Estimate(found, 0.0, 0.0, float(n), size)}
    return Solution(a.reshape(y.shape), Report(f"{side} sketch", 0, True, residual, estimates))
