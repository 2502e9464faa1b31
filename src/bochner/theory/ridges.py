"""Ridge regression: its effective dimension, and the features that its normal equations need."""

from __future__ import annotations

import math
from typing import Any

from bochner.theory import _arguments as check


def effective_dimension(eigenvalues: Any, alpha: float) -> float:
    r"""Effective dimension of ridge regression: the degrees of freedom that a penalty leaves.

    .. math:: \sum_i \frac{\lambda_i}{\lambda_i + \alpha} = \mathrm{tr}\,K(K + \alpha I)^{-1}

    Parameters
    ----------
    eigenvalues : array
        Of K; squared singular values for ridge regression on a matrix.
    alpha : float
        Ridge penalty of ||Zw - y||² + alpha ||w||², not divided by n.

    Returns
    -------
    float
        Between 0 and the rank.

    Notes
    -----
    Looseness: none, a definition.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.effective_dimension([3.0, 1.0], 1.0)
    1.25
    """
    values = check.vector("eigenvalues", eigenvalues)
    return float((values / (values + check.positive("alpha", alpha))).sum())


def effective_dimension_range(eigenvalues: Any, alpha: float, *, trace: float, n_samples: int) -> tuple[float, float]:
    r"""Sharp bracket of the effective dimension from the largest eigenvalues and the trace.

    The n - m eigenvalues not seen are between 0 and the smallest seen and add up to what is left of the
    trace; :math:`\lambda/(\lambda+\alpha)` is concave, so its sum is largest when they are equal and smallest
    when they are as unequal as they may be.

    Parameters
    ----------
    eigenvalues : array
        The m largest of K, from a Nyström approximation or Lanczos.
    alpha : float
        Ridge penalty.
    trace : float
        Of K; n_samples for a kernel with k(x, x) = 1.
    n_samples : int
        Size of K, at least m.

    Returns
    -------
    (float, float)
        Smallest and largest value that agree with what is known; both are attained.

    Examples
    --------
    >>> from bochner import theory
    >>> low, high = theory.effective_dimension_range([60.0, 30.0], 1.0, trace=100.0, n_samples=100)
    >>> round(low, 3), round(high, 3)
    (2.86, 11.025)
    """
    seen = check.vector("eigenvalues", eigenvalues)
    alpha = check.positive("alpha", alpha)
    n = check.count("n_samples", n_samples, minimum=len(seen), advice="K has n_samples eigenvalues in all.")
    left, hidden, cap = check.positive("trace", trace) - float(seen.sum()), n - len(seen), float(seen.min())
    if not -1e-9 * trace <= left <= hidden * cap * (1 + 1e-9) + 1e-9 * trace:
        raise ValueError(
            f"trace = {trace:g} leaves {left:g} for {hidden} eigenvalues up to {cap:g}, which cannot be. "
            "Pass the largest eigenvalues and the trace of the same matrix."
        )
    known = effective_dimension(seen, alpha)
    if left <= 0 or hidden == 0:
        return known, known
    full = math.floor(left / cap)
    rest = left - full * cap
    low = full * cap / (cap + alpha) + rest / (rest + alpha)
    return known + low, known + left / (left / hidden + alpha)


def ridge_error(
    n_frequencies: int, effective_dimension: float, *, delta: float, coherence: float | None = None
) -> float:
    r"""Relative spectral error of K̃ + alpha I, with probability 1 - delta.

    The smallest eps for which matrix Bernstein promises
    :math:`(1-\varepsilon)(K+\alpha I) \preceq \tilde K + \alpha I \preceq (1+\varepsilon)(K+\alpha I)`:
    :math:`T = 2(1 + \varepsilon/3)\varepsilon^{-2} c \ln(16 d_e/\delta)`.

    Parameters
    ----------
    n_frequencies : int
        Independent positive semi-definite terms T that K̃ averages: frequencies, or sampled columns of B in K
        = B Bᵀ.
    effective_dimension : float
        d_e = tr K (K + alpha I)^-1, at least 1/2; the largest eigenvalue of K must be alpha or more.
    delta : float
        Probability of failure.
    coherence : float, optional
        c >= d_e, a bound on the norm of (K + alpha I)^(-1/2) (one term) (K + alpha I)^(-1/2): n_samples /
        alpha for pairs drawn from the kernel's spectrum (twice that for offsets); d_e, the default, if drawn
        by ridge leverage scores.

    Returns
    -------
    float
        eps. A value of 1 or more says nothing.

    Notes
    -----
    Source: Avron et al. (2017), theorem 7, with Tropp (2015), theorem 7.3.1; they round 2 (1 + eps/3) up to
    8/3. Looseness (40 points on a line, alpha = 2, delta = 1e-3): 6.1 for frequencies from the spectrum, 2.0
    by leverage.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.ridge_error(10_000, 20.0, delta=0.01), 3)
    0.211
    """
    T = check.count("n_frequencies", n_frequencies)
    c, log_term = _ridge_terms(effective_dimension, coherence, delta)
    rate = 2 * c * log_term / T  # eps² = rate (1 + eps / 3)
    return rate / 6 + math.sqrt((rate / 6) ** 2 + rate)


def ridge_frequencies(
    effective_dimension: float, *, eps: float = 0.5, delta: float = 0.01, coherence: float | None = None
) -> int:
    """Frequencies, or sampled columns, for a relative spectral error eps of K̃ + alpha I.

    Parameters
    ----------
    effective_dimension : float
        d_e = tr K (K + alpha I)^-1, at least 1/2; the largest eigenvalue of K must be alpha or more.
    eps : float
        Relative error, strictly between 0 and 1.
    delta : float
        Probability of failure.
    coherence : float, optional
        As in `ridge_error`; the default is sampling by ridge leverage scores.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    It grows like d_e ln d_e / eps²: with eps divided, not multiplied. Looseness: the square of
    `ridge_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.ridge_frequencies(20.0), theory.ridge_frequencies(20.0, coherence=1000 / 0.5)
    (1937, 193639)
    """
    eps = check.fraction("eps", eps)
    c, log_term = _ridge_terms(effective_dimension, coherence, delta)
    return check.whole(2 * (1 + eps / 3) / eps**2 * c * log_term, "n_frequencies")


def _ridge_terms(effective_dimension: float, coherence: float | None, delta: float) -> tuple[float, float]:
    d_e = check.positive("effective_dimension", effective_dimension)
    if d_e < 0.5:
        raise ValueError(
            f"effective_dimension must be at least 0.5, got {d_e:g}: the penalty exceeds the largest "
            "eigenvalue of K. Lower alpha; a fit with so much penalty is a constant."
        )
    c = d_e if coherence is None else check.positive("coherence", coherence)
    if c < d_e * (1 - 1e-9):
        raise ValueError(
            f"coherence must be at least effective_dimension = {d_e:g}, got {c:g}. Pass n_samples / alpha "
            "for frequencies from the kernel's spectrum."
        )
    return c, math.log(16 * d_e / check.fraction("delta", delta))
