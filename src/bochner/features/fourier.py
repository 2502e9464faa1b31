"""Random features of stationary kernels: Fourier features, random binning, and features of the additive χ² kernel.

The frequencies of Fourier features are drawn from a kernel and a sampling scheme. Random binning (Rahimi & Recht 2007)
marks the cell of a random grid that a row falls into, as a sparse indicator. Features of the additive χ² kernel
(Vedaldi & Zisserman 2012) are Fourier features of the logarithm of each value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import DTypeLike

from bochner.backends import Array, Rows, backend_of, densified, is_host
from bochner.backends.memory import empty_columns
from bochner.draws.compositions import Scaled, Selected, Stacked, Summed
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense, LinearMap, next_power_of_two
from bochner.draws.mixtures import sech_quantile
from bochner.features.maps import FeatureMap, expect, row_blocks, within
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Projected, Restricted, Sum
from bochner.kernels.stationary import RadialKernel, SeparableKernel
from bochner.sampling import ROW_LAWS, PointLaw, RowLaw, stratified

# Evenly spread draws of two factors would be spread along the same sequence, row i of one tied to row i of the other:
# their sums would have the right mean but would not converge. One factor may be spread, the others are independent.
_INDEPENDENT = ROW_LAWS["iid"]


@dataclass(frozen=True)
class Fourier(FeatureMap):
    """Components amplitude · sqrt(2 / n_components) · cos(w·x + offset).

    Attributes
    ----------
    frequencies : LinearMap
        One row w for each frequency.
    form : {"pairs", "offset", "complex"}
        "pairs": cos(w·x), sin(w·x) side by side; if n_components is odd, the last component is cos(w·x + offset).
        "offset": cos(w·x + offset), one component for each frequency. "complex": exp(i w·x), stored as pairs are.
    offsets : ndarray
        Uniform on [0, 2π): (n_components,) for "offset", one number otherwise.
    amplitude : float
        sqrt(k(x, x)).
    """

    frequencies: LinearMap
    n_components: int
    form: str
    offsets: Array
    amplitude: float
    runs_on_device: ClassVar[bool] = True

    @property
    def input_width(self) -> int:
        return self.frequencies.shape[1]

    def validate(self) -> None:
        m, form = self.n_components, self.form
        expect(form in ("pairs", "offset", "complex") and m >= 1, self, "an unknown form")
        expect(self.frequencies.shape[0] == n_frequencies(m, form), self, "too many or few frequencies")
        expect(self.offsets.shape == (m if form == "offset" else 1,), self, "too many or few offsets")

    def __call__(self, X: Array) -> Array:
        columns = 2 * self.n_components if self.form == "complex" else self.n_components
        backend = backend_of(X)
        out = backend.empty((X.shape[0], columns), X)
        self._write(X, out)
        if self.form != "complex":
            return out
        return out.view(backend.xp.complex64 if X.dtype.itemsize == 4 else backend.xp.complex128)

    def into(self, X: Array, out: Array) -> None:
        self._write(X, out.view(X.dtype) if self.form == "complex" else out)

    def gradient(self, X: Array, coefficients: Array) -> Array:
        T, m = self.frequencies.shape[0], self.n_components
        if self.form == "complex":
            raise ValueError("gradients are those of real features: form='pairs' or form='offset'.")
        a, b = coefficients.astype(X.dtype), np.zeros((T, coefficients.shape[1]), X.dtype)
        offsets = np.zeros(T, X.dtype)
        if self.form == "offset":
            offsets[...] = self.offsets
        else:
            a, b[: m // 2] = a[0::2], a[1::2]
            offsets[-1] = self.offsets[0] if m % 2 else 0.0
        scale = float(self.amplitude * np.sqrt(2.0 / m))
        out = np.empty((X.shape[0], a.shape[1], X.shape[1]), X.dtype)
        for rows in row_blocks(X, 4 * T):
            phases = self.frequencies(np.ascontiguousarray(densified(X[rows]))) + offsets
            cosines, sines = np.cos(phases), np.sin(phases)
            for k in range(a.shape[1]):  # (a cos + b sin)' = b cos - a sin, times the frequency
                out[rows, k] = scale * self.frequencies.adjoint(cosines * b[:, k] - sines * a[:, k])
        return out

    def _write(self, X: Array, out: Array) -> None:
        scale = float(self.amplitude * np.sqrt(2.0 / out.shape[1]))
        frequencies = self.frequencies if is_host(out) else self.frequencies.on(out)
        rotated = self.form == "offset" and not is_host(out)
        for rows in row_blocks(X, 2 * out.shape[1] if rotated else None):
            block = X[rows] if self.frequencies.accepts_sparse else densified(X[rows])
            if isinstance(block, np.ndarray) and block.strides[1] != block.itemsize:
                block = np.ascontiguousarray(block)
            if rotated:
                _rotate_pairs(frequencies, block, self.offsets, scale, out[rows])
            elif self.form == "offset":
                backend_of(out).cosines(frequencies(block), self.offsets, scale, out[rows])
            else:
                frequencies.pairs_into(block, scale, float(self.offsets[0]), out[rows])


def _rotate_pairs(frequencies: LinearMap, X: Array, offsets: Array, scale: float, out: Array) -> None:
    """Write cos(a + b) = cos a cos b - sin a sin b: a device computes pairs of large phases most precisely."""
    backend = backend_of(out)
    Z = backend.empty((out.shape[0], 2 * out.shape[1]), out)
    frequencies.pairs_into(X, scale, 0.0, Z)
    out[...] = Z[:, 0::2] * backend.place(np.cos(offsets), out)
    out -= Z[:, 1::2] * backend.place(np.sin(offsets), out)


def n_frequencies(n_components: int, form: str) -> int:
    """Return the number of frequencies behind n_components components."""
    return -(-n_components // 2) if form == "pairs" else n_components


def fourier_map(
    kernel: Kernel, law: RowLaw, n_features: int, n_components: int, form: str, key: Key, dtype: DTypeLike
) -> Fourier:
    """Draw a Fourier feature map for a resolved stationary kernel."""
    if not kernel.stationary:
        raise ValueError(
            f"Fourier features need a stationary kernel, a function of x - y; {kernel!r} is not. "
            "Use NystromFeatures, which takes any kernel."
        )
    T = n_frequencies(n_components, form)
    frequencies = draw_frequencies(kernel, law, n_features, T, key.child("frequencies"), dtype)
    n_offsets = T if form == "offset" else 1
    offsets = 2.0 * np.pi * key.child("offsets").generator().random(n_offsets)
    amplitude = np.sqrt(kernel.diagonal(np.zeros((1, n_features)))[0])
    return Fourier(frequencies, n_components, form, offsets, float(amplitude))


def choose_rows(kernel: Kernel, n_features: int, n_components: int) -> RowLaw:
    """Choose the sampling scheme of `rows="auto"` (measured by benchmarks/bench_rows.py and bench_features.py).

    Low-discrepancy points have the least error in few dimensions, in more of them the more components there are (and by
    far when the data lie near a space of fewer dimensions). Elsewhere orthogonal frequencies do, as Hadamard products
    where these are also faster than a dense product.
    """
    if n_features <= 4 or (n_features <= 20 and n_components >= 64 * n_features):
        return ROW_LAWS["quasi"]
    if not _radial(kernel):
        return ROW_LAWS["quasi" if n_features <= 20 else "iid"]
    # A dense frequency costs d, a structured one about 20 whatever d is, and blocks are drawn whole.
    p, T = next_power_of_two(n_features), n_frequencies(n_components, "pairs")
    faster = 20 * p * -(-T // p) < T * n_features
    return ROW_LAWS["structured" if faster else "orthogonal"]


def _short(W: Array) -> Array:
    """Round W to 11 bits, which tensor cores hold exactly, so that every device uses the same frequencies.

    A rounded frequency changes a phase of one by at most 2^-12, with an error of mean zero: far below the error of any
    number of random features.
    """
    fraction, exponent = np.frexp(W)
    return np.ldexp(np.rint(fraction * 2048.0), exponent - 11)


def _radial(kernel: Kernel) -> bool:
    match kernel:
        case Sum() | Product():
            return _radial(kernel.left) and _radial(kernel.right)
        case Multiple() | Power() | Restricted() | Projected():
            return _radial(kernel.kernel)
    return isinstance(kernel, RadialKernel)


def draw_frequencies(
    kernel: Kernel, law: RowLaw, n_features: int, n_rows: int, key: Key, dtype: DTypeLike = np.float64
) -> LinearMap:
    """Draw n_rows frequencies of a stationary kernel: the algebra of kernels is an algebra of frequencies.

    A sum has the frequencies of its terms, in proportion to their size at zero; a product has sums of frequencies;
    a multiple has its kernel's; and w·(Uᵀx) = (Uw)·x.
    """

    def draw(part: Kernel, law: RowLaw, address: str | int, n_rows: int = n_rows) -> LinearMap:
        return draw_frequencies(part, law, n_features, n_rows, key.child(address), dtype)

    match kernel:
        case Sum():
            left, right = (k.diagonal(np.zeros((1, n_features)))[0] for k in (kernel.left, kernel.right))
            # each frequency belongs to the left term with probability left / (left + right); spread evenly
            u = stratified(n_rows, (np.sqrt(5.0) - 1.0) / 2.0, key.child("terms"))
            n_left = int(np.count_nonzero(u < left / (left + right)))
            terms = [("left", kernel.left, n_left), ("right", kernel.right, n_rows - n_left)]
            # an odd number of components leaves the last frequency with one: it must belong to the term drawn for it
            if u[-1] < left / (left + right):
                terms.reverse()
            parts = [draw(term, law, name, count) for name, term, count in terms if count]
            return parts[0] if len(parts) == 1 else Stacked(tuple(parts))
        case Product():
            return Summed((draw(kernel.left, law, "left"), draw(kernel.right, _INDEPENDENT, "right")))
        case Power():
            laws = [law] + [_INDEPENDENT] * (int(kernel.exponent) - 1)
            return Summed(tuple(draw(kernel.kernel, factor_law, i) for i, factor_law in enumerate(laws)))
        case Multiple():
            return draw_frequencies(kernel.kernel, law, n_features, n_rows, key, dtype)
        case Restricted():
            columns = kernel.indices(n_features)
            inner = draw_frequencies(kernel.kernel, law, len(columns), n_rows, key, dtype)
            return Selected(inner, columns, n_features)
        case Projected():
            U = kernel.matrix(n_features)
            inner = draw_frequencies(kernel.kernel, law, U.shape[1], n_rows, key)
            return Dense(np.asfortranarray(_short(inner.to_dense() @ U.T), dtype))
    rows = _unit_frequencies(kernel, law, n_features, n_rows, key)
    if isinstance(rows, Dense):
        rows = Dense(np.asfortranarray(_short(rows.matrix), dtype))  # so that a single row needs no copy of W
    scales = kernel.scales(n_features)
    return rows if scales.ndim == 0 and scales == 1.0 else Scaled(rows, 1.0 / scales)


def _unit_frequencies(kernel: Kernel, law: RowLaw, n_features: int, n_rows: int, key: Key) -> LinearMap:
    """Draw frequencies of a kernel that is not made of others, for length scales of one."""
    match kernel:
        case RadialKernel():
            rows = law.sample(n_features, n_rows, key)
            u = law.uniforms(n_features, n_rows, key)
            lengths = kernel.lengths(u, n_features)
            norms = 1.0 if lengths is None else np.linalg.norm(rows(np.eye(n_features)), axis=0)
            return rows.scale_rows((kernel.mixing(u) if lengths is None else lengths) / norms)
        case SeparableKernel():
            if not isinstance(law, PointLaw):
                raise ValueError(
                    f"rows={law!r} needs a rotation-invariant kernel; the frequencies of {kernel!r} are independent "
                    "over coordinates. Use rows='iid' or rows='quasi'."
                )
            return Dense(kernel.quantile(law.points(n_features, n_rows, key)))
    raise ValueError(f"no spectral distribution is known for {kernel!r}; use NystromFeatures, which takes any kernel.")


@dataclass(frozen=True)
class RandomBinning(FeatureMap):
    """One entry ±1/√R for each row and grid, in the component that the cell is hashed to, with a hashed sign.

    Two points share a cell of a grid of pitch δ in one dimension with probability max(0, 1 - |x - y| / δ); for δ from
    Gamma(2, length_scale) the mean is exp(-|x - y| / length_scale). Cells that share a component have independent
    signs: collisions add variance 1 / n_components and no bias.

    Attributes
    ----------
    pitches, origins : ndarray of shape (n_grids, n_features)
    multipliers : ndarray of shape (n_grids, n_features), odd uint64
    salts : ndarray of shape (n_grids,), uint64
    """

    n_components: int
    pitches: Array
    origins: Array
    multipliers: Array
    salts: Array

    @property
    def input_width(self) -> int:
        return int(self.pitches.shape[1])

    def validate(self) -> None:
        shapes = {self.pitches.shape, self.origins.shape, self.multipliers.shape}
        expect(self.n_components >= 1 and self.salts.ndim == 1, self, "arrays of the wrong shape")
        expect(self.pitches.ndim == 2 and len(shapes) == 1, self, "arrays of the wrong shape")
        expect(len(self.pitches) == len(self.salts), self, "arrays of the wrong shape")
        expect(self.multipliers.dtype == self.salts.dtype == np.uint64, self, "multipliers of the wrong type")

    def __call__(self, X: Array) -> Array:
        n, R = X.shape[0], len(self.salts)
        columns = np.empty((n, R), np.int64)
        values = np.empty((n, R), X.dtype)
        for rows in row_blocks(X, 4 * X.shape[1]):
            block = densified(X[rows]).astype(float)
            for r in range(R):
                cells = np.floor((block - self.origins[r]) / self.pitches[r])
                # cells beyond ±2^62 are beyond float64's resolution of the grid anyway
                codes = np.clip(cells, -(2.0**62), 2.0**62).astype(np.int64).view(np.uint64)
                mixed = _mix((codes * self.multipliers[r]).sum(axis=1, dtype=np.uint64) + self.salts[r])
                columns[rows, r] = (mixed >> np.uint64(1)) % np.uint64(self.n_components)
                values[rows, r] = np.where(mixed & np.uint64(1), 1.0, -1.0) / np.sqrt(R)
        indptr = np.arange(0, n * R + 1, R)
        out = scipy.sparse.csr_matrix((values.ravel(), columns.ravel(), indptr), shape=(n, self.n_components))
        out.sum_duplicates()
        return out


def _mix(h: Array) -> Array:
    """Mix the bits of h by SplitMix64's finaliser: every bit of the result depends on every bit of h."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def binning_map(
    length_scale: float | Array, n_features: int, n_components: int, n_grids: int, key: Key
) -> RandomBinning:
    """Draw grids for the kernel exp(-Σ |x_j - y_j| / length_scale_j)."""
    shape = (n_grids, n_features)
    pitches = key.child("pitches").generator().gamma(2.0, 1.0, shape) * length_scale
    origins = key.child("origins").generator().random(shape) * pitches
    multipliers = key.child("multipliers").generator().integers(0, 2**64, shape, dtype=np.uint64) | np.uint64(1)
    salts = key.child("salts").generator().integers(0, 2**64, n_grids, dtype=np.uint64)
    return RandomBinning(n_components, pitches, origins, multipliers, salts)


def check_histograms(X: Rows) -> None:
    """Refuse negative values."""
    values = X if isinstance(X, np.ndarray) else X.data
    if values.size and values.min() < 0:
        raise ValueError(
            "Negative values in data passed to the additive χ² kernel, which is for histograms and counts. Shift or "
            "clip the data, or use another kernel."
        )


@dataclass(frozen=True)
class HistogramFourier(FeatureMap):
    """Fourier features of log x: √x_j cos(λ log x_j) and √x_j sin(λ log x_j), as 2xy/(x + y) = √(xy) E cos(λ log(x/y)).

    Attributes
    ----------
    coordinates, frequencies, scales : ndarray of shape (n_frequencies,)
        j, λ and the factor of each frequency; a last single component is √x_j cos(λ log x_j + offset).
    offset : float
    """

    n_components: int
    coordinates: Array
    frequencies: Array
    scales: Array
    offset: float

    def validate(self) -> None:
        shapes = {self.coordinates.shape, self.frequencies.shape, self.scales.shape}
        expect(shapes == {(-(-self.n_components // 2),)}, self, "too many or too few frequencies")
        expect(within(self.coordinates, 1 << 62), self, "invalid coordinates")

    def __call__(self, X: Array) -> Array:
        check_histograms(X)
        out = empty_columns(X.shape[0], self.n_components, X.dtype)
        for rows in row_blocks(X, max(X.shape[1], self.n_components)):
            V = densified(X[rows][:, self.coordinates])
            phases = np.log(np.where(V > 0, V, 1)) * self.frequencies.astype(X.dtype)
            sizes = np.sqrt(V) * self.scales.astype(X.dtype)
            if self.n_components % 2:
                phases[:, -1] += self.offset
            out[rows, 0::2] = sizes * np.cos(phases)
            odd = self.n_components // 2
            out[rows, 1::2] = sizes[:, :odd] * np.sin(phases[:, :odd])
        return out


def histogram_map(sample: Array, n_components: int, key: Key) -> HistogramFourier:
    """Draw frequencies: coordinates in proportion to their size in the sample, values from their density."""
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
    return HistogramFourier(n_components, coordinates, sech_quantile(v), scales, float(offset))


_STEPS = (
    ("coordinates", 0.7548776662466927),
    ("frequencies", 0.5698402909980532),
)  # steps of a sequence that is evenly spread in the plane


@dataclass(frozen=True)
class HistogramSamples(FeatureMap):
    """The spectrum of the additive χ² kernel sampled at multiples of an interval: deterministic, sparse for sparse X.

    Components in blocks of n_features: √(x L), then √(2 x L sech(πjL)) times cosine and sine of jL log x, j = 1, 2, ….
    """

    n_features: int
    sample_steps: int
    interval: float

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return self.n_features * (2 * self.sample_steps - 1)

    def __call__(self, X: Rows) -> Array:
        check_histograms(X)
        if not isinstance(X, np.ndarray):
            parts = [type(X)((block, X.indices, X.indptr), shape=X.shape) for block in self._blocks(X.data)]
            return scipy.sparse.hstack(parts, format="csr")
        out = empty_columns(X.shape[0], self.n_components, X.dtype)
        return np.concatenate(self._blocks(X), axis=1, out=out)

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
