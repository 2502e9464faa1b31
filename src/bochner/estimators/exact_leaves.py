"""Exact kernel ridge regression on a few thousand rows, with the error of leaving each row out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs

from bochner.backends import Array, backend_of

LEAST_WEIGHT = 1e-12  # of a mean of one; rows that weigh less count as if they had this weight


@dataclass(frozen=True)
class ExactRidge:
    """f(x) = Σ_j k(x, x_j) c_j + intercept, which minimises Σ w_i (f(x_i) - y_i)² + alpha ‖f - intercept‖².

    Attributes
    ----------
    coefficients : array of shape (n, k)
        Where the kernel matrix was, as everything here: in host memory, or on a device.
    intercept : array of shape (k,)
    left_out : array of shape (n, k)
        y_i minus what a model without row i predicts there: exactly, without fitting one.
    diagonal : array of shape (n,)
        Of B with c = B y, the inverse of A = K + alpha W⁻¹ on vectors that sum to zero.
    log_determinant : float
        Of A, and of 1ᵀA⁻¹1, which an intercept costs.
    inverse : array of shape (n, n) or None
        B, where it was asked for.
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
        """The mean square of the errors of rows left out."""
        squares = backend_of(self.left_out).fetch((self.left_out**2).mean(axis=1))
        return float(np.average(squares, weights=self.weight))


def exact_ridge(
    K: Array, Y: Array, alpha: float, weight: Array | None = None, *, with_inverse: bool = False
) -> ExactRidge:
    """Solve with the kernel matrix K (n, n), which is overwritten, targets Y (n, k) and weights (n,) of mean one.

    In the float type of K: float32 is for penalties that are large beside its rounding. Y and the weights are NumPy
    arrays, wherever K is.

    With the intercept b, c = A⁻¹(y - b 1) sums to zero, A = K + alpha W⁻¹; so c = B y with
    B = A⁻¹ - A⁻¹1 1ᵀA⁻¹ / 1ᵀA⁻¹1, and leaving row i out changes y_i - f(x_i) to c_i / B_ii.
    """
    backend = backend_of(K)
    if weight is not None:
        everywhere = np.arange(len(K))
        K[everywhere, everywhere] += backend.place(alpha / np.maximum(weight, LEAST_WEIGHT), K)
    L = backend.cholesky(K.T, alpha if weight is None else 0.0)  # symmetric, and in the order that LAPACK overwrites
    if L is None:
        raise ValueError(
            f"the kernel matrix plus alpha = {alpha:.3g} is not positive definite up to rounding; raise alpha."
        )
    solved = backend.cholesky_solve(L, backend.place(np.column_stack([np.ones(len(K)), Y]), K))
    ones, C = solved[:, 0], solved[:, 1:]
    total, pivots = ones.sum(), L.diagonal()
    log_determinant = 2.0 * float(backend.xp.log(pivots).sum()) + float(np.log(float(total)))
    intercept = C.sum(axis=0) / total
    C = C - ones[:, None] * intercept
    if with_inverse or not isinstance(L, np.ndarray):
        inverse = backend.cholesky_inverse(L)
        diagonal = inverse.diagonal() - ones * ones / total
    else:  # diag(A⁻¹) from A⁻¹ = L⁻ᵀL⁻¹ saves a third
        inverse = get_lapack_funcs("trtri", (L,))(L, lower=1, overwrite_c=1)[0]
        diagonal = np.einsum("ki,ki->i", inverse, inverse) - ones * ones / total
    diagonal = diagonal.clip(np.finfo(np.float32).tiny)
    B = None
    if with_inverse:
        xp = backend.xp
        B = xp.tril(inverse)
        B += xp.tril(inverse, -1).T
        B -= ones[:, None] * (ones / total)
    return ExactRidge(C, intercept, C / diagonal[:, None], diagonal, log_determinant, B, weight)
