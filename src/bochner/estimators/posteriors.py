"""Posteriors of Gaussian processes in the space of weights, and functions drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bochner.backends import Array, backend_of, is_host
from bochner.data.folds import Fold
from bochner.data.sources import Block
from bochner.data.targets import numeric_targets
from bochner.data.validation import validate_rows
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap
from bochner.features.trees import kernel_map
from bochner.kernels.algebra import Kernel
from bochner.ridge.reports import Report
from bochner.ridge.spectrum import RidgeSpectrum
from bochner.ridge.statistics import RidgeStatistics
from bochner.tuning.marginal_likelihood import noise_shares

# rounding error of k(x, x) - zᵀz in units in the last place of k(x, x), by the bytes of a number; smaller for float32,
# whose squares are summed in float64
_ROUNDING = {4: 1.0, 8: 16.0}
JOINT_ROWS = 2048  # the most rows drawn jointly: a matrix of this size is factored in a second


@dataclass(frozen=True)
class Posterior:
    """f(x) = level + (z - centre)ᵀw + rest(x): w ~ N(coefficients, noise A⁻¹), A = ZᵀWZ + alpha I of centred rows.

    `rest` is the part of the prior outside the span of the features. Its variance is amplitude (k(x, x) - zᵀz), and for
    the training rows it counts as noise: W = w / (1 + w (k(x, x) - zᵀz) / alpha) for a row of weight w. For features
    with a spectral shift its variance is amplitude · shift; for Fourier features it is zero.
    """

    spectrum: RidgeSpectrum
    coefficients: Array  # (m, k)
    level: Array  # (k,)
    centre: Array  # (m,)
    level_share: float  # variance of the level over the noise: 1 / Σ w, or 0 without an intercept
    alpha: float
    noise: Array  # (k,)
    amplitude: Array  # (k,)
    evidence: float
    report: Report

    def half(self, Z: Array) -> Array:
        """Rows (z - centre)ᵀ A^(-1/2), so that products of two of them are posterior covariances over the noise."""
        factor = self.spectrum.factor.at(self.alpha)
        return ((Z - self.centre) @ factor.vectors) * np.sqrt(factor.inverse_eigenvalues)

    def shares(self, Z: Any) -> Array:
        """Posterior variances of (z - centre)ᵀw over the noise, (n,); the features may be on a device."""
        if is_host(Z):
            half = self.half(Z)
            return np.asarray(np.einsum("ij,ij->i", half, half))
        factor, backend = self.spectrum.factor.at(self.alpha), backend_of(Z)
        half = (Z - backend.place(self.centre, Z)) @ backend.place(factor.vectors, Z)
        half *= backend.place(np.sqrt(factor.inverse_eigenvalues), Z)
        return backend.fetch(half.square().sum(1))


def left_out(kernel: Kernel | None, X: Array, Z: Any, shift: float = 0.0) -> Array:
    """k(x, x) - zᵀz, (n,), at least its rounding error; `shift` if there is no kernel. Z may be on a device."""
    if kernel is None:
        return np.full(len(Z), shift)
    if is_host(Z):
        squares = np.einsum("ij,ij->i", Z, Z, dtype=np.float64)
    else:
        xp = backend_of(Z).xp
        squares = np.square(backend_of(Z).fetch(xp.linalg.vector_norm(Z, dim=1, dtype=xp.float64)))
    diagonal = kernel.diagonal(X).astype(np.float64, copy=False)
    return np.maximum(diagonal - squares, _ROUNDING[X.dtype.itemsize] * np.finfo(X.dtype).eps * diagonal)


@dataclass(frozen=True)
class ShareFold(Fold):
    """Statistics of rows weighted by their share of the noise, and Σ log(w share) of rows with w > 0."""

    n_components: int
    n_targets: int
    kernel: Kernel | None
    alpha: float
    shift: float = 0.0
    n_samples: int | None = None

    runs_on_device: ClassVar[bool] = True
    with_gram = True

    def zero(self) -> list[Any]:
        penalty = self.alpha / self.n_samples if self.n_samples else 0.0
        return [RidgeStatistics(self.n_components, self.n_targets, penalty=penalty), 0.0]

    def add(self, total: list[Any], Z: Any, block: Block, row: int) -> list[Any]:
        statistics, log_weight = total
        w = block.weights
        share = noise_shares(left_out(self.kernel, block.X, Z, self.shift), w, self.alpha)
        statistics.update(Z, numeric_targets(block.y), w * share, overwrite=True)
        used = w > 0
        return [statistics, log_weight + float(np.log(w[used] * share[used]).sum())]

    def merge(self, total: list[Any], other: list[Any]) -> list[Any]:
        return [total[0].merge(other[0]), total[1] + other[1]]

    def to_host(self, total: list[Any]) -> list[Any]:
        return [total[0].to_host(), total[1]]


@dataclass(frozen=True)
class FunctionSamples:
    """Functions drawn from a posterior: level + zᵀweights + priorᵀheights."""

    model: Any  # the GaussianProcessRegressor
    weights: Array  # (m, k, s)
    level: Array  # (k, s)
    prior: FeatureMap | None
    heights: Array | None  # (n_components, k, s)

    def __call__(self, X: Any) -> Array:
        """Values (n, s), or (n, k, s) for several targets, in the dtype of X."""
        X = validate_rows(self.model, X, reset=False)
        _, k, s = self.weights.shape
        out = np.empty((X.shape[0], k, s), X.dtype)
        for rows, block, Z in self.model._blocks(X):
            values = self.level + np.tensordot(Z, self.weights, axes=1)
            if self.prior is not None and self.heights is not None:
                for first in range(0, len(Z), 512):  # a few rows of them at a time
                    part = slice(first, first + 512)
                    prior = self.prior(block[part]).astype(np.float64)
                    self._check_reach(prior, block[part])
                    values[part] += np.tensordot(prior, self.heights, axes=1)
            out[rows] = values
        return out[:, 0] if self.model._target_shape == () else out

    def _check_reach(self, prior: Array, X: Array) -> None:
        """Refuse rows where the features miss the prior's variance, as a truncated power series does far out."""
        kernel = self.model.kernel_
        if kernel.stationary:
            return
        truth, found = kernel.diagonal(X), np.einsum("ij,ij->i", prior, prior)
        if ((found < 0.1 * truth) | (found > 10.0 * truth)).any():
            raise ValueError(
                f"functions drawn with {prior.shape[1]} components do not have the variance of {kernel!r} at these "
                "rows, some of which are far from the data; raise n_components, or draw values there with sample_y."
            )


def draw_functions(model: Any, posterior: Posterior, n_samples: int, key: Key, n_components: int) -> FunctionSamples:
    """Draws of the weights of a fitted process and, if the prior is drawn too, of the weights of its features."""
    k, factor = len(posterior.level), posterior.spectrum.factor.at(posterior.alpha)
    draw = key.child("weights").generator().standard_normal((n_samples, k, len(factor.eigenvalues)))
    # (m, k, s): draws of the weights, and of the level
    spread = np.tensordot(factor.vectors * np.sqrt(factor.inverse_eigenvalues), draw, axes=(1, 2)).transpose(0, 2, 1)
    weights = posterior.coefficients[:, :, None] + np.sqrt(posterior.noise)[:, None] * spread
    level = key.child("level").generator().standard_normal((n_samples, k)).T
    level = posterior.level[:, None] + np.sqrt(posterior.level_share * posterior.noise)[:, None] * level
    level -= np.tensordot(posterior.centre, weights, axes=1)
    prior, heights = None, None
    if model._shift:
        raise ValueError(
            "features with a spectral shift leave white noise out of the prior, which is no function; draw values at "
            f"up to {JOINT_ROWS:,} rows with sample_y, or use NystromFeatures(variant='projection')."
        )
    if model._has_rest:
        feature_map: Any = model.feature_map_
        prior = _prior_features(model.kernel_, feature_map, n_components, key.child("prior"))
        heights = key.child("heights").generator().standard_normal((n_samples, k, n_components))
        heights = heights.transpose(2, 1, 0) * np.sqrt(posterior.amplitude)[:, None]
        # minus the prior draw's own projection on the landmarks
        at_landmarks = np.tensordot(prior(feature_map.landmarks).astype(np.float64), heights, axes=1)
        weights = weights.copy()
        weights[: feature_map.rank] -= np.tensordot(feature_map.root.T.astype(np.float64), at_landmarks, axes=1)
    return FunctionSamples(model, weights, level, prior, heights)


def _prior_features(kernel: Kernel, feature_map: Any, n_components: int, key: Key) -> FeatureMap:
    """A map of any rows whose kernel is that of the prior, up to 1 / sqrt(n_components)."""
    try:
        return kernel_map(kernel, feature_map.landmarks, n_components, key, feature_map.root.dtype).feature_map
    except ValueError as error:
        raise ValueError(
            f"functions cannot be drawn with {kernel!r}, of which no random features are known here; draw values at up "
            f"to {JOINT_ROWS:,} rows with sample_y, which takes every kernel."
        ) from error
