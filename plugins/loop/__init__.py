"""The guarded loop: interventions and acknowledgements.

Callers need only `GuardedLoop` from `loop`; the other modules are its parts.
"""

__all__ = ["alerts", "approval", "guarding", "loop", "records"]
