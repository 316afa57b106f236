"""Other ways to warn, to be measured beside the guard."""

from forewarn.plugins.baselines.deadline import Deadline

__all__ = ["Deadline"]
