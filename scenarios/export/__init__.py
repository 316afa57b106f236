"""Runs written for other tools to show."""
