"""Forewarn says how likely a car or robot is to break a rule soon, and steps in."""

__version__ = "0.1.0"
