"""Random objects that are drawn once: keys, points, distributions of frequencies, and fast linear maps."""
