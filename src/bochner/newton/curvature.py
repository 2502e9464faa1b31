"""The Hessian of an objective of linear scores, over rows whose features are held: products, metrics, steps."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bochner.backends import Array, DType, backend_of, is_host, lapack, n_threads, times_columns
from bochner.backends.threads import each, one_thread
from bochner.backends.tiled import parts_of
from bochner.checks import power_of_two
from bochner.draws.keys import Key
from bochner.draws.linear_maps import PSDOperator
from bochner.newton.losses import Loss
from bochner.ridge.solvers import Cholesky, Factor, SampledPreconditioner
from bochner.ridge.statistics import RidgeStatistics

METRIC_BYTES = 1 << 29  # bytes that metrics may take if there is one for each score
_MOST_PRODUCTS = 100  # largest number of products with the Hessian for one step
_ENOUGH = 0.2  # a product that gains less than this share of the mean gain ends a step (Nash & Sofer 1990)
_ROUGH, _ROUGH_PRODUCTS = 0.1, 5  # a step that promises more than this share of the objective takes at most 5 products
_BLOCK_ROWS = 512  # rows whose features stay in the cache between two products
_PARTS = 8  # parts of the rows, one for each thread at a time; fixed, so that threads change no bit
_LINE_TRIES = 10  # points tried along one direction
_FLAT = 0.1  # a line search stops at this share of the slope at its start


@dataclass(frozen=True)
class HeldRows:
    """Rows of the objective Σ w ℓ(Zv + b, y) + alpha / 2 ‖v‖², with their features and their scores at P (m + 1, k).

    Features, signs, weights and scores are all host arrays or all on one device. If the rows are a sample, weights
    are divided by the probability of being drawn. Arguments and results of the shape of P are host arrays; the steps of
    a solution stay on the device.
    """

    Z: Array  # (s, m)
    Y: Array  # (s, k)
    weight: Array  # (s,), float64
    F: Array  # (s, k)
    loss: Loss
    alpha: float
    fit_intercept: bool

    def __len__(self) -> int:
        return len(self.Z)

    @property
    def n_scores(self) -> int:
        """Return the number of scores of each row."""
        return int(self.F.shape[1])

    def scores(self, V: Array) -> Array:
        """Return the change of the scores if P changes by V, which may be on the device."""
        return scores_of(self.Z, V)

    def moved(self, D: Array) -> HeldRows:
        """Return the same rows with scores changed by D."""
        return replace(self, F=self.F + D)

    def product(self, V: Array) -> tuple[Array, float]:
        """Return the product HV of the Hessian, where V is, and ⟨V, HV⟩, which rounding cannot make negative.

        Features in host memory are read once: the scores of a block are followed by its moments, while it is cached.
        """
        unit = _unit_of(self.weight)  # without it, products of huge weights would overflow
        weight, n, k = self.weight / unit, len(self), self.n_scores
        host = is_host(self.Z)
        wide = _in_fours(V.astype(self.Z.dtype, copy=False)) if host else V
        parts = parts_of(n, max(_BLOCK_ROWS, -(-n // _PARTS))) if host else [slice(0, n)]
        sums: list[Any] = [None] * len(parts)

        def add(i: int) -> None:
            moment, bent = backend_of(V).xp.zeros_like(V), 0.0
            for start in range(parts[i].start, min(parts[i].stop, n), _BLOCK_ROWS if host else n):
                rows = slice(start, min(start + _BLOCK_ROWS, parts[i].stop)) if host else parts[i]
                D = scores_of(self.Z[rows], wide)[:, :k]
                curved = self.loss.curvature_product(self.F[rows], self.Y[rows], D) * weight[rows, None]
                add_moment(moment, self.Z[rows], curved)
                bent += float((D * curved).sum())
            sums[i] = moment, bent

        with one_thread() if len(parts) > 1 else nullcontext():
            each(add, range(len(parts)), n_threads())
        out = unit * sum(moment for moment, _ in sums)  # in this order, whichever came first
        out[:-1] += self.alpha * V[:-1]
        if not self.fit_intercept:
            out[-1] = 0.0
        return out, unit * max(sum(bent for _, bent in sums), 0.0) + self.alpha * float((V[:-1] ** 2).sum())

    def products_cost(self) -> float:
        """Cost of one product, in operations of a Gram matrix; products with few columns run at half their rate."""
        return 8.0 * self.Z.shape[0] * self.Z.shape[1] * self.n_scores

    def metric_cost(self, *, apart: bool) -> float:
        """Cost of making a metric, in the same unit."""
        m = float(self.Z.shape[1])
        return (self.n_scores if apart else 1) * (min(self._thinned(apart), len(self)) + m / 3.0) * m * m

    def _thinned(self, apart: bool) -> int:
        """Return the approximate number of rows that a metric is computed from.

        A fourth, between m + 500 and 2m + 1000; for a metric of each score 0.8m + 300.
        """
        m = int(self.Z.shape[1])
        return 4 * m // 5 + 300 if apart else min(2 * m + 1000, max(m + 500, len(self) // 4))

    def metric(self, key: Key, *, apart: bool, floor: float) -> Metric:
        """Invert Hessians of some of the rows: one for each score, or their mean.

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
        """Estimate Σ h zzᵀ from about `size` of the rows."""
        chance = _chances(h, size)
        rows = np.flatnonzero(key.uniforms(0, len(h)) < chance)
        sums = RidgeStatistics(self.Z.shape[1], 0, penalty=np.inf)  # float32 is accurate enough
        if len(rows):
            part = self.Z[backend_of(self.Z).place(rows, self.Z)]
            return sums.update(part, np.empty((len(rows), 0)), h[rows] / chance[rows], overwrite=True)
        sums.squares = backend_of(self.Z).place(sums.squares, self.weight)
        return sums

    def solve(self, R: Array, metric: Metric, value: float = np.inf) -> tuple[Array, int]:
        """Solve for H⁻¹ R by conjugate gradients, as accurately as pays for one step, and count the products.

        A model that promises a large share of the objective's value is too rough for an accurate solution.
        """
        backend = backend_of(self.weight)
        r = backend.place(R.copy(), self.weight)
        x, z = backend.xp.zeros_like(r), metric(r)
        q, size, gained = z, _dot(r, z), 0.0
        for count in range(1, _MOST_PRODUCTS + 1):
            Hq, bent = self.product(q)
            if size <= 0 or bent <= 0:  # squares of tiny numbers underflow
                return backend.fetch(x), count - 1
            t = size / bent
            x += t * q
            r -= t * Hq
            gain = 0.5 * t * size
            gained += gain
            if gain * count <= _ENOUGH * gained or (count >= _ROUGH_PRODUCTS and gained > _ROUGH * value):
                break
            z = metric(r)
            before, size = size, _dot(r, z)
            q = z + (size / before) * q
        return backend.fetch(x), count

    def step_along(self, D: Array, P: Array, direction: Array, slope: float) -> float:
        """Return the t that about minimises the objective at P + t × direction, whose scores are D.

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


def _chances(h: Array, size: int) -> Array:
    """Return probabilities min(1, c h) that sum to `size`; 1 for every h > 0 if there are no more."""
    if np.count_nonzero(h > 0) <= size:
        return np.where(h > 0, 1.0, 0.0)
    h = h / h.max()
    largest = np.sort(h)[::-1]
    rest = np.cumsum(largest[::-1])[::-1][:size]  # sums of all but the first 0, 1, … rows, which are then certain
    scales = (size - np.arange(size)) / np.maximum(rest, 1e-290)  # the least may underflow
    n_certain = np.count_nonzero(scales * largest[:size] >= 1.0)
    return np.minimum(1.0, h * scales[min(n_certain, size - 1)])


def scores_of(Z: Array, P: Array) -> Array:
    """Return ZP[:-1] + P[-1], on the device of the features and in their precision."""
    if not is_host(Z):
        P = backend_of(Z).place(P, Z).to(Z.dtype)
        return Z @ P[:-1] + P[-1]
    P = P.astype(Z.dtype, copy=False)
    return (Z @ _in_fours(P[:-1]))[:, : P.shape[1]] + P[-1]


def _in_fours(A: Array) -> Array:
    """Pad more than two columns with zeros to a multiple of four: BLAS is a third slower with seven."""
    n, k = A.shape
    if k <= 2 or k % 4 == 0:
        return A
    out = np.zeros((n, k + -k % 4), A.dtype)  # np.pad takes as long as the product of some hundred rows
    out[:, :k] = A
    return out


def cast(A: Array, dtype: DType) -> Array:
    """Return an array of any backend in another float type."""
    return backend_of(A).xp.asarray(A, dtype=dtype)


def widened(A: Array) -> Array:
    """Return an array of any backend in float64."""
    return cast(A, backend_of(A).xp.float64)


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())


def _unit_of(values: Array) -> float:
    """Return a power of two close to the largest value; values divided by it fit the range of float32."""
    return float(power_of_two(float(abs(values).max()) if len(values) else 0.0))


def add_moment(total: Array, Z: Array, slope: Array) -> None:
    """Add [Zᵀ slope; Σ slope] where the total is, in units that fit the range of float32, whatever the weights are."""
    fetch = backend_of(Z).fetch if is_host(total) else lambda array: array
    unit = _unit_of(slope)
    small = cast(slope / unit, Z.dtype)
    small = _in_fours(small) if is_host(Z) else small
    total[:-1] += fetch(small.T @ Z).T[:, : slope.shape[1]] * unit
    total[-1] += fetch(slope.sum(0))


@dataclass(frozen=True)
class SingleFactor:
    """The lower triangle L of G + alpha I = L Lᵀ in float32, for steps that need no more digits."""

    L: Array

    @classmethod
    def of(cls, gram: PSDOperator, alpha: float) -> SingleFactor | Factor:
        """Factor in float32, or in float64 if float32 is not accurate enough."""
        with np.errstate(over="ignore"):  # by huge weights; the factorisation then fails
            G = np.array(gram.lower(), np.float32, order="F")
            np.einsum("ii->i", G)[:] += np.float32(alpha)
        with one_thread():
            found = lapack.potrf(G)
        return cls(G) if found and np.isfinite(G[-1, -1]) else Cholesky().factor(gram, alpha)

    def solve(self, B: Array) -> Array:
        """Return (G + alpha I)⁻¹ B."""
        unit = _unit_of(B)
        out = np.array(B / unit, np.float32, order="F")
        lapack.potrs(self.L, out)
        return out.astype(np.float64) * unit


@dataclass(frozen=True)
class Factors:
    """A factor for all columns of a right-hand side, or one for each, in host memory."""

    parts: list[SingleFactor | Factor]

    def solve(self, B: Array) -> Array:
        """Return (G + alpha I)⁻¹ of every column."""
        if len(self.parts) == 1:
            return self.parts[0].solve(B)
        out = np.empty(B.shape)

        def solve(j: int) -> None:
            out[:, [j]] = self.parts[j].solve(B[:, [j]])

        with one_thread():
            each(solve, range(len(self.parts)), n_threads())
        return out


@dataclass(frozen=True)
class DeviceFactors:
    """L⁻¹ (1 or k, m, m) of G + alpha I = L Lᵀ on a device, where products are faster than triangular solves."""

    inverses: Array

    def solve(self, B: Array) -> Array:
        """Return (G + alpha I)⁻¹ of every column."""
        if len(self.inverses) == 1:
            return times_columns(self.inverses[0].T, times_columns(self.inverses[0], B))
        halfway = self.inverses @ B.T[:, :, None]
        return (self.inverses.mT @ halfway)[:, :, 0].T


@dataclass(frozen=True)
class Metric:
    """H⁻¹ of Hessians H = [G + alpha, s; sᵀ, w], intercepts last, one shared by all scores or one for each score.

    It is where the sums of features were, and so are its arguments and results.
    """

    factors: Factors | DeviceFactors  # factors of G - s sᵀ / w + alpha
    totals: Array  # s (m, 1 or k), zero where there is no intercept
    weights: Array  # w (1 or k), infinite where there is no intercept
    balanced: bool = False  # True if the scores keep a sum of zero, as the loss does not depend on it
    cost: float = 0.0  # cost of making it, in operations

    @property
    def apart(self) -> bool:
        """Return True if each score has its own Hessian."""
        return len(self.weights) > 1

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
        """Make the metric of sums of features, read one at a time because each takes twice the memory of its factor.

        `floor` is the w of an intercept whose scores have no curvature, or None without intercepts.
        """
        parts: list[Any] = []
        totals, weights, there = [], [], None
        for statistics in sums:
            centred, there = floor is not None and statistics.weight > 0, statistics.squares
            gram = statistics.operator(centred)
            if is_host(there):
                parts.append(SingleFactor.of(gram, alpha))
            else:
                parts.append(SampledPreconditioner.of(Cholesky().factor(gram, alpha)).inverse)
            totals.append(statistics.feature_sum if centred else np.zeros(statistics.n_components))
            weights.append(statistics.weight if centred else floor or np.inf)
        backend = backend_of(there)
        factors = Factors(parts) if is_host(there) else DeviceFactors(backend.xp.stack(parts))
        s, w = (backend.place(array, there) for array in (np.column_stack(totals), np.array(weights)))
        return cls(factors, s, w, balanced, cost)

    def __call__(self, R: Array) -> Array:
        out = backend_of(R).xp.empty_like(R)
        out[:-1] = self.factors.solve(R[:-1] - self.totals * (R[-1] / self.weights))
        out[-1] = (R[-1] - (self.totals * out[:-1]).sum(0)) / self.weights
        return out - out.mean(1)[:, None] if self.apart and self.balanced else out
