"""Convex losses, and Newton's method on features that are streamed."""
