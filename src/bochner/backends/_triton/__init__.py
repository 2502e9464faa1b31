"""Kernels for NVIDIA GPUs: features written at the speed of the memory. Triton compiles them on their first call."""
