"""Random kitchen sinks: any function of random projections, a random neural layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array, backend_of, is_host
from bochner.features.maps import FeatureMap, row_blocks
from bochner.operators import LinearMap

Activation = Callable[[Array], Array]


def _step(A: Array) -> Array:
    return (A > 0) * backend_of(A).xp.ones_like(A)


def _relu(A: Array) -> Array:
    return A.clip(0)


def _squared_relu(A: Array) -> Array:
    return backend_of(A).xp.square(A.clip(0))


def _gaussian(A: Array) -> Array:
    return backend_of(A).xp.exp(-0.5 * A * A)


def _cos(A: Array) -> Array:
    return backend_of(A).xp.cos(A)


def _sign(A: Array) -> Array:
    return backend_of(A).xp.sign(A)


# name → (function, amplitude): amplitude² is what makes k(x, x) what the kernel of that name says.
ACTIVATIONS: dict[str, tuple[Activation, float]] = {
    "cos": (_cos, 2.0**0.5),
    "relu": (_relu, 2.0**0.5),
    "squared_relu": (_squared_relu, 2.0**0.5),
    "step": (_step, 2.0**0.5),
    "sign": (_sign, 1.0),
    "gaussian": (_gaussian, 1.0),
}


@dataclass(frozen=True)
class KitchenSink(FeatureMap):
    """Columns amplitude / sqrt(n_components) · activation(w·x + offset).

    Attributes
    ----------
    rows : LinearMap
        One row w a column.
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
    def any_array(self) -> bool:
        return isinstance(self.activation, str)

    def units(self, A: Array) -> Array:
        """The columns of given projections w·x, (…, n_components)."""
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
            block: Any = X[rows]
            if scipy.sparse.issparse(block) and not self.rows.accepts_sparse:
                block = block.toarray()
            if isinstance(block, np.ndarray):
                block = np.ascontiguousarray(block)
            out[rows] = self.units(linear(block))
        return out
