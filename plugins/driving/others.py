"""Computes the signals about other road users: vehicles nearby and pedestrians."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from forewarn.plugins.driving.foresight import Progress, rounded
from forewarn.plugins.driving.roads import Foe, Footway, LinkDirection, Passage
from forewarn.plugins.driving.scene import (
    EGO_WIDTH_M,
    LEAD_SEEN_M,
    Colour,
    Mover,
    Near,
    Scene,
    TurnSignal,
    clearance,
)

TURN_PACE = {
    LinkDirection.LEFT: 8.0,
    LinkDirection.RIGHT: 7.0,
    LinkDirection.U_TURN: 5.0,
}  # m/s

_SLOW = 6.0  # m/s
_TURN_M = 12.0  # usual distance from the stop line to the conflict points of a turn
_COURSE_S = 0.5  # a smaller time gap counts as a collision course


class Conflict(NamedTuple):
    """A section of the ego's path that another road user is about to enter.

    Args:
        to_m: The distance from the ego's front to the section's start in m, minus a
            margin; negative while the ego is in the section.
        clear_m: The distance in m that the ego must drive until its rear has left the
            section.
        comes_s: The time in seconds until the other road user reaches the section.
        leaves_s: The time in seconds until the other road user has left the section.
        later: Whether the ego must first leave a junction to reach the section.
    """

    to_m: float
    clear_m: float
    comes_s: float
    leaves_s: float
    later: bool = False


@dataclass(slots=True)
class Demand:
    """The braking that other road users require of the ego.

    Args:
        speed: The ego's speed in m/s.
        deceleration: The required braking in m/s².
        collision_s: The time to the first predicted collision in seconds.
    """

    speed: float
    deceleration: float = 0.0
    collision_s: float = math.inf

    def brake_within(self, room_m: float) -> None:
        """Records that the ego must stop within this distance."""
        self.deceleration = max(self.deceleration, braking(self.speed, room_m))

    def collide_in(self, time_s: float) -> None:
        """Records a collision course with this time to collision."""
        self.collision_s = min(self.collision_s, time_s)

    def meet(self, passage: Passage, met: Conflict) -> float:
        """Records a road user whose path crosses the ego's.

        Args:
            passage: The junction where the paths cross.
            met: The conflict, with its distances and times.

        Returns:
            The time gap in seconds between the ego and the other road user at the
            conflict; 0 if both would be there at the same time.
        """
        pace = TURN_PACE.get(passage.turn, math.inf)
        come_s = arrival_s(met.to_m, self.speed, pace)
        leave_s = arrival_s(met.clear_m, self.speed, pace)
        gap_s = max(0.0, met.comes_s - leave_s, come_s - met.leaves_s)
        if gap_s < _COURSE_S and met.to_m > 0.0:
            self.collide_in(come_s)
            self.brake_within(met.to_m)
        return gap_s


def braking(speed: float, room_m: float) -> float:
    """Returns the constant braking in m/s² that stops the ego within this distance."""
    return speed * speed / (2.0 * max(room_m, 0.1))


def arrival_s(distance: float, speed: float, turn: float) -> float:
    """Returns the time in seconds that the ego needs to cover a distance.

    The ego keeps its speed or, if it is slow, accelerates at 2 m/s². Before a turn it
    slows down to the speed `turn` in m/s, at 2.5 m/s² and as late as possible.
    """
    if distance <= 0.0:
        return 0.0
    if speed > turn:
        slowing = (speed * speed - turn * turn) / 5.0
        # the distance covered while slowing down to the speed of the turn
        straight = max(0.0, distance - slowing - _TURN_M)
        rest = distance - straight
        if rest > slowing:
            return straight / speed + (speed - turn) / 2.5 + (rest - slowing) / turn
        return straight / speed + 2.0 * rest / (speed + turn)
    if speed >= _SLOW:
        return distance / speed
    return math.sqrt(speed * speed / 4.0 + distance) - speed / 2.0


_JUNCTION_M = 50.0  # this near to a junction, a turn signal announces a turn
_OVERTAKING_S = 20.0
_SIDES = {TurnSignal.LEFT: 1, TurnSignal.RIGHT: -1}


class LaneChanges:
    """Tracks the ego's lane changes from frame to frame.

    Args:
        scene: The scene with all road users.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._signal, self._signal_lane = TurnSignal.OFF, ""
        self._last_lead: str | None = None
        self._passed: str | None = None
        self._passed_until_s = 0.0

    def side_margin(self, progress: Progress, changes: bool) -> float | None:
        """Returns how much the gap to the follower in the target lane exceeds the safe
        gap, in m.

        The safe gap is the one at which the follower need not brake. None if the ego is
        not changing lanes, or if no vehicle approaches in the target lane. If the turn
        signal changes during a lane change, the new signal counts only afterwards.
        """
        ego, roads = self._scene.ego, self._scene.roads
        announced = changes and self._signal in _SIDES
        if ego.signal != self._signal and not announced:
            self._signal, self._signal_lane = ego.signal, ego.lane
        side, lane = _SIDES.get(self._signal), roads.lanes[ego.lane]
        if side is None or lane.inside or roads.lane_count(lane.edge) < 2:
            return None
        if ego.lane != self._signal_lane:
            if roads.lanes[self._signal_lane].edge == lane.edge:
                return None
        if progress.ahead is not None and progress.to(progress.ahead) < _JUNCTION_M:
            return None
        margins: list[float] = []
        for other, gap in self._scene.beside(side):
            closing = max(0.0, other.speed - ego.speed)
            margins.append(gap - (0.8 * other.speed + closing * closing / 4.0))
        if not margins:
            return None
        return max(-_FARTHEST_M, min(*margins, _FARTHEST_M))

    def overtakes(self, changes: bool, time_s: float, lead: Near | None) -> bool:
        """Whether the ego has changed lanes to overtake, and is not yet past the
        vehicle that was ahead of it.
        """
        if changes and self._passed is None and self._last_lead is not None:
            self._passed, self._passed_until_s = self._last_lead, time_s + _OVERTAKING_S
        self._last_lead = None if lead is None else lead.who.name
        if self._passed is not None:
            gives_up = self._passed == self._last_lead and not changes
            if gives_up or time_s > self._passed_until_s or not self._is_near():
                self._passed = None
        return self._passed is not None

    def _is_near(self) -> bool:
        passed, ego = self._scene.vehicles.get(self._passed or ""), self._scene.ego
        if passed is None:
            return False
        along = (passed.x - ego.x) * math.cos(ego.heading)
        along += (passed.y - ego.y) * math.sin(ego.heading)
        return -ego.length <= along <= LEAD_SEEN_M


OTHERS_SEEN_M = 120.0
ONCOMING_M = 30.0
JAM_SEEN_M = 60.0
JAM_EXIT_M = 30.0

_CREEP = 1.5  # m/s: minimum speed assumed, because a stationary vehicle may set off
_LEAD_BRAKES = 6.0  # m/s²
_SOON_S = 6.0
_HINDRANCE_S = 1.0  # with a smaller time gap, the ego hinders the other vehicle
_PRIORITY_M = 12.0  # right of way matters within this distance of a junction
_OTHER_WAY = math.radians(135.0)
_STANDSTILL = 1.0  # m/s
_JAM = 3
_RED = Colour.RED
_FARTHEST_M = 1000.0


def see_lead(lead: Near | None, demand: Demand) -> dict[str, Any]:
    """Returns the lead vehicle's signals; adds the required braking to `demand`."""
    if lead is None:
        return {"lead_distance": None, "lead_speed": None}
    its, gap = lead.who.speed, lead.room_m
    demand.brake_within(gap + its * its / (2.0 * _LEAD_BRAKES))
    closing = demand.speed - its
    if closing > 0.05:
        demand.collide_in(gap / closing)
    return {"lead_distance": round(gap, 3), "lead_speed": round(3.6 * its, 3)}


class NearbyVehicles(NamedTuple):
    """The vehicles around the ego at one time.

    Args:
        near: All vehicles within sight, in the order of the scene.
        nearest: The nearest vehicle, even if it is out of sight.
        oncoming: The nearest oncoming vehicle within sight.
    """

    near: list[Mover]
    nearest: Mover | None
    oncoming: Mover | None


def around(scene: Scene) -> NearbyVehicles:
    """Finds the other vehicles around the ego."""
    ego = scene.ego
    back = ego.length / 2.0
    x = ego.x - back * math.cos(ego.heading)
    y = ego.y - back * math.sin(ego.heading)
    near: list[Mover] = []
    watch, seen_m2 = scene.watch, OTHERS_SEEN_M * OTHERS_SEEN_M
    nearest = oncoming = None
    nearest_m2 = oncoming_m2 = math.inf
    for other in scene.vehicles.values():
        if other is ego:
            continue
        dx, dy = other.x - x, other.y - y
        away_m2 = dx * dx + dy * dy
        if away_m2 < nearest_m2:
            nearest, nearest_m2 = other, away_m2
        if away_m2 > seen_m2:
            continue
        near.append(watch(other))
        if away_m2 < oncoming_m2:
            turned = math.remainder(other.heading - ego.heading, math.tau)
            if abs(turned) > _OTHER_WAY:
                oncoming, oncoming_m2 = other, away_m2
    if nearest is not None and not near:
        scene.watch(nearest)
    return NearbyVehicles(near, nearest, oncoming)


def see_around(ego: Mover, seen: NearbyVehicles) -> dict[str, Any]:
    """Returns the signals of the nearest vehicle and the nearest oncoming vehicle."""
    nearest_m, nearest_kmh = _apart(ego, seen.nearest, math.inf)
    oncoming_m, oncoming_kmh = _apart(ego, seen.oncoming, ONCOMING_M)
    return {
        "nearest_distance": nearest_m,
        "nearest_speed": nearest_kmh,
        "oncoming_distance": oncoming_m,
        "oncoming_speed": oncoming_kmh,
    }


def _apart(
    ego: Mover, other: Mover | None, most_m: float
) -> tuple[float, float] | tuple[None, None]:
    """Returns a vehicle's distance in m and speed in km/h; None if it is too far."""
    apart = None if other is None else clearance(ego, other, most_m)
    if other is None or apart is None:
        return None, None
    return round(min(apart, _FARTHEST_M), 3), round(3.6 * other.speed, 3)


def jammed(scene: Scene, near: list[Mover], progress: Progress) -> bool:
    """Whether several vehicles are stopped in the next junction or just beyond it."""
    jam = progress.here
    if jam is None and progress.ahead is not None:
        jam = progress.ahead if progress.to(progress.ahead) < JAM_SEEN_M else None
    if jam is None:
        return False
    standing = 0
    for other in near:
        lane = scene.roads.lanes.get(other.lane) if other.speed < _STANDSTILL else None
        if lane is not None:
            leaves = lane.edge == jam.exit and other.at_m < JAM_EXIT_M
            standing += leaves or (lane.inside and lane.junction == jam.junction)
    return standing >= _JAM


class Crossing(NamedTuple):
    """The result of examining the vehicles that cross the ego's path.

    Args:
        first: Whether the ego must give way to one of these vehicles.
        signals: The signals about these vehicles.
    """

    first: bool
    signals: dict[str, Any]


def see_crossing(
    scene: Scene,
    near: list[Mover],
    progress: Progress,
    demand: Demand,
    conflicts: list[Conflict],
) -> Crossing:
    """Computes the signals of the vehicles that cross the ego's path.

    Args:
        scene: The scene with all road users.
        near: The vehicles within sight.
        progress: The ego's position along its path.
        demand: The required braking, to which these vehicles are added.
        conflicts: The list to which each conflict with a vehicle is added.
    """
    gaps: list[float] = []
    first_gaps: list[float] = []
    first_comes: list[float] = []
    hinders = False
    for passage, foe, other in _meeting(scene, near, progress):
        met = _when(passage, foe, other, progress, scene.ego.length)
        if met is None:
            continue
        ours = progress.to(passage)
        begins = min(met.to_m - foe.half_m, ours + foe.beside_m)
        ends = met.clear_m + foe.half_m
        later = progress.is_later(passage)
        conflicts.append(Conflict(begins, ends, met.comes_s, met.leaves_s, later))
        gap = demand.meet(passage, met)
        gaps.append(gap)
        if foe.first and met.comes_s < _SOON_S:
            hinders = hinders or (gap < _HINDRANCE_S and ours < _PRIORITY_M)
            first_gaps.append(gap)
            first_comes.append(met.comes_s)
    return Crossing(
        hinders,
        {
            "arrival_gap": rounded(min(gaps, default=None)),
            "priority_gap": rounded(min(first_gaps, default=None)),
            "priority_arrival": rounded(min(first_comes, default=None)),
        },
    )


def _meeting(
    scene: Scene, near: list[Mover], progress: Progress
) -> Iterator[tuple[Passage, Foe, Mover]]:
    """Yields the vehicles whose paths conflict with the ego's and that have no red
    light.
    """
    met = progress.met
    for other in near if met else ():
        for passage in met:
            foes = passage.foes_on.get(other.lane, ())
            edges = scene.edges_of(other) if foes else ()
            for foe in foes:
                if foe.target not in edges:
                    continue
                waits = foe.light is not None and foe.before_m[other.lane] > 0.0
                if waits and foe.light and scene.light(foe.light).colour is _RED:
                    continue
                yield passage, foe, other


def _when(
    passage: Passage, foe: Foe, other: Mover, progress: Progress, length_m: float
) -> Conflict | None:
    """Returns the conflict with a crossing vehicle; None once either vehicle is past
    it.
    """
    theirs = foe.before_m[other.lane] - other.at_m + foe.foe_m
    ours = passage.line_m + foe.ego_m - progress.at_m
    half = foe.half_m
    if theirs + other.length < -half or ours + length_m < -half:
        return None
    pace = max(other.speed, _CREEP)
    return Conflict(
        ours - half,
        ours + length_m + half,
        max(0.0, (theirs - half) / pace),
        max(0.0, (theirs + other.length + half) / pace),
    )


_WALKER_M = 0.4
_WALK_HALF_M = EGO_WIDTH_M / 2.0 + _WALKER_M
_SEEN_M = 40.0
_SLOWEST = 0.3  # m/s
_ASKEW = 1e-6


def see_people(
    scene: Scene, progress: Progress, demand: Demand, conflicts: list[Conflict]
) -> dict[str, Any]:
    """Computes the signals of the pedestrians who cross the ego's path.

    Args:
        scene: The scene with all road users.
        progress: The ego's position along its path.
        demand: The required braking, to which these pedestrians are added.
        conflicts: The list to which each conflict with a pedestrian is added.
    """
    gap_s: float | None = None
    nearest_m: float | None = None
    first = False
    for person, passage, footway in _crossing(scene, progress):
        met = _on_foot(person, passage, footway, progress, scene.ego.length)
        if met is None:
            continue
        later = progress.is_later(passage)
        begins = met.to_m - 1.0
        conflicts.append(met._replace(to_m=begins, later=later))
        gap = demand.meet(passage, met)
        if gap_s is None or gap < gap_s:
            gap_s = gap
        ours = met.to_m + _WALKER_M
        if met.comes_s < _SOON_S:
            if nearest_m is None or ours < nearest_m:
                nearest_m = max(0.0, ours)
            first = first or -1.0 < ours < _SEEN_M
    return {
        "pedestrian_distance": rounded(nearest_m),
        "pedestrian_arrival_gap": rounded(gap_s),
        "priority_pedestrian": first,
    }


def _crossing(
    scene: Scene, progress: Progress
) -> Iterator[tuple[Mover, Passage, Footway]]:
    """Yields the pedestrians who are on a crosswalk ahead, or about to step onto it."""
    if not scene.people:
        return
    footways = {f.edge: (p, f) for p in progress.met for f in p.footways}
    for person in scene.people.values() if footways else ():
        for edge in scene.crosswalks_of(person):
            if edge in footways:
                yield person, *footways[edge]
                break


def _on_foot(
    person: Mover,
    passage: Passage,
    footway: Footway,
    progress: Progress,
    length_m: float,
) -> Conflict | None:
    """Returns the conflict with a pedestrian; None if the ego or the pedestrian has
    passed.
    """
    pace = max(_SLOWEST, person.speed)
    ax, ay = footway.axis
    dx, dy = person.x - footway.point[0], person.y - footway.point[1]
    aside = dx * ax + dy * ay
    onward = math.cos(person.heading) * ax + math.sin(person.heading) * ay
    if abs(onward) < _ASKEW:
        aside = -abs(aside)  # walking along the road, about to turn onto the crosswalk
    elif onward < 0.0:
        aside = -aside
    if aside > _WALK_HALF_M:
        return None
    ox, oy = footway.onward
    ours = passage.line_m + footway.at_m - progress.at_m + dx * ox + dy * oy
    if ours + length_m < -_WALKER_M:
        return None
    return Conflict(
        ours - _WALKER_M,
        ours + length_m + _WALKER_M,
        max(0.0, (-aside - _WALK_HALF_M) / pace),
        (_WALK_HALF_M - aside) / pace,
    )
