"""Matrices: spectral-norm error of Gram matrices, sketched least squares, low rank, traces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize, stats

from bochner.theory import _arguments as check

_ROW_NORM = {"pairs": 1.0, "offset": 2.0}  # largest squared length of one frequency's features at a point


def _bernstein(n_samples: int, kernel_norm: float | None, form: str) -> tuple[int, float, float]:
    """Return n_samples, and variance and largest norm of one frequency's error."""
    n = check.count("n_samples", n_samples)
    b = _ROW_NORM[check.choice("form", form, _ROW_NORM)]
    norm = float(n) if kernel_norm is None else check.positive("kernel_norm", kernel_norm)
    if not 1 - 1e-9 <= norm <= n * (1 + 1e-9):
        raise ValueError(
            f"kernel_norm must lie between 1 and n_samples = {n} if k(x, x) = 1, got {norm:g}. "
            "Pass the largest eigenvalue of the n_samples × n_samples Gram matrix."
        )
    # E(R - K)² = E R² - K² <= bnK - K²; its norm is the largest lam (bn - lam) for eigenvalues lam <= ||K||.
    top = min(norm, b * n / 2)
    return n, top * (b * n - top), b * n


def spectral_error(
    n_samples: int,
    n_frequencies: int,
    *,
    kernel_norm: float | None = None,
    form: str = "pairs",
    delta: float | None = None,
) -> float:
    r"""Spectral norm of the error of the Gram matrix, in expectation or with probability 1 - delta.

    With :math:`v = \max_{\lambda \le \|K\|} \lambda(bn - \lambda)` (at most :math:`bn\|K\|`), b = 1 for pairs
    and 2 for offsets,

    .. math:: E\|\tilde K - K\| \le \sqrt{2 v \ln(2n) / T} + bn\ln(2n) / (3T),\qquad
              P[\|\tilde K - K\| \ge t] \le 2n\exp\Bigl(\frac{-T t^2/2}{v + bnt/3}\Bigr).

    Parameters
    ----------
    n_samples : int
        Size n of the Gram matrix of a stationary kernel with k(x, x) = 1.
    n_frequencies : int
        Independent frequencies T; a pair map has twice as many columns.
    kernel_norm : float, optional
        Largest eigenvalue of the Gram matrix K; n_samples, the worst case, unless given.
    form : {"pairs", "offset"}
        Cosine and sine pairs, or cosines with uniform phases.
    delta : float, optional
        Probability of failure; None for the expectation.

    Returns
    -------
    float
        Bound on the norm, on the scale of K (not divided by n).

    Notes
    -----
    Source: matrix Bernstein, Tropp (2015), theorem 6.6.1. Both matrices are positive semi-definite, so one
    frequency's error is at most bn/T (not twice that) and its square loses K². Sharper than sqrt(3 n² ln n /
    T) + 2 n ln n / T of Lopez-Paz et al. (2014) by ||K|| / n under the root. An error of sqrt(n) needs T of
    the order of ||K|| ln n, so "T ~ sqrt(n) suffices" holds only where ||K|| = O(sqrt n). Looseness (500
    normal points in 5 dimensions, length_scale 1, T = 200): 5.1, and 8.3 without kernel_norm.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.spectral_error(1600, 40, kernel_norm=150.0), 1)
    403.9
    >>> round(theory.spectral_error(1600, 295, kernel_norm=150.0), 1)
    123.7
    """
    n, v, largest = _bernstein(n_samples, kernel_norm, form)
    T = check.count("n_frequencies", n_frequencies)
    if delta is None:
        log_term = math.log(2 * n)
        return math.sqrt(2 * v * log_term / T) + largest * log_term / (3 * T)
    log_term = math.log(2 * n / check.fraction("delta", delta))
    half = largest * log_term / (3 * T)
    return half + math.sqrt(half**2 + 2 * v * log_term / T)


def spectral_frequencies(
    n_samples: int,
    eps: float,
    *,
    kernel_norm: float | None = None,
    form: str = "pairs",
    delta: float | None = None,
) -> int:
    """Frequencies that bring the spectral norm of the error of the Gram matrix below eps.

    Parameters
    ----------
    n_samples : int
        Size of the Gram matrix.
    eps : float
        Norm wanted, on the scale of K; sqrt(n_samples) or 0.1 · kernel_norm, for instance.
    kernel_norm, form, delta
        As in `spectral_error`, of which this is the inverse.

    Returns
    -------
    int
        n_frequencies: half the columns of a pair map.

    Notes
    -----
    Looseness: the square of `spectral_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.spectral_frequencies(1600, 40.0, kernel_norm=150.0)
    2405
    """
    eps = check.positive("eps", eps)
    _bernstein(n_samples, kernel_norm, form)
    return check.smallest(
        lambda T: spectral_error(n_samples, T, kernel_norm=kernel_norm, form=form, delta=delta) <= eps,
        "n_frequencies",
    )


def gaussian_sketch_risk(sketch_size: int, rank: int, *, delta: float | None = None) -> float:
    r"""Excess of Gaussian sketch-and-solve least squares over the optimum, relative to the optimum. Exact.

    .. math:: \frac{\|A(\tilde x - x^*)\|^2}{\|Ax^* - b\|^2} \sim \frac{\chi^2_r}{\chi^2_{m-r+1}}, \qquad
              \text{mean } \frac{r}{m - r - 1}

    for x̃ = argmin ||S(Ax - b)||, S an m × n Gaussian matrix, A of rank r; the two chi-squared are
    independent.

    Parameters
    ----------
    sketch_size : int
        Rows m of the sketch, at least rank + 2.
    rank : int
        Rank r of A: its columns, if they are independent.
    delta : float, optional
        Return the 1 - delta quantile (one right-hand side); None for the mean, which holds for any number of
        right-hand sides.

    Returns
    -------
    float
        Excess over the optimum: E||A x̃ - b||² = (1 + value) ||A x* - b||², 1 + value = (m - 1) / (m - r -
        1).

    Notes
    -----
    S b_perp is independent of S A, so the ratio is Hotelling's. Looseness: none, an identity.

    Examples
    --------
    >>> from bochner import theory
    >>> [round(theory.gaussian_sketch_risk(m, 10), 3) for m in (20, 40, 80)]
    [1.111, 0.345, 0.145]
    >>> round(theory.gaussian_sketch_risk(80, 10, delta=1e-6), 3)
    0.872
    """
    r = check.count("rank", rank)
    m = check.count(
        "sketch_size",
        sketch_size,
        minimum=r + 2,
        advice="The mean is infinite with fewer than rank + 2 rows; sketch more.",
    )
    if delta is None:
        return r / (m - r - 1)
    return float(stats.f.isf(check.fraction("delta", delta), r, m - r + 1)) * r / (m - r + 1)


def gaussian_sketch_size(eps: float, rank: int, *, delta: float | None = None) -> int:
    """Rows of a Gaussian sketch that bring the relative excess of least squares below eps.

    Parameters
    ----------
    eps : float
        Excess over the optimum wanted, relative to the optimum.
    rank : int
        Rank of A.
    delta : float, optional
        Probability of failure; None for the expectation.

    Returns
    -------
    int
        sketch_size: rank + 1 + rank / eps, rounded up, for the expectation.

    Notes
    -----
    The inverse of `gaussian_sketch_risk`. Looseness: none.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.gaussian_sketch_size(0.1, 10), theory.gaussian_sketch_size(0.1, 10, delta=1e-6)
    (111, 497)
    """
    eps = check.positive("eps", eps)
    r = check.count("rank", rank)
    extra = check.smallest(
        lambda e: gaussian_sketch_risk(r + 1 + e, r, delta=delta) <= eps * (1 + 1e-12), "sketch_size"
    )
    return r + 1 + extra


def low_rank_error(singular_values: Any, n_components: int) -> float:
    r"""Bound on E ||A - Q Qᵀ A||_F² for Q a basis of A times a Gaussian matrix with n_components columns.

    .. math:: \min_{0 \le k \le m-2} \Bigl(1 + \frac{k}{m-k-1}\Bigr) \sum_{j>k} \sigma_j^2,
              \qquad m = \mathtt{n\_components}

    Parameters
    ----------
    singular_values : array
        Of A, in any order. Square roots of the eigenvalues for a positive semi-definite A = B Bᵀ seen through
        B.
    n_components : int
        Columns of the sketch, at least 2.

    Returns
    -------
    float
        Bound on the expected squared Frobenius error, at the best rank k.

    Notes
    -----
    The left side is an expectation, often left out in print. Source: Halko, Martinsson and Tropp (2011),
    theorem 10.5. Looseness for singular values j^-1/2, 1/j, 1/j², j <= 100, m = 20: 1.5, 1.8, 2.2.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> round(theory.low_rank_error(1 / np.arange(1, 101), 20), 4)
    0.1799
    """
    s = np.sort(check.vector("singular_values", singular_values))[::-1]
    m = check.count("n_components", n_components, minimum=2, advice="The bound needs rank + 2 columns.")
    tails = np.append(np.cumsum(s[::-1] ** 2)[::-1], 0.0)  # tails[k] = sum of squares past the k largest
    k = np.arange(min(m - 1, len(tails)))
    return float((tails[k] * (m - 1) / (m - k - 1)).min())


def low_rank_components(rank: int, eps: float) -> int:
    """Columns of a Gaussian sketch whose expected squared error is within 1 + eps of the best of given rank.

    Parameters
    ----------
    rank : int
        The rank k compared with.
    eps : float
        Excess over ||A - A_k||_F², relative to it.

    Returns
    -------
    int
        n_components = k + 1 + k / eps, rounded up.

    Notes
    -----
    Source: Halko, Martinsson and Tropp (2011). Looseness: `low_rank_error`'s.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.low_rank_components(10, 0.1)
    111
    """
    return gaussian_sketch_size(eps, rank)


def trace_upper_factor(n_probes: int, *, delta: float) -> float:
    r"""Factor from a Gaussian (Hutchinson) trace estimate to an upper bound, with probability 1 - delta.

    For E positive semi-definite and g_i ~ N(0, I), tr E <= factor · mean(g_iᵀ E g_i), where 1/factor = 1 - e
    solves :math:`((1-e)\,\mathrm{e}^{e})^{s/2} = \delta`. Applied to EᵀE it certifies a Frobenius norm from
    products E g.

    Parameters
    ----------
    n_probes : int
        Gaussian probes s. (Signs ±1 have smaller variance but no such bound: they may miss a direction
        entirely.)
    delta : float
        Probability of failure.

    Returns
    -------
    float
        At least 1.

    Notes
    -----
    Chernoff: E exp(-t gᵀEg) = det(I + 2tE)^(-1/2) <= (1 + 2t tr E)^(-1/2), whatever the spectrum. Looseness
    at worst spectrum (rank one, exact law chi-squared), delta = 1e-3: 1.44 for 10 probes, 1.10 for 100.

    Examples
    --------
    >>> from bochner import theory
    >>> [round(theory.trace_upper_factor(s, delta=1e-3), 2) for s in (10, 30, 100)]
    [9.77, 3.13, 1.78]
    """
    s = check.count("n_probes", n_probes)
    target = 2 * math.log(check.fraction("delta", delta)) / s  # ln y + 1 - y at y = 1 - e

    def gap(log_y: float) -> float:
        return log_y + 1 - math.exp(log_y) - target

    return math.exp(-float(optimize.brentq(gap, target - 1, 0.0, xtol=1e-13)))
