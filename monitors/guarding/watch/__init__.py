"""What a guard watches, and how it is made from a model."""

from forewarn.monitors.guarding.watch.law import LawWatch
from forewarn.monitors.guarding.watch.loading import MAX_HORIZON, load_watch
from forewarn.monitors.guarding.watch.watch import Watch

__all__ = ["MAX_HORIZON", "LawWatch", "Watch", "load_watch"]
