"""Exact kernel ridge regression on a few thousand rows, with leave-one-out errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array, backend_of
from bochner.backends.native import without_subnormals
from bochner.backends.tiled import add_outer, mirrored

LEAST_WEIGHT = 1e-12  # least weight, relative to the mean: smaller ones count as this


@dataclass(frozen=True)
class ExactRidge:
    """f(x) = Σ_j k(x, x_j) c_j + intercept, which minimises Σ w_i (f(x_i) - y_i)² + alpha ‖f - intercept‖².

    Attributes
    ----------
    coefficients : array of shape (n, k)
        In host memory or on a device, like the kernel matrix; so are the other arrays but `weight`.
    intercept : array of shape (k,)
    left_out : array of shape (n, k), or (n_left_out, k)
        y_i minus the prediction of a model fitted without row i; exact, though no such model is fitted.
    diagonal : array of shape (n,), or (n_left_out,)
        The diagonal of B with c = B y, the inverse of A = K + alpha W⁻¹ on vectors that sum to zero.
    log_determinant : float
        log |A| + log 1ᵀA⁻¹1; the second term is due to the intercept.
    inverse : array of shape (n, n) or None
        B, if it was asked for.
    weight : ndarray of shape (n,) or None
    """

    coefficients: Array
    intercept: Array
    left_out: Array
    diagonal: Array
    log_determinant: float
    inverse: Array | None = None
    weight: Array | None = None

    @property
    def error(self) -> float:
        """Return the leave-one-out mean squared error."""
        squares = backend_of(self.left_out).fetch((self.left_out**2).mean(axis=1))
        return float(np.average(squares, weights=self.weight))


def _factored(K: Array, alpha: float, weight: Array | None) -> Array:
    """Return the Cholesky factor of K + alpha W⁻¹, which overwrites K."""
    backend = backend_of(K)
    if isinstance(K, np.ndarray):
        least = np.finfo(K.dtype).tiny ** 0.5
        if K.min(initial=1.0) < least:  # far below rounding, and products of such numbers are slow
            K[np.abs(K) < least] = 0.0
    if weight is not None:
        everywhere = np.arange(len(K))
        K[everywhere, everywhere] += backend.place(alpha / np.maximum(weight, LEAST_WEIGHT), K)
    L = backend.cholesky(K.T, alpha if weight is None else 0.0)  # K is symmetric, and LAPACK overwrites column order
    if L is None:
        raise ValueError(
            f"the kernel matrix plus alpha = {alpha:.3g} is not positive definite up to rounding; raise alpha."
        )
    return L


@without_subnormals()
def exact_ridge(
    K: Array,
    Y: Array,
    alpha: float,
    weight: Array | None = None,
    *,
    with_inverse: bool = False,
    n_left_out: int | None = None,
) -> ExactRidge:
    """Solve with the kernel matrix K (n, n), which is overwritten, targets Y (n, k) and weights (n,) of mean one.

    Computed in the float type of K; float32 is for penalties that are large compared with its rounding errors. Y and
    the weights are NumPy arrays, even if K is on a device. With `n_left_out`, only that many rows, the last ones, are
    left out one by one: the last columns of L⁻¹ are the inverse of L's last corner, and (A⁻¹)_ii sums their squares.

    With the intercept b, c = A⁻¹(y - b 1) sums to zero, A = K + alpha W⁻¹; so c = B y with
    B = A⁻¹ - A⁻¹1 1ᵀA⁻¹ / 1ᵀA⁻¹1, and leaving row i out changes y_i - f(x_i) to c_i / B_ii.
    """
    backend, L = backend_of(K), _factored(K, alpha, weight)
    level = np.median(Y, axis=0)  # solutions are rounded relative to their right sides
    right = backend.place(np.column_stack([np.ones(len(K)), Y - level]), K)
    log_determinant = 2.0 * float(backend.xp.log(L.diagonal()).sum())
    inverse, first = None, 0 if n_left_out is None else len(K) - n_left_out
    if not isinstance(L, np.ndarray) and not first:  # on a device, products are faster than solutions
        M = backend.triangular_inverse(L)
        solved, diagonal = M.T @ (M @ right), (M * M).sum(0)
        inverse = M.T @ M if with_inverse else None
    else:
        solved = backend.cholesky_solve(L, right)
        if with_inverse:
            inverse = backend.cholesky_inverse(L)
            diagonal = inverse.diagonal()[first:]
        else:  # diag(A⁻¹) from A⁻¹ = L⁻ᵀL⁻¹ takes a third less time
            M = backend.triangular_inverse(L[first:, first:])
            diagonal = np.einsum("ki,ki->i", M, M) if isinstance(M, np.ndarray) else (M * M).sum(0)
    ones, C = solved[:, 0], solved[:, 1:]
    total = ones.sum()
    log_determinant += float(np.log(float(total)))
    intercept = C.sum(axis=0) / total
    C = C - ones[:, None] * intercept
    intercept = intercept + (level if isinstance(K, np.ndarray) else backend.place(level, K))
    diagonal = diagonal - ones[first:] * ones[first:] / total
    diagonal = diagonal.clip(np.finfo(np.float32).tiny)
    B = None
    if inverse is not None:
        if isinstance(inverse, np.ndarray):
            B = mirrored(inverse).T  # row after row
            add_outer(B, ones[:, None], ones[:, None] / -total)
        else:
            B = inverse
            B -= ones[:, None] * (ones / total)
    return ExactRidge(C, intercept, C[first:] / diagonal[:, None], diagonal, log_determinant, B, weight)
