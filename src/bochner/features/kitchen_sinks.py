"""Random kitchen sinks: any function of random projections, a random neural layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bochner.backends import Array, backend_of, densified, is_host
from bochner.draws.keys import Key
from bochner.draws.linear_maps import LinearMap
from bochner.features.maps import FeatureMap, expect, row_blocks
from bochner.kernels.algebra import Kernel, dense
from bochner.kernels.dot_products import ArcCosine
from bochner.kernels.stationary import RBF
from bochner.sampling import IID, PointLaw, Quasi

Activation = Callable[[Array], Array]


# name → (function, amplitude): amplitude² scales k(x, x) to that of the kernel of that name.
ACTIVATIONS: dict[str, tuple[Activation, float]] = {
    "cos": (lambda A: backend_of(A).xp.cos(A), 2.0**0.5),
    "relu": (lambda A: A.clip(0), 2.0**0.5),
    "squared_relu": (lambda A: backend_of(A).xp.square(A.clip(0)), 2.0**0.5),
    "step": (lambda A: (A > 0) * backend_of(A).xp.ones_like(A), 2.0**0.5),
    "sign": (lambda A: backend_of(A).xp.sign(A), 1.0),
    "gaussian": (lambda A: backend_of(A).xp.exp(-0.5 * A * A), 1.0),
}


@dataclass(frozen=True)
class KitchenSink(FeatureMap):
    """Components amplitude / sqrt(n_components) · activation(w·x + offset).

    Attributes
    ----------
    rows : LinearMap
        One row w for each component.
    offsets : ndarray of shape (n_components,)
    activation : str or callable
        A name of `ACTIVATIONS`, or a function of arrays that keeps their shape.
    amplitude : float
    """

    rows: LinearMap
    offsets: Array
    activation: str | Activation
    amplitude: float

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.rows.shape[0]

    @property
    def input_width(self) -> int:
        return self.rows.shape[1]

    def validate(self) -> None:
        expect(self.offsets.shape == (self.n_components,), self, "a wrong number of offsets")
        expect(callable(self.activation) or self.activation in ACTIVATIONS, self, "an unknown activation")

    @property
    def runs_on_device(self) -> bool:
        return isinstance(self.activation, str)

    def units(self, A: Array) -> Array:
        """Return the components (…, n_components) of given projections w·x."""
        function = ACTIVATIONS[self.activation][0] if isinstance(self.activation, str) else self.activation
        phases = A + backend_of(A).place(self.offsets, A)
        units = function(phases)
        units = np.asarray(units) if is_host(A) else units
        if units.shape != A.shape:
            raise ValueError(
                f"the activation must keep the shape of its argument; it turned {A.shape} into {units.shape}."
            )
        units = units * float(self.amplitude / np.sqrt(self.n_components))
        return units.astype(A.dtype, copy=False) if is_host(A) else units

    def __call__(self, X: Array) -> Array:
        out = backend_of(X).empty((X.shape[0], self.n_components), X)
        linear = self.rows.on(out)
        for rows in row_blocks(X):
            block = X[rows] if self.rows.accepts_sparse else densified(X[rows])
            if isinstance(block, np.ndarray):
                block = np.ascontiguousarray(block)
            out[rows] = self.units(linear(block))
        return out


@dataclass(frozen=True)
class Thresholds(FeatureMap):
    """Components that are a weight for rows above a threshold in every coordinate, and 0 for others.

    With thresholds t of density p and weights 1/√(p(t) n_components), the mean of a product of features is the volume
    of the points above -1 that are below x and y: Π (1 + min(x_j, y_j)), the `Sobolev` kernel.

    Attributes
    ----------
    thresholds : ndarray of shape (n_components, n_features)
    weights : ndarray of shape (n_components,)
    """

    thresholds: Array
    weights: Array

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return len(self.thresholds)

    def validate(self) -> None:
        fits = self.thresholds.ndim == 2 and self.weights.shape == self.thresholds.shape[:1]
        expect(fits and self.thresholds.dtype.kind == self.weights.dtype.kind == "f", self, "arrays of the wrong shape")

    def __call__(self, X: Array) -> Array:
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        for rows in row_blocks(X, max(X.shape[1], self.n_components)):
            block = dense(X[rows])
            above = np.ones((len(block), self.n_components), bool)
            for x, thresholds in zip(block.T, self.thresholds.T, strict=True):
                above &= x[:, None] > thresholds
            out[rows] = above * self.weights.astype(X.dtype)
        return out


def threshold_map(sample: Array, n_components: int, key: Key) -> Thresholds:
    """Draw thresholds at scrambled Sobol' points: uniform up to the largest values of a sample, and few beyond.

    In each coordinate P[1 + t > s] = (1 + highest) / (s (d + 1)) for s beyond 1 + highest, so that rows anywhere have
    features without bias.
    """
    d = sample.shape[1]
    law: PointLaw = Quasi() if d < 20_000 else IID()
    u, beyond = law.points(d, n_components, key), 1.0 / (d + 1.0)
    box = 1.0 + np.asarray(dense(sample).max(axis=0), np.float64)
    inside = u < 1.0 - beyond
    heights = box * np.where(inside, u / (1.0 - beyond), beyond / (1.0 - u))  # 1 + t
    densities = np.where(inside, (1.0 - beyond) / box, beyond * box / heights**2)
    return Thresholds(heights - 1.0, np.exp(-0.5 * np.log(densities).sum(axis=1)) / np.sqrt(n_components))


class RandomLayer(Kernel):
    """The kernel that a random layer has in expectation: amplitude² E[activation(w·x + b) activation(w·y + b)].

    Parameters
    ----------
    activation : str
        A name of `ACTIVATIONS`.
    length_scale : ndarray
        What the data is divided by: one number, or one for each feature.
    bias : float
        Standard deviation of b; that of "cos" is uniform instead.
    """

    def __init__(self, activation: str, length_scale: Array, bias: float) -> None:
        self.activation = activation
        self.length_scale = length_scale
        self.bias = bias

    def _points(self, X: Array) -> Array:
        """Divide the rows by the length scale, and append the bias as one more column."""
        A = dense(X).astype(float) / self.length_scale
        return np.column_stack([A, np.full(len(A), self.bias)])

    def block(self, X: Array, Y: Array) -> Array:
        A, B = self._points(X), self._points(Y)
        return self._values(A, B).astype(X.dtype)

    def _values(self, A: Array, B: Array) -> Array:
        if self.activation == "cos":
            return RBF(1.0)(A, B)
        a, b = (np.einsum("ij,ij->i", C, C) for C in (A, B))
        if self.activation == "gaussian":
            return np.asarray(1.0 / np.sqrt(np.outer(1.0 + a, 1.0 + b) - (A @ B.T) ** 2))
        if self.activation == "sign":
            return (2.0 * ArcCosine(0)(A, B) - 1.0) * np.outer(a > 0, b > 0)
        return ArcCosine(("step", "relu", "squared_relu").index(self.activation))(A, B)

    def block_diagonal(self, X: Array) -> Array:
        return np.array([self._values(row, row)[0, 0] for row in self._points(X)[:, None, :]]).astype(X.dtype)
