"""Kernels of (x - y) / length_scale. A radial kernel is two formulas: its profile and its mixing distribution."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from scipy.special import gammaln, kve
from sklearn.base import clone

from bochner.backends import Array, backend_of, is_host, is_sparse, n_threads
from bochner.backends.threads import each
from bochner.checks import ArgumentError, check_positive, is_positive
from bochner.draws import mixtures
from bochner.kernels.algebra import Kernel, Tile, check_function, dense, entrywise, numeric_slope, squared_norms

if TYPE_CHECKING:
    from bochner.draws.radii import NumericRadii

__all__ = ["RBF", "Cauchy", "Exponential", "Laplacian", "Matern", "Radial", "RationalQuadratic", "Separable"]

_LARGEST_NU = 1e6  # a Matérn kernel with larger nu is Gaussian to seven digits
_PIECE = 1 << 15  # kernel values computed at a time, so that they stay in the cache
_SHORTEST = 1e-300  # shortest length scale accepted: the inverse of a shorter one overflows
_RULES = ("median", "mean", "auto")  # length scales that are taken from the data


@dataclass(eq=False, repr=False)
class StationaryKernel(Kernel):
    """A kernel of (x - y) / length_scale, equal to one at zero."""

    length_scale: Any = 1.0

    stationary = True

    def __post_init__(self) -> None:
        value = self.length_scale
        if isinstance(value, str) and value in _RULES:
            return
        if not is_positive(value):
            raise ArgumentError(
                "length_scale must be positive and finite, a number or one for each feature, or "
                f"{', '.join(map(repr, _RULES[:-1]))} or {_RULES[-1]!r}; got {value!r}."
            )
        if (np.asarray(value, dtype=float) < _SHORTEST).any():
            raise ArgumentError(
                f"length_scale must be at least {_SHORTEST:.0e}, got {value!r}; multiply the data by a constant."
            )

    def scales(self, n_features: int) -> Array:
        """Return the length scale as numbers: 0-dimensional, or one for each feature."""
        value = self.length_scale
        if isinstance(value, str):
            raise ValueError(
                f"length_scale={value!r} is chosen from data: fit an estimator with this kernel, or call "
                "kernel.resolve(X) first."
            )
        scales = np.asarray(value, dtype=float)
        if scales.ndim == 1 and len(scales) == 1:
            scales = scales[0]
        if scales.ndim == 1 and len(scales) != n_features:
            raise ValueError(
                f"length_scale has {len(scales)} values but the data has {n_features} features; give one value "
                "per feature, or a single number."
            )
        return np.asarray(scales)

    def _scaled(self, X: Array) -> Array:
        inverse = backend_of(X).place(1.0 / self.scales(X.shape[1]), X)
        return X.multiply(inverse).tocsr() if is_sparse(X) else X * inverse

    def block_diagonal(self, X: Array) -> Array:
        return np.ones(X.shape[0], X.dtype)

    @abstractmethod
    def distances(self, X: Array, Y: Array) -> Array:
        """Return the distances that this kernel measures, from which a length scale is chosen."""

    @property
    def profile_name(self) -> str | None:
        """Name of this kernel in `PROFILES`, whose values a backend computes; None if it is not there."""
        return None

    def _values(self, X: Array, Y: Array, name: str) -> Array:
        """Return the block of dense rows, computed by the backend."""
        X, Y = dense(self._scaled(X)), dense(self._scaled(Y))
        backend = backend_of(X)
        out = backend.empty((len(X), len(Y)), X)
        backend.kernel_values(X, Y, name, out)
        return out

    def tile(self, X: Array, Y: Array) -> Tile | None:
        name = self.profile_name
        return None if name is None else (self._scaled(X), self._scaled(Y), (name, 1))

    def with_scales(self, sample: Array, weight: Array) -> Kernel:
        kernel = clone(self)
        if isinstance(self.length_scale, str):
            size = float(abs(sample).max()) or 1.0  # squares of 1e30 or 1e-30 do not fit into float32
            if not np.isfinite(size):
                raise ValueError("X contains NaN or infinity, from which no length scale can be taken.")
            sample = sample.astype(np.float64) / size
            weight = weight / weight.max()
            if self.length_scale != "mean":  # models tune "auto"; elsewhere it means the median
                i, j = np.triu_indices(sample.shape[0], 1)
                r, weight = self.distances(sample, sample)[i, j], weight[i] * weight[j]
            else:
                centre = np.asarray(weight @ sample / weight.sum()).reshape(1, -1)
                r = self.distances(sample, centre).ravel()
            apart = r > 1e-12 * r.max(initial=0.0)  # duplicates up to rounding are left out
            r, weight = r[apart], weight[apart]
            centre_of = np.average if self.length_scale == "mean" else _median
            kernel.set_params(length_scale=size * float(centre_of(r, weights=weight)) if len(r) else 1.0)
        return kernel


def _median(values: Array, weights: Array) -> float:
    """Return the weighted median, the middle of two values if all between them qualify."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    low, high = (np.searchsorted(total, total[-1] * half) for half in (0.5 - 1e-12, 0.5 + 1e-12))
    return float(values[order[low]] + values[order[high]]) / 2.0


class RadialKernel(StationaryKernel):
    """A kernel of r = ||x - y|| / length_scale. A subclass writes `profile` and `mixing`."""

    @abstractmethod
    def profile(self, r: Array) -> Array:
        """Return k as a function of r."""

    def slope(self, r: Array) -> Array:
        """Return the derivative of the profile, for r > 0."""
        return numeric_slope(self.profile, r, even=True)

    @abstractmethod
    def mixing(self, u: Array) -> Array:
        """Map uniforms (n,) to scales s (n,) such that k(r) = E exp(-s² r² / 2)."""

    def lengths(self, u: Array, n_features: int) -> Array | None:
        """Map uniforms (n,) to lengths of frequencies in n_features dimensions; None if `mixing` is used instead."""
        return None

    def distances(self, X: Array, Y: Array) -> Array:
        d2 = squared_distances(X, Y)
        return in_pieces(backend_of(d2).xp.sqrt, d2)

    def block(self, X: Array, Y: Array) -> Array:
        name = self.profile_name
        if name is not None and not (is_sparse(X) or is_sparse(Y)):
            return self._values(X, Y, name)
        return in_pieces(self.profile, self.distances(self._scaled(X), self._scaled(Y)))

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        backend = backend_of(X)
        scales = backend.place(self.scales(X.shape[1]), X)
        # centred rows lose fewer digits in the products below; an outlier moves a mean but not a median
        few = backend.fetch(Y[:: max(1, len(Y) // 64)])
        centre = backend.place(np.median(few, axis=0) if len(few) else np.zeros(X.shape[1]), X) / scales
        X, Y = dense(X / scales - centre), dense(Y / scales - centre)
        if self.profile_name is not None:
            slopes = backend.empty((len(X), len(Y)), X)
            backend.kernel_values(X, Y, f"{self.profile_name} slope", slopes)
            slopes *= W
        else:
            r = self.distances(X, Y)
            apart = (r > 0) & (r < np.inf)  # a kernel is flat where squares of distances overflow
            r[~apart] = 1
            slopes = backend.xp.where(apart, W * (self.slope(r) / r), 0)
        if not is_host(X):
            return (slopes.sum(axis=1)[:, None] * X - slopes @ Y) / scales
        # in float64, because slopes of rough kernels grow like one over the distance that the difference cancels to
        slopes = slopes.astype(np.float64, copy=False)
        sums = (slopes.sum(axis=1)[:, None] * X - slopes @ Y.astype(np.float64, copy=False)) / scales
        return sums.astype(X.dtype, copy=False)


class RBF(RadialKernel):
    r"""Gaussian kernel exp(-r²/2), r = ||x - y|| / length_scale.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
        One scale, one for each feature, or chosen from the data in `fit`: the median distance, or the mean distance to
        the mean.

    Examples
    --------
    >>> from bochner import RBF
    >>> RBF(2.0)([[0.0, 0.0]], [[2.0, 0.0]]).round(4)
    array([[0.6065]])
    """

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, r: Array) -> Array:
        return backend_of(r).xp.exp(-0.5 * r * r)

    @property
    def profile_name(self) -> str | None:
        return "gaussian"

    def mixing(self, u: Array) -> Array:
        return np.ones_like(u)


@dataclass(eq=False, repr=False)
class Matern(RadialKernel):
    r"""Matérn kernel 2^(1-ν)/Γ(ν) (√(2ν) r)^ν K_ν(√(2ν) r); ν = 1/2 is exponential, ν → ∞ Gaussian.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
    nu : float
        Smoothness: sample paths are differentiable ⌈nu⌉ - 1 times.

    Examples
    --------
    >>> from bochner import Matern
    >>> Matern(1.0, nu=0.5)([[0.0]], [[1.0]]).round(4)
    array([[0.3679]])
    """

    nu: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if check_positive("nu", self.nu, advice="Use RBF for nu → infinity.") > _LARGEST_NU:
            raise ArgumentError(f"nu must be at most {_LARGEST_NU:.0e}, got {self.nu!r}. Use RBF for nu → infinity.")

    @property
    def runs_on_device(self) -> bool:
        return self.nu in (0.5, 1.5, 2.5)

    def profile(self, r: Array) -> Array:
        nu, xp = float(self.nu), backend_of(r).xp
        a = float(np.sqrt(2.0 * nu)) * xp.clip(r, None, 1e8)  # a larger a would make a·exp(-a) ∞·0
        exp = xp.exp
        if nu == 0.5:
            return exp(-a)
        if nu == 1.5:
            return (1.0 + a) * exp(-a)
        if nu == 2.5:
            return (1.0 + a + a * a / 3.0) * exp(-a)
        a = a.astype(float)
        least = max(
            10.0 ** (-8.0 / min(nu, 1.0)), 1e-290
        )  # K_ν is infinite at 0, but the product is 1 - O(a² + a^(2ν))
        small = a < least
        a = np.maximum(a, least)
        log_k = (1.0 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(a) + _log_bessel_k(nu, a)
        return np.where(small, 1.0, np.exp(log_k)).astype(r.dtype)

    def slope(self, r: Array) -> Array:
        nu, root = float(self.nu), float(np.sqrt(2.0 * float(self.nu)))
        a = np.clip(root * np.minimum(r.astype(float), 1e8), 1e-290, None)  # (a^ν K_ν(a))' = -a^ν K_(ν-1)(a)
        log_k = (1.0 - nu) * np.log(2.0) - gammaln(nu) + nu * np.log(a) + _log_bessel_k(abs(nu - 1.0), a)
        return np.asarray(-root * np.exp(log_k))

    @property
    def profile_name(self) -> str | None:
        return {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}.get(float(self.nu))

    def mixing(self, u: Array) -> Array:
        return mixtures.matern_mixing(u, float(self.nu))


def _log_bessel_k(nu: float, a: Array) -> Array:
    """Return log K_ν(a), without overflow for large ν."""
    if nu <= 30.0:
        return np.log(kve(nu, a)) - a
    # Debye's uniform expansion to ν^-3 (DLMF 10.41.4): relative error below 1e-7 for ν > 30
    z = a / nu
    root = np.sqrt(1.0 + z * z)
    t = 1.0 / root
    eta = root + np.log(z / (1.0 + root))
    u1 = (3.0 * t - 5.0 * t**3) / 24.0
    u2 = (81.0 * t**2 - 462.0 * t**4 + 385.0 * t**6) / 1152.0
    u3 = (30375.0 * t**3 - 369603.0 * t**5 + 765765.0 * t**7 - 425425.0 * t**9) / 414720.0
    series = 1.0 - u1 / nu + u2 / nu**2 - u3 / nu**3
    return 0.5 * np.log(np.pi / (2.0 * nu)) - nu * eta - 0.5 * np.log(root) + np.log(series)


class Exponential(RadialKernel):
    r"""Exponential kernel exp(-r), r = ||x - y|| / length_scale: the Matérn kernel with ν = 1/2.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
    """

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, r: Array) -> Array:
        return backend_of(r).xp.exp(-r)

    @property
    def profile_name(self) -> str | None:
        return "matern12"

    def mixing(self, u: Array) -> Array:
        return mixtures.matern_mixing(u, 0.5)


@dataclass(eq=False, repr=False)
class RationalQuadratic(RadialKernel):
    r"""Rational quadratic kernel (1 + r²/(2α))^(-α): a Gamma mixture of Gaussians.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
    alpha : float
        Small values mix many scales, α → ∞ is the Gaussian kernel.
    """

    alpha: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("alpha", self.alpha)

    @property
    def runs_on_device(self) -> bool:
        return True

    def profile(self, r: Array) -> Array:
        alpha, xp = float(self.alpha), backend_of(r).xp
        return xp.exp(-alpha * xp.log1p(r * r / (2.0 * alpha)))

    def slope(self, r: Array) -> Array:
        alpha = float(self.alpha)
        return np.asarray(-r * np.exp(-(alpha + 1.0) * np.log1p(r * r / (2.0 * alpha))))

    def mixing(self, u: Array) -> Array:
        return mixtures.rational_quadratic_mixing(u, float(self.alpha))


class Radial(RadialKernel):
    """Any radial kernel given by its profile alone; the distribution of its frequencies is found numerically.

    Parameters
    ----------
    function : callable
        k as a function of r = ||x - y|| / length_scale, one at zero, positive definite in the dimension of the data.
        One that is positive definite in every dimension is a mixture of Gaussians, which is looked for first. Others
        (Wendland's, spherical, J₀) have a distribution in each dimension in which they are; in others, Fourier features
        raise an error that names the dimension and a frequency of negative density. The kernel of the distribution
        found is within 0.001 of the function; `diagnostics.spectral_check` says how close.
    length_scale : float, array of shape (n_features,), "median" or "mean"

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Radial
    >>> Radial(lambda r: 1 / np.sqrt(1 + r**2))([[0.0]], [[1.0]]).round(4)
    array([[0.7071]])
    """

    def __init__(self, function: Callable[[Array], Array], length_scale: Any = 1.0) -> None:
        self.function = function
        self.length_scale = length_scale
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_function(self.function)

    def profile(self, r: Array) -> Array:
        return entrywise(self.function, r)

    def mixing(self, u: Array) -> Array:
        return mixtures.numeric_mixing(self.function)(u)

    def lengths(self, u: Array, n_features: int) -> Array | None:
        if mixtures.numeric_mixing(self.function).residual <= mixtures.TOLERANCE:
            return None
        return _found(self.function, n_features)(u)


def _found(function: Callable[[Array], Array], n_features: int) -> NumericRadii:
    """Return the distribution of lengths in n_features dimensions, or raise an error that says why there is none."""
    from bochner.draws.radii import find_radii  # a slow import, only for profiles without a mixing distribution

    finding = find_radii(function, n_features)
    if finding.witness is not None:
        raise ValueError(
            f"this profile is not positive definite for {n_features} feature(s): {finding.how}. By Bochner's theorem "
            "it has no random frequencies. Use a profile that is positive definite in this dimension, or give "
            "this one fewer features: kernel.on([0]) uses the first alone."
        )
    if finding.law is None:
        raise ValueError(
            f"no distribution of frequencies was found for this profile and {n_features} feature(s): {finding.how}. "
            "Use NystromFeatures, which supports any kernel."
        )
    return finding.law


class SeparableKernel(StationaryKernel):
    """A product over coordinates of one-dimensional kernels. A subclass writes `profile` and `quantile`."""

    @abstractmethod
    def profile(self, r: Array) -> Array:
        """Return the kernel of one coordinate."""

    @abstractmethod
    def quantile(self, u: Array) -> Array:
        """Map uniforms of any shape to frequencies of one coordinate."""

    def distances(self, X: Array, Y: Array) -> Array:
        return np.sqrt(squared_distances(X, Y))

    def block(self, X: Array, Y: Array) -> Array:
        X, Y = dense(self._scaled(X)), dense(self._scaled(Y))
        out = np.ones((len(X), len(Y)), X.dtype)
        for x, y in zip(X.T, Y.T, strict=True):
            out *= self.profile(np.abs(x[:, None] - y))
        return out

    def slope(self, r: Array) -> Array:
        """Return the derivative of `profile`, for r > 0."""
        return numeric_slope(self.profile, r, even=True)

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        scales = self.scales(X.shape[1]).astype(X.dtype)
        X, Y = X / scales, Y / scales
        # product of the non-zero factors, and number of zeros: with one zero, only its own slope contributes
        product, zeros = np.array(W, X.dtype), np.zeros(W.shape, np.int32)
        for x, y in zip(X.T, Y.T, strict=True):
            factor = self.profile(np.abs(x[:, None] - y))
            zeros += factor == 0
            product *= np.where(factor == 0, 1, factor)
        out = np.empty(X.shape, X.dtype)
        for j, (x, y) in enumerate(zip(X.T, Y.T, strict=True)):
            difference = x[:, None] - y
            factor, r = self.profile(np.abs(difference)), np.abs(difference)
            rest = np.where(zeros == (factor == 0), product / np.where(factor == 0, 1, factor), 0)
            out[:, j] = np.einsum("ij,ij->i", rest, np.sign(difference) * self.slope(np.where(r > 0, r, 1)))
        return out / scales


class Laplacian(SeparableKernel):
    r"""Laplacian kernel exp(-Σ |x_j - y_j| / length_scale_j), in the L1 distance.

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
    """

    def profile(self, r: Array) -> Array:
        return np.asarray(np.exp(-r))

    def distances(self, X: Array, Y: Array) -> Array:
        X, Y = dense(X), dense(Y)
        backend = backend_of(X)
        out = backend.empty((len(X), len(Y)), X)
        backend.absolute_distances(X, Y, out)
        return out

    @property
    def runs_on_device(self) -> bool:
        return True

    @property
    def profile_name(self) -> str | None:
        return "laplacian"

    def block(self, X: Array, Y: Array) -> Array:
        return self._values(X, Y, "laplacian")

    def block_gradient(self, X: Array, Y: Array, W: Array) -> Array:
        X = dense(X)
        backend, weights = backend_of(X), self.block(X, Y)
        weights *= W
        out = backend.empty(tuple(X.shape), X)
        backend.signed_sums(X, Y, weights, out)
        return -out / backend.place(self.scales(X.shape[1]), X)

    def quantile(self, u: Array) -> Array:
        return mixtures.cauchy_quantile(u)


class Separable(SeparableKernel):
    """Π_j function(|x_j - y_j| / length_scale_j) for any one-dimensional positive definite function.

    Parameters
    ----------
    function : callable
        The kernel of one coordinate as a function of the distance, one at zero. Its frequencies are those of a function
        within 0.001 of it, found numerically at the function's own scale; one that is not positive definite on the line
        is refused.
    length_scale : float, array of shape (n_features,), "median" or "mean"
    """

    def __init__(self, function: Callable[[Array], Array], length_scale: Any = 1.0) -> None:
        self.function = function
        self.length_scale = length_scale
        self.__post_init__()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_function(self.function)

    def profile(self, r: Array) -> Array:
        return entrywise(self.function, r)

    def quantile(self, u: Array) -> Array:
        lengths = _found(self.function, 1)(np.abs(2.0 * u - 1.0))
        return np.asarray(np.where(u < 0.5, -lengths, lengths))


class Cauchy(SeparableKernel):
    r"""Cauchy kernel Π_j 1 / (1 + ((x_j - y_j) / length_scale_j)²).

    Parameters
    ----------
    length_scale : float, array of shape (n_features,), "median" or "mean"
    """

    def profile(self, r: Array) -> Array:
        """Return 1 / (1 + r²)."""
        return 1.0 / (1.0 + r * r)

    def slope(self, r: Array) -> Array:
        return -2.0 * r / (1.0 + r * r) ** 2

    def quantile(self, u: Array) -> Array:
        return mixtures.laplace_quantile(u)


# kernels that `as_kernel` makes from names; a new kernel adds a line here and its name to __all__
NAMES: dict[str, Callable[..., StationaryKernel]] = {
    "rbf": RBF,
    "gaussian": RBF,
    "matern": Matern,
    "matern12": lambda **p: Matern(nu=0.5, **p),
    "matern32": lambda **p: Matern(nu=1.5, **p),
    "matern52": lambda **p: Matern(nu=2.5, **p),
    "exponential": Exponential,
    "rational_quadratic": RationalQuadratic,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
}


def in_pieces(function: Callable[[Array], Array], values: Array) -> Array:
    """Apply an entrywise function: in host memory in place, in pieces that stay in the cache."""
    if not is_host(values) or values.size <= _PIECE:
        return function(values)
    step = max(1, _PIECE // values.shape[1])

    def apply(start: int) -> None:
        values[start : start + step] = function(values[start : start + step])

    each(apply, range(0, len(values), step), n_threads())
    return values


def squared_distances(X: Array, Y: Array) -> Array:
    """Return squared Euclidean distances (n, m), from the differences: no cancellation for close points."""
    if not (is_sparse(X) or is_sparse(Y)):
        X, Y = dense(X), dense(Y)
        backend = backend_of(X)
        out = backend.empty((len(X), len(Y)), X)
        backend.squared_distances(X, Y, out)
        return out
    return _sparse_squared_distances(X, Y)


def _sparse_squared_distances(X: Array, Y: Array) -> Array:
    """Return ‖x‖² + ‖y‖² - 2xy in float64; pairs that cancel are computed again from their differences."""
    dtype = np.result_type(X.dtype, Y.dtype)
    x, y = (scipy.sparse.csr_matrix(A, dtype=np.float64) for A in (X, Y))
    xx, yy = squared_norms(x), squared_norms(y)
    product = x @ y.T
    with np.errstate(over="ignore", invalid="ignore"):
        total = xx[:, None] + yy
        d2 = total - 2.0 * product.toarray()
        close_x, close_y = np.nonzero(~(d2 >= 1e-6 * total))  # also true if squares overflow
    for start in range(0, len(close_x), 1 << 14):
        pairs = slice(start, start + (1 << 14))
        difference = x[close_x[pairs]] - y[close_y[pairs]]
        d2[close_x[pairs], close_y[pairs]] = squared_norms(difference)
    return np.maximum(d2, 0.0).astype(dtype, copy=False)
