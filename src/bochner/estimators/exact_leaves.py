"""Exact kernel ridge regression on a few thousand rows, with the error of leaving each row out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs

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
    """Solve with the kernel matrix K (n, n), which is overwritten, targets Y (n, k) and weights (n,) of mean one.

    With the intercept b, c = A⁻¹(y - b 1) sums to zero, A = K + alpha W⁻¹; so c = B y with
    B = A⁻¹ - A⁻¹1 1ᵀA⁻¹ / 1ᵀA⁻¹1, and leaving row i out changes y_i - f(x_i) to c_i / B_ii.
    """
    n = len(K)
    A = np.asarray(K, dtype=np.float64).T  # symmetric, and in the order that LAPACK overwrites
    A[np.diag_indices(n)] += alpha if weight is None else alpha / np.maximum(weight, LEAST_WEIGHT)
    L, failed = dpotrf(A, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise ValueError(
            f"the kernel matrix plus alpha = {alpha:.3g} is not positive definite up to rounding; raise alpha."
        )
    solved = dpotrs(L, np.column_stack([np.ones(n), Y]), lower=1)[0]
    ones, C = solved[:, 0], solved[:, 1:]
    total = float(ones.sum())
    intercept = C.sum(axis=0) / total
    C -= np.outer(ones, intercept)
    inverse = dpotri(L, lower=1, overwrite_c=1)[0]
    diagonal = inverse.diagonal() - ones * ones / total
    B = None
    if with_inverse:
        B = np.tril(inverse)
        B += np.tril(inverse, -1).T
        B -= np.outer(ones, ones / total)
    return ExactRidge(C, intercept, C / np.maximum(diagonal, np.finfo(float).tiny)[:, None], B, weight)
