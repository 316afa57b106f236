"""The guarded loop: what is done about a decision, and whether it was obeyed.

`GuardedLoop` in `loop` is all that a caller needs; it takes its parts from here.
"""

__all__ = ["alerts", "approval", "guarding", "loop", "records"]
