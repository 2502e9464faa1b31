"""Linear random projections: chi-squared tails and the Johnson-Lindenstrauss lemma.

A Gaussian projection is ``f(x) = A x / sqrt(n_components)`` with A_ij ~ N(0, 1). Then
``n_components ||f(x)||² / ||x||²`` is exactly chi-squared with n_components degrees of freedom, for every x
and every input dimension. Everything else follows from that distribution.

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
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from scipy import stats

from bochner.checks import check_choice, check_count, check_fraction
from bochner.theory.bounds import TailBound, least, round_up
from bochner.theory.feature_bounds import Samples


def _exact(k: int, eps: float) -> float:
    return float(stats.chi2.sf(k * (1 + eps), k) + stats.chi2.cdf(k * (1 - eps), k))


def _chernoff(k: int, eps: float) -> float:
    return math.exp(k / 2 * (math.log1p(eps) - eps)) + math.exp(k / 2 * (math.log1p(-eps) + eps))


def _dasgupta_gupta(k: int, eps: float) -> float:
    return 2 * math.exp(-k * (eps**2 / 2 - eps**3 / 3) / 2)


def _classical(k: int, eps: float) -> float:
    eps = min(eps, 2 / 3)  # the exponent falls beyond 2/3, but larger deviations are no more likely
    return 2 * math.exp(-k * (eps**2 - eps**3) / 4)


_TAILS: dict[str, Callable[[int, float], float]] = {
    "exact": _exact,
    "chernoff": _chernoff,
    "dasgupta-gupta": _dasgupta_gupta,
    "classical": _classical,
}

Rule = Annotated[str, partial(check_choice, choices=_TAILS)]


def chi2_tail(n_components: int, eps: float, *, rule: str = "exact") -> float:
    r"""Return the probability that a chi-squared variable leaves (1 ± eps) times its mean.

    .. math:: P\bigl[\,|\chi^2_k / k - 1| > \varepsilon\,\bigr], \qquad k = \mathtt{n\_components}

    "exact" is the probability itself; the other rules of this module bound it from above, cut at 1. The Chernoff form
    comes from the moment generating function (1 - 2t)^(-k/2) at t = eps / (2 (1 + eps)).

    Source: Dasgupta and Gupta (2003). Looseness at k = 1000, eps = 0.2 (exact 1.3e-5): Chernoff 12 times,
    Dasgupta-Gupta 26 times, classical 51 times.

    Parameters
    ----------
    n_components : int
        Degrees of freedom: the rows of the projection.
    eps : float
        Relative deviation, strictly between 0 and 1. The classical proof asks for eps < 1/2; the inequality
        ln(1 + eps) <= eps - eps²/2 + eps³/3 behind it needs no such limit. Its exponent falls again beyond 2/3, and is
        that of 2/3 there.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        See the table at the head of the module.

    Examples
    --------
    >>> from bochner import theory
    >>> rules = ("exact", "chernoff", "dasgupta-gupta", "classical")
    >>> [round(theory.chi2_tail(500, 0.2, rule=rule), 5) for rule in rules]
    [0.00174, 0.01511, 0.02625, 0.03663]
    """
    k = check_count("n_components", n_components, most=math.inf)
    eps = check_fraction("eps", eps)
    return min(1.0, _TAILS[check_choice("rule", rule, _TAILS)](k, eps))


@dataclass(frozen=True, kw_only=True)
class NormDistortionBound(TailBound):
    r"""Relative error of one squared norm under a Gaussian projection; size is n_components, its output dimension.

    The smallest eps such that :math:`(1-\varepsilon)\|x\|^2 \le \|f(x)\|^2 \le (1+\varepsilon)\|x\|^2` with
    probability at least 1 - delta, for one fixed x: the inverse of `chi2_tail`. The error is ``math.inf`` where no
    eps < 1 keeps the promise.

    Source: Dasgupta and Gupta (2003). Looseness of the error at k = 1000, delta = 1e-3: none for "exact", 1.20 for
    "chernoff", 1.26 for "dasgupta-gupta", 1.31 for "classical".

    Parameters
    ----------
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        From sharp to simple: see the module.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.NormDistortionBound().error(1000, delta=1e-3), 3)
    0.148
    """

    counts = "n_components"
    relative = True
    rule: Rule = "exact"

    @property
    def _n_pairs(self) -> float:
        return 1.0

    def _failure(self, k: int, eps: float) -> float:
        return self._n_pairs * _TAILS[self.rule](k, eps)

    def _error(self, k: int, delta: float) -> float:
        eps = least(lambda eps: self._failure(k, eps) <= delta, 1e-12, 1.0)
        return eps if eps < 1 else math.inf


@dataclass(frozen=True, kw_only=True)
class JohnsonLindenstraussBound(NormDistortionBound):
    r"""Distortion of all squared distances of n_samples points under a Gaussian projection; size is n_components.

    A union of `NormDistortionBound` over the :math:`\binom{n}{2}` pairs (not n² of them). For "dasgupta-gupta" the
    size is :math:`2\ln(n(n-1)/\delta) / (\varepsilon^2/2 - \varepsilon^3/3)`.

    Sources: Johnson and Lindenstrauss (1984); Dasgupta and Gupta (2003); the monograph of Vempala (2004), The Random
    Projection Method. That a good projection exists because a random one is good with positive probability is Erdős'
    probabilistic method (Alon and Spencer 2016). Looseness: for 20 points the union over pairs
    overstates a failure of 0.01 by a factor of 1.5, and for eps = 0.4 222 components suffice where "exact" asks for
    234. "dasgupta-gupta" asks for 1.17 to 1.34 times "exact" in the first example below. The error goes like the
    square root of the size. (scikit-learn's size of the same lemma is rounded down.)

    Parameters
    ----------
    n_samples : int
        Number of points, at least 2.
    rule : {"exact", "chernoff", "dasgupta-gupta", "classical"}
        From sharp to simple: see the module.

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.JohnsonLindenstraussBound(n_samples=18846)
    >>> [bound.size(eps, delta=0.01) for eps in (0.1, 0.2, 0.5)]
    [8876, 2346, 437]
    >>> [round(bound.error(k, delta=0.01), 3) for k in (300, 1000, 10000)]
    [0.62, 0.316, 0.094]
    >>> round(theory.JohnsonLindenstraussBound(n_samples=1000).failure(1000, 0.3), 6)
    0.000194
    """

    n_samples: Samples

    @property
    def _n_pairs(self) -> float:
        return self.n_samples * (self.n_samples - 1) / 2

    def printed_size(self, error: float) -> int:
        """Return the size for an `error` of eps by the formulas as they were printed, without a delta.

        "dasgupta-gupta" is 4 ln n / (eps²/2 - eps³/3), which promises success only with probability 1/n (it is an
        existence proof), and "classical" is 20 ln n / eps², which fails with probability at most n^(5 eps - 3) for
        eps <= 1/2. The constant 20 is generous: with delta free, any constant above 8 / (1 - eps) will do as n grows.

        Examples
        --------
        >>> from bochner.theory import JohnsonLindenstraussBound
        >>> bounds = (JohnsonLindenstraussBound(n_samples=18846, rule=r) for r in ("dasgupta-gupta", "classical"))
        >>> [[bound.printed_size(eps) for eps in (0.1, 0.2, 0.5)] for bound in bounds]
        [[8438, 2272, 473], [19689, 4923, 788]]
        """
        eps = self._checked_error(error)
        if self.rule == "dasgupta-gupta":
            return round_up(self.counts, 4 * math.log(self.n_samples) / (eps**2 / 2 - eps**3 / 3))
        if self.rule != "classical":
            raise ValueError(
                f"rule must be 'dasgupta-gupta' or 'classical', which were printed without a delta; got {self.rule!r}. "
                "Use size with delta=0.01."
            )
        if eps > 0.5:
            raise ValueError(
                f"error must be at most 0.5 for the printed constant 20 of rule='classical', got {eps}. "
                "Use size with delta=0.01, or another rule."
            )
        return round_up(self.counts, 20 * math.log(self.n_samples) / eps**2)


def distance_range(n_features: int, *, n_samples: int = 2, delta: float = 0.01) -> tuple[float, float]:
    r"""Return the range of all pairwise distances of standard normal points, divided by sqrt(2 n_features).

    In high dimension all distances become the same: :math:`\|x-y\|^2/2` is chi-squared with n_features
    degrees of freedom, so the range closes around 1 like :math:`1/\sqrt{\mathtt{n\_features}}`. Half of delta, divided
    over the pairs, is spent at each end.

    Exact for n_samples = 2. Looseness: for 50 points in 100 dimensions and delta = 0.01 the range is as wide
    as the true one to three digits.

    Parameters
    ----------
    n_features : int
        Dimension of the points, drawn from N(0, I).
    n_samples : int
        Number of points, at least 2.
    delta : float
        Probability that some distance leaves the range.

    Examples
    --------
    >>> from bochner import theory
    >>> [tuple(round(x, 2) for x in theory.distance_range(d, n_samples=100)) for d in (3, 100, 10000)]
    [(0.01, 3.2), (0.68, 1.35), (0.97, 1.03)]
    """
    d = check_count("n_features", n_features, most=math.inf)
    n = check_count("n_samples", n_samples, most=math.inf, least=2, advice="A distance needs two points.")
    tail = check_fraction("delta", delta) / (n * (n - 1))
    low, high = stats.chi2.ppf(tail, d), stats.chi2.isf(tail, d)
    return math.sqrt(float(low) / d), math.sqrt(float(high) / d)
