"""Iterations that need only products, for many right-hand sides at once: conjugate gradients, LSQR, heavy ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bochner.backends import Array
from bochner.checks import check_count, check_positive
from bochner.ridge.matrices import (
    as_square,
    as_targets,
    check_symmetric,
    exponent_of,
    in_column_units,
    in_units,
    in_units_of,
)
from bochner.ridge.reports import Report, Solution

Product = Callable[[Array], Array]


class IndefiniteError(ValueError):
    """A matrix that should be positive definite has a direction p with pᵀAp < 0."""


def conjugate_gradient(
    matvec: Any,
    b: Any,
    *,
    preconditioner: Any = None,
    x0: Any = None,
    tol: float = 1e-8,
    max_iter: int | None = None,
) -> Solution:
    """Solve A x = b, A symmetric positive definite, by preconditioned conjugate gradients.

    Every column of b has its own coefficients and stops when it has converged; the product with A is shared, so k
    right-hand sides cost one product with k columns in each step.

    Parameters
    ----------
    matvec : callable, array, sparse matrix or operator
        ``matvec(V)`` is A V for V of shape (n, k), or A itself.
    b : array of shape (n,) or (n, k)
    preconditioner : callable, array, sparse matrix, operator or None
        ``preconditioner(R)`` approximates A⁻¹ R, symmetric positive definite; see `nystrom_preconditioner`.
    x0 : array like b, or None
        Where to start; None for zero.
    tol : float
        A column has converged when ‖b - Ax‖ ≤ tol ‖b‖, by the recursively updated residual.
    max_iter : int or None
        None for 10 n.

    Returns
    -------
    Solution
        ``x, report``; ``report.residual`` is the largest relative residual, recomputed at the end. Not converging is
        reported, not raised; a matrix found not to be positive definite is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.linalg import conjugate_gradient
    >>> A = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> x, report = conjugate_gradient(A, np.array([1.0, 2.0]))
    >>> x.round(6).tolist(), report.converged, report.iterations
    ([0.090909, 0.636364], True, 2)
    """
    b = as_targets(b, np.shape(b)[0] if np.ndim(b) else 1)
    B, exponents = in_column_units(b, b.dtype)
    n = len(B)
    product, unit = _as_product(matvec, n, "matvec")
    precondition, _ = _as_product(preconditioner, n, "preconditioner") if preconditioner is not None else (None, 1.0)
    tol = check_positive("tol", tol)
    limit = 10 * n if max_iter is None else check_count("max_iter", max_iter)
    exponents = exponents - exponent_of(unit)
    X = np.zeros_like(B)
    if x0 is not None:
        X = np.ldexp(np.array(as_targets(x0, n, "x0"), B.dtype).reshape(B.shape), -exponents)
    X, steps, notes = _conjugate_gradient(product, precondition, B, X, tol, limit)
    residual = _relative(np.linalg.norm(B - product(X), axis=0), np.linalg.norm(B, axis=0))
    # the recursive residual may be a little below the true one
    report = Report("conjugate gradients", steps, residual <= 10.0 * tol, residual, {}, notes)
    return Solution(in_units_of(X, exponents).reshape(b.shape), report)


def _as_product(A: Any, n: int, name: str) -> tuple[Product, float]:
    """Return V ↦ A V / unit, and the unit; see `in_units`."""
    if callable(A) and not hasattr(A, "__matmul__"):
        return lambda V: _checked(np.asarray(A(V)), V, name), 1.0
    matrix, unit = in_units(as_square(A, name))
    if matrix.shape[0] != n:
        raise ValueError(f"{name} has {matrix.shape[0]} rows, b has {n}.")
    check_symmetric(matrix, name, "Conjugate gradients need a symmetric matrix: use lstsq.")
    return lambda V: np.asarray(matrix @ V), unit


def _checked(product: Array, V: Array, name: str) -> Array:
    if product.shape != V.shape:
        raise ValueError(
            f"{name} must map an array of shape {V.shape} to one of the same shape; it returned {product.shape}."
        )
    if not np.isfinite(product).all():
        raise ValueError(f"{name} returned NaN or infinity.")
    return product


def _relative(sizes: Array, scales: Array) -> float:
    return float((sizes / np.where(scales > 0, scales, 1.0)).max(initial=0.0))


def _conjugate_gradient(
    product: Product, precondition: Product | None, B: Array, X: Array, tol: float, limit: int
) -> tuple[Array, int, tuple[str, ...]]:
    goal = tol * np.linalg.norm(B, axis=0)
    R = B - product(X) if X.any() else B.copy()
    Z = R if precondition is None else precondition(R)
    P, rho = Z.copy(), _dots(R, Z)
    lengths = np.linalg.norm(R, axis=0) * np.linalg.norm(Z, axis=0)
    if (rho < -1e3 * np.finfo(B.dtype).eps * lengths).any():
        raise IndefiniteError("the preconditioner is not positive definite: a residual r has rᵀPr < 0.")
    X, steps, largest = X.copy(), 0, 0.0
    notes: tuple[str, ...] = ()
    going = np.linalg.norm(R, axis=0) > goal
    while going.any() and steps < limit:
        steps += 1
        AP = product(P[:, going])
        curvature, squares = _dots(P[:, going], AP), _dots(P[:, going], P[:, going])
        largest = max(largest, float(np.sqrt(_dots(AP, AP) / np.where(squares > 0, squares, 1.0)).max()))
        # where A vanishes pᵀAp has the sign of rounding, which grows with the largest eigenvalue met
        if (curvature < -1e3 * np.finfo(B.dtype).eps * largest * squares).any():
            raise IndefiniteError(
                "the matrix is not positive definite: a direction p has pᵀAp < 0. "
                "Add a positive multiple of the identity (alpha), or symmetrise it if it was meant to be positive."
            )
        flat = (curvature <= 0) | (rho[going] <= 0)
        if flat.any():
            notes = ("stopped where the matrix is singular to working precision",)
        step = np.where(flat, 0.0, rho[going] / np.where(flat, 1.0, curvature))
        X[:, going] += step * P[:, going]
        R[:, going] -= step * AP
        columns = np.flatnonzero(going)
        going[columns] = (np.linalg.norm(R[:, columns], axis=0) > goal[columns]) & ~flat
        columns = np.flatnonzero(going)
        if not len(columns):
            break
        Z = R[:, columns] if precondition is None else precondition(R[:, columns])
        fresh = _dots(R[:, columns], Z)
        P[:, columns] = Z + (fresh / rho[columns]) * P[:, columns]
        rho[columns] = fresh
    return X, steps, notes


def _dots(A: Array, B: Array) -> Array:
    return np.einsum("ij,ij->j", A, B)


def lsqr(forward: Product, backward: Product, B: Array, tol: Array, limit: int) -> tuple[Array, int]:
    """Solve least squares by Golub-Kahan bidiagonalisation (Paige & Saunders 1982), all columns of B at once.

    A column stops when ‖Aᵀr‖ ≤ tol (one for each column), or at the limit. Returns the solution and the steps.
    """
    U, beta = _unit(B)
    V, alpha = _unit(backward(U))
    W, X = V.copy(), np.zeros_like(V)
    phi, rho = beta.copy(), alpha.copy()
    for step in range(1, limit + 1):
        if (np.abs(phi * rho) <= tol).all():  # = ‖Aᵀr‖
            return X, step - 1
        U, beta = _unit(forward(V) - alpha * U)
        V, alpha = _unit(backward(U) - beta * V)
        r = np.hypot(rho, beta)
        r[r == 0.0] = 1.0
        c, s = rho / r, beta / r
        X += (c * phi / r) * W
        W = V - (s * alpha / r) * W
        phi, rho = s * phi, -c * alpha
    return X, limit


def _unit(A: Array) -> tuple[Array, Array]:
    norms = np.linalg.norm(A, axis=0)
    return A / np.where(norms > 0, norms, 1.0), norms


def heavy_ball(product: Product, C: Array, rho: float, floor: Array, limit: int) -> tuple[Array, int, bool]:
    """Solve G y = c, the eigenvalues of G between (1 ± sqrt(rho))⁻², by Polyak's iteration with its best constants.

    Without the damping (1 - rho)² the iteration diverges for rho above about 1/4; with both it converges like
    sqrt(rho)^k. Returns y, the steps, and whether every column's last step is below its floor.
    """
    damping, momentum = (1.0 - rho) ** 2, rho
    Y, last = damping * C, np.zeros_like(C)
    smallest = np.linalg.norm(Y, axis=0)
    for step in range(1, limit + 1):
        Y, last = Y + damping * (C - product(Y)) + momentum * (Y - last), Y
        size = np.linalg.norm(Y - last, axis=0)
        if (size <= floor).all():
            return Y, step, True
        if not np.isfinite(size).all() or (size > 1e3 * smallest + floor).any():
            return last, step, False
        smallest = np.minimum(smallest, size)
    return Y, limit, False
