"""Markov chains: counted, learned, bounded, read and written."""
