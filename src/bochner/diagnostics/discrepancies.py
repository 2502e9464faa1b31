"""How evenly points fill a box, and what error given frequencies make in a kernel over all differences in a box."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import spherical_jn
from scipy.stats import qmc
from sklearn.base import clone

from bochner.backends import Array, check_moderate, is_sparse, reading
from bochner.draws import mixtures
from bochner.kernels.algebra import as_points
from bochner.kernels.conversion import KernelLike, as_kernel
from bochner.kernels.stationary import RBF, SeparableKernel


def star_discrepancy(points: ArrayLike, *, order: float = 2.0) -> float:
    """Measure how unevenly points fill the unit cube: their share of a box [0, t] less its volume, over all boxes.

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
    if (n + 1) ** d > 1 << 25:
        raise ValueError(f"{n} points in {d} dimensions have too many boxes, (n + 1)^d; use order=2.")
    ends = [np.unique(np.append(column, 1.0)) for column in T.T]
    volumes = np.ones(())
    for end in ends:
        volumes = np.multiply.outer(volumes, end)
    closed = np.zeros(volumes.shape)  # share of points at or below each corner; `inside`: strictly below it
    np.add.at(closed, tuple(np.searchsorted(end, column) for end, column in zip(ends, T.T, strict=True)), 1.0 / n)
    for axis in range(d):
        np.cumsum(closed, axis=axis, out=closed)
    inside = np.pad(closed, [(1, 0)] * d)[(slice(-1),) * d]
    return float(max((closed - volumes).max(), (volumes - inside).max()))


def box_discrepancy(frequencies: ArrayLike, kernel: KernelLike, box: ArrayLike) -> float:
    """Return the root mean square error of Fourier features with given frequencies, for differences x - y in a box.

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
    >>> from bochner.draws.keys import Key
    >>> from bochner.sampling import ROW_LAWS
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


def _matrix(name: str, value: ArrayLike) -> Array:
    A = check_moderate(as_points(value), alone=True)
    A = A.toarray() if is_sparse(A) else np.asarray(A)
    if not A.size or not np.isfinite(A).all():
        raise ValueError(f"{name} must be a 2-D array of finite numbers with a row and a column at least.")
    return A.astype(np.float64)


def _coordinate_means(profile: mixtures.Profile, width: float, w: Array) -> tuple[float, Array]:
    """Return the means of profile(u)² and profile(u) cos(w u), (n,), over [0, width], by Legendre series in panels."""
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
