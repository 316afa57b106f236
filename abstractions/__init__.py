"""Frames, signals, the expression language, predicates and abstract states."""

if not __name__.startswith("forewarn."):
    raise ImportError(f"import forewarn.{__name__}, not {__name__}")
