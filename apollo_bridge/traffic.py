"""Who is on the road, on which lane, and where they are about to go.

A `Scene` for the senses of driving, whose parts answer as SUMO's do: places of vehicles
are those of their fronts, angles are degrees clockwise from north.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.errors import SignalFault
from forewarn.apollo_bridge.hdmap import Place
from forewarn.apollo_bridge.network import Network
from forewarn.apollo_bridge.vehicle import Body

EGO = "ego"

_MOVABLE, _PEDESTRIAN, _BICYCLE, _VEHICLE = 1, 3, 4, 5
_LETTERS = {1: "r", 2: "y", 3: "G", 4: "O"}
_ASIDE_M = 0.7  # so far beside a lane one still drives on it
_COURSE = math.radians(60.0)
_PREFERS_M = 0.5
_ROUTE_HOLDS_S = 1.0
_BLINKS = {1: 2, 2: 1, 3: 4}  # from Apollo's turn signals to SUMO's
_FRONT, _HIGH = 16, 64
_FIRST_STEPS = (2, 4, 6)
_WALKING = ":walking"
_KEEPS_M = 2.5  # that followers keep even when they stand
_LATERAL = 0.3  # m/s; less is how anyone keeps to a lane

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


class Anywhere:
    """The edges of a route that nobody knows: it may lead to any."""

    def __contains__(self, edge: object) -> bool:
        return True


class Traffic:
    """Everyone at one moment, and how they came there.

    Args:
        network: The roads.
        body: The ego's.
    """

    def __init__(self, network: Network, body: Body) -> None:
        self.network, self.body = network, body
        self.vehicle = Vehicles(self)
        self.person = People(self)
        self.trafficlight = Lights(network)
        self.routes = Routes(self)
        self.ego = Mover(0.0, 0.0, 0.0, 0.0, body.length_m, body.width_m)
        self.ways: dict[str, list[Point]] = {}
        self.time_s = 0.0
        self._before: tuple[Point, str] = (0.0, 0.0), ""
        self.lateral = 0.0
        self.signals = 0
        self.route_lanes: frozenset[str] = frozenset()

    # -- what the messages say --------------------------------------------------------

    def see_ego(self, time_s: float, pose: Any, speed: float, chassis: Any) -> None:
        """Takes in the ego's place and lights; its lane is empty off the map."""
        body, ego = self.body, self.ego
        heading = pose.heading
        ego.x = pose.position.x + body.front_m * math.cos(heading)
        ego.y = pose.position.y + body.front_m * math.sin(heading)
        ego.heading, ego.speed = heading, speed
        passed_s, self.time_s = time_s - self.time_s, time_s
        place = self._place(ego, self.route_lanes)
        ego.lane = ""
        self.lateral = 0.0
        if place is not None:
            ego.lane = self.network.name_of[place.lane]
            ego.at_m, ego.left_m = place.along_m, place.left_m
            if passed_s > 0.0:
                self._drift(place, passed_s)
        self._before = (ego.x, ego.y), "" if place is None else place.lane
        signal = chassis.signal
        self.signals = (
            _BLINKS.get(signal.turn_signal, 0)
            | (_FRONT if signal.low_beam else 0)
            | (_HIGH if signal.high_beam else 0)
        )

    def _drift(self, place: Place, passed_s: float) -> None:
        """How fast the ego moves across its lane, from where it was before."""
        point, lane = self._before
        if not lane or place.lane in self.network.map.lanes[lane].after:
            return  # it drove on, and lanes need not be smooth there
        was = self.network.map.on(place.lane, *point)
        aside = (place.left_m - was.left_m) / passed_s
        self.lateral = aside if abs(aside) > _LATERAL else 0.0

    def see_others(self, obstacles: Any, prediction: Any) -> None:
        """Takes in everyone else.

        Raises:
            SignalFault: Someone's place, course or speed is not known.
        """
        ways: dict[str, list[Point]] = {}
        for foretold in () if prediction is None else prediction.prediction_obstacle:
            if foretold.trajectory:
                likely = max(foretold.trajectory, key=lambda way: way.probability)
                ways[str(foretold.perception_obstacle.id)] = [
                    (p.path_point.x, p.path_point.y) for p in likely.trajectory_point
                ]
        self.ways = ways
        vehicles: dict[str, Mover] = {}
        people: dict[str, Mover] = {}
        for obstacle in () if obstacles is None else obstacles.perception_obstacle:
            kind = obstacle.type
            if kind == _PEDESTRIAN:
                people[str(obstacle.id)] = _mover(obstacle)
            elif kind in (_VEHICLE, _BICYCLE, _MOVABLE):
                name, mover = str(obstacle.id), _mover(obstacle)
                mover.x += mover.length / 2.0 * math.cos(mover.heading)
                mover.y += mover.length / 2.0 * math.sin(mover.heading)
                before = self.vehicle.others.get(name)
                self._settle(mover, before, ways.get(name, ()))
                vehicles[name] = mover
        self.vehicle.others = vehicles
        self.person.people = people

    def _settle(self, mover: Mover, before: Mover | None, way: Sequence[Point]) -> None:
        """Finds the lane of somebody; inside a junction, by where they are to go."""
        fitting = list(self._fitting(mover))
        if not fitting:
            return
        best = min(fitting)[1]
        lanes = self.network.map.lanes
        if lanes[best.lane].junction and len(fitting) > 1:
            kept = before and before.lane and self.network.lane_of[before.lane]
            stays = [p for _, p in fitting if kept and p.lane == kept.name]
            if stays and kept and kept.junction:
                best = stays[0]
            else:
                best = min(fitting, key=lambda f: f[0] - 2.0 * self._led(f[1], way))[1]
        mover.lane = self.network.name_of[best.lane]
        mover.at_m, mover.left_m = best.along_m, best.left_m

    def _fitting(self, mover: Mover) -> list[tuple[float, Place]]:
        """The lanes that somebody may be on, and how badly each fits."""
        found: list[tuple[float, Place]] = []
        lanes = self.network.map.lanes
        for off, place in self.network.map.near(mover.x, mover.y):
            turned = abs(math.remainder(mover.heading - place.heading, math.tau))
            width = lanes[place.lane].width_m
            if turned < _COURSE and off < width / 2.0 + _ASIDE_M:
                found.append((off + 0.5 * turned, place))
        return found

    def _place(self, mover: Mover, prefers: frozenset[str]) -> Place | None:
        fitting = self._fitting(mover)
        if not fitting:
            return None
        return min(
            fitting, key=lambda f: f[0] - (_PREFERS_M if f[1].lane in prefers else 0.0)
        )[1]

    def _led(self, place: Place, way: Sequence[Point]) -> int:
        """How many of the next points somebody comes to lie on a lane's way."""
        lanes = self.network.map.lanes
        onward = [place.lane]
        lane = lanes[place.lane]
        for _ in range(4):
            following = next(self.network.after(lane), None)
            if following is None:
                break
            onward.append(following.name)
            lane = following
        hits = 0
        for index in _FIRST_STEPS:
            if index < len(way):
                near = self.network.map.near(*way[index])
                hits += any(p.lane in onward and off < 1.0 for off, p in near)
        return hits

    def edges_ahead(self, way: Sequence[Point]) -> Container[str]:
        """The edges that a way leads over; anywhere, if it does not leave its own."""
        edges: dict[str, None] = {}
        lanes, network = self.network.map.lanes, self.network
        for a, b in zip(way, way[1:], strict=False):
            heading = math.atan2(b[1] - a[1], b[0] - a[0])
            for off, place in network.map.near(*b):
                turned = abs(math.remainder(heading - place.heading, math.tau))
                lane = lanes[place.lane]
                if not lane.junction and off < lane.width_m / 2.0 and turned < _COURSE:
                    edges[network.edge_of[network.name_of[lane.name]]] = None
        return edges if len(edges) > 1 else Anywhere()


def _mover(obstacle: Any) -> Mover:
    at, velocity = obstacle.position, obstacle.velocity
    speed = math.hypot(velocity.x, velocity.y)
    mover = Mover(at.x, at.y, obstacle.theta, speed, obstacle.length, obstacle.width)
    if not math.isfinite(mover.x + mover.y + mover.heading + speed):
        raise SignalFault(f"obstacle {obstacle.id} has no place, course or speed")
    return mover


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
        edges = self._traffic.edges_ahead(self._traffic.ways.get(vehicle, ()))
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
        for point in self._traffic.ways.get(name, ()):
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
