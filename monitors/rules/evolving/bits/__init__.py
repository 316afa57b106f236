"""Labelled runs as bits: what holds where, which runs that names, what is least."""
