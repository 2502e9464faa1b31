"""Sums over a stream of rows, from which ridge regression follows without the data."""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
from scipy.linalg.lapack import dtpttr, stpttr

from bochner.backends import Array, backend_of, is_host
from bochner.backends.tiled import congruent
from bochner.draws.linear_maps import Centred, DenseGram, PSDOperator
from bochner.ridge.solvers import Eigen
from bochner.ridge.spectrum import RidgeSpectrum, leave_one_out

# _FLUSH_ROWS are multiplied in float32 before the product is added up in float64. The rounding error of an entry is
# then below 1e-6 sqrt(G_ii G_jj) (tests/test_statistics.py), usually a tenth of that; if that is not small compared
# with a known penalty, products are float64. With precision="fast", rows are rounded to integers where the processor
# multiplies those faster: to 13 bits where they are all of one size and to 16 bits of each column's largest where they
# are not. Sums are then exact, and the rounding of the features acts like a further penalty of n/m · 1e-8. Where
# it is a hundredth of a known penalty at most, they have 8 bits. Everything but ZᵀZ is summed in float64, of the same
# rounded rows: centring subtracts sums as large as the Gram matrix itself, and what is left may be a 1e-8 of it.
_FLUSH_ROWS = 8192
_FLOAT32_ERROR = 2e-7  # error of a float32 product, see `float32_error`
_FLOAT32_COLUMNS = 512  # number of components below which float64 products cost little compared with the features
# Share of a penalty that the errors of float32 products may reach: predictions change by a hundredth of it at most,
# measured where columns are of one size (Fourier features) and far less where they are not (Nyström).
_FLOAT32_SHARE = 5e-3
# On a GPU all products are exact, of rows rounded to 14, 16 or 21 bits of each column's largest entry. Rounding errors
# of variance v change predictions by √(v / penalty) of their spread, where targets are nothing but noise, and otherwise
# by less: this share of the penalty keeps it below 1e-4.
_NOISE_SHARE = 1e-8
_ROUNDING_SHARE = 0.01  # share of a penalty that rounding to 8 bits may add to it
_USUAL_PENALTY = 1e-7  # penalty over the number of rows, as long as it is unknown
EPS = float(np.finfo(float).eps)
_FEW_ROWS = 256  # number of rows up to which float64 products cost less than adding up float32 ones


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
        Precision of computations with float32 data. It applies to products of features.
    penalty : float or None, default=None
        The least penalty that the sums will be solved with, divided by the number of rows; None where it is not known
        yet.

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
    >>> from bochner.ridge.statistics import RidgeStatistics
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
        self.products: Array = np.zeros((n_components, n_targets + 1))
        self._room: Array | None = None  # host memory for a Gram matrix on a device
        self.target_squares = np.zeros(n_targets)
        self.target_sum = np.zeros(n_targets)
        self.offset = np.zeros(n_targets)
        self.weight = 0.0
        self.n_samples = 0
        self.float32_error = 0.0  # error of float32 products, see `float32_error`
        self.precision, self.penalty = precision, penalty
        self.rounding_noise = 0.0  # n times the variance that rounding to integers added to an entry
        self.digest: Any = None  # digest of the rows, while a fit with a checkpoint lasts: `data.checkpoints.RowDigest`

    @property
    def n_components(self) -> int:
        """Return the number of components, m."""
        return len(self.products)

    @property
    def n_targets(self) -> int:
        """Return the number of targets, k."""
        return int(self.products.shape[1]) - 1

    def without_gram(self) -> RidgeStatistics:
        """Return the sums without their matrix: neither rows nor other penalties can follow."""
        made = copy(self)
        made.squares = None
        return made

    @property
    def with_gram(self) -> bool:
        """Return True if the m × m sum is kept."""
        return self.squares is not None

    @property
    def gram(self) -> Array | None:
        """Return Σ w zzᵀ in host memory, or None; only the lower triangle is kept."""
        return self.to_host().squares

    @gram.setter
    def gram(self, matrix: Array | None) -> None:
        self.squares, self._room = matrix, None

    @property
    def moment(self) -> Array:
        """Return Σ w z (y - offset)ᵀ, (m, k)."""
        self._settle()
        return self.products[:, :-1]

    @property
    def feature_sum(self) -> Array:
        """Return Σ w z, (m,)."""
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
        """Return Σ w ‖z‖²."""
        return float(self._diagonal.sum())

    def update(self, Z: Array, Y: Array, weight: Array | None = None, *, overwrite: bool = False) -> RidgeStatistics:
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
            self._start_on_device(Z)
        w = np.ones(len(Z)) if weight is None else weight
        root = np.sqrt(w)
        right = np.column_stack([root[:, None] * self._add_targets(Y, w), root])
        if weight is not None:
            Z = backend.xp.multiply(Z, backend.place(root, Z)[:, None], out=Z if overwrite else None)
            overwrite = True
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

    def _start_on_device(self, Z: Array) -> None:
        """Begin sums on the device of features."""
        xp = backend_of(Z).xp
        self.products = xp.zeros(self.products.shape, dtype=xp.float64, device=Z.device)
        if self.squares is not None:
            self._room, self.squares = self.squares, xp.zeros(self.squares.shape, dtype=xp.float64, device=Z.device)

    def _add_targets(self, Y: Array, w: Array) -> Array:
        """Add targets and weights, and count the rows. Return the targets less `offset`."""
        if self.n_samples == 0:
            self.offset = w @ Y / w.sum()
        Y = Y - self.offset
        with np.errstate(over="ignore"):
            squares = (w[:, None] * Y * Y).sum(axis=0)
        if not np.isfinite(squares).all():
            raise ValueError("the squares of these targets overflow; divide the targets by a constant.")
        self.target_squares += squares
        self.target_sum += (w[:, None] * Y).sum(axis=0)
        self.weight += float(w.sum())
        self.n_samples += len(Y)
        return Y

    def _add_squares_there(self, Z: Array, overwrite: bool) -> Array:
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
        """Return True if errors of float32 products are small compared with a known penalty."""
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
        """Return independent statistics of the same rows."""
        return RidgeStatistics(self.n_components, self.n_targets, with_gram=self.with_gram).merge(self)

    def first(self, n_components: int) -> RidgeStatistics:
        """Return statistics of the first components only, of the same rows."""
        made = RidgeStatistics(n_components, self.n_targets, with_gram=False, precision=self.precision)
        self.to_host()
        made.products = self.products[:n_components].copy()
        made.squares = None if self.squares is None else np.array(self.squares[:n_components, :n_components], order="F")
        made.target_squares, made.target_sum, made.offset = self.target_squares, self.target_sum, self.offset
        made.weight, made.n_samples, made.penalty = self.weight, self.n_samples, self.penalty
        made.float32_error, made.rounding_noise = self.float32_error, self.rounding_noise
        return made

    def transformed(self, A: Array) -> RidgeStatistics:
        """Return statistics of the components ZA instead of Z, of the same rows, for an upper triangular A (m, m).

        Rounding errors of the sums are magnified by A on both sides, and count as those of float32 products do.
        """
        made = self.first(0)
        made.products, made.squares = A.T @ self.products, congruent(self.squares, A)
        made.float32_error += _magnified_error(self._diagonal, A) / _FLOAT32_ERROR
        return made

    @property
    def target_mean(self) -> Array:
        """Return the weighted mean of the targets, (k,)."""
        return self.offset + self.target_sum / self.weight

    @property
    def feature_mean(self) -> Array:
        """Return the weighted mean of the features, (m,)."""
        return self.feature_sum / self.weight

    @property
    def rounding(self) -> float:
        """Return the size below which eigenvalues of the Gram matrix are rounding errors of its sums."""
        if self.squares is None:
            return 0.0
        self._settle()
        double = np.finfo(float).eps * self.trace  # also what centring leaves of a constant column
        # rounded entries are noise: eigenvalues of a random matrix (Marchenko & Pastur)
        noise = self.rounding_noise * (1.0 + np.sqrt(self.n_components / max(self.n_samples, 1))) ** 2
        return float(max(double, noise, _FLOAT32_ERROR * self.float32_error))

    def is_coarse(self, alpha: float) -> bool:
        """Return True if products were float32, with errors that are not small compared with a penalty."""
        return self.precision == "full" and _FLOAT32_ERROR * self.float32_error > _FLOAT32_SHARE * alpha

    def operator(self, fit_intercept: bool = True) -> PSDOperator:
        """Return the Gram matrix, of centred rows if there is an intercept."""
        if self.squares is None:
            raise ValueError("these statistics were collected without a Gram matrix.")
        gram = DenseGram(self.squares, self.rounding)
        return Centred(gram, self.feature_sum, self.weight) if fit_intercept else gram

    def right_side(self, fit_intercept: bool = True) -> Array:
        """Return Σ w z yᵀ, (m, k), of centred rows and targets if there is an intercept."""
        if fit_intercept:
            return self.moment - np.outer(self.feature_sum, self.target_sum / self.weight)
        return self.moment + np.outer(self.feature_sum, self.offset)

    def total_squares(self, fit_intercept: bool = True) -> Array:
        """Return Σ w y², (k,), about the mean if there is an intercept."""
        if fit_intercept:
            return np.maximum(self.target_squares - self.target_sum**2 / self.weight, 0.0)
        return np.asarray(self.target_squares + self.offset * (2.0 * self.target_sum + self.weight * self.offset))

    def intercept(self, coefficients: Array, fit_intercept: bool = True) -> Array:
        """Return the intercepts (k,) that go with coefficients (m, k)."""
        if not fit_intercept:
            return np.zeros(self.n_targets)
        return np.asarray(self.target_mean - self.feature_mean @ coefficients)

    def spectrum(self, fit_intercept: bool = True) -> RidgeSpectrum:
        """Return the eigendecomposition behind every penalty: O(m³), once."""
        factor = Eigen().factor(self.operator(fit_intercept), 0.0)
        return RidgeSpectrum(
            factor,
            # directions that are only rounding errors explain nothing, however small the penalty
            (factor.eigenvalues > 0)[:, None] * (factor.vectors.T @ self.right_side(fit_intercept)),
            self.total_squares(fit_intercept),
            self.n_samples - float(fit_intercept),
            self.trace / self.n_samples if self.n_samples else 1.0,
        )

    def left_out_residuals(
        self,
        Z: Array,
        Y: Array,
        alphas: Array,
        spectrum: RidgeSpectrum,
        fit_intercept: bool = True,
        weight: Array | None = None,
    ) -> Array:
        """Return exact leave-one-out residuals (n, a, k) of rows Z (n, m) and Y (n, k) that are part of the sums.

        A row of some weight (n,), one by default, is left out with all of it. `spectrum` is that of these sums.
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
        return leave_one_out(residual, leverage if weight is None else leverage * weight[:, None])

    def arrays(self) -> dict[str, Array]:
        """Return everything as named arrays, for a file, with one triangle of the Gram matrix."""
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
        """Make an object of the arrays that `arrays` returned."""
        m, k = arrays["moment"].shape
        made = cls(m, k, with_gram="gram" in arrays)
        made.products = np.column_stack([arrays["moment"], arrays["feature_sum"]]).astype(np.float64, copy=False)
        made.target_squares, made.target_sum, made.offset = (
            np.array(arrays[name], dtype=np.float64) for name in ("target_squares", "target_sum", "offset")
        )
        made.weight = float(arrays["totals"][0])
        made.n_samples = int(arrays["totals"][1])
        made.float32_error = float(arrays["totals"][2])
        made.rounding_noise = float(arrays["noise"][0])
        if made.gram is not None:
            made.squares = unpack_upper(arrays["gram"].astype(np.float64, copy=False), m).T
        return made

    def __getstate__(self) -> dict[str, Any]:
        return self.to_host().__dict__.copy()


def float32_error(squares: Array) -> float:
    """Bound the error of a float32 product ZᵀZ, in units of the error of one entry, 1e-7 sqrt(G_ii G_jj).

    Such errors make a random matrix: its norm is at most twice that of a row, which is sqrt(max G_ii · trace G).
    """
    return math.sqrt(max(0.0, float(squares.max(initial=0.0)) * float(squares.sum())))


def transforms_well(squares: Array, A: Array, penalty: float | None) -> bool:
    """Return True if errors of `RidgeStatistics.transformed` are small beside a penalty over the number of rows.

    `squares` (m,) are mean squares of the components that are transformed.
    """
    return _magnified_error(squares, A) <= _FLOAT32_SHARE * (_USUAL_PENALTY if penalty is None else penalty)


def _magnified_error(squares: Array, A: Array) -> float:
    """Return the norm of AᵀEA, with rounding errors E of sums whose diagonal is `squares`."""
    others = int(np.argmax(A.diagonal() != 1.0))  # the first ones are left as they are
    return EPS * float32_error(squares[others:]) * spectral_norm(A[others:, others:]) ** 2


def spectral_norm(A: Array) -> float:
    """Estimate a matrix norm by eight steps of the power method from the longest column: at most 10 % too small."""
    v = A[:, np.einsum("ij,ij->j", A, A).argmax()]
    for _ in range(8):
        v = A @ (A.T @ (v / np.linalg.norm(v)))
    return float(np.sqrt(np.linalg.norm(v)))


def pack_upper(U: Array) -> Array:
    """Return the upper triangle of a square matrix, row by row."""
    return np.concatenate([row[i:] for i, row in enumerate(U)]) if len(U) else np.empty(0, U.dtype)


def unpack_upper(values: Array, m: int) -> Array:
    """Return the square matrix whose upper triangle `pack_upper` returned, with zeros below it."""
    if m and m * m < 2**31 and values.dtype in (np.float32, np.float64):
        # LAPACK packs the columns of a lower triangle, and these are the rows of its transpose
        unpack = stpttr if values.dtype == np.float32 else dtpttr
        return np.asarray(unpack(m, values, uplo="L")[0].T)
    out = np.zeros((m, m), values.dtype)
    start = 0
    for i, row in enumerate(out):
        row[i:] = values[start : start + m - i]
        start += m - i
    return out
