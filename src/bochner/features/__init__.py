"""Feature maps X ↦ Z with ZZᵀ ≈ K: frozen values that `fit` makes and that may be called without validation."""

from bochner.features.fourier import Fourier, choose_rows, draw_frequencies, fourier_map, n_frequencies
from bochner.features.maps import FeatureMap, row_blocks
from bochner.features.nystrom import Nystrom, nystrom_map
from bochner.features.projections import Projection
from bochner.features.tensor_sketch import TensorSketch, convolve, tensor_sketch

__all__ = [
    "FeatureMap",
    "Fourier",
    "Nystrom",
    "Projection",
    "TensorSketch",
    "choose_rows",
    "convolve",
    "draw_frequencies",
    "fourier_map",
    "n_frequencies",
    "nystrom_map",
    "row_blocks",
    "tensor_sketch",
]
