"""Two-sample test by the maximum mean discrepancy: whether two samples come from the same distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from bochner.backends import backend_of
from bochner.checks import check_choice, check_count
from bochner.data.devices import on_device
from bochner.data.folds import accumulate
from bochner.data.sources import ArraySource, Source
from bochner.data.validation import check_rows
from bochner.draws.keys import Key
from bochner.estimators.exact import exact_rows
from bochner.estimators.feature_spec import FEATURES, as_feature_map
from bochner.features.maps import FeatureMap
from bochner.kernels.algebra import Kernel
from bochner.kernels.conversion import as_kernel
from bochner.ridge.statistics import RidgeStatistics

_FEATURE_ROWS = 10_000  # rows that features and the length scale are fitted on
_LABELS = 1 << 26  # rows × permutations above which "auto" uses the limit distribution
_DRAWS = 20_000  # from the limit distribution


@dataclass(frozen=True)
class MMDResult:
    """The result of `mmd_test`.

    Attributes
    ----------
    statistic : float
        MMD² = ‖mean features of X - mean features of Y‖².
    p_value : float
        Probability of a statistic at least as large if both samples come from the same distribution.
    kernel : Kernel
        With its length scale as a number.
    method : {"permutation", "asymptotic"}
    """

    statistic: float
    p_value: float
    kernel: Kernel
    method: str


def mmd_test(
    X: Any,
    Y: Any,
    kernel: Any = "rbf",
    n_components: int = 512,
    *,
    features: str = "fourier",
    method: str = "auto",
    n_permutations: int = 999,
    random_state: Any = None,
    device: str | None = None,
) -> MMDResult:
    """Two-sample test by the maximum mean discrepancy of features (Gretton et al. 2012), in blocks of rows.

    Parameters
    ----------
    X, Y : array-like or CSR matrix of shape (n_samples_X, n_features) and (n_samples_Y, n_features)
    kernel : str, Kernel or scikit-learn kernel, default="rbf"
        A name takes the median distance of both samples together as length scale.
    n_components : int, default=512
        Number of components of the features.
    features : {"fourier", "nystrom"}, default="fourier"
        Which features of the kernel have their means compared.
    method : {"auto", "permutation", "asymptotic"}, default="auto"
        "permutation" has exactly its nominal level, for any sample sizes. "asymptotic" draws from the limit
        distribution, a weighted sum of χ², and needs only sums over the rows. "auto" permutes up to about 67,000 rows.
    n_permutations : int, default=999
        The least p-value is 1 / (n_permutations + 1).
    random_state : int, RandomState, Generator or None
        Seed of everything random: an int gives the same result every time.
    device : str or None
        "cuda" (or "cuda:1", …) computes on a GPU. None computes where the data are.

    Returns
    -------
    MMDResult
        With `statistic`, `p_value`, `kernel` and `method`.

    Examples
    --------
    >>> import numpy as np
    >>> from bochner import mmd_test
    >>> rng = np.random.default_rng(0)
    >>> X, Y = rng.normal(size=(300, 2)), rng.normal(size=(300, 2)) * [1.0, 2.0]
    >>> mmd_test(X, Y, random_state=0).p_value
    0.001
    """
    check_choice("method", method, ("auto", "permutation", "asymptotic"))
    check_choice("features", features, tuple(FEATURES))
    n_permutations = check_count("n_permutations", n_permutations)
    X, Y = (check_rows(sample, input_name=name, ensure_min_samples=2) for name, sample in (("X", X), ("Y", Y)))
    if X.shape[1] != Y.shape[1]:
        raise ValueError(f"X has {X.shape[1]} features and Y has {Y.shape[1]}; two samples need the same columns.")
    n, total = X.shape[0], X.shape[0] + Y.shape[0]
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(Y):
        both: Any = scipy.sparse.vstack([scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(Y)], format="csr")
    else:
        both = np.concatenate([X, Y])
    key = Key.from_random_state(random_state)
    source = ArraySource(both, np.r_[np.full(n, 1.0 / n), np.full(total - n, -1.0 / (total - n))][:, None])
    rows = source.sample(_FEATURE_ROWS, key.child("features")).X
    transformer = FEATURES[features](
        kernel=as_kernel(kernel), n_components=check_count("n_components", n_components), random_state=key.seed
    ).fit(rows)
    feature_map = as_feature_map(transformer, rows)
    if method == "auto":
        method = "permutation" if total * n_permutations <= _LABELS else "asymptotic"
    p_of = _by_permutation if method == "permutation" else _by_limit
    there = on_device(source, device)
    statistic, p_value = p_of(there, feature_map, n, total, n_permutations, key.child(method))
    return MMDResult(statistic, p_value, transformer.kernel_, method)


def _by_permutation(
    source: Source, feature_map: FeatureMap, n: int, total: int, n_permutations: int, key: Key
) -> tuple[float, float]:
    """Permute which rows belong to which sample; column 0 is the actual assignment."""
    draw = key.generator()
    # (rows, permutations) of booleans, True for rows assigned to X
    first = np.zeros((total, n_permutations + 1), bool)
    first[:n, 0] = True
    for b in range(1, n_permutations + 1):
        first[draw.choice(total, n, replace=False), b] = True
    sums, whole, start = np.zeros((feature_map.n_components, n_permutations + 1)), np.zeros(feature_map.n_components), 0
    for Z, block in source.features(feature_map):
        backend = backend_of(Z)
        sums += backend.fetch(Z.T @ backend.place(first[start : start + len(block)].astype(source.dtype), Z))
        whole += backend.fetch(backend.xp.sum(Z, axis=0, dtype=backend.xp.float64))
        start += len(block)
    gaps = sums * (1.0 / n + 1.0 / (total - n)) - whole[:, None] / (total - n)
    found = np.einsum("ij,ij->j", gaps, gaps)
    # permutations that change nothing must count as ties in spite of rounding
    beyond = np.count_nonzero(found[1:] >= found[0] * (1.0 - 1e-6) - 1e-12 * found.max())
    return float(found[0]), float((1.0 + beyond) / (1.0 + n_permutations))


def _by_limit(
    source: Source, feature_map: FeatureMap, n: int, total: int, n_permutations: int, key: Key
) -> tuple[float, float]:
    """(1/n + 1/m) Σ λ_j χ²_j, λ the eigenvalues of the pooled covariance of the features."""
    statistics = accumulate(source, feature_map, RidgeStatistics(feature_map.n_components, 1), np.asarray)
    gap = statistics.right_side(False)[:, 0]  # Σ z / n over X - Σ z / m over Y
    found = float(gap @ gap)
    λ = statistics.spectrum(True).factor.eigenvalues / (total - 2.0)
    # the covariance within each sample, not around the common mean, since the difference of the means is not noise
    λ = np.sort(λ)[::-1]
    λ *= max(0.0, 1.0 - found * n * (total - n) / total / max(λ.sum() * (total - 2.0), np.finfo(float).tiny))
    draws = np.zeros(_DRAWS)
    draw = key.generator()
    for value in λ[λ > 1e-6 * λ[0]] if len(λ) and λ[0] > 0 else []:
        draws += value * draw.chisquare(1.0, _DRAWS)
    draws *= 1.0 / n + 1.0 / (total - n)
    return found, float((1.0 + np.count_nonzero(draws >= found)) / (1.0 + _DRAWS))


def exact_mmd(kernel: Any, X: Any, Y: Any) -> float:
    """MMD² from the exact kernel matrices, pairs of a row with itself included: a reference for small n.

    Parameters
    ----------
    kernel : Kernel
        The kernel whose means are compared.
    X, Y : array-like of shape (n_samples_X, n_features) and (n_samples_Y, n_features)

    Examples
    --------
    >>> from bochner import RBF, exact_mmd
    >>> exact_mmd(RBF(1.0), [[0.0]], [[0.0]])
    0.0
    """
    k = as_kernel(kernel)
    X, Y = exact_rows(X, Y)
    return float(k(X).mean()) + float(k(Y).mean()) - 2.0 * float(k(X, Y).mean())
