"""Every theorem: the tests check all of them in the same way."""

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
