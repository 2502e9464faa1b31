"""Exact kernel ridge regression on a few thousand rows, with the error of leaving each row out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import get_lapack_funcs

from bochner.backends import Array

LEAST_WEIGHT = 1e-12  # of a mean of one; rows that weigh less count as if they had this weight


@dataclass(frozen=True)
class ExactRidge:
    """f(x) = Σ_j k(x, x_j) c_j + intercept, which minimises Σ w_i (f(x_i) - y_i)² + alpha ‖f - intercept‖².

    Attributes
    ----------
    coefficients : ndarray of shape (n, k)
    intercept : ndarray of shape (k,)
    left_out : ndarray of shape (n, k)
        y_i minus what a model without row i predicts there: exactly, without fitting one.
    inverse : ndarray of shape (n, n) or None
        B with c = B y, the inverse of K + alpha W⁻¹ on vectors that sum to zero, where it was asked for.
    weight : ndarray of shape (n,) or None
    """

    coefficients: Array
    intercept: Array
    left_out: Array
    inverse: Array | None = None
    weight: Array | None = None

    @property
    def error(self) -> float:
        """The mean square of the errors of rows left out."""
        return float(np.average(np.square(self.left_out).mean(axis=1), weights=self.weight))


def exact_ridge(
    K: Array, Y: Array, alpha: float, weight: Array | None = None, *, with_inverse: bool = False
) -> ExactRidge:
    """Solve with the kernel matrix K (n, n), in its float type and overwritten, targets Y (n, k) and weights (n,) of mean one.

    With the intercept b, c = A⁻¹(y - b 1) sums to zero, A = K + alpha W⁻¹; so c = B y with
    B = A⁻¹ - A⁻¹1 1ᵀA⁻¹ / 1ᵀA⁻¹1, and leaving row i out changes y_i - f(x_i) to c_i / B_ii.
    """
    n = len(K)
    A = K.T if K.dtype == np.float32 else np.asarray(K, dtype=np.float64).T  # the order that LAPACK overwrites
    A[np.diag_indices(n)] += alpha if weight is None else alpha / np.maximum(weight, LEAST_WEIGHT)
    potrf, potrs, potri, trtri = get_lapack_funcs(("potrf", "potrs", "potri", "trtri"), (A,))
    L, failed = potrf(A, lower=1, clean=not with_inverse, overwrite_a=1)
    if failed:
        raise ValueError(
            f"the kernel matrix plus alpha = {alpha:.3g} is not positive definite up to rounding; raise alpha."
        )
    solved = potrs(L, np.column_stack([np.ones(n), Y]), lower=1)[0].astype(np.float64)
    ones, C = solved[:, 0], solved[:, 1:]
    total = float(ones.sum())
    intercept = C.sum(axis=0) / total
    C -= np.outer(ones, intercept)
    B = None
    if with_inverse:
        inverse = potri(L, lower=1, overwrite_c=1)[0]
        B = np.tril(inverse, -1).T  # of the triangle that LAPACK fills
        B += np.tril(inverse)
        B -= np.outer(ones, ones / total).astype(B.dtype)
        diagonal = B.diagonal().astype(np.float64)
    else:
        inverse = trtri(L, lower=1, overwrite_c=1)[0]  # A⁻¹ = L⁻ᵀL⁻¹
        diagonal = np.einsum("ki,ki->i", inverse, inverse) - ones * ones / total
    return ExactRidge(C, intercept, C / np.maximum(diagonal, np.finfo(float).tiny)[:, None], B, weight)
