"""Kernels for NVIDIA GPUs: features are written as fast as memory allows. Triton compiles them on their first call."""

from bochner.backends._triton import blocks, dense, digits, layouts, sketches, tiles, transforms

__all__ = ["blocks", "dense", "digits", "layouts", "sketches", "tiles", "transforms"]
