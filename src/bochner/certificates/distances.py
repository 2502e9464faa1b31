"""How far distances of features are from distances of rows."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import scipy.sparse
from scipy import stats

from bochner.backends import Array
from bochner.certificates.records import Certificate, Effort
from bochner.certificates.residuals import _checked, _transform_of
from bochner.checks import check_count, check_fraction
from bochner.keys import Key

_ROWS = 1024  # looked at together


def distance_error(
    features: Any, X: Any, *, confidence: float = 0.95, max_pairs: int = 1 << 18, random_state: Any = None
) -> Certificate:
    """Measure the largest relative error | ‖z - z'‖² / ‖x - x'‖² - 1 | of squared distances under a projection.

    Of more rows than can be looked at in pairs: the error that all pairs but a small share, which `how` names, stay
    below. Nothing is known of the largest of all.

    Parameters
    ----------
    features : fitted transformer or FeatureMap
    X : array-like or CSR matrix of shape (n_samples, n_features)
        The rows whose distances matter. Equal rows have no distance to keep.
    confidence : float
    max_pairs : int
        Up to so many, every pair is looked at, and the value is exact. Of more, some 8,000 independent ones: the error
        of all pairs but a share (0.0004 for 95 %) lies between two of their largest errors, and the value is the worst.
    random_state : int, RandomState, Generator or None

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
    started = time.perf_counter()
    confidence = check_fraction("confidence", confidence, advice="Pass 0.95 for 95 %.")
    X = _checked(features, X)
    n = int(X.shape[0])
    if n < 2:
        raise ValueError(f"a distance needs two rows, got {n}.")
    max_pairs = check_count("max_pairs", max_pairs)
    found = getattr(features, "feature_map_", None)
    transform = _transform_of(features) if found is None else found
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
    mapped = transform(X) if small else None
    unit = float(abs(X).max()) or 1.0  # squares of very large or small numbers would overflow or vanish
    errors = np.zeros(len(first))
    for start in range(0, len(first), _ROWS):
        i, j = first[start : start + _ROWS], second[start : start + _ROWS]
        given = _squares(X[i], X[j], unit)
        Z = (mapped[i], mapped[j]) if mapped is not None else (transform(X[i]), transform(X[j]))
        kept = _squares(*Z, unit)
        apart = given > 0
        errors[start : start + _ROWS][apart] = np.abs(kept[apart] / given[apart] - 1.0)
    value = float(errors.max(initial=0.0))
    low = value if small else float(np.partition(errors, -rank)[-rank])
    cost = Effort(0, 2 * len(first), time.perf_counter() - started)
    return Certificate("relative squared distance", value, (low, value), confidence, how, cost)


def _squares(A: Any, B: Any, unit: float) -> Array:
    """‖a - b‖² / unit² row by row, in float64."""
    D = A.astype(np.float64) / unit - B.astype(np.float64) / unit
    if scipy.sparse.issparse(D):
        return np.asarray(D.multiply(D).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", D, D)
