"""A guard on the time to collision, as many cars have one."""

from __future__ import annotations

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.laws.lawbook import Law
from forewarn.plugins.baselines.prediction import refuse_unless_driving
from forewarn.plugins.contracts import Source

OF_OTHERS = frozenset(
    "collision lead_distance lead_speed nearest_distance oncoming_distance"
    " pedestrian_distance priority_vehicle priority_pedestrian".split()
)
"""What a law reads that has to do with others on the road."""

NEVER = 1000.0


def refuse_unless_of_others(law: Law) -> None:
    """Raises for a law that has nothing to do with others on the road."""
    if OF_OTHERS.isdisjoint(law.signals):
        raise InvalidInput("the law has nothing to do with others on the road")


class TimeToCollision:
    """Scores the negative of the time to collision."""

    thresholds = (-3.0, -2.0, -1.5, -1.0)

    def __init__(self, law: Law, source: Source) -> None:
        refuse_unless_of_others(law)
        refuse_unless_driving(law, source, "time_to_collision")

    def reset(self) -> None:
        """It remembers nothing."""

    def score(self, frame: Frame) -> float:
        left_s = frame.values["time_to_collision"]
        return -NEVER if left_s is None else -min(float(left_s), NEVER)
