"""Feature maps X ↦ Z with ZZᵀ ≈ K: frozen values that `fit` makes and that may be called without validation."""

from bochner.features.fourier import Fourier, choose_rows, draw_frequencies, fourier_map, n_frequencies
from bochner.features.kitchen_sinks import ACTIVATIONS, KitchenSink
from bochner.features.maclaurin import Maclaurin, geometric_map, optimal_map, series_of, squared_radius
from bochner.features.maps import FeatureMap, row_blocks

__all__ = [
    "ACTIVATIONS",
    "FeatureMap",
    "Fourier",
    "KitchenSink",
    "Maclaurin",
    "choose_rows",
    "draw_frequencies",
    "fourier_map",
    "geometric_map",
    "n_frequencies",
    "optimal_map",
    "row_blocks",
    "series_of",
    "squared_radius",
]
