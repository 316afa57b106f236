"""Markov chains: counting, learning, bounds, reading and writing."""
