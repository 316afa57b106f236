"""Contracts for worlds, pilots and actuators, and the plugs that carry them out."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
