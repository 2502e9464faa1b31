"""Properties of data, kernels and points: effective dimension, decay, coherence, spectral density, discrepancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.special import spherical_jn
from scipy.stats import qmc
from sklearn.base import clone

from bochner import spectra
from bochner.backends import Array, check_moderate, reading
from bochner.checks import check_count, check_positive
from bochner.kernels import (
    RBF,
    Kernel,
    Multiple,
    Power,
    Product,
    Projected,
    Radial,
    RadialKernel,
    Restricted,
    Separable,
    SeparableKernel,
    Sum,
    as_kernel,
    as_points,
    squared_distances,
)
from bochner.keys import Key

__all__ = [
    "Coherence",
    "DimensionCurve",
    "DistanceConcentration",
    "GramSpectrum",
    "SpectralCheck",
    "SpectrumDecay",
    "box_discrepancy",
    "distance_concentration",
    "effective_dimension_curve",
    "gram_spectrum",
    "leverage_coherence",
    "spectral_check",
    "spectrum_decay",
    "star_discrepancy",
]


def __dir__() -> list[str]:
    return sorted(__all__)


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
            "all distances are nearly the same: a radial kernel sees little but equality, and is close to a linear one"
            if self.contrast < 0.1
            else "distances differ: a radial kernel has something to see"
        )
        return (
            f"distances {self.mean:.4g} ± {self.std:.3g} (contrast {self.contrast:.3g}), as in a normal law of "
            f"{self.dimension:.3g} dimensions; {said}"
        )


def distance_concentration(X: Any, *, max_rows: int = 2000, random_state: Any = None) -> DistanceConcentration:
    """Whether all Euclidean distances are about the same, as they become in many dimensions.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
        At least two rows.
    max_rows : int
        Number of rows whose pairs are measured.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import distance_concentration
    >>> rng = np.random.default_rng(0)
    >>> [round(distance_concentration(rng.normal(size=(1000, d))).contrast, 2) for d in (2, 20, 200)]
    [0.52, 0.16, 0.05]
    """
    X = finite_points(X)
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


def finite_points(X: Any) -> Any:
    """Rows in the form that kernels take, or an error that says what is wrong."""
    X = as_points(X)
    if 0 in X.shape:
        raise ValueError(f"X has no rows or no columns, shape {X.shape}.")
    if not np.isfinite(X.data if scipy.sparse.issparse(X) else X).all():
        raise ValueError("X contains NaN or infinity; remove or fill in those values first.")
    return check_moderate(X, alone=True)


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
        """Whether all rows were used, so that everything is exact."""
        return len(self.eigenvalues) == self.n_samples

    @property
    def trace(self) -> float:
        """Of K, estimated where not complete."""
        return float(self.fresh_diagonal.mean()) * self.n_samples

    def leverages(self, alpha: float) -> Array:
        """Ridge leverage scores of the fresh rows, (n_fresh,), in a fit with the sample in place of all rows."""
        share = len(self.eigenvalues) / self.n_samples
        inverse = 1.0 / (self.eigenvalues + alpha * share)
        if self.complete:
            return np.asarray(inverse @ self.projections**2)
        left = self.fresh_diagonal - np.einsum("ij,ij,i->j", self.projections, self.projections, inverse)
        return np.maximum(left, 0.0) / alpha

    def effective_dimension(self, alpha: float) -> tuple[float, float]:
        """A bracket of tr K (K + alpha I)⁻¹: equal ends where complete.

        The sample's own dimension is too small on average, because the dimension is concave in the covariance, and the
        leverage of fresh rows too large, because an inverse is convex.
        """
        share = len(self.eigenvalues) / self.n_samples
        low = float((self.eigenvalues / (self.eigenvalues + alpha * share)).sum())
        if self.complete:
            return low, low
        return low, max(low, min(float(self.leverages(alpha).mean()) * self.n_samples, float(self.n_samples)))


_TINY = np.finfo(float).tiny


def gram_spectrum(X: Any, kernel: Any = "rbf", *, max_rows: int = 1000, random_state: Any = None) -> GramSpectrum:
    """Eigenvalues of the kernel matrix of at most max_rows rows of X, and leverage of as many others.

    Parameters
    ----------
    X : array-like or CSR matrix of shape (n_samples, n_features)
    kernel : Kernel, str or callable
        A name takes the median distance as length scale.
    max_rows : int
        Rows whose eigenvalue problem is solved; all of them where there are no more than twice as many.
    random_state : int, RandomState, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import gram_spectrum
    >>> X = np.random.default_rng(0).normal(size=(5000, 3))
    >>> low, high = gram_spectrum(X, random_state=0).effective_dimension(1.0)
    >>> 30 < low < high < 1.3 * low
    True
    """
    X = finite_points(X)
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
    """Effective dimension d_e(alpha), between `low` and `high` for every alpha (equal where exact)."""

    alphas: Array
    low: Array
    high: Array
    n_samples: int

    @property
    def values(self) -> Array:
        """The geometric middle of the bracket."""
        return np.sqrt(self.low * self.high)

    def __repr__(self) -> str:
        lines = [f"effective dimension of {self.n_samples} rows", "     alpha    d_e  between"]
        for alpha, value, low, high in zip(self.alphas, self.values, self.low, self.high, strict=True):
            lines.append(f"{alpha:10.3g} {value:6.4g}  {low:.4g} … {high:.4g}")
        return "\n".join(lines)


def effective_dimension_curve(
    X: Any, kernel: Any = "rbf", alphas: Any = None, *, max_rows: int = 1000, random_state: Any = None
) -> DimensionCurve:
    """Effective dimension tr K (K + alpha I)⁻¹ as a function of the penalty: how many components a model can use.

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


def spectrum_decay(X: Any, kernel: Any = "rbf", *, max_rows: int = 1000, random_state: Any = None) -> SpectrumDecay:
    """How fast the eigenvalues of the kernel matrix fall: with fast decay few Nyström features are enough.

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
    """Minus the slope of a least-squares line, and its residual."""
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y) / float(x @ x)
    return -slope, float(np.sum((y - slope * x) ** 2))


@dataclass(frozen=True)
class Coherence:
    """Leverage of the rows: `coherence` = n max(leverage) / d_e, one if all rows matter alike.

    `largest` is that of the rows used, `exact` whether those are all.
    """

    alpha: float
    largest: float
    effective_dimension: float
    coherence: float
    exact: bool

    def __repr__(self) -> str:
        seen = "largest" if self.exact else "largest seen"
        advice = "uniform landmarks will do" if self.coherence < 5 else "draw landmarks by leverage or RPCholesky"
        return (
            f"coherence {self.coherence:.3g} at alpha = {self.alpha:.3g} ({seen} leverage {self.largest:.3g}, "
            f"effective dimension {self.effective_dimension:.4g}): {advice}"
        )


def leverage_coherence(
    X: Any, kernel: Any = "rbf", *, alpha: float, max_rows: int = 1000, random_state: Any = None
) -> Coherence:
    """How unequal the leverages of the rows are: if they are, uniform landmarks miss some rows.

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


_MOST_BOXES = 1 << 25  # corners of boxes that are counted at a time


def star_discrepancy(points: Any, *, order: float = 2.0) -> float:
    """How unevenly points fill the unit cube: their share of a box [0, t] less its volume, over all boxes.

    The error of an average over the points is at most the largest such difference times the variation of the function
    (Koksma & Hlawka).

    Parameters
    ----------
    points : array-like of shape (n_points, n_features)
        In [0, 1].
    order : {2, inf}, default=2
        2: the root mean square over boxes (Warnock 1972), in O(n² d). numpy.inf: the largest difference, exactly,
        from all (n + 1)^d boxes whose sides end at a point or at one: for few dimensions only.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.diagnostics import star_discrepancy
    >>> star_discrepancy([[0.25], [0.75]], order=np.inf)
    0.25
    """
    if order not in (2, np.inf):
        raise ValueError(f"order must be 2 or numpy.inf, got {order!r}.")
    T = _matrix("points", points)
    if not ((T >= 0.0) & (T <= 1.0)).all():
        raise ValueError("points must be in the unit cube: all coordinates between 0 and 1.")
    n, d = T.shape
    if order == 2:
        return float(qmc.discrepancy(T, method="L2-star"))
    if (n + 1) ** d > _MOST_BOXES:
        raise ValueError(f"{n} points in {d} dimensions have too many boxes, (n + 1)^d; use order=2.")
    ends = [np.unique(np.append(column, 1.0)) for column in T.T]
    volumes = np.ones(())
    for end in ends:
        volumes = np.multiply.outer(volumes, end)
    closed = np.zeros(volumes.shape)  # points at or below each corner, and `inside` those strictly below it
    np.add.at(closed, tuple(np.searchsorted(end, column) for end, column in zip(ends, T.T, strict=True)), 1.0 / n)
    for axis in range(d):
        np.cumsum(closed, axis=axis, out=closed)
    inside = np.pad(closed, [(1, 0)] * d)[(slice(-1),) * d]
    return float(max((closed - volumes).max(), (volumes - inside).max()))


def box_discrepancy(frequencies: Any, kernel: Any, box: Any) -> float:
    """The root mean square error of Fourier features with given frequencies, over differences x - y in a box.

    It is the square root of the mean of |k(u) - (1/T) Σ exp(i w·u)|² over u in [-box, box], in closed form but for
    the integrals of one coordinate. The box discrepancy of Yang et al. (2014) is this times √Π(box_j / π), which no
    number of dimensions makes small or large here.

    Parameters
    ----------
    frequencies : array-like of shape (n_frequencies, n_features)
        As in ``FourierFeatures(…).fit(X).feature_map_.frequencies.to_dense()``.
    kernel : str or Kernel
        A product over coordinates: RBF, Laplacian, Cauchy or Separable.
    box : float or array of shape (n_features,)
        Half the width of the box, in units of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RBF
    >>> from bochner.diagnostics import box_discrepancy
    >>> from bochner.keys import Key
    >>> from bochner.rows import ROW_LAWS
    >>> iid, quasi = (ROW_LAWS[law].sample(4, 512, Key(0)).to_dense() for law in ("iid", "quasi"))
    >>> box_discrepancy(quasi, RBF(1.0), 0.5) < 0.5 * box_discrepancy(iid, RBF(1.0), 0.5)
    True
    """
    W = _matrix("frequencies", frequencies)
    n, d = W.shape
    kernel = as_kernel(kernel)
    if not isinstance(kernel, (RBF, SeparableKernel)):
        raise ValueError(f"the kernel must be a product over coordinates: RBF, Laplacian, Cauchy; got {kernel!r}.")
    if isinstance(kernel.length_scale, str):
        raise ValueError(f"length_scale must be a number, got {kernel.length_scale!r}; use kernel.resolve(X).")
    with reading("box"):
        box = np.asarray(box, np.float64)
    if box.shape not in ((), (d,)) or not (np.isfinite(box) & (box > 0)).all():
        raise ValueError(f"box must be a positive number, or {d} of them; got {box!r}.")
    widths, unit = np.broadcast_to(box, (d,)), clone(kernel).set_params(length_scale=1.0)
    squares, overlaps = 1.0, np.ones(n)
    for w, width, scale in zip(W.T, widths, np.broadcast_to(kernel.scales(d), (d,)), strict=True):
        square, overlap = _coordinate_means(lambda r: unit(np.zeros((1, 1)), r[:, None])[0], width / scale, w * scale)
        squares, overlaps = squares * square, overlaps * overlap
    pairs, step = 0.0, max(1, (1 << 22) // n)
    for start in range(0, n, step):
        block = np.ones((len(W[start : start + step]), n))
        for w, width in zip(W.T, widths, strict=True):
            block *= np.sinc((w[start : start + step, None] - w) * (width / np.pi))
        pairs += float(block.sum())
    return float(np.sqrt(max(0.0, squares - 2.0 * overlaps.mean() + pairs / n**2)))


def _matrix(name: str, value: Any) -> Array:
    A = check_moderate(as_points(value), alone=True)
    A = A.toarray() if scipy.sparse.issparse(A) else np.asarray(A)
    if not A.size or not np.isfinite(A).all():
        raise ValueError(f"{name} must be a 2-D array of finite numbers with a row and a column at least.")
    return A.astype(np.float64)


def _coordinate_means(profile: spectra.Profile, width: float, w: Array) -> tuple[float, Array]:
    """Means over [0, width] of profile(u)² and of profile(u) cos(w u), (n,): Legendre series in panels, for any w."""
    degree = 16
    x, weights = np.polynomial.legendre.leggauss(degree)
    panels = max(4, int(np.ceil(2.0 * min(width, 500.0))))
    half = 0.5 * width / panels
    bessel = spherical_jn(np.arange(degree)[:, None], np.abs(w) * half)  # ∫ P_m(x) exp(iωx) dx = 2 i^m j_m(ω)
    legendre = np.polynomial.legendre.legvander(x, degree - 1)
    square, overlap = 0.0, np.zeros(len(w))
    for middle in half * (2 * np.arange(panels) + 1):
        values = profile(middle + half * x)
        square += float(weights @ values**2) / (2.0 * panels)
        terms = (legendre.T @ (weights * values)) * (np.arange(degree) + 0.5) * 1j ** np.arange(degree)
        overlap += (np.exp(1j * np.abs(w) * middle) * (terms @ bessel)).real / panels
    return square, overlap


@dataclass(frozen=True)
class SpectralCheck:
    """Bochner's theorem, checked numerically: whether the spectral measure is a probability measure.

    Attributes
    ----------
    positive : bool or None
        True: the kernel is, at any distance, within 0.001 of one with a spectral measure, and no negative density was
        found. False: there is a frequency whose density is negative by ten times the error of its computation, so the
        kernel is not positive definite in that many dimensions. None: it could not be decided numerically.
    negative, mass : float
        Negative spectral mass that was found, and all mass.
    how : str
        What the answer rests on.
    """

    positive: bool | None
    negative: float
    mass: float
    how: str

    def __repr__(self) -> str:
        verdict = {
            True: "positive definite",
            False: "NOT positive definite: no random features have this kernel",
            None: "cannot decide whether it is positive definite",
        }[self.positive]
        return f"{verdict} ({self.how})"


def spectral_check(kernel: Any, n_features: int) -> SpectralCheck:
    """Check a stationary kernel against Bochner's theorem, in a given dimension.

    Parameters
    ----------
    kernel : Kernel or callable
        A radial or separable kernel, or sums, products, powers and multiples of such; a function of the distance is
        taken as ``Radial(function)``.
    n_features : int
        Dimension of the data; a profile may be positive definite in one and not in another.

    Notes
    -----
    The density comes from an adaptive Hankel transform, in units of the profile's own scale, with an estimate of its
    error. Of a profile that does not decay, the product with a wide Gaussian is transformed: it is positive definite
    if the profile is. A mixture of Gaussians close to the profile (Schoenberg's theorem) decides where the transform
    does not reach. "None" is the answer for slowly decaying oscillations, such as J₀ on the line, and for sums and
    products with a part that is not positive definite itself.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import Matern
    >>> from bochner.diagnostics import spectral_check
    >>> spectral_check(Matern(2.0), 3).positive
    True
    >>> spectral_check(lambda r: np.maximum(0.0, 1.0 - r), 1).positive
    True
    >>> spectral_check(lambda r: np.maximum(0.0, 1.0 - r), 2)
    NOT positive definite: no random features have this kernel (in 2 dimension(s) the spectral density is -0.16 at ...
    """
    d = check_count("n_features", n_features)
    if not isinstance(kernel, Kernel):
        kernel = Radial(kernel) if callable(kernel) else as_kernel(kernel)
    match kernel:
        case Multiple():
            return spectral_check(kernel.kernel, d)
        case Restricted():
            return spectral_check(kernel.kernel, len(kernel.indices(d)))
        case Projected():
            return spectral_check(kernel.kernel, kernel.matrix(d).shape[1])
        case Sum() | Product() | Power():
            parts = [kernel.kernel] if isinstance(kernel, Power) else [kernel.left, kernel.right]
            checks = [spectral_check(part, d) for part in parts]
            worst = next((part for part in checks if not part.positive), checks[0])
            how = "every part is" if worst.positive else f"a part is not, or not certainly: {worst.how}"
            return SpectralCheck(worst.positive or None, worst.negative, worst.mass, how)
        case Radial():
            return _check_profile(kernel.function, d)
        case RadialKernel():
            return _check_profile(clone(kernel).profile, d)  # a copy: findings are kept, and parameters may change
        case Separable() if hasattr(kernel, "function"):
            return _check_profile(kernel.function, 1)
        case SeparableKernel():
            coordinate = clone(kernel).set_params(length_scale=1.0)

            def profile(r: Array) -> Array:
                return np.asarray(coordinate(np.zeros((1, 1)), r[:, None])[0])

            return _check_profile(profile, 1)
    raise ValueError(f"the spectral density is that of a radial or separable kernel; got {kernel!r}.")


def _check_profile(profile: spectra.Profile, d: int) -> SpectralCheck:
    found = spectra.find_radii(profile, d)
    positive = False if found.witness is not None else None if found.law is None else True
    return SpectralCheck(positive, found.negative, found.mass, found.how)
