"""Measures the quality of warnings on held-out runs."""
