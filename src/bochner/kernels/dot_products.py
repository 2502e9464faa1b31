"""Kernels of the product x·y, of angles, of histograms, and of the smaller of two numbers."""

from __future__ import annotations

import numbers
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bochner.backends import Array, backend_of, is_sparse
from bochner.checks import ArgumentError, check_count, check_positive
from bochner.draws import mixtures
from bochner.kernels.algebra import Kernel, Tile, check_function, dense, entrywise, numeric_slope, squared_norms
from bochner.kernels.stationary import squared_distances

__all__ = [
    "AdditiveChi2",
    "ArcCosine",
    "DotProduct",
    "ExponentialDot",
    "Linear",
    "MaclaurinSeries",
    "Polynomial",
    "Sobolev",
]


def _products(X: Array, Y: Array) -> Array:
    product = X @ Y.T
    return product.toarray() if is_sparse(product) else product


class DotProductKernel(Kernel):
    """A kernel f(x·y) whose Maclaurin coefficients are non-negative. A subclass writes the two formulas."""

    @abstractmethod
    def profile(self, t: Array, n_features: int) -> Array:
        """Return k as a function of t = x·y."""

    def slope(self, t: Array, n_features: int) -> Array:
        """Return the derivative of the profile."""
        return numeric_slope(lambda u: self.profile(u, n_features), t)

    @abstractmethod
    def coefficients(self, n_terms: int, n_features: int) -> Array:
        """Return a_0 … a_(n_terms-1) of f(t) = Σ a_n t^n."""

    def power_series(self, n_features: int, radius: float) -> Array:
        """Return the coefficients that give f(t) for |t| <= radius up to a share 1e-12 of f(radius)."""
        with np.errstate(over="ignore"):  # two entries, because older NumPy turns an array of one entry into a number
            target = float(np.abs(self.profile(np.array([radius, radius]), n_features)[0]))
        n_terms = 32
        while n_terms <= 2048 and np.isfinite(target):
            a = self._coefficients_within(n_terms, n_features, radius)
            with np.errstate(divide="ignore"):
                terms = np.exp(np.log(a) + np.arange(n_terms) * np.log(radius))
            if abs(terms.sum() - target) <= 1e-9 * target:
                rest = np.cumsum(terms[::-1])[::-1]
                return np.asarray(a[: 1 + int(np.flatnonzero(rest > 1e-12 * target)[-1])])
            n_terms *= 2
        raise ValueError(
            f"the power series of {self!r} cannot be summed at x·y = {radius:.3g}, the largest squared norm of the "
            "data: the value or the terms overflow. Scale the data down (divide by the largest norm), or lower gamma."
        )

    def _coefficients_within(self, n_terms: int, n_features: int, radius: float) -> Array:
        return self.coefficients(n_terms, n_features)

    def block(self, X: Array, Y: Array) -> Array:
        return self.profile(_products(X, Y), X.shape[1])

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        slopes = W * self.slope(_products(X, Y), X.shape[1])
        return np.asarray(slopes.astype(X.dtype, copy=False) @ Y)

    def block_diagonal(self, X: Array) -> Array:
        return np.asarray(self.profile(squared_norms(X), X.shape[1]))


class Linear(DotProductKernel):
    """Linear kernel x·y."""

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, t: Array, n_features: int) -> Array:
        return t

    def slope(self, t: Array, n_features: int) -> Array:
        return np.ones_like(t)

    def coefficients(self, n_terms: int, n_features: int) -> Array:
        a = np.zeros(n_terms)
        a[1:2] = 1.0
        return a


def _gamma(gamma: float | None, n_features: int) -> float:
    return 1.0 / n_features if gamma is None else float(gamma)


def _check_gamma(gamma: float | None) -> None:
    if gamma is not None:
        check_positive("gamma", gamma, advice="None means 1 / n_features.")


@dataclass(eq=False, repr=False)
class Polynomial(DotProductKernel):
    """Polynomial kernel (gamma x·y + coef0)^degree.

    Parameters
    ----------
    degree : int
        The exponent, at least 1.
    gamma : float or None
        None means 1 / n_features, as in scikit-learn.
    coef0 : float
        Non-negative; 0 gives the homogeneous kernel.

    Examples
    --------
    >>> from bochner import Polynomial
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)([[1.0, 2.0]], [[3.0, 1.0]])
    array([[36.]])
    """

    degree: int = 3
    gamma: float | None = None
    coef0: float = 1.0

    def __post_init__(self) -> None:
        check_count("degree", self.degree)
        _check_gamma(self.gamma)
        check_positive("coef0", self.coef0, zero=True, advice="The kernel would not be positive definite.")

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, t: Array, n_features: int) -> Array:
        return (_gamma(self.gamma, n_features) * t + self.coef0) ** int(self.degree)

    def slope(self, t: Array, n_features: int) -> Array:
        q, gamma = int(self.degree), _gamma(self.gamma, n_features)
        return q * gamma * (gamma * t + self.coef0) ** (q - 1)

    def tile(self, X: Array, Y: Array) -> Tile | None:
        xp, root, last = backend_of(X).xp, _gamma(self.gamma, X.shape[1]) ** 0.5, float(self.coef0) ** 0.5
        # gamma x·y + coef0 is the product of rows with one more feature
        X, Y = (xp.hstack([root * A, xp.full_like(A[:, :1], last)]) for A in (X, Y))
        return X, Y, ("polynomial", int(self.degree))

    def coefficients(self, n_terms: int, n_features: int) -> Array:
        gamma, q, a = _gamma(self.gamma, n_features), int(self.degree), np.zeros(n_terms)
        binomial = 1.0
        for n in range(min(q + 1, n_terms)):
            a[n] = binomial * gamma**n * float(self.coef0) ** (q - n)
            binomial *= (q - n) / (n + 1.0)
        return a


@dataclass(eq=False, repr=False)
class ExponentialDot(DotProductKernel):
    """Exponential dot-product kernel exp(gamma x·y).

    Parameters
    ----------
    gamma : float or None
        None means 1 / n_features.
    """

    gamma: float | None = None

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, t: Array, n_features: int) -> Array:
        return backend_of(t).xp.exp(_gamma(self.gamma, n_features) * t)

    def slope(self, t: Array, n_features: int) -> Array:
        gamma = _gamma(self.gamma, n_features)
        return np.asarray(gamma * np.exp(gamma * t))

    def coefficients(self, n_terms: int, n_features: int) -> Array:
        n = np.arange(n_terms)
        return np.asarray(np.exp(n * np.log(_gamma(self.gamma, n_features)) - gammaln(n + 1.0)))


@dataclass(eq=False, repr=False)
class MaclaurinSeries(DotProductKernel):
    """Σ coefficients[n] (x·y)^n, positive definite when no coefficient is negative (Schoenberg 1942).

    Parameters
    ----------
    series : sequence of float
        a_0, a_1, …; finite, non-negative, not all zero.
    """

    series: Sequence[float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        try:
            a = np.asarray(self.series)
            a = a.astype(float) if a.dtype.kind != "c" else np.empty(0)
        except (TypeError, ValueError):
            a = np.empty(0)
        if a.ndim != 1 or not np.isfinite(a).all() or not a.any() or (a < 0).any():
            raise ValueError(
                f"series must be finite non-negative coefficients, not all zero; got {self.series!r}. A negative one "
                "makes f(x·y) indefinite (Schoenberg's theorem)."
            )

    def profile(self, t: Array, n_features: int) -> Array:
        return np.polynomial.polynomial.polyval(t, np.asarray(self.series, dtype=float)).astype(t.dtype, copy=False)

    def slope(self, t: Array, n_features: int) -> Array:
        series = np.polynomial.polynomial.polyder(np.asarray(self.series, dtype=float))
        return np.polynomial.polynomial.polyval(t, series).astype(t.dtype, copy=False)

    def coefficients(self, n_terms: int, n_features: int) -> Array:
        a = np.asarray(self.series, dtype=float)[:n_terms]
        return np.pad(a, (0, n_terms - len(a)))


@dataclass(eq=False, repr=False)
class DotProduct(DotProductKernel):
    """Any kernel of x·y given as a function; its power series is found numerically.

    Parameters
    ----------
    function : callable
        f(t) with f(x·y) the kernel: analytic up to the largest squared norm of the data, of complex arrays too (NumPy
        functions are), and without negative coefficients in its power series.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import DotProduct
    >>> kernel = DotProduct(np.cosh)
    >>> kernel([[1.0, 1.0]]).round(4)
    array([[3.7622]])
    >>> kernel.power_series(2, radius=2.0)[:4].round(4)
    array([1. , 0. , 0.5, 0. ])
    """

    function: Callable[[Array], Array]

    def __post_init__(self) -> None:
        check_function(self.function)

    def profile(self, t: Array, n_features: int) -> Array:
        try:
            return entrywise(self.function, t)
        except TypeError as error:
            raise ValueError(
                f"a function of x·y must accept arrays, and this one failed ({error}); write it with NumPy functions."
            ) from error

    def coefficients(self, n_terms: int, n_features: int) -> Array:
        return mixtures.maclaurin_coefficients(self.function, n_terms)

    def _coefficients_within(self, n_terms: int, n_features: int, radius: float) -> Array:
        return mixtures.maclaurin_coefficients(self.function, n_terms, radius=radius)


@dataclass(eq=False, repr=False)
class ArcCosine(Kernel):
    """Arc-cosine kernel of order 0, 1 or 2: 2 E[Θ(w·x) Θ(w·y) (w·x)^n (w·y)^n], w ~ N(0, I) (Cho & Saul 2009).

    Parameters
    ----------
    order : {0, 1, 2}
        0: step units, 1: rectified linear units, 2: squared rectified units.
    """

    order: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.order, numbers.Real) or self.order not in (0, 1, 2):
            raise ArgumentError(f"order must be 0, 1 or 2, got {self.order!r}.")

    def block(self, X: Array, Y: Array) -> Array:
        order = int(self.order)
        (x, _), (y, _), angle = _polar(dense(X).astype(float), dense(Y).astype(float))
        cosine, sine = np.cos(angle), np.sin(angle)
        if order == 0:
            J, size = np.pi - angle, np.outer(x > 0, y > 0).astype(float)
        elif order == 1:
            J, size = sine + (np.pi - angle) * cosine, np.outer(x, y)
        else:
            J, size = 3.0 * sine * cosine + (np.pi - angle) * (1.0 + 2.0 * cosine**2), np.outer(x, y) ** 2
        return (J * size / np.pi).astype(X.dtype)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        order, dtype = int(self.order), X.dtype
        (x, U), (y, V), angle = _polar(X.astype(float), Y.astype(float))
        cosine, sine = np.cos(angle), np.sin(angle)
        # k = |x|^n |y|^n J(angle) / π with -J'(angle) = sine · turn, and sine · ∇angle = -(v - cosine u) / |x|
        if order == 0:
            J, turn = np.zeros_like(angle), np.divide(1.0, sine, out=np.zeros_like(sine), where=sine > 1e-12)
        elif order == 1:
            J, turn = sine + (np.pi - angle) * cosine, np.pi - angle
        else:
            J = 2.0 * (3.0 * sine * cosine + (np.pi - angle) * (1.0 + 2.0 * cosine**2))
            turn = 4.0 * (sine + (np.pi - angle) * cosine)
        size = np.where(x > 0, x, 1.0) ** (order - 1.0) * (x > 0)
        weighted = W * np.outer(size, y**order * (y > 0)) / np.pi
        return ((weighted * (J - turn * cosine)).sum(axis=1)[:, None] * U + (weighted * turn) @ V).astype(dtype)

    def block_diagonal(self, X: Array) -> Array:
        order, s = int(self.order), squared_norms(X)
        return s**order * (3.0 if order == 2 else 1.0) if order else (s > 0).astype(X.dtype)


def _polar(X: Array, Y: Array) -> tuple[tuple[Array, Array], tuple[Array, Array], Array]:
    """Return the norms and directions of the rows of X and of Y, and the angles between them, (n, m)."""
    x, y = np.sqrt(squared_norms(X)), np.sqrt(squared_norms(Y))
    U, V = X / np.where(x > 0, x, 1.0)[:, None], Y / np.where(y > 0, y, 1.0)[:, None]
    # the angle comes from the chord, which is exact for close directions; arccos of the product is not
    return (x, U), (y, V), 2.0 * np.arcsin(np.clip(np.sqrt(squared_distances(U, V)) / 2.0, 0.0, 1.0))


class AdditiveChi2(Kernel):
    """Additive χ² kernel Σ_j 2 x_j y_j / (x_j + y_j), for non-negative data such as histograms."""

    def block(self, X: Array, Y: Array) -> Array:
        X, Y = dense(X), dense(Y)
        self._check(X)
        self._check(Y)
        out = np.zeros((len(X), len(Y)), X.dtype)
        for x, y in zip(X.T, Y.T, strict=True):
            total = x[:, None] + y
            np.divide(2.0 * x[:, None] * y, total, out=total, where=total > 0)
            out += total
        return out

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        self._check(X)
        self._check(Y)
        out = np.empty(X.shape, X.dtype)
        for j, (x, y) in enumerate(zip(X.T, Y.T, strict=True)):
            share = np.divide(y, x[:, None] + y, out=np.zeros(W.shape, X.dtype), where=x[:, None] + y > 0)
            out[:, j] = 2.0 * np.einsum("ij,ij,ij->i", W, share, share)
        return out

    def _check(self, X: Array) -> None:
        if min(X.shape) and X.min() < 0:
            raise ValueError("AdditiveChi2 needs non-negative data (histograms, counts); found negative values.")

    def block_diagonal(self, X: Array) -> Array:
        self._check(X)
        return np.asarray(X.sum(axis=1)).ravel().astype(X.dtype)


class Sobolev(Kernel):
    """Sobolev kernel of first order, Π_j (1 + min(x_j, y_j)), for non-negative data.

    In one dimension it is the reproducing kernel of the functions on [0, ∞) with ‖f‖² = f(0)² + ∫ f'², and min(x, y) is
    the covariance of Brownian motion; in more, of functions with mixed first derivatives. Its kernel ridge regression
    is a spline of degree one. Scale the columns to [0, 1]: the larger the numbers, the weaker the penalty of slopes.

    `KernelFeatures` has random features of its own for it: whether a row is above a random point in every coordinate.

    Examples
    --------
    >>> from bochner import Sobolev
    >>> Sobolev()([[0.2], [0.5]])
    array([[1.2, 1.2],
           [1.2, 1.5]])
    """

    def block(self, X: Array, Y: Array) -> Array:
        X, Y = dense(X), dense(Y)
        self._check(X)
        self._check(Y)
        out = np.ones((len(X), len(Y)), X.dtype)
        for x, y in zip(X.T, Y.T, strict=True):
            out *= 1.0 + np.minimum(x[:, None], y)
        return out

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        K = W * self.block(X, Y)
        out = np.empty(X.shape, X.dtype)
        for j, (x, y) in enumerate(zip(X.T, Y.T, strict=True)):
            # the mean of the slopes on both sides where x = y
            slope = 0.5 * ((x[:, None] < y) + 1.0 * (x[:, None] <= y)) / (1.0 + np.minimum(x[:, None], y))
            out[:, j] = np.einsum("ij,ij->i", K, slope)
        return out

    def _check(self, X: Array) -> None:
        if min(X.shape) and X.min() < 0:
            raise ValueError("Sobolev needs non-negative data, best scaled to [0, 1]; found negative values.")

    def block_diagonal(self, X: Array) -> Array:
        X = dense(X)
        self._check(X)
        return np.asarray(np.prod(1.0 + X, axis=1)).astype(X.dtype)


# kernels that `as_kernel` makes from names; a new kernel adds a line here and its name to __all__
NAMES: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "polynomial": Polynomial,
    "poly": Polynomial,
    "exponential_dot": ExponentialDot,
    "arc_cosine": ArcCosine,
    "additive_chi2": AdditiveChi2,
    "sobolev": Sobolev,
}
