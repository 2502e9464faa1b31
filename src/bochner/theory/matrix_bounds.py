"""Matrices: spectral errors of kernel matrices, ridge regression, low rank, sketched least squares, traces."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from bochner.checks import check_count, check_fraction, check_positive, check_spectrum
from bochner.theory.bounds import Count, ErrorBound, Positive
from bochner.theory.feature_bounds import RANGE, Form


@dataclass(frozen=True, kw_only=True)
class SpectralBound(ErrorBound):
    r"""Spectral norm of the error of the kernel matrix, on the scale of K; size is n_frequencies.

    With :math:`v = \max_{\lambda \le \|K\|} \lambda(bn - \lambda) \le bn\|K\|`, b = 1 for pairs and 2 for offsets,

    .. math:: E\|\tilde K - K\| \le \sqrt{2 v \ln(2n) / T} + bn\ln(2n) / (3T),\qquad
              P[\|\tilde K - K\| \ge t] \le 2n\exp\Bigl(\frac{-T t^2/2}{v + bnt/3}\Bigr).

    Source: matrix Bernstein, Tropp (2015), theorem 6.6.1. Both matrices are positive semi-definite, so one frequency's
    error is at most bn/T (not twice that) and its square loses K². Sharper than sqrt(3 n² ln n / T) + 2 n ln n / T of
    Lopez-Paz et al. (2014) by ||K|| / n under the root. An error of sqrt(n) needs T of the order of ||K|| ln n, so
    "T ~ sqrt(n) suffices" holds only where ||K|| = O(sqrt n). Looseness (500 normal points in 5 dimensions,
    length_scale 1, T = 200): 5.1, and 8.3 without kernel_norm. In size, its square.

    Parameters
    ----------
    n_samples : int
        Size n of the matrix of a stationary kernel with k(x, x) = 1.
    kernel_norm : float, optional
        Largest eigenvalue of the kernel matrix K; n_samples, the worst case, unless given.
    form : {"pairs", "offset"}
        Cosine and sine pairs, with two components a frequency, or cosines with uniform phases, with one.

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.SpectralBound(n_samples=1600, kernel_norm=150.0)
    >>> [round(bound.error(T), 1) for T in (40, 295)], bound.size(40.0)
    ([403.9, 123.7], 2405)
    """

    n_samples: Count
    kernel_norm: Annotated[float | None, check_positive] = None
    form: Form = "pairs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 - 1e-9 <= self._norm <= self.n_samples * (1 + 1e-9):
            raise ValueError(
                f"kernel_norm must lie between 1 and n_samples = {self.n_samples} if k(x, x) = 1, got {self._norm:g}. "
                "Pass the largest eigenvalue of the n_samples × n_samples kernel matrix."
            )

    @property
    def _norm(self) -> float:
        return float(self.n_samples) if self.kernel_norm is None else self.kernel_norm

    @property
    def _largest(self) -> float:
        return RANGE[self.form] * self.n_samples  # bn, the largest norm of one frequency's matrix R

    @property
    def _variance(self) -> float:
        # E(R - K)² = E R² - K² <= bnK - K²; its norm is the largest lam (bn - lam) for eigenvalues lam <= ||K||.
        top = min(self._norm, self._largest / 2)
        return top * (self._largest - top)

    def _mean(self, T: int) -> float:
        log_term = math.log(2 * self.n_samples)
        return math.sqrt(2 * self._variance * log_term / T) + self._largest * log_term / (3 * T)

    def _error(self, T: int, delta: float) -> float:
        log_term = math.log(2 * self.n_samples / delta)
        half = self._largest * log_term / (3 * T)
        return half + math.sqrt(half**2 + 2 * self._variance * log_term / T)

    def _failure(self, T: int, t: float) -> float:
        return 2 * self.n_samples * math.exp(-T * t**2 / 2 / (self._variance + self._largest * t / 3))


def effective_dimension(eigenvalues: ArrayLike, alpha: float) -> float:
    r"""Return the effective dimension of ridge regression: the degrees of freedom that a penalty leaves.

    .. math:: \sum_i \frac{\lambda_i}{\lambda_i + \alpha} = \mathrm{tr}\,K(K + \alpha I)^{-1}

    Parameters
    ----------
    eigenvalues : array
        Of K; squared singular values for ridge regression on a matrix.
    alpha : float
        Ridge penalty of ||Zw - y||² + alpha ||w||², not divided by n.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.effective_dimension([3.0, 1.0], 1.0)
    1.25
    """
    values = check_spectrum("eigenvalues", eigenvalues)
    return float((values / (values + check_positive("alpha", alpha))).sum())


def effective_dimension_range(
    eigenvalues: ArrayLike, alpha: float, *, trace: float, n_samples: int
) -> tuple[float, float]:
    r"""Return the smallest and largest effective dimension that agree with the largest eigenvalues and the trace.

    The eigenvalues not seen are between 0 and the smallest seen and add up to what is left of the trace;
    :math:`\lambda/(\lambda+\alpha)` is concave, so its sum is largest when they are equal and smallest when they are as
    unequal as they may be.

    Parameters
    ----------
    eigenvalues : array
        The largest of K, from a Nyström approximation or Lanczos.
    alpha : float
        Ridge penalty.
    trace : float
        Of K; n_samples for a kernel with k(x, x) = 1.
    n_samples : int
        Size of K.

    Examples
    --------
    >>> from bochner import theory
    >>> low, high = theory.effective_dimension_range([60.0, 30.0], 1.0, trace=100.0, n_samples=100)
    >>> round(low, 3), round(high, 3)
    (2.86, 11.025)
    """
    seen = check_spectrum("eigenvalues", eigenvalues)
    alpha = check_positive("alpha", alpha)
    n = check_count("n_samples", n_samples, least=len(seen), most=math.inf, advice="K has n_samples eigenvalues.")
    left, hidden, cap = check_positive("trace", trace) - float(seen.sum()), n - len(seen), float(seen.min())
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


@dataclass(frozen=True, kw_only=True)
class RidgeBound(ErrorBound):
    r"""Relative spectral error of K̃ + alpha I; size is n_frequencies, or the number of sampled columns.

    For K̃ a mean of T independent positive semi-definite terms (frequencies, or sampled columns of B in K = B Bᵀ),
    matrix Bernstein promises
    :math:`(1-\varepsilon)(K+\alpha I) \preceq \tilde K + \alpha I \preceq (1+\varepsilon)(K+\alpha I)`
    with probability :math:`1 - \delta` if :math:`T = 2(1 + \varepsilon/3)\varepsilon^{-2} c \ln(16 d_e/\delta)`. An
    error of 1 or more says nothing.

    The size grows like d_e ln d_e / eps²: with eps divided, not multiplied. Source: Avron et al. (2017), theorem 7,
    with Tropp (2015), theorem 7.3.1; they round 2 (1 + eps/3) up to 8/3. Looseness (40 points on a line, alpha = 2,
    delta = 1e-3): 6.1 for frequencies from the spectrum, 2.0 by leverage. In size, its square.

    Parameters
    ----------
    effective_dimension : float
        d_e = tr K (K + alpha I)^-1, at least 1/2; the largest eigenvalue of K must be alpha or more.
    coherence : float, optional
        c >= d_e, a bound on the norm of (K + alpha I)^(-1/2) (one term) (K + alpha I)^(-1/2): n_samples / alpha for
        pairs from the kernel's spectrum, twice that for offsets; d_e, the default, if drawn by ridge leverage scores.

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.RidgeBound(effective_dimension=20.0)
    >>> round(bound.error(10_000, delta=0.01), 3), bound.size(0.5, delta=0.01)
    (0.211, 1937)
    >>> theory.RidgeBound(effective_dimension=20.0, coherence=1000 / 0.5).size(0.5, delta=0.01)
    193639
    """

    relative = True
    effective_dimension: Positive
    coherence: Annotated[float | None, check_positive] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.effective_dimension < 0.5:
            raise ValueError(
                f"effective_dimension must be at least 0.5, got {self.effective_dimension:g}: the penalty exceeds the "
                "largest eigenvalue of K. Lower alpha; a fit with so much penalty is a constant."
            )
        if self._coherence < self.effective_dimension * (1 - 1e-9):
            raise ValueError(
                f"coherence must be at least effective_dimension = {self.effective_dimension:g}, got "
                f"{self._coherence:g}. Pass n_samples / alpha for frequencies from the kernel's spectrum."
            )

    @property
    def _coherence(self) -> float:
        return self.effective_dimension if self.coherence is None else self.coherence

    def _error(self, T: int, delta: float) -> float:
        rate = 2 * self._coherence * math.log(16 * self.effective_dimension / delta) / T
        return rate / 6 + math.sqrt((rate / 6) ** 2 + rate)  # eps² = rate (1 + eps / 3)

    def _failure(self, T: int, eps: float) -> float:
        return 16 * self.effective_dimension * math.exp(-T * eps**2 / (2 * self._coherence * (1 + eps / 3)))


def _spectrum(name: str, value: ArrayLike) -> tuple[float, ...]:
    return tuple(np.sort(check_spectrum(name, value))[::-1].tolist())


@dataclass(frozen=True, kw_only=True)
class LowRankBound(ErrorBound):
    r"""Mean of ||A - Q Qᵀ A||_F², Q a basis of A times a Gaussian matrix; size is n_components, its columns.

    .. math:: E\|A - QQ^TA\|_F^2 \le \min_{0 \le k \le m-2} \Bigl(1 + \frac{k}{m-k-1}\Bigr) \sum_{j>k} \sigma_j^2,
              \qquad m = \mathtt{n\_components}

    That is within 1 + eps of the best of rank k for m = k + 1 + k/eps, ``GaussianSketchBound(rank=k).size(eps)``. With
    a delta, Markov's inequality divides by it. The left side is an expectation, often left out in print. Source: Halko,
    Martinsson and Tropp (2011), theorem 10.5. Looseness for singular values j^-1/2, 1/j, 1/j², j <= 100, m = 20: 1.5,
    1.8, 2.2.

    Parameters
    ----------
    singular_values : array
        Of A, in any order. Square roots of the eigenvalues for a positive semi-definite A = B Bᵀ seen through B.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> bound = theory.LowRankBound(singular_values=1 / np.arange(1, 101))
    >>> round(bound.error(20), 4), bound.size(0.1)
    (0.1799, 34)
    """

    counts = "n_components"
    singular_values: Annotated[Any, _spectrum]

    @property
    def least_size(self) -> int:
        return 2

    def _mean(self, m: int) -> float:
        # tails[k] is the sum of squares past the k largest
        tails = np.append(np.cumsum(np.square(self.singular_values[::-1]))[::-1], 0.0)
        k = np.arange(min(m - 1, len(tails)))
        return float((tails[k] * (m - 1) / (m - k - 1)).min())

    def _error(self, m: int, delta: float) -> float:
        return self._mean(m) / delta

    def _failure(self, m: int, square: float) -> float:
        return self._mean(m) / square


@dataclass(frozen=True, kw_only=True)
class GaussianSketchBound(ErrorBound):
    r"""Excess of Gaussian sketch-and-solve least squares, relative to the optimum. Exact; size is sketch_size.

    .. math:: \frac{\|A(\tilde x - x^*)\|^2}{\|Ax^* - b\|^2} \sim \frac{\chi^2_r}{\chi^2_{m-r+1}}, \qquad
              \text{mean } \frac{r}{m - r - 1}

    for x̃ = argmin ||S(Ax - b)||, S an m × n Gaussian matrix, A of rank r: S b_perp is independent of S A, so the ratio
    is Hotelling's, of independent chi-squared. So E||A x̃ - b||² = (m - 1) / (m - r - 1) ||A x* - b||². With a delta
    the error is the quantile for one right-hand side; the mean holds for any number of them, and a mean of eps needs
    r + 1 + r / eps rows.

    Parameters
    ----------
    rank : int
        Rank r of A: its columns, if they are independent. A sketch has at least rank + 2 rows.

    Examples
    --------
    >>> from bochner import theory
    >>> bound = theory.GaussianSketchBound(rank=10)
    >>> [round(bound.error(m), 3) for m in (20, 40, 80)], round(bound.error(80, delta=1e-6), 3)
    ([1.111, 0.345, 0.145], 0.872)
    >>> bound.size(0.1), bound.size(0.1, delta=1e-6)
    (111, 497)
    """

    counts = "sketch_size"
    rank: Count

    @property
    def least_size(self) -> int:
        return self.rank + 2  # with fewer rows the mean is infinite

    def _mean(self, m: int) -> float:
        return self.rank / (m - self.rank - 1)

    def _error(self, m: int, delta: float) -> float:
        # excess / (1 + excess) ~ Beta(r/2, (m-r+1)/2); older SciPy's quantiles of the F law have few digits
        a, b = self.rank / 2, (m - self.rank + 1) / 2
        share, rest = float(special.betainccinv(a, b, delta)), float(special.betaincinv(b, a, delta))
        return share / (1 - share) if share < 0.5 else (1 - rest) / rest

    def _failure(self, m: int, excess: float) -> float:
        return float(special.betainc((m - self.rank + 1) / 2, self.rank / 2, 1 / (1 + excess)))


def trace_upper_factor(n_probes: int, *, delta: float) -> float:
    r"""Return the factor that makes a Gaussian (Hutchinson) trace estimate an upper bound with probability 1 - delta.

    For E positive semi-definite and g_i ~ N(0, I), tr E <= factor · mean(g_iᵀ E g_i), where 1/factor = 1 - e solves
    :math:`((1-e)\,\mathrm{e}^{e})^{s/2} = \delta`. Applied to EᵀE it certifies a Frobenius norm from products E g.
    Chernoff: E exp(-t gᵀEg) = det(I + 2tE)^(-1/2) <= (1 + 2t tr E)^(-1/2), whatever the spectrum. Looseness at worst
    spectrum (rank one, exactly chi-squared), delta = 1e-3: 1.44 for 10 probes, 1.10 for 100.

    Parameters
    ----------
    n_probes : int
        Gaussian probes s. (Signs ±1 have smaller variance but no such bound: they may miss a direction entirely.)
    delta : float
        Probability of failure.

    Examples
    --------
    >>> from bochner import theory
    >>> [round(theory.trace_upper_factor(s, delta=1e-3), 2) for s in (10, 30, 100)]
    [9.77, 3.13, 1.78]
    """
    s = check_count("n_probes", n_probes)
    target = 2 * math.log(check_fraction("delta", delta)) / s  # ln y + 1 - y at y = 1 - e

    def gap(log_y: float) -> float:
        return log_y + 1 - math.exp(log_y) - target

    return math.exp(-float(optimize.brentq(gap, target - 1, 0.0, xtol=1e-13)))
