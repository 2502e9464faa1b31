"""Linear random projections: chi-squared tails and the Johnson-Lindenstrauss lemma.

A Gaussian projection is ``f(x) = A x / sqrt(n_components)`` with A_ij ~ N(0, 1). Then
``n_components ||f(x)||² / ||x||²`` is exactly chi-squared with n_components degrees of freedom, for every x
and every input dimension. All that follows is arithmetic on that one law.

Four rules bound the same probability, from sharp to simple:

==================  ==========================================================  ==============================
rule                two-sided failure of one norm                               holds for
==================  ==========================================================  ==============================
"exact"             P[X > (1+eps)k] + P[X < (1-eps)k], X ~ chi²(k)              Gaussian entries
"chernoff"          ((1+eps) e^-eps)^(k/2) + ((1-eps) e^eps)^(k/2)              Gaussian entries
"dasgupta-gupta"    2 exp(-k (eps²/2 - eps³/3) / 2)                             Gaussian, ±1, Achlioptas' 1/3
"classical"         2 exp(-k (eps² - eps³) / 4)                                 as above
==================  ==========================================================  ==============================
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy import optimize, stats

from bochner.theory import _arguments as check


def _exact(k: int, eps: float) -> float:
    return float(stats.chi2.sf(k * (1 + eps), k) + stats.chi2.cdf(k * (1 - eps), k))


def _chernoff(k: int, eps: float) -> float:
    return math.exp(k / 2 * (math.log1p(eps) - eps)) + math.exp(k / 2 * (math.log1p(-eps) + eps))


def _dasgupta_gupta(k: int, eps: float) -> float:
    return 2 * math.exp(-k * (eps**2 / 2 - eps**3 / 3) / 2)


def _classical(k: int, eps: float) -> float:
    return 2 * math.exp(-k * (eps**2 - eps**3) / 4)


_TAILS: dict[str, Callable[[int, float], float]] = {
    "exact": _exact,
    "chernoff": _chernoff,
    "dasgupta-gupta": _dasgupta_gupta,
    "classical": _classical,
}


def _pairs(n_samples: int) -> float:
    return n_samples * (n_samples - 1) / 2


def chi2_tail(n_components: int, eps: float, *, rule: str = "exact") -> float:
    r"""Probability that a chi-squared variable leaves (1 ± eps) times its mean.

    .. math:: P\bigl[\,|\chi^2_k / k - 1| > \varepsilon\,\bigr], \qquad k = \mathtt{n\_components}

    "exact" is the probability itself; the other rules of this module bound it from above. The Chernoff form
    comes from the moment generating function (1 - 2t)^(-k/2) at t = eps / (2 (1 + eps)).

    Parameters
    ----------
    n_components : int
        Degrees of freedom: the rows of the projection.
    eps : float
        Relative deviation, strictly between 0 and 1. The classical proof asks for eps < 1/2; the inequality
        ln(1 + eps) <= eps - eps²/2 + eps³/3 behind it needs no such limit.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See the table at the head of the module.

    Returns
    -------
    float
        A probability; bounds are cut at 1.

    Notes
    -----
    Source: Dasgupta and Gupta (2003). Looseness at k = 1000, eps = 0.2 (exact 1.3e-5): Chernoff 12 times,
    Dasgupta-Gupta 26 times, classical 51 times.

    Examples
    --------
    >>> from bochner import theory
    >>> rules = ("exact", "chernoff", "dasgupta-gupta", "classical")
    >>> [round(theory.chi2_tail(500, 0.2, rule=rule), 5) for rule in rules]
    [0.00174, 0.01511, 0.02625, 0.03663]
    """
    k = check.count("n_components", n_components)
    eps = check.fraction("eps", eps)
    return min(1.0, _TAILS[check.choice("rule", rule, _TAILS)](k, eps))


def norm_distortion(n_components: int, *, delta: float, rule: str = "exact") -> float:
    r"""Relative error of one squared norm under a Gaussian projection, with probability 1 - delta.

    The smallest eps such that :math:`(1-\varepsilon)\|x\|^2 \le \|f(x)\|^2 \le (1+\varepsilon)\|x\|^2` with
    probability at least 1 - delta, for one fixed x: the inverse of `chi2_tail`.

    Parameters
    ----------
    n_components : int
        Output dimension of the projection.
    delta : float
        Probability of failure, strictly between 0 and 1.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See `chi2_tail`.

    Returns
    -------
    float
        eps; ``math.inf`` where no eps < 1 keeps the promise.

    Notes
    -----
    Source: Dasgupta and Gupta (2003). Looseness in eps at k = 1000, delta = 1e-3: none for "exact", 1.20 for
    "chernoff", 1.26 for "dasgupta-gupta", 1.31 for "classical".

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.norm_distortion(1000, delta=1e-3), 3)
    0.148
    """
    k = check.count("n_components", n_components)
    return _distortion(k, check.fraction("delta", delta), _TAILS[check.choice("rule", rule, _TAILS)])


def _distortion(k: int, delta: float, tail: Callable[[int, float], float]) -> float:
    top = 1 - 1e-12
    # The classical exponent eps² - eps³ falls again after eps = 2/3; a deviation of eps is one of less, too.
    if tail is _classical:
        top = 2 / 3
    if tail(k, top) > delta:
        return math.inf
    # The root is nudged up to the side where the promise holds.
    root = float(optimize.brentq(lambda e: math.log(max(tail(k, e), 1e-300) / delta), 1e-12, top, xtol=1e-13))
    return root if tail(k, root) <= delta else min(root * (1 + 1e-9), top)


def jl_failure(n_samples: int, n_components: int, eps: float, *, rule: str = "exact") -> float:
    r"""Probability that some pairwise distance of n_samples points is distorted by more than eps.

    Union bound over the :math:`\binom{n}{2}` pairs (not n² of them) of `chi2_tail`.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    n_components : int
        Output dimension of the projection.
    eps : float
        Relative error of squared distances, strictly between 0 and 1.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See `chi2_tail`.

    Returns
    -------
    float
        An upper bound on the probability, cut at 1.

    Notes
    -----
    Source: Johnson and Lindenstrauss (1984); Dasgupta and Gupta (2003). Looseness: for 20 points the
    union over pairs overstates a failure of 0.01 by a factor of 1.5.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.jl_failure(1000, 1000, 0.3), 6)
    0.000194
    """
    n = check.count("n_samples", n_samples, minimum=2, advice="A pair needs two points.")
    return min(1.0, _pairs(n) * chi2_tail(n_components, eps, rule=rule))


def jl_min_dim(n_samples: int, eps: float, *, delta: float | None = 0.01, rule: str = "exact") -> int:
    r"""Output dimension that keeps all squared distances within (1 ± eps), with probability 1 - delta.

    "exact" is the smallest k with :math:`\binom{n}{2} P[|\chi^2_k/k - 1| > \varepsilon] \le \delta`; the
    other rules solve their own bound for k, for instance :math:`k = 2\ln(n(n-1)/\delta) / (\varepsilon^2/2 -
    \varepsilon^3/3)`.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    eps : float
        Relative error of squared distances, strictly between 0 and 1.
    delta : float or None
        Probability of failure. None asks for the formulas as they were printed: "dasgupta-gupta" is then 4 ln
        n / (eps²/2 - eps³/3), which promises success only with probability 1/n (it is an existence proof),
        and "classical" is 20 ln n / eps², which fails with probability at most n^(5 eps - 3) for eps <= 1/2.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See `chi2_tail`.

    Returns
    -------
    int
        n_components, rounded up. (scikit-learn's function of the same lemma rounds down.)

    Notes
    -----
    The constant 20 is generous: with delta free, any constant above 8 / (1 - eps) will do as n grows.
    Looseness: for 20 points, eps = 0.4 and delta = 0.01, 222 rows suffice where "exact" asks for 234, the
    price of the union over pairs. "dasgupta-gupta" asks for 1.17 to 1.34 times "exact" in the first example
    below.

    Examples
    --------
    >>> from bochner import theory
    >>> [theory.jl_min_dim(18846, eps) for eps in (0.1, 0.2, 0.5)]
    [8876, 2346, 437]
    >>> [theory.jl_min_dim(18846, eps, delta=None, rule="dasgupta-gupta") for eps in (0.1, 0.2, 0.5)]
    [8438, 2272, 473]
    >>> [theory.jl_min_dim(18846, eps, delta=None, rule="classical") for eps in (0.1, 0.2, 0.5)]
    [19689, 4923, 788]
    """
    n = check.count("n_samples", n_samples, minimum=2, advice="A pair needs two points.")
    eps = check.fraction("eps", eps)
    rule = check.choice("rule", rule, _TAILS)
    if delta is None:
        return _printed_min_dim(n, eps, rule)
    delta = check.fraction("delta", delta)
    if rule == "dasgupta-gupta":
        return check.whole(2 * math.log(n * (n - 1) / delta) / (eps**2 / 2 - eps**3 / 3), "n_components")
    if rule == "classical":
        return check.whole(4 * math.log(n * (n - 1) / delta) / (eps**2 - eps**3), "n_components")
    tail = _TAILS[rule]
    high = check.whole(2 * math.log(n * (n - 1) / delta) / (eps**2 / 2 - eps**3 / 3), "n_components")
    low = 0  # fails, or nothing to test; `high` keeps the promise because Dasgupta-Gupta bounds both tails
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _pairs(n) * tail(middle, eps) <= delta else (middle, high)
    return high


def _printed_min_dim(n: int, eps: float, rule: str) -> int:
    if rule == "dasgupta-gupta":
        return check.whole(4 * math.log(n) / (eps**2 / 2 - eps**3 / 3), "n_components")
    if rule == "classical":
        if eps > 0.5:
            raise ValueError(
                f"eps must be at most 0.5 for the printed constant 20 of rule='classical', got {eps}. "
                "Pass delta=0.01, or another rule."
            )
        return check.whole(20 * math.log(n) / eps**2, "n_components")
    raise ValueError(
        f"delta must be a number for rule={rule!r}, got None. Pass delta=0.01; only 'dasgupta-gupta' and "
        "'classical' have a printed formula without it."
    )


def jl_distortion(n_samples: int, n_components: int, *, delta: float = 0.01, rule: str = "exact") -> float:
    """Distortion of all pairwise squared distances, with probability 1 - delta: `jl_min_dim` solved for eps.

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    n_components : int
        Output dimension of the projection.
    delta : float
        Probability of failure, strictly between 0 and 1.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See `chi2_tail`.

    Returns
    -------
    float
        eps; ``math.inf`` where no eps < 1 keeps the promise.

    Notes
    -----
    Source: Dasgupta and Gupta (2003). Looseness: as `jl_min_dim`; eps goes like the square root of it.

    Examples
    --------
    >>> from bochner import theory
    >>> [round(theory.jl_distortion(18846, k), 3) for k in (300, 1000, 10000)]
    [0.62, 0.316, 0.094]
    """
    n = check.count("n_samples", n_samples, minimum=2, advice="A pair needs two points.")
    k = check.count("n_components", n_components)
    delta = check.fraction("delta", delta)
    return _distortion(k, delta / _pairs(n), _TAILS[check.choice("rule", rule, _TAILS)])


def distance_range(n_features: int, *, n_samples: int = 2, delta: float = 0.01) -> tuple[float, float]:
    r"""Range of all pairwise distances of standard normal points, over their typical size sqrt(2 n_features).

    In high dimension all distances become the same: :math:`\|x-y\|^2/2` is chi-squared with n_features
    degrees of freedom, so the range closes around 1 like :math:`1/\sqrt{\mathtt{n\_features}}`.

    Parameters
    ----------
    n_features : int
        Dimension of the points, drawn from N(0, I).
    n_samples : int
        Number of points, at least 2.
    delta : float
        Probability that some distance leaves the range.

    Returns
    -------
    (float, float)
        Low and high ends; half of delta, divided over the pairs, is spent at each end.

    Notes
    -----
    Exact for n_samples = 2. Looseness: for 50 points in 100 dimensions and delta = 0.01 the range is as wide
    as the true one to three digits.

    Examples
    --------
    >>> from bochner import theory
    >>> [tuple(round(x, 2) for x in theory.distance_range(d, n_samples=100)) for d in (3, 100, 10000)]
    [(0.01, 3.2), (0.68, 1.35), (0.97, 1.03)]
    """
    d = check.count("n_features", n_features)
    n = check.count("n_samples", n_samples, minimum=2, advice="A distance needs two points.")
    tail = check.fraction("delta", delta) / _pairs(n) / 2
    low, high = stats.chi2.ppf(tail, d), stats.chi2.isf(tail, d)
    return math.sqrt(float(low) / d), math.sqrt(float(high) / d)
