"""Feature maps X ↦ Z with ZZᵀ ≈ K: frozen values that `fit` makes and that may be called without validation."""

from bochner.features.fourier import Fourier, choose_rows, draw_frequencies, fourier_map, n_frequencies
from bochner.features.maps import FeatureMap, Identity, row_blocks

__all__ = [
    "FeatureMap",
    "Fourier",
    "Identity",
    "choose_rows",
    "draw_frequencies",
    "fourier_map",
    "n_frequencies",
    "row_blocks",
]
