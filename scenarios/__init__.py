"""Scenario files, the runner, campaigns, measuring, reports."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
