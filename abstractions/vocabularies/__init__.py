"""Vocabularies: signals with units, in YAML, and how they are read."""
