"""The guarded loop: interventions and acknowledgements.

`GuardedLoop` in `loop` is all that a caller needs; it takes its parts from here.
"""

__all__ = ["alerts", "approval", "guarding", "loop", "records"]
