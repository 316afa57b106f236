"""Computes driving signals in MetaDrive."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from forewarn.plugins.driving.courses import PERIOD_S, Course, CourseSenses, Lane

_STEP_S, _STEPS = 0.2, 25


def lanes_on(vehicle: Any, lane: Any) -> Iterator[Any]:
    """Yields the predicted lanes of a vehicle after `lane`, one after the other."""
    plan = vehicle.navigation.checkpoints
    onward = dict(zip(plan, plan[1:], strict=False))
    graph = vehicle.navigation.map.road_network.graph
    for _ in plan:
        start, end, place = lane.index
        roads = graph.get(end, {})
        there = onward.get(end) if onward.get(start) == end else next(iter(roads), None)
        if there not in roads:
            return
        lanes = roads[there]
        follows = [each for each in lanes if lane.is_previous_lane_of(each)]
        lane = follows[0] if follows else lanes[min(place, len(lanes) - 1)]
        yield lane


class MetaDriveSenses(CourseSenses):
    """Computes the signals of episodes in MetaDrive."""

    MORE = ("off_road", "edge_margin", "time_to_edge")

    def ego(self, env: Any) -> Any:
        return env.inside.agent

    def everyone(self, env: Any) -> Any:
        return env.inside.engine.traffic_manager.vehicles

    def course(self, vehicle: Any) -> Course:
        """Predicts the course of a vehicle along its lane and its planned lanes."""
        following = lanes_on(vehicle, vehicle.lane)

        def after() -> Lane | None:
            lane = next(following, None)
            return None if lane is None else _lane(lane)

        return Course.along(
            vehicle.position, float(vehicle.speed), _lane(vehicle.lane), after
        )

    def reset(self, env: Any) -> None:
        super().reset(env)
        self._heading = float(env.inside.agent.heading_theta)

    def own(self, ego: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        heading = float(ego.heading_theta)
        turns = math.remainder(heading - self._heading, math.tau) / PERIOD_S
        self._heading = heading
        room_m = list(_room_m(ego, turns))
        beyond = next((n for n, each in enumerate(room_m) if each < 0.0), None)
        return {
            "collision": bool(info["crash"]),
            "off_road": bool(info["out_of_road"]),
            "destination_reached": bool(info["arrive_dest"]),
            "edge_margin": room_m[0],
            "time_to_edge": None if beyond is None else round(beyond * _STEP_S, 1),
        }


def _room_m(ego: Any, turns: float) -> Iterator[float]:
    """Yields the predicted distances from the ego to the nearer road edge, in m.

    The first distance is the current one. The ego is predicted to keep its speed and
    yaw rate.

    Args:
        ego: The ego vehicle.
        turns: The yaw rate of the ego in radians per second.
    """
    lane = ego.lane
    following = lanes_on(ego, lane)
    after = next(following, None)
    graph = ego.navigation.map.road_network.graph
    heading, at = float(ego.heading_theta), np.array(ego.position, dtype=float)
    for _ in range(_STEPS):
        along_m, right_m = lane.local_coordinates(at)
        while along_m > lane.length and after is not None:
            lane, after = after, next(following, None)
            along_m, right_m = lane.local_coordinates(at)
        start, end, place = lane.index
        width = lane.width
        left = right_m + (place + 0.5) * width
        right = (len(graph[start][end]) - place - 0.5) * width - right_m
        # The road ends at the end of a lane that has no successor.
        ends = lane.length - along_m - ego.LENGTH / 2.0 if after is None else np.inf
        room = min(left - ego.WIDTH / 2.0, right - ego.WIDTH / 2.0, ends)
        yield float(np.clip(room, -1000.0, 1000.0))
        ahead_m = float(ego.speed) * _STEP_S
        at = at + ahead_m * np.array([math.cos(heading), math.sin(heading)])
        heading += turns * _STEP_S


def _lane(lane: Any) -> Lane:
    return Lane(
        lane.length, lane.local_coordinates, lane.position, lane.heading_theta_at
    )
