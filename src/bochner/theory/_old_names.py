"""The functions that `bochner.theory` had before its theorems were objects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

from bochner.theory.bounds import Bound
from bochner.theory.feature_bounds import (
    AllPairsBound,
    GreedyBound,
    HilbertMeanBound,
    KitchenSinksBound,
    KitchenSinksRiskBound,
    PointwiseBound,
)
from bochner.theory.matrix_bounds import GaussianSketchBound, LowRankBound, RidgeBound, SpectralBound
from bochner.theory.projection_bounds import JohnsonLindenstraussBound, NormDistortionBound
from bochner.theory.uniform_bounds import GaussianUniformBound, UniformBound

Entry = tuple[str, Callable[..., Any]]


def _entry(bound: type[Bound], method: str, *names: str, **defaults: Any) -> Entry:
    """What to write instead, and a function of the arguments called `names` once that calls `method` of `bound`."""
    renamed = {bound.counts: "size", "eps": "error", "delta": "delta"}

    def function(*args: Any, **keywords: Any) -> Any:
        given = {**defaults, **dict(zip(names[: len(args)], args, strict=True)), **keywords}
        arguments = {new: given.pop(old) for old, new in renamed.items() if old in given}
        return getattr(bound(**given), method)(**arguments)

    assumed = ", ".join(f"{f.name}=..." for f in fields(bound) if f.default is MISSING)
    asked = {"failure": f"{bound.counts}, error", "error": f"{bound.counts}, delta", "size": "error, delta"}[method]
    return f"{bound.__name__}({assumed}).{method}({asked})", function


def _jl_min_dim(n_samples: int, eps: float, *, delta: float | None = 0.01, rule: str = "exact") -> int:
    bound = JohnsonLindenstraussBound(n_samples=n_samples, rule=rule)
    return bound.printed_size(eps) if delta is None else bound.size(eps, delta)


OLD_NAMES: dict[str, Entry] = {
    "all_pairs_error": _entry(AllPairsBound, "error", "n_samples", "n_frequencies"),
    "all_pairs_frequencies": _entry(AllPairsBound, "size", "n_samples", "eps"),
    "gaussian_sketch_risk": _entry(GaussianSketchBound, "error", "sketch_size", "rank"),
    "gaussian_sketch_size": _entry(GaussianSketchBound, "size", "eps", "rank"),
    "gaussian_uniform_error": _entry(GaussianUniformBound, "error", "n_frequencies"),
    "gaussian_uniform_frequencies": _entry(GaussianUniformBound, "size", "eps"),
    "greedy_error": _entry(GreedyBound, "error", "n_terms"),
    "greedy_terms": _entry(GreedyBound, "size", "eps"),
    "hilbert_mean_error": _entry(HilbertMeanBound, "error", "n_draws"),
    "jl_distortion": _entry(JohnsonLindenstraussBound, "error", "n_samples", "n_components", delta=0.01),
    "jl_failure": _entry(JohnsonLindenstraussBound, "failure", "n_samples", "n_components", "eps"),
    "jl_min_dim": ("JohnsonLindenstraussBound(n_samples=...).size(error, delta) or printed_size(error)", _jl_min_dim),
    "kitchen_sinks_error": _entry(KitchenSinksBound, "error", "n_frequencies"),
    "kitchen_sinks_frequencies": _entry(KitchenSinksBound, "size", "eps"),
    "kitchen_sinks_risk": _entry(KitchenSinksRiskBound, "error", "n_samples", "n_frequencies"),
    "low_rank_components": _entry(GaussianSketchBound, "size", "rank", "eps"),
    "low_rank_error": _entry(LowRankBound, "error", "singular_values", "n_components"),
    "norm_distortion": _entry(NormDistortionBound, "error", "n_components"),
    "pointwise_error": _entry(PointwiseBound, "error", "n_frequencies"),
    "pointwise_failure": _entry(PointwiseBound, "failure", "n_frequencies", "eps"),
    "pointwise_frequencies": _entry(PointwiseBound, "size", "eps"),
    "ridge_error": _entry(RidgeBound, "error", "n_frequencies", "effective_dimension"),
    "ridge_frequencies": _entry(RidgeBound, "size", "effective_dimension", eps=0.5, delta=0.01),
    "spectral_error": _entry(SpectralBound, "error", "n_samples", "n_frequencies"),
    "spectral_frequencies": _entry(SpectralBound, "size", "n_samples", "eps"),
    "uniform_error": _entry(UniformBound, "error", "n_frequencies"),
    "uniform_failure": _entry(UniformBound, "failure", "n_frequencies", "eps"),
    "uniform_frequencies": _entry(UniformBound, "size", "eps"),
}
