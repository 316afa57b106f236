"""Evolves rules from labelled traces."""
