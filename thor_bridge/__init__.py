"""AI2-THOR: metadata to predicates, interventions to the agent, the household."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
