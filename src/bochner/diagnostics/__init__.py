"""Properties of data, kernels and points: effective dimension, decay, coherence, spectral density, discrepancy."""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
