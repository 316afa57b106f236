"""Raw data to signals: what the ego's driver could know at this moment.

Everything is causal. Distances are from the front bumper along the way; speeds are in
km/h, everything else in m, s and m/s². How the foresight is meant:

Two movements that cross each hold the conflict point for a while: from the moment the
front comes to it until the rear has left it. `arrival_gap` is the time between the two
spans, 0 where they overlap: a collision course. The ego is taken to keep its speed, as
far as one can where it turns, or, when it is slow, to set off at 2 m/s²; others keep
theirs. `time_to_collision` is the
soonest such conflict, or the time to run into the vehicle ahead.

Inside a junction the light is the one, and has the colour, that it had at the line.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from forewarn.abstractions.schema import Strict
from forewarn.plugins.driving.arriving import rounded
from forewarn.plugins.driving.company import Company
from forewarn.plugins.driving.foresight import NAMES as FORESIGHT
from forewarn.plugins.driving.foresight import Foresight
from forewarn.plugins.driving.roads import Passage, Roads, Way
from forewarn.plugins.driving.scene import Scene

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

SEEN_M = 200.0  # lights, lines, junctions
FULL_BRAKE = 9.0  # m/s²
FULL_THRUST = 4.0  # m/s²

_COLOURS = {
    "r": "red", "u": "red", "y": "yellow", "Y": "yellow", "g": "green", "G": "green",
    "s": "green", "o": "yellow", "O": "off",
}  # fmt: skip
_TURNS = {
    "s": "forward", "l": "left", "L": "left", "r": "right", "R": "right",
    "t": "u_turn",
}  # fmt: skip
_LANE_DIRECTIONS = {
    frozenset("s"): "forward", frozenset("l"): "left", frozenset("r"): "right",
    frozenset("sl"): "forward_left", frozenset("sr"): "forward_right",
    frozenset("lr"): "left_right", frozenset("slr"): "all", frozenset("t"): "u_turn",
}  # fmt: skip
_BLINK_RIGHT, _BLINK_LEFT, _HAZARD, _FRONT, _FOG, _HIGH = 1, 2, 4, 16, 32, 64


class Surroundings(Strict):
    """Weather, time of day and rules of the road, the same all through an episode."""

    time_of_day: float = Field(default=12.0, ge=0, le=24)
    rain: float = Field(default=0.0, ge=0, le=1)
    snow: float = Field(default=0.0, ge=0, le=1)
    fog: float = Field(default=0.0, ge=0, le=1)
    visibility: float = Field(default=10_000.0, ge=0)
    street_light_on: bool = False
    honking_allowed: bool = True
    speed_limit_min: float | None = Field(default=None, ge=0)


class Senses:
    """What the ego perceives, frame after frame of one episode.

    Args:
        scene: Who is on the roads.
        roads: The roads.
        ego: The ego's name in the simulation.
        surroundings: What stays the same.
        period_s: The time between frames.
    """

    def __init__(
        self,
        scene: Scene,
        roads: Roads,
        ego: str,
        surroundings: Surroundings,
        period_s: float,
    ) -> None:
        self._scene, self.roads, self._ego = scene, roads, ego
        self._period_s = period_s
        self._route: tuple[str, ...] = tuple(scene.vehicle.getRoute(ego))
        self._lane = ""
        self._way = Way({}, (), 0.0)
        self.left_m = 0.0  # of the way
        self._speed: float | None = None
        self._colour: str | None = None
        self._blinking: bool | None = None
        self._colour_age_s: float | None = None
        self._past_line = False
        self._company = Company(scene, roads, ego)
        self._foresight = Foresight(period_s)
        self._constant: dict[str, Any] = {
            "gear": "drive", "engine_on": True, "manual_control": False,
            "arrow_light": None, "arrow_light_blinking": None,
            "special_location": None, "special_location_distance": None,
            "warning_flash_on": False, "destination_reached": False,
            "snapshot_age": 0.0, "stop_sign_distance": None,
            **surroundings.model_dump(),
        }  # fmt: skip

    @property
    def conflicts(self) -> list[tuple[float, float, float, float]]:
        """Where the ego's way meets others', from and to, and when they are there."""
        return self._company.conflicts

    def follow(self, route: tuple[str, ...]) -> None:
        """Takes another route: the edges from where the ego is."""
        self._route, self._lane = route, ""

    def values(self, time_s: float, collision: bool, horn: bool) -> dict[str, Any]:
        """The signals of this moment."""
        vehicle, ego = self._scene.vehicle, self._ego
        speed: float = vehicle.getSpeed(ego)
        acceleration = (
            0.0 if self._speed is None else (speed - self._speed) / self._period_s
        )
        self._speed = speed
        lane_name: str = vehicle.getLaneID(ego)
        if lane_name != self._lane:
            self._lane = lane_name
            ahead_of_it = self._route[max(0, vehicle.getRouteIndex(ego)) :]
            self._way = self.roads.way(lane_name, ahead_of_it)
        way = self._way
        at = way.start_m[lane_name] + vehicle.getLanePosition(ego)
        self.left_m = way.length_m - at
        here: Passage | None = None
        ahead: Passage | None = None
        line: Passage | None = None
        for passage in way.passages:
            if passage.end_m <= at or not passage.is_junction:
                continue
            if passage.line_m <= at:
                here = passage
                continue
            ahead = ahead or passage
            if passage.has_line:
                line = passage
                break
        lane = self.roads.lanes[lane_name]
        to_junction = None if ahead is None else ahead.line_m - at
        to_line = None if line is None else line.line_m - at
        if here is not None:
            to_junction = 0.0
            self._past_line = self._past_line or here.has_line
        if to_junction is not None and to_junction > SEEN_M:
            to_junction = None
        if to_line is not None:
            if to_line > SEEN_M:
                to_line = None
            elif here is None:
                self._past_line = False
        self._see_light(here, line, to_line)
        turning = here or ahead
        near = turning is not None and to_junction is not None
        direction = (
            _TURNS.get(turning.turn, "forward") if turning and near else "forward"
        )
        to_crosswalk: float | None = None
        for met in (here, ahead):
            if met is not None and to_crosswalk is None:
                for crosswalk in met.crosswalks:
                    left = met.line_m + crosswalk.at_m - at
                    if left > -2.0:
                        near_side = met.line_m + crosswalk.near_m - at
                        to_crosswalk = max(0.0, near_side)
                        break
        if to_crosswalk is not None and to_crosswalk > SEEN_M:
            to_crosswalk = None
        signals: int = vehicle.getSignals(ego)
        light_counts = line is not None and line.light is not None
        values = {
            **self._constant,
            "speed": round(3.6 * speed, 3),
            "acceleration": round(acceleration, 3),
            "brake": round(min(100.0, max(0.0, -acceleration) / FULL_BRAKE * 100), 2),
            "throttle": round(
                min(100.0, max(0.0, acceleration) / FULL_THRUST * 100), 2
            ),
            "braking": acceleration < -0.5,
            "turn_signal": _turn_signal(signals),
            "horn_on": horn,
            "high_beam_on": bool(signals & _HIGH),
            "low_beam_on": bool(signals & _FRONT),
            "fog_light_on": bool(signals & _FOG),
            "direction": direction,
            "lane_changing": abs(vehicle.getLateralSpeed(ego)) > 0.05,
            "turning_around": here is not None and here.turn == "t",
            "lane_count": 0 if lane.inside else self.roads.lane_count(lane.edge),
            "lane_direction": self._lane_direction(lane_name),
            "speed_limit": round(lane.limit_kmh, 1),
            "junction_distance": rounded(to_junction),
            "stop_line_distance": rounded(to_line),
            "crosswalk_distance": rounded(to_crosswalk),
            "in_junction": here is not None,
            "past_stop_line": self._past_line,
            "signal_ahead": light_counts and to_line is not None,
            "traffic_light": self._colour,
            "traffic_light_blinking": self._blinking,
            "traffic_light_age": rounded(self._colour_age_s),
            "collision": collision,
            "time_to_stop_line": (
                round(to_line / speed, 3)
                if to_line is not None and speed > 0.1
                else None
            ),
        }
        if line is not None and line.sign == "s":
            values["stop_sign_distance"] = values["stop_line_distance"]
        self._company.see(values, time_s, at, speed, here, ahead, way)
        if to_line is not None and (
            values["traffic_light"] in ("red", "yellow")
            or (values["priority_vehicle"] and line is ahead)
        ):
            needed = speed * speed / (2.0 * max(to_line, 0.1))
            asked = values["required_deceleration"]
            values["required_deceleration"] = max(needed, asked or 0.0)
        asked = values["required_deceleration"]
        if asked is not None:
            values["required_deceleration"] = round(min(asked, 1000.0), 3)
        values |= self._foresight.of(values)
        return values

    # -- the light and the lane -------------------------------------------------------

    def _see_light(
        self, here: Passage | None, line: Passage | None, to_line: float | None
    ) -> None:
        if here is not None and here.light is not None:
            colour, blinking = self._colour, self._blinking
            # Inside the junction it is the light that stood at the line.
        elif line is not None and line.light is not None and to_line is not None:
            name, index = line.light
            letter = self._scene.trafficlight.getRedYellowGreenState(name)[index]
            colour, blinking = _COLOURS.get(letter, "unknown"), letter == "o"
        else:
            self._colour = self._blinking = self._colour_age_s = None
            return
        if colour is None:
            return
        if self._colour is None and line is not None and line.light is not None:
            self._colour_age_s = self._scene.trafficlight.getSpentDuration(
                line.light[0]
            )
        elif colour != self._colour:
            self._colour_age_s = 0.0
        elif self._colour_age_s is not None:
            self._colour_age_s += self._period_s
        self._colour, self._blinking = colour, blinking

    def _lane_direction(self, name: str) -> str:
        turns = {link.turn.lower() for link in self.roads.lanes[name].links}
        if len(turns) > 1:
            turns.discard("t")
        return _LANE_DIRECTIONS.get(frozenset(turns), "forward")


def _turn_signal(signals: int) -> str:
    if signals & _HAZARD or signals & 3 == 3:
        return "hazard"
    if signals & _BLINK_LEFT:
        return "left"
    return "right" if signals & _BLINK_RIGHT else "off"
