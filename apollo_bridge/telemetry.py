"""What Apollo shows of its obedience, and the route that it follows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from forewarn.apollo_bridge.wire import Inbox

EMERGENCY = 202
"""Planning's reason for a stop that a pad message asked for."""

_FRESH_S = 1.0


@dataclass(frozen=True, slots=True)
class Route:
    """Where the route ends, and at which speed it is to be driven.

    Args:
        x: The end, in the map's coordinates.
        y: The end.
        heading: The heading there, if it was told.
        target_speed: In m/s; None: the planner's own.
    """

    x: float
    y: float
    heading: float | None = None
    target_speed: float | None = None


class Telemetry:
    """Reads what the inbox holds; the inputs that it wants may be missing.

    Args:
        inbox: With the inputs `chassis` and `planning`; for routes also `routing`, and
            from Apollo 9 on `command`.
    """

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def _fresh(self, name: str) -> Any:
        newest, age_s = self._inbox.newest(name), self._inbox.age_s(name)
        fresh = newest is not None and age_s is not None and age_s <= _FRESH_S
        return newest.message if fresh and newest is not None else None

    @property
    def speed_kmh(self) -> float | None:
        """The chassis' speed; None if it is not known."""
        chassis = self._fresh("chassis")
        if chassis is None or not math.isfinite(chassis.speed_mps):
            return None
        return 3.6 * abs(float(chassis.speed_mps))

    @property
    def emergency_stop(self) -> bool | None:
        """Whether planning means to stop as it was told; None if it says nothing."""
        planning = self._fresh("planning")
        if planning is None:
            return None
        main = planning.decision.main_decision
        task = main.WhichOneof("task")
        stops = task == "stop" and main.stop.reason_code == EMERGENCY
        return bool(stops or task == "estop" or planning.estop.is_estop)

    @property
    def route(self) -> Route | None:
        """The route that was told last; None before one was."""
        command = self._inbox.newest("command")
        if command is not None and command.message.HasField("lane_follow_command"):
            message = command.message
            speed = message.target_speed if message.HasField("target_speed") else None
            return _route(message.lane_follow_command, speed)
        routing = self._inbox.newest("routing")
        return None if routing is None else _route(routing.message, None)


def _route(response: Any, target_speed: float | None) -> Route | None:
    waypoints = response.routing_request.waypoint
    if not waypoints:
        return None
    end = waypoints[-1]
    if not (math.isfinite(end.pose.x) and math.isfinite(end.pose.y)):
        return None
    heading = end.heading if end.HasField("heading") else None
    return Route(end.pose.x, end.pose.y, heading, target_speed)
