"""Functions approximated by sums of random or greedily chosen units."""

from __future__ import annotations

import math

from bochner.theory import _arguments as check


def hilbert_mean_error(n_draws: int, *, radius: float = 1.0, delta: float) -> float:
    r"""Distance of a mean of i.i.d. draws in a Hilbert ball from its expectation, with probability 1 - delta.

    .. math:: \frac{M}{\sqrt{T}} \bigl(1 + \sqrt{2\ln(1/\delta)}\bigr)

    Parameters
    ----------
    n_draws : int
        Draws T.
    radius : float
        M with ||draw|| <= M almost surely.
    delta : float
        Probability of failure.

    Returns
    -------
    float
        The distance, in the norm of the space.

    Notes
    -----
    The 1 stands outside the root: sqrt(1 + 2 ln(1/delta)), sometimes printed, is smaller and is not what
    McDiarmid's inequality gives. Source: Rahimi and Recht (2008), lemma 4. Looseness for uniform unit vectors
    in 20 dimensions, T = 50, delta = 1e-3: 3.2; for signs, 1.5.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.hilbert_mean_error(100, delta=0.01), 4)
    0.4035
    """
    T = check.count("n_draws", n_draws)
    M = check.positive("radius", radius)
    return M / math.sqrt(T) * (1 + math.sqrt(2 * math.log(1 / check.fraction("delta", delta))))


def kitchen_sinks_error(n_frequencies: int, *, norm: float, delta: float) -> float:
    r"""L2 distance of a function from the span of n_frequencies random units, with probability 1 - delta.

    For :math:`f(x) = \int \alpha(w)\phi(x; w)\,dw` with :math:`|\phi| \le 1` and :math:`\|f\|_p = \sup_w
    |\alpha(w)|/p(w) = C`, the sum with weights :math:`\alpha(w_i)/(T p(w_i))`, w_i ~ p, is within :math:`C(1
    + \sqrt{2\ln(1/\delta)})/\sqrt{T}` of f in L2 of any probability measure.

    Parameters
    ----------
    n_frequencies : int
        Random units T drawn from p.
    norm : float
        C = sup |alpha(w)| / p(w).
    delta : float
        Probability of failure.

    Returns
    -------
    float
        The distance in L2.

    Notes
    -----
    Source: Rahimi and Recht (2008), lemma 1, by `hilbert_mean_error`. Looseness for
    x exp(-x²/2), T = 40, delta = 1e-3: 3.4 with the weights named above; the best weights do better still.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.kitchen_sinks_error(400, norm=2.0, delta=0.01), 4)
    0.4035
    """
    check.count("n_frequencies", n_frequencies)
    return hilbert_mean_error(n_frequencies, radius=check.positive("norm", norm), delta=delta)


def kitchen_sinks_frequencies(eps: float, *, norm: float, delta: float) -> int:
    """Random units that bring the L2 distance of `kitchen_sinks_error` below eps.

    Parameters
    ----------
    eps : float
        Distance wanted in L2.
    norm : float
        C = sup |alpha(w)| / p(w).
    delta : float
        Probability of failure.

    Returns
    -------
    int
        n_frequencies.

    Notes
    -----
    Source: Rahimi and Recht (2008). Looseness: the square of `hilbert_mean_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.kitchen_sinks_frequencies(0.1, norm=1.0, delta=0.01)
    1629
    """
    ratio = check.positive("norm", norm) / check.positive("eps", eps)
    root = 1 + math.sqrt(2 * math.log(1 / check.fraction("delta", delta)))
    return check.whole((ratio * root) ** 2, "n_frequencies")


def kitchen_sinks_risk(
    n_samples: int, n_frequencies: int, *, norm: float, delta: float, lipschitz: float = 1.0
) -> float:
    r"""Excess risk of fitting the weights of random units, with probability 1 - delta.

    .. math:: \frac{LC}{\sqrt T}\bigl(1 + \sqrt{2\ln(2/\delta)}\bigr)
              + \frac{2LC}{\sqrt n}\bigl(2 + \sqrt{2\ln(4/\delta)}\bigr)

    over the best function of norm C, for empirical risk minimisation over weights |a_i| <= C/T.

    Parameters
    ----------
    n_samples : int
        Training points n.
    n_frequencies : int
        Random units T.
    norm : float
        C = sup |alpha(w)| / p(w) of the functions competed against.
    delta : float
        Probability of failure.
    lipschitz : float
        Lipschitz constant L of the loss c(y f) in f.

    Returns
    -------
    float
        Bound on R(fitted) - min R.

    Notes
    -----
    The second term is Rademacher complexity C / sqrt(n) with McDiarmid's inequality, one half of delta;
    constants are ours. Source: Rahimi and Recht (2008), theorem 1, who leave them to O(). Looseness for the
    absolute loss without noise, n = 200, T = 40, delta = 0.01: 13; use it for the rate, not for the size.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.kitchen_sinks_risk(10**6, 10**4, norm=1.0, delta=0.01), 4)
    0.0535
    """
    n = check.count("n_samples", n_samples)
    delta = check.fraction("delta", delta)
    scale = check.positive("lipschitz", lipschitz) * check.positive("norm", norm)
    fit = 2 * scale / math.sqrt(n) * (2 + math.sqrt(2 * math.log(4 / delta)))
    return hilbert_mean_error(check.count("n_frequencies", n_frequencies), radius=scale, delta=delta / 2) + fit


def greedy_error(n_terms: int, *, norm: float, target_norm: float = 0.0) -> float:
    r"""Distance of a function from its relaxed greedy approximation by n_terms units; certain, not probable.

    .. math:: \|f_T - f\| \le \sqrt{(C^2 - \|f\|^2)/T}

    for f in the closed convex hull of a dictionary with norms at most C, when step t minimises
    :math:`\|(1-a)f_{t-1} + a g - f\|` jointly over a in [0, 1] and g in the dictionary, from f_0 = 0 and
    a_1 = 1.

    Parameters
    ----------
    n_terms : int
        Greedy steps T.
    norm : float
        C, largest norm in the dictionary.
    target_norm : float
        ||f||; 0 gives the plain C / sqrt(T).

    Returns
    -------
    float
        The distance in the norm of the space.

    Notes
    -----
    1/e² grows by at least 1/(C² - ||f||²) a step. Source: Jones (1992), Barron (1993). Stagewise: the joint
    optimum over all units at once, which is sometimes displayed under this name, is another (non-convex)
    problem. Looseness for 200 random unit vectors in 30 dimensions, T = 20: 9; for the mean of an orthonormal
    basis none.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.greedy_error(100, norm=1.0)
    0.1
    """
    T = check.count("n_terms", n_terms)
    C, size = check.positive("norm", norm), check.positive("target_norm", target_norm, zero=True)
    if size > C:
        raise ValueError(
            f"target_norm must be at most norm = {C}, got {size}: a point of the convex hull is no longer "
            "than the dictionary. Enlarge norm until the target lies in the hull."
        )
    return math.sqrt((C**2 - size**2) / T)


def greedy_terms(eps: float, *, norm: float, target_norm: float = 0.0) -> int:
    """Greedy steps that bring the distance of `greedy_error` below eps.

    Parameters
    ----------
    eps : float
        Distance wanted.
    norm : float
        C, largest norm in the dictionary.
    target_norm : float
        ||f||.

    Returns
    -------
    int
        n_terms.

    Notes
    -----
    Source: Jones (1992). Looseness: the square of `greedy_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.greedy_terms(0.1, norm=1.0)
    100
    """
    # The ratio is nudged down so that 1 / 0.1² asks for 100 steps, not for 101.
    return check.whole((greedy_error(1, norm=norm, target_norm=target_norm) / check.positive("eps", eps)) ** 2 - 1e-9)
