"""Sketches: random maps S of shape (n_components, n_features) with E[SᵀS] = I.

``S(X)`` is X Sᵀ, which projects the columns of row data, and ``S @ A`` is S A, which sketches the rows of a tall
matrix; ``S.adjoint(B)`` is B S. A sampling scheme (`SketchLaw`) is a value; what it draws is a `LinearMap`.

Every scheme has a bound for subspace embeddings: for Q with orthonormal columns, ``law.distortion(rank, …)`` is the ε
that ‖QᵀSᵀSQ - I‖_F exceeds with probability at most δ, by Markov's inequality from the exact second moment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from bochner.backends import Array, is_sparse
from bochner.checks import check_count, check_positive, power_of_two
from bochner.draws.compositions import Chained
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense, LinearMap, Signs, next_power_of_two
from bochner.draws.structured import PickedRows, SparseRows, SubsampledCosine, SubsampledHadamard


class SketchLaw(ABC):
    """A sampling scheme of maps S: R^n_features → R^n_components with E[SᵀS] = I.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner.draws.keys import Key
    >>> from bochner.sketches import as_sketch_law
    >>> S = as_sketch_law("sparse_sign").sample(1000, 200, Key(0))
    >>> A = np.random.default_rng(0).normal(size=(1000, 3))
    >>> (S @ A).shape, S(A.T).shape
    ((200, 3), (3, 200))
    """

    #: True if more components with the same key extend the same draw, up to the factor sqrt(n_components)
    extends: ClassVar[bool]
    #: True if CSR and CSC data are sketched in O(nnz), without a dense copy
    accepts_sparse: ClassVar[bool] = True

    @abstractmethod
    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        """Draw S of shape (n_components, n_features)."""

    def moment(self, rank: int, n_features: int) -> float:
        """Bound n_components · E‖QᵀSᵀSQ - I‖_F² over all Q (n_features, rank) with orthonormal columns.

        This is the bound of Gaussian and of sign entries; other schemes override it.
        """
        return rank**2 + rank

    def distortion(self, rank: int, n_features: int, n_components: int, delta: float) -> float:
        """Return the ε that ‖QᵀSᵀSQ - I‖_F exceeds with probability at most delta."""
        return float(np.sqrt(self.moment(rank, n_features) / (n_components * delta)))

    def resolve(self, A: ArrayLike, key: Key) -> SketchLaw:
        """Return the scheme with what it needs to know of the rows of A: itself if it depends on no data."""
        return self


@dataclass(frozen=True)
class Gaussian(SketchLaw):
    """Independent N(0, 1/n_components) entries: the best constants, n_components · n_features numbers."""

    extends: ClassVar[bool] = True

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        G = key.child("rows").generator().standard_normal((n_components, n_features))
        G /= np.sqrt(n_components)
        return Dense(G)


@dataclass(frozen=True)
class Rademacher(SketchLaw):
    """Independent ±1/sqrt(n_components) entries, one byte each."""

    extends: ClassVar[bool] = True

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        signs = key.child("signs").signs((n_components, n_features))
        return Signs(signs, np.full(n_components, n_components**-0.5))


class _Thinned(SketchLaw):
    """Independent entries sqrt(s / n_components) · {+1, 0, -1} with probabilities 1/2s, 1 - 1/s, 1/2s."""

    extends: ClassVar[bool] = True

    @abstractmethod
    def rarity(self, n_features: int) -> float:
        """Return s: one entry in s is not zero."""

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        s = self.rarity(n_features)
        # positions in row-major order, by their geometric gaps: O(nnz), and more rows extend the same draw
        places = _thin(n_components * n_features, 1.0 / s, key.child("places"))
        rows, columns = np.divmod(places, n_features)
        signs = key.child("signs").signs((len(places),))
        order = np.argsort(columns, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=n_features))])
        lengths = np.full(n_components, np.sqrt(s / n_components))
        return SparseRows(indptr.astype(np.int32), rows[order].astype(np.int32), signs[order], lengths)

    def moment(self, rank: int, n_features: int) -> float:
        return rank**2 + rank + max(0.0, self.rarity(n_features) - 3.0) * rank


@dataclass(frozen=True)
class Achlioptas(_Thinned):
    """Two thirds zeros, the others ±sqrt(3 / n_components) (Achlioptas 2003)."""

    def rarity(self, n_features: int) -> float:
        return 3.0


def _check_share(density: float | None) -> None:
    if density is not None and check_positive("density", density) > 1.0:
        raise ValueError(f"density is a share of the entries, at most 1; got {density!r}.")


@dataclass(frozen=True)
class VerySparse(_Thinned):
    """Independent entries of which few are not zero (Li, Hastie & Church 2006).

    Parameters
    ----------
    density : float or None, default=None
        Share of the entries that are not zero, above 0 and at most 1; None is 1 / sqrt(n_features). The fewer, the
        faster, and the worse for rows of few large entries. A third is `Achlioptas`, and 1 has signs alone.

    Examples
    --------
    >>> from bochner.draws.keys import Key
    >>> from bochner.sketches import VerySparse
    >>> S = VerySparse(density=0.1).sample(1000, 50, Key(0)).to_dense()
    >>> round(float((S != 0).mean()), 2)
    0.1
    """

    density: float | None = None

    def __post_init__(self) -> None:
        _check_share(self.density)

    def rarity(self, n_features: int) -> float:
        return float(np.sqrt(n_features)) if self.density is None else 1.0 / self.density


@dataclass(frozen=True)
class _Transformed(SketchLaw):
    """Random coordinates, without repetition, of an orthogonal transform of data with random signs.

    More components than the transform has coordinates take further independent transforms.
    """

    extends: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = False

    def _draw(self, width: int, n_components: int, key: Key) -> tuple[Array, Array, Array]:
        blocks = -(-n_components // width)
        signs = key.child("signs").signs((blocks, width))
        picks = [key.child("picks").child(block).generator().permutation(width) for block in range(blocks)]
        lengths = np.full(n_components, n_components**-0.5)
        return signs, np.concatenate(picks)[:n_components].astype(np.int32), lengths


@dataclass(frozen=True)
class SRHT(_Transformed):
    """Subsampled randomised Hadamard transform, zero-padded to a power of two (Sarlós 2006)."""

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        return SubsampledHadamard(n_features, *self._draw(next_power_of_two(n_features), n_components, key))


@dataclass(frozen=True)
class SRTT(_Transformed):
    """Subsampled randomised cosine transform: no padding."""

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        return SubsampledCosine(n_features, *self._draw(n_features, n_components, key))

    def moment(self, rank: int, n_features: int) -> float:
        # the squares of √d · a row of the transform are 1 on average and their products at most 3/2
        return 1.5 * (rank**2 + 2 * rank) - rank


@dataclass(frozen=True)
class FJLT(SketchLaw):
    """Fast Johnson-Lindenstrauss transform P H D: few signs P behind a randomised Hadamard transform.

    H D spreads every row over all coordinates, zero-padded to p = 2^q, so that few non-zeros of P suffice: the second
    moment is that of dense signs to within (rank + 2) / (density · p). Ailon & Chazelle (2009) have normal entries in
    P; signs (Matoušek 2008) have a third of their fourth moment. Unlike those of `SRHT`, the components are
    independent given D, and there may be more of them than coordinates.

    Parameters
    ----------
    density : float or None, default=None
        Share of the entries of P that are not zero, above 0 and at most 1; None is min(1, (ln p)² / p), which is
        (ln p)² additions for a component.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RandomProjection
    >>> X = np.eye(2, 1000)
    >>> Z = RandomProjection(500, law="fjlt", random_state=0).fit_transform(X)
    >>> round(float(np.sum((Z[0] - Z[1]) ** 2)), 1)  # a squared distance of 2
    2.1
    """

    density: float | None = None
    extends: ClassVar[bool] = True
    accepts_sparse: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check_share(self.density)

    def _density(self, p: int) -> float:
        return min(1.0, float(np.log(max(p, 3))) ** 2 / p) if self.density is None else self.density

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        p = next_power_of_two(n_features)
        signs = key.child("flips").signs((1, p))
        spread = SubsampledHadamard(n_features, signs, np.arange(p, dtype=np.int32), np.full(p, p**-0.5))
        return Chained(VerySparse(self._density(p)).sample(p, n_components, key), spread)

    def moment(self, rank: int, n_features: int) -> float:
        # r² + r + (1/density - 3) Σ ‖v_j‖⁴ over the rows of V = HDQ, and E Σ ‖v_j‖⁴ ≤ (r² + 2r) / p
        p = next_power_of_two(n_features)
        return rank**2 + rank + max(0.0, 1.0 / self._density(p) - 3.0) * (rank**2 + 2 * rank) / p


@dataclass(frozen=True)
class SparseSign(SketchLaw):
    """A few ±1/sqrt(n_nonzeros) at distinct rows of every column: the default.

    Does not extend: the rows of a column are drawn without repetition among n_components. More features with the
    same number of components do extend the draw.

    Parameters
    ----------
    n_nonzeros : int
        Non-zeros in a column; all entries when there are fewer components.
    """

    n_nonzeros: int = 8
    extends: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_count("n_nonzeros", self.n_nonzeros)

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        zeta = min(self.n_nonzeros, n_components)
        u = key.child("rows").generator().random((n_features, zeta))
        rows = np.empty((n_features, zeta), np.int32)
        for i, top in enumerate(range(n_components - zeta, n_components)):
            # Floyd's sampling without repetition: any of 0 … top, or top itself where that one is taken
            rows[:, i] = u[:, i] * (top + 1)
            taken = (rows[:, :i] == rows[:, i, None]).any(axis=1)
            rows[taken, i] = top
        signs = key.child("signs").signs((n_features, zeta))
        indptr = np.arange(n_features + 1, dtype=np.int64) * zeta
        lengths = np.full(n_components, zeta**-0.5)
        return SparseRows(indptr.astype(np.int32), rows.ravel(), signs.ravel(), lengths)


@dataclass(frozen=True)
class CountSketch(SketchLaw):
    """One ±1 in each column (Charikar, Chen & Farach-Colton 2002; Clarkson & Woodruff 2013). Does not extend."""

    extends: ClassVar[bool] = False

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        return SparseSign(1).sample(n_features, n_components, key)


@dataclass(frozen=True, eq=False)
class RowSampling(SketchLaw):
    """Coordinates picked with given probabilities, with repetition, and divided by sqrt(n_components · probability).

    Parameters
    ----------
    probabilities : array of shape (n_features,)
        Non-negative with sum 1. E[SᵀS] is the identity on the coordinates whose probability is positive.
    """

    probabilities: Array = field(repr=False)
    extends: ClassVar[bool] = True

    def __post_init__(self) -> None:
        p = np.asarray(self.probabilities)
        if p.ndim != 1 or not np.all(p >= 0) or not np.isclose(p.sum(), 1.0):
            raise ValueError("probabilities must be a vector of non-negative numbers with sum 1.")

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        p = np.asarray(self.probabilities, np.float64)
        if len(p) != n_features:
            raise ValueError(f"there are {len(p)} probabilities for {n_features} rows to sample from.")
        steps = np.cumsum(p)
        u = key.child("rows").generator().random(n_components) * steps[-1]
        picks = np.searchsorted(steps, u, side="right")
        picks = np.minimum(picks, np.flatnonzero(p)[-1])
        return PickedRows(n_features, picks, 1.0 / np.sqrt(n_components * (p[picks] / steps[-1])))

    def moment(self, rank: int, n_features: int) -> float:
        # Σ (leverage of i)² / p_i - rank ≤ rank / min p_i - rank, over the coordinates that can be picked
        p = np.asarray(self.probabilities)
        return rank / float(p[p > 0].min()) - rank


@dataclass(frozen=True)
class UniformRows(SketchLaw):
    """Coordinates picked with equal probabilities, with repetition."""

    extends: ClassVar[bool] = True

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        return RowSampling(np.full(n_features, 1.0 / n_features)).sample(n_features, n_components, key)

    def moment(self, rank: int, n_features: int) -> float:
        return float(rank * n_features - rank)


class _DataRows(SketchLaw):
    """Coordinates picked with probabilities that depend on the data: `resolve` first."""

    extends: ClassVar[bool] = True

    def sample(self, n_features: int, n_components: int, key: Key) -> LinearMap:
        raise ValueError(
            f"{self!r} takes its probabilities from the data: use law.resolve(A, key), or RowSampling(probabilities)."
        )

    def moment(self, rank: int, n_features: int) -> float:
        raise ValueError(f"{self!r} takes its probabilities from the data: use law.resolve(A, key).")


@dataclass(frozen=True)
class NormRows(_DataRows):
    """Rows picked in proportion to their squared norms (Drineas, Kannan & Mahoney 2006)."""

    def resolve(self, A: ArrayLike, key: Key) -> SketchLaw:
        return RowSampling(norm_probabilities(A))


@dataclass(frozen=True)
class LeverageRows(_DataRows):
    """Rows picked in proportion to their leverage scores.

    Parameters
    ----------
    n_components : int or None
        Rows of the sketch that the scores are computed from; None computes them exactly.
    """

    n_components: int | None = None

    def resolve(self, A: ArrayLike, key: Key) -> SketchLaw:
        return RowSampling(leverage_probabilities(A, key.child("leverage"), n_components=self.n_components))


SKETCH_LAWS: dict[str, SketchLaw] = {
    "gaussian": Gaussian(),
    "rademacher": Rademacher(),
    "achlioptas": Achlioptas(),
    "very_sparse": VerySparse(),
    "srht": SRHT(),
    "fjlt": FJLT(),
    "srtt": SRTT(),
    "sparse_sign": SparseSign(),
    "count_sketch": CountSketch(),
    "uniform": UniformRows(),
    "norm": NormRows(),
    "leverage": LeverageRows(),
}


def as_sketch_law(law: str | SketchLaw) -> SketchLaw:
    """Return the scheme of a name, or the scheme itself.

    Examples
    --------
    >>> from bochner.sketches import as_sketch_law
    >>> as_sketch_law("count_sketch")
    CountSketch()
    """
    if isinstance(law, SketchLaw):
        return law
    if isinstance(law, str) and law in SKETCH_LAWS:
        return SKETCH_LAWS[law]
    raise ValueError(f"law must be a SketchLaw or one of {sorted(SKETCH_LAWS)}; got {law!r}.")


def norm_probabilities(A: ArrayLike) -> Array:
    """Return the squared norms of the rows of A, divided by their sum; equal ones if A is zero.

    Examples
    --------
    >>> from bochner.sketches import norm_probabilities
    >>> norm_probabilities([[3.0, 0.0], [0.0, 1.0]])
    array([0.9, 0.1])
    """
    A = _of_size_one(A)
    if is_sparse(A):
        squares = np.asarray(A.multiply(A).sum(axis=1)).ravel()
    else:
        squares = np.einsum("ij,ij->i", A, A, dtype=np.float64)
    return _normalised(squares)


def _of_size_one(A: ArrayLike) -> Array:
    """Divide A by a power of two if squares of its entries would overflow or vanish; sparse A becomes float64."""
    matrix: Array = A.astype(np.float64) if is_sparse(A) else np.asarray(A)
    largest = float(abs(matrix).max()) if matrix.size else 0.0
    return matrix if largest == 0.0 or 1e-100 < largest < 1e100 else matrix / power_of_two(largest)


def leverage_probabilities(A: ArrayLike, key: Key | None = None, *, n_components: int | None = None) -> Array:
    """Return the leverage scores of the rows of A, divided by their sum; equal ones if A is zero.

    The leverage of a row is its squared norm in an orthonormal basis of the columns of A.

    Parameters
    ----------
    A : array or sparse matrix of shape (n, d), n >= d
    key : Key or None
        Needed for the sketched scores only.
    n_components : int or None
        None, or at least n: exact scores, O(n d²). Otherwise the basis comes from a sparse-sign sketch of
        n_components rows (4 d is a good number), in O(nnz + n_components d²).

    Examples
    --------
    >>> from bochner.sketches import leverage_probabilities
    >>> leverage_probabilities([[2.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    array([0.5 , 0.25, 0.25])
    """
    sparse = is_sparse(A)
    A = _of_size_one(A if sparse else np.asarray(A, np.float64))
    if n_components is not None and n_components < A.shape[0]:
        if key is None:
            raise ValueError("sketched leverage scores are random: pass a key.")
        SA = SparseSign().sample(A.shape[0], n_components, key) @ A
        _, values, Vt = scipy.linalg.svd(np.asarray(SA, np.float64), full_matrices=False)
    elif is_sparse(A):
        squares, V = scipy.linalg.eigh((A.T @ A).toarray().astype(np.float64))
        values, Vt = np.sqrt(np.maximum(squares[::-1], 0.0)), V[:, ::-1].T
    else:
        U, values, _ = scipy.linalg.svd(A, full_matrices=False)
        return _normalised(np.einsum("ij,ij->i", U[:, _kept(values, A.shape)], U[:, _kept(values, A.shape)]))
    kept = _kept(values, A.shape, squared=sparse)
    whitening = Vt[kept].T / values[kept]
    return norm_probabilities(A @ whitening)


def _kept(values: Array, shape: tuple[int, int], squared: bool = False) -> Array:
    """Return a mask of the singular values above rounding."""
    eps = np.finfo(np.float64).eps * max(shape)
    kept: Array = values > (np.sqrt(eps) if squared else eps) * max(values.max(initial=0.0), np.finfo(np.float64).tiny)
    return kept


def _normalised(weights: Array) -> Array:
    total = weights.sum()
    return weights / total if total > 0 else np.full(len(weights), 1.0 / len(weights))


def _thin(n: int, probability: float, key: Key) -> Array:
    """Draw places among 0 … n-1, in order, each taken independently with the given probability."""
    if probability >= 1.0:
        return np.arange(n)
    generator, last, size, chunks = key.generator(), -1, 256, []
    while last < n:  # chunk sizes do not depend on n, so that a longer draw extends a shorter one
        chunks.append(last + np.cumsum(generator.geometric(probability, size)))
        last, size = int(chunks[-1][-1]), 2 * size
    places = np.concatenate(chunks)
    return places[: np.searchsorted(places, n)]
