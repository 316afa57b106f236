"""Contracts for worlds, pilots and actuators, and the plugs that carry them out."""

__all__ = ["actions", "contracts", "registry", "testing"]
"""What stands for whoever brings a plug; the folders are the plugs that ship."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
