"""Adapters that make a driver of any function of frames."""

from __future__ import annotations

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import Example
from forewarn.plugins.functions import found


class FunctionPilot:
    """Drives by any function from a frame to an acceleration in m/s².

    Args:
        function: Where it is: `package.module:name`, or `$here/file.py:name`. It is
            given the frame.
    """

    @staticmethod
    def example() -> Example:
        return Example({"function": f"{__name__}:steady"}, world="sumo")

    def __init__(self, *, function: str) -> None:
        self._function = found(function)

    def reset(self, seed: int) -> None:
        start = getattr(self._function, "reset", None)
        if start is not None:
            start(seed)

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        return Action("control", {"acceleration": float(self._function(frame))})


class PlannerPilot(FunctionPilot):
    """Drives by any planner that says where the car will be one period from now.

    Args:
        function: Where it is: `package.module:name`, or `$here/file.py:name`. It is
            given the frame and returns how far forward and to the left the car goes,
            in m, and how far it turns to the left, in degrees: all in the car's own
            frame.
    """

    @staticmethod
    def example() -> Example:
        return Example({"function": f"{__name__}:straight_on"}, world="sumo")

    def propose(self, frame: Frame, reflection: str | None = None) -> Action:
        forward, left, turn = self._function(frame)
        return Action(
            "pose",
            {
                "forward_m": float(forward),
                "left_m": float(left),
                "turn_left_deg": float(turn),
            },
        )


def steady(frame: Frame) -> float:
    """The simplest driver: it keeps to 40 km/h, whatever comes."""
    return (40.0 - float(frame.values["speed"])) / 3.6


def straight_on(frame: Frame) -> tuple[float, float, float]:
    """The simplest planner: half a metre ahead in each period."""
    return 0.5, 0.0, 0.0
