"""What the ego's driver could know on highway-env's roads, as driving signals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.plugins.driving.courses import Course, CourseSenses, Lane


def course(vehicle: Any) -> Course:
    """To the middle of the lane that it heads for, and of those that its plan says.

    The lane that is nearest may be one that crosses its own, and highway-env's own
    prediction fails where the next road has fewer lanes.
    """
    network, index = vehicle.road.network, vehicle.target_lane_index
    plan = list(vehicle.route or ())

    def lane() -> Lane:
        of = network.get_lane(index)
        return Lane(of.length, of.local_coordinates, of.position, of.heading_at)

    def after() -> Lane | None:
        nonlocal index
        end = network.get_lane(index)
        following = network.next_lane(index, plan, end.position(end.length, 0.0))
        if following == index:
            return None
        index = following
        return lane()

    return Course.along(vehicle.position, float(vehicle.speed), lane(), after)


class RoadSenses(CourseSenses):
    """The signals of one episode after the other."""

    MORE = ("lane_changing",)

    def ego(self, env: Any) -> Any:
        return env.vehicle

    def everyone(self, env: Any) -> Any:
        return env.road.vehicles

    def course(self, vehicle: Any) -> Course:
        return course(vehicle)

    def own(self, ego: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "lane_changing": ego.target_lane_index != ego.lane_index,
            "collision": bool(ego.crashed),
            "destination_reached": bool(info.get("destination_reached", False)),
        }
