"""Errors measured on the user's data, with confidence, without forming K."""

from bochner.lazy import exports

__getattr__, __dir__ = exports(__name__, __file__)
