"""Scenario files, the episode runner, campaigns, measurements and reports."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
