"""Converts a scene to signals: what the ego's driver could know at that time.

All signals are causal. Distances are measured from the front bumper along the path.
Speeds are in km/h; the other units are m, s and m/s². The predictive signals are
defined as follows.

A vehicle occupies a conflict point from the time when its front reaches the point until
its rear has left it. `arrival_gap` is the time between the intervals in which the ego
and a crossing vehicle occupy their conflict point. If the intervals overlap, it is 0,
and the two are on a collision course. The ego is assumed to keep its speed, as far as
turns allow, or to accelerate at 2 m/s² if it is slow. Other vehicles keep their speeds.
`time_to_collision` is the time until the ego reaches the first conflict point on a
collision course, or until a collision with the lead vehicle, whichever is sooner.

Inside a junction, `traffic_light` is the light at the stop line that the ego passed,
with the colour that it had then.
"""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field

from forewarn.abstractions.serial import Strict
from forewarn.plugins.driving.act import CarSurroundings
from forewarn.plugins.driving.encroachment import Encroachments
from forewarn.plugins.driving.foresight import (
    DRAC,
    Foresight,
    Progress,
    rounded,
    to_lead_speed,
)
from forewarn.plugins.driving.foresight import NAMES as FORESIGHT
from forewarn.plugins.driving.others import (
    Conflict,
    Demand,
    LaneChanges,
    around,
    braking,
    jammed,
    see_around,
    see_crossing,
    see_lead,
    see_people,
)
from forewarn.plugins.driving.roads import Lane, LinkDirection, Roads, Way
from forewarn.plugins.driving.scene import Colour, Light, Mover, Scene

PROVIDES = (
    "speed", "acceleration", "brake", "throttle", "gear", "engine_on",
    "manual_control", "turn_signal", "direction", "lane_changing", "overtaking",
    "turning_around", "lane_count", "lane_direction", "speed_limit_min", "speed_limit",
    "junction_distance", "stop_line_distance", "crosswalk_distance",
    "stop_sign_distance", "in_junction", "past_stop_line", "signal_ahead",
    "traffic_light", "traffic_light_blinking", "traffic_light_age", "arrow_light",
    "arrow_light_blinking", "lead_distance", "lead_speed", "nearest_distance",
    "nearest_speed", "oncoming_distance", "oncoming_speed", "pedestrian_distance",
    "priority_vehicle", "priority_pedestrian", "traffic_jam", "honking_allowed",
    "horn_on", "high_beam_on", "low_beam_on", "fog_light_on", "warning_flash_on",
    "street_light_on", "rain", "snow", "fog", "visibility", "time_of_day",
    "special_location", "special_location_distance", "collision",
    "destination_reached", "required_deceleration", "time_to_stop_line",
    "time_to_collision", "arrival_gap", "pedestrian_arrival_gap", "braking",
    "priority_gap", "priority_arrival", "side_margin", *FORESIGHT, "snapshot_age",
)  # fmt: skip

CRITICALITY = (DRAC, "post_encroachment_time")
"""Signals that a world adds only on request, because their computation is slow."""

FULL_BRAKE = 9.0  # m/s²
FULL_THRUST = 4.0  # m/s²

_BRAKING = 0.5  # m/s²
_DRIFTING = 0.05  # m/s across the lane
_ROLLING = 0.1  # m/s
_MOST = 1000.0
_STOPPING = (Colour.RED, Colour.YELLOW)
_F, _L, _R, _U = (
    LinkDirection.FORWARD,
    LinkDirection.LEFT,
    LinkDirection.RIGHT,
    LinkDirection.U_TURN,
)
_LANE_DIRECTIONS = {
    frozenset({_F}): "forward", frozenset({_L}): "left", frozenset({_R}): "right",
    frozenset({_F, _L}): "forward_left", frozenset({_F, _R}): "forward_right",
    frozenset({_L, _R}): "left_right", frozenset({_F, _L, _R}): "all",
    frozenset({_U}): "u_turn",
}  # fmt: skip


class Surroundings(Strict):
    """Weather, time of day and traffic rules, which are constant during an episode."""

    time_of_day: float = Field(default=12.0, ge=0, le=24)
    rain: float = Field(default=0.0, ge=0, le=1)
    snow: float = Field(default=0.0, ge=0, le=1)
    fog: float = Field(default=0.0, ge=0, le=1)
    visibility: float = Field(default=10_000.0, ge=0)
    street_light_on: bool = False
    honking_allowed: bool = True
    speed_limit_min: float | None = Field(default=None, ge=0)


class Senses:
    """Computes the signals of one episode, frame by frame.

    Args:
        scene: The scene with all road users.
        surroundings: The conditions that are constant during the episode.
        period_s: The time between frames in seconds.
        criticality: Whether to add the signals of `CRITICALITY`.
    """

    def __init__(
        self,
        scene: Scene,
        surroundings: Surroundings,
        period_s: float,
        *,
        criticality: bool = False,
    ) -> None:
        self.scene, self._period_s = scene, period_s
        self._encroachments = Encroachments() if criticality else None
        self.conflicts: list[Conflict] = []
        """The conflicts with road users who will cross the ego's path."""
        self.left_m = 0.0  # the rest of the path
        self._way = Way({}, (), 0.0)
        self._of_lane: dict[str, Any] = {}
        self._way_of: tuple[str, tuple[str, ...]] = "", ()
        self._speed: float | None = None
        self._light: Light | None = None
        self._light_age_s: float | None = None
        self._past_line = False
        self._changes = LaneChanges(scene)
        self._foresight = Foresight(period_s)
        self._constant: dict[str, Any] = {
            "gear": "drive", "engine_on": True, "manual_control": False,
            "arrow_light": None, "arrow_light_blinking": None,
            "special_location": None, "special_location_distance": None,
            "warning_flash_on": False, "destination_reached": False,
            "snapshot_age": 0.0, "stop_sign_distance": None,
            **surroundings.model_dump(),
        }  # fmt: skip

    def values(self, time_s: float, collision: bool, horn: bool) -> dict[str, Any]:
        """Returns the signals at this time."""
        ego = self.scene.ego
        progress = self._progress(ego)
        self._see_light(progress)
        values = {
            **self._constant,
            **self._motion(ego),
            **_shown(ego, horn),
            **self._on_lane(ego, progress),
            **self._ahead(progress),
            "collision": collision,
            "time_to_stop_line": _time_to(progress.to_line, ego.speed),
        }
        if progress.line is not None and progress.line.stops:
            values["stop_sign_distance"] = values["stop_line_distance"]
        values |= self._others(ego, time_s, progress)
        values |= self._foresight.of(values)
        if self._encroachments is not None:
            movers, people = self.scene.vehicles, self.scene.people
            values[DRAC] = to_lead_speed(values)
            values["post_encroachment_time"] = self._encroachments.since_s(
                time_s, ego, movers.values(), people.values()
            )
        return values

    def around(self, speed: float) -> CarSurroundings:
        """Returns the surroundings that are needed to stop the ego safely.

        Args:
            speed: The speed of the ego in m/s.
        """
        return CarSurroundings(speed, self.scene.behind(), self.conflicts)

    # -- the ego and its path ---------------------------------------------------------

    def _progress(self, ego: Mover) -> Progress:
        """Returns the position along the path, which is recomputed when the lane
        changes.
        """
        way_of = ego.lane, self.scene.route
        if way_of != self._way_of:
            self._way_of, self._way = way_of, self.scene.way()
            roads = self.scene.roads
            self._of_lane = _of_lane(roads.lanes[ego.lane], roads)
        at_m = self._way.start_m[ego.lane] + ego.at_m
        self.left_m = self._way.length_m - at_m
        progress = Progress.along(self._way, at_m)
        if progress.here is not None:
            self._past_line = self._past_line or progress.here.has_line
        elif progress.to_line is not None:
            self._past_line = False
        return progress

    def _motion(self, ego: Mover) -> dict[str, Any]:
        before, self._speed = self._speed, ego.speed
        gains = 0.0 if before is None else (ego.speed - before) / self._period_s
        brake, thrust = max(0.0, -gains) / FULL_BRAKE, max(0.0, gains) / FULL_THRUST
        return {
            "speed": round(3.6 * ego.speed, 3),
            "acceleration": round(gains, 3),
            "brake": round(min(100.0, brake * 100), 2),
            "throttle": round(min(100.0, thrust * 100), 2),
            "braking": gains < -_BRAKING,
        }

    def _on_lane(self, ego: Mover, progress: Progress) -> dict[str, Any]:
        here, ahead = progress.here, progress.here or progress.ahead
        seen = ahead is not None and progress.to_junction is not None
        return {
            "direction": str(ahead.turn if ahead and seen else _F),
            "lane_changing": abs(ego.lateral) > _DRIFTING,
            "turning_around": here is not None and here.turn is _U,
            **self._of_lane,
        }

    # -- what is ahead of the ego -----------------------------------------------------

    def _see_light(self, progress: Progress) -> None:
        """Updates the traffic light that governs the ego.

        It is the light at the next stop line or, inside a junction, at the line passed.
        """
        here, line, light = progress.here, progress.line, self._light
        name = None if line is None or progress.to_line is None else line.light
        if here is None or here.light is None:
            light = None if name is None else self.scene.light(name)
        if light is None:
            self._light_age_s = None
        elif self._light is None:
            self._light_age_s = None if name is None else self.scene.light_age_s(name)
        elif light.colour is not self._light.colour:
            self._light_age_s = 0.0
        elif self._light_age_s is not None:
            self._light_age_s += self._period_s
        self._light = light

    def _ahead(self, progress: Progress) -> dict[str, Any]:
        line, light = progress.line, self._light
        governed = line is not None and line.light is not None
        return {
            "junction_distance": rounded(progress.to_junction),
            "stop_line_distance": rounded(progress.to_line),
            "crosswalk_distance": rounded(progress.to_crosswalk),
            "in_junction": progress.here is not None,
            "past_stop_line": self._past_line,
            "signal_ahead": governed and progress.to_line is not None,
            "traffic_light": None if light is None else str(light.colour),
            "traffic_light_blinking": None if light is None else light.blinking,
            "traffic_light_age": rounded(self._light_age_s),
        }

    def _others(self, ego: Mover, time_s: float, progress: Progress) -> dict[str, Any]:
        """Returns the signals about other road users and about the braking required."""
        scene, demand = self.scene, Demand(ego.speed)
        self.conflicts.clear()
        seen = around(scene)
        lead = scene.lead(progress.way, progress.at_m, seen.near)
        values = see_lead(lead, demand)
        crossing = see_crossing(scene, seen.near, progress, demand, self.conflicts)
        values |= crossing.signals
        values["traffic_jam"] = jammed(scene, seen.near, progress)
        values |= see_around(ego, seen)
        values |= see_people(scene, progress, demand, self.conflicts)
        changes = abs(ego.lateral) > _DRIFTING
        margin = self._changes.side_margin(progress, changes)
        first = crossing.first or (margin is not None and margin < 0.0)
        return values | {
            "side_margin": rounded(margin),
            "priority_vehicle": first,
            "overtaking": self._changes.overtakes(changes, time_s, lead),
            "time_to_collision": (
                None if demand.collision_s == math.inf else rounded(demand.collision_s)
            ),
            "required_deceleration": self._required(demand, progress, first),
        }

    def _required(
        self, demand: Demand, progress: Progress, first: bool
    ) -> float | None:
        """Returns the hardest braking that a road user or the stop line requires, in
        m/s².
        """
        asked, to_line = demand.deceleration or None, progress.to_line
        if to_line is not None:
            gives_way = first and progress.line is progress.ahead
            if gives_way or (self._light and self._light.colour in _STOPPING):
                asked = max(braking(demand.speed, to_line), asked or 0.0)
        return None if asked is None else round(min(asked, _MOST), 3)


def _of_lane(lane: Lane, roads: Roads) -> dict[str, Any]:
    """Returns the signals that are constant along a lane."""
    turns = {link.turn for link in lane.links}
    if len(turns) > 1:
        turns.discard(_U)
    return {
        "lane_count": 0 if lane.inside else roads.lane_count(lane.edge),
        "lane_direction": _LANE_DIRECTIONS.get(frozenset(turns), "forward"),
        "speed_limit": round(lane.limit_kmh, 1),
    }


def _shown(ego: Mover, horn: bool) -> dict[str, Any]:
    """Returns the ego's lights and horn."""
    return {
        "turn_signal": str(ego.signal),
        "horn_on": horn,
        "high_beam_on": ego.lamps.high_beam,
        "low_beam_on": ego.lamps.low_beam,
        "fog_light_on": ego.lamps.fog,
    }


def _time_to(distance: float | None, speed: float) -> float | None:
    return None if distance is None or speed <= _ROLLING else round(distance / speed, 3)
