"""Evolving: rules that grow, narrow and widen until they fit what was labelled."""
