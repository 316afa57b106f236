"""Responsibility-Sensitive Safety (RSS) as a baseline.

The baseline raises an alarm if a safe distance is not kept. If the world provides the
RSS margins as signals, the baseline uses them. Otherwise, the baseline computes the
safe distance to the vehicle ahead and, on a collision course with a crossing road user,
the distance that is needed to stop before the conflict.
"""

from __future__ import annotations

from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.baselines.driving import (
    refuse_unless_driving,
    refuse_unless_of_others,
)
from forewarn.plugins.contracts import Source
from forewarn.plugins.driving.rss import SIGNALS, behind, stopping

FAR = 1000.0
_KMH = 3.6
_WORKED_OUT_FROM = ("speed", "lead_distance", "lead_speed", "time_to_collision")


class ResponsibilitySensitiveSafety:
    """A baseline whose score is the shortfall below the safe distance, in m."""

    thresholds = (0.0,)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_of_others(law)
        self._given = set(SIGNALS) <= set(source.provides)
        needed = SIGNALS if self._given else _WORKED_OUT_FROM
        refuse_unless_driving(law, source, *needed)

    def reset(self) -> None:
        """Does nothing: the baseline has no state."""

    def score(self, frame: Frame) -> float:
        values = frame.values
        if self._given:
            along, across = (values[name] for name in SIGNALS)
            # It is enough to keep one of the two safe distances.
            return -FAR if along is None or across is None else -max(along, across)
        speed = values["speed"] / _KMH
        margin, collides_s = FAR, values["time_to_collision"]
        gap, its = values["lead_distance"], values["lead_speed"]
        if gap is not None and its is not None:
            margin = gap - behind(speed, its / _KMH)
        if collides_s is not None:
            margin = min(margin, collides_s * speed - stopping(speed))
        # A stationary ego is already as safe as possible.
        return -margin if speed > 0.0 else -FAR
