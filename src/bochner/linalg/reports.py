"""Results of this package's functions, and their reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np
from scipy.special import lambertw

from bochner.backends import Array
from bochner.ridge.matrices import Matrix, Operator, known_norm
from bochner.ridge.reports import DELTA, Estimate, Result
from bochner.theory.matrix_bounds import trace_upper_factor


def met(residual: float, tol: float | None) -> bool | None:
    """Return True if the residual is at most tol, up to rounding; None without a tol."""
    return None if tol is None else bool(residual <= tol * (1.0 + 1e-6))


class LowRank(Result, ABC):
    """An approximation left · right of a matrix."""

    @abstractmethod
    def factors(self) -> tuple[Array, Array]:
        """Return (left, right), arrays whose product is the approximation."""

    @property
    def rank(self) -> int:
        return int(self.factors()[0].shape[1])

    def __matmul__(self, B: Array) -> Array:
        left, right = self.factors()
        return left @ (right @ B)

    def to_dense(self) -> Array:
        """Return the approximation as an array."""
        left, right = self.factors()
        return left @ right


def largest_ratio(sizes: Array, scales: Array) -> float:
    """Return the largest of sizes / scales; a scale of 0 counts as 1."""
    return float((sizes / np.where(scales > 0, scales, 1.0)).max(initial=0.0))


def deviation(n_probes: int, delta: float) -> float:
    """Return the x > 0 with ((1 + x) exp(-x))^(n_probes / 2) = delta.

    For the mean of n_probes forms gᵀBg, g ~ N(0, I), P(mean - tr B ≥ x ‖B‖_F) ≤ delta, and the same of tr B - mean:
    Chernoff, since of all B with one Frobenius norm that of rank one has the largest moment generating function. For
    a positive semi-definite B also P(mean ≥ (1 + x) tr B) ≤ delta. Columns that are uniform on the sphere
    ‖g‖² = n in place of Gaussian ones have smaller moment generating functions, by Jensen's inequality.
    """
    return float(-lambertw(-(delta ** (2.0 / n_probes)) / np.e, -1).real) - 1.0


def _ends(norm: Estimate, delta: float) -> tuple[float, float]:
    """Return an interval, for any spectrum, of a Frobenius norm that was estimated as a root mean square."""
    if norm.n_probes == 0:
        return norm.value, norm.value
    low = norm.value / np.sqrt(1.0 + deviation(norm.n_probes, delta / 2.0))
    return float(low), float(norm.value * np.sqrt(trace_upper_factor(norm.n_probes, delta=delta / 2.0)))


def frobenius_estimate(products: Array) -> Estimate:
    """Estimate ‖A‖_F from products of A with standard normal columns: E‖Aω‖² = ‖A‖_F²."""
    unit = float(np.abs(products).max(initial=0.0)) or 1.0  # squares of squares overflow long before their roots
    squares = np.einsum("ij,ij->j", products / unit, products / unit, dtype=np.float64)
    s, value = len(squares), float(np.sqrt(squares.mean()))
    error = float(squares.std(ddof=1) / np.sqrt(4.0 * s * squares.mean())) if value > 0 else 0.0
    estimate = Estimate(unit * value, unit * error, 0.0, np.inf, s)
    low, high = _ends(estimate, DELTA)
    return replace(estimate, low=low, high=high)


def error_estimates(
    difference: Array, norm: Estimate, *, cut: float = 0.0, look: int | None = None
) -> dict[str, Estimate]:
    """Estimate ‖A - Â‖_F, absolute and relative to `norm`, from products of A - Â with standard normal columns.

    `cut` is the Frobenius norm of what was taken off Â afterwards, orthogonal to A - Â. Where such columns
    decide repeatedly whether Â is good enough, test i = 1, 2, … has a share 1 / i (i + 1) of the probability of error.
    """
    delta = DELTA if look is None else DELTA / (look * (look + 1.0))
    seen = frobenius_estimate(difference)
    value = float(np.hypot(seen.value, cut))
    error = seen.standard_error * seen.value / value if value > 0 else 0.0

    rounding = 100.0 * float(np.finfo(difference.dtype).eps) * norm.value

    def interval(delta: float) -> tuple[float, float]:
        low, high = _ends(seen, delta)
        return max(0.0, float(np.hypot(low, cut)) - rounding), float(np.hypot(high, cut)) + rounding

    absolute = Estimate(value, error, *interval(delta), seen.n_probes)
    if norm.value == 0.0:
        return {"error": absolute, "relative_error": absolute}
    known = norm.n_probes == 0
    (low, high), (least, most) = interval(delta if known else delta / 2.0), _ends(norm, DELTA / 2.0)
    ratio = value / norm.value
    spread = float(np.hypot(error, ratio * norm.standard_error)) / norm.value
    relative = Estimate(ratio, spread, low / most, high / least, seen.n_probes)
    return {"error": absolute, "relative_error": relative}


def exact_error(lost: float, norm: float, rounding: float) -> dict[str, Estimate]:
    """Return both estimates for an error whose square is the fraction `lost` of norm², exact up to rounding."""
    relative = [max(0.0, lost + change) ** 0.5 for change in (0.0, -rounding, rounding)]
    sizes = {"error": norm, "relative_error": 1.0}
    return {
        key: Estimate(size * relative[0], 0.0, size * relative[1], size * relative[2], 0, 1.0)
        for key, size in sizes.items()
    }


def trace_estimate(forms: Array, squares: Array, n: int, n_probes: int | None = None) -> Estimate:
    """Estimate the trace of B (n, n) from zᵀBz and ‖Bz‖² for columns z that are uniform on the sphere ‖z‖² = n.

    The mean is within `deviation` times ‖B - cI‖_F of the trace, for any c since zᵀz = n; that norm is bounded by the
    squares. Nothing is assumed of B.
    """
    s, mean = len(forms), float(forms.mean())
    x, factor = deviation(s, DELTA / 4.0), trace_upper_factor(s, delta=DELTA / 2.0)
    # with c = tr B / n, which is not known: mean ‖(B - cI)z‖² = mean ‖Bz‖² - mean²/n + (mean - tr B)²/n, and the last
    # term is at most x² ‖B - cI‖_F² / n
    share = factor * x * x / n
    size = float(squares.mean())
    if share <= 0.8:
        size = max(0.0, size - mean * mean / n) / (1.0 - share)
    half = x * float(np.sqrt(factor * size))
    error = float(forms.std(ddof=1) / np.sqrt(s))
    return Estimate(mean, error, mean - half, mean + half, n_probes or s)


def frobenius_norm(A: Matrix, products: Array) -> Estimate:
    """Return ‖A‖_F: exact if the entries are known, else estimated from `products` with standard normal columns."""
    return frobenius_estimate(products) if isinstance(A, Operator) else Estimate.exact(known_norm(A))
