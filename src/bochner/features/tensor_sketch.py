"""Sketches of polynomial kernels (gamma x·y + c)^p: products of p linear sketches approximate the p-fold tensor of x.

The offset is one further coordinate sqrt(c / gamma). Along one unit vector u the kernel is expanded exactly: with
a = u·x and x̃ = x - a u,

    (x·y)^p = Σ_k binomial(p, k) (a a')^(p-k) (x̃·ỹ)^k,

and only the powers of x̃·ỹ are sketched, each with a share of the components. For data whose mean is not zero (counts,
images, an offset) most of the kernel lies along u, and so does most of the variance of a sketch of all coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import comb

import numpy as np
import scipy.fft
import scipy.sparse

from bochner.backends import Array, Rows, backend_of, is_host
from bochner.backends.memory import empty_columns
from bochner.draws.keys import Key
from bochner.draws.linear_maps import LinearMap, Signs
from bochner.draws.structured import PickedRows, SubsampledHadamard
from bochner.features.maps import FeatureMap, check_overflow, row_blocks
from bochner.kernels.algebra import squared_norms
from bochner.sketches import SRHT, CountSketch, Rademacher, SketchLaw, SparseSign

#: how the components of a tensor product are drawn
FACTORS = ("count_sketch", "rademacher", "srht", "complex_rademacher", "complex_srht")


def convolve(parts: list[Array]) -> Array:
    """Convolve arrays of one shape cyclically, row by row: count sketches become the count sketch of the tensor."""
    if len(parts) == 1:
        return parts[0]
    # SciPy's transforms keep float32, NumPy's do not; torch's are called alike
    fft = scipy.fft if is_host(parts[0]) else backend_of(parts[0]).xp.fft
    spectrum = fft.rfft(parts[0])
    for part in parts[1:]:
        spectrum *= fft.rfft(part)
    return fft.irfft(spectrum, n=parts[0].shape[1])


@dataclass(frozen=True)
class Arm:
    """One factor of a tensor product: a sketch of x̃ = x - a u, or of another tensor product.

    `image` is S u. `turned` is the imaginary part of a complex sketch (and `turned_image` that of S u).
    """

    sketch: LinearMap
    inner: TensorProduct | None = None
    image: Array | None = None
    turned: LinearMap | None = None
    turned_image: Array | None = None

    def __call__(self, X: Array, along: Array | None) -> Array:
        if self.inner is not None:
            return self.sketch(self.inner(X, along))
        V = _deflated(self.sketch, self.image, X, along)
        if self.turned is None:
            return V
        return V + 1j * _deflated(self.turned, self.turned_image, X, along)


def _deflated(sketch: LinearMap, image: Array | None, X: Array, along: Array | None) -> Array:
    V = sketch(X)
    if along is not None and image is not None:
        V -= along[:, None] * image.astype(V.dtype)
    return V


@dataclass(frozen=True)
class TensorProduct:
    """n_components features Z with E[ZZᵀ] = Π of the kernels of the arms.

    Count sketches are convolved (Pham & Pagh 2013); other sketches are multiplied component by component; complex ones
    give real and imaginary parts side by side (Wacker, Ohana & Filippone 2022), and one of the two where the number of
    components is odd, which is unbiased too because the square of a complex sketch has mean zero.
    """

    arms: tuple[Arm, ...]
    n_components: int
    convolved: bool

    def __call__(self, X: Array, along: Array | None) -> Array:
        parts = [arm(X, along) for arm in self.arms]
        if self.convolved:
            return convolve(parts)
        Z = parts[0]
        m = Z.shape[1]  # components have the size m^-½, which a product needs once, not once for each factor
        for part in parts[1:]:
            Z = Z * (part * part.real.dtype.type(np.sqrt(m)))
        if np.iscomplexobj(Z):
            Z = (Z * Z.real.dtype.type(np.sqrt(2.0 * m / self.n_components))).view(Z.real.dtype)
        return Z[:, : self.n_components]


@dataclass(frozen=True)
class Term:
    """Components weight · a^(p - degree) · (features of (x̃·ỹ)^degree)."""

    degree: int
    weight: float
    features: TensorProduct | Arm | None  # None for degree 0
    n_components: int


@dataclass(frozen=True)
class TensorSketch(FeatureMap):
    """Features of gamma^p (x·y + offset²)^p, a sum of terms of degrees 0 … p in x̃.

    Attributes
    ----------
    degree : int
        p.
    scale : float
        gamma^(p/2).
    offset : float
        The coordinate appended to every row; 0 appends none.
    direction : ndarray or None
        u; None has one term, of degree p.
    terms : tuple of Term
    n_components : int
        Components beyond those of the terms are zero, which happens only when every term is exact.
    """

    degree: int
    scale: float
    offset: float
    direction: Array | None
    terms: tuple[Term, ...]
    n_components: int

    def __call__(self, X: Array) -> Array:
        out = empty_columns(X.shape[0], self.n_components, X.dtype)
        width = self.n_components if scipy.sparse.issparse(X) else max(self.n_components, X.shape[1])
        for rows in row_blocks(X, width):
            B = append_offset(X[rows], self.offset)
            along = None if self.direction is None else np.asarray(B @ self.direction.astype(X.dtype))
            with np.errstate(over="ignore", invalid="ignore"):
                self._write(B, along, out[rows])
            check_overflow(out[rows])
        return out

    def _write(self, B: Array, along: Array | None, out: Array) -> None:
        """Write the terms of one block side by side."""
        start = 0
        for term in self.terms:
            Z = out[:, start : start + term.n_components]
            start += term.n_components
            weight = out.dtype.type(term.weight * self.scale)
            if along is not None and term.degree < self.degree:
                weight = (weight * along ** (self.degree - term.degree))[:, None]
            if term.features is None:
                Z[...] = weight
            else:
                np.multiply(term.features(B, along), weight, out=Z)
        out[:, start:] = 0.0


def append_offset(X: Rows, offset: float) -> Array:
    """Append a constant column to X; return X itself if the constant is zero."""
    if offset == 0.0:
        return X
    n, d = X.shape
    if isinstance(X, np.ndarray):
        B = np.empty((n, d + 1), X.dtype)
        B[:, :d] = X
        B[:, d] = offset
        return B
    # the constant goes in front of every row's entries, as columns need not be sorted
    where = X.indptr[:-1]
    data = np.insert(X.data, where, X.dtype.type(offset))
    indices = np.insert(X.indices, where, d)
    return scipy.sparse.csr_array((data, indices, X.indptr + np.arange(n + 1, dtype=X.indptr.dtype)), shape=(n, d + 1))


def tensor_sketch(
    degree: int,
    gamma: float,
    coef0: float,
    n_features: int,
    n_components: int,
    key: Key,
    *,
    factors: str = "count_sketch",
    tree: bool = False,
    direction: Array | None = None,
    shares: Array | None = None,
) -> TensorSketch:
    """Draw a sketch of (gamma x·y + coef0)^degree.

    Parameters
    ----------
    factors : str
        One of `FACTORS`.
    tree : bool
        Multiply two by two, sketching after each product (Ahle et al. 2020), instead of all at once.
    direction : ndarray or None
        The vector along which the kernel is exact, with n_features entries, or one more where coef0 > 0. It is not used
        when there are fewer components than terms.
    shares : ndarray of shape (degree + 1,) or None
        Components are divided in proportion to these: the trace of every term, see `trace_shares`. None takes a third
        of every row's squared norm to lie along the direction.
    """
    offset = float(np.sqrt(coef0 / gamma))
    width = n_features + (coef0 > 0)
    scale = float(gamma) ** (degree / 2.0)

    def product(k: int, m: int, address: Key, u: Array | None) -> TensorProduct | Arm:
        if k == 1:
            if m == width:  # room for every coordinate: exact
                return _arm(PickedRows(width, np.arange(width), np.ones(width)), u)
            return _arm(SparseSign().sample(width, m, address), u)
        return _product(k, m, width, address, factors, tree, u)

    if direction is None or n_components < degree + 1:
        m = min(n_components, width) if degree == 1 else n_components
        term = Term(degree, 1.0, product(degree, m, key.child(degree), None), m)
        return TensorSketch(degree, scale, offset, None, (term,), n_components)
    u = np.asarray(direction, np.float64) / np.linalg.norm(direction)
    if shares is None:
        shares = np.array([comb(degree, k) * 2.0**k for k in range(degree + 1)])
    columns = allocate_columns(shares[1:], n_components - 1, width, fast=factors == "count_sketch")
    terms = [Term(0, 1.0, None, 1)]
    for k, m in enumerate(columns, start=1):
        terms.append(Term(k, float(np.sqrt(comb(degree, k))), product(k, m, key.child(k), u), m))
    return TensorSketch(degree, scale, offset, u, tuple(terms), n_components)


def trace_shares(degree: int, X: Array, direction: Array, offset: float) -> Array:
    """Return the row means of binomial(p, k) a^(2(p-k)) ‖x̃‖^(2k), up to one common factor, (degree + 1,)."""
    u = np.asarray(direction, np.float64) / np.linalg.norm(direction)
    squares, along = np.empty(X.shape[0]), np.empty(X.shape[0])
    size = max(float(abs(X).max()), offset) or 1.0  # squares of very large or small numbers would overflow or vanish
    for rows in row_blocks(X, 64 if scipy.sparse.issparse(X) else None):
        B = append_offset(X[rows], offset).astype(np.float64) / size
        along[rows], squares[rows] = B @ u, squared_norms(B)
    exact = along**2
    rest = np.maximum(squares - exact, 0.0)
    top = max(squares.max(initial=0.0), np.finfo(np.float64).tiny)
    return np.array(
        [comb(degree, k) * np.mean((exact / top) ** (degree - k) * (rest / top) ** k) for k in range(degree + 1)]
    )


def allocate_columns(shares: Array, n_components: int, width: int, fast: bool = False) -> list[int]:
    """Divide the components between the terms of degrees 1, 2, … in proportion to their shares, at least one each.

    This minimises the variance Σ share² / number. The term of degree 1 needs no more than `width` components, with
    which it is exact. `fast` rounds the others down to lengths with small prime factors, for the Fourier transforms.
    """
    n_terms = len(shares)
    weights = np.maximum(np.asarray(shares, np.float64), 1e-300)
    spare = n_components - n_terms
    columns = 1 + np.floor(spare * weights / weights.sum()).astype(int)
    if n_terms == 1:
        return [min(n_components, width)]
    if fast:
        columns[1:] = [scipy.fft.prev_fast_len(int(m), real=True) for m in columns[1:]]
    columns[0] = min(columns[0] + n_components - columns.sum(), width)
    columns[1:][np.argmax(weights[1:])] += n_components - columns.sum()
    return [int(m) for m in columns]


def _arm(sketch: LinearMap, u: Array | None, turned: LinearMap | None = None) -> Arm:
    images = [None if u is None or S is None else S(u[None, :])[0] for S in (sketch, turned)]
    return Arm(sketch, None, images[0], turned, images[1])


_LAWS: dict[str, SketchLaw] = {"count_sketch": CountSketch(), "rademacher": Rademacher(), "srht": SRHT()}


def _product(k: int, m: int, width: int, key: Key, factors: str, tree: bool, u: Array | None) -> TensorProduct:
    law = _LAWS[factors.removeprefix("complex_")]
    convolved = factors == "count_sketch"
    if tree and k > 2:
        halves = (k // 2, k - k // 2)
        arms = tuple(_branch(half, m, width, key.child(i), factors, law, u) for i, half in enumerate(halves))
        return TensorProduct(arms, m, convolved)
    if not factors.startswith("complex_"):
        arms = tuple(_arm(law.sample(width, m, key.child(i)), u) for i in range(k))
        return TensorProduct(arms, m, convolved)
    arms = tuple(
        _complex_arm(law.sample(width, -(-m // 2), key.child(i)), key.child(i).child("turns"), u) for i in range(k)
    )
    return TensorProduct(arms, m, convolved)


def _branch(k: int, m: int, width: int, key: Key, factors: str, law: SketchLaw, u: Array | None) -> Arm:
    if k == 1:
        return _arm(law.sample(width, m, key), u)
    inner = _product(k, m, width, key.child("inner"), factors, True, u)
    return Arm(law.sample(m, m, key), inner)


def _complex_arm(S: LinearMap, key: Key, u: Array | None) -> Arm:
    """Turn the signs of S into entries 1, -1, i, -i by moving half of them to the imaginary part."""
    assert isinstance(S, (Signs, SubsampledHadamard))
    turns = key.child("turns").generator().integers(0, 2, S.signs.shape, dtype=np.int8)
    return _arm(replace(S, signs=S.signs * (1 - turns)), u, replace(S, signs=S.signs * turns))
