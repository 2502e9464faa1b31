"""Theorems as objects, and the identities they rest on as functions.

A `Bound` has its assumptions as fields and three methods that invert each other: ``failure(size, error)`` is a
probability, ``error(size, delta)`` and ``size(error, delta)`` hold with probability 1 - delta. Each docstring gives the
assumption, the source, the formula and how loose it was measured to be. They take and return plain numbers; nothing is
drawn. ``n_frequencies`` counts independent frequency vectors; a map of cosine and sine pairs has ``n_components`` twice
that. Kernels are normalised to k(0) = 1, and Gaussian means exp(-||x - y||² / (2 length_scale²)).
"""

from bochner.theory.bounds import Bound
from bochner.theory.costs import Cost, cost_estimate
from bochner.theory.feature_bounds import (
    AllPairsBound,
    GreedyBound,
    HilbertMeanBound,
    KitchenSinksBound,
    KitchenSinksRiskBound,
    PointwiseBound,
    offset_variance,
    pair_variance,
)
from bochner.theory.matrix_bounds import (
    GaussianSketchBound,
    LowRankBound,
    RidgeBound,
    SpectralBound,
    effective_dimension,
    effective_dimension_range,
    trace_upper_factor,
)
from bochner.theory.projection_bounds import (
    JohnsonLindenstraussBound,
    NormDistortionBound,
    chi2_tail,
    distance_range,
)
from bochner.theory.uniform_bounds import (
    GaussianUniformBound,
    UniformBound,
    covering_number,
    covering_radius,
    eps_net,
    lipschitz_constant,
    log_covering_number,
    packing_radius,
    spectral_second_moment,
)

BOUNDS: tuple[type[Bound], ...] = (
    PointwiseBound,
    AllPairsBound,
    UniformBound,
    GaussianUniformBound,
    SpectralBound,
    RidgeBound,
    LowRankBound,
    GaussianSketchBound,
    NormDistortionBound,
    JohnsonLindenstraussBound,
    HilbertMeanBound,
    KitchenSinksBound,
    KitchenSinksRiskBound,
    GreedyBound,
)
"""Every theorem: the tests check all of them in the same way."""

__all__ = [
    "BOUNDS",
    "AllPairsBound",
    "Bound",
    "Cost",
    "GaussianSketchBound",
    "GaussianUniformBound",
    "GreedyBound",
    "HilbertMeanBound",
    "JohnsonLindenstraussBound",
    "KitchenSinksBound",
    "KitchenSinksRiskBound",
    "LowRankBound",
    "NormDistortionBound",
    "PointwiseBound",
    "RidgeBound",
    "SpectralBound",
    "UniformBound",
    "chi2_tail",
    "cost_estimate",
    "covering_number",
    "covering_radius",
    "distance_range",
    "effective_dimension",
    "effective_dimension_range",
    "eps_net",
    "lipschitz_constant",
    "log_covering_number",
    "offset_variance",
    "packing_radius",
    "pair_variance",
    "spectral_second_moment",
    "trace_upper_factor",
]


def __dir__() -> list[str]:
    return sorted(__all__)
