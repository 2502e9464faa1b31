"""Random Fourier features at one pair of points and at all pairs of a sample.

Two maps estimate a stationary kernel k(x - y) with k(0) = 1 from frequencies w drawn from its spectrum:

* ``form="pairs"``: a cosine and a sine for each frequency, ``n_components = 2 n_frequencies``;
* ``form="offset"``: one cosine with a uniform phase for each, ``n_components = n_frequencies``.

A variance is given per component, because components are what a user pays for; a bound is given per frequency, because
frequencies are what is independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from bochner.checks import check_choice, check_count, check_positive
from bochner.theory.bounds import ErrorBound

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
    r"""Variance of the kernel estimate by cosine and sine pairs with independent frequencies. Exact.

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
    r"""Variance of the kernel estimate by cosines with uniform phases and independent frequencies. Exact.

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


def _similarities(k_lag: Any, k_twice: Any) -> tuple[Array, Array]:
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
    """Rate c of the tail 2 exp(-c n_frequencies) at one pair: the better of Hoeffding's and Bernstein's."""
    hoeffding = error**2 / (2 * RANGE[form] ** 2)
    if variance is None:
        return hoeffding
    return max(hoeffding, error**2 / (2 * variance + 2 * _DEVIATION[form] * error / 3))


def tail_error(n_frequencies: int, log_term: float, form: str, variance: float | None) -> float:
    """Error at which the exponent of that tail is `log_term`."""
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
    components and does not say so. Looseness in the error against the exact law (Gaussian kernel, lag 1, T = 100,
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
