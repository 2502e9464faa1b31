"""Sampling schemes of landmarks: which rows, or which means of rows, represent all of them."""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
