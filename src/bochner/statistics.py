"""Sums over a stream of rows, from which ridge regression, its path, GCV and evidence follow without the data.

`RidgeStatistics` is a monoid: `zero`, `update`, `merge`. So streams, many machines and resumed fits add up the same
sums. `RidgeSpectrum` is their eigendecomposition: everything about a penalty costs O(m) for each target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bochner.backends import Array, backend_of, is_host
from bochner.backends.tiled import congruent
from bochner.operators import Centred, DenseGram, PSDOperator
from bochner.solvers import Eigen, EigenFactor

# Rows multiplied in float32 before the product is added up in float64. An entry of the product then has a rounding
# error below 1e-6 sqrt(G_ii G_jj) (tests/test_statistics.py), usually a tenth of that; where that is not small compared
# with a known penalty, products are float64. With precision="fast", rows are rounded to integers where the processor
# multiplies those faster: to 13 bits where they are all of one size and to 16 bits of each column's largest where they
# are not. Sums are then exact, and the rounding of the features acts like a further penalty of n/m · 1e-8. Where
# it is a hundredth of a known penalty at most, they have 8 bits. Everything but ZᵀZ is summed in float64, of the same
# rounded rows: centring subtracts sums as large as the Gram matrix itself, and what is left may be a 1e-8 of it.
_FLUSH_ROWS = 8192
_FLOAT32_ERROR = 2e-7  # of a float32 product, see `float32_error`
_FLOAT32_COLUMNS = 512  # with fewer, float64 products cost little compared with the features
# Share of a penalty that the errors of float32 products may reach: predictions change by a hundredth of it at most,
# measured where columns are of one size (Fourier features) and far less where they are not (Nyström).
_FLOAT32_SHARE = 5e-3
# On a GPU all products are exact, of rows rounded to 14, 16 or 21 bits of each column's largest entry. Rounding errors
# of variance v change predictions by √(v / penalty) of their spread, where targets are nothing but noise, and otherwise
# by less: this share of the penalty keeps it below 1e-4.
_NOISE_SHARE = 1e-8
_ROUNDING_SHARE = 0.01  # share of a penalty that rounding to 8 bits may add to it
_USUAL_PENALTY = 1e-7  # a row, where it is not known yet
EPS = float(np.finfo(float).eps)
_FEW_ROWS = 256  # below this, float64 products cost less than adding up float32 ones


class RidgeStatistics:
    """Sums over rows z (features), y (targets), w (weights): Σ w zzᵀ, Σ w zyᵀ, Σ w y², Σ w z, Σ w y, Σ w, n.

    Targets are kept as differences from `offset`, the mean of the first rows seen, so that no digits are lost to a
    large mean. All sums are float64, whatever the features are. A weight of w counts as w equal rows.

    Sums are made where the features are. Those of features on a device stay there until they are asked for or
    `to_host` is called: what is merged, pickled or written to a file is in host memory.

    Parameters
    ----------
    n_components : int
        m, the number of components of the features.
    n_targets : int
        k.
    with_gram : bool, default=True
        False keeps everything except the m × m sum, for solvers that need products only.
    precision : {"full", "fast"}, default="full"
        Of products of float32 features; those of float64 features are float64.
    penalty : float or None, default=None
        The least penalty that the sums will be solved with, a row; None where it is not known yet.

    Attributes
    ----------
    squares : array of shape (m, m) or None
        Σ w zzᵀ where the features are; only the lower triangle is kept.
    products : array of shape (m, k + 1)
        Σ w z (y - offset)ᵀ, and Σ w z in the last column, where the features are.
    gram, moment, feature_sum : ndarrays of shapes (m, m), (m, k) and (m,)
        The same in host memory, to which they are brought when they are asked for.
    target_squares, target_sum, offset : ndarrays of shape (k,)
        Σ w (y - offset)², Σ w (y - offset).
    weight : float
        Σ w.
    n_samples : int
        Rows with a positive weight.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.statistics import RidgeStatistics
    >>> rng = np.random.default_rng(0)
    >>> Z, y = rng.normal(size=(100, 3)), rng.normal(size=(100, 1))
    >>> whole = RidgeStatistics(3, 1).update(Z, y)
    >>> halves = RidgeStatistics(3, 1).update(Z[:50], y[:50]).merge(RidgeStatistics(3, 1).update(Z[50:], y[50:]))
    >>> bool(np.allclose(whole.spectrum().coefficients(1.0), halves.spectrum().coefficients(1.0)))
    True
    """

    def __init__(
        self,
        n_components: int,
        n_targets: int,
        *,
        with_gram: bool = True,
        precision: str = "full",
        penalty: float | None = None,
    ) -> None:
        self.squares: Any = np.zeros((n_components, n_components), order="F") if with_gram else None
        self.products: Any = np.zeros((n_components, n_targets + 1))
        self._room: Array | None = None  # host memory for a Gram matrix on a device
        self.target_squares = np.zeros(n_targets)
        self.target_sum = np.zeros(n_targets)
        self.offset = np.zeros(n_targets)
        self.weight = 0.0
        self.n_samples = 0
        self.float32_error = 0.0  # of what was multiplied in float32, see `float32_error`
        self.precision, self.penalty = precision, penalty
        self.rounding_noise = 0.0  # n times the variance that rounding to integers added to an entry
        self.digest: Any = None  # of the rows, while a fit with a checkpoint lasts: `streaming.RowDigest`

    @property
    def n_components(self) -> int:
        """Number of components, m."""
        return len(self.products)

    @property
    def n_targets(self) -> int:
        """Targets, k."""
        return int(self.products.shape[1]) - 1

    @property
    def with_gram(self) -> bool:
        """Whether the m × m sum is kept."""
        return self.squares is not None

    @property
    def gram(self) -> Array | None:
        """Σ w zzᵀ in host memory, or None; only the lower triangle is kept."""
        return self.to_host().squares

    @gram.setter
    def gram(self, matrix: Array | None) -> None:
        self.squares, self._room = matrix, None

    @property
    def moment(self) -> Array:
        """Σ w z (y - offset)ᵀ, (m, k)."""
        self._settle()
        return self.products[:, :-1]

    @property
    def feature_sum(self) -> Array:
        """Σ w z, (m,)."""
        self._settle()
        return np.ascontiguousarray(self.products[:, -1])

    def _settle(self) -> None:
        """Bring everything but the Gram matrix to host memory; nothing is added to it on a device from then on."""
        if not is_host(self.products):
            self.products = backend_of(self.products).fetch(self.products)

    def to_host(self) -> RidgeStatistics:
        """Bring all sums to host memory; the memory of the device is freed. Returns self."""
        self._settle()
        if self.squares is not None and not is_host(self.squares):
            room = np.zeros(self.squares.shape, order="F") if self._room is None else self._room
            backend_of(self.squares).fetch_lower(self.squares, room)
            self.squares, self._room = room, None
        return self

    @property
    def _diagonal(self) -> Array:
        return backend_of(self.squares).fetch(self.squares.diagonal())

    @property
    def trace(self) -> float:
        """Σ w ‖z‖²."""
        return float(self._diagonal.sum())

    def update(self, Z: Any, Y: Array, weight: Array | None = None, *, overwrite: bool = False) -> RidgeStatistics:
        """Add rows: Z (n, m) float32 or float64 on any device, Y (n, k), weight (n,) ≥ 0. Returns self.

        `overwrite` lets the update scale and round the rows of Z in place.
        """
        Y = np.asarray(Y, dtype=np.float64)
        Y = Y[:, None] if Y.ndim == 1 else Y
        if Z.shape[1] != self.n_components or Y.shape[1] != self.n_targets:
            raise ValueError(
                f"these statistics are of {self.n_components} features and {self.n_targets} target(s); "
                f"the block has {Z.shape[1]} and {Y.shape[1]}."
            )
        backend = backend_of(Z)
        if weight is not None:
            weight = np.asarray(weight, dtype=np.float64)
            if not (weight > 0).all():  # rows of weight zero are left out
                keep = np.flatnonzero(weight > 0)
                Z, Y, weight = Z[backend.place(keep, Z)], Y[keep], weight[keep]
                overwrite = True
        if not len(Z):
            return self
        if is_host(Z):
            self.to_host()
        elif is_host(self.products):
            if self.n_samples:  # sums on the host and on a device are added up on the host
                more = RidgeStatistics(self.n_components, self.n_targets, with_gram=self.with_gram)
                return self.merge(more.update(Z, Y, weight, overwrite=overwrite))
            xp = backend.xp
            self.products = xp.zeros(self.products.shape, dtype=xp.float64, device=Z.device)
            if self.squares is not None:
                self._room, self.squares = self.squares, xp.zeros(self.squares.shape, dtype=xp.float64, device=Z.device)
        w = np.ones(len(Z)) if weight is None else weight
        if self.n_samples == 0:
            self.offset = w @ Y / w.sum()
        root = np.sqrt(w)
        if weight is not None:
            Z = backend.xp.multiply(Z, backend.place(root, Z)[:, None], out=Z if overwrite else None)
            overwrite = True
        Y = Y - self.offset
        with np.errstate(over="ignore"):
            squares = (w[:, None] * Y * Y).sum(axis=0)
        if not np.isfinite(squares).all():
            raise ValueError("the squares of these targets overflow; divide the targets by a constant.")
        self.target_squares += squares
        self.target_sum += (w[:, None] * Y).sum(axis=0)
        self.weight += float(w.sum())
        self.n_samples += len(Z)
        right = np.column_stack([root[:, None] * Y, root])
        if not is_host(Z):
            backend.moments(Z if self.squares is None else self._add_squares_there(Z, overwrite), right, self.products)
            return self
        for start in range(0, len(Z), _FLUSH_ROWS):
            rows = slice(start, start + _FLUSH_ROWS)
            part = np.ascontiguousarray(Z[rows])
            if not overwrite and part.base is not None and Z.dtype == np.float32:
                part = part.copy()
            backend.moments(part if self.squares is None else self._add_squares(part), right[rows], self.products)
        return self

    def _add_squares_there(self, Z: Any, overwrite: bool) -> Any:
        """Add ZᵀZ of features on a device. Return them as they were multiplied, rounded in place."""
        backend = backend_of(Z)
        share = _ROUNDING_SHARE if self.precision == "fast" else _NOISE_SHARE
        budget = share * (self.penalty or 0.0)
        Z = Z if overwrite or Z.dtype == backend.xp.float64 else backend.xp.clone(Z)
        fixed = backend.fixed_point(Z, self.n_samples, budget)
        if fixed is None:
            backend.gram(Z, self.squares)
        else:
            fixed.gram(self.squares)
            if self.precision == "fast":
                self.rounding_noise += fixed.noise
            else:
                self.float32_error += fixed.noise / _FLOAT32_ERROR
        return Z

    def _add_squares(self, Z: Array) -> Array:
        """Add ZᵀZ of features in host memory. Return them as they were multiplied: rounded in place, or widened."""
        backend, fixed, single = backend_of(Z), None, Z.dtype == np.float32 and len(Z) > _FEW_ROWS
        if single and self.precision == "fast":
            fixed = backend.fixed_point(Z, self.n_samples, _ROUNDING_SHARE * (self.penalty or 0.0))
        if fixed is not None:
            self.rounding_noise += fixed.noise
            fixed.gram(self.squares)
        elif single and self._float32_will_do(Z):
            before = self._diagonal.copy()
            backend.gram(Z, self.squares)
            self.float32_error += float32_error(self._diagonal - before)
        else:
            Z = Z.astype(np.float64, copy=False)
            backend.gram(Z, self.squares)
        return Z

    def _float32_will_do(self, Z: Array) -> bool:
        """Whether errors of float32 products are small compared with a known penalty."""
        if self.penalty is None:
            return self.n_components >= _FLOAT32_COLUMNS
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->j", Z, Z).astype(np.float64)  # float32 is enough to tell
        return _FLOAT32_ERROR * float32_error(squares) <= _FLOAT32_SHARE * self.penalty * len(Z)

    def merge(self, other: RidgeStatistics) -> RidgeStatistics:
        """Add the rows another set of statistics has seen. Returns self."""
        if (other.n_components, other.n_targets) != (self.n_components, self.n_targets):
            raise ValueError(
                f"cannot merge statistics of {other.n_components} features and {other.n_targets} target(s) into "
                f"statistics of {self.n_components} and {self.n_targets}."
            )
        if self.with_gram != other.with_gram:
            raise ValueError("cannot merge statistics with a Gram matrix and statistics without one.")
        if self.digest is not None:
            self.digest = None if other.digest is None else self.digest.merge(other.digest)
        if other.n_samples == 0:
            return self
        if self.n_samples == 0:
            self.offset = other.offset.copy()
        shift = other.offset - self.offset  # y - offset = (y - other.offset) + shift
        self._settle()
        self.products[:, :-1] += other.moment + np.outer(other.feature_sum, shift)
        self.products[:, -1] += other.feature_sum
        self.target_squares += other.target_squares + shift * (2.0 * other.target_sum + other.weight * shift)
        self.target_sum += other.target_sum + other.weight * shift
        if self.squares is not None and self.n_samples == 0 and not is_host(other.squares):
            self._room, self.squares = self.squares, other.squares  # stays where it is
        elif self.squares is not None:
            self.to_host().squares += other.gram
        self.weight += other.weight
        self.n_samples += other.n_samples
        self.float32_error += other.float32_error
        self.rounding_noise += other.rounding_noise
        return self

    def copy(self) -> RidgeStatistics:
        """Independent statistics of the same rows."""
        return RidgeStatistics(self.n_components, self.n_targets, with_gram=self.with_gram).merge(self)

    def first(self, n_components: int) -> RidgeStatistics:
        """Statistics of the first components only, of the same rows."""
        made = RidgeStatistics(n_components, self.n_targets, with_gram=False, precision=self.precision)
        self.to_host()
        made.products = self.products[:n_components].copy()
        made.squares = None if self.squares is None else np.array(self.squares[:n_components, :n_components], order="F")
        made.target_squares, made.target_sum, made.offset = self.target_squares, self.target_sum, self.offset
        made.weight, made.n_samples, made.penalty = self.weight, self.n_samples, self.penalty
        made.float32_error, made.rounding_noise = self.float32_error, self.rounding_noise
        return made

    def transformed(self, A: Array) -> RidgeStatistics:
        """Statistics of the components ZA instead of Z, of the same rows, for an upper triangular A (m, m).

        Rounding errors of the sums are magnified by A on both sides, and count as those of float32 products do.
        """
        made = self.first(0)
        made.products, made.squares = A.T @ self.products, congruent(self.squares, A)
        made.float32_error += _magnified_error(self._diagonal, A) / _FLOAT32_ERROR
        return made

    @property
    def n_effective(self) -> float:
        """Rows for counting degrees of freedom: Σ w, or the rows themselves when the weights sum to less."""
        return max(self.weight, float(self.n_samples))

    @property
    def target_mean(self) -> Array:
        """The weighted mean of the targets, (k,)."""
        return self.offset + self.target_sum / self.weight

    @property
    def feature_mean(self) -> Array:
        """The weighted mean of the features, (m,)."""
        return self.feature_sum / self.weight

    @property
    def rounding(self) -> float:
        """Eigenvalues of the Gram matrix below this are rounding errors of its sums."""
        if self.squares is None:
            return 0.0
        self._settle()
        double = np.finfo(float).eps * self.trace  # also what centring leaves of a constant column
        # rounded entries are noise: eigenvalues of a random matrix (Marchenko & Pastur)
        noise = self.rounding_noise * (1.0 + np.sqrt(self.n_components / max(self.n_samples, 1))) ** 2
        return float(max(double, noise, _FLOAT32_ERROR * self.float32_error))

    def is_coarse(self, alpha: float) -> bool:
        """Whether products were float32, with errors that are not small compared with a penalty."""
        return self.precision == "full" and _FLOAT32_ERROR * self.float32_error > _FLOAT32_SHARE * alpha

    def operator(self, fit_intercept: bool = True) -> PSDOperator:
        """The Gram matrix, of centred rows when there is an intercept."""
        if self.squares is None:
            raise ValueError("these statistics were collected without a Gram matrix.")
        gram = DenseGram(self.squares, self.rounding)
        return Centred(gram, self.feature_sum, self.weight) if fit_intercept else gram

    def right_side(self, fit_intercept: bool = True) -> Array:
        """Σ w z yᵀ, (m, k), of centred rows and targets when there is an intercept."""
        if fit_intercept:
            return self.moment - np.outer(self.feature_sum, self.target_sum / self.weight)
        return self.moment + np.outer(self.feature_sum, self.offset)

    def total_squares(self, fit_intercept: bool = True) -> Array:
        """Σ w y², (k,), about the mean when there is an intercept."""
        if fit_intercept:
            return np.maximum(self.target_squares - self.target_sum**2 / self.weight, 0.0)
        return np.asarray(self.target_squares + self.offset * (2.0 * self.target_sum + self.weight * self.offset))

    def intercept(self, coefficients: Array, fit_intercept: bool = True) -> Array:
        """The intercepts (k,) that go with coefficients (m, k)."""
        if not fit_intercept:
            return np.zeros(self.n_targets)
        return np.asarray(self.target_mean - self.feature_mean @ coefficients)

    def spectrum(self, fit_intercept: bool = True) -> RidgeSpectrum:
        """The eigendecomposition behind every penalty: O(m³), once."""
        factor = Eigen().factor(self.operator(fit_intercept), 0.0)
        return RidgeSpectrum(
            factor,
            # directions that are only rounding errors explain nothing, however small the penalty
            (factor.eigenvalues > 0)[:, None] * (factor.vectors.T @ self.right_side(fit_intercept)),
            self.total_squares(fit_intercept),
            self.n_effective - float(fit_intercept),
            self.trace / self.weight if self.weight else 1.0,
        )

    def left_out_residuals(
        self, Z: Array, Y: Array, alphas: Array, spectrum: RidgeSpectrum, fit_intercept: bool = True
    ) -> Array:
        """Exact leave-one-out residuals (n, a, k) of rows Z (n, m) and Y (n, k) that are part of the sums.

        A row of weight w counts as w rows of which one is left out. `spectrum` is that of these sums.
        """
        λ = spectrum.factor.eigenvalues[:, None]
        shifted = λ + alphas
        inverse = np.divide(1.0, shifted, out=np.zeros_like(shifted), where=λ > 0)  # (m, a)
        weights = (inverse[:, :, None] * spectrum.moment[:, None, :]).reshape(len(λ), -1)  # in the eigenbasis
        centre = self.feature_mean if fit_intercept else np.zeros(self.n_components)
        level = self.target_mean if fit_intercept else np.zeros(self.n_targets)
        # in the precision of the features: the rounding error of a leverage is far below the leverage
        rotated = (Z - centre.astype(Z.dtype)) @ spectrum.factor.vectors.astype(Z.dtype, copy=False)
        rotated = rotated.astype(np.float64, copy=False)
        leverage = (rotated * rotated) @ inverse + (1.0 / self.weight if fit_intercept else 0.0)  # (n, a)
        residual = (Y - level)[:, None, :] - (rotated @ weights).reshape(len(Z), len(alphas), -1)
        return leave_one_out(residual, leverage)

    def arrays(self) -> dict[str, Array]:
        """Everything as named arrays, for a file; of the Gram matrix one triangle."""
        found = {
            "moment": np.ascontiguousarray(self.moment),
            "target_squares": self.target_squares,
            "target_sum": self.target_sum,
            "feature_sum": self.feature_sum,
            "offset": self.offset,
            "totals": np.array([self.weight, float(self.n_samples), self.float32_error]),
            "noise": np.array([self.rounding_noise]),
        }
        if self.gram is not None:
            found["gram"] = pack_upper(self.gram.T)
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array]) -> RidgeStatistics:
        """What `arrays` wrote."""
        m, k = arrays["moment"].shape
        made = cls(m, k, with_gram="gram" in arrays)
        made.products = np.column_stack([arrays["moment"], arrays["feature_sum"]]).astype(np.float64, copy=False)
        for name in ("target_squares", "target_sum", "offset"):
            setattr(made, name, np.array(arrays[name], dtype=np.float64))
        made.weight = float(arrays["totals"][0])
        made.n_samples = int(arrays["totals"][1])
        made.float32_error = float(arrays["totals"][2])
        made.rounding_noise = float(arrays.get("noise", [0.0])[0])  # older files do not have it
        if made.gram is not None:
            unpack_upper(arrays["gram"], made.gram.T)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self.to_host().__dict__.copy()


def float32_error(squares: Array) -> float:
    """How large the error of a float32 product ZᵀZ may be, in units of the error of one entry, 1e-7 sqrt(G_ii G_jj).

    Such errors make a random matrix: its norm is at most twice that of a row, which is sqrt(max G_ii · trace G).
    """
    return math.sqrt(max(0.0, float(squares.max(initial=0.0)) * float(squares.sum())))


def transforms_well(squares: Array, A: Array, penalty: float | None) -> bool:
    """Whether errors of `RidgeStatistics.transformed` are small beside a penalty, both a row.

    `squares` (m,) are mean squares of the components that are transformed.
    """
    return _magnified_error(squares, A) <= _FLOAT32_SHARE * (_USUAL_PENALTY if penalty is None else penalty)


def _magnified_error(squares: Array, A: Array) -> float:
    """The norm of AᵀEA, with rounding errors E of sums whose diagonal is `squares`."""
    others = int(np.argmax(A.diagonal() != 1.0))  # the first ones are left as they are
    return EPS * float32_error(squares[others:]) * spectral_norm(A[others:, others:]) ** 2


def spectral_norm(A: Array, n_steps: int = 8) -> float:
    """The norm of a matrix by a few steps of the power method from its longest column: some 10 % too small at most."""
    v = A[:, np.einsum("ij,ij->j", A, A).argmax()]
    for _ in range(n_steps):
        v = A @ (A.T @ (v / np.linalg.norm(v)))
    return float(np.sqrt(np.linalg.norm(v)))


def pack_upper(U: Array) -> Array:
    """The upper triangle of a square matrix, row by row."""
    return np.concatenate([row[i:] for i, row in enumerate(U)]) if len(U) else np.empty(0, U.dtype)


def unpack_upper(values: Array, out: Array) -> None:
    """Write what `pack_upper` returned into the upper triangle of a square matrix."""
    start = 0
    for i, row in enumerate(out):
        row[i:] = values[start : start + len(row) - i]
        start += len(row) - i


@dataclass(frozen=True)
class RidgeSpectrum:
    """Ridge regression with every penalty at once. Arguments `alphas` are (a,), results (a,) or (a, k).

    Attributes
    ----------
    factor : EigenFactor
        Eigenvalues and eigenvectors of the (centred) Gram matrix.
    moment : ndarray of shape (m, k)
        The right side in the eigenbasis.
    target_squares : ndarray of shape (k,)
        Sum of squares of the (centred) targets.
    n_samples : float
        Degrees of freedom of the data: rows (weights counted), less one for an intercept.
    amplitude : float
        Mean of ‖z‖² = mean of k(x, x): the unit of alpha.
    """

    factor: EigenFactor
    moment: Array
    target_squares: Array
    n_samples: float
    amplitude: float

    def coefficients(self, alpha: float) -> Array:
        """Weights w (m, k) of the features."""
        return self.factor.vectors @ (self.factor.at(alpha)._inverse[:, None] * self.moment)

    def effective_dimension(self, alphas: Any) -> Array:
        """Σ λ / (λ + alpha)."""
        λ = self.factor.eigenvalues
        λ = λ[λ > 0]
        return np.asarray((λ / (λ + np.reshape(alphas, (-1, 1)))).sum(axis=1))

    def _explained(self) -> tuple[Array, Array, Array]:
        """λ > 0, squared moments in those directions over λ, and the squares that no penalty explains, at least 0."""
        keep = self.factor.eigenvalues > 0
        λ = self.factor.eigenvalues[keep]
        parts = self.moment[keep] ** 2 / λ[:, None]
        rest = self.target_squares - parts.sum(axis=0)
        # with more than n directions nothing is left; sums below rounding are zero
        rest = np.where((rest > 1e-14 * self.target_squares) & (len(λ) < self.n_samples), rest, 0.0)
        return λ, parts, rest

    def residual_squares(self, alphas: Any) -> Array:
        """Σ w (y - ŷ)² on the training rows, (a, k)."""
        λ, parts, rest = self._explained()
        share = np.reshape(alphas, (-1, 1)) / (λ + np.reshape(alphas, (-1, 1)))
        return np.asarray(rest + (share * share) @ parts)

    def gcv(self, alphas: Any) -> Array:
        """Generalised cross-validation (Golub, Heath & Wahba 1979): the mean squared error of a new row, (a, k)."""
        freedom = self.n_samples - self.effective_dimension(alphas)
        freedom = np.maximum(freedom, 1e-9 * max(self.n_samples, 1.0))
        return np.asarray(self.n_samples * self.residual_squares(alphas) / freedom[:, None] ** 2)

    def penalised_squares(self, alphas: Any) -> Array:
        """yᵀ(ZZᵀ/alpha + I)⁻¹y = residual squares + alpha ‖w‖², (a, k)."""
        λ, parts, rest = self._explained()
        α = np.reshape(alphas, (-1, 1))
        return np.asarray(rest + (α / (λ + α)) @ parts)

    def log_evidence(self, alphas: Any, noise_variance: Any = None) -> Array:
        """Log marginal likelihood of y = Zw + noise, w ~ N(0, noise_variance / alpha), (a, k).

        An intercept has a flat prior. Without `noise_variance` (a number, or one for each target) the most likely one
        of each penalty and target is used: `penalised_squares / n_samples`.
        """
        logdet = np.log1p(self.factor.eigenvalues / np.reshape(alphas, (-1, 1))).sum(axis=1)[:, None]
        return log_evidence(self.penalised_squares(alphas), logdet, self.n_samples, noise_variance)

    def grid(self) -> Array:
        """Penalties worth trying: four per decade, from the size of rounding errors to a constant prediction."""
        λ = self.factor.eigenvalues
        low = max(1e-8 * self.amplitude, np.finfo(float).eps * float(λ.sum()), np.finfo(float).tiny)
        high = max(10.0 * float(λ[-1]) if len(λ) else 1.0, self.amplitude, 1e3 * low)
        return np.geomspace(low, high, 2 + int(4.0 * np.log10(high / low)))

    @property
    def target_variance(self) -> Array:
        """The variance of each target, (k,); of a constant one, 1."""
        return np.where(self.target_squares > 0, self.target_squares / max(self.n_samples, 1.0), 1.0)

    def criterion(self, name: str) -> Callable[[Any], Array]:
        """A function of alphas to be minimised, (a,): over targets, each in units of its own variance."""
        if name == "gcv":
            return lambda alphas: (self.gcv(alphas) / self.target_variance).mean(axis=1)
        if name == "evidence":
            varying = self.target_squares > 0  # the likelihood of a constant target is infinite
            return lambda alphas: -self.log_evidence(alphas)[:, varying].sum(axis=1)
        raise ValueError(f"no criterion is called {name!r}.")

    def best(self, name: str | Callable[[Any], Array], alphas: Array | None = None) -> tuple[float, Array, Array]:
        """The penalty that minimises a criterion, and the path (alphas, values) it was found on.

        The criterion is "gcv", "evidence" or a function of alphas. With `alphas` None, the best of a grid is refined
        between its neighbours by a parabola.
        """
        criterion = self.criterion(name) if isinstance(name, str) else name
        grid = self.grid() if alphas is None else alphas
        values = criterion(grid)
        i = len(values) - 1 - int(np.argmin(values[::-1]))  # of equal ones the largest penalty
        if alphas is not None or not np.isfinite(values[i]):
            return float(grid[i]), grid, values
        return float(grid[i] * (grid[1] / grid[0]) ** vertex(values[max(i - 1, 0) : i + 2])), grid, values


def leave_one_out(residual: Array, leverage: Array, least: float = 1e-12) -> Array:
    """Residuals (y - ŷ) / (1 - h) of rows that are left out one at a time, from residuals (..., k), leverages (...).

    The leverage h = zᵀ(G + alpha I)⁻¹z, plus one over the number of rows for an intercept, is the weight of a row's own
    target in its prediction. `least` bounds 1 - h from below, against rounding.
    """
    return np.asarray(residual / np.maximum(1.0 - leverage, least)[..., None])


def log_evidence(squares: Array, logdet: Any, n_samples: float, noise_variance: Any = None) -> Array:
    """Log marginal likelihood of n_samples rows: y ~ N(0, noise_variance (ZZᵀ/alpha + I)).

    From squares yᵀ(ZZᵀ/alpha + I)⁻¹y and logdet = log det(ZZᵀ/alpha + I). Without `noise_variance` the most likely
    one is used, squares / n_samples.
    """
    if noise_variance is None:
        noise_variance = np.maximum(squares, np.finfo(float).tiny) / max(n_samples, 1.0)
    variance = np.broadcast_to(np.asarray(noise_variance, dtype=float), squares.shape)
    fit = n_samples * np.log(2.0 * np.pi * variance) + squares / variance
    return np.asarray(-0.5 * (fit + logdet))


def vertex(values: Any) -> float:
    """Where the parabola through three equally spaced values is least, in steps from the middle one."""
    if len(values) < 3:
        return 0.0
    left, middle, right = values
    curvature = left - 2.0 * middle + right
    return float(np.clip(0.5 * (left - right) / curvature, -1.0, 1.0)) if curvature > 0 else 0.0
