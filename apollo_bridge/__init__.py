"""Apollo: signals from channels, interventions, and records."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
