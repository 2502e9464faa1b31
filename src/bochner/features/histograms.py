"""Features of the additive χ² kernel: waves in the logarithm of each value (Vedaldi & Zisserman 2012)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.features.maps import FeatureMap, row_blocks
from bochner.keys import Key
from bochner.rows import stratified
from bochner.spectra import sech_quantile


def check_histograms(X: Any) -> None:
    """Refuse negative values."""
    values = X.data if scipy.sparse.issparse(X) else X
    if values.size and values.min() < 0:
        raise ValueError(
            "Negative values in data passed to the additive χ² kernel, which is one of histograms and counts. Shift or "
            "clip the data, or use another kernel."
        )


@dataclass(frozen=True)
class HistogramWaves(FeatureMap):
    """Random columns √x_j cos(λ log x_j), √x_j sin(λ log x_j): 2xy/(x + y) = √(xy) E cos(λ log(x/y)).

    Attributes
    ----------
    coordinates, frequencies, scales : ndarray of shape (n_waves,)
        j, λ and the factor of each wave; a last single column is √x_j cos(λ log x_j + offset).
    offset : float
    """

    n_components: int
    coordinates: Array
    frequencies: Array
    scales: Array
    offset: float

    def __call__(self, X: Array) -> Array:
        check_histograms(X)
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        for rows in row_blocks(X, max(X.shape[1], self.n_components)):
            V: Any = X[rows][:, self.coordinates]
            V = V.toarray() if scipy.sparse.issparse(V) else V
            phases = np.log(np.where(V > 0, V, 1)) * self.frequencies.astype(X.dtype)
            sizes = np.sqrt(V) * self.scales.astype(X.dtype)
            if self.n_components % 2:
                phases[:, -1] += self.offset
            out[rows, 0::2] = sizes * np.cos(phases)
            odd = self.n_components // 2
            out[rows, 1::2] = sizes[:, :odd] * np.sin(phases[:, :odd])
        return out


def histogram_map(sample: Any, n_components: int, key: Key) -> HistogramWaves:
    """Draw waves: coordinates in proportion to their size in the sample, frequencies from their law."""
    check_histograms(sample)
    T, d = -(-n_components // 2), sample.shape[1]
    means = np.asarray(sample.mean(axis=0), dtype=float).ravel()
    # a coordinate that is zero in the sample may not be zero elsewhere
    law = 0.95 * (means / means.sum() if means.sum() > 0 else 1.0 / d) + 0.05 / d
    steps = np.cumsum(np.broadcast_to(law, d))
    u, v = (stratified(T, step, key.child(step_name)) for step_name, step in _STEPS)
    coordinates = np.minimum(np.searchsorted(steps, u * steps[-1], side="right"), d - 1)
    scales = np.sqrt(2.0 * steps[-1] / (n_components * np.broadcast_to(law, d)[coordinates]))
    offset = 2.0 * np.pi * key.child("offset").generator().random()
    return HistogramWaves(n_components, coordinates, sech_quantile(v), scales, float(offset))


_STEPS = (("coordinates", 0.7548776662466927), ("frequencies", 0.5698402909980532))  # evenly spread together


@dataclass(frozen=True)
class HistogramSamples(FeatureMap):
    """The spectrum of the additive χ² kernel sampled at multiples of an interval: deterministic, sparse for sparse X.

    Columns in blocks of n_features: √(x L), then √(2 x L sech(πjL)) times cosine and sine of jL log x, j = 1, 2, ….
    """

    n_features: int
    sample_steps: int
    interval: float

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.n_features * (2 * self.sample_steps - 1)

    def __call__(self, X: Any) -> Any:
        check_histograms(X)
        if scipy.sparse.issparse(X):
            values: Any = X.data
            parts = [type(X)((block, X.indices, X.indptr), shape=X.shape) for block in self._blocks(values)]
            return scipy.sparse.hstack(parts, format="csr")
        return np.concatenate(list(self._blocks(X)), axis=1)

    def _blocks(self, V: Array) -> list[Array]:
        L = self.interval
        dtype = V.dtype.type
        log = np.log(np.where(V > 0, V, 1))
        blocks = [np.sqrt(V * dtype(L))]
        for j in range(1, self.sample_steps):
            size = np.sqrt(V * dtype(2.0 * L / np.cosh(np.pi * j * L)))
            phase = log * dtype(j * L)
            blocks += [size * np.cos(phase), size * np.sin(phase)]
        return blocks
