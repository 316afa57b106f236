"""Rules that evolve from labelled events."""
