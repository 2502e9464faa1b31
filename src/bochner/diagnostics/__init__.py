"""What data and kernel are like together: effective dimension, decay, coherence, distances, spectral density."""

from bochner.diagnostics.densities import SpectralCheck, spectral_check
from bochner.diagnostics.distances import DistanceConcentration, distance_concentration
from bochner.diagnostics.grams import (
    Coherence,
    DimensionCurve,
    GramSpectrum,
    SpectrumDecay,
    effective_dimension_curve,
    gram_spectrum,
    leverage_coherence,
    spectrum_decay,
)

__all__ = [
    "Coherence",
    "DimensionCurve",
    "DistanceConcentration",
    "GramSpectrum",
    "SpectralCheck",
    "SpectrumDecay",
    "distance_concentration",
    "effective_dimension_curve",
    "gram_spectrum",
    "leverage_coherence",
    "spectral_check",
    "spectrum_decay",
]
