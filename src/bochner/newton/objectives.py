"""A convex loss of linear scores and a penalty, over streamed features: its value and gradient take one pass.

Scores and gradients are linear in the features. If a feature map is a cheaper map followed by a matrix, such as the
root of Nyström features, that matrix is multiplied with the few coefficients and never with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bochner.backends import Array, backend_of, densified, is_host, is_tensor
from bochner.data.devices import DeviceSource, TensorSource
from bochner.data.folds import Fold
from bochner.data.progress import Progress
from bochner.data.sources import ArraySource, Block, Source, joined
from bochner.draws.keys import Key
from bochner.features.maps import FeatureMap, Identity, LinearAfter, features_of, row_blocks
from bochner.newton.curvature import HeldRows, add_moment, cast, scores_of, widened
from bochner.newton.losses import Loss

KEPT_BYTES = 1 << 29  # bytes of features that may be held from pass to pass
_DEVICE_SHARE = 0.25  # share of a device's free memory that may hold features: passes need as much again
_BASE = 0.2  # share of the drawn rows that is drawn regardless of curvature
_PASS_PRODUCTS = 50  # products in the time in which a pass computes one kernel value
SINGLE_SIZE = 1 << 20  # number of feature values from which float32 saves time
_FEW_SAMPLES = 8  # with at most this many times `fewest_rows` rows, most will be held for the Hessian
_FEW_SAMPLES_TO_START = 4  # from this many times `fewest_rows`, the minimum of a sample is the start
_ROOT_SCORES = (
    1  # number of scores up to which the root of Nyström features is multiplied with coefficients, not held rows
)


@dataclass(frozen=True)
class State:
    """A point P (m + 1, k), intercepts last, with the objective and its gradient there."""

    P: Array
    value: float
    gradient: Array
    curvature: Array  # (k,): Σ w × curvature over the rows
    weight: float  # Σ w
    n_samples: int


@dataclass(frozen=True)
class Problem:
    """The objective Σ w ℓ(Zv + b, y) + alpha / 2 ‖v‖² over a source whose targets are signs (n, k).

    Attributes
    ----------
    rows : int or None
        Number of rows in a block; None chooses it.
    budget : float
        Bytes of features that may be held.
    single : bool
        Whether products of large problems may be computed in float32; the relative error of the objective is then about
        1e-6.
    """

    source: Source
    feature_map: FeatureMap
    loss: Loss
    alpha: float
    n_scores: int
    fit_intercept: bool = True
    rows: int | None = None
    verbose: int = 0
    budget: float = KEPT_BYTES
    single: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Return the shape (m + 1, k) of the coefficients and intercepts."""
        return (self.feature_map.n_components + 1, self.n_scores)

    @property
    def fewest_rows(self) -> int:
        """Return the number of rows that a sample needs for its Hessian to be close to that of all rows."""
        return 2 * self.feature_map.n_components + 1000

    @property
    def _there(self) -> bool:
        """Return True if features are on a device."""
        return isinstance(self.source, (DeviceSource, TensorSource))

    @property
    def most_rows(self) -> int:
        """Return the largest number of rows whose features may be held."""
        if isinstance(self.source, TensorSource):  # they are
            return max(self.fewest_rows, int(self.source.n_samples or 0))
        width = 4 if self.single else np.dtype(self.feature_map.dtype_of(self.source.dtype)).itemsize
        return max(self.fewest_rows, int(self._room / (width * max(1, self.feature_map.n_components))))

    @property
    def _room(self) -> float:
        """Return the bytes of features that may be held where they are."""
        return _DEVICE_SHARE * self.source.free_memory() if isinstance(self.source, DeviceSource) else self.budget

    def drawing_cost(self, n_rows: int, n_samples: int) -> float:
        """Time of `held` for a sample, in passes: one to draw it, and its features with their matrix, if any."""
        matrix = self._factors[1]
        each = 1.0 if matrix is None else 1.0 + len(matrix) / _PASS_PRODUCTS
        return 1.0 + each * n_rows / n_samples

    @cached_property
    def _factors(self) -> tuple[FeatureMap, Array | None]:
        """Return the map that a pass computes, and the matrix that follows it, or None."""
        return self.feature_map.factored()

    @property
    def _wide(self) -> bool:
        """Return True if float32 features are multiplied in float64: if asked for, or if a matrix magnifies errors."""
        return self._factors[1] is not None or not (self.single or self._there)

    @property
    def precision(self) -> float:
        """Return the relative precision of the objective; a line search cannot resolve smaller differences."""
        return 8.0 * float(np.finfo(np.float64 if self._wide else self.source.dtype).eps)

    def _before(self, P: Array) -> Array:
        """Return the coefficients for the map that a pass computes, intercepts last."""
        matrix = self._factors[1]
        return P if matrix is None else np.vstack([matrix.astype(np.float64, copy=False) @ P[:-1], P[-1:]])

    def fold(self, fold: Fold) -> Any:
        """Run a fold in one pass."""
        progress = Progress(self.source.n_samples, "fit", self.verbose > 0)
        inner: FeatureMap | None = self._factors[0]
        rows = self.rows
        if isinstance(self.source, (ArraySource, TensorSource)) and isinstance(inner, Identity):
            rows = rows or self.source.default_rows(inner.n_components)
            inner = None  # the rows are the features and need not be copied
        try:
            return self.source.fold(fold, inner, rows=rows, after=lambda _, row: progress.reach(row))
        finally:
            progress.close()

    def state(self, P: Array) -> State:
        """Compute the objective and its gradient at P, in one pass."""
        value, curvature, weight, n, gradient = self.fold(GradientFold(self.loss, self._before(P), self._wide))
        matrix = self._factors[1]
        if matrix is not None:
            gradient = np.vstack([matrix.T.astype(np.float64, copy=False) @ gradient[:-1], gradient[-1:]])
        value += 0.5 * self.alpha * float((P[:-1] ** 2).sum())
        gradient[:-1] += self.alpha * P[:-1]
        if not self.fit_intercept:
            gradient[-1] = 0.0
        return State(P, value, gradient, curvature, weight, n)

    def held(self, state: State, n_rows: int, key: Key) -> HeldRows:
        """Draw about n_rows rows with probability ∝ curvature, with their scores at a point; all if there are no more.

        Drawing takes one pass, unless all rows are taken.
        """
        block: Block | None = None
        if n_rows < state.n_samples:
            share = (1.0 - _BASE) * n_rows / max(float(state.curvature.sum()), np.finfo(float).tiny)
            base = _BASE * n_rows / state.weight
            drawn = self.fold(DrawFold(self.loss, self._before(state.P), self._wide, share, base, key))
            block = joined(drawn) if drawn else None
        if block is None:
            block = self.source.sample(state.n_samples, key)
        Z = self._features(block.X)
        Y, weight = _targets(block, Z)
        F = scores_of(Z, state.P)
        return HeldRows(Z, Y, weight, F, self.loss, self.alpha, self.fit_intercept)

    def _features(self, X: Array) -> Array:
        """Compute features of rows to be held, on the device of the source."""
        if self._there:
            X = X if is_tensor(X) else self.source.place(densified(X))
            Z = features_of(self.feature_map, X)
            return cast(Z, backend_of(Z).xp.float32) if self.single else Z
        if isinstance(self.feature_map, Identity) and isinstance(X, np.ndarray):
            return X
        return self._written(self.feature_map, X, self.single)

    @staticmethod
    def _written(feature_map: FeatureMap, X: Array, single: bool) -> Array:
        """Compute features of rows in host memory, block by block."""
        made = np.dtype(feature_map.dtype_of(X.dtype))
        Z = np.empty((X.shape[0], feature_map.n_components), np.float32 if single else made)
        for rows in row_blocks(Z):
            if Z.dtype == made:
                feature_map.into(X[rows], Z[rows])
            else:
                Z[rows] = feature_map(X[rows])
        return Z

    def sampled(self, n_rows: int, key: Key) -> Problem | None:
        """Return the problem for a sample of the rows; None if the source has few more, or the sample has one class.

        The loss of rows of one class has no minimum.
        """
        n = self.source.n_samples
        if n is not None and n <= _FEW_SAMPLES_TO_START * n_rows:
            return None
        block = self.source.sample(n_rows, key)
        if bool((block.y == block.y[:1]).all()):
            return None
        if isinstance(self.source, TensorSource):
            return replace(self, source=TensorSource(block), verbose=0)
        found: Source = ArraySource(block.X, block.y, block.weight)
        if isinstance(self.source, DeviceSource):
            found = DeviceSource(found, self.source.device)
        return replace(self, source=found, verbose=0).kept() if len(block) == n_rows else None

    def kept(self) -> Problem:
        """Return the problem with features computed once and held, if they fit into the budget.

        With several scores, or few rows, the features themselves are held. With one score, those before the matrix,
        which is then multiplied with few coefficients; or the features themselves if only they fit, in float32.
        """
        n, inner = self.source.n_samples, self._factors[0]
        held = isinstance(inner, Identity) and not isinstance(self.source, DeviceSource)
        if n is None or held:
            return self
        if self.source.remote:  # features stay on the workers, and have the digits that they would have here
            return replace(self, single=self.single and n * inner.n_components >= SINGLE_SIZE)
        ways: list[tuple[FeatureMap, Array | None]] = [(self.feature_map, None)]
        if self.n_scores <= _ROOT_SCORES and n > _FEW_SAMPLES * self.fewest_rows:
            ways.insert(0, self._factors)
        for inner, matrix in ways:
            single = self.single and n * inner.n_components >= SINGLE_SIZE and matrix is None
            width = 4 if single else np.dtype(inner.dtype_of(self.source.dtype)).itemsize
            if n * inner.n_components * width <= self._room:
                break
        else:
            return self
        features: FeatureMap = Identity(inner.n_components)
        if matrix is not None:
            features = LinearAfter(features, matrix)
        if isinstance(self.source, DeviceSource):
            return replace(self, source=self.source.held(inner), feature_map=features)
        block = self.source.sample(n, Key(0))
        Z = self._written(inner, block.X, single)
        return replace(self, source=ArraySource(Z, block.y, block.weight), feature_map=features, single=single)


@dataclass(frozen=True)
class ScoreFold(Fold):
    """A pass that computes scores at a point P (m + 1, k)."""

    loss: Loss
    P: Array
    wide: bool  # True if float32 features are summed in float64: a matrix after them may magnify errors

    runs_on_device: ClassVar[bool] = True

    def features(self, Z: Array, block: Block) -> Array:
        """Return features in the precision of the products; if Z is None, the rows are the features."""
        Z = Identity(block.X.shape[1])(block.X) if Z is None else Z
        return widened(Z) if self.wide else Z

    def scores(self, Z: Array, block: Block) -> tuple[Array, Array, Array]:
        """Return scores and signs, in float64 on a device and as the features on the host, and float64 weights."""
        F = scores_of(Z, self.P)
        F = F if is_host(F) else widened(F)
        return F, *_targets(block, F)


class GradientFold(ScoreFold):
    """Σ w ℓ, Σ w × curvature (k,), Σ w, n and the gradient of Σ w ℓ."""

    def zero(self) -> list[Any]:
        return [0.0, np.zeros(self.P.shape[1]), 0.0, 0, np.zeros(self.P.shape)]

    def add(self, total: list[Any], Z: Any, block: Block, row: int) -> list[Any]:
        Z = self.features(Z, block)
        F, Y, w = self.scores(Z, block)
        value, curvature, weight, n, gradient = total
        value += float(w @ widened(self.loss.value(F, Y)))
        curvature = curvature + backend_of(Z).fetch(w @ widened(self.loss.curvature(F, Y)))
        add_moment(gradient, Z, self.loss.slope(F, Y) * w[:, None])
        return [value, curvature, weight + float(w.sum()), n + len(Z), gradient]


@dataclass(frozen=True)
class DrawFold(ScoreFold):
    """Rows drawn with probability min(1, w (share × Σ curvature + base)), their weights w divided by it."""

    share: float
    base: float  # probability for rows whose curvature may be larger at other points, over their weight
    key: Key

    def zero(self) -> list[Block]:
        return []

    def add(self, total: list[Block], Z: Array, block: Block, row: int) -> list[Block]:
        F, Y, weight = self.scores(self.features(Z, block), block)
        fetch = backend_of(F).fetch
        weight, curvature = fetch(weight), fetch(widened(self.loss.curvature(F, Y)).sum(1))
        chance = np.minimum(1.0, weight * (self.share * curvature + self.base))
        rows = np.flatnonzero(self.key.uniforms(row, len(chance)) < chance)
        if len(rows):
            total.append(Block(block.X[rows], block.y[rows], weight[rows] / chance[rows]))
        return total

    def merge(self, total: list[Block], other: list[Block]) -> list[Block]:
        return total + other


def _targets(block: Block, like: Array) -> tuple[Array, Array]:
    """Return signs in the precision of an array and where it is, and weights in float64."""
    backend = backend_of(like)
    if is_host(like):
        return np.asarray(block.y, like.dtype), block.weights
    ones = backend.xp.ones(len(block), dtype=backend.xp.float64, device=like.device)
    weight = ones if block.weight is None else widened(backend.place(block.weight, ones))
    return cast(backend.place(block.y, like), like.dtype), weight
