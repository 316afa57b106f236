"""Agents that run Python."""
