"""Features of kernels f(x·y) = Σ a_n (x·y)ⁿ: products of random signs, one degree for each component."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike
from scipy.special import gammaln

from bochner.backends import Array, backend_of, densified
from bochner.draws.keys import Key
from bochner.draws.linear_maps import Dense, LinearMap, next_power_of_two
from bochner.draws.structured import PickedRows
from bochner.features.maps import FeatureMap, check_overflow, expect, row_blocks
from bochner.kernels.algebra import Kernel, Multiple, Power, Product, Sum, squared_norms
from bochner.kernels.dot_products import DotProductKernel
from bochner.sampling import stratified

_SAMPLE = 64  # rows from which the variance of each degree is estimated


@dataclass(frozen=True)
class Maclaurin(FeatureMap):
    """Components Π_j (w_j·x), with as many factors as the degree of the component.

    E[w_j w_jᵀ] is a multiple of I, so a component of degree n gives a multiple of (x·y)ⁿ. Each factor takes its n-th
    root, so that a product of a hundred of them neither overflows nor underflows.

    Attributes
    ----------
    degrees : ndarray of shape (n_components,)
    constants : ndarray of shape (n_components,)
        What the product is multiplied by: one unless the degree is 0.
    factors : tuple of LinearMap
        Level j holds one row for each component of degree greater than j, in the order of the components.
    """

    degrees: Array
    constants: Array
    factors: tuple[LinearMap, ...]
    runs_on_device: ClassVar[bool] = True

    @property
    def n_components(self) -> int:  # type: ignore[override]
        return len(self.degrees)

    def validate(self) -> None:
        degrees, shape = self.degrees, self.degrees.shape
        expect(
            len(shape) == 1 and degrees.dtype.kind in "iu" and self.constants.shape == shape, self, "invalid degrees"
        )
        for level, factor in enumerate(self.factors):
            expect(factor.shape[0] == np.count_nonzero(degrees > level), self, "a wrong number of factors")

    def __call__(self, X: Array) -> Array:
        backend = backend_of(X)
        out = backend.empty((X.shape[0], self.n_components), X)
        out[:] = backend.place(self.constants, X)
        columns = [_as_slice(np.flatnonzero(self.degrees > level)) for level in range(len(self.factors))]
        for rows in row_blocks(X):
            with np.errstate(over="ignore", invalid="ignore"):
                for index, factor in zip(columns, self.factors, strict=True):
                    out[rows, index] *= factor(X[rows])
            check_overflow(out[rows])
        return out


def _as_slice(index: Array) -> Array | slice:
    """Turn an index array into a slice if its indices are consecutive."""
    if len(index) and index[-1] - index[0] + 1 == len(index):
        return slice(index[0], index[-1] + 1)
    return index


def is_series(kernel: Kernel) -> bool:
    """Return True if a kernel is a power series in x·y; sums, products, multiples and powers of such series are."""
    match kernel:
        case Sum() | Product():
            return is_series(kernel.left) and is_series(kernel.right)
        case Multiple() | Power():
            return is_series(kernel.kernel)
    return isinstance(kernel, DotProductKernel)


def series_of(kernel: Kernel, n_features: int, radius: float) -> Array:
    """Return the coefficients a_0, a_1, … of a power series in x·y that matter up to x·y = radius."""
    match kernel:
        case Multiple():
            return kernel.factor * series_of(kernel.kernel, n_features, radius)
        case Power():
            return _power(series_of(kernel.kernel, n_features, radius), int(kernel.exponent))
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


def squared_radius(X: Array) -> float:
    """Return the largest squared norm of the rows, or one if all rows are zero."""
    largest = float(np.max(squared_norms(X, np.float64)))
    return largest if largest > 0 else 1.0


MOST_MONOMIALS = 1 << 20


def monomial_map(a: Array, n_features: int) -> Maclaurin:
    """Build all monomials x^α with weights √(a_n n! / Π α_j!), n = Σ α_j: their dot products are f(x·y) itself."""
    degrees = [n for n in range(len(a)) if a[n] > 0]
    counts = [comb(n_features + n - 1, n) for n in degrees]
    if sum(counts) > MOST_MONOMIALS:
        raise ValueError(
            f"{n_features} features have {sum(counts):,} monomials up to degree {degrees[-1]}, more than "
            f"{MOST_MONOMIALS:,}; use TensorSketchFeatures or MaclaurinFeatures, or a kernel of lower degree."
        )
    # places[n]: the columns that are multiplied, in order, (monomials of degree n, n)
    places = {
        n: np.array(list(combinations_with_replacement(range(n_features), n)), np.int64).reshape(count, n)
        for n, count in zip(degrees, counts, strict=True)
    }
    weights = {n: np.exp((0.5 * (np.log(a[n]) + _log_orders(places[n]))) / max(1, n)) for n in degrees}
    factors = [
        PickedRows(
            n_features,
            np.concatenate([places[n][:, level] for n in degrees if n > level]),
            np.concatenate([weights[n] for n in degrees if n > level]),
        )
        for level in range(max(degrees, default=0))
    ]
    constants = np.concatenate([np.ones(0), *(weights[n] if n == 0 else np.ones(len(places[n])) for n in degrees)])
    return Maclaurin(np.repeat(degrees, counts).astype(np.int64), constants, tuple(factors))


def _log_orders(places: Array) -> Array:
    """Return log(n! / Π α_j!), the logarithm of the number of orders of each row of sorted columns (m, n)."""
    m, n = places.shape
    total, run = np.full(m, gammaln(n + 1.0)), np.ones(m)
    for level in range(1, n):
        run = np.where(places[:, level] == places[:, level - 1], run + 1.0, 1.0)
        total -= np.log(run)
    return total


def geometric_map(
    a: Array, n_features: int, n_components: int, key: Key, dtype: DTypeLike, *, base: float = 2.0
) -> Maclaurin:
    """Draw random Maclaurin features (Kar & Karnick 2012), of degree n with probability (p - 1) / p^(n+1).

    The factor p - 1 makes the probabilities sum to one for every p > 1, and a component is divided by √n_components.
    """
    u = key.child("degrees").generator().random(n_components)
    degrees = np.floor(-np.log1p(-u) / np.log(base)).astype(np.int64)
    known = degrees < len(a)
    weights = np.where(known, np.append(a, 0.0)[np.minimum(degrees, len(a))], 0.0)
    weights = weights * base ** (degrees + 1.0) / ((base - 1.0) * n_components)
    degrees = np.where(weights > 0, degrees, 0)  # a component of weight zero needs no factors

    def signs(level: int) -> Array:
        rows = int(np.count_nonzero(degrees > level))
        return 2.0 * key.child("factors").child(level).generator().integers(0, 2, (rows, n_features)) - 1.0

    return _assemble(degrees, weights, [signs(level) for level in range(int(degrees.max()))], dtype)


def optimal_map(a: Array, sample: Array, n_components: int, key: Key, dtype: DTypeLike) -> Maclaurin:
    """Draw Maclaurin features with most components for the terms of largest variance, estimated on a sample of rows.

    Along one unit vector u, the mean of the sample, the kernel is expanded exactly: with α = u·x, x̃ = x - αu, and β, ỹ
    those of y, f(x·y) = Σ b_mk (αβ)^m (x̃·ỹ)^k, and only the powers of x̃·ỹ are random. The terms (m, k) that matter
    have components of their own: exact for k = 0, exact for k = 1 with n_features components where that lowers the
    variance, orthogonal sign rows for the others. The other terms share some components: each of those draws its term,
    so that nothing is left out and the mean is the kernel.
    """
    n_features = sample.shape[1]
    plan = _allocate(a, sample, n_components)
    u = np.zeros(n_features) if plan.direction is None else plan.direction

    def across(rows: Array) -> Array:
        return rows - np.outer(rows @ u, u)  # x̃·w = x·w̃

    groups: list[tuple[Array, Array, list[Array]]] = []
    for (m, k), count, exact in plan.own:
        b = a[m + k] * comb(m + k, k)
        along = [np.tile(u, (count, 1))] * m
        if exact:
            coordinate = np.arange(count) % n_features  # with more components than features, coordinates repeat
            weights = b / np.bincount(coordinate, minlength=n_features)[coordinate]
            groups.append((np.full(count, m + k), weights, [*along, across(np.eye(n_features)[coordinate])]))
        else:
            child = key.child("terms").child(m).child(k)
            rows = across(_sign_rows(n_features, k * count, count, child))
            groups.append((np.full(count, m + k), np.full(count, b / count), along + np.split(rows, max(k, 1))[:k]))
    if plan.n_shared:
        groups.append(_shared_columns(a, plan, u, across, key.child("shared")))
    depth = max(len(factors) for _, _, factors in groups)
    levels = [np.vstack([factors[j] for _, _, factors in groups if j < len(factors)]) for j in range(depth)]
    degrees, weights = (np.concatenate([group[i] for group in groups]) for i in (0, 1))
    return _assemble(degrees, weights, levels, dtype)


def _shared_columns(
    a: Array, plan: _Plan, u: Array, across: Callable[[Array], Array], key: Key
) -> tuple[Array, Array, list[Array]]:
    """Return degrees, weights and factors of the components that draw their terms."""
    law = plan.shares / plan.shares.sum()
    draws = stratified(plan.n_shared, (np.sqrt(5.0) - 1.0) / 2.0, key.child("draws"))
    picks = np.minimum(np.searchsorted(np.cumsum(law), draws, side="right"), len(law) - 1)
    terms = np.array(plan.shared)[picks]
    terms = terms[np.argsort(terms.sum(axis=1), kind="stable")]
    m, degrees = terms[:, 0], terms.sum(axis=1)
    chance = dict(zip(plan.shared, law, strict=True))
    weights = [a[i + k] * comb(i + k, k) / (chance[i, k] * plan.n_shared) for i, k in terms.tolist()]
    depth = int(degrees.max())
    rows = across(_sign_rows(len(u), depth * plan.n_shared, plan.n_shared, key)).reshape(depth, plan.n_shared, len(u))
    factors = [np.where((level < m)[:, None], u, rows[level])[degrees > level] for level in range(depth)]
    return degrees, np.array(weights), factors


def _sign_rows(n_features: int, n_rows: int, period: int, key: Key) -> Array:
    """Draw rows of ±1, each one uniform: rows of Hadamard matrices with random signs, in random order.

    Every `period` rows begin another matrix (the factors of a product must be independent), and so does every row after
    the last one of a matrix. Within a matrix rows are orthogonal, which lowers the variance.
    """
    p, generator = next_power_of_two(n_features), key.generator()
    blocks = []
    for start in range(0, n_rows, period):
        for first in range(start, start + period, p):
            signs = 2.0 * generator.integers(0, 2, n_features) - 1.0
            order = generator.permutation(p)[: start + period - first]
            parity = np.bitwise_count(order[:, None] & np.arange(n_features)) & 1
            blocks.append((1.0 - 2.0 * parity) * signs)
    return np.vstack(blocks) if blocks else np.empty((0, n_features))


def _assemble(degrees: Array, weights: Array, levels: list[Array], dtype: DTypeLike) -> Maclaurin:
    """Build a map from degrees, weights of the products z zᵀ and unscaled factors."""
    # a component of degree n is √weight · Π factors: each factor takes its n-th root
    roots = np.sqrt(weights) ** (1.0 / np.maximum(degrees, 1))
    factors = tuple(Dense((rows * roots[degrees > j, None]).astype(dtype)) for j, rows in enumerate(levels))
    return Maclaurin(degrees, np.where(degrees == 0, roots, 1.0), factors)


@dataclass(frozen=True)
class _Plan:
    direction: Array | None
    own: tuple[tuple[tuple[int, int], int, bool], ...]  # ((m, k), columns, exact)
    shared: tuple[tuple[int, int], ...]
    shares: Array  # probabilities of the shared terms, not normalised
    n_shared: int
    variance: float


def _allocate(a: Array, sample: Array, n_components: int) -> _Plan:
    """Choose the plan of least estimated variance."""
    rows = np.linspace(0, sample.shape[0] - 1, min(_SAMPLE, sample.shape[0])).astype(int)
    X = densified(sample[rows].astype(float))
    mean = np.asarray(sample.mean(axis=0), dtype=float).ravel()
    length = float(np.linalg.norm(mean))
    directions = [mean / length] if length > 0 else []
    plans: list[_Plan] = []
    for direction in (*directions, None):
        moments = _Moments.of(a, X, direction)
        plans += _plans(moments, direction, n_components)
    best = min(plan.variance for plan in plans)
    # the last of equal ones, so that rounding does not decide
    return [plan for plan in plans if plan.variance <= best + 1e-9 * (best + 1e-9 * moments.scale)][-1]


def _plans(moments: _Moments, direction: Array | None, n_components: int) -> list[_Plan]:
    """List plans that give more and more of the largest terms components of their own."""
    d, terms = moments.n_features, moments.terms()
    m, k = np.array(terms).T
    size, variance = np.maximum(moments.size[m, k], 1e-12 * moments.size.sum()), moments.variance[m, k]
    most = min(len(terms), n_components)
    plans = []
    for cut in sorted({round(cut) for cut in np.geomspace(1, most, 12)} | {0, most}):
        rest = [moments.shared_variance(m[cut:], k[cut:])] if cut < len(terms) else []
        linear = np.flatnonzero(k[:cut] == 1)
        for n_exact in range(min(3, len(linear), n_components // d) + 1):
            exact = np.zeros(cut, bool)
            exact[linear[:n_exact]] = True
            V = np.maximum(np.append(np.where(exact, 0.0, variance[:cut]), rest), 0.0)
            least = np.append(np.where(exact, d, 1), [1] * len(rest))
            if least.sum() > n_components:
                break
            counts = divide(n_components, np.sqrt(V), least)
            own = tuple(zip(terms[:cut], counts.tolist(), exact.tolist(), strict=False))
            n_shared = int(counts[-1]) if rest else 0
            total = float((V / counts).sum())
            plans.append(_Plan(direction, own, tuple(terms[cut:]), size[cut:], n_shared, total))
    return plans


@dataclass(frozen=True)
class _Moments:
    """What each term b_mk (αβ)^m (x̃·ỹ)^k contributes over pairs of sample rows; arrays (n_degrees, n_degrees) by m, k.

    `size` is the root mean square of the product of one component, `variance` its variance; `along` (αβ)^m and
    `products` (x̃·ỹ)^k are (n_degrees, pairs); rows are scaled to norm one at most, and b with them.
    """

    n_features: int
    b: Array
    along: Array
    products: Array
    size: Array
    variance: Array

    @classmethod
    def of(cls, a: Array, X: Array, direction: Array | None) -> _Moments:
        radius = squared_radius(X)
        X = X / np.sqrt(radius)
        alpha = np.zeros(len(X)) if direction is None else X @ direction
        R = X if direction is None else X - np.outer(alpha, direction)
        t, s = R @ R.T, (R * R) @ (R * R).T
        norms = np.diagonal(t)
        # one factor: ‖x‖²‖y‖² + 2(x·y)² - 2 Σ x_i² y_i² (Kar & Karnick 2012)
        one = np.maximum(np.outer(norms, norms) + 2.0 * t**2 - 2.0 * s, 0.0).ravel()
        n = np.arange(len(a))[:, None]
        along, products, second = np.outer(alpha, alpha).ravel() ** n, t.ravel() ** n, one**n
        degree = n + n.T
        with np.errstate(divide="ignore"):
            logs = np.append(np.log(a), np.full(len(a), -np.inf))[degree] + degree * np.log(radius)
        with np.errstate(over="ignore"):
            b = np.exp(logs + gammaln(degree + 1.0) - gammaln(n + 1.0) - gammaln(n.T + 1.0))
        if not b.max() < 1e150:  # its square is needed
            raise ValueError(
                f"the kernel reaches {b.max():.0e} on these rows; divide them by their largest norm, or lower gamma."
            )
        if direction is None:
            b[1:] = 0.0
        size = b * np.sqrt(along**2 @ second.T / one.size)
        variance = size**2 - b**2 * (along**2 @ (products**2).T / one.size)
        return cls(X.shape[1], b, along, products, size, variance)

    @property
    def scale(self) -> float:
        """Return the mean square of the kernel, as one component estimates it."""
        return float(self.size.sum() ** 2)

    def terms(self) -> list[tuple[int, int]]:
        """List the terms (m, k), largest first; terms that are zero on the sample may not be elsewhere and stay."""
        there = [(int(m), int(k)) for m, k in np.argwhere(self.b > 0)]
        return sorted(there, key=lambda term: (-self.size[term], term))

    def shared_variance(self, m: Array, k: Array) -> float:
        """Return the variance of a component that draws its term in proportion to the term's size."""
        b = np.zeros_like(self.b)
        b[m, k] = self.b[m, k]
        mean = ((b.T @ self.along) * self.products).sum(axis=0)
        return float(self.size[m, k].sum() ** 2 - (mean**2).mean())


def divide(total: int, shares: Array, least: Array) -> Array:
    """Return integers that sum to `total`, at least `least`, the rest in proportion to `shares` (or equally)."""
    counts, spare = least.astype(np.int64), total - int(least.sum())
    shares = np.asarray(shares, dtype=float)
    shares = shares / shares.sum() if shares.sum() > 0 else np.full(len(counts), 1.0 / len(counts))
    # what a share gets beyond its minimum, so that minima do not shorten large shares
    wanted = np.maximum(shares * total - counts, 0.0)
    wanted = wanted * spare / wanted.sum() if wanted.sum() > 0 else shares * spare
    more = np.floor(wanted).astype(np.int64)
    order = np.argsort(more - wanted, kind="stable")
    more[order[: spare - int(more.sum())]] += 1
    return counts + more
