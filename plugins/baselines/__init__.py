"""The simplest warning: the law's own monitor, without any prediction.

It alarms as soon as an obligation is pending. For a law such as "a car at the line at
red stops within two seconds", that is at the line, so never before the trigger. The
comparison shows the value of prediction.
"""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.contracts import Source


class Deadline:
    """Alarms while an obligation of the law is pending, and when the law is broken."""

    thresholds = (1.0,)

    def __init__(self, law: Law, source: Source) -> None:
        if lacking := sorted(set(law.signals) - set(source.provides)):
            raise InvalidInput(f"{source.name} does not provide {', '.join(lacking)}")
        self._law = FollowedLaw(law, source.period_s)
        self.reset()

    def reset(self) -> None:
        self._law.reset()
        self._score = 0.0

    def score(self, frame: Frame) -> float:
        for verdict in self._law.frame(frame):
            self._score = float(verdict.status != "ok")
        return self._score
