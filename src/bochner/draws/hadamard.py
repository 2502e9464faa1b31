"""The Walsh-Hadamard transform of arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from bochner.backends import FLOATS, Array, as_native, backend_of, limit_threads, reading
from bochner.checks import check_flag


def fwht(X: Any, axis: int = -1, *, orthonormal: bool = False, out: Any = None, n_jobs: int | None = None) -> Array:
    """Apply the Walsh-Hadamard transform along an axis, in p log₂ p additions for p numbers.

    Multiplies by the p × p matrix H of ±1 in Sylvester's order: H₁ = 1, and H₂ₖ = [[Hₖ, Hₖ], [Hₖ, -Hₖ]]. H Hᵀ = p I.

    Parameters
    ----------
    X : array-like
        Of any shape; the length of the axis must be a power of two.
    axis : int, default=-1
        The axis that is transformed; its length must be a power of two.
    orthonormal : bool, default=False
        Divide by √p, so that norms stay as they are and the transform is its own inverse.
    out : ndarray, optional
        Where to write, of the shape of X and its type (float64 unless X is float32); ``out=X`` transforms in place.
    n_jobs : int or None
        Threads; None uses every core. Results do not depend on it.

    Returns
    -------
    ndarray
        `out`, or a new array of the shape of X.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import fwht
    >>> fwht([1.0, 0.0, 2.0, 0.0])
    array([ 3.,  3., -1., -1.])
    >>> X = np.eye(4)
    >>> fwht(X, axis=0, orthonormal=True, out=X) is X
    True
    >>> X[1]
    array([ 0.5, -0.5,  0.5, -0.5])
    """
    check_flag("orthonormal", orthonormal)
    with reading("X"):
        X = as_native(np.asarray(X))
        if X.dtype.kind not in "fiub":
            raise ValueError(f"fwht takes real numbers, got values of type {X.dtype}.")
        X = X if X.dtype in FLOATS else X.astype(np.float64)
    if not X.ndim:
        raise ValueError("fwht transforms along an axis, and a single number has none.")
    p = np.moveaxis(X, axis, -1).shape[-1]
    if p < 1 or p & (p - 1):
        raise ValueError(
            f"the length of axis {axis} must be a power of two, got {p}; append zeros up to "
            f"{1 << max(p, 1).bit_length()}."
        )
    if out is None:
        out = X.copy(order="C")
    elif not isinstance(out, np.ndarray) or out.shape != X.shape or out.dtype != X.dtype:
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be an array of {X.dtype} and of shape {X.shape}, got {found}.")
    elif out is not X:
        out[...] = X
    along = np.moveaxis(out, axis, -1)
    rows = np.ascontiguousarray(along).reshape(-1, p)  # `out` itself where that is its layout
    with limit_threads(n_jobs):
        backend_of(rows).fwht(rows)
    if orthonormal:
        rows *= p**-0.5
    if not np.may_share_memory(rows, out):
        along[...] = rows.reshape(along.shape)
    return np.asarray(out)
