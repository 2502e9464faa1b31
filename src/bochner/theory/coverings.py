"""Coverings, packings and slopes: what turns "at each point" into "everywhere".

An eps-net of a set is a subset such that every point of the set is *within* eps of some centre; an eps-packing is a
subset whose members are pairwise *more* than eps apart. A maximal packing is a net, and `eps_net` returns one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bochner.checks import check_count, check_points, check_positive

_BLOCK = 512  # rows of a distance block: 512 × n_samples doubles at a time


def log_covering_number(n_features: int, radius: float, eps: float) -> float:
    """Natural logarithm of `covering_number`, for dimensions where the number itself overflows.

    Parameters
    ----------
    n_features, radius, eps
        As in `covering_number`.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.log_covering_number(1000, 1.0, 0.1), 1)
    3044.5
    """
    d = check_count("n_features", n_features)
    R, r = check_positive("radius", radius), check_positive("eps", eps)
    return 0.0 if r >= R else d * math.log1p(2 * R / r)


def covering_number(n_features: int, radius: float, eps: float) -> float:
    r"""Upper bound on the number of eps-balls, centred in the set, that cover any subset of a ball.

    .. math:: N_\varepsilon \le (1 + 2R/\varepsilon)^d \le (4R/\varepsilon)^d \quad (\varepsilon \le 2R)

    and 1 where one ball is enough; ``math.inf`` where it overflows (see `log_covering_number`).

    Volumes: balls of radius eps/2 around a maximal packing are disjoint and lie in a ball of radius R + eps/2.
    Looseness: the lower bound by volumes is (R/eps)^d, so at most a factor 3^d for eps <= R; for an interval it is 2 as
    eps shrinks.

    Parameters
    ----------
    n_features : int
        Dimension d.
    radius : float
        Radius R of a ball that holds the set; around a point of the set if eps >= R.
    eps : float
        Radius of the covering balls.

    Examples
    --------
    >>> from bochner import theory
    >>> round(theory.covering_number(2, 1.0, 0.1))
    441
    """
    log_number = log_covering_number(n_features, radius, eps)
    return math.exp(log_number) if log_number < 700 else math.inf


def _distances(X: NDArray[np.float64], center: NDArray[np.float64]) -> NDArray[np.float64]:
    distances: NDArray[np.float64] = np.sqrt(((X - center) ** 2).sum(axis=1))
    return distances


def eps_net(X: Any, eps: float) -> NDArray[np.intp]:
    """Indices of rows of X that form an eps-net and an eps-packing of X, by farthest-point traversal from row 0.

    Gonzalez (1985): no net of fewer centres has half the covering radius. The size is at most `covering_number`, and
    the time that of n_samples · size distances.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The points.
    eps : float
        Every row is within eps of a chosen row, and chosen rows are more than eps apart.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> theory.eps_net(np.linspace(0, 1, 11).reshape(-1, 1), 0.25)
    array([ 0, 10,  5])
    """
    X = check_points("X", X)
    eps = check_positive("eps", eps)
    chosen = [0]
    nearest = _distances(X, X[0])
    while nearest.max() > eps:
        chosen.append(int(nearest.argmax()))
        np.minimum(nearest, _distances(X, X[chosen[-1]]), out=nearest)
    return np.array(chosen, dtype=np.intp)


def covering_radius(X: Any, centers: Any) -> float:
    """Largest distance of a row of X from its nearest center: the smallest eps of which they are a net. Exact.

    Parameters
    ----------
    X, centers : arrays of shape (n_samples, n_features) and (n_centers, n_features)
        The points and the centers.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.covering_radius([[0.0], [1.0], [3.0]], [[0.0], [2.0]])
    1.0
    """
    X, centers = check_points("X", X), check_points("centers", centers)
    if X.shape[1] != centers.shape[1]:
        raise ValueError(
            f"X and centers must have equally many columns, got {X.shape[1]} and {centers.shape[1]}. "
            "Take the centers from the same space."
        )
    nearest = np.full(len(X), math.inf)
    for center in centers:
        np.minimum(nearest, _distances(X, center), out=nearest)
    return float(nearest.max())


def packing_radius(centers: Any) -> float:
    """Half the smallest distance between two centers: open balls of this radius around them are disjoint. Exact.

    Parameters
    ----------
    centers : array of shape (n_centers, n_features)
        At least two points.

    Examples
    --------
    >>> from bochner import theory
    >>> theory.packing_radius([[0.0], [1.0], [3.0]])
    0.5
    """
    centers = check_points("centers", centers)
    if len(centers) < 2:
        raise ValueError("centers must have at least two rows to be apart, got one. Pass the whole packing.")
    return min(float(_distances(centers[:i], centers[i]).min()) for i in range(1, len(centers))) / 2


def lipschitz_constant(X: Any, values: Any) -> float:
    """Largest slope |f(x) - f(y)| / ||x - y|| seen in a sample: a lower bound on the Lipschitz constant of f.

    It approaches the constant from below as the sample fills the domain, and is ``math.inf`` if f takes two values at
    one point. O(n_samples²) distances, in blocks.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        The points, at least two of them distinct.
    values : array of shape (n_samples,)
        f at the points.

    Examples
    --------
    >>> from bochner import theory
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 101).reshape(-1, 1)
    >>> round(theory.lipschitz_constant(x, x[:, 0] ** 2), 2)
    1.99
    """
    X = check_points("X", X)
    f = np.asarray(values, dtype=np.float64)
    if f.shape != (len(X),) or not np.isfinite(f).all():
        raise ValueError(
            f"values must be {len(X)} finite numbers, one for each row of X, got shape {f.shape}. Ravel it."
        )
    steepest = 0.0
    for start in range(0, len(X), _BLOCK):
        stop = min(start + _BLOCK, len(X))
        gaps = np.abs(f[start:stop, None] - f[None, :stop])
        squares = np.zeros_like(gaps)
        for column in X.T:
            squares += (column[start:stop, None] - column[None, :stop]) ** 2
        if (gaps[squares == 0] > 0).any():
            return math.inf
        steepest = max(steepest, float((gaps / np.sqrt(np.where(squares == 0, 1, squares))).max()))
    return steepest
