"""Laws and their automata, chains and their learning, risk, rules, and decisions."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
