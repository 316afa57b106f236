"""Temporal formulas, the law book, and the automata that watch them."""
