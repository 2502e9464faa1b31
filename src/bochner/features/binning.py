"""Random binning: the cell of a random grid that a point falls into, as a sparse column (Rahimi & Recht 2007)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.features.maps import FeatureMap, row_blocks
from bochner.keys import Key


@dataclass(frozen=True)
class RandomBinning(FeatureMap):
    """One entry ±1/√R a row and grid: the cell's hashed column, with a hashed sign.

    Two points share a cell of a grid of pitch δ in one dimension with probability max(0, 1 - |x - y| / δ); for δ of law
    Gamma(2, length_scale) the mean is exp(-|x - y| / length_scale). Cells that meet in one column have independent
    signs: collisions add variance 1 / n_components and no bias.

    Attributes
    ----------
    pitches, origins : ndarray of shape (n_grids, n_features)
    multipliers : ndarray of shape (n_grids, n_features), odd uint64
    salts : ndarray of shape (n_grids,), uint64
    """

    n_components: int
    pitches: Array
    origins: Array
    multipliers: Array
    salts: Array

    def __call__(self, X: Any) -> Any:
        n, R = X.shape[0], len(self.salts)
        columns = np.empty((n, R), np.int64)
        values = np.empty((n, R), X.dtype)
        for rows in row_blocks(X, 4 * X.shape[1]):
            block = X[rows]
            block = (block.toarray() if scipy.sparse.issparse(block) else block).astype(float)
            for r in range(R):
                cells = np.floor((block - self.origins[r]) / self.pitches[r])
                # cells beyond ±2^62 are beyond float64's resolution of the grid anyway
                codes = np.clip(cells, -(2.0**62), 2.0**62).astype(np.int64).view(np.uint64)
                mixed = _mix((codes * self.multipliers[r]).sum(axis=1, dtype=np.uint64) + self.salts[r])
                columns[rows, r] = (mixed >> np.uint64(1)) % np.uint64(self.n_components)
                values[rows, r] = np.where(mixed & np.uint64(1), 1.0, -1.0) / np.sqrt(R)
        indptr = np.arange(0, n * R + 1, R)
        out = scipy.sparse.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(n, self.n_components))
        out.sum_duplicates()
        return out


def _mix(h: Array) -> Array:
    """The finaliser of SplitMix64: every bit of the result depends on every bit of h."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def binning_map(length_scale: Any, n_features: int, n_components: int, n_grids: int, key: Key) -> RandomBinning:
    """Draw grids for the kernel exp(-Σ |x_j - y_j| / length_scale_j)."""
    shape = (n_grids, n_features)
    pitches = key.child("pitches").generator().gamma(2.0, 1.0, shape) * length_scale
    origins = key.child("origins").generator().random(shape) * pitches
    multipliers = key.child("multipliers").generator().integers(0, 2**64, shape, dtype=np.uint64) | np.uint64(1)
    salts = key.child("salts").generator().integers(0, 2**64, n_grids, dtype=np.uint64)
    return RandomBinning(n_components, pitches, origins, multipliers, salts)
