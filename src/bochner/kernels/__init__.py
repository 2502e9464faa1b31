"""Kernels: what is approximated. Exact Gram blocks, algebra, and the distributions of their random frequencies.

Kernels are scikit-learn parameter objects: they store what they were given and are never changed by the library;
``length_scale="median"`` becomes a number in a copy made by `Kernel.resolve`.
"""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
