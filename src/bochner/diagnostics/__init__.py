"""Properties of data, kernels and points: effective dimension, decay, coherence, spectral density, discrepancy."""

from bochner.diagnostics.discrepancies import box_discrepancy, star_discrepancy
from bochner.diagnostics.grams import (
    Coherence,
    DimensionCurve,
    DistanceConcentration,
    GramSpectrum,
    SpectrumDecay,
    distance_concentration,
    effective_dimension_curve,
    gram_spectrum,
    leverage_coherence,
    spectrum_decay,
)
from bochner.diagnostics.spectral_checks import SpectralCheck, spectral_check

__all__ = [
    "Coherence",
    "DimensionCurve",
    "DistanceConcentration",
    "GramSpectrum",
    "SpectralCheck",
    "SpectrumDecay",
    "box_discrepancy",
    "distance_concentration",
    "effective_dimension_curve",
    "gram_spectrum",
    "leverage_coherence",
    "spectral_check",
    "spectrum_decay",
    "star_discrepancy",
]


def __dir__() -> list[str]:
    return sorted(__all__)
