"""Computes driving signals in highway-env."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forewarn.plugins.driving.courses import Course, CourseSenses, Lane


def course(vehicle: Any) -> Course:
    """Predicts the course of a vehicle along its target lane and its planned lanes.

    The nearest lane is not used, because it may be a crossing lane. The prediction of
    highway-env is not used, because it fails if the next road has fewer lanes.
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
    """Computes the signals of episodes in highway-env."""

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
