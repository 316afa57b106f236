"""The guarded loop, which carries out a guard's decisions.

The class `GuardedLoop` in the module `loop` is the entry point; the other modules
contain its parts.
"""

__all__ = ["alerts", "approval", "guarding", "loop", "records"]
