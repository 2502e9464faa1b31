"""Whether distances tell rows apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array, check_moderate
from bochner.checks import check_count
from bochner.kernels import as_points, squared_distances
from bochner.keys import Key


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
        2 (mean d²)² / var d²: the dimension of the normal law whose squared distances vary as much.
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
        Rows whose pairs are looked at.
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
    """Rows as they are given to a kernel, or what is wrong with them."""
    X = as_points(X)
    if 0 in X.shape:
        raise ValueError(f"X has no rows or no columns, shape {X.shape}.")
    if not np.isfinite(X.data if scipy.sparse.issparse(X) else X).all():
        raise ValueError("X contains NaN or infinity; remove or fill in those values first.")
    return check_moderate(X, alone=True)
