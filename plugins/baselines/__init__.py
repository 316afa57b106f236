"""The simplest baseline: the monitor of the law, without any prediction.

The baseline raises an alarm when an obligation arises. For a law such as "a car at the
stop line at red stops within two seconds", the alarm comes at the stop line, and thus
never before the trigger. The comparison with the guard shows the value of prediction.
"""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.contracts import Source


def check_signals(source: Source, *needed: str) -> None:
    """Raises `InvalidInput` if a source lacks a signal that is needed."""
    if lacking := sorted(set(needed) - set(source.provides)):
        raise InvalidInput(
            f"{source.name} does not provide the required signals {', '.join(lacking)}"
        )


class Deadline:
    """Raises an alarm while an obligation is pending, and when the law is violated."""

    thresholds = (1.0,)

    def __init__(self, law: Law, source: Source) -> None:
        check_signals(source, *law.signals)
        self._law = FollowedLaw(law, source.period_s)
        self.reset()

    def reset(self) -> None:
        self._law.reset()
        self._score = 0.0

    def score(self, frame: Frame) -> float:
        for verdict in self._law.frame(frame):
            self._score = float(verdict.status != "ok")
        return self._score
