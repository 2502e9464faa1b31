"""The version: written here, and read by the build and by everything that says it."""

__version__ = "0.1.0"
