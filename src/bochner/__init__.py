"""Kernel methods on millions of rows: random features, Nyström columns and sketches, learned in one pass."""

from bochner.lazy import exports
from bochner.version import __version__ as __version__

__getattr__, __dir__ = exports(__name__, __file__)
