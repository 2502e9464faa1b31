"""Properties of data seen through a kernel: distances, and eigenvalues and leverage of the kernel matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bochner.backends import Array, check_moderate
from bochner.checks import check_count, check_positive
from bochner.draws.keys import Key, Seed
from bochner.kernels.algebra import Kernel, finite_points
from bochner.kernels.conversion import KernelLike, as_kernel
from bochner.kernels.stationary import squared_distances


@dataclass(frozen=True)
class DistanceConcentration:
    """How alike all distances are.

    Attributes
    ----------
    mean, std : float
        Of the distances of pairs.
    contrast : float
        std / mean: near zero when all distances are the same.
    dimension : float
        2 (mean d²)² / var d²: the dimension of a normal distribution whose squared distances vary as much.
    quantiles : ndarray of shape (5,)
        1, 25, 50, 75 and 99 %.
    """

    mean: float
    std: float
    contrast: float
    dimension: float
    quantiles: Array

    def __repr__(self) -> str:
        said = (
            "all distances are nearly the same: a radial kernel hardly tells rows apart, and is close to a linear one"
            if self.contrast < 0.1
            else "distances differ enough for a radial kernel to tell rows apart"
        )
        return (
            f"distances {self.mean:.4g} ± {self.std:.3g} (contrast {self.contrast:.3g}), as in a normal distribution "
            f"in {self.dimension:.3g} dimensions; {said}"
        )


def distance_concentration(X: ArrayLike, *, max_rows: int = 2000, random_state: Seed = None) -> DistanceConcentration:
    """Measure whether all Euclidean distances are about the same, as in many dimensions.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        At least two rows.
    max_rows : int
        Number of rows whose pairs are measured.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import distance_concentration
    >>> rng = np.random.default_rng(0)
    >>> [round(distance_concentration(rng.normal(size=(1000, d))).contrast, 2) for d in (2, 20, 200)]
    [0.52, 0.16, 0.05]
    """
    X = check_moderate(finite_points(X), alone=True)
    if X.shape[0] < 2:
        raise ValueError("a distance needs two rows, got one.")
    check_count("max_rows", max_rows, least=2, advice="A distance needs two rows.")
    if X.shape[0] > max_rows:
        rows = Key.from_random_state(random_state).child("distances").generator().permutation(X.shape[0])[:max_rows]
        X = X[np.sort(rows)]
    X = X.astype(np.float64, copy=False)
    size = float(abs(X).max()) or 1.0
    squares = squared_distances(X / size, X / size)[np.triu_indices(X.shape[0], 1)]
    r = np.sqrt(squares)
    mean, std, variance = float(r.mean()), float(r.std()), float(squares.var())
    dimension = 2.0 * float(squares.mean()) ** 2 / variance if variance > 0 else np.inf
    quantiles = size * np.quantile(r, [0.01, 0.25, 0.5, 0.75, 0.99])
    return DistanceConcentration(size * mean, size * std, std / mean if mean > 0 else 0.0, dimension, quantiles)


@dataclass(frozen=True)
class GramSpectrum:
    """Eigenvalues of the kernel matrix, and leverage of rows, from all rows or from a sample of them.

    Attributes
    ----------
    n_samples : int
        n, of the data.
    eigenvalues : ndarray
        Of K restricted to the sample of q rows, descending; times n / q they estimate those of K.
    projections : ndarray of shape (q, n_fresh)
        k(sample, fresh rows) in the eigenbasis; where the sample is everything, its eigenvectors times the square
        roots of their eigenvalues.
    fresh_diagonal : ndarray of shape (n_fresh,)
        k(x, x) of the fresh rows: rows outside the sample, or the sample itself where it is everything.
    kernel : Kernel
        With its length scale as a number.
    """

    n_samples: int
    eigenvalues: Array
    projections: Array
    fresh_diagonal: Array
    kernel: Kernel

    @property
    def complete(self) -> bool:
        """True if all rows were used, so that everything is exact."""
        return len(self.eigenvalues) == self.n_samples

    @property
    def trace(self) -> float:
        """Trace of K, estimated unless `complete`."""
        return float(self.fresh_diagonal.mean()) * self.n_samples

    def leverages(self, alpha: float) -> Array:
        """Return leverage scores of the fresh rows, (n_fresh,), in a fit to the sample with penalty alpha."""
        share = len(self.eigenvalues) / self.n_samples
        inverse = 1.0 / (self.eigenvalues + alpha * share)
        if self.complete:
            return np.asarray(inverse @ self.projections**2)
        left = self.fresh_diagonal - np.einsum("ij,ij,i->j", self.projections, self.projections, inverse)
        return np.maximum(left, 0.0) / alpha

    def effective_dimension(self, alpha: float) -> tuple[float, float]:
        """Bracket tr K (K + alpha I)⁻¹, with equal ends if `complete`.

        The sample's own dimension is too small on average, because the dimension is concave in the covariance, and the
        leverage of fresh rows too large, because an inverse is convex.
        """
        share = len(self.eigenvalues) / self.n_samples
        low = float((self.eigenvalues / (self.eigenvalues + alpha * share)).sum())
        if self.complete:
            return low, low
        return low, max(low, min(float(self.leverages(alpha).mean()) * self.n_samples, float(self.n_samples)))


_TINY = np.finfo(float).tiny


def gram_spectrum(
    X: ArrayLike, kernel: KernelLike = "rbf", *, max_rows: int = 1000, random_state: Seed = None
) -> GramSpectrum:
    """Compute eigenvalues of the kernel matrix of at most max_rows rows of X, and leverages of max_rows other rows.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    kernel : Kernel, str or callable
        A name takes the median distance as length scale.
    max_rows : int
        Rows whose eigenvalue problem is solved; all of them where there are no more than twice as many.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import gram_spectrum
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> low, high = gram_spectrum(X, random_state=0).effective_dimension(1.0)
    >>> 30 < low < high < 1.3 * low
    True
    """
    X = check_moderate(finite_points(X), alone=True)
    n = X.shape[0]
    check_count("max_rows", max_rows, least=2, advice="A spectrum needs some rows.")
    key = Key.from_random_state(random_state)
    resolved = as_kernel(kernel).resolve(X, key)
    order = np.arange(n) if n <= 2 * max_rows else key.child("spectrum").generator().permutation(n)[: 2 * max_rows]
    if len(order) == n:
        sample, fresh = order, order
    else:
        sample, fresh = order[:max_rows], order[max_rows:]
    points, others = (X[np.sort(rows)].astype(np.float64, copy=False) for rows in (sample, fresh))
    K = np.asarray(resolved(points), dtype=np.float64)
    values, vectors = scipy.linalg.eigh((K + K.T) / 2.0)
    if values[0] < -1e-8 * max(values[-1], _TINY) * len(values):
        raise ValueError(
            f"the kernel matrix has an eigenvalue of {values[0]:.3g}: {resolved!r} is not positive semi-definite."
        )
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if len(order) == n:
        projections = np.sqrt(values)[:, None] * vectors.T
    else:
        projections = vectors.T @ np.asarray(resolved(points, others), dtype=np.float64)
    return GramSpectrum(n, values, projections, np.asarray(resolved.diagonal(others), dtype=np.float64), resolved)


@dataclass(frozen=True)
class DimensionCurve:
    """Effective dimension of `n_samples` rows, between `low` and `high` for each of `alphas` (equal where exact)."""

    alphas: Array
    low: Array
    high: Array
    n_samples: int

    @property
    def values(self) -> Array:
        """Geometric mean of both ends."""
        return np.sqrt(self.low * self.high)

    def __repr__(self) -> str:
        lines = [f"effective dimension of {self.n_samples} rows", "     alpha    d_e  between"]
        for alpha, value, low, high in zip(self.alphas, self.values, self.low, self.high, strict=True):
            lines.append(f"{alpha:10.3g} {value:6.4g}  {low:.4g} … {high:.4g}")
        return "\n".join(lines)


def effective_dimension_curve(
    X: ArrayLike,
    kernel: KernelLike = "rbf",
    alphas: ArrayLike | None = None,
    *,
    max_rows: int = 1000,
    random_state: Seed = None,
) -> DimensionCurve:
    """Compute the effective dimension tr K (K + alpha I)⁻¹ for several penalties: how many components a model can use.

    Parameters
    ----------
    X, kernel, max_rows, random_state
        As in `gram_spectrum`.
    alphas : array or None
        Penalties, not divided by n_samples; None takes a grid from 1e-6 to 1 times tr K.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import effective_dimension_curve
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> curve = effective_dimension_curve(X, alphas=[0.01, 1.0, 100.0])
    >>> bool((np.diff(curve.values) < 0).all())
    True
    """
    spectrum = gram_spectrum(X, kernel, max_rows=max_rows, random_state=random_state)
    grid = spectrum.trace * np.logspace(-6, 0, 13) if alphas is None else np.ravel(np.asarray(alphas, dtype=float))
    brackets = np.array([spectrum.effective_dimension(check_positive("alphas", float(a))) for a in grid])
    return DimensionCurve(grid, brackets[:, 0], brackets[:, 1], spectrum.n_samples)


@dataclass(frozen=True)
class SpectrumDecay:
    """How fast the eigenvalues of K fall.

    Attributes
    ----------
    eigenvalues : ndarray
        Descending, of K, scaled up from the sample where there is one.
    power, rate : float
        λ_j ≈ c j^(-power), and λ_j ≈ c exp(-rate j), by least squares on logarithms above rounding.
    law : {"polynomial", "exponential"}
        The one that fits better.
    stable_rank : float
        ‖K‖_F² / ‖K‖².
    ranks : dict of float to int
        Eigenvalues that hold this share of the trace.
    """

    eigenvalues: Array
    power: float
    rate: float
    law: str
    stable_rank: float
    ranks: dict[float, int]

    def __repr__(self) -> str:
        fit = f"j^-{self.power:.2f}" if self.law == "polynomial" else f"exp(-{self.rate:.3g} j)"
        held = ", ".join(f"{100 * share:g} % in {rank}" for share, rank in self.ranks.items())
        return f"eigenvalues fall like {fit}; trace: {held}; stable rank {self.stable_rank:.3g}"


def spectrum_decay(
    X: ArrayLike, kernel: KernelLike = "rbf", *, max_rows: int = 1000, random_state: Seed = None
) -> SpectrumDecay:
    """Measure how fast the eigenvalues of the kernel matrix fall: with fast decay few Nyström features are enough.

    Parameters
    ----------
    X, kernel, max_rows, random_state
        As in `gram_spectrum`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.diagnostics import spectrum_decay
    >>> spectrum_decay(np.linspace(0, 1, 300)[:, None], RBF(0.2)).law
    'exponential'
    """
    spectrum = gram_spectrum(X, kernel, max_rows=max_rows, random_state=random_state)
    values = spectrum.eigenvalues * spectrum.n_samples / len(spectrum.eigenvalues)
    held = np.cumsum(values) / max(float(values.sum()), _TINY)
    ranks = {share: int(np.searchsorted(held, share * (1 - 1e-12))) + 1 for share in (0.9, 0.99, 0.999)}
    # the last tenth of the eigenvalues depends on the sample more than on the data
    seen = values[: max(3, int(0.9 * len(values)))]
    seen = seen[seen > 1e-12 * max(float(values[0]), _TINY)]
    power, rate, law = 0.0, 0.0, "exponential"
    if len(seen) >= 3:
        j, logs = np.arange(1.0, len(seen) + 1.0), np.log(seen)
        (power, left), (rate, right) = (_slope(x, logs) for x in (np.log(j), j))
        law = "polynomial" if left < right else "exponential"
    stable = float(np.sum(values**2)) / max(float(values[0]) ** 2, _TINY)
    return SpectrumDecay(values, power, rate, law, stable, ranks)


def _slope(x: Array, y: Array) -> tuple[float, float]:
    """Return minus the slope of a least-squares line, and its squared residual."""
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y) / float(x @ x)
    return -slope, float(np.sum((y - slope * x) ** 2))


@dataclass(frozen=True)
class Coherence:
    """Leverage of the rows for a penalty `alpha`: `coherence` = n max(leverage) / d_e, one if all rows matter alike.

    `largest` is the largest leverage of the rows used, `exact` whether those are all, and `effective_dimension` is d_e.
    """

    alpha: float
    largest: float
    effective_dimension: float
    coherence: float
    exact: bool

    def __repr__(self) -> str:
        seen = "largest" if self.exact else "largest seen"
        advice = "uniform landmarks suffice" if self.coherence < 5 else "draw landmarks by leverage or RPCholesky"
        return (
            f"coherence {self.coherence:.3g} at alpha = {self.alpha:.3g} ({seen} leverage {self.largest:.3g}, "
            f"effective dimension {self.effective_dimension:.4g}): {advice}"
        )


def leverage_coherence(
    X: ArrayLike, kernel: KernelLike = "rbf", *, alpha: float, max_rows: int = 1000, random_state: Seed = None
) -> Coherence:
    """Measure how unequal the leverages of the rows are: if they are, uniform landmarks miss some rows.

    Parameters
    ----------
    X, kernel, max_rows, random_state
        As in `gram_spectrum`.
    alpha : float
        Penalty, not divided by n_samples.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.diagnostics import leverage_coherence
    >>> X = np.zeros((400, 2))
    >>> X[0] = 100.0
    >>> leverage_coherence(X, RBF(1.0), alpha=0.1).coherence > 100
    True
    """
    alpha = check_positive("alpha", alpha)
    spectrum = gram_spectrum(X, kernel, max_rows=max_rows, random_state=random_state)
    scores = np.minimum(spectrum.leverages(alpha), 1.0)
    low, high = spectrum.effective_dimension(alpha)
    dimension = float(np.sqrt(low * high))
    largest = float(scores.max())
    coherence = spectrum.n_samples * largest / dimension if dimension > 0 else 1.0
    return Coherence(alpha, largest, dimension, coherence, spectrum.complete)
