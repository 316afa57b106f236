"""Laws and their automata, chains and how they are learned, risk, decisions."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
