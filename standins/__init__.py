"""Stand-ins for CARLA and Apollo: servers that speak the protocols of both systems."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
