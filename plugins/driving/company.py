"""Other vehicles and people: who is ahead, whose way is crossed, who goes first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forewarn.plugins.driving.arriving import TURN_PACE, arrival_s, rounded
from forewarn.plugins.driving.lines import Point, from_body
from forewarn.plugins.driving.roads import Passage, Roads, Way
from forewarn.plugins.driving.scene import EGO_WIDTH_M, Scene

LEAD_SEEN_M = 100.0
OTHERS_SEEN_M = 120.0
ONCOMING_M = 30.0
PATH_SEEN_M = 80.0  # how far ahead conflicts are looked for
JAM_SEEN_M = 60.0
JAM_EXIT_M = 30.0

_CREEP = 1.5  # m/s: a vehicle that stands may set off
_COURSE_S = 0.5  # smaller gaps are a collision course
_LEAD_BRAKES = 6.0  # m/s²
_WALKER_M = 0.4
_WALK_HALF_M = EGO_WIDTH_M / 2.0 + _WALKER_M
_SOON_S = 6.0
_HINDERS_S = 1.0  # who would pass so shortly before or after is hindered
_PRIORITY_M = 12.0  # from where on one must give way
_PEOPLE_M = 40.0


class Company:
    """Who else is on the road, as the ego sees them frame after frame.

    Args:
        scene: Who is on the roads.
        roads: The roads.
        ego: The ego's name in the simulation.
    """

    def __init__(self, scene: Scene, roads: Roads, ego: str) -> None:
        self._scene, self.roads, self._ego = scene, roads, ego
        self._length_m: float = scene.vehicle.getLength(ego)
        self._way = Way({}, (), 0.0)
        self.conflicts: list[tuple[float, float, float, float]] = []
        self._signal, self._signal_lane = "off", ""
        self._last_lead = ""
        self._passed: str | None = None
        self._passed_until_s = 0.0
        self._lengths: dict[str, float] = {}

    def see(
        self,
        values: dict[str, Any],
        time_s: float,
        at: float,
        speed: float,
        here: Passage | None,
        ahead: Passage | None,
        way: Way,
    ) -> None:
        """Adds what is seen of them.

        Args:
            values: The signals so far.
            time_s: When.
            at: Where the ego is on its way.
            speed: The ego's, in m/s.
            here: The junction that it is in.
            ahead: The next one.
            way: Its way.
        """
        self._way = way
        scene, ego = self._scene, self._ego
        vehicle, lights, routes = scene.vehicle, scene.trafficlight, scene.routes
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
        first_gap_s: float | None = None
        first_comes_s: float | None = None
        states: dict[str, str] = {}
        position, lane_of = vehicle.getPosition, vehicle.getLaneID
        speed_of, angle_of = vehicle.getSpeed, vehicle.getAngle
        for other in vehicle.getIDList():
            if other == ego:
                continue
            place = position(other)
            away = (place[0] - cx) ** 2 + (place[1] - cy) ** 2
            if nearest is None or away < nearest[0]:
                nearest = away, other, place
            if away > OTHERS_SEEN_M * OTHERS_SEEN_M:
                continue
            if oncoming is None or away < oncoming[0]:
                turned = (angle_of(other) - angle + 180.0) % 360.0 - 180.0
                if abs(turned) > 135.0:
                    oncoming = away, other, place
            if not met:
                continue
            lane: str = lane_of(other)
            its_speed: float = speed_of(other)
            if jam is not None and its_speed < 1.0:
                edge = lane.rpartition("_")[0]
                if edge == jam.exit:
                    standing += vehicle.getLanePosition(other) < JAM_EXIT_M
                elif jam.node and edge.startswith(f"{jam.node}_"):
                    standing += 1
            for passage in met:
                for foe in passage.foes_on.get(lane, ()):
                    if foe.target not in routes[other]:
                        continue
                    before = foe.before_m[lane]
                    if foe.light is not None and before > 0.0:
                        name, index = foe.light
                        state = states.get(name)
                        if state is None:
                            state = lights.getRedYellowGreenState(name)
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
                    turn = TURN_PACE.get(passage.turn, math.inf)
                    come_s = arrival_s(to_point, speed, turn)
                    clear = ours + self._length_m + half
                    leave_s = arrival_s(clear, speed, turn)
                    gap = max(0.0, comes_s - leave_s, come_s - leaves_s)
                    from_m = min(to_point - half, ours - foe.ego_m + foe.beside_m)
                    self.conflicts.append((from_m, clear + half, comes_s, leaves_s))
                    if gap_s is None or gap < gap_s:
                        gap_s = gap
                    if foe.first and comes_s < _SOON_S:
                        if gap < _HINDERS_S:
                            first = first or passage.line_m - at < _PRIORITY_M
                        if first_gap_s is None or gap < first_gap_s:
                            first_gap_s = gap
                        if first_comes_s is None or comes_s < first_comes_s:
                            first_comes_s = comes_s
                    if gap < _COURSE_S and to_point > 0.0:
                        collides = min(collides, come_s)
                        asks = max(asks, speed * speed / (2.0 * max(to_point, 0.1)))
        values["arrival_gap"] = rounded(gap_s)
        values["priority_gap"] = rounded(first_gap_s)
        values["priority_arrival"] = rounded(first_comes_s)
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
        margin = self._beside(values, speed, ahead, at)
        values["side_margin"] = rounded(margin)
        values["priority_vehicle"] = first or (margin is not None and margin < 0.0)
        values["overtaking"] = self._overtakes(values, time_s, lead_id)
        values["time_to_collision"] = (
            None if collides == math.inf else round(collides, 3)
        )
        values["required_deceleration"] = asks if asks > 0.0 else None

    def _see_lead(
        self, values: dict[str, Any], at: float, speed: float
    ) -> tuple[str, float, float]:
        """The vehicle ahead: its name, the braking it asks for, the time to hit it."""
        vehicle = self._scene.vehicle
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
        lane: str = self._scene.vehicle.getLaneID(name)
        start = self._way.start_m.get(lane)
        if start is not None:
            front = start + self._scene.vehicle.getLanePosition(name)
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
        person = self._scene.person
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
            turn = TURN_PACE.get(passage.turn, math.inf)
            come_s = arrival_s(to_point, speed, turn)
            clear = ours + self._length_m + _WALKER_M
            leave_s = arrival_s(clear, speed, turn)
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
        values["pedestrian_distance"] = rounded(nearest)
        values["pedestrian_arrival_gap"] = rounded(gap_s)
        values["priority_pedestrian"] = first
        return asks, collides

    def _beside(
        self, values: Mapping[str, Any], speed: float, ahead: Passage | None, at: float
    ) -> float | None:
        """How far who comes in the lane that the ego moves to is from having to brake.

        None where it does not move, or is there already, or nobody comes.
        """
        signal = values["turn_signal"]
        lane = self._scene.vehicle.getLaneID(self._ego)
        if signal != self._signal:
            self._signal, self._signal_lane = signal, lane
        if values["lane_count"] < 2 or signal not in ("left", "right"):
            return None
        edge = lane.rpartition("_")[0]
        if lane != self._signal_lane and self._signal_lane.rpartition("_")[0] == edge:
            return None
        if ahead is not None and ahead.line_m - at < 50.0:
            return None
        vehicle = self._scene.vehicle
        side = 0 if signal == "left" else 1
        margins: list[float] = []
        for other, gap in vehicle.getNeighbors(self._ego, side):
            its = vehicle.getSpeed(other)
            closing = max(0.0, its - speed)
            margins.append(gap - (0.8 * its + closing * closing / 4.0))
        return max(-1000.0, min(margins)) if margins else None

    def _overtakes(self, values: Mapping[str, Any], time_s: float, lead: str) -> bool:
        """Whether it changed lanes to pass a vehicle that it has not passed yet."""
        if values["lane_changing"] and self._passed is None and self._last_lead:
            self._passed, self._passed_until_s = self._last_lead, time_s + 20.0
        self._last_lead = lead
        passed = self._passed
        if passed is None or time_s > self._passed_until_s:
            self._passed = None
            return False
        vehicle = self._scene.vehicle
        if passed not in vehicle.getIDList():
            self._passed = None
            return False
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

    def _length_of(self, other: str) -> float:
        length = self._lengths.get(other)
        if length is None:
            length = self._lengths[other] = self._scene.vehicle.getLength(other)
        return length

    def _clearance(
        self,
        centre: tuple[float, float, float, float, float],
        found: tuple[float, str, Point],
    ) -> float:
        """The distance between two bodies."""
        _, other, (px, py) = found
        cx, cy, hx, hy, half = centre
        heading = math.radians(90.0 - self._scene.vehicle.getAngle(other))
        ox, oy = math.cos(heading), math.sin(heading)
        length, ours = self._length_of(other), 2.0 * half
        fx, fy = cx + half * hx, cy + half * hy
        apart = min(
            from_body(fx, fy, px, py, ox, oy, length),
            from_body(cx - half * hx, cy - half * hy, px, py, ox, oy, length),
            from_body(px, py, fx, fy, hx, hy, ours),
            from_body(px - length * ox, py - length * oy, fx, fy, hx, hy, ours),
        )
        return max(0.0, apart - EGO_WIDTH_M)
