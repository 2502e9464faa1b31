"""The Walsh-Hadamard transform of arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bochner.backends import FLOATS, Array, as_native, backend_of, limit_threads, reading
from bochner.checks import check_flag


def fwht(
    X: ArrayLike, axis: int = -1, *, orthonormal: bool = False, out: Array | None = None, n_jobs: int | None = None
) -> Array:
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
        Number of threads. None for every core, or OMP_NUM_THREADS if that is set. Results do not depend on it.

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
        values = as_native(np.asarray(X))
        if values.dtype.kind not in "fiub":
            raise ValueError(f"fwht takes real numbers, got values of type {values.dtype}.")
        values = values if values.dtype in FLOATS else values.astype(np.float64)
    if not values.ndim:
        raise ValueError("fwht transforms along an axis, and a single number has none.")
    p = np.moveaxis(values, axis, -1).shape[-1]
    if p < 1 or p & (p - 1):
        raise ValueError(
            f"the length of axis {axis} must be a power of two, got {p}; append zeros up to "
            f"{1 << max(p, 1).bit_length()}."
        )
    if out is None:
        out = values.copy(order="C")
    elif not isinstance(out, np.ndarray) or out.shape != values.shape or out.dtype != values.dtype:
        found = f"{out.dtype} of shape {out.shape}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ValueError(f"out must be an array of {values.dtype} and of shape {values.shape}, got {found}.")
    elif out is not values:
        out[...] = values
    along = np.moveaxis(out, axis, -1)
    rows = np.ascontiguousarray(along).reshape(-1, p)  # `out` itself where that is its layout
    with limit_threads(n_jobs):
        backend_of(rows).fwht(rows)
    if orthonormal:
        rows *= p**-0.5
    if not np.may_share_memory(rows, out):
        along[...] = rows.reshape(along.shape)
    return np.asarray(out)
