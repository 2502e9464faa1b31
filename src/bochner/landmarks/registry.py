"""Sampling schemes of landmarks by name."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bochner.landmarks.laws import (
    BLESS,
    Adaptive,
    ColumnNorms,
    FarthestPoint,
    Given,
    LandmarkLaw,
    RecursiveLeverage,
    RidgeLeverage,
    Uniform,
)
from bochner.landmarks.means import KMeans, MiniBatchKMeans
from bochner.landmarks.pivots import RPCholesky

LANDMARK_LAWS: dict[str, LandmarkLaw] = {
    "uniform": Uniform(),
    "kmeans": KMeans(),
    "minibatch_kmeans": MiniBatchKMeans(),
    "refined": KMeans(init="rpcholesky", max_iter=2, n_rows=20_000),
    "mixed": KMeans(init="mixed", max_iter=2, n_rows=20_000),
    "column_norms": ColumnNorms(),
    "ridge_leverage": RidgeLeverage(),
    "recursive_leverage": RecursiveLeverage(),
    "bless": BLESS(),
    "adaptive": Adaptive(),
    "rpcholesky": RPCholesky(),
    "greedy": RPCholesky("greedy"),
    "farthest_point": FarthestPoint(),
}


def as_landmark_law(landmarks: object) -> LandmarkLaw:
    """Return a sampling scheme for a name, a scheme, row indices (1-D integers) or points (2-D).

    Examples
    --------
    >>> from bochner.landmarks import as_landmark_law
    >>> as_landmark_law("greedy")
    RPCholesky(method='greedy')
    """
    if isinstance(landmarks, LandmarkLaw):
        return landmarks
    if isinstance(landmarks, str):
        if landmarks in LANDMARK_LAWS:
            return LANDMARK_LAWS[landmarks]
    elif isinstance(landmarks, (scipy.sparse.sparray, scipy.sparse.spmatrix)):
        return Given(landmarks.tocsr())
    elif isinstance(landmarks, (np.ndarray, list, tuple)):
        try:
            given = np.asarray(landmarks)
        except ValueError:  # rows of different lengths
            given = np.empty(0, object)
        if given.ndim in (1, 2) and given.dtype.kind in "iuf":
            return Given(given)
    raise ValueError(
        f"landmarks must be 'auto', one of {', '.join(map(repr, LANDMARK_LAWS))}, a LandmarkLaw, an array of row "
        f"indices or a 2-D array of points; got {landmarks!r}."
    )


def landmark_law_name(law: LandmarkLaw) -> str:
    """Return the name of a sampling scheme, or its repr when it has none."""
    return next((name for name, known in LANDMARK_LAWS.items() if known == law), type(law).__name__)
