"""Vocabularies: declarations of signals with types and units, read from YAML files."""
