"""Kernels as graphs: k(X, landmarks) in float64, because the roots behind it magnify rounding."""

from __future__ import annotations

from functools import singledispatch
from math import factorial

import numpy as np

from bochner.backends import Array
from bochner.exports.graphs import DOUBLE, FLOAT, Tensor
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Projected, Restricted, Sum
from bochner.kernels.dot_products import (
    AdditiveChi2,
    ArcCosine,
    DotProduct,
    DotProductKernel,
    ExponentialDot,
    Linear,
    MaclaurinSeries,
    Polynomial,
    Sobolev,
)
from bochner.kernels.invariant import CyclicInvariant, moves_together
from bochner.kernels.stationary import (
    RBF,
    Cauchy,
    Exponential,
    Laplacian,
    Matern,
    RadialKernel,
    RationalQuadratic,
    SeparableKernel,
    StationaryKernel,
)

_TABLE = 1 << 13  # entries of the table of a profile without a closed form
_TABLE_RANGE = (-18.0, 14.0)  # range of log r in the table


@singledispatch
def block(kernel: object, X: Tensor, Y: Array) -> Tensor:
    """Return k(x_i, y_j), (n, m), of rows X (n, d) in float64 and constant rows Y (m, d)."""
    raise ValueError(f"the kernel {kernel!r} cannot be written as an ONNX graph; use one of bochner's own kernels.")


@block.register
def _(kernel: Sum, X: Tensor, Y: Array) -> Tensor:
    return block(kernel.left, X, Y) + block(kernel.right, X, Y)


@block.register
def _(kernel: Product, X: Tensor, Y: Array) -> Tensor:
    return block(kernel.left, X, Y) * block(kernel.right, X, Y)


@block.register
def _(kernel: Multiple, X: Tensor, Y: Array) -> Tensor:
    return block(kernel.kernel, X, Y) * kernel.factor


@block.register
def _(kernel: Power, X: Tensor, Y: Array) -> Tensor:
    return block(kernel.kernel, X, Y) ** int(kernel.exponent)


@block.register
def _(kernel: Restricted, X: Tensor, Y: Array) -> Tensor:
    columns = kernel.indices(Y.shape[1])
    return block(kernel.kernel, X.gather(columns), Y[:, columns])


@block.register
def _(kernel: Projected, X: Tensor, Y: Array) -> Tensor:
    # about the mean of the landmarks: of rows far from the origin, small differences are left
    centre = Y.mean(axis=0) if kernel.stationary and len(Y) else np.zeros(Y.shape[1])
    U = kernel.matrix(Y.shape[1])
    return block(kernel.kernel, (X - centre) @ U, (Y - centre) @ U)


@block.register
def _(kernel: RadialKernel, X: Tensor, Y: Array) -> Tensor:
    inverse = 1.0 / kernel.scales(Y.shape[1])
    return profile(kernel, _squared_distances(X * inverse, Y * inverse))


def _squared_distances(X: Tensor, Y: Array) -> Tensor:
    # about a point among the landmarks, so that no digits are lost to a large mean
    centre = Y.mean(axis=0) if len(Y) else np.zeros(Y.shape[1])
    X, Y = X - centre, Y - centre
    squares = (X * X).reduce("Sum", 1, keepdims=True) + np.einsum("ij,ij->i", Y, Y) - (X @ Y.T) * 2.0
    return squares.maximum(0.0)


@singledispatch
def profile(kernel: RadialKernel, squares: Tensor) -> Tensor:
    """Apply a radial kernel to r², from a table if it has no formula in ONNX."""
    grid = np.linspace(*_TABLE_RANGE, _TABLE)
    values = kernel.profile(np.exp(grid))
    step = grid[1] - grid[0]
    place = (squares.maximum(1e-30).apply("Log") * 0.5 - grid[0]) * (1.0 / step)
    place = place.maximum(1.0).minimum(float(_TABLE - 3))
    first = place.apply("Floor")
    t = place - first
    index = first.astype(np.int64)
    table = squares.graph.constant(values, DOUBLE)
    a, b, c, d = (table.gather(index + shift, axis=0) for shift in (-1, 0, 1, 2))
    # the cubic through four neighbours
    linear = c - a * (1.0 / 3.0) - b * 0.5 - d * (1.0 / 6.0)
    square = (a + c) * 0.5 - b
    cube = (d - a) * (1.0 / 6.0) + (b - c) * 0.5
    return b + t * (linear + t * (square + t * cube))


@profile.register
def _(kernel: RBF, squares: Tensor) -> Tensor:
    return (squares * -0.5).apply("Exp")


@profile.register
def _(kernel: Exponential, squares: Tensor) -> Tensor:
    return (-squares.apply("Sqrt")).apply("Exp")


@profile.register
def _(kernel: RationalQuadratic, squares: Tensor) -> Tensor:
    alpha = float(kernel.alpha)
    return (squares * (0.5 / alpha) + 1.0) ** -alpha


@profile.register
def _(kernel: Matern, squares: Tensor) -> Tensor:
    nu = float(kernel.nu)
    p = int(nu)
    if nu - p != 0.5 or p > 20:
        return profile.dispatch(object)(kernel, squares)
    # half-integers: exp(-a) p!/(2p)! Σ (p+i)!/(i!(p-i)!) (2a)^(p-i)
    a = squares.apply("Sqrt").minimum(1e8) * float(np.sqrt(2.0 * nu))  # farther out a·exp(-a) would be ∞·0
    weights = [
        factorial(p) / factorial(2 * p) * factorial(p + i) / (factorial(i) * factorial(p - i)) * 2.0 ** (p - i)
        for i in range(p + 1)
    ]
    return (-a).apply("Exp") * _horner(a, weights[::-1])


def _horner(t: Tensor, coefficients: list[float]) -> Tensor:
    """Evaluate the polynomial Σ coefficients[i] t^i."""
    total = t * 0.0 + float(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * t + float(coefficient)
    return total


def _differences(X: Tensor, Y: Array) -> Tensor:
    d = Y.shape[1]
    return X.reshape(-1, 1, d) - Y[None]


@block.register
def _(kernel: Laplacian, X: Tensor, Y: Array) -> Tensor:
    inverse = 1.0 / kernel.scales(Y.shape[1])
    return (-_differences(X * inverse, Y * inverse).apply("Abs").reduce("Sum", 2)).apply("Exp")


@block.register
def _(kernel: Cauchy, X: Tensor, Y: Array) -> Tensor:
    inverse = 1.0 / kernel.scales(Y.shape[1])
    D = _differences(X * inverse, Y * inverse)
    return (1.0 / (D * D + 1.0)).reduce("Prod", 2)


@block.register
def _(kernel: SeparableKernel, X: Tensor, Y: Array) -> Tensor:
    raise ValueError(f"{kernel!r} is a function of your own, which ONNX cannot hold; use Cauchy or Laplacian.")


@block.register
def _(kernel: DotProductKernel, X: Tensor, Y: Array) -> Tensor:
    return _of_product(kernel, X @ Y.T, Y.shape[1])


def _of_product(kernel: Kernel, t: Tensor, n_features: int) -> Tensor:
    """Apply a kernel to x·y."""
    own = kernel.gamma if isinstance(kernel, (Polynomial, ExponentialDot)) else None
    gamma = 1.0 / n_features if own is None else float(own)
    match kernel:
        case Linear():
            return t
        case Polynomial():
            return (t * gamma + float(kernel.coef0)) ** int(kernel.degree)
        case ExponentialDot():
            return (t * gamma).apply("Exp")
        case MaclaurinSeries():
            return _horner(t, kernel.coefficients(len(kernel.series), 0).tolist())
        case DotProduct() if kernel.function is np.exp:
            return t.apply("Exp")
        case DotProduct() if kernel.function in (np.cosh, np.sinh):
            sign = 1.0 if kernel.function is np.cosh else -1.0
            return (t.apply("Exp") + (-t).apply("Exp") * sign) * 0.5
    raise ValueError(
        f"{kernel!r} is a function of your own, which ONNX cannot hold; use MaclaurinSeries with its coefficients."
    )


@block.register
def _(kernel: ArcCosine, X: Tensor, Y: Array) -> Tensor:
    order = int(kernel.order)
    x = (X * X).reduce("Sum", 1, keepdims=True).apply("Sqrt")
    y = np.sqrt(np.einsum("ij,ij->i", Y, Y))
    U, V = X / x.greater(0.0).where(x, 1.0, DOUBLE), Y / np.where(y > 0, y, 1.0)[:, None]
    half = _squared_distances(U, V) * 0.25  # sin² of half the angle
    # arcsin of the smaller of sine and cosine, with a Newton step: runtimes have it in float32 only
    large = half.greater(0.5)
    s = large.where((1.0 - half).maximum(0.0), half, DOUBLE).apply("Sqrt")
    a = s.astype(FLOAT).apply("Asin").astype(DOUBLE)
    a = a + (s - a.apply("Sin")) / (1.0 - s * s).apply("Sqrt")  # older runtimes have no cosine in float64
    angle = large.where(np.pi / 2.0 - a, a, DOUBLE) * 2.0
    cosine, sine = 1.0 - half * 2.0, angle.apply("Sin")
    if order == 0:
        J, size = np.pi - angle, x.greater(0.0).astype(DOUBLE) * (y > 0).astype(float)
    elif order == 1:
        J, size = sine + (np.pi - angle) * cosine, x * y
    else:
        J, size = sine * cosine * 3.0 + (np.pi - angle) * (cosine * cosine * 2.0 + 1.0), (x * y) ** 2
    return J * size * (1.0 / np.pi)


@block.register
def _(kernel: AdditiveChi2, X: Tensor, Y: Array) -> Tensor:
    x = X.reshape(-1, 1, Y.shape[1])
    total = x + Y[None]
    parts = x * (2.0 * Y[None]) / total.greater(0.0).where(total, 1.0, DOUBLE)
    return parts.reduce("Sum", 2)


@block.register
def _(kernel: Sobolev, X: Tensor, Y: Array) -> Tensor:
    x = X.reshape(-1, 1, Y.shape[1])
    lower = (x - Y[None]).greater(0.0).where(x * 0.0 + Y[None], x + 0.0 * Y[None], DOUBLE)
    return (lower + 1.0).reduce("Prod", 2)


@block.register
def _(kernel: CyclicInvariant, X: Tensor, Y: Array) -> Tensor:
    d, m = Y.shape[1], len(Y)
    moves = kernel.shifts(d)
    G = len(moves)
    shifted = np.concatenate([Y[:, move] for move in moves])  # (G m, d)
    if moves_together(kernel.kernel):
        return block(kernel.kernel, X, shifted).reshape(-1, G, m).reduce("Mean", 1)
    rows = X.gather(moves).reshape(-1, d)
    return block(kernel.kernel, rows, shifted).reshape(-1, G * G, m).reduce("Mean", 1)


def diagonal(kernel: Kernel, X: Tensor, n_features: int) -> Tensor:
    """Return k(x, x), (n, 1), in float64."""
    match kernel:
        case Sum():
            return diagonal(kernel.left, X, n_features) + diagonal(kernel.right, X, n_features)
        case Product():
            return diagonal(kernel.left, X, n_features) * diagonal(kernel.right, X, n_features)
        case Multiple():
            return diagonal(kernel.kernel, X, n_features) * kernel.factor
        case Power():
            return diagonal(kernel.kernel, X, n_features) ** int(kernel.exponent)
        case Restricted():
            columns = kernel.indices(n_features)
            return diagonal(kernel.kernel, X.gather(columns), len(columns))
        case Projected():
            U = kernel.matrix(n_features)
            return diagonal(kernel.kernel, X @ U, U.shape[1])
        case StationaryKernel():
            return X.columns(0, 1) * 0.0 + 1.0
        case AdditiveChi2():
            return X.reduce("Sum", 1, keepdims=True)
        case Sobolev():
            return (X + 1.0).reduce("Prod", 1, keepdims=True)
        case DotProductKernel():
            return _of_product(kernel, (X * X).reduce("Sum", 1, keepdims=True), n_features)
        case ArcCosine():
            order, s = int(kernel.order), (X * X).reduce("Sum", 1, keepdims=True)
            return s**order * (3.0 if order == 2 else 1.0) if order else s.greater(0.0).astype(DOUBLE)
    raise ValueError(f"the diagonal of {kernel!r} cannot be written as an ONNX graph.")
