"""The plainest warning: the law's own monitor, and nothing that sees it coming.

It alarms as soon as the law asks for something that is not done yet. For a law such as
"a car at the line at red stands within two seconds", that is at the line: never before
the trigger. What foresight is worth shows against it.
"""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.monitors.laws.monitor import FollowedLaw
from forewarn.plugins.contracts import Source


class Deadline:
    """Alarms while something is owed under the law, and when it is broken."""

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
