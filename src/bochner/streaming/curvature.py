"""The Hessian of an objective of linear scores, over rows whose features are held: products, metrics, steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import spotrf, spotrs

from bochner.backends import Array, backend_of, is_host, n_threads
from bochner.backends.threads import each, one_thread
from bochner.keys import Key
from bochner.losses import Loss
from bochner.operators import PSDOperator
from bochner.solvers import Cholesky, Factor
from bochner.statistics import RidgeStatistics

METRIC_BYTES = 1 << 28  # bytes that metrics may take if there is one for each score
_MOST_PRODUCTS = 100  # products with the Hessian for one step
_ENOUGH = 0.2  # a product that gains less than this share of the mean gain ends a step (Nash & Sofer 1990)
_LINE_TRIES = 10
_FLAT = 0.1  # a line search stops at this share of the slope at its start


@dataclass(frozen=True)
class HeldRows:
    """Rows of the objective Σ w ℓ(Zv + b, y) + alpha / 2 ‖v‖², with their features and their scores at P (m + 1, k).

    Features, signs, weights and scores are all host arrays or all on one device. If the rows are a sample, weights
    are divided by the probability of being drawn. Arguments and results of the shape of P are host arrays.
    """

    Z: Any  # (s, m)
    Y: Any  # (s, k)
    weight: Any  # (s,), float64
    F: Any  # (s, k)
    loss: Loss
    alpha: float
    fit_intercept: bool

    def __len__(self) -> int:
        return len(self.Z)

    @property
    def n_scores(self) -> int:
        """Number of scores of each row."""
        return int(self.F.shape[1])

    def scores(self, V: Array) -> Any:
        """The change of the scores when P changes by V."""
        return scores_of(self.Z, V)

    def moved(self, D: Any) -> HeldRows:
        """The same rows with scores changed by D."""
        return replace(self, F=self.F + D)

    def product(self, V: Array) -> tuple[Array, float]:
        """The product HV of the Hessian, and ⟨V, HV⟩, which rounding cannot make negative."""
        D, unit = self.scores(V), _unit_of(self.weight)  # without a unit, products of huge weights would overflow
        curved = self.loss.curvature_product(self.F, self.Y, D) * (self.weight / unit)[:, None]
        out = np.zeros(V.shape)
        add_moment(out, self.Z, curved)
        out *= unit
        out[:-1] += self.alpha * V[:-1]
        if not self.fit_intercept:
            out[-1] = 0.0
        return out, unit * max(float((D * curved).sum()), 0.0) + self.alpha * float((V[:-1] ** 2).sum())

    def products_cost(self) -> float:
        """Cost of one product, in operations of a Gram matrix; products with few columns run at half their rate."""
        return 8.0 * self.Z.shape[0] * self.Z.shape[1] * self.n_scores

    def metric_cost(self, *, apart: bool) -> float:
        """Cost of making a metric, in the same unit."""
        m = float(self.Z.shape[1])
        return (self.n_scores if apart else 1) * (min(self._thinned(apart), len(self)) + m / 3.0) * m * m

    def _thinned(self, apart: bool) -> int:
        """Approximate number of rows that a metric is computed from."""
        m = int(self.Z.shape[1])
        return m + 500 if apart else 2 * m + 1000

    def metric(self, key: Key, *, apart: bool, floor: float) -> Metric:
        """The inverse of Hessians of some of the rows: one for each score, or their mean.

        Parameters
        ----------
        key : Key
            For drawing the rows, with probability ∝ their curvature and weights that make up for it.
        apart : bool
            Whether each score has its own Hessian.
        floor : float
            Second derivative that is used for an intercept whose scores have no curvature at any row.
        """
        fetch = backend_of(self.Z).fetch
        H = fetch(self.loss.curvature(self.F, self.Y) if apart else self.loss.mean_curvature(self.F, self.Y)[:, None])
        H = H.astype(np.float64) * fetch(self.weight)[:, None]
        sums = (self._sums(h, self._thinned(apart), key.child(j)) for j, h in enumerate(H.T))
        return Metric.of(
            sums,
            self.alpha,
            floor if self.fit_intercept else None,
            balanced=self.loss.ignores_shifts(self.n_scores),
            cost=self.metric_cost(apart=apart),
        )

    def _sums(self, h: Array, size: int, key: Key) -> RidgeStatistics:
        """Σ h zzᵀ, estimated from about `size` of the rows."""
        chance = np.where(h > 0, 1.0, 0.0)
        if len(h) > size:
            chance = np.minimum(chance, size * (h / max(float(h.sum()), np.finfo(float).tiny)))
        rows = np.flatnonzero(key.uniforms(0, len(h)) < chance)
        sums = RidgeStatistics(self.Z.shape[1], 0, penalty=np.inf)  # float32 is accurate enough
        if len(rows):
            part = self.Z[backend_of(self.Z).place(rows, self.Z)]
            sums.update(part, np.empty((len(rows), 0)), h[rows] / chance[rows], overwrite=True)
        return sums.to_host()

    def solve(self, R: Array, metric: Metric) -> tuple[Array, int]:
        """H⁻¹ R by conjugate gradients, as accurately as is worthwhile for one step, and the number of products."""
        x, r = np.zeros(R.shape), R.copy()
        z = metric(r)
        q, size, gained = z, float(np.vdot(r, z)), 0.0
        for count in range(1, _MOST_PRODUCTS + 1):
            if size <= 0:
                return x, count - 1
            Hq, bent = self.product(q)
            t = size / bent
            x += t * q
            r -= t * Hq
            gain = 0.5 * t * size
            gained += gain
            if gain * count <= _ENOUGH * gained:
                break
            z = metric(r)
            before, size = size, float(np.vdot(r, z))
            q = z + (size / before) * q
        return x, count

    def step_along(self, D: Any, P: Array, direction: Array, slope: float) -> float:
        """The t that about minimises the objective at P + t × direction, where D are the scores of the direction.

        The slope at t = 0 is that of all rows; its change with t is estimated from the rows held.
        """
        unit = _unit_of(self.weight)  # without a unit, sums of huge weights would overflow
        w, alpha, slope = self.weight[:, None] / unit, self.alpha / unit, slope / unit
        pull = alpha * float(np.vdot(P[:-1], direction[:-1]))
        stiff = alpha * float((direction[:-1] ** 2).sum())
        here = float((self.loss.slope(self.F, self.Y) * D * w).sum()) + pull
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(_LINE_TRIES):
            there = self.moved(t * D)
            rise = float((self.loss.slope(there.F, self.Y) * D * w).sum()) + pull + t * stiff
            rise += slope - here
            if abs(rise) <= _FLAT * abs(slope):
                break
            low, high = (t, high) if rise < 0 else (low, t)
            bent = float((self.loss.curvature_product(there.F, self.Y, D) * D * w).sum()) + stiff
            t = t - rise / bent if bent > 0 else np.inf
            if not low < t < high:
                t = 0.5 * (low + high) if np.isfinite(high) else 4.0 * low
        return t


def scores_of(Z: Any, P: Array) -> Any:
    """ZP[:-1] + P[-1], on the device of the features and in their precision."""
    place, P = backend_of(Z).place, P.astype(Z.dtype, copy=False) if is_host(Z) else P
    return Z @ place(np.ascontiguousarray(P[:-1]), Z) + place(P[-1].copy(), Z)


def _unit_of(values: Any) -> float:
    """A power of two about as large as the largest value; values divided by it fit the range of float32."""
    return float(np.exp2(np.frexp(float(abs(values).max()) if len(values) else 0.0)[1]))


def add_moment(total: Array, Z: Any, slope: Any) -> None:
    """Add [Zᵀ slope; Σ slope], in units that fit the range of float32, whatever the weights are."""
    backend = backend_of(Z)
    unit = _unit_of(slope)
    small = slope / unit
    small = small.astype(Z.dtype, copy=False) if is_host(Z) else small.to(Z.dtype)
    total[:-1] += backend.fetch(small.T @ Z).T * unit
    total[-1] += backend.fetch(slope.sum(0))


@dataclass(frozen=True)
class SingleFactor:
    """The lower triangle L of G + alpha I = L Lᵀ in float32, for steps that need no more digits."""

    L: Array

    @classmethod
    def of(cls, gram: PSDOperator, alpha: float) -> SingleFactor | Factor:
        """A float32 factor, or a float64 one if float32 is not accurate enough for a factorisation."""
        with np.errstate(over="ignore"):  # by huge weights; the factorisation then fails
            G = np.array(gram.lower(), np.float32, order="F")
            np.einsum("ii->i", G)[:] += np.float32(alpha)
        with one_thread():
            L, failed = spotrf(G, lower=1, clean=0, overwrite_a=1)
        return cls(L) if not failed and np.isfinite(L[-1, -1]) else Cholesky().factor(gram, alpha)

    def solve(self, B: Array) -> Array:
        """(G + alpha I)⁻¹ B."""
        unit = _unit_of(B)
        return np.asarray(spotrs(self.L, (B / unit).astype(np.float32), lower=1)[0], np.float64) * unit


@dataclass(frozen=True)
class Metric:
    """H⁻¹ of a Hessian H = [G + alpha, s; sᵀ, w], intercepts last, shared by all scores or one for each score."""

    # a factor of G - s sᵀ / w + alpha, s and w; w is 0 without an intercept
    parts: list[tuple[SingleFactor | Factor, Array, float]]
    floor: float | None  # w of an intercept whose scores have no curvature; None without intercepts
    balanced: bool = False  # whether the scores keep a sum of zero, as the loss does not depend on it
    cost: float = 0.0  # cost of making it, in operations

    @property
    def apart(self) -> bool:
        """Whether each score has its own Hessian."""
        return len(self.parts) > 1

    @classmethod
    def of(
        cls,
        sums: Iterable[RidgeStatistics],
        alpha: float,
        floor: float | None,
        *,
        balanced: bool = False,
        cost: float = 0.0,
    ) -> Metric:
        """The metric of sums of features, read one at a time because each takes twice the memory of its factor."""
        parts: list[tuple[SingleFactor | Factor, Array, float]] = []
        for statistics in sums:
            centred = floor is not None and statistics.weight > 0
            factor = SingleFactor.of(statistics.operator(centred), alpha)
            parts.append((factor, statistics.feature_sum, statistics.weight if centred else 0.0))
        return cls(parts, floor, balanced, cost)

    def __call__(self, R: Array) -> Array:
        if not self.apart:
            return self._solve(*self.parts[0], R)
        out = np.empty(R.shape)

        def solve(j: int) -> None:
            out[:, [j]] = self._solve(*self.parts[j], R[:, [j]])

        with one_thread():
            each(solve, range(len(self.parts)), n_threads())
        return out - out.mean(axis=1, keepdims=True) if self.balanced else out

    def _solve(self, factor: SingleFactor | Factor, total: Array, weight: float, R: Array) -> Array:
        out = np.zeros(R.shape)
        if not weight:
            out[:-1] = factor.solve(R[:-1])
            out[-1] = R[-1] / self.floor if self.floor else 0.0
            return out
        out[:-1] = factor.solve(R[:-1] - np.outer(total, R[-1] / weight))
        out[-1] = (R[-1] - total @ out[:-1]) / weight
        return out
