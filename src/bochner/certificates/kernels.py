"""How far ZZᵀ is from K on the user's rows, measured without K, and distances of features from distances of rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import ArrayLike
from scipy import stats

from bochner.backends import Array
from bochner.certificates.records import Certificate, Effort
from bochner.certificates.residuals import KernelLike, Residual, RowSampler, checked_rows, transform_of
from bochner.checks import check_choice, check_count, check_fraction, check_positive
from bochner.data.progress import Stopwatch
from bochner.draws.keys import Key, Seed
from bochner.features.fourier import Fourier
from bochner.features.maps import Features
from bochner.kernels.algebra import squared_norms
from bochner.theory.feature_bounds import AllPairsBound

NORMS = ("frobenius", "relative_frobenius", "spectral", "relative_spectral", "max", "trace")
_BLOCK = 4  # random starts of the Lanczos iteration
_STEPS = 40  # largest number of products with E
_DENSE = 400  # rows up to which all eigenvalues are computed
# Entries are read in 8² small tiles instead of one, and cycles of tiles in 4²: the same number of entries covers more
# rows, a few rows with most of the error are less often missed, and intervals are half as long
_SPREAD, _CYCLES = 8, 4


def kernel_error(
    features: Features,
    X: ArrayLike,
    *,
    kernel: KernelLike | None = None,
    norm: str = "frobenius",
    alpha: float | None = None,
    confidence: float = 0.95,
    max_entries: int = 1 << 23,
    random_state: Seed = None,
) -> Certificate:
    r"""Measure the error E = ZZᵀ - K of features on data, with an interval, without forming K.

    Parameters
    ----------
    features : fitted transformer or FeatureMap
        Ours, or any object with `transform` (then pass `kernel`).
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The rows on which E is measured.
    kernel : Kernel, str or callable, optional
        What the features approximate; their own kernel unless given.
    norm : str
        "frobenius" (root of the sum of squares; divided by n_samples it is the root mean square error of an entry),
        "relative_frobenius" (over that of K), "spectral" (largest absolute eigenvalue), "relative_spectral" (the
        smallest eps with (1 - eps)(K + alpha I) ⪯ ZZᵀ + alpha I ⪯ (1 + eps)(K + alpha I), which limits the error of
        ridge regression), "max" (the largest absolute entry) or "trace" (tr(K - ZZᵀ), with its sign; the nuclear norm
        for Nyström features).
    alpha : float, optional
        The penalty of "relative_spectral", not divided by n_samples.
    confidence : float
        Probability that the interval contains the true value.
    max_entries : int
        Kernel values held at a time, and about the number evaluated. With up to sqrt(max_entries) rows every entry is
        evaluated; with more, those of random rows.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Certificate
        The ends of the interval are equal where the value is exact.

    Notes
    -----
    *All entries* (n_samples² ≤ max_entries): "frobenius", "max" and "trace" are exact. Eigenvalues come from a
    block Lanczos iteration with random starts: the value is a lower bound, and the upper end is that of Kuczyński
    and Woźniakowski (1992) for random starts, valid for every matrix.

    *Random rows* (more): with rows drawn independently, averages of products of entries around cycles of disjoint
    samples are unbiased for tr E² and tr E⁴. The entries lie in many small tiles, which contain eight times as many
    rows as one large tile with the same number of entries. Intervals are those of asymptotically normal U-statistics:
    Student's t, a correction for skewness, and the jackknife's standard error, which tends to be too large. "frobenius"
    is the root of tr E². "spectral" lies between sqrt(tr E⁴ / tr E²) and (tr E⁴)^(1/4), whatever the spectrum.

    "relative_spectral" is computed on a sample of rows, with alpha scaled by their share. Its lower end is the value of
    the sample with all of alpha, its upper end is ‖E‖ / alpha. The value is a good estimate, but the interval is wide:
    K + alpha I is large where E is, which ‖E‖ / alpha does not take into account, and the upper end was 13 to 30 times
    the true value on five real datasets (benchmarks/bench_certificates.py). A sharper one needs products with all of E:
    raise `max_entries` to n_samples².

    "max" lies between the largest entry seen and Cauchy–Schwarz's bound or, for Fourier features, the bound for
    independent frequencies, whose probability is over the draw of the features. Errors of a few rows that are not in
    the sample are missed, except for Nyström features, where rows are drawn in proportion to their own error.

    "trace" is exact for any number of rows, and so is "max" for Nyström features.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import FourierFeatures
    >>> from bochner.certificates import kernel_error
    >>> X = np.random.default_rng(0).normal(size=(5000, 4))
    >>> features = FourierFeatures(n_components=512, random_state=0).fit(X)
    >>> error = kernel_error(features, X, norm="relative_frobenius", random_state=0)
    >>> 0.0 < error.low <= error.value <= error.high < 0.1
    True
    """
    check_choice("norm", norm, NORMS)
    confidence = check_fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    check_count("max_entries", max_entries, least=1 << 14, advice="An interval needs a hundred rows.")
    if norm == "relative_spectral":
        if alpha is None:
            raise ValueError(
                "norm='relative_spectral' is relative to K + alpha I: pass alpha, the penalty of the ridge regression "
                "that the features are for."
            )
        check_positive("alpha", alpha)
    elif alpha is not None:
        raise ValueError(f"alpha belongs to norm='relative_spectral', not to norm={norm!r}; leave it out.")
    residual = Residual(features, X, kernel)
    key = Key.from_random_state(random_state).child("certificate")
    if norm == "trace":
        return _trace(residual, confidence)
    if norm == "max" and residual.semidefinite:
        how = "the largest diagonal entry of a positive semi-definite error, all rows"
        return _point(residual, norm, float(np.abs(residual.diagonal).max()), confidence, how)
    small = residual.n**2 <= max_entries
    if norm == "relative_spectral":
        measure = _relative_spectral if small else _sampled_relative_spectral
        return measure(residual, float(alpha or 0.0), confidence, max_entries, key)
    complete: dict[str, Callable[..., Certificate]] = {
        "frobenius": _frobenius, "relative_frobenius": _frobenius, "spectral": _spectral, "max": _largest,
    }  # fmt: skip
    sampled: dict[str, Callable[..., Certificate]] = {
        "frobenius": _sampled_frobenius, "relative_frobenius": _sampled_frobenius,
        "spectral": _sampled_spectral, "max": _sampled_largest,
    }  # fmt: skip
    return (complete if small else sampled)[norm](residual, norm, confidence, max_entries, key)


# -- every entry -------------------------------------------------------------------------------------------------


def _point(residual: Residual, norm: str, value: float, confidence: float, how: str) -> Certificate:
    return residual.certificate(norm, value, (value, value), confidence, how)


def _trace(residual: Residual, confidence: float) -> Certificate:
    value = -float(residual.diagonal.sum())
    return _point(residual, "trace", value, confidence, f"the diagonals of K and ZZᵀ, all {residual.n} rows")


def _frobenius(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    squares = np.zeros(2)
    for E, K in residual.strips():
        squares += [np.vdot(E, E), np.vdot(K, K)]
    relative = norm == "relative_frobenius"
    value = math.sqrt(squares[0] / (squares[1] or 1.0) if relative else squares[0])
    return _point(residual, norm, value, confidence, f"all {residual.n}² entries, tile by tile")


def _largest(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    value = max(float(np.abs(E).max()) for E, _ in residual.strips())
    return _point(residual, norm, value, confidence, f"all {residual.n}² entries, tile by tile")


def _spectral(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    rows = np.arange(residual.n)
    E, _ = residual.tile(rows, rows)
    low, high, how = _norm_interval(lambda V: E @ V, E, confidence, key)
    return residual.certificate(norm, low, (low, high), confidence, how)


def _relative_spectral(residual: Residual, alpha: float, confidence: float, max_entries: int, key: Key) -> Certificate:
    rows = np.arange(residual.n)
    E, K = residual.tile(rows, rows)
    L = _factor(K, alpha)
    how = f"(K + {alpha:g} I)^(-1/2) E (K + {alpha:g} I)^(-1/2): "
    if len(E) <= _DENSE:
        value = _whitened_norm(E, L)
        return _point(residual, "relative_spectral", value, confidence, how + "all eigenvalues")

    def product(V: Array) -> Array:
        inner = scipy.linalg.solve_triangular(L, V, lower=True, trans="T", check_finite=False)
        return scipy.linalg.solve_triangular(L, E @ inner, lower=True, check_finite=False)

    low, high, by = _norm_interval(product, None, confidence, key, n=len(E))
    if residual.semidefinite:
        high = min(high, 1.0)
    return residual.certificate("relative_spectral", low, (low, high), confidence, how + by)


def _factor(K: Array, alpha: float) -> Array:
    try:
        return scipy.linalg.cholesky(K + alpha * np.eye(len(K)), lower=True, check_finite=False)
    except scipy.linalg.LinAlgError:
        raise ValueError(
            f"K + {alpha:g} I is not positive definite: alpha is below the rounding of K, or the kernel is indefinite. "
            "Use a larger alpha or a positive definite kernel."
        ) from None


def _whitened_norm(E: Array, L: Array) -> float:
    """Return ‖L⁻¹ E L⁻ᵀ‖, from all eigenvalues, or for many rows by Lanczos to six digits."""
    half = scipy.linalg.solve_triangular(L, E, lower=True, check_finite=False)
    M = scipy.linalg.solve_triangular(L, half.T, lower=True, check_finite=False)
    M = (M + M.T) / 2.0
    if len(M) <= _DENSE:
        return float(np.abs(scipy.linalg.eigvalsh(M)).max())
    top = scipy.sparse.linalg.eigsh(M, 1, which="LM", tol=1e-6, v0=np.ones(len(M)), return_eigenvectors=False)
    return float(abs(top[0]))


def _norm_interval(
    product: Callable[[Array], Array], E: Array | None, confidence: float, key: Key, n: int = 0
) -> tuple[float, float, str]:
    """Bound the spectral norm of a symmetric matrix from below, for certain, and from above.

    Block Lanczos with full orthogonalisation. The space of k blocks contains the Krylov space of E² of dimension
    j = ⌈k/2⌉ of each of the b random starts, so that ‖EQ‖² ≥ (1 - eps)‖E‖² except with probability
    (1.648 sqrt(n) exp(-sqrt(eps)(2j - 1)))^b (Kuczyński & Woźniakowski 1992, theorem 4.2).
    """
    n = n or len(E if E is not None else ())
    if E is not None and n <= _DENSE:
        value = float(np.abs(scipy.linalg.eigvalsh(E)).max())
        return value, value, "all eigenvalues"
    failure = (1.0 - confidence) ** (1.0 / _BLOCK)
    V, _ = np.linalg.qr(key.child("start").generator().standard_normal((n, _BLOCK)))
    Q, EQ = np.empty((n, 0)), np.empty((n, 0))
    low, high = 0.0, np.inf
    for k in range(1, _STEPS + 1):
        W = product(V)
        Q, EQ = np.hstack([Q, V]), np.hstack([EQ, W])
        # singular values of EQ from its Gram matrix: the largest is accurate
        low = math.sqrt(max(float(scipy.linalg.eigvalsh(EQ.T @ EQ)[-1]), 0.0))
        eps = (math.log(1.648 * math.sqrt(n) / failure) / (2 * ((k + 1) // 2) - 1)) ** 2
        high = low / math.sqrt(1.0 - eps) if eps < 1.0 else np.inf
        for _ in range(2):
            W = W - Q @ (Q.T @ W)
        size = np.linalg.norm(W)
        if high <= 1.02 * low or size <= 1e-12 * max(low, np.finfo(float).tiny):
            break
        V, _ = np.linalg.qr(W)
    if not np.isfinite(high):  # the space was complete before the theorem applied: nothing is outside of it
        high = low
    how = f"{k} steps of block Lanczos from {_BLOCK} random starts; upper end by Kuczyński and Woźniakowski's theorem"
    return low, high * (1.0 + 1e-9), how


# -- random rows -------------------------------------------------------------------------------------------------


def influence_bounds(value: float, influences: list[Array], failure: float) -> tuple[float, float]:
    """Bound a positive number whose estimate is `value`, from the influence of each row drawn.

    The influences of a sample of q rows contribute their variance over q. Each end fails with probability
    failure / 3: the remaining third allows for skewness, against which the upper end is also corrected (Hall
    1992), or exponentiated, whichever is longer.
    """
    q = len(influences[0])
    t = float(stats.t.isf(failure / 3.0, q - 1))
    variance = sum(float(np.var(part, ddof=1)) / q for part in influences)
    if variance <= 0.0:
        return max(value, 0.0), max(value, 0.0)
    error = math.sqrt(variance)
    third = sum(float(((part - part.mean()) ** 3).mean()) / q**2 for part in influences)
    skew = max(third, 0.0) / error**3
    high = value + error * (t + skew * (2.0 * t * t + 1.0) / 6.0)
    low = value - t * error
    if value > 0.0:
        width = min(t * error / value, 50.0)
        low, high = min(low, value * math.exp(-width)), max(high, value * math.exp(width))
    return max(low, 0.0), max(high, 0.0)


def _sampled_frobenius(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    size = math.isqrt(max_entries) // _SPREAD
    relative = norm == "relative_frobenius"
    sampler = RowSampler.of(residual, key, uniform=0.5 if relative else 0.1)
    rows, columns = (sampler.draw(_SPREAD**2 * size, name).reshape(-1, size) for name in ("rows", "columns"))
    means = np.empty((2, 2, len(rows), size))  # of E² and K², over rows and over columns
    for block, (i, j) in enumerate(zip(rows, columns, strict=True)):
        for part, tile in enumerate(residual.tile(i, j)):
            tile = np.square(sampler.weigh(tile, i, j))
            means[part, 0, block], means[part, 1, block] = tile.mean(axis=1), tile.mean(axis=0)
    unit = float(means[1, 0].mean()) if relative else 1.0
    square = float(means[0, 0].mean()) / unit
    # the error of a ratio of means is that of its linearisation
    table = (means[0] - square * means[1]) / unit if relative else means[0]
    low, high = influence_bounds(square, [table[0].ravel(), table[1].ravel()], 1.0 - confidence)
    if residual.semidefinite and not relative:  # sqrt(Σ E_ii²) ≤ ‖E‖ ≤ tr E
        low = max(low, float(np.square(residual.diagonal).sum()))
        high = max(low, min(high, float(residual.diagonal.sum()) ** 2))
    how = f"{len(rows)} tiles of {size} × {size} entries of rows drawn {_law(sampler)}; interval by the jackknife"
    return residual.certificate(norm, math.sqrt(square), (math.sqrt(low), math.sqrt(high)), confidence, how)


def _law(sampler: RowSampler) -> str:
    return "uniformly" if np.ptp(sampler.probabilities) == 0.0 else "in proportion to their own error"


def _moments(tiles: list[Array]) -> tuple[list[Array], list[Array]]:
    """Return the influences of the rows drawn on the estimates of tr E² and tr E⁴, which are their means.

    Four samples I, J, K, L of rows and the tiles between neighbours in the cycle IJKL.
    """
    q = len(tiles[0])
    squares = [np.square(tile) for tile in tiles]
    # a row drawn takes part in the tile after it and in the one before it, two of the four that are averaged
    second = [(squares[s].mean(axis=1) + squares[s - 1].mean(axis=0)) / 2.0 for s in range(4)]
    steps = [tiles[s] @ tiles[(s + 1) % 4] for s in range(4)]
    fourth = [np.einsum("ij,ji->i", steps[s], steps[(s + 2) % 4]) / q**3 for s in range(4)]
    return second, fourth


def _read_cycles(residual: Residual, sampler: RowSampler, n_cycles: int, size: int) -> tuple[Array, Array, float]:
    """Return the moments of cycles of tiles, both (4, n_cycles, size), and the largest entry of E among them."""
    samples = [sampler.draw(n_cycles * size, s).reshape(-1, size) for s in range(4)]
    second, fourth = np.empty((2, 4, n_cycles, size))
    largest = 0.0
    for cycle in range(n_cycles):
        tiles = []
        for s in range(4):
            i, j = samples[s][cycle], samples[(s + 1) % 4][cycle]
            E, _ = residual.tile(i, j)
            largest = max(largest, float(np.abs(E).max()))
            tiles.append(sampler.weigh(E, i, j))
        second[:, cycle], fourth[:, cycle] = _moments(tiles)
    return second, fourth, largest


def _sampled_norm(residual: Residual, failure: float, max_entries: int, key: Key) -> tuple[float, float, float, str]:
    """Return value, lower and upper end of ‖E‖ from moments of the spectrum."""
    q = math.isqrt(max_entries // 4)
    sampler = RowSampler.of(residual, key)
    rows, columns = sampler.draw(q, "rows"), sampler.draw(q, "columns")
    tile = residual.tile(rows, columns)[0]
    seen = float(np.abs(tile).max())
    # the norm of a tile is too large: it contains the noise of the sample as well
    tile = sampler.weigh(tile, rows, columns)
    largest = scipy.sparse.linalg.svds(tile, 1, tol=1e-3, v0=np.ones(q), return_singular_vectors=False)
    size, n_cycles = math.isqrt(3 * max_entries // 16) // _CYCLES, _CYCLES**2
    second, fourth, largest_entry = _read_cycles(residual, sampler, n_cycles, size)
    seen = max(seen, largest_entry)
    twos, fours = list(second.reshape(4, -1)), list(fourth.reshape(4, -1))
    m2, m4 = float(second.mean()), float(fourth.mean())
    low = seen
    if m4 > 0.0:
        ratio = m4 / m2
        # a row drawn moves the average of four tiles by half its influence on its own two
        joint = [(f - ratio * s / 2.0) / m2 for s, f in zip(twos, fours, strict=True)]
        low = max(low, math.sqrt(influence_bounds(ratio, joint, failure)[0]))
    # three ends, each of which fails with probability failure / 3
    high = min(
        influence_bounds(m2, [s / 2.0 for s in twos], failure)[1] ** 0.5,
        influence_bounds(m4, fours, failure)[1] ** 0.25,
    )
    if residual.semidefinite:
        high = min(high, abs(float(residual.diagonal.sum())))
    high = max(low, high)
    value = min(float(largest[0]) / q, max(m4, 0.0) ** 0.25)
    how = (
        f"{n_cycles} cycles of four samples of {size} rows drawn {_law(sampler)}: sqrt(tr E⁴ / tr E²) ≤ ‖E‖ ≤ "
        "(tr E⁴)^(1/4), both estimated, with the jackknife's errors"
    )
    return min(max(value, low), high), low, high, how


def _sampled_spectral(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    value, low, high, how = _sampled_norm(residual, 1.0 - confidence, max_entries, key)
    return residual.certificate(norm, value, (low, high), confidence, how)


def _sampled_relative_spectral(
    residual: Residual, alpha: float, confidence: float, max_entries: int, key: Key
) -> Certificate:
    q = math.isqrt(max_entries // 4)
    subset = key.child("subset").generator().choice(residual.n, min(q, residual.n), replace=False)
    E, K = residual.tile(subset, subset)
    # with alpha as it is, a quadratic form of vectors that vanish elsewhere; with its share, what all rows would give
    low, value = (_whitened_norm(E, _factor(K, penalty)) for penalty in (alpha, alpha * len(subset) / residual.n))
    _, _, norm, _ = _sampled_norm(residual, 1.0 - confidence, 3 * max_entries // 4, key.child("norm"))
    high = max(low, min(norm / alpha, 1.0) if residual.semidefinite else norm / alpha)
    how = (
        f"an estimate from {len(subset)} random rows, alpha scaled with their share; the lower end, the same rows with "
        "all of alpha, holds for certain; the upper end is that of ‖E‖ / alpha, estimated from random rows"
    )
    return residual.certificate("relative_spectral", value, (low, high), confidence, how)


def _sampled_largest(residual: Residual, norm: str, confidence: float, max_entries: int, key: Key) -> Certificate:
    q = math.isqrt(max_entries)
    sampler = RowSampler.of(residual, key)
    E, _ = residual.tile(sampler.draw(q, "rows"), sampler.draw(q, "columns"))
    seen = max(float(np.abs(E).max()), float(np.abs(residual.diagonal).max()))
    share = math.log(1.0 / (1.0 - confidence)) / q
    # |z·z'| ≤ ‖z‖‖z'‖ and |k(x, x')|² ≤ k(x, x) k(x', x')
    own = residual.kernel_diagonal
    high = float((residual.diagonal + own).max() + own.max())
    end = "upper end by Cauchy and Schwarz"
    mapped = residual.feature_map
    if isinstance(mapped, Fourier):
        pairs = mapped.form == "complex" or (mapped.form == "pairs" and mapped.n_components % 2 == 0)
        bound = AllPairsBound(n_samples=residual.n, form="pairs" if pairs else "offset")
        theorem = float(own.max()) * bound.error(mapped.frequencies.shape[0], delta=1.0 - confidence)
        if theorem < high:
            high, end = theorem, "upper end by the theorem for independent frequencies, over their draw"
    how = (
        f"the worst of {q} × {q} random entries and the diagonal; {end}. At most {share:.2g} of the rows have an entry "
        "with the others seen that is worse"
    )
    return residual.certificate(norm, seen, (seen, max(seen, high)), confidence, how)


_ROWS = 1024  # rows whose kernel values are computed together


def distance_error(
    features: Features,
    X: ArrayLike,
    *,
    confidence: float = 0.95,
    max_pairs: int = 1 << 18,
    random_state: Seed = None,
) -> Certificate:
    """Measure the largest relative error | ‖z - z'‖² / ‖x - x'‖² - 1 | of squared distances under a projection.

    With too many rows to measure every pair, it is the error that all pairs but a small share, given in `how`, stay
    below; the largest error of all is then not known.

    Parameters
    ----------
    features : fitted transformer or FeatureMap
        The map whose distances are compared with the data's.
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The rows whose distances matter. Pairs of equal rows are left out.
    confidence : float
        Probability with which the interval holds the error.
    max_pairs : int
        If there are no more pairs than this, all are measured, and the value is exact. Otherwise about 8,000 random
        pairs are: the error that all pairs but a small share (0.0004 for 95 %) stay below lies between two of their
        largest errors, and the value is the largest.
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.

    Returns
    -------
    Certificate

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import RandomProjection
    >>> from bochner.certificates import distance_error
    >>> X = np.random.default_rng(0).normal(size=(100, 2000))
    >>> error = distance_error(RandomProjection(1000, random_state=0).fit(X), X)
    >>> error.exact, error.value < 0.5
    (True, True)
    """
    started = Stopwatch()
    confidence = check_fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    rows = checked_rows(features, X)
    n = int(rows.shape[0])
    if n < 2:
        raise ValueError(f"a distance needs two rows, got {n}.")
    max_pairs = check_count("max_pairs", max_pairs)
    transform = transform_of(features)
    small, rank = n * (n - 1) // 2 <= max_pairs, 0
    if small:
        first, second = np.triu_indices(n, 1)
        how = f"all {len(first)} pairs of rows"
    else:
        pairs = min(1 << 13, max_pairs)
        generator = Key.from_random_state(random_state).child("pairs").generator()
        first = generator.integers(0, n, pairs)
        second = (first + generator.integers(1, n, pairs)) % n
        # the pairs among them that belong to the share are about Poisson: at least one of them, and not many
        expected = -math.log(0.8 * (1.0 - confidence))
        rank = int(stats.poisson.isf(0.2 * (1.0 - confidence), expected)) + 1
        if pairs < 2 * rank:
            raise ValueError(
                f"max_pairs={max_pairs} are too few for {100 * confidence:g} % confidence; give "
                f"at least {2 * rank}, or all {n * (n - 1) // 2} pairs."
            )
        how = f"the {rank} worst of {pairs} random pairs, for all pairs but a share of {expected / pairs:.2g}"
    mapped = transform(rows) if small else None
    unit = float(abs(rows).max()) or 1.0  # squares of very large or small numbers would overflow or vanish
    errors = np.zeros(len(first))
    for start in range(0, len(first), _ROWS):
        i, j = first[start : start + _ROWS], second[start : start + _ROWS]
        given = _squares(rows[i], rows[j], unit)
        Z = (mapped[i], mapped[j]) if mapped is not None else (transform(rows[i]), transform(rows[j]))
        kept = _squares(*Z, unit)
        apart = given > 0
        errors[start : start + _ROWS][apart] = np.abs(kept[apart] / given[apart] - 1.0)
    value = float(errors.max(initial=0.0))
    low = value if small else float(np.partition(errors, -rank)[-rank])
    cost = Effort(0, 2 * len(first), started.seconds())
    return Certificate("relative squared distance", value, (low, value), confidence, how, cost)


def _squares(A: Array, B: Array, unit: float) -> Array:
    """Return ‖a - b‖² / unit² row by row, in float64."""
    return squared_norms(A.astype(np.float64) / unit - B.astype(np.float64) / unit)
