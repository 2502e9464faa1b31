"""Kernels, maps and peers compared on a dataset, with a report."""
