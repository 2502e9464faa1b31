"""Feature maps: frozen, drawn once, applied block by block."""
