"""Servers that speak CARLA's and Apollo's protocols, to test clients without them."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
