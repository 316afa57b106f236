"""The bridge to Apollo: signals from channels, interventions, and `.record` files."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
