"""Kernels for NVIDIA GPUs: features written at the speed of the memory. Triton compiles them on their first call."""

from bochner.backends._triton import blocks, dense, layouts, sketches, tiles, transforms

__all__ = ["blocks", "dense", "layouts", "sketches", "tiles", "transforms"]
