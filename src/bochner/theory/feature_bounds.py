"""Random Fourier features at one pair of points and at all pairs of a sample.

Two maps estimate a stationary kernel k(x - y) with k(0) = 1 from frequencies w drawn from its spectrum:

* ``form="pairs"``: a cosine and a sine for each frequency, ``n_components = 2 n_frequencies``;
* ``form="offset"``: one cosine with a uniform phase for each, ``n_components = n_frequencies``.

A variance is given per component, because their number decides the cost; a bound is given per frequency, because
frequencies are independent.

Functions approximated by sums of random or greedily chosen units have bounds here too.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bochner.checks import check_choice, check_count, check_positive
from bochner.theory.bounds import Count, ErrorBound, Positive

# One summand lies in [-range, range] and within `deviation` of its mean: cos(w.lag) for pairs,
# 2 cos(w.x + b) cos(w.y + b) for offsets; |k| <= 1.
RANGE = {"pairs": 1.0, "offset": 2.0}
_DEVIATION = {"pairs": 2.0, "offset": 3.0}

Form = Annotated[str, partial(check_choice, choices=RANGE)]
Variance = Annotated[float | None, partial(check_positive, zero=True)]
Samples = Annotated[int, partial(check_count, least=2, most=math.inf, advice="A pair needs two points.")]
Array = NDArray[np.float64]
Values = TypeVar("Values", float, Array)


def pair_variance(k_lag: Values, k_twice: Values, *, n_components: int = 1) -> Values:
    r"""Return the exact variance of the kernel estimate by cosine and sine pairs with independent frequencies.

    .. math:: \frac{1 + k(2\Delta) - 2k(\Delta)^2}{\mathtt{n\_components}}

    Smaller than `offset_variance` at equal n_components exactly where k(2 lag) < 2 k(lag)²: everywhere for the Gaussian
    and the exponential kernel, but not for all: a rational quadratic kernel breaks it at long lags. Source: Sutherland
    and Schneider (2015).

    Parameters
    ----------
    k_lag, k_twice : float or array
        The kernel at the lag x - y and at twice the lag, for a stationary kernel with k(0) = 1.
    n_components : int
        Components of the map, two for each frequency. 1 gives the variance per component, 2 that of one frequency.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> r = np.array([0.1, 0.5, 1.0, 2.0])
    >>> theory.pair_variance(np.exp(-r**2 / 2), np.exp(-2 * r**2)).round(4)
    array([1.000e-04, 4.890e-02, 3.996e-01, 9.637e-01])
    """
    k, k2 = _similarities(k_lag, k_twice)
    return _per_component(np.maximum(1 + k2 - 2 * k**2, 0), n_components)


def offset_variance(k_lag: Values, k_twice: Values, *, n_components: int = 1) -> Values:
    r"""Return the exact variance of the kernel estimate by cosines with uniform phases and independent frequencies.

    .. math:: \frac{1 + k(2\Delta)/2 - k(\Delta)^2}{\mathtt{n\_components}}

    At lag zero it is 1/2 per component: the diagonal of the kernel matrix is noisy. Source: Sutherland and Schneider
    (2015).

    Parameters
    ----------
    k_lag, k_twice, n_components
        As in `pair_variance`, with one component for each frequency.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> r = np.array([0.1, 0.5, 1.0, 2.0])
    >>> theory.offset_variance(np.exp(-r**2 / 2), np.exp(-2 * r**2)).round(4)
    array([0.5   , 0.5245, 0.6998, 0.9819])
    """
    k, k2 = _similarities(k_lag, k_twice)
    return _per_component(1 + k2 / 2 - k**2, n_components)


def _similarities(k_lag: ArrayLike, k_twice: ArrayLike) -> tuple[Array, Array]:
    k, k2 = np.asarray(k_lag, dtype=np.float64), np.asarray(k_twice, dtype=np.float64)
    if not ((np.abs(k) <= 1 + 1e-12).all() and (np.abs(k2) <= 1 + 1e-12).all()):
        raise ValueError(
            "k_lag and k_twice must lie in [-1, 1]; a value outside came. "
            "Divide the kernel by k(0), and multiply the variance by its square."
        )
    return k, k2


def _per_component(values: Array, n_components: int) -> Any:
    values = values / check_count("n_components", n_components, most=math.inf)
    return float(values) if values.ndim == 0 else values


def tail_rate(error: float, form: str, variance: float | None) -> float:
    """Return the rate c of the tail 2 exp(-c n_frequencies) at one pair: the better of Hoeffding's and Bernstein's."""
    hoeffding = error**2 / (2 * RANGE[form] ** 2)
    if variance is None:
        return hoeffding
    return max(hoeffding, error**2 / (2 * variance + 2 * _DEVIATION[form] * error / 3))


def tail_error(n_frequencies: int, log_term: float, form: str, variance: float | None) -> float:
    """Return the error at which the exponent of this tail is `log_term`."""
    hoeffding = RANGE[form] * math.sqrt(2 * log_term / n_frequencies)
    if variance is None:
        return hoeffding
    half = log_term * _DEVIATION[form] / 3
    return min(hoeffding, (half + math.sqrt(half**2 + 2 * variance * log_term * n_frequencies)) / n_frequencies)


@dataclass(frozen=True, kw_only=True)
class PointwiseBound(ErrorBound):
    r"""Error of the kernel estimate at one pair of points; size is n_frequencies.

    .. math:: P[|\tilde k - k| \ge \varepsilon] \le 2\exp(-T\varepsilon^2/2) \text{ for pairs}, \qquad
              2\exp(-T\varepsilon^2/8) \text{ for offsets}

    (Hoeffding), or with the variance v of one frequency and its largest deviation M (2 or 3) the smaller of
    it and Bernstein's :math:`2\exp(-T\varepsilon^2/(2v + 2M\varepsilon/3))`. A sample needs `AllPairsBound`.

    Source: Rahimi and Recht (2007), whose text gives the pair bound for a map with half as many frequencies as
    components and does not say so. Looseness in the error against the exact tail (Gaussian kernel, lag 1, T = 100,
    delta = 1e-3): 2.6 for Hoeffding, 1.6 with the variance; offsets 2.8 and 1.5. In size, its square.

    Parameters
    ----------
    form : {"pairs", "offset"}
        Cosine and sine pairs, with two components a frequency, or cosines with uniform phases, with one.
    variance : float, optional
        Of one frequency: ``pair_variance(..., n_components=2)`` or ``offset_variance(..., n_components=1)``.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.PointwiseBound().failure(1000, 0.15), 7)
    2.6e-05
    >>> round(theory.PointwiseBound().error(1000, delta=1e-3), 4)
    0.1233
    >>> round(theory.PointwiseBound(variance=0.5).error(1000, delta=1e-3), 4)
    0.0924
    >>> [theory.PointwiseBound(form=form).size(0.1, delta=0.01) for form in ("pairs", "offset")]
    [1060, 4239]
    """

    form: Form = "pairs"
    variance: Variance = None

    @property
    def _entries(self) -> float:
        return 1.0

    def _error(self, T: int, delta: float) -> float:
        return tail_error(T, math.log(2 * self._entries / delta), self.form, self.variance)

    def _failure(self, T: int, eps: float) -> float:
        return 2 * self._entries * math.exp(-T * tail_rate(eps, self.form, self.variance))


@dataclass(frozen=True, kw_only=True)
class AllPairsBound(PointwiseBound):
    r"""Largest entrywise error of the kernel matrix of n_samples points; size is n_frequencies.

    A union of `PointwiseBound` over its entries: the error is :math:`\sqrt{2\ln(n(n-1)/\delta)/T}` for pairs, whose
    diagonal is exact, and :math:`\sqrt{8\ln(n(n+1)/\delta)/T}` for offsets. n_samples times it bounds the Frobenius
    norm. Needs no moment of the spectrum, so it is the bound to use for Laplacian and exponential kernels. Looseness in
    the error for 100 normal points in 5 dimensions, Gaussian kernel, T = 500, delta = 1e-3: 1.6, and 1.25 with
    variance = 1/2. In size, its square.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    form, variance
        As in `PointwiseBound`; the variance bounds that of all pairs: 1/2 for the Gaussian kernel and form="pairs".

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.AllPairsBound(n_samples=1000)
    >>> round(bound.error(4096, delta=0.01), 4), bound.size(0.1, delta=0.01)
    (0.0948, 3684)
    """

    n_samples: Samples

    @property
    def _entries(self) -> float:
        # The diagonal of the pair map is exact (cos² + sin² = 1); that of the offset map is random.
        return self.n_samples * (self.n_samples - 1 if self.form == "pairs" else self.n_samples + 1) / 2


def _mean_error(T: int, radius: float, delta: float) -> float:
    return radius / math.sqrt(T) * (1 + math.sqrt(2 * math.log(1 / delta)))


@dataclass(frozen=True, kw_only=True)
class HilbertMeanBound(ErrorBound):
    r"""Distance of a mean of independent draws in a Hilbert ball from its expectation; size is n_draws.

    .. math:: \frac{M}{\sqrt{T}} \bigl(1 + \sqrt{2\ln(1/\delta)}\bigr) \quad\text{with probability } 1 - \delta

    The 1 stands outside the root: sqrt(1 + 2 ln(1/delta)), sometimes printed, is smaller and is not what McDiarmid's
    inequality gives. Source: Rahimi and Recht (2008), lemma 4. Looseness for uniform unit vectors in 20 dimensions,
    T = 50, delta = 1e-3: 3.2; for signs, 1.5.

    Parameters
    ----------
    radius : float
        M with ||draw|| <= M almost surely.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.HilbertMeanBound().error(100, delta=0.01), 4)
    0.4035
    """

    counts = "n_draws"
    radius: Positive = 1.0

    def _error(self, T: int, delta: float) -> float:
        return _mean_error(T, self.radius, delta)

    def _failure(self, T: int, eps: float) -> float:
        return math.exp(-(max(0.0, eps * math.sqrt(T) / self.radius - 1) ** 2) / 2)


@dataclass(frozen=True, kw_only=True)
class KitchenSinksBound(ErrorBound):
    r"""L2 distance of a function from the span of random units; size is n_frequencies.

    For :math:`f(x) = \int \alpha(w)\phi(x; w)\,dw` with :math:`|\phi| \le 1` and :math:`\|f\|_p = \sup_w
    |\alpha(w)|/p(w) = C`, the sum with weights :math:`\alpha(w_i)/(T p(w_i))`, w_i ~ p, is within :math:`C(1
    + \sqrt{2\ln(1/\delta)})/\sqrt{T}` of f in L2 of any probability measure, with probability :math:`1 - \delta`.

    Source: Rahimi and Recht (2008), lemma 1, by `HilbertMeanBound`. Looseness for x exp(-x²/2), T = 40, delta = 1e-3:
    3.4 with the weights named above; the best weights do better still.

    Parameters
    ----------
    norm : float
        C = sup |alpha(w)| / p(w).

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.KitchenSinksBound(norm=2.0).error(400, delta=0.01), 4)
    0.4035
    >>> theory.KitchenSinksBound(norm=1.0).size(0.1, delta=0.01)
    1629
    """

    norm: Positive

    def _error(self, T: int, delta: float) -> float:
        return _mean_error(T, self.norm, delta)


@dataclass(frozen=True, kw_only=True)
class KitchenSinksRiskBound(ErrorBound):
    r"""Excess risk of fitting the weights of random units to data; size is n_frequencies.

    .. math:: \frac{LC}{\sqrt T}\bigl(1 + \sqrt{2\ln(2/\delta)}\bigr)
              + \frac{2LC}{\sqrt n}\bigl(2 + \sqrt{2\ln(4/\delta)}\bigr)

    over the best function of norm C, with probability :math:`1 - \delta`, for empirical risk minimisation over weights
    |a_i| <= C/T. The second term does not shrink with T: where it alone exceeds the error wanted, no size is enough.

    The second term is Rademacher complexity C / sqrt(n) with McDiarmid's inequality, one half of delta; constants are
    ours. Source: Rahimi and Recht (2008), theorem 1, who leave them to O(). Looseness for the absolute loss without
    noise, n = 200, T = 40, delta = 0.01: 13; use it for the rate, not for the size.

    Parameters
    ----------
    n_samples : int
        Training points n.
    norm : float
        C = sup |alpha(w)| / p(w) of the functions competed against.
    lipschitz : float
        Lipschitz constant L of the loss c(y f) in f.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.KitchenSinksRiskBound(n_samples=10**6, norm=1.0).error(10**4, delta=0.01), 4)
    0.0535
    """

    n_samples: Count
    norm: Positive
    lipschitz: Positive = 1.0

    def _error(self, T: int, delta: float) -> float:
        scale = self.lipschitz * self.norm
        fit = 2 * scale / math.sqrt(self.n_samples) * (2 + math.sqrt(2 * math.log(4 / delta)))
        return _mean_error(T, scale, delta / 2) + fit


@dataclass(frozen=True, kw_only=True)
class GreedyBound(ErrorBound):
    r"""Distance of a function from its relaxed greedy approximation, not random; size is n_terms.

    .. math:: \|f_T - f\| \le \sqrt{(C^2 - \|f\|^2)/T}

    for f in the closed convex hull of a dictionary with norms at most C, when step t minimises
    :math:`\|(1-a)f_{t-1} + a g - f\|` jointly over a in [0, 1] and g in the dictionary, from f_0 = 0 and a_1 = 1.
    It needs no delta: a failure is 0 or 1.

    1/e² grows by at least 1/(C² - ||f||²) in each step. Source: Jones (1992), Barron (1993). Stagewise: the joint
    optimum over all units at once, which is sometimes displayed under this name, is another (non-convex) problem.
    Looseness for 200 random unit vectors in 30 dimensions, T = 20: 9; for the mean of an orthonormal basis none.

    Parameters
    ----------
    norm : float
        C, largest norm in the dictionary.
    target_norm : float
        ||f||; 0 gives the plain C / sqrt(T).

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.GreedyBound(norm=1.0)
    >>> bound.error(100), bound.size(0.1)
    (0.1, 100)
    """

    counts = "n_terms"
    norm: Positive
    target_norm: Annotated[float, partial(check_positive, zero=True)] = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_norm > self.norm:
            raise ValueError(
                f"target_norm must be at most norm = {self.norm}, got {self.target_norm}: no point of a convex hull is "
                "longer than its dictionary. Enlarge norm until the target lies in the hull."
            )

    def _mean(self, T: int) -> float:
        return math.sqrt((self.norm**2 - self.target_norm**2) / T)

    def _error(self, T: int, delta: float) -> float:
        return self._mean(T)

    def _failure(self, T: int, eps: float) -> float:
        return float(self._mean(T) > eps * (1 + 1e-12))
