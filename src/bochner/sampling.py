"""Sampling schemes of frequencies: rows g of a matrix that are, or nearly are, N(0, I).

A kernel multiplies row j by a scale s_j and divides by its length scale (`spectra`); the schemes do not depend on the
kernel. Structured schemes draw unit rows and χ(p) lengths, where p is the padded width: with χ(d) the kernel would be
another one. Lengths and scales are stratified: each alone has exactly its distribution, and together they are spread
evenly, which lowers the variance and keeps the mean.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaincinv, ndtri
from scipy.stats import qmc

from bochner.backends import Array
from bochner.checks import check_count, check_flag
from bochner.draws.keys import Key
from bochner.draws.lattices import BITS, lattice_points
from bochner.draws.linear_maps import Dense, LinearMap, next_power_of_two
from bochner.draws.structured import CirculantBlocks, FastfoodBlocks, FFTBlocks, HadamardBlocks, SubsampledBlocks

# Steps of the two-dimensional Kronecker sequence with the plastic number (Roberts' R2): lengths use the first,
# kernel scales the second, so that the two are spread evenly together.
_LENGTH_STEP, _MIXING_STEP = 0.7548776662466927, 0.5698402909980532
_TINY = 2.0**-54


def stratified(n: int, step: float, key: Key) -> Array:
    """Draw uniforms (n,), each exactly uniform on (0, 1), together evenly spread; more of them extend the same draw."""
    u = (key.generator().random() + step * np.arange(n)) % 1.0
    return np.clip(u, _TINY, 1.0 - 2.0**-53)


def _chi(n_rows: int, dimension: int, key: Key) -> Array:
    """Draw lengths (n_rows,), distributed as the norm of a standard normal vector in `dimension` dimensions."""
    u = stratified(n_rows, _LENGTH_STEP, key.child("lengths"))
    return np.sqrt(2.0 * gammaincinv(dimension / 2.0, u))


def _n_blocks(n_rows: int, width: int) -> int:
    return -(-n_rows // width)


class RowLaw(ABC):
    """A sampling scheme of n_rows vectors in R^n_features that are, or nearly are, N(0, I)."""

    #: True if every single row is exactly Gaussian, so that features are unbiased in every dimension
    exact: ClassVar[bool]

    def bias(self, n_features: int) -> float:
        """Bound the bias of the Gaussian kernel's features at any distance: 0 if rows are exact."""
        return 0.0

    @abstractmethod
    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        """Draw the rows. More rows with the same key extend the same draw."""

    def uniforms(self, n_features: int, n_rows: int, key: Key) -> Array:
        """Draw uniforms (n_rows,), independent of the rows, which the kernel turns into one scale for each row."""
        return stratified(n_rows, _MIXING_STEP, key.child("mixing"))


class PointLaw(RowLaw):
    """A sampling scheme from points in the unit cube, which quantiles turn into any product distribution."""

    @abstractmethod
    def points(self, n_features: int, n_rows: int, key: Key) -> Array:
        """Draw points (n_rows, n_features) in the open unit cube, each marginally uniform."""


@dataclass(frozen=True)
class IID(PointLaw):
    """Independent normal rows (Rahimi & Recht 2007)."""

    exact: ClassVar[bool] = True

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        return Dense(key.child("rows").generator().standard_normal((n_rows, n_features)))

    def uniforms(self, n_features: int, n_rows: int, key: Key) -> Array:
        return np.clip(key.child("mixing").generator().random(n_rows), _TINY, None)

    def points(self, n_features: int, n_rows: int, key: Key) -> Array:
        return np.clip(key.child("rows").generator().random((n_rows, n_features)), _TINY, None)


@dataclass(frozen=True)
class Quasi(PointLaw):
    """Φ⁻¹ of low-discrepancy points (Yang et al. 2014); one further coordinate gives the kernel's scale.

    Parameters
    ----------
    sequence : {"sobol", "halton", "lattice"}
        Sobol' points, Halton points, or a lattice sequence built component by component for the Gaussian kernel
        (`bochner.draws.lattices`), of which every 2^14 points have a shift of their own.
    scramble : bool, default=True
        Scramble the digits, or shift the lattice, at random, so that every point is uniform. Without, all keys give the
        same points, and the features have an error that no average over keys removes.
    skip : int or None, default=None
        Points left out at the beginning. None is 0, and 1 without scrambling: the first point is then a corner of
        the cube, where Φ⁻¹ is infinite.
    leap : int, default=0
        Points left out between two that are used.

    Examples
    --------
    >>> from bochner import FourierFeatures
    >>> from bochner.sampling import Quasi
    >>> FourierFeatures(n_components=64, rows=Quasi("halton", scramble=False, skip=1000, leap=100))
    FourierFeatures(n_components=64,
                    rows=Quasi(sequence='halton', scramble=False, skip=1000,
                               leap=100))
    """

    sequence: str = "sobol"
    scramble: bool = True
    skip: int | None = None
    leap: int = 0

    def __post_init__(self) -> None:
        check_flag("scramble", self.scramble)
        check_count("leap", self.leap, least=0)
        if self.skip is not None:
            check_count("skip", self.skip, least=0)

    @property
    def exact(self) -> bool:  # type: ignore[override]
        return self.scramble

    def bias(self, n_features: int) -> float:
        return 0.0 if self.scramble else 2.0

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        return Dense(ndtri(self.points(n_features, n_rows, key)))

    def uniforms(self, n_features: int, n_rows: int, key: Key) -> Array:
        return self._sequence(n_features + 1, n_rows, key)[:, n_features]

    def points(self, n_features: int, n_rows: int, key: Key) -> Array:
        return self._sequence(n_features + 1, n_rows, key)[:, :n_features]

    def _sequence(self, dimension: int, n: int, key: Key) -> Array:
        generator, step = key.child("points").generator(), self.leap + 1
        skip = self.skip if self.skip is not None else 0 if self.scramble else 1
        last = skip + (n - 1) * step + 1
        if self.sequence == "sobol":
            if dimension > qmc.Sobol.MAXDIM:
                raise ValueError(
                    f"Sobol' points exist up to {qmc.Sobol.MAXDIM - 1} features, got {dimension - 1}; "
                    "use rows='structured', or rows='halton'."
                )
            if last > 1 << 30:
                raise ValueError(f"there are 2^30 Sobol' points, and skip and leap ask for number {last}.")
            # points move to the centres of 2^-30 cells, where Φ⁻¹ is finite; SciPy warns unless n is a power of two
            sampler = qmc.Sobol(dimension, scramble=self.scramble, bits=30, rng=generator)
            return sampler.random(next_power_of_two(last))[skip:last:step] + 2.0**-31
        if self.sequence == "halton":
            sampler = qmc.Halton(dimension, scramble=self.scramble, rng=generator)
            return np.clip(sampler.random(last)[skip::step], _TINY, 1.0 - 2.0**-53)
        if self.sequence == "lattice":
            index = skip + step * np.arange(n)
            points = np.empty((n, dimension))
            for block in np.unique(index >> BITS):
                inside = index >> BITS == block
                shift = np.full(dimension, block * _LENGTH_STEP % 1.0)
                if self.scramble:
                    shift = key.child("points").child(int(block)).generator().random(dimension)
                points[inside] = lattice_points(index[inside], shift)
            return np.clip(points, _TINY, 1.0 - 2.0**-53)
        raise ValueError(f"sequence must be 'sobol', 'halton' or 'lattice', got {self.sequence!r}.")


@dataclass(frozen=True)
class Orthogonal(RowLaw):
    """Haar-orthogonal blocks with χ(d) lengths (Yu et al. 2016): mostly the lowest error of dense schemes."""

    exact: ClassVar[bool] = True

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        rows = np.empty((n_rows, n_features))
        for block, start in enumerate(range(0, n_rows, n_features)):
            G = key.child(block).generator().standard_normal((n_features, n_features))
            Q, R = np.linalg.qr(G)
            # without the signs of R's diagonal Q is not Haar distributed
            Q *= np.where(np.diagonal(R) < 0, -1.0, 1.0)
            rows[start : start + n_features] = Q.T[: n_rows - start]
        return Dense(rows * _chi(n_rows, n_features, key)[:, None])


@dataclass(frozen=True)
class Structured(RowLaw):
    """H D₀ H D₁ H D₂ blocks with χ(p) lengths: SORF (Yu et al. 2016) with the right radii.

    Orthogonal rows in O(log d) time and 7 bytes each. Not exact: directions are made of signs alone, and are less
    uniform the fewer signs there are. In the worst directions found, where x - y has 1 to 16 coordinates of one size
    and no others, the Gaussian kernel is off by up to 0.5 at p = 4, 0.4 at 8, 0.15 at 16, 0.03 at 32 and 0.004 at 64,
    over distances of up to nine length scales; within two length scales by 0.001 at 32. So 2 to 16 features are padded
    to 64 and not to the next power of two. One feature has random signs alone, which is exact.
    """

    exact: ClassVar[bool] = False

    def bias(self, n_features: int) -> float:
        return 0.0 if n_features == 1 else 0.03 if self._width(n_features) == 32 else 0.004

    def _width(self, n_features: int) -> int:
        return 64 if 1 < n_features <= 16 else next_power_of_two(n_features)

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        p = self._width(n_features)
        signs = key.child("signs").signs((_n_blocks(n_rows, p), 3, p))
        return HadamardBlocks(n_features, signs, _chi(n_rows, p, key).astype(np.float32))


@dataclass(frozen=True)
class Fastfood(RowLaw):
    """H G Π H B / (‖G‖√p) blocks with χ(p) lengths (Le, Sarlós & Smola 2013, with the scale corrected)."""

    exact: ClassVar[bool] = True

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        p = next_power_of_two(n_features)
        blocks = _n_blocks(n_rows, p)
        gains = key.child("gains").generator().standard_normal((blocks, p))
        norms = np.repeat(np.linalg.norm(gains, axis=1), p)[:n_rows]
        lengths = _chi(n_rows, p, key) / (norms * np.sqrt(p))
        return FastfoodBlocks(
            n_features,
            key.child("signs").signs((blocks, p)),
            _permutations(blocks, p, key),
            gains.astype(np.float32),
            lengths.astype(np.float32),
        )


@dataclass(frozen=True)
class FastfoodFFT(RowLaw):
    """Fastfood with Fourier and cosine transforms: no padding, 2d rows in a block, every row exactly Gaussian."""

    exact: ClassVar[bool] = True

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        blocks = _n_blocks(n_rows, 2 * n_features)
        gains = key.child("gains").generator().standard_normal((blocks, n_features, 2)).astype(np.float32)
        return FFTBlocks(
            key.child("signs").signs((blocks, n_features)),
            _permutations(blocks, n_features, key),
            gains.view(np.complex64)[..., 0],
            np.ones(n_rows, np.float32),
        )


@dataclass(frozen=True)
class Circulant(RowLaw):
    """Circulant blocks with random signs and χ(d) lengths (after Yu et al. 2015), multiplied by FFT."""

    exact: ClassVar[bool] = True

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        blocks = _n_blocks(n_rows, n_features)
        generators = key.child("generators").generator().standard_normal((blocks, n_features))
        generators /= np.linalg.norm(generators, axis=1, keepdims=True)
        return CirculantBlocks(
            key.child("signs").signs((blocks, n_features)),
            generators.astype(np.float32),
            _chi(n_rows, n_features, key).astype(np.float32),
        )


@dataclass(frozen=True)
class KPW(RowLaw):
    """G P H D: k Gaussian rows behind k coordinates of a randomised Hadamard transform (Kapralov et al. 2016).

    Kept for comparison (docs/replaced.md has a figure). Its errors are those of independent rows (relative error of
    1,024 components on usps over RBFSampler's: 0.99, `Structured` 0.24; docs/rows.md), and `Structured` rows cost log d
    instead of k + log d.

    A row costs k + log d instead of d. Exactly Gaussian while k = p. Beyond, given P and D the variance is
    v = ‖PHDx‖² p/k, which is ‖x‖² only on average: var v = c (1 - k/p) ‖x‖⁴ / k with c = 0 for one coordinate (all
    entries of HDx have one size), 1 for the difference of two one-hot rows, and 2 for dense x, the worst.

    Parameters
    ----------
    n_coordinates : int or None
        k; None keeps a quarter of the padded width, and all of it up to 64.
    """

    n_coordinates: int | None = None
    exact: ClassVar[bool] = False

    def bias(self, n_features: int) -> float:
        p, k = self._widths(n_features)
        # E exp(-v t²/2) - exp(-t²/2) is t⁴/8 exp(-t²/2) var v to second order, and largest at t = 2
        return 4.0 * float(np.exp(-2.0)) * (1.0 - k / p) / k

    def _widths(self, n_features: int) -> tuple[int, int]:
        p = next_power_of_two(n_features)
        return p, min(p, max(64, p // 4)) if self.n_coordinates is None else min(p, self.n_coordinates)

    def sample(self, n_features: int, n_rows: int, key: Key) -> LinearMap:
        p, k = self._widths(n_features)
        blocks = _n_blocks(n_rows, k)
        ranks = key.child("picks").generator().random((blocks, p))
        picks = np.argpartition(ranks, k - 1, axis=1)[:, :k] if k < p else np.tile(np.arange(p), (blocks, 1))
        matrices = key.child("rows").generator().standard_normal((blocks, k, k))
        return SubsampledBlocks(
            n_features,
            key.child("signs").signs((blocks, p)),
            picks.astype(np.int32),
            matrices.astype(np.float32),
            np.full(n_rows, 1.0 / np.sqrt(k), np.float32),
        )


def _permutations(blocks: int, width: int, key: Key) -> Array:
    ranks = key.child("permutations").generator().random((blocks, width))
    return np.argsort(ranks, axis=1).astype(np.int32)


ROW_LAWS: dict[str, RowLaw] = {
    "iid": IID(),
    "quasi": Quasi(),
    "sobol": Quasi("sobol"),
    "halton": Quasi("halton"),
    "lattice": Quasi("lattice"),
    "orthogonal": Orthogonal(),
    "structured": Structured(),
    "fastfood": Fastfood(),
    "fastfood_fft": FastfoodFFT(),
    "circulant": Circulant(),
    "kpw": KPW(),
}


def as_row_law(rows: str | RowLaw) -> RowLaw:
    """Return the sampling scheme of a name, or the scheme itself."""
    if isinstance(rows, RowLaw):
        return rows
    if isinstance(rows, str) and rows in ROW_LAWS:
        return ROW_LAWS[rows]
    raise ValueError(f"rows must be 'auto', a RowLaw or one of {sorted(ROW_LAWS)}; got {rows!r}.")


def name_of(law: RowLaw) -> str:
    """Return the shortest name of a sampling scheme, or its repr when it has none."""
    return next((name for name, known in ROW_LAWS.items() if known == law), repr(law))
