"""Computes driving signals from the positions of road users, without a map.

All road users are assumed to keep their speed and heading. The ego's path is a straight
strip as wide as the ego. The lead vehicle is the nearest vehicle that overlaps the
strip, and its speed is measured along the strip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forewarn.plugins.driving.encroachment import Encroachments
from forewarn.plugins.driving.foresight import DRAC, Foresight, rounded
from forewarn.plugins.driving.others import Demand, see_lead
from forewarn.plugins.driving.scene import (
    LEAD_SEEN_M,
    Mover,
    Near,
    clearance,
    half_extent,
    middle,
    touches,
)

FORESEEN = (
    "shortfall", "unanswered_age", "standing_age", "headway", "lead_acceleration",
    DRAC,
)  # fmt: skip
PROVIDES = (
    "speed", "acceleration", "braking", "lead_distance", "lead_speed",
    "nearest_distance", "nearest_speed", "pedestrian_distance", "time_to_collision",
    "required_deceleration", "post_encroachment_time", "collision", *FORESEEN,
)  # fmt: skip

_BRAKING = 0.5  # m/s²
_MOST = 1000.0
_AHEAD_S = 10.0
"""The prediction horizon: later collisions are ignored."""
_PEOPLE_M = 40.0
_ASIDE_M = 1.0
"""A pedestrian this close to the ego's path is assumed to be about to enter it."""


class BodySenses:
    """Computes the signals of one episode, frame by frame.

    Args:
        period_s: The time between frames in seconds.
    """

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._before: tuple[float, float] | None = None
        self._foresight = Foresight(period_s)
        self._encroachments = Encroachments()

    def values(
        self,
        time_s: float,
        ego: Mover,
        vehicles: Sequence[Mover],
        people: Sequence[Mover] = (),
        collision: bool | None = None,
    ) -> dict[str, Any]:
        """Returns the signals at this time.

        Args:
            time_s: The current time in seconds.
            ego: The ego vehicle.
            vehicles: All other vehicles, including bicycles.
            people: The pedestrians.
            collision: Whether the ego has hit a road user. If None, overlapping bodies
                count as a collision.
        """
        everybody = [*vehicles, *people]
        struck = any(touches(ego, each) for each in everybody)
        demand = Demand(ego.speed)
        values = see_lead(_lead(ego, vehicles), demand)
        for each in everybody:
            meets_s = meeting_s(ego, each)
            if meets_s is not None and meets_s < _AHEAD_S:
                demand.collide_in(meets_s)
                if abs(_turned(ego, each)) > math.radians(45.0):
                    demand.brake_within(ego.speed * meets_s)
        near = min(
            ((away, each) for each in vehicles
             if (away := clearance(ego, each)) is not None),
            key=lambda pair: pair[0], default=None,
        )  # fmt: skip
        on_foot_m = _people_ahead(ego, people)
        gains = self._gains(time_s, ego.speed)
        asked, soonest_s = demand.deceleration or None, demand.collision_s
        values |= {
            "speed": round(3.6 * ego.speed, 3),
            "acceleration": round(gains, 3),
            "braking": gains < -_BRAKING,
            "nearest_distance": None if near is None else rounded(min(near[0], _MOST)),
            "nearest_speed": None if near is None else round(3.6 * near[1].speed, 3),
            "pedestrian_distance": rounded(on_foot_m),
            "time_to_collision": None if soonest_s == math.inf else rounded(soonest_s),
            "required_deceleration": None if asked is None else min(asked, _MOST),
            "post_encroachment_time": rounded(
                self._encroachments.since_s(time_s, ego, vehicles, people)
            ),
            "collision": struck if collision is None else collision,
        }
        return values | self._foresight.worked_out(FORESEEN, values)

    def _gains(self, time_s: float, speed: float) -> float:
        before, self._before = self._before, (time_s, speed)
        if before is None or time_s <= before[0]:
            return 0.0
        return max(-500.0, min(500.0, (speed - before[1]) / (time_s - before[0])))


def _turned(ego: Mover, other: Mover) -> float:
    return math.remainder(other.heading - ego.heading, math.tau)


def placed(ego: Mover, other: Mover) -> tuple[float, float, float]:
    """Returns the distances of a body ahead and to the left, and half its lateral
    extent.

    The distances are measured from the ego's front to the body's centre, in m.
    """
    x, y = middle(other)
    dx, dy = x - ego.x, y - ego.y
    cos, sin = math.cos(ego.heading), math.sin(ego.heading)
    half_m = half_extent(other, ego.heading + math.pi / 2.0)
    return dx * cos + dy * sin, dy * cos - dx * sin, half_m


def _lead(ego: Mover, vehicles: Sequence[Mover]) -> Near | None:
    """Returns the nearest vehicle in the ego's path, with its speed along the path."""
    nearest: Near | None = None
    for other in vehicles:
        ahead_m, left_m, half_m = placed(ego, other)
        if abs(left_m) >= half_m + ego.width / 2.0 or ahead_m <= 0.0:
            continue
        turned = _turned(ego, other)
        if abs(turned) > math.radians(135.0):
            continue  # oncoming
        room_m = max(0.0, ahead_m - half_extent(other, ego.heading))
        if room_m < (LEAD_SEEN_M if nearest is None else nearest.room_m):
            pace = max(0.0, other.speed * math.cos(turned))
            nearest = Near(replace(other, speed=pace), room_m)
    return nearest


def _people_ahead(ego: Mover, people: Sequence[Mover]) -> float | None:
    """Returns the distance to the nearest pedestrian in the ego's path or about to
    enter it.
    """
    ahead = (placed(ego, each) for each in people)
    return min(
        (max(0.0, ahead_m) for ahead_m, left_m, half_m in ahead
         if -ego.length < ahead_m < _PEOPLE_M
         and abs(left_m) < half_m + ego.width / 2.0 + _ASIDE_M),
        default=None,
    )  # fmt: skip


def meeting_s(ego: Mover, other: Mover) -> float | None:
    """Returns the time in seconds until two bodies touch, or None if they never will.

    Both are assumed to keep their speed and heading. Their projections on each axis of
    each body overlap during an interval. The bodies first touch when all four intervals
    have begun, provided that none has ended.
    """
    x, y = middle(ego)
    its_x, its_y = middle(other)
    dx, dy = its_x - x, its_y - y
    vx = other.speed * math.cos(other.heading) - ego.speed * math.cos(ego.heading)
    vy = other.speed * math.sin(other.heading) - ego.speed * math.sin(ego.heading)
    begins, ends = 0.0, math.inf
    for heading in (ego.heading, other.heading):
        for axis in (heading, heading + math.pi / 2.0):
            cos, sin = math.cos(axis), math.sin(axis)
            apart, closing = dx * cos + dy * sin, vx * cos + vy * sin
            reach = half_extent(ego, axis) + half_extent(other, axis)
            if abs(closing) < 1e-9:
                if abs(apart) >= reach:
                    return None
                continue
            one, two = (-reach - apart) / closing, (reach - apart) / closing
            begins, ends = max(begins, min(one, two)), min(ends, max(one, two))
    return begins if begins < ends else None
