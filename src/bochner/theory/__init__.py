"""Theorems as objects, and the identities they rest on as functions.

A `Bound` has its assumptions as fields and three methods that invert each other: ``failure(size, error)`` is a
probability, ``error(size, delta)`` and ``size(error, delta)`` hold with probability 1 - delta. Each docstring gives the
assumption, the source, the formula and how loose it was measured to be. They take and return plain numbers; nothing is
drawn. ``n_frequencies`` counts independent frequency vectors; a map of cosine and sine pairs has ``n_components`` twice
that. Kernels are normalised to k(0) = 1, and Gaussian means exp(-||x - y||² / (2 length_scale²)).
"""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
