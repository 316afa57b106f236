"""Measuring: what warnings are worth on runs that nobody learned from."""
