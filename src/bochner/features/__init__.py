"""Feature maps X ↦ Z with ZZᵀ ≈ K: frozen values that `fit` makes and that may be called without validation."""

from bochner.features.compositions import (
    ConvolvedMap,
    ProductMap,
    ProjectedMap,
    RestrictedMap,
    ScaledMap,
    ShiftedMap,
    StackedMap,
    invariant_map,
)
from bochner.features.fourier import (
    Fourier,
    HistogramFourier,
    HistogramSamples,
    RandomBinning,
    binning_map,
    check_histograms,
    choose_rows,
    draw_frequencies,
    fourier_map,
    histogram_map,
    n_frequencies,
)
from bochner.features.kitchen_sinks import ACTIVATIONS, KitchenSink, RandomLayer, Thresholds, threshold_map
from bochner.features.maclaurin import (
    Maclaurin,
    geometric_map,
    is_series,
    monomial_map,
    optimal_map,
    series_of,
    squared_radius,
)
from bochner.features.maps import FeatureMap, FeatureMatrix, Identity, LinearAfter, Projection, features_of, row_blocks
from bochner.features.nystrom import KernelColumns, Nystrom, nystrom_map
from bochner.features.tensor_sketch import TensorSketch, convolve, tensor_sketch
from bochner.features.trees import Node, kernel_map

__all__ = [
    "ACTIVATIONS",
    "ConvolvedMap",
    "FeatureMap",
    "FeatureMatrix",
    "Fourier",
    "HistogramFourier",
    "HistogramSamples",
    "Identity",
    "KernelColumns",
    "KitchenSink",
    "LinearAfter",
    "Maclaurin",
    "Node",
    "Nystrom",
    "ProductMap",
    "ProjectedMap",
    "Projection",
    "RandomBinning",
    "RandomLayer",
    "RestrictedMap",
    "ScaledMap",
    "ShiftedMap",
    "StackedMap",
    "TensorSketch",
    "Thresholds",
    "binning_map",
    "check_histograms",
    "choose_rows",
    "convolve",
    "draw_frequencies",
    "features_of",
    "fourier_map",
    "geometric_map",
    "histogram_map",
    "invariant_map",
    "is_series",
    "kernel_map",
    "monomial_map",
    "n_frequencies",
    "nystrom_map",
    "optimal_map",
    "row_blocks",
    "series_of",
    "squared_radius",
    "tensor_sketch",
    "threshold_map",
]


def __dir__() -> list[str]:
    return sorted(__all__)
