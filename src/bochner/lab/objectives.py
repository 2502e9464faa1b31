"""Compact nonlinear maps: frequencies trained together with the linear model on top of them (Yu et al. 2015)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import scipy.fft
import scipy.linalg

from bochner.backends import Array, densified
from bochner.draws.compositions import Scaled
from bochner.draws.linear_maps import Dense, LinearMap
from bochner.draws.structured import CirculantBlocks
from bochner.features.maps import row_blocks
from bochner.newton.losses import LogLoss, Squared


class Frequencies(ABC):
    """Frequencies as a function of a vector of parameters, and the gradient of anything that depends on phases."""

    start: Array

    @abstractmethod
    def at(self, theta: Array) -> LinearMap:
        """Return the frequencies, (n_frequencies, n_features)."""

    @abstractmethod
    def gradient(self, X: Array, dA: Array) -> Array:
        """Return ∂/∂theta of a function whose gradient in the phases of X is dA (n, n_frequencies)."""


@dataclass(frozen=True, eq=False)
class DenseFrequencies(Frequencies):
    """Every entry is free, in units of the root mean square of the start."""

    start: Array
    shape: tuple[int, int]
    unit: float

    @classmethod
    def of(cls, frequencies: LinearMap) -> DenseFrequencies:
        W = frequencies.to_dense()
        top = np.abs(W).max()  # squares of very large or small numbers would overflow or vanish
        unit = float(top * np.sqrt(np.mean((W / top) ** 2)))
        return cls(W.ravel() / unit, (W.shape[0], W.shape[1]), unit)

    def at(self, theta: Array) -> LinearMap:
        return Dense(self.unit * theta.reshape(self.shape))

    def gradient(self, X: Array, dA: Array) -> Array:
        return self.unit * np.asarray(X.T @ dA).T.ravel()


@dataclass(frozen=True, eq=False)
class CirculantFrequencies(Frequencies):
    """Circulant blocks: one generator of n_features numbers for as many frequencies, multiplied by FFT."""

    start: Array
    blocks: CirculantBlocks
    columns: Array  # what features are multiplied by before the blocks

    @classmethod
    def of(cls, frequencies: LinearMap) -> CirculantFrequencies:
        columns = np.asarray(1.0)
        if isinstance(frequencies, Scaled):
            columns = frequencies.columns
            frequencies = frequencies.inner
        assert isinstance(frequencies, CirculantBlocks)
        generators = frequencies.generators.astype(float)
        unit = float(np.sqrt(np.mean(generators**2)))
        lengths = frequencies.lengths.astype(float) * unit
        blocks = replace(frequencies, generators=generators / unit, lengths=lengths)
        return cls(blocks.generators.ravel(), blocks, columns)

    def at(self, theta: Array) -> LinearMap:
        return Scaled(replace(self.blocks, generators=theta.reshape(self.blocks.generators.shape)), self.columns)

    def gradient(self, X: Array, dA: Array) -> Array:
        X = densified(X) * self.columns
        signs = self.blocks.signs
        n_blocks, d = signs.shape
        dA = np.pad(dA * self.blocks.lengths, ((0, 0), (0, n_blocks * d - dA.shape[1])))
        gradient = np.empty((n_blocks, d))
        for b in range(n_blocks):
            # phase i is Σ_k g_k (signs x)_(i+k): the gradient in g is a correlation of dA with x
            spectrum = np.conj(scipy.fft.rfft(dA[:, b * d : (b + 1) * d])) * scipy.fft.rfft(X * signs[b])
            gradient[b] = scipy.fft.irfft(spectrum.sum(axis=0), n=d)
        return gradient.ravel()


@dataclass(frozen=True, eq=False)
class _Objective(ABC):
    """A loss of a linear model on the features, as a function of parameters; evaluated in blocks of rows."""

    frequencies: Frequencies
    X: Array
    Y: Array  # (n, n_outputs)
    n_components: int
    tail: float  # offset of a last single component
    alpha: float

    def _features(self, W: LinearMap, rows: slice) -> tuple[Array, Array, Array]:
        """Return rows of X in float64, their features Z, and ∂Z/∂phase, both (n, n_components)."""
        block = self.X[rows].astype(float)
        block = block if W.accepts_sparse else densified(block)
        phases = W(block)
        T, scale = phases.shape[1], np.sqrt(2.0 / self.n_components)
        odd = self.n_components % 2
        if odd:
            phases[:, -1] += self.tail
        Z, dZ = np.empty((len(phases), self.n_components)), np.empty((len(phases), self.n_components))
        cosine, sine = scale * np.cos(phases), scale * np.sin(phases)
        Z[:, 0::2], dZ[:, 0::2] = cosine, -sine
        Z[:, 1::2], dZ[:, 1::2] = sine[:, : T - odd], cosine[:, : T - odd]
        return block, Z, dZ

    def _phase_gradient(self, products: Array) -> Array:
        """Sum over the two components of a frequency: (n, n_components) → (n, n_frequencies)."""
        even = products[:, 0::2].copy()
        even[:, : products.shape[1] // 2] += products[:, 1::2]
        return even

    def _blocks(self) -> list[slice]:
        return row_blocks(self.X, max(self.X.shape[1], 4 * self.n_components))


@dataclass(frozen=True, eq=False)
class SquaredObjective(_Objective):
    """min over weights of ‖Z a - Y‖² + alpha ‖a‖², divided by ‖Y‖².

    The best weights are found exactly for given frequencies, so that the gradient is that with fixed weights (variable
    projection, Golub & Pereyra 1973) and only the frequencies are searched.
    """

    def start(self) -> Array:
        return self.frequencies.start

    def __call__(self, theta: Array) -> tuple[float, Array]:
        W, loss = self.frequencies.at(theta), Squared()
        D, size = self.n_components, max(float((self.Y**2).sum()), np.finfo(float).tiny)
        gram, moment = self.alpha * np.eye(D), np.zeros((D, self.Y.shape[1]))
        for rows in self._blocks():
            _, Z, _ = self._features(W, rows)
            gram += Z.T @ Z
            moment += Z.T @ self.Y[rows]
        a = scipy.linalg.solve(gram, moment, assume_a="pos")
        value, gradient = self.alpha * float((a**2).sum()), np.zeros_like(theta)
        for rows in self._blocks():
            block, Z, dZ = self._features(W, rows)
            F = Z @ a
            value += 2.0 * float(loss.value(F, self.Y[rows]).sum())
            slope = 2.0 * loss.slope(F, self.Y[rows])
            gradient += self.frequencies.gradient(block, self._phase_gradient((slope @ a.T) * dZ))
        return value / size, gradient / size


@dataclass(frozen=True, eq=False)
class LogObjective(_Objective):
    """Multinomial log loss of Z a + b plus alpha/2 ‖a‖², divided by n, in frequencies and weights; Y is one-hot."""

    def start(self) -> Array:
        """Return the initial parameters: frequencies, weights of zero, the classes' log frequencies."""
        K = self.Y.shape[1]
        prior = np.log(np.maximum(self.Y.mean(axis=0), 1e-12))
        return np.concatenate([self.frequencies.start, np.zeros(self.n_components * K), prior])

    def __call__(self, theta: Array) -> tuple[float, Array]:
        """Return value and gradient."""
        (n, K), D = self.Y.shape, self.n_components
        m = len(self.frequencies.start)
        a, b = theta[m : m + D * K].reshape(D, K), theta[m + D * K :]
        W, loss = self.frequencies.at(theta[:m]), LogLoss()
        value, d_theta, d_a, d_b = 0.5 * self.alpha * float((a**2).sum()), np.zeros(m), self.alpha * a, np.zeros(K)
        for rows in self._blocks():
            block, Z, dZ = self._features(W, rows)
            F = Z @ a + b
            value += float(loss.value(F, self.Y[rows]).sum())
            slope = loss.slope(F, self.Y[rows])
            d_a = d_a + Z.T @ slope
            d_b += slope.sum(axis=0)
            d_theta += self.frequencies.gradient(block, self._phase_gradient((slope @ a.T) * dZ))
        return value / n, np.concatenate([d_theta, d_a.ravel(), d_b]) / n
