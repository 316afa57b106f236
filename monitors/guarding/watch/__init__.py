"""What a guard watches, and how it is made from a model or several."""

from forewarn.monitors.guarding.watch.chain import ChainWatch
from forewarn.monitors.guarding.watch.law import LawWatch
from forewarn.monitors.guarding.watch.loading import MAX_HORIZON, load_watch
from forewarn.monitors.guarding.watch.watch import States, Watch

__all__ = ["MAX_HORIZON", "ChainWatch", "LawWatch", "States", "Watch", "load_watch"]
