"""Features of kernels f(x·y) = Σ a_n (x·y)ⁿ: products of random signs, a degree a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import Array
from bochner.features.maps import FeatureMap, row_blocks
from bochner.kernels import DotProductKernel, Kernel, Multiple, Power, Product, Sum
from bochner.keys import Key
from bochner.operators import Dense
from bochner.rows import stratified
from bochner.sketches import SRHT

_SAMPLE = 256  # rows from which the variance of each degree is estimated


@dataclass(frozen=True)
class Maclaurin(FeatureMap):
    """Columns Π_j (w_j·x), as many factors as the column has degrees.

    E[w_j w_jᵀ] is a multiple of I, so a column of degree n gives a multiple of (x·y)ⁿ. The multiple is spread over
    the factors: a product of a hundred of them neither over- nor underflows.

    Attributes
    ----------
    degrees : ndarray of shape (n_components,)
    constants : ndarray of shape (n_components,)
        What the product is multiplied by: one unless the degree is 0.
    factors : tuple of Dense
        Level j holds one row for each column of degree greater than j, in the order of the columns.
    """

    degrees: Array
    constants: Array
    factors: tuple[Dense, ...]

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return len(self.degrees)

    def __call__(self, X: Array) -> Array:
        out = np.empty((X.shape[0], self.n_components), X.dtype)
        out[:] = self.constants.astype(X.dtype)
        columns = [_as_slice(np.flatnonzero(self.degrees > level)) for level in range(len(self.factors))]
        for rows in row_blocks(X):
            for index, factor in zip(columns, self.factors, strict=True):
                out[rows, index] *= factor(X[rows])
        return out


def _as_slice(index: Array) -> Any:
    """An index array, or the slice it is."""
    if len(index) and index[-1] - index[0] + 1 == len(index):
        return slice(index[0], index[-1] + 1)
    return index


def is_series(kernel: Kernel) -> bool:
    """Whether a kernel is a power series in x·y: sums, products, multiples and powers of such are."""
    match kernel:
        case Sum() | Product():
            return is_series(kernel.left) and is_series(kernel.right)
        case Multiple() | Power():
            return is_series(kernel.kernel)
    return isinstance(kernel, DotProductKernel)


def series_of(kernel: Kernel, n_features: int, radius: float) -> Array:
    """Coefficients a_0, a_1, … of a power series in x·y, as many as matter up to x·y = radius."""
    match kernel:
        case Multiple():
            return kernel._factor() * series_of(kernel.kernel, n_features, radius)
        case Power():
            return _power(series_of(kernel.kernel, n_features, radius), kernel._exponent())
        case Sum() | Product():
            left, right = (series_of(k, n_features, radius) for k in (kernel.left, kernel.right))
            if isinstance(kernel, Product):
                return np.convolve(left, right)
            return np.polynomial.polynomial.polyadd(left, right)
        case DotProductKernel():
            return kernel.power_series(n_features, radius)
    raise TypeError(f"{kernel!r} is no power series in x·y.")


def _power(a: Array, exponent: int) -> Array:
    product = np.ones(1)
    for _ in range(exponent):
        product = np.convolve(product, a)
    return product


def squared_radius(X: Any) -> float:
    """The largest squared norm of the rows, one if all are zero."""
    squares = X.multiply(X).sum(axis=1) if scipy.sparse.issparse(X) else np.einsum("ij,ij->i", X, X, dtype=float)
    largest = float(np.max(squares))
    return largest if largest > 0 else 1.0


def geometric_map(
    a: Array, n_features: int, n_components: int, key: Key, dtype: Any, *, base: float = 2.0
) -> Maclaurin:
    """Random Maclaurin features (Kar & Karnick 2012): each column draws its degree, P[N = n] = (p - 1) / p^(n+1).

    The factor p - 1 makes it a law for every p > 1, and a column is divided by √n_components.
    """
    u = key.child("degrees").generator().random(n_components)
    degrees = np.floor(-np.log1p(-u) / np.log(base)).astype(np.int64)
    known = degrees < len(a)
    weights = np.where(known, np.append(a, 0.0)[np.minimum(degrees, len(a))], 0.0)
    weights = weights * base ** (degrees + 1.0) / ((base - 1.0) * n_components)
    degrees = np.where(weights > 0, degrees, 0)  # a column of weight zero needs no factors

    def signs(level: int) -> Array:
        rows = int(np.count_nonzero(degrees > level))
        return 2.0 * key.child("factors").child(level).generator().integers(0, 2, (rows, n_features)) - 1.0

    return _assemble(degrees, weights, [signs(level) for level in range(int(degrees.max()))], dtype)


def optimal_map(a: Array, sample: Any, n_components: int, key: Key, dtype: Any) -> Maclaurin:
    """Maclaurin features whose columns are spent where the variance is, as estimated on a sample of rows.

    The low degrees have columns of their own: degree 0 is exact, degree 1 exact in n_features columns where that
    pays, every other degree has orthogonal sign rows. The high degrees, too small for columns of their own, share
    the rest: each column there draws its degree, so that nothing is left out and the mean is exact.
    """
    n_features = sample.shape[1]
    plan = _allocate(a, sample, n_components)
    groups: list[tuple[Array, Array, list[Array]]] = []
    for degree, count in plan.own:
        if degree == 1 and plan.exact_linear:
            coordinate = np.arange(count) % n_features  # with more columns than features, coordinates repeat
            copies = np.bincount(coordinate, minlength=n_features)[coordinate]
            groups.append((np.full(count, 1), a[1] / copies, [np.eye(n_features)[coordinate]]))
        else:
            child = key.child("degree").child(degree)
            factors = [_sign_rows(n_features, count, child.child(level)) for level in range(degree)]
            groups.append((np.full(count, degree), np.full(count, a[degree] / count), factors))
    if plan.n_tail:
        u = stratified(plan.n_tail, (np.sqrt(5.0) - 1.0) / 2.0, key.child("tail"))
        drawn = np.sort(np.searchsorted(np.cumsum(plan.tail), u * plan.tail.sum(), side="right"))
        drawn = np.minimum(drawn, len(a) - 1)
        child = key.child("tail")
        factors = [
            _sign_rows(n_features, int(np.count_nonzero(drawn > level)), child.child(level))
            for level in range(int(drawn.max()))
        ]
        groups.append((drawn, a[drawn] * plan.tail.sum() / (plan.tail[drawn] * plan.n_tail), factors))
    depth = max(len(factors) for _, _, factors in groups)
    levels = [np.vstack([factors[j] for _, _, factors in groups if j < len(factors)]) for j in range(depth)]
    degrees, weights = (np.concatenate([group[i] for group in groups]) for i in (0, 1))
    return _assemble(degrees, weights, levels, dtype)


def _sign_rows(n_features: int, n_rows: int, key: Key) -> Array:
    """Rows of ±1, each one uniform, orthogonal in blocks: rows of a Hadamard matrix with random signs."""
    return SRHT().sample(n_features, n_rows, key).to_dense() * np.sqrt(n_rows)


def _assemble(degrees: Array, weights: Array, levels: list[Array], dtype: Any) -> Maclaurin:
    """A map from degrees, weights of the products z zᵀ and unscaled factors."""
    # a column of degree n is √weight · Π factors: each factor takes its n-th root
    roots = np.sqrt(weights) ** (1.0 / np.maximum(degrees, 1))
    factors = tuple(Dense((rows * roots[degrees > j, None]).astype(dtype)) for j, rows in enumerate(levels))
    return Maclaurin(degrees, np.where(degrees == 0, roots, 1.0), factors)


@dataclass(frozen=True)
class _Plan:
    own: tuple[tuple[int, int], ...]  # (degree, columns)
    exact_linear: bool
    tail: Array  # law of the degrees that share columns, not normalised, (n_degrees,)
    n_tail: int
    variance: float


def _allocate(a: Array, sample: Any, n_components: int) -> _Plan:
    """The plan of least estimated variance: degrees below a cut have their own columns, the others share."""
    moments = _Moments.of(a, sample)
    present = np.flatnonzero(a > 0)
    plans = [
        plan
        for cut in range(min(len(present), n_components) + 1)
        for exact in (False, True)
        if (plan := _plan(moments, present[:cut], present[cut:], exact, n_components))
    ]
    best = min(plan.variance for plan in plans)
    # of equals the last, with most columns of a degree's own: rounding must not decide
    return [plan for plan in plans if plan.variance <= best * (1.0 + 1e-9)][-1]


def _plan(moments: _Moments, own: Array, shared: Array, exact: bool, n_components: int) -> _Plan | None:
    if exact and 1 not in own:
        return None
    variances = [moments.variance(n) for n in own]
    least = [1] * len(own)
    if exact:
        place = int(np.flatnonzero(own == 1)[0])
        variances[place], least[place] = 0.0, moments.n_features
    tail = np.zeros(len(moments.sizes))
    if len(shared):
        tail[shared] = np.maximum(moments.sizes[shared], 1e-300)
        variances.append(moments.tail_variance(shared))
        least.append(1)
    if sum(least) > n_components:
        return None
    V = np.maximum(variances, 0.0)
    counts = divide(n_components, np.sqrt(V), np.array(least))
    n_tail = int(counts[-1]) if len(shared) else 0
    columns = tuple((int(n), int(count)) for n, count in zip(own, counts[: len(own)], strict=True))
    return _Plan(columns, exact, tail, n_tail, float((V / counts).sum()))


@dataclass(frozen=True)
class _Moments:
    """What each degree contributes over pairs of sample rows.

    `second` is a_n² E[(Π w·x w·y)²] and `products` a_n (x·y)ⁿ, both (n_degrees, pairs); `sizes` the root mean square
    of one column's product, (n_degrees,).
    """

    n_features: int
    second: Array
    products: Array
    sizes: Array

    @classmethod
    def of(cls, a: Array, sample: Any) -> _Moments:
        rows = np.linspace(0, sample.shape[0] - 1, min(_SAMPLE, sample.shape[0])).astype(int)
        X = sample[rows].astype(float)
        radius = squared_radius(X)
        X = X / np.sqrt(radius)
        Q = X.multiply(X).tocsr() if scipy.sparse.issparse(X) else X * X
        t, s = ((A @ A.T).toarray() if scipy.sparse.issparse(A) else A @ A.T for A in (X, Q))
        norms = np.diagonal(t)
        # one factor: ‖x‖²‖y‖² + 2(x·y)² - 2 Σ x_i² y_i² (Kar & Karnick 2012)
        one = np.maximum(np.outer(norms, norms) + 2.0 * t**2 - 2.0 * s, 0.0).ravel()
        n = np.arange(len(a))
        with np.errstate(divide="ignore"):
            scaled = np.exp(np.log(a) + n * np.log(radius))  # of rows of norm at most one
        second = scaled[:, None] ** 2 * one ** n[:, None]
        return cls(X.shape[1], second, scaled[:, None] * t.ravel() ** n[:, None], np.sqrt(second.mean(axis=1)))

    def variance(self, degree: int) -> float:
        """Of one column of that degree."""
        return float((self.second[degree] - self.products[degree] ** 2).mean())

    def tail_variance(self, degrees: Array) -> float:
        """Of one column that draws its degree in proportion to its size."""
        return float(self.sizes[degrees].sum() ** 2 - (self.products[degrees].sum(axis=0) ** 2).mean())


def divide(total: int, shares: Array, least: Array) -> Array:
    """Integers that sum to `total`, at least `least`, the rest in proportion to `shares` (or equally)."""
    counts, spare = least.astype(np.int64), total - int(least.sum())
    shares = np.asarray(shares, dtype=float)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    # what a share is owed beyond its minimum, so that large shares are not short by it
    wanted = np.maximum(shares * total - counts, 0.0)
    wanted = wanted * spare / wanted.sum() if wanted.sum() > 0 else shares * spare
    more = np.floor(wanted).astype(np.int64)
    order = np.argsort(more - wanted, kind="stable")
    more[order[: spare - int(more.sum())]] += 1
    return counts + more
