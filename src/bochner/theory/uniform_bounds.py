"""Uniform bounds: the largest error of random Fourier features over a whole domain, not over a sample.

All proofs follow the same argument. The error f(lag) = estimate - k is small at all points of a net (a union bound over
`PointwiseBound`) and its slope L is not large (by a moment or a tail of the frequencies), so it is small between the
points too. The rules differ in how they bound the slope:

* The classical proof claims E L² <= E||w||². That step fails: the lag of steepest slope depends on the draw, so the
  mean gradient there is not the gradient of k. One frequency of the one-dimensional Gaussian kernel on a long interval
  has E L² > E||w||² (1.16 against 1). "rahimi-recht" and "sutherland-schneider" are the formulas as printed, which
  depend on that step.
* "corrected" uses a step that holds: L <= mean ||w_i|| + sup||grad k|| and so E L² <= (sigma + kappa)² with
  sigma² = E||w||² and kappa² the largest eigenvalue of E w wᵀ; kappa = sigma / sqrt(d) for radial kernels. The
  classical constant 2⁸ is so large that the result is still true: for radial kernels and eps <= sigma · diameter the
  printed Rahimi-Recht inequality follows from the corrected one.
* `GaussianUniformBound` replaces second moments by the Gaussian tail of the largest singular value, and uses the
  symmetry f(-lag) = f(lag) and the variance of the summands. For the Gaussian kernel it is the sharpest one here.

All need E||w||² < inf. It is infinite for the Laplacian and exponential kernels and every Matérn kernel with nu <= 1:
the bounds say nothing there, and raise an error. `AllPairsBound` needs no moment.

Coverings, packings and slopes turn bounds at points into bounds everywhere. An eps-net of a set is a subset such that
every point of the set is *within* eps of some centre; an eps-packing is a subset whose members are pairwise *more* than
eps apart. A maximal packing is a net, and `eps_net` returns one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

from bochner.checks import check_choice, check_count, check_points, check_positive
from bochner.theory.bounds import Count, ErrorBound, Positive, TailBound
from bochner.theory.feature_bounds import RANGE, Form, Variance, tail_error, tail_rate

_BLOCK = 512  # rows in a block of distances, which holds 512 × n_samples float64 numbers


def log_covering_number(n_features: int, radius: float, eps: float) -> float:
    """Return the logarithm of `covering_number`, for dimensions in which the number itself overflows.

    Parameters
    ----------
    n_features, radius, eps
        As in `covering_number`.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.log_covering_number(1000, 1.0, 0.1), 1)
    3044.5
    """
    d = check_count("n_features", n_features)
    R, r = check_positive("radius", radius), check_positive("eps", eps)
    return 0.0 if r >= R else d * math.log1p(2 * R / r)


def covering_number(n_features: int, radius: float, eps: float) -> float:
    r"""Bound the number of eps-balls, centred in the set, that cover any subset of a ball.

    .. math:: N_\varepsilon \le (1 + 2R/\varepsilon)^d \le (4R/\varepsilon)^d \quad (\varepsilon \le 2R)

    and 1 if one ball is enough; ``math.inf`` if the number overflows (see `log_covering_number`).

    Proof by volumes: balls of radius eps/2 around the points of a maximal packing are disjoint and lie in a ball of
    radius R + eps/2. Looseness: volumes also give the lower bound (R/eps)^d for the ball, so the factor is at most 3^d
    for eps <= R; for an interval it approaches 2 as eps shrinks.

    Parameters
    ----------
    n_features : int
        Dimension d.
    radius : float
        Radius R of a ball that contains the set; if eps >= R, its centre must be a point of the set.
    eps : float
        Radius of the covering balls.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.covering_number(2, 1.0, 0.1))
    441
    """
    log_number = log_covering_number(n_features, radius, eps)
    return math.exp(log_number) if log_number < 700 else math.inf


def _distances(X: NDArray[np.float64], center: NDArray[np.float64]) -> NDArray[np.float64]:
    distances: NDArray[np.float64] = np.sqrt(((X - center) ** 2).sum(axis=1))
    return distances


def eps_net(X: ArrayLike, eps: float) -> NDArray[np.intp]:
    """Choose rows of X that form an eps-net and an eps-packing of X, by farthest-point traversal from row 0.

    Gonzalez (1985): no net with fewer centres has half the covering radius. The size is at most `covering_number`; the
    cost is that of n_samples · size distances.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The points.
    eps : float
        Every row is within eps of a chosen row, and chosen rows are more than eps apart.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> theory.eps_net(np.linspace(0, 1, 11).reshape(-1, 1), 0.25)
    array([ 0, 10,  5])
    """
    X = check_points("X", X)
    eps = check_positive("eps", eps)
    chosen = [0]
    nearest = _distances(X, X[0])
    while nearest.max() > eps:
        chosen.append(int(nearest.argmax()))
        np.minimum(nearest, _distances(X, X[chosen[-1]]), out=nearest)
    return np.array(chosen, dtype=np.intp)


def covering_radius(X: ArrayLike, centers: ArrayLike) -> float:
    """Return the largest distance of a row of X from its nearest center: the least eps for which they are an eps-net.

    Parameters
    ----------
    X, centers : arrays of shape (n_samples, n_features) and (n_centers, n_features)
        The points and the centers.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.covering_radius([[0.0], [1.0], [3.0]], [[0.0], [2.0]])
    1.0
    """
    X, centers = check_points("X", X), check_points("centers", centers)
    if X.shape[1] != centers.shape[1]:
        raise ValueError(
            f"X and centers must have equally many columns, got {X.shape[1]} and {centers.shape[1]}. "
            "Take the centers from the same space."
        )
    nearest = np.full(len(X), math.inf)
    for center in centers:
        np.minimum(nearest, _distances(X, center), out=nearest)
    return float(nearest.max())


def packing_radius(centers: ArrayLike) -> float:
    """Return half the smallest distance between two centers: open balls of this radius around them are disjoint.

    Parameters
    ----------
    centers : array of shape (n_centers, n_features)
        At least two points.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.packing_radius([[0.0], [1.0], [3.0]])
    0.5
    """
    centers = check_points("centers", centers)
    if len(centers) < 2:
        raise ValueError("centers must have at least two rows to be apart, got one. Pass the whole packing.")
    return min(float(_distances(centers[:i], centers[i]).min()) for i in range(1, len(centers))) / 2


def lipschitz_constant(X: ArrayLike, values: ArrayLike) -> float:
    """Return the largest slope |f(x) - f(y)| / ||x - y|| in a sample, which bounds the Lipschitz constant from below.

    It approaches the constant from below as the sample fills the domain, and is ``math.inf`` if f takes two values at
    one point. Computes O(n_samples²) distances, in blocks.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The points, at least two of them distinct.
    values : array of shape (n_samples,)
        f at the points.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> round(theory.lipschitz_constant(x, x[:, 0] ** 2), 2)
    1.99
    """
    X = check_points("X", X)
    f = np.asarray(values, dtype=np.float64)
    if f.shape != (len(X),) or not np.isfinite(f).all():
        raise ValueError(
            f"values must be {len(X)} finite numbers, one for each row of X, got shape {f.shape}. Ravel it."
        )
    steepest = 0.0
    for start in range(0, len(X), _BLOCK):
        stop = min(start + _BLOCK, len(X))
        gaps = np.abs(f[start:stop, None] - f[None, :stop])
        squares = np.zeros_like(gaps)
        for column in X.T:
            squares += (column[start:stop, None] - column[None, :stop]) ** 2
        if (gaps[squares == 0] > 0).any():
            return math.inf
        steepest = max(steepest, float((gaps / np.sqrt(np.where(squares == 0, 1, squares))).max()))
    return steepest


_KERNELS = ("rbf", "matern", "rational_quadratic", "cauchy", "exponential", "laplacian")


def spectral_second_moment(
    kernel: str, n_features: int, *, length_scale: float = 1.0, nu: float | None = None
) -> float:
    r"""Return E||w||² of the frequencies of a stationary kernel, which is minus the Laplacian of k at zero.

    ============================  ==========================================================================
    kernel                        E||w||² · length_scale² / n_features
    ============================  ==========================================================================
    "rbf"                         1
    "matern"                      nu / (nu - 1) for nu > 1, else infinite
    "rational_quadratic"          1, whatever its exponent
    "cauchy"                      2: the product of 1 / (1 + t²), whose frequencies are Laplace variables
    "exponential", "laplacian"    infinite
    ============================  ==========================================================================

    Parameters
    ----------
    kernel : str
        One of the names in the table.
    n_features : int
        Dimension of the inputs.
    length_scale : float
        As in exp(-||x - y||² / (2 length_scale²)).
    nu : float, optional
        Smoothness, for "matern" only.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.spectral_second_moment("rbf", 5), theory.spectral_second_moment("matern", 5, nu=1.5)
    (5.0, 15.0)
    >>> theory.spectral_second_moment("laplacian", 5)
    inf
    """
    kernel = check_choice("kernel", kernel, _KERNELS)
    d = check_count("n_features", n_features)
    scale = check_positive("length_scale", length_scale)
    if (kernel == "matern") != (nu is not None):
        raise ValueError(
            f"nu goes with kernel='matern' and only with it; got kernel={kernel!r}, nu={nu!r}. Change one."
        )
    factor = {"rbf": 1.0, "rational_quadratic": 1.0, "cauchy": 2.0}.get(kernel, math.inf)
    if nu is not None:
        nu = check_positive("nu", nu)
        factor = nu / (nu - 1) if nu > 1 else math.inf
    return d * factor / scale**2


def _finite_moment(name: str, value: float) -> float:
    if value == math.inf:
        raise ValueError(
            f"{name} is infinite: the frequencies of Laplacian, exponential and Matérn (nu <= 1) kernels have no "
            "second moment, and uniform bounds of this kind are void. Use AllPairsBound on a finite set of points."
        )
    return check_positive(name, value)


Moment = Annotated[float, _finite_moment]
Rule = Annotated[str, partial(check_choice, choices=("corrected", "sutherland-schneider", "rahimi-recht"))]


@dataclass(frozen=True, kw_only=True)
class UniformBound(TailBound):
    r"""Largest error of the kernel estimate on a domain of given diameter; size is n_frequencies.

    With :math:`\sigma^2 = E\|w\|^2`, :math:`\kappa^2 = \lambda_{\max}(E ww^T)` and :math:`\ell` the diameter, the
    probability of an error of eps or more is at most, by rule "corrected" and for pairs,

    .. math:: \beta_d \Bigl(\frac{(\sigma + \kappa)\ell}{\varepsilon}\Bigr)^{2d/(d+2)}
              \exp\Bigl(-\frac{T\varepsilon^2}{4(d+2)\alpha_\varepsilon}\Bigr), \quad
              \beta_d = \bigl[(d/2)^{-d/(d+2)} + (d/2)^{2/(d+2)}\bigr] 2^{(6d+2)/(d+2)},

    or :math:`((\sigma+\kappa)\ell/\varepsilon)^2` if smaller; :math:`\alpha_\varepsilon = \min(1, v +
    \varepsilon/3)`. "sutherland-schneider" has :math:`\sigma` for :math:`\sigma + \kappa`; "rahimi-recht" is
    :math:`2^8 (\sigma\ell/\varepsilon)^2 \exp(-T\varepsilon^2/(4(d+2)))`. With offsets the error
    is a function of pairs of points, so that d becomes 2d in the net. No error reaches 2 (pairs) or 3 (offset).

    Sources: Rahimi and Recht (2007); the proof of Mohri, Rostamizadeh and Talwalkar (2012), Foundations of Machine
    Learning, section 12.5; Sutherland and Schneider (2015), constants beta_d <= 66 and <= 98 (offset).
    Looseness of the error, Gaussian kernel with length_scale 1, diameter 4, T = 1000, delta = 0.05, relative to the
    95 % quantile of the error itself (benchmarks/bench_bounds.py): "rahimi-recht" 7.4, 5.5, 5.6 in 1, 5, 20 dimensions;
    "corrected" 5.7, 5.0, 5.3, and 4.4, 4.1, 4.8 with variance = 1/2; "sutherland-schneider" 4.2, 4.0, 4.7 with it.
    Offsets in one dimension: 8.7, and 5.0 with variance = 1. The looseness of the size is the square
    of these: with data at hand, measure the error instead.

    Parameters
    ----------
    n_features : int
        Dimension d of the inputs.
    diameter : float
        Largest distance between two points of the domain, which may be any set.
    second_moment : float
        E||w||², from `spectral_second_moment`; must be finite.
    top_moment : float, optional
        Largest eigenvalue of E w wᵀ. The default is second_moment / n_features, which is right for radial kernels and
        for features that are all treated alike. With one length scale per feature it is
        1 / min(length_scale)² for the Gaussian kernel.
    form : {"pairs", "offset"}
        Cosine and sine pairs, or cosines with uniform phases. "rahimi-recht" is for pairs only.
    variance : float, optional
        Largest variance v of one frequency over the domain; 1/2 for the Gaussian kernel and pairs. None uses
        Hoeffding's inequality.
    rule : {"corrected", "sutherland-schneider", "rahimi-recht"}
        Only "corrected" is proved; see the docstring of the module.

    Examples
    --------
    >>> from bochner import theory
    >>> domain = dict(n_features=1, diameter=4.0, second_moment=1.0)
    >>> rules = ("corrected", "sutherland-schneider", "rahimi-recht")
    >>> [round(theory.UniformBound(**domain, rule=rule).failure(2000, 0.3), 6) for rule in rules]
    [3.3e-05, 2.1e-05, 0.013922]
    >>> [round(theory.UniformBound(**domain, variance=v).error(1000, delta=0.05), 3) for v in (None, 0.5)]
    [0.303, 0.233]
    >>> theory.UniformBound(**domain).size(0.1, delta=0.01)
    12014
    """

    n_features: Count
    diameter: Positive
    second_moment: Moment
    top_moment: Annotated[float | None, check_positive] = None
    form: Form = "pairs"
    variance: Variance = None
    rule: Rule = "corrected"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rule == "rahimi-recht" and self.form != "pairs":
            raise ValueError("rule='rahimi-recht' is for form='pairs'; got form='offset'. Use rule='corrected'.")
        mean, top = self.second_moment / self.n_features, self._top
        if not mean * (1 - 1e-9) <= top <= self.second_moment * (1 + 1e-9):
            raise ValueError(
                f"top_moment must lie between second_moment / n_features = {mean:g} and second_moment = "
                f"{self.second_moment:g}, got {top:g}. Pass the largest eigenvalue of the frequencies' covariance."
            )

    @property
    def _top(self) -> float:
        return self.second_moment / self.n_features if self.top_moment is None else self.top_moment

    @property
    def limit(self) -> float:
        return 1 + RANGE[self.form]

    def _failure(self, T: int, eps: float) -> float:
        d, sigma = self.n_features, math.sqrt(self.second_moment)
        ratio = sigma * self.diameter / eps
        if self.rule == "corrected":
            return self._corrected(T, eps, sigma, math.sqrt(self._top))
        if self.rule == "rahimi-recht":
            return 256 * ratio**2 * math.exp(-T * eps**2 / (4 * (d + 2)))
        if self.form == "pairs":
            return _net(d, self.diameter, sigma, eps, self._exponent(T, eps))
        alpha = 1.0 if self.variance is None else min(1.0, self.variance / 4 + eps / 6)
        e = d / (d + 1)
        beta = (math.pow(d, -e) + math.pow(d, 1 - e)) * math.pow(2, 1 + 4 * e) * math.pow(3, e)
        return beta * math.pow(ratio, 2 * e) * math.exp(-T * eps**2 / (32 * (d + 1) * alpha))

    def _corrected(self, T: int, eps: float, sigma: float, kappa: float) -> float:
        if self.form == "pairs":
            n, radius, slope = self.n_features, self.diameter, sigma + kappa
            # A single ball is a net too, and pairs have no error at its centre, lag zero.
            single = (slope * radius / eps) ** 2
        else:  # f(x, y) on pairs of points: radius sqrt(2) diameter, gradient at most 2||w|| + sqrt(2)||grad k||
            n, radius, slope = 2 * self.n_features, math.sqrt(2) * self.diameter, 2 * sigma + math.sqrt(2) * kappa
            single = 2 * math.exp(-self._exponent(T, eps)) + (2 * slope * radius / eps) ** 2
        # (4 radius / r)^n balls are a cover if r <= 2 radius, and the best r is below eps / (2 slope) if the bound is
        # below 1. An error of more than 4 slope radius is also one of at least 4 slope radius.
        eps = min(eps, 4 * slope * radius)
        return min(single, _net(n, radius, slope, eps, self._exponent(T, eps)))

    def _exponent(self, T: int, eps: float) -> float:
        return T * tail_rate(eps / 2, self.form, self.variance)


def _net(n: int, radius: float, slope: float, eps: float, exponent: float) -> float:
    """Minimise 2 (4 radius / r)^n exp(-exponent) + (2 slope r / eps)² over r in closed form; at most 1."""
    log_shape = math.log((n / 2) ** (-n / (n + 2)) + (n / 2) ** (2 / (n + 2)))
    log_cover = math.log(2) + n * math.log(4 * radius) - exponent
    return math.exp(min(0.0, log_shape + (2 * log_cover + 2 * n * math.log(2 * slope / eps)) / (n + 2)))


@dataclass(frozen=True, kw_only=True)
class GaussianUniformBound(ErrorBound):
    r"""Largest error of pairs for the Gaussian kernel on a domain of given diameter; size is n_frequencies.

    .. math:: \min_r\; e(T, \delta_1 / N_r)
              + \frac{r}{s}\Bigl(1 + \sqrt{d/T} + \sqrt{2\ln(1/\delta_2)/T} + e^{-1/2}\Bigr)

    with probability :math:`1 - \delta`, where e is the error of `PointwiseBound` with variance 1/2, :math:`N_r =
    ((1 + 2\ell/r)^d + 1)/2` covers the ball of lags up to sign, s is the length scale, :math:`\delta_1 = 0.9\delta` and
    :math:`\delta_2 = 0.1\delta`. No error reaches 2.

    Proof: (1/T) Σ|u.w_i| <= s_max(W)/sqrt(T) and s_max of a normal matrix is at most sqrt(T) + sqrt(d) +
    sqrt(2 ln(1/delta_2)) (Davidson and Szarek 2001); the gradient of k is at most exp(-1/2) / s. Take a
    maximal set of lags that are more than r apart even after changes of sign: the balls of radius r/2 around them and
    their negatives are disjoint, except for one pair around the centre. The bound is our own. Looseness in the setting
    of `UniformBound`: 2.2, 2.1, 2.4 in 1, 5, 20 dimensions.

    Parameters
    ----------
    n_features : int
        Dimension d of the inputs.
    diameter : float
        Largest distance between two points of the domain, which may be any set.
    length_scale : float
        As in exp(-||x - y||² / (2 length_scale²)). With one per feature, divide the data by them and pass 1.

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.GaussianUniformBound(n_features=1, diameter=4.0)
    >>> round(bound.error(1000, delta=0.05), 3), bound.size(0.1, delta=0.01)
    (0.118, 1574)
    """

    n_features: Count
    diameter: Positive
    length_scale: Positive = 1.0

    @property
    def limit(self) -> float:
        return 1 + RANGE["pairs"]

    def _error(self, T: int, delta: float) -> float:
        d, radius = self.n_features, self.diameter / self.length_scale
        slope = 1 + math.sqrt(d / T) + math.sqrt(2 * math.log(10 / delta) / T) + math.exp(-0.5)

        def bound(log_r: float) -> float:
            log_cover = log_covering_number(d, radius, math.exp(log_r))
            log_half = log_cover + math.log1p(math.exp(-log_cover)) - math.log(2)  # (N + 1) / 2
            return tail_error(T, math.log(2 / (0.9 * delta)) + log_half, "pairs", 0.5) + slope * math.exp(log_r)

        centre = math.log(radius / math.sqrt(T))
        best = optimize.minimize_scalar(bound, bounds=(centre - 12, centre + 5), method="bounded")
        # There is no error at lag zero, so the slope alone gives a bound as well.
        return min(self.limit, float(best.fun), slope * radius)
