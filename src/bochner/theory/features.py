"""Random features at one pair of points and at all pairs of a sample.

Two maps estimate a stationary kernel k(x - y) with k(0) = 1 from frequencies w drawn from its spectrum:

* ``form="pairs"``: a cosine and a sine for each frequency, ``n_components = 2 n_frequencies`` columns;
* ``form="offset"``: one cosine with a uniform phase for each, ``n_components = n_frequencies`` columns.

"Columns" and "frequencies" are kept apart in every signature: a variance is given per column, because columns
are what a user pays for; a tail is given per frequency, because frequencies are what is independent.
"""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bochner.theory import _arguments as check

# One summand lies in [-range, range] and within `deviation` of its mean: cos(w.lag) for pairs,
# 2 cos(w.x + b) cos(w.y + b) for offsets; |k| <= 1.
_RANGE = {"pairs": 1.0, "offset": 2.0}
_DEVIATION = {"pairs": 2.0, "offset": 3.0}

Array = NDArray[np.float64]


def _similarities(k_lag: Any, k_twice: Any) -> tuple[Array, Array]:
    k, k2 = np.asarray(k_lag, dtype=np.float64), np.asarray(k_twice, dtype=np.float64)
    if not ((np.abs(k) <= 1 + 1e-12).all() and (np.abs(k2) <= 1 + 1e-12).all()):
        raise ValueError(
            "k_lag and k_twice must lie in [-1, 1]; a value outside came. "
            "Divide the kernel by k(0), and multiply the variance by its square."
        )
    return k, k2


@overload
def pair_variance(k_lag: float, k_twice: float, *, n_components: int = 1) -> float: ...
@overload
def pair_variance(k_lag: Array, k_twice: Array, *, n_components: int = 1) -> Array: ...
def pair_variance(k_lag: Any, k_twice: Any, *, n_components: int = 1) -> Any:
    r"""Variance of the kernel estimate by cosine and sine pairs with i.i.d. frequencies.

    .. math:: \frac{1 + k(2\Delta) - 2k(\Delta)^2}{\mathtt{n\_components}}

    Parameters
    ----------
    k_lag, k_twice : float or array
        The kernel at the lag x - y and at twice the lag, for a stationary kernel with k(0) = 1.
    n_components : int
        Columns of the map (two a frequency). 1 gives the variance per column, 2 that of one frequency.

    Returns
    -------
    float or array
        Exact, not a bound.

    Notes
    -----
    Smaller than `offset_variance` at equal columns exactly where k(2 lag) < 2 k(lag)²: everywhere for the
    Gaussian and the exponential kernel, but not for all: a rational quadratic kernel breaks it at long lags.
    Source: Sutherland and Schneider (2015). Looseness: none, an identity.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> r = np.array([0.1, 0.5, 1.0, 2.0])
    >>> theory.pair_variance(np.exp(-r**2 / 2), np.exp(-2 * r**2)).round(4)
    array([1.000e-04, 4.890e-02, 3.996e-01, 9.637e-01])
    """
    k, k2 = _similarities(k_lag, k_twice)
    value = np.maximum(1 + k2 - 2 * k**2, 0) / check.count("n_components", n_components)
    return float(value) if value.ndim == 0 else value


@overload
def offset_variance(k_lag: float, k_twice: float, *, n_components: int = 1) -> float: ...
@overload
def offset_variance(k_lag: Array, k_twice: Array, *, n_components: int = 1) -> Array: ...
def offset_variance(k_lag: Any, k_twice: Any, *, n_components: int = 1) -> Any:
    r"""Variance of the kernel estimate by cosines with uniform phases and i.i.d. frequencies.

    .. math:: \frac{1 + k(2\Delta)/2 - k(\Delta)^2}{\mathtt{n\_components}}

    Parameters
    ----------
    k_lag, k_twice : float or array
        The kernel at the lag x - y and at twice the lag, for a stationary kernel with k(0) = 1.
    n_components : int
        Columns of the map (one a frequency).

    Returns
    -------
    float or array
        Exact, not a bound. At lag zero it is 1/2 per column: the diagonal of the Gram matrix is noisy.

    Notes
    -----
    Source: Sutherland and Schneider (2015). Looseness: none, an identity.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> r = np.array([0.1, 0.5, 1.0, 2.0])
    >>> theory.offset_variance(np.exp(-r**2 / 2), np.exp(-2 * r**2)).round(4)
    array([0.5   , 0.5245, 0.6998, 0.9819])
    """
    k, k2 = _similarities(k_lag, k_twice)
    value = (1 + k2 / 2 - k**2) / check.count("n_components", n_components)
    return float(value) if value.ndim == 0 else value


def _exponent(eps: float, form: str, variance: float | None) -> float:
    """Rate c of the tail 2 exp(-c n_frequencies) at deviation eps: the better of Hoeffding and Bernstein."""
    hoeffding = eps**2 / (2 * _RANGE[form] ** 2)
    if variance is None:
        return hoeffding
    return max(hoeffding, eps**2 / (2 * variance + 2 * _DEVIATION[form] * eps / 3))


def _error(n_frequencies: int, log_term: float, form: str, variance: float | None) -> float:
    """Deviation at which the tail is exp(-log_term), with log_term = ln(2 / delta)."""
    hoeffding = _RANGE[form] * math.sqrt(2 * log_term / n_frequencies)
    if variance is None:
        return hoeffding
    half = log_term * _DEVIATION[form] / 3
    return min(hoeffding, (half + math.sqrt(half**2 + 2 * variance * log_term * n_frequencies)) / n_frequencies)


def _variance(variance: float | None) -> float | None:
    return None if variance is None else check.positive("variance", variance, zero=True)


def pointwise_failure(n_frequencies: int, eps: float, *, form: str = "pairs", variance: float | None = None) -> float:
    r"""Probability that the kernel estimate at one pair of points is off by eps or more.

    .. math:: 2\exp(-T\varepsilon^2/2) \text{ for pairs}, \qquad 2\exp(-T\varepsilon^2/8) \text{ for offsets}

    (Hoeffding), or with the variance v of one frequency and its largest deviation M (2 or 3) the smaller of
    it and Bernstein's :math:`2\exp(-T\varepsilon^2/(2v + 2M\varepsilon/3))`.

    Parameters
    ----------
    n_frequencies : int
        Independent frequencies T; a pair map has twice as many columns.
    eps : float
        Absolute error of the kernel, with k(0) = 1.
    form : {"pairs", "offset"}
        See the module.
    variance : float, optional
        Of one frequency: ``pair_variance(..., n_components=2)`` or ``offset_variance(..., n_components=1)``.

    Returns
    -------
    float
        An upper bound on the probability, cut at 1.

    Notes
    -----
    Source: Rahimi and Recht (2007), whose text gives the pair bound for a map with half as many frequencies
    as columns and does not say so. Looseness in eps against the exact law (Gaussian kernel, lag 1, T = 100,
    delta = 1e-3): 2.6 for Hoeffding, 1.6 with the variance; offsets 2.8 and 1.5.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.pointwise_failure(1000, 0.15), 7)
    2.6e-05
    """
    T = check.count("n_frequencies", n_frequencies)
    eps = check.positive("eps", eps)
    form = check.choice("form", form, _RANGE)
    return min(1.0, 2 * math.exp(-T * _exponent(eps, form, _variance(variance))))


def pointwise_error(n_frequencies: int, *, delta: float, form: str = "pairs", variance: float | None = None) -> float:
    """Error of the kernel estimate at one pair of points, with probability 1 - delta: the inverse in eps.

    Parameters
    ----------
    n_frequencies : int
        Independent frequencies; a pair map has twice as many columns.
    delta : float
        Probability of failure.
    form : {"pairs", "offset"}
        See the module.
    variance : float, optional
        Of one frequency, as in `pointwise_failure`.

    Returns
    -------
    float
        eps, in units of k(0).

    Notes
    -----
    Source and looseness: as `pointwise_failure`.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.pointwise_error(1000, delta=1e-3), 4)
    0.1233
    >>> round(theory.pointwise_error(1000, delta=1e-3, variance=0.5), 4)
    0.0924
    """
    T = check.count("n_frequencies", n_frequencies)
    form = check.choice("form", form, _RANGE)
    return _error(T, math.log(2 / check.fraction("delta", delta)), form, _variance(variance))


def pointwise_frequencies(eps: float, *, delta: float, form: str = "pairs", variance: float | None = None) -> int:
    """Frequencies that keep the error at one pair of points below eps, with probability 1 - delta.

    Parameters
    ----------
    eps : float
        Absolute error of the kernel, with k(0) = 1.
    delta : float
        Probability of failure.
    form : {"pairs", "offset"}
        See the module.
    variance : float, optional
        Of one frequency, as in `pointwise_failure`.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    For one pair only; a sample needs `all_pairs_frequencies`. Looseness: the square of `pointwise_failure`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> [theory.pointwise_frequencies(0.1, delta=0.01, form=form) for form in ("pairs", "offset")]
    [1060, 4239]
    """
    eps = check.positive("eps", eps)
    log_term = math.log(2 / check.fraction("delta", delta))
    form = check.choice("form", form, _RANGE)
    return check.whole(log_term / _exponent(eps, form, _variance(variance)), "n_frequencies")


def _n_entries(n_samples: int, form: str) -> float:
    # The diagonal of the pair map is exact (cos² + sin² = 1); that of the offset map is random.
    return n_samples * (n_samples - 1 if form == "pairs" else n_samples + 1) / 2


def all_pairs_error(
    n_samples: int, n_frequencies: int, *, delta: float, form: str = "pairs", variance: float | None = None
) -> float:
    r"""Largest entrywise error of the n_samples × n_samples Gram matrix, with probability 1 - delta.

    :math:`\sqrt{2\ln(n(n-1)/\delta)/T}` for pairs, whose diagonal is exact, and
    :math:`\sqrt{8\ln(n(n+1)/\delta)/T}` for offsets. It bounds the Frobenius norm of the error by n_samples
    eps.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    n_frequencies : int
        Independent frequencies; a pair map has twice as many columns.
    delta : float
        Probability that some entry is off by more.
    form : {"pairs", "offset"}
        See the module.
    variance : float, optional
        Upper bound, over all pairs, of the variance of one frequency (1/2 for the Gaussian kernel and pairs).

    Returns
    -------
    float
        eps, in units of k(0).

    Notes
    -----
    Needs no moment of the spectrum, so it is the bound to use for Laplacian and exponential kernels. Source:
    union bound of `pointwise_failure`. Looseness in eps for 100 normal points in 5 dimensions, Gaussian
    kernel, T = 500, delta = 1e-3: 1.6, and 1.25 with variance = 1/2.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.all_pairs_error(1000, 4096, delta=0.01), 4)
    0.0948
    """
    n = check.count("n_samples", n_samples, minimum=2, advice="A pair needs two points.")
    T = check.count("n_frequencies", n_frequencies)
    form = check.choice("form", form, _RANGE)
    log_term = math.log(2 * _n_entries(n, form) / check.fraction("delta", delta))
    return _error(T, log_term, form, _variance(variance))


def all_pairs_frequencies(
    n_samples: int, eps: float, *, delta: float, form: str = "pairs", variance: float | None = None
) -> int:
    r"""Frequencies that keep every entry of the Gram matrix within eps, with probability 1 - delta.

    :math:`T = 2\ln(n(n-1)/\delta)/\varepsilon^2` for pairs; four times that and n(n+1) for offsets.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    eps : float
        Absolute error of the kernel, with k(0) = 1.
    delta : float
        Probability that some entry is off by more.
    form : {"pairs", "offset"}
        See the module.
    variance : float, optional
        Upper bound, over all pairs, of the variance of one frequency.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    Source: union bound of `pointwise_failure`. Looseness: the square of `all_pairs_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.all_pairs_frequencies(1000, 0.1, delta=0.01)
    3684
    """
    n = check.count("n_samples", n_samples, minimum=2, advice="A pair needs two points.")
    eps = check.positive("eps", eps)
    form = check.choice("form", form, _RANGE)
    log_term = math.log(2 * _n_entries(n, form) / check.fraction("delta", delta))
    return check.whole(log_term / _exponent(eps, form, _variance(variance)), "n_frequencies")
