"""What the senses ask of the traffic: vehicles, people, routes and lights.

They answer as SUMO's do: places of vehicles are those of their fronts, angles are
degrees clockwise from north.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from forewarn.apollo_bridge.network import Network

if TYPE_CHECKING:
    from forewarn.apollo_bridge.traffic import Traffic

EGO = "ego"

_LETTERS = {1: "r", 2: "y", 3: "G", 4: "O"}
_ROUTE_HOLDS_S = 1.0
_KEEPS_M = 2.5  # that followers keep even when they stand
_WALKING = ":walking"

Point = tuple[float, float]


@dataclass(slots=True)
class Mover:
    """A vehicle or a pedestrian."""

    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float
    lane: str = ""
    at_m: float = 0.0
    left_m: float = 0.0

    @property
    def angle(self) -> float:
        """The heading as a compass has it."""
        return (90.0 - math.degrees(self.heading)) % 360.0


class Vehicles:
    """The vehicles, the ego among them."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.others: dict[str, Mover] = {}
        self.route: tuple[str, ...] = ()
        self.start_m: Mapping[str, float] = {}

    def _of(self, name: str) -> Mover:
        return self._traffic.ego if name == EGO else self.others[name]

    def getIDList(self) -> list[str]:
        return [EGO, *self.others]

    def getPosition(self, name: str) -> Point:
        mover = self._of(name)
        return mover.x, mover.y

    def getAngle(self, name: str) -> float:
        return self._of(name).angle

    def getSpeed(self, name: str) -> float:
        return self._of(name).speed

    def getLength(self, name: str) -> float:
        return self._of(name).length

    def getLaneID(self, name: str) -> str:
        return self._of(name).lane

    def getLanePosition(self, name: str) -> float:
        return self._of(name).at_m

    def getRoute(self, name: str) -> tuple[str, ...]:
        """The ego's: the edges before it."""
        return self.route

    def getRouteIndex(self, name: str) -> int:
        return 0

    def getSignals(self, name: str) -> int:
        return self._traffic.signals

    def getLateralSpeed(self, name: str) -> float:
        return self._traffic.lateral

    def getLeader(self, name: str, within_m: float) -> tuple[str, float] | None:
        """The next vehicle on the ego's way, or with its rear still on it."""
        traffic = self._traffic
        at = self.start_m.get(traffic.ego.lane, 0.0) + traffic.ego.at_m
        nearest: tuple[float, str] | None = None
        for other, mover in self.others.items():
            front = self._on_way(mover)
            if front is not None and front > at:
                gap = front - mover.length - at
                if gap <= within_m and (nearest is None or gap < nearest[0]):
                    nearest = gap, other
        return None if nearest is None else (nearest[1], nearest[0])

    def _on_way(self, mover: Mover) -> float | None:
        """How far along the ego's way a front is; None if it is on another."""
        start = self.start_m.get(mover.lane)
        if start is None and mover.lane:
            network = self._traffic.network
            lane = network.lane_of[mover.lane]
            for before in lane.before if lane.junction else ():
                name = network.name_of.get(before, "")
                if name in self.start_m:
                    start = self.start_m[name] + network.lane_of[name].length_m
        return None if start is None else start + mover.at_m

    def getNeighbors(self, name: str, side: int) -> list[tuple[str, float]]:
        """Who follows on the lane to the left (0) or right (1), and with what room."""
        ego, network = self._traffic.ego, self._traffic.network
        lane = network.lane_of[ego.lane]
        beside = network.name_of.get(lane.left if side == 0 else lane.right)
        behind = [
            (ego.at_m - ego.length - other.at_m - _KEEPS_M, other_name)
            for other_name, other in self.others.items()
            if beside is not None and other.lane == beside and other.at_m <= ego.at_m
        ]
        return [(n, gap) for gap, n in [min(behind)]] if behind else []


class Routes:
    """Where the others go, as prediction has it; foretold anew while they drive."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._known: dict[str, tuple[str, float, Container[str]]] = {}

    def __getitem__(self, vehicle: str) -> Container[str]:
        others, time_s = self._traffic.vehicle.others, self._traffic.time_s
        lane = others[vehicle].lane
        known = self._known.get(vehicle)
        if known and known[0] == lane and time_s - known[1] < _ROUTE_HOLDS_S:
            return known[2]
        if len(self._known) > 2 * len(others) + 16:
            self._known = {n: k for n, k in self._known.items() if n in others}
        edges = self._traffic.edges_ahead(self._traffic.way(vehicle))
        self._known[vehicle] = lane, time_s, edges
        return edges


class People:
    """The pedestrians: on a crosswalk, about to be on one, or elsewhere."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self.people: dict[str, Mover] = {}

    def getIDList(self) -> list[str]:
        return list(self.people)

    def getPosition(self, name: str) -> Point:
        return self.people[name].x, self.people[name].y

    def getAngle(self, name: str) -> float:
        return self.people[name].angle

    def getSpeed(self, name: str) -> float:
        return self.people[name].speed

    def getRoadID(self, name: str) -> str:
        """The crosswalk that somebody is on; else where one walks."""
        return self._crosswalk(self.getPosition(name)) or _WALKING

    def getNextEdge(self, name: str) -> str:
        """The crosswalk that somebody is foretold to come to; empty for none."""
        for point in self._traffic.way(name):
            if found := self._crosswalk(point):
                return found
        return ""

    def _crosswalk(self, point: Point) -> str:
        for name, walk in self._traffic.network.walks_near(*point):
            (ax, ay), (bx, by) = walk.line
            length = math.dist(*walk.line)
            ux, uy = (bx - ax) / length, (by - ay) / length
            dx, dy = point[0] - ax, point[1] - ay
            aside = abs(dy * ux - dx * uy)
            if 0.0 <= dx * ux + dy * uy <= length and aside <= walk.width_m / 2.0:
                return name.rpartition("_")[0]
        return ""


class Lights:
    """The lights: one for each way into a junction that has any."""

    def __init__(self, network: Network) -> None:
        self._governs = network.governs
        self._seen: dict[str, Any] = {}

    def see(self, detection: Any) -> None:
        """Takes in the lights that perception sees."""
        lights = () if detection is None else detection.traffic_light
        self._seen = {light.id: light for light in lights}

    def light(self, via: str) -> Any:
        """What is seen of the light before a way; None if nothing is."""
        seen = [self._seen[n] for n in self._governs.get(via, ()) if n in self._seen]
        return next((light for light in seen if light.color in _LETTERS), None)

    def getRedYellowGreenState(self, via: str) -> str:
        light = self.light(via)
        if light is None:
            return "?"
        return "o" if light.blink and light.color == 2 else _LETTERS[light.color]

    def getSpentDuration(self, via: str) -> float:
        light = self.light(via)
        age_s: float = 0.0 if light is None else light.tracking_time
        return age_s if math.isfinite(age_s) else 0.0
