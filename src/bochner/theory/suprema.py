"""Uniform bounds: the largest error of random Fourier features over a whole domain, not over a sample.

The argument is always the same. The error f(lag) = estimate - k is small at the points of a net (a union
bound over `pointwise_failure`) and its slope L is not large (a moment or a tail of the frequencies), so it is
small between them. The rules differ in the slope:

* The classical proof claims E L² <= E||w||². That step fails: the lag of steepest slope depends on the draw,
  so the mean gradient there is not the gradient of k. One frequency of the one-dimensional Gaussian kernel on
  a long interval has E L² > E||w||² (1.16 against 1). "rahimi-recht" and "sutherland-schneider" are the
  formulas as printed, resting on that step.
* "corrected" uses what is true: L <= mean ||w_i|| + sup||grad k|| and so E L² <= (sigma + kappa)² with
  sigma² = E||w||² and kappa² the largest eigenvalue of E w wᵀ; kappa = sigma / sqrt(d) for radial kernels.
  It turns out that the classical constant 2⁸ was wasteful enough to survive: for radial kernels and
  eps <= sigma · diameter the printed Rahimi-Recht inequality follows from the corrected one.
* `gaussian_uniform_error` drops second moments for the Gaussian tail of the largest singular value, uses the
  symmetry f(-lag) = f(lag) and the variance of the summands; it is the sharpest here, for the Gaussian
  kernel.

All need E||w||² < inf. It is infinite for Laplacian, exponential and every Matérn kernel with nu <= 1: the
bounds are void there and these functions raise; `all_pairs_error` needs no moment.
"""

from __future__ import annotations

import math

from scipy import optimize

from bochner.theory import _arguments as check
from bochner.theory.coverings import log_covering_number
from bochner.theory.features import _RANGE, _error, _exponent, _variance

_RULES = ("corrected", "sutherland-schneider", "rahimi-recht")
_KERNELS = ("rbf", "matern", "rational_quadratic", "cauchy", "exponential", "laplacian")


def spectral_second_moment(
    kernel: str, n_features: int, *, length_scale: float = 1.0, nu: float | None = None
) -> float:
    r"""Second moment E||w||² of the frequencies of a stationary kernel: minus the Laplacian of k at zero.

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
        A name of the table.
    n_features : int
        Dimension of the inputs.
    length_scale : float
        As in exp(-||x - y||² / (2 length_scale²)).
    nu : float, optional
        Smoothness, for "matern" only.

    Returns
    -------
    float
        The moment; ``math.inf`` where it does not exist.

    Notes
    -----
    Looseness: none, an identity.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.spectral_second_moment("rbf", 5), theory.spectral_second_moment("matern", 5, nu=1.5)
    (5.0, 15.0)
    >>> theory.spectral_second_moment("laplacian", 5)
    inf
    """
    kernel = check.choice("kernel", kernel, _KERNELS)
    d = check.count("n_features", n_features)
    scale = check.positive("length_scale", length_scale)
    if (kernel == "matern") != (nu is not None):
        raise ValueError(
            f"nu goes with kernel='matern' and only with it; got kernel={kernel!r}, nu={nu!r}. Change one."
        )
    factor = {"rbf": 1.0, "rational_quadratic": 1.0, "cauchy": 2.0}.get(kernel, math.inf)
    if nu is not None:
        nu = check.positive("nu", nu)
        factor = nu / (nu - 1) if nu > 1 else math.inf
    return d * factor / scale**2


def _moment(second_moment: float) -> float:
    if second_moment == math.inf:
        raise ValueError(
            "second_moment is infinite: the frequencies of Laplacian, exponential and Matérn (nu <= 1) "
            "kernels have no second moment, and uniform bounds of this kind are void. Use all_pairs_error "
            "on a finite set of points."
        )
    return check.positive("second_moment", second_moment)


def _log_net(n: int, radius: float, slope: float, eps: float, exponent: float) -> float:
    """Log of min over r of 2 (4 radius / r)^n exp(-exponent) + (2 slope r / eps)², in closed form."""
    log_shape = math.log((n / 2) ** (-n / (n + 2)) + (n / 2) ** (2 / (n + 2)))
    log_cover = math.log(2) + n * math.log(4 * radius) - exponent
    return log_shape + (2 * log_cover + 2 * n * math.log(2 * slope / eps)) / (n + 2)


def uniform_failure(
    n_frequencies: int,
    eps: float,
    *,
    n_features: int,
    diameter: float,
    second_moment: float,
    form: str = "pairs",
    variance: float | None = None,
    top_moment: float | None = None,
    rule: str = "corrected",
) -> float:
    r"""Probability that the kernel estimate is off by eps or more somewhere on a domain of given diameter.

    With :math:`\sigma^2 = E\|w\|^2`, :math:`\kappa^2 = \lambda_{\max}(E ww^T)` and :math:`\ell` the diameter,
    "corrected" is, for pairs,

    .. math:: \beta_d \Bigl(\frac{(\sigma + \kappa)\ell}{\varepsilon}\Bigr)^{2d/(d+2)}
              \exp\Bigl(-\frac{T\varepsilon^2}{4(d+2)\alpha_\varepsilon}\Bigr), \quad
              \beta_d = \bigl[(d/2)^{-d/(d+2)} + (d/2)^{2/(d+2)}\bigr] 2^{(6d+2)/(d+2)},

    or :math:`((\sigma+\kappa)\ell/\varepsilon)^2` if smaller; :math:`\alpha_\varepsilon = \min(1, v +
    \varepsilon/3)`. "sutherland-schneider" has :math:`\sigma` for :math:`\sigma + \kappa`; "rahimi-recht" is
    :math:`2^8 (\sigma\ell/\varepsilon)^2 \exp(-T\varepsilon^2/(4(d+2)))`. Offsets live on pairs of points, so
    that d becomes 2d in the net.

    Parameters
    ----------
    n_frequencies : int
        Independent frequencies T; a pair map has twice as many columns.
    eps : float
        Absolute error of the kernel, with k(0) = 1.
    n_features : int
        Dimension d of the inputs.
    diameter : float
        Largest distance between two points of the domain, which may be any set.
    second_moment : float
        E||w||², from `spectral_second_moment`; must be finite.
    form : {"pairs", "offset"}
        Cosine and sine pairs, or cosines with uniform phases. "rahimi-recht" is for pairs only.
    variance : float, optional
        Largest variance of one frequency over the domain; 1/2 for the Gaussian kernel and pairs. None for
        Hoeffding's inequality.
    top_moment : float, optional
        Largest eigenvalue of E w wᵀ; second_moment / n_features (radial, or equal coordinates) unless given.
        With one length scale per feature it is 1 / min(length_scale)² for the Gaussian kernel.
    rule : {"corrected", "sutherland-schneider", "rahimi-recht"}
        Only "corrected" is proved; see the module.

    Returns
    -------
    float
        An upper bound on the probability, cut at 1.

    Notes
    -----
    Sources: Rahimi and Recht (2007); Sutherland and Schneider (2015), constants beta_d <= 66 and <= 98
    (offset). Looseness: see `uniform_error`.

    Examples
    --------
    >>> from bochner import theory
    >>> domain = dict(n_features=1, diameter=4.0, second_moment=1.0)
    >>> rules = ("corrected", "sutherland-schneider", "rahimi-recht")
    >>> [round(theory.uniform_failure(2000, 0.3, **domain, rule=rule), 6) for rule in rules]
    [3.3e-05, 2.1e-05, 0.013922]
    """
    T = check.count("n_frequencies", n_frequencies)
    eps = check.positive("eps", eps)
    d = check.count("n_features", n_features)
    size = check.positive("diameter", diameter)
    moment = _moment(second_moment)
    form = check.choice("form", form, _RANGE)
    rule = check.choice("rule", rule, _RULES)
    variance = _variance(variance)
    top = moment / d if top_moment is None else check.positive("top_moment", top_moment)
    if not moment / d * (1 - 1e-9) <= top <= moment * (1 + 1e-9):
        raise ValueError(
            f"top_moment must lie between second_moment / n_features = {moment / d:g} and "
            f"second_moment = {moment:g}, "
            f"got {top_moment!r}. Pass the largest eigenvalue of the covariance of the frequencies."
        )
    sigma, kappa = math.sqrt(moment), math.sqrt(top)
    if rule == "corrected":
        return _corrected(T, eps, d, size, sigma, kappa, form, variance)
    return _printed(T, eps, d, size, sigma, form, variance, rule)


def _corrected(
    T: int, eps: float, d: int, size: float, sigma: float, kappa: float, form: str, variance: float | None
) -> float:
    exponent = T * _exponent(eps / 2, form, variance)
    if form == "pairs":
        n, radius, slope = d, size, sigma + kappa
    else:  # f(x, y) on pairs of points: radius sqrt(2) diameter, gradient at most 2||w|| + sqrt(2)||grad k||
        n, radius, slope = 2 * d, math.sqrt(2) * size, 2 * sigma + math.sqrt(2) * kappa
    # (4 radius / r)^n covers for r <= 2 radius; the best r is below eps / (2 slope) if the bound is below 1.
    log_bound = _log_net(n, radius, slope, eps, exponent) if eps <= 4 * slope * radius else math.inf
    # One ball is a net too; pairs need no ball, being exact at lag zero.
    single = (slope * size / eps) ** 2 if form == "pairs" else 2 * math.exp(-exponent) + (2 * slope * radius / eps) ** 2
    return min(1.0, single, math.exp(min(log_bound, 0.0)))


def _printed(
    T: int, eps: float, d: int, size: float, sigma: float, form: str, variance: float | None, rule: str
) -> float:
    ratio = sigma * size / eps
    if rule == "rahimi-recht":
        if form != "pairs":
            raise ValueError("rule='rahimi-recht' is for form='pairs'; got form='offset'. Use rule='corrected'.")
        return min(1.0, 256 * ratio**2 * math.exp(-T * eps**2 / (4 * (d + 2))))
    if form == "pairs":
        return math.exp(min(_log_net(d, size, sigma, eps, T * _exponent(eps / 2, form, variance)), 0.0))
    alpha = 1.0 if variance is None else min(1.0, variance / 4 + eps / 6)
    e = d / (d + 1)
    beta = (math.pow(d, -e) + math.pow(d, 1 - e)) * math.pow(2, 1 + 4 * e) * math.pow(3, e)
    return min(1.0, beta * math.pow(ratio, 2 * e) * math.exp(-T * eps**2 / (32 * (d + 1) * alpha)))


def uniform_error(
    n_frequencies: int,
    *,
    delta: float,
    n_features: int,
    diameter: float,
    second_moment: float,
    form: str = "pairs",
    variance: float | None = None,
    top_moment: float | None = None,
    rule: str = "corrected",
) -> float:
    """Largest error over a domain, with probability 1 - delta: `uniform_failure` solved for eps.

    Parameters
    ----------
    n_frequencies : int
        Independent frequencies; a pair map has twice as many columns.
    delta : float
        Probability of failure.
    n_features, diameter, second_moment, form, variance, top_moment, rule
        As in `uniform_failure`.

    Returns
    -------
    float
        eps, in units of k(0); never above 2 (pairs) or 3 (offset), which the error cannot exceed.

    Notes
    -----
    Looseness, Gaussian kernel with length_scale 1, diameter 4, T = 1000, delta = 0.05, against the 95 %
    quantile of the error itself (benchmarks/bench_bounds.py): "rahimi-recht" 7.4, 5.5, 5.6 in 1, 5, 20
    dimensions; "corrected" 5.7, 5.0, 5.3, and 4.4, 4.1, 4.8 with variance = 1/2; "sutherland-schneider" 4.2,
    4.0, 4.7 with it. Offsets in one dimension: 8.7, and 5.0 with variance = 1.

    Examples
    --------
    >>> from bochner import theory
    >>> domain = dict(n_features=1, diameter=4.0, second_moment=1.0, delta=0.05)
    >>> round(theory.uniform_error(1000, **domain), 3)
    0.303
    >>> round(theory.uniform_error(1000, **domain, variance=0.5), 3)
    0.233
    >>> round(theory.uniform_error(1000, **domain, rule="rahimi-recht"), 3)
    0.397
    """
    delta = check.fraction("delta", delta)

    def failure(eps: float) -> float:
        return uniform_failure(
            n_frequencies,
            eps,
            n_features=n_features,
            diameter=diameter,
            second_moment=second_moment,
            form=form,
            variance=variance,
            top_moment=top_moment,
            rule=rule,
        )

    low, high = 1e-12, 1 + _RANGE[check.choice("form", form, _RANGE)]
    if failure(high) > delta:
        return high
    while high / low > 1 + 1e-12:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if failure(middle) <= delta else (middle, high)
    return high


def uniform_frequencies(
    eps: float,
    *,
    delta: float,
    n_features: int,
    diameter: float,
    second_moment: float,
    form: str = "pairs",
    variance: float | None = None,
    top_moment: float | None = None,
    rule: str = "corrected",
) -> int:
    """Frequencies that keep the error below eps over a whole domain, with probability 1 - delta.

    Parameters
    ----------
    eps : float
        Absolute error of the kernel, with k(0) = 1.
    delta : float
        Probability of failure.
    n_features, diameter, second_moment, form, variance, top_moment, rule
        As in `uniform_failure`.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    Looseness: the square of `uniform_error`'s. Measure instead wherever data are at hand.

    Examples
    --------
    >>> from bochner import theory
    >>> domain = dict(n_features=1, diameter=4.0, second_moment=1.0, delta=0.01)
    >>> [theory.uniform_frequencies(0.1, **domain, rule=rule) for rule in ("corrected", "rahimi-recht")]
    [12014, 21034]
    """
    delta = check.fraction("delta", delta)

    def keeps(T: int) -> bool:
        failure = uniform_failure(
            T,
            eps,
            n_features=n_features,
            diameter=diameter,
            second_moment=second_moment,
            form=form,
            variance=variance,
            top_moment=top_moment,
            rule=rule,
        )
        return failure <= delta

    return check.smallest(keeps, "n_frequencies")


def gaussian_uniform_error(
    n_frequencies: int, *, delta: float, n_features: int, diameter: float, length_scale: float = 1.0
) -> float:
    r"""Largest error of pairs for the Gaussian kernel over a whole domain, with probability 1 - delta.

    .. math:: \min_r\; e(T, \delta_1 / N_r)
              + \frac{r}{s}\Bigl(1 + \sqrt{d/T} + \sqrt{2\ln(1/\delta_2)/T} + e^{-1/2}\Bigr)

    where e is Bernstein's `pointwise_error` with variance 1/2, :math:`N_r = ((1 + 2\ell/r)^d + 1)/2` covers
    the ball of lags up to sign, s is the length scale, :math:`\delta_1 = 0.9\delta` and :math:`\delta_2 =
    0.1\delta`.

    Parameters
    ----------
    n_frequencies : int
        Independent frequencies T, i.i.d. normal; a pair map has twice as many columns.
    delta : float
        Probability of failure.
    n_features : int
        Dimension d of the inputs.
    diameter : float
        Largest distance between two points of the domain, which may be any set.
    length_scale : float
        As in exp(-||x - y||² / (2 length_scale²)). With one per feature, divide the data by them and pass 1.

    Returns
    -------
    float
        eps; never above 2.

    Notes
    -----
    Proof: (1/T) Σ|u.w_i| <= s_max(W)/sqrt(T) and s_max of a normal matrix is at most sqrt(T) + sqrt(d) +
    sqrt(2 ln(1/delta_2)) (Davidson and Szarek 2001); the gradient of k is at most exp(-1/2) / s. Of a maximal
    r-separated set up to sign, the balls of radius r/2 around both copies are disjoint but for one at the
    centre. Ours. Looseness, setting of `uniform_error`: 2.2, 2.1, 2.4 in 1, 5, 20 dimensions.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.gaussian_uniform_error(1000, delta=0.05, n_features=1, diameter=4.0), 3)
    0.118
    """
    T = check.count("n_frequencies", n_frequencies)
    delta = check.fraction("delta", delta)
    d = check.count("n_features", n_features)
    size = check.positive("diameter", diameter) / check.positive("length_scale", length_scale)
    slope = 1 + math.sqrt(d / T) + math.sqrt(2 * math.log(10 / delta) / T) + math.exp(-0.5)

    def bound(log_r: float) -> float:
        log_cover = log_covering_number(d, size, math.exp(log_r))
        log_half = log_cover + math.log1p(math.exp(-log_cover)) - math.log(2)  # (N + 1) / 2
        return _error(T, math.log(2 / (0.9 * delta)) + log_half, "pairs", 0.5) + slope * math.exp(log_r)

    centre = math.log(size / math.sqrt(T))
    best = optimize.minimize_scalar(bound, bounds=(centre - 12, centre + 5), method="bounded")
    # Exact at lag zero, so the slope alone is a bound as well.
    return min(2.0, float(best.fun), slope * size)


def gaussian_uniform_frequencies(
    eps: float, *, delta: float, n_features: int, diameter: float, length_scale: float = 1.0
) -> int:
    """Frequencies that keep the Gaussian kernel's error below eps over a domain, with probability 1 - delta.

    Parameters
    ----------
    eps : float
        Absolute error of the kernel.
    delta : float
        Probability of failure.
    n_features, diameter, length_scale
        As in `gaussian_uniform_error`, of which this is the inverse.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    Looseness: the square of `gaussian_uniform_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.gaussian_uniform_frequencies(0.1, delta=0.01, n_features=1, diameter=4.0)
    1574
    """
    eps = check.positive("eps", eps)

    def keeps(T: int) -> bool:
        error = gaussian_uniform_error(
            T, delta=delta, n_features=n_features, diameter=diameter, length_scale=length_scale
        )
        return error <= eps

    return check.smallest(keeps, "n_frequencies")
