"""Trains models, thresholds and policies from collected runs."""
