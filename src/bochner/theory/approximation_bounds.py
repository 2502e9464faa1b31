"""Functions approximated by sums of random or greedily chosen units."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from bochner.checks import check_positive
from bochner.theory.bounds import Count, ErrorBound, Positive


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
    r"""Distance of a function from its relaxed greedy approximation, certain and not only probable; size is n_terms.

    .. math:: \|f_T - f\| \le \sqrt{(C^2 - \|f\|^2)/T}

    for f in the closed convex hull of a dictionary with norms at most C, when step t minimises
    :math:`\|(1-a)f_{t-1} + a g - f\|` jointly over a in [0, 1] and g in the dictionary, from f_0 = 0 and a_1 = 1.
    It needs no delta: a failure is 0 or 1.

    1/e² grows by at least 1/(C² - ||f||²) a step. Source: Jones (1992), Barron (1993). Stagewise: the joint optimum
    over all units at once, which is sometimes displayed under this name, is another (non-convex) problem. Looseness for
    200 random unit vectors in 30 dimensions, T = 20: 9; for the mean of an orthonormal basis none.

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
