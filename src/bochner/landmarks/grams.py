"""The kernel matrix of the training rows, read by blocks in float64; nothing but its diagonal is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from bochner.backends import Array
from bochner.kernels import Kernel

_BLOCK_BYTES = 1 << 23  # of kernel entries held at a time
FLOAT32_FLOOR = 4e-6  # pivots below which kernel values of float32 are rounding
FLOAT32_PIVOTS = 4e-4  # above which they leave features an error of some 1e-5


@dataclass(frozen=True)
class Gram:
    """K(X, X) of a kernel and rows, or (kernel None) X itself, a matrix the user has computed.

    Attributes
    ----------
    X : ndarray or CSR matrix
    kernel : Kernel or None
    there : tensor or None
        The rows of X on a device, where partial factors are then computed; for kernels that take tensors.
    fine : bool
        Whether float32 rows are treated as if they were float64: the same landmarks, the same span.
    """

    X: Any
    kernel: Kernel | None
    there: Any = None
    fine: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def rows(self) -> Any:
        """X, in the precision that it is treated with."""
        return self.X.astype(np.float64, copy=False) if self.fine else self.X

    @property
    def floor(self) -> float:
        """What counts as zero beside the largest diagonal entry, in the precision of the data.

        A column of pivot p has relative error eps(float64) / p from the factorisation, and absolute error
        eps(dtype) / sqrt(p) from the kernel values it is made of; both are small beside one above these floors.
        """
        return 1e-11 if self.fine or self.X.dtype == np.float64 else FLOAT32_FLOOR

    def points(self, rows: Array) -> Any:
        """What `Nystrom` keeps of these rows: the rows themselves, or their indices if K was given."""
        return np.asarray(rows) if self.kernel is None else self.X[rows]

    def block(self, rows: Any, columns: Any) -> Array:
        """K[rows, columns] in float64; rows and columns are slices or index arrays."""
        if self.kernel is None:
            if not isinstance(rows, slice) and not isinstance(columns, slice):
                rows = np.asarray(rows)[:, None]  # never a copy of whole rows
            elif isinstance(columns, slice):
                return dense(self.X[rows][:, columns])
            return dense(self.X[rows, columns])
        return self.against(rows, self.X[columns])

    def against(self, rows: Any, points: Any) -> Array:
        """k(X[rows], points) in float64, for points that need not be rows."""
        if self.kernel is None:
            return self.block(rows, points)
        X, Y = self.X[rows], points
        return dense(self.kernel(X.astype(np.float64, copy=False), Y.astype(np.float64, copy=False)))

    def points_there(self, rows: Array) -> Any:
        """Some rows on the device, in float64."""
        return self.there[rows].double()

    def on_device(self, rows: Any, points: Any) -> Any:
        """k(X[rows], points) as a float64 tensor on the device, for float64 points there."""
        assert self.kernel is not None
        return self.kernel(self.there[rows].double(), points)

    def among(self, points: Any) -> Array:
        """k(points, points) in float64."""
        if self.kernel is None:
            return self.block(points, points)
        return dense(self.kernel(points.astype(np.float64, copy=False)))

    def diagonal(self) -> Array:
        """K[i, i] for every row, (n,), checked: a kernel is nowhere negative on its diagonal."""
        return self._diagonal.copy()

    @cached_property
    def _diagonal(self) -> Array:
        if self.kernel is None:
            diagonal = np.array(self.X.diagonal(), dtype=np.float64)
        else:
            parts = [self.kernel.diagonal(self.X[r].astype(np.float64, copy=False)) for r in self.row_blocks(1)]
            diagonal = np.concatenate(parts).astype(np.float64, copy=False)
        if not np.isfinite(diagonal).all():
            raise ValueError(f"the kernel is not finite: k(x, x) = {diagonal[~np.isfinite(diagonal)][0]}.")
        if diagonal.min() < 0.0:
            raise_indefinite(f"k(x, x) = {diagonal.min():.3g} for row {diagonal.argmin()}")
        return diagonal

    def row_blocks(self, width: int) -> Iterator[slice]:
        """Slices of rows such that `width` float64 entries (and the features) of each stay small."""
        n, d = self.X.shape
        return row_slices(n, width if self.kernel is None else max(width, d))


def row_slices(n: int, width: int) -> Iterator[slice]:
    """Slices of n rows, each with about eight megabytes of `width` float64 entries a row."""
    step = max(1, _BLOCK_BYTES // (8 * max(1, width)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def dense(block: Any) -> Array:
    """A block of kernel values as a float64 array, finite."""
    block = block.toarray() if scipy.sparse.issparse(block) else block
    block = np.asarray(block, dtype=np.float64)
    if not np.isfinite(block.sum()):  # one pass, no array of flags
        raise ValueError("the kernel is not finite on these rows; check its parameters and the scale of the data.")
    return block


def raise_indefinite(evidence: str) -> None:
    """Say that this is no kernel, and what to do."""
    raise ValueError(
        f"the kernel is not positive semi-definite: {evidence}. Use a positive definite kernel; if the matrix was "
        "precomputed, make it one first, for example by clipping its negative eigenvalues to zero."
    )


def check_residual(residual: Array, scale: float, floor: float) -> None:
    """What is left of a diagonal after a projection is never negative, unless the kernel is indefinite."""
    lowest = residual.min(initial=0.0)
    if not lowest >= -np.sqrt(floor) * scale:  # written so that NaN fails too
        if not np.isfinite(lowest):
            raise ValueError("the kernel is not finite on these rows; check its parameters and the scale of the data.")
        raise_indefinite(f"projecting on landmarks leaves {lowest:.3g} of a diagonal entry (largest {scale:.3g})")


def check_symmetric(block: Array, floor: float) -> None:
    """A square block K[S, S] must equal its transpose."""
    gap = np.abs(block - block.T)
    if gap.size and gap.max() > np.sqrt(floor) * max(np.abs(block).max(), np.finfo(float).tiny):
        i, j = np.unravel_index(gap.argmax(), gap.shape)
        raise ValueError(
            f"the kernel is not symmetric: k(x, y) = {block[i, j]:.6g} but k(y, x) = {block[j, i]:.6g}. Use a "
            "symmetric kernel, or (K + K.T) / 2 for a precomputed matrix."
        )


def cholesky(A: Array) -> Array:
    """Lower Cholesky factor, or an error in the user's words."""
    try:
        return np.asarray(scipy.linalg.cholesky(A, lower=True))
    except (np.linalg.LinAlgError, ValueError) as error:
        raise_indefinite(f"a block of it has no Cholesky factor ({error})")
        raise AssertionError from error
