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

import math
from collections.abc import Mapping
from typing import Any

from forewarn.plugins.sumo.roads import Passage, Point, Roads, Way
from forewarn.plugins.sumo.traffic import EGO_WIDTH_M, Surroundings

SEEN_M = 200.0  # lights, lines, junctions
LEAD_SEEN_M = 100.0
OTHERS_SEEN_M = 120.0
ONCOMING_M = 30.0
PATH_SEEN_M = 80.0  # how far ahead conflicts are looked for
JAM_SEEN_M = 60.0
JAM_EXIT_M = 30.0
FULL_BRAKE = 9.0  # m/s²
FULL_THRUST = 4.0  # m/s²

_SLOW = 6.0  # m/s
_TURN_PACE = {"l": 8.0, "L": 8.0, "r": 7.0, "R": 7.0, "t": 5.0}  # m/s
_TURN_M = 12.0  # of a turn's conflict points, the usual distance behind the line
_CREEP = 1.5  # m/s: a vehicle that stands may set off
_COURSE_S = 0.5  # smaller gaps are a collision course
_LEAD_BRAKES = 6.0  # m/s²
_WALKER_M = 0.4
_WALK_HALF_M = EGO_WIDTH_M / 2.0 + _WALKER_M
_SOON_S = 6.0
_HINDERS_S = 1.0  # who would pass so shortly before or after is hindered
_PRIORITY_M = 12.0  # from where on one must give way
_PEOPLE_M = 40.0

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


class Senses:
    """What the ego perceives, frame after frame of one episode.

    Args:
        sumo: libsumo with the episode loaded.
        roads: Its net.
        ego: The ego's name in the simulation.
        surroundings: What stays the same.
        period_s: The time between frames.
    """

    def __init__(
        self,
        sumo: Any,
        roads: Roads,
        ego: str,
        surroundings: Surroundings,
        period_s: float,
    ) -> None:
        self._sumo, self.roads, self._ego = sumo, roads, ego
        self._period_s = period_s
        self._route: tuple[str, ...] = tuple(sumo.vehicle.getRoute(ego))
        self._length_m: float = sumo.vehicle.getLength(ego)
        self._lane = ""
        self._way = Way({}, (), 0.0)
        self.left_m = 0.0  # of the way
        self.conflicts: list[tuple[float, float, float, float]] = []
        self._speed: float | None = None
        self._colour: str | None = None
        self._blinking: bool | None = None
        self._colour_age_s: float | None = None
        self._past_line = False
        self._last_lead = ""
        self._passed: str | None = None
        self._passed_until_s = 0.0
        self._routes: dict[str, frozenset[str]] = {}
        self._lengths: dict[str, float] = {}
        self._constant: dict[str, Any] = {
            "gear": "drive", "engine_on": True, "manual_control": False,
            "arrow_light": None, "arrow_light_blinking": None,
            "special_location": None, "special_location_distance": None,
            "warning_flash_on": False, "destination_reached": False,
            "snapshot_age": 0.0, "stop_sign_distance": None,
            **surroundings.model_dump(),
        }  # fmt: skip

    def values(self, time_s: float, collision: bool, horn: bool) -> dict[str, Any]:
        """The signals of this moment."""
        vehicle, ego = self._sumo.vehicle, self._ego
        speed: float = vehicle.getSpeed(ego)
        acceleration = (
            0.0 if self._speed is None else (speed - self._speed) / self._period_s
        )
        self._speed = speed
        lane_name: str = vehicle.getLaneID(ego)
        old_lane = self._lane
        if lane_name != old_lane:
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
            "junction_distance": _rounded(to_junction),
            "stop_line_distance": _rounded(to_line),
            "crosswalk_distance": _rounded(to_crosswalk),
            "in_junction": here is not None,
            "past_stop_line": self._past_line,
            "signal_ahead": light_counts and to_line is not None,
            "traffic_light": self._colour,
            "traffic_light_blinking": self._blinking,
            "traffic_light_age": _rounded(self._colour_age_s),
            "collision": collision,
            "time_to_stop_line": (
                round(to_line / speed, 3)
                if to_line is not None and speed > 0.1
                else None
            ),
        }
        if line is not None and line.sign == "s":
            values["stop_sign_distance"] = values["stop_line_distance"]
        self._see_others(values, time_s, at, speed, here, ahead, old_lane)
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
            letter = self._sumo.trafficlight.getRedYellowGreenState(name)[index]
            colour, blinking = _COLOURS.get(letter, "unknown"), letter == "o"
        else:
            self._colour = self._blinking = self._colour_age_s = None
            return
        if colour is None:
            return
        if self._colour is None and line is not None and line.light is not None:
            self._colour_age_s = self._sumo.trafficlight.getSpentDuration(line.light[0])
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

    # -- other vehicles and people ----------------------------------------------------

    def _see_others(
        self,
        values: dict[str, Any],
        time_s: float,
        at: float,
        speed: float,
        here: Passage | None,
        ahead: Passage | None,
        old_lane: str,
    ) -> None:
        vehicle, ego = self._sumo.vehicle, self._ego
        x, y = vehicle.getPosition(ego)
        angle: float = vehicle.getAngle(ego)
        heading = math.radians(90.0 - angle)
        hx, hy = math.cos(heading), math.sin(heading)
        reach = self._length_m / 2.0
        cx, cy = x - reach * hx, y - reach * hy
        lead_id, asks, collides = self._see_lead(values, at, speed)
        met = [
            p for p in (here, ahead) if p is not None and p.line_m - at < PATH_SEEN_M
        ]
        jam = here
        if jam is None and ahead is not None and ahead.line_m - at < JAM_SEEN_M:
            jam = ahead
        self.conflicts.clear()
        standing = 0
        nearest: tuple[float, str, Point] | None = None
        oncoming: tuple[float, str, Point] | None = None
        gap_s: float | None = None
        first = False
        states: dict[str, str] = {}
        for other in vehicle.getIDList():
            if other == ego:
                continue
            place = vehicle.getPosition(other)
            away = (place[0] - cx) ** 2 + (place[1] - cy) ** 2
            if nearest is None or away < nearest[0]:
                nearest = away, other, place
            if away > OTHERS_SEEN_M * OTHERS_SEEN_M:
                continue
            if oncoming is None or away < oncoming[0]:
                turned = (vehicle.getAngle(other) - angle + 180.0) % 360.0 - 180.0
                if abs(turned) > 135.0:
                    oncoming = away, other, place
            if not met:
                continue
            lane: str = vehicle.getLaneID(other)
            its_speed: float = vehicle.getSpeed(other)
            if jam is not None and its_speed < 1.0:
                edge = lane.rpartition("_")[0]
                if edge == jam.exit:
                    standing += vehicle.getLanePosition(other) < JAM_EXIT_M
                elif jam.node and edge.startswith(f"{jam.node}_"):
                    standing += 1
            for passage in met:
                for foe in passage.foes_on.get(lane, ()):
                    if foe.target not in self._route_of(other):
                        continue
                    before = foe.before_m[lane]
                    if foe.light is not None and before > 0.0:
                        name, index = foe.light
                        state = states.get(name)
                        if state is None:
                            state = self._sumo.trafficlight.getRedYellowGreenState(name)
                            states[name] = state
                        if state[index] in "ru":
                            continue
                    theirs = before - vehicle.getLanePosition(other) + foe.foe_m
                    ours = passage.line_m + foe.ego_m - at
                    length = self._length_of(other)
                    half = foe.half_m
                    if theirs + length < -half or ours + self._length_m < -half:
                        continue
                    pace = max(its_speed, _CREEP)
                    comes_s = max(0.0, (theirs - half) / pace)
                    leaves_s = max(0.0, (theirs + length + half) / pace)
                    to_point = ours - half
                    turn = _TURN_PACE.get(passage.turn, math.inf)
                    come_s = _arrival_s(to_point, speed, turn)
                    clear = ours + self._length_m + half
                    leave_s = _arrival_s(clear, speed, turn)
                    gap = max(0.0, comes_s - leave_s, come_s - leaves_s)
                    self.conflicts.append(
                        (to_point - half, clear + half, comes_s, leaves_s)
                    )
                    if gap_s is None or gap < gap_s:
                        gap_s = gap
                    if foe.first and comes_s < _SOON_S and gap < _HINDERS_S:
                        first = first or passage.line_m - at < _PRIORITY_M
                    if gap < _COURSE_S and to_point > 0.0:
                        collides = min(collides, come_s)
                        asks = max(asks, speed * speed / (2.0 * max(to_point, 0.1)))
        values["arrival_gap"] = _rounded(gap_s)
        values["traffic_jam"] = standing >= 3
        centre = cx, cy, hx, hy, reach
        for key, found in (("nearest", nearest), ("oncoming", oncoming)):
            distance = None if found is None else self._clearance(centre, found)
            if key == "oncoming" and distance is not None and distance > ONCOMING_M:
                distance = None
            known = found is not None and distance is not None
            values[f"{key}_distance"] = (
                round(min(distance, 1000.0), 3) if distance is not None else None
            )
            values[f"{key}_speed"] = (
                round(3.6 * vehicle.getSpeed(found[1]), 3) if known and found else None
            )
        walk_asks, walk_collides = self._see_people(values, at, speed, met)
        asks, collides = max(asks, walk_asks), min(collides, walk_collides)
        values["priority_vehicle"] = first or self._beside(values, speed, ahead, at)
        values["overtaking"] = self._overtakes(values, time_s, lead_id, old_lane)
        values["time_to_collision"] = (
            None if collides == math.inf else round(collides, 3)
        )
        values["required_deceleration"] = asks if asks > 0.0 else None

    def _see_lead(
        self, values: dict[str, Any], at: float, speed: float
    ) -> tuple[str, float, float]:
        """The vehicle ahead: its name, the braking it asks for, the time to hit it."""
        vehicle = self._sumo.vehicle
        lead = vehicle.getLeader(self._ego, LEAD_SEEN_M)
        gap = self._gap_to(lead, at) if lead and lead[0] else None
        if gap is None or gap > LEAD_SEEN_M:
            values["lead_distance"] = values["lead_speed"] = None
            return "", 0.0, math.inf
        its = vehicle.getSpeed(lead[0])
        values["lead_distance"] = round(gap, 3)
        values["lead_speed"] = round(3.6 * its, 3)
        room = gap + its * its / (2.0 * _LEAD_BRAKES)
        asks = speed * speed / (2.0 * max(room, 0.1))
        closing = speed - its
        return lead[0], asks, gap / closing if closing > 0.05 else math.inf

    def _gap_to(self, lead: tuple[str, float], at: float) -> float | None:
        """The gap to whom SUMO calls the leader; None if it is only about to merge."""
        name, gap = lead
        lane: str = self._sumo.vehicle.getLaneID(name)
        start = self._way.start_m.get(lane)
        if start is not None:
            front = start + self._sumo.vehicle.getLanePosition(name)
            return max(0.0, front - self._length_of(name) - at) if front > at else None
        # It turns off the ego's way, and its rear is still on it.
        leaves = not self.roads.entries.get(lane, set()).isdisjoint(self._way.start_m)
        return max(0.0, gap) if leaves else None

    def _see_people(
        self,
        values: dict[str, Any],
        at: float,
        speed: float,
        met: list[Passage],
    ) -> tuple[float, float]:
        person = self._sumo.person
        asks, collides = 0.0, math.inf
        gap_s: float | None = None
        nearest: float | None = None
        first = False
        crosswalks = {c.edge: (p, c) for p in met for c in p.crosswalks}
        for who in person.getIDList() if crosswalks else ():
            edge: str = person.getRoadID(who)
            if edge not in crosswalks:
                if not edge.startswith(":") or person.getSpeed(who) < 0.2:
                    continue
                edge = person.getNextEdge(who)
                if edge not in crosswalks:
                    continue
            passage, crosswalk = crosswalks[edge]
            px, py = person.getPosition(who)
            pace = max(0.3, person.getSpeed(who))
            heading = math.radians(90.0 - person.getAngle(who))
            ax, ay = crosswalk.axis
            onward = math.cos(heading) * ax + math.sin(heading) * ay
            dx, dy = px - crosswalk.point[0], py - crosswalk.point[1]
            aside = dx * ax + dy * ay
            if onward < 0.0:
                aside = -aside
            if aside > _WALK_HALF_M:
                continue  # has crossed the ego's way
            comes_s = max(0.0, (-aside - _WALK_HALF_M) / pace)
            leaves_s = (_WALK_HALF_M - aside) / pace
            ox, oy = crosswalk.onward
            ours = passage.line_m + crosswalk.at_m - at + dx * ox + dy * oy
            if ours + self._length_m < -_WALKER_M:
                continue
            to_point = ours - _WALKER_M
            turn = _TURN_PACE.get(passage.turn, math.inf)
            come_s = _arrival_s(to_point, speed, turn)
            clear = ours + self._length_m + _WALKER_M
            leave_s = _arrival_s(clear, speed, turn)
            self.conflicts.append((to_point - 1.0, clear, comes_s, leaves_s))
            gap = max(0.0, comes_s - leave_s, come_s - leaves_s)
            if gap_s is None or gap < gap_s:
                gap_s = gap
            if comes_s < _SOON_S and (nearest is None or ours < nearest):
                nearest = max(0.0, ours)
            first = first or (comes_s < _SOON_S and -1.0 < ours < _PEOPLE_M)
            if gap < _COURSE_S and to_point > 0.0:
                collides = min(collides, come_s)
                asks = max(asks, speed * speed / (2.0 * max(to_point, 0.1)))
        values["pedestrian_distance"] = _rounded(nearest)
        values["pedestrian_arrival_gap"] = _rounded(gap_s)
        values["priority_pedestrian"] = first
        return asks, collides

    def _beside(
        self, values: Mapping[str, Any], speed: float, ahead: Passage | None, at: float
    ) -> bool:
        """Whether someone in the lane that the ego moves to would have to brake."""
        signal = values["turn_signal"]
        if values["lane_count"] < 2 or signal not in ("left", "right"):
            return False
        if ahead is not None and ahead.line_m - at < 50.0:
            return False
        vehicle = self._sumo.vehicle
        side = 0 if signal == "left" else 1
        for other, gap in vehicle.getNeighbors(self._ego, side):
            its = vehicle.getSpeed(other)
            closing = max(0.0, its - speed)
            if gap < 0.8 * its + closing * closing / 4.0:
                return True
        return False

    def _overtakes(
        self, values: Mapping[str, Any], time_s: float, lead: str, old_lane: str
    ) -> bool:
        """Whether it changed lanes to pass a vehicle that it has not passed yet."""
        if values["lane_changing"] and self._passed is None and self._last_lead:
            self._passed, self._passed_until_s = self._last_lead, time_s + 20.0
        self._last_lead = lead
        passed = self._passed
        if passed is None or time_s > self._passed_until_s:
            self._passed = None
            return False
        vehicle = self._sumo.vehicle
        if passed == lead and not values["lane_changing"]:
            self._passed = None
            return False
        x, y = vehicle.getPosition(self._ego)
        px, py = vehicle.getPosition(passed)
        heading = math.radians(90.0 - vehicle.getAngle(self._ego))
        before = (px - x) * math.cos(heading) + (py - y) * math.sin(heading)
        if before < -self._length_m or before > LEAD_SEEN_M:
            self._passed = None
        return self._passed is not None

    def _route_of(self, other: str) -> frozenset[str]:
        route = self._routes.get(other)
        if route is None:
            route = frozenset(self._sumo.vehicle.getRoute(other))
            self._routes[other] = route
        return route

    def _length_of(self, other: str) -> float:
        length = self._lengths.get(other)
        if length is None:
            length = self._lengths[other] = self._sumo.vehicle.getLength(other)
        return length

    def _clearance(
        self,
        centre: tuple[float, float, float, float, float],
        found: tuple[float, str, Point],
    ) -> float:
        """The distance between two bodies."""
        _, other, (px, py) = found
        cx, cy, hx, hy, half = centre
        heading = math.radians(90.0 - self._sumo.vehicle.getAngle(other))
        ox, oy = math.cos(heading), math.sin(heading)
        length = self._length_of(other)
        ours = (cx - half * hx, cy - half * hy), (cx + half * hx, cy + half * hy)
        theirs = (px - length * ox, py - length * oy), (px, py)
        apart = min(
            *(_from_segment(point, *theirs) for point in ours),
            *(_from_segment(point, *ours) for point in theirs),
        )
        return max(0.0, apart - EGO_WIDTH_M)


def _turn_signal(signals: int) -> str:
    if signals & _HAZARD or signals & 3 == 3:
        return "hazard"
    if signals & _BLINK_LEFT:
        return "left"
    return "right" if signals & _BLINK_RIGHT else "off"


def _arrival_s(distance: float, speed: float, turn: float) -> float:
    """When the ego gets there: at its speed, or, when slow, setting off at 2 m/s².

    Where it turns it slows down to `turn` on the way, at 2.5 m/s² just before it must.
    """
    if distance <= 0.0:
        return 0.0
    if speed > turn:
        slowing = (speed * speed - turn * turn) / 5.0
        # How much of the way is left once it drives as slowly as in the turn.
        straight = max(0.0, distance - slowing - _TURN_M)
        rest = distance - straight
        if rest > slowing:
            return straight / speed + (speed - turn) / 2.5 + (rest - slowing) / turn
        return straight / speed + 2.0 * rest / (speed + turn)
    if speed >= _SLOW:
        return distance / speed
    return math.sqrt(speed * speed / 4.0 + distance) - speed / 2.0


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _from_segment(point: Point, a: Point, b: Point) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = dx * dx + dy * dy
    share = 0.0
    if length > 0.0:
        share = ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / length
        share = min(1.0, max(0.0, share))
    return math.hypot(point[0] - a[0] - share * dx, point[1] - a[1] - share * dy)
