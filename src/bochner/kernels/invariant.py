"""Kernels that are invariant under cyclic shifts of their inputs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bochner.backends import Array
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Sum, check_kernel
from bochner.kernels.dot_products import AdditiveChi2, ArcCosine, DotProductKernel, Sobolev
from bochner.kernels.stationary import StationaryKernel


@dataclass(eq=False, repr=False)
class CyclicInvariant(Kernel):
    """The mean of a kernel over all cyclic shifts of both arguments: (1/G²) Σ_g Σ_h k(gx, hy), G the number of shifts.

    If k itself does not change when both arguments are shifted together, this is (1/G) Σ_g k(x, gy); a single term k(x,
    gy) of that sum is not symmetric, and so not a kernel.

    Parameters
    ----------
    kernel : Kernel
        The kernel that is averaged over shifts.
    shape : tuple of int or None, default=None
        None: a row is one periodic signal. (height, width): a row is an image, flattened row by row, and shifted along
        both axes.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF, CyclicInvariant
    >>> x = np.array([[1.0, 2.0, 0.0, 5.0]])
    >>> kernel = CyclicInvariant(RBF(3.0))
    >>> bool(np.isclose(kernel(x, x), kernel(x, np.roll(x, 1, axis=1)))[0, 0])
    True
    """

    kernel: Kernel
    shape: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_kernel("kernel", self.kernel)
        shape = () if self.shape is None else np.atleast_1d(self.shape).tolist()
        if len(shape) > 2 or not all(isinstance(size, int) and size > 0 for size in shape):
            raise ValueError(f"shape must be None, (width,) or (height, width), got {self.shape!r}.")

    def axes(self, n_features: int) -> tuple[int, ...]:
        """Return the shape as numbers, checked against the width of the data."""
        if self.shape is None:
            return (n_features,)
        shape = tuple(np.atleast_1d(self.shape).tolist())
        if int(np.prod(shape)) != n_features:
            raise ValueError(
                f"shape={self.shape!r} holds {int(np.prod(shape))} values but the data has {n_features} features; "
                "give the shape of one row, or restrict the kernel to the columns of the image: kernel.on(columns)."
            )
        return shape

    def shifts(self, n_features: int) -> Array:
        """Return every shift as an index array, (n_shifts, n_features): x[shifts[i]] is x shifted."""
        return shifts(self.axes(n_features))

    def block(self, X: Array, Y: Array) -> Array:
        moves = self.shifts(X.shape[1])
        left = moves[:1] if moves_together(self.kernel) else moves
        total = np.zeros((X.shape[0], Y.shape[0]), X.dtype)
        for g in left:
            for h in moves:
                total += self.kernel.block(X[:, g], Y[:, h])
        return total / (len(left) * len(moves))

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        moves = self.shifts(X.shape[1])
        left = moves[:1] if moves_together(self.kernel) else moves
        total = np.zeros(X.shape, X.dtype)
        for g in left:
            for h in moves:
                total[:, g] += self.kernel.block_gradient(X[:, g], Y[:, h], W)
        return total / (len(left) * len(moves))

    def block_diagonal(self, X: Array) -> Array:
        return np.array([self.block(X[i : i + 1], X[i : i + 1])[0, 0] for i in range(X.shape[0])], X.dtype)

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        self.axes(sample.shape[1])
        return CyclicInvariant(self.kernel.with_scales(sample, weight), self.shape)


def shifts(shape: tuple[int, ...]) -> Array:
    """Return all cyclic shifts of an array of this shape, as index arrays of its flattened values."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    axes = tuple(range(len(shape)))
    steps = np.ndindex(*shape)
    return np.stack([np.roll(places, [-s for s in step], axes).ravel() for step in steps])


def moves_together(kernel: Kernel) -> bool:
    """Return True if k(gx, gy) = k(x, y) is known for every permutation g of the features."""
    match kernel:
        case Sum() | Product():
            return moves_together(kernel.left) and moves_together(kernel.right)
        case Multiple() | Power():
            return moves_together(kernel.kernel)
        case StationaryKernel():
            return np.size(kernel.length_scale) == 1
    return isinstance(kernel, (DotProductKernel, ArcCosine, AdditiveChi2, Sobolev))
