"""What is promised: one function per theorem, named for its promise, with its inverse beside it.

Plain functions of plain numbers; nothing here draws, and nothing else of bochner is imported. Each docstring
gives the assumption, the source, the formula and how loose it was measured to be. ``n_frequencies`` counts
independent frequency vectors; a map of cosine and sine pairs has twice as many columns (``n_components``).
Kernels are normalised to k(0) = 1, and Gaussian means exp(-||x - y||² / (2 length_scale²)).
"""

from bochner.theory.approximations import (
    greedy_error,
    greedy_terms,
    hilbert_mean_error,
    kitchen_sinks_error,
    kitchen_sinks_frequencies,
    kitchen_sinks_risk,
)
from bochner.theory.costs import Cost, cost_estimate
from bochner.theory.coverings import (
    covering_number,
    covering_radius,
    eps_net,
    lipschitz_constant,
    log_covering_number,
    packing_radius,
)
from bochner.theory.features import (
    all_pairs_error,
    all_pairs_frequencies,
    offset_variance,
    pair_variance,
    pointwise_error,
    pointwise_failure,
    pointwise_frequencies,
)
from bochner.theory.matrices import (
    gaussian_sketch_risk,
    gaussian_sketch_size,
    low_rank_components,
    low_rank_error,
    spectral_error,
    spectral_frequencies,
    trace_upper_factor,
)
from bochner.theory.projections import (
    chi2_tail,
    distance_range,
    jl_distortion,
    jl_failure,
    jl_min_dim,
    norm_distortion,
)
from bochner.theory.ridges import (
    effective_dimension,
    effective_dimension_range,
    ridge_error,
    ridge_frequencies,
)
from bochner.theory.suprema import (
    gaussian_uniform_error,
    gaussian_uniform_frequencies,
    spectral_second_moment,
    uniform_error,
    uniform_failure,
    uniform_frequencies,
)

__all__ = [
    "Cost",
    "all_pairs_error",
    "all_pairs_frequencies",
    "chi2_tail",
    "cost_estimate",
    "covering_number",
    "covering_radius",
    "distance_range",
    "effective_dimension",
    "effective_dimension_range",
    "eps_net",
    "gaussian_sketch_risk",
    "gaussian_sketch_size",
    "gaussian_uniform_error",
    "gaussian_uniform_frequencies",
    "greedy_error",
    "greedy_terms",
    "hilbert_mean_error",
    "jl_distortion",
    "jl_failure",
    "jl_min_dim",
    "kitchen_sinks_error",
    "kitchen_sinks_frequencies",
    "kitchen_sinks_risk",
    "lipschitz_constant",
    "log_covering_number",
    "low_rank_components",
    "low_rank_error",
    "norm_distortion",
    "offset_variance",
    "packing_radius",
    "pair_variance",
    "pointwise_error",
    "pointwise_failure",
    "pointwise_frequencies",
    "ridge_error",
    "ridge_frequencies",
    "spectral_error",
    "spectral_frequencies",
    "spectral_second_moment",
    "trace_upper_factor",
    "uniform_error",
    "uniform_failure",
    "uniform_frequencies",
]
