"""The road users around Apollo: their lanes and predicted paths."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.errors import SignalFault
from forewarn.apollo_bridge.maps import LanePoint, Network
from forewarn.plugins.driving.roads import LightName, Point, Roads
from forewarn.plugins.driving.scene import (
    Colour,
    Lamps,
    Light,
    Mover,
    Scene,
    TurnSignal,
)


@dataclass(frozen=True, slots=True)
class Body:
    """The dimensions of the car's body, measured from the middle of the rear axle.

    The defaults are those of Apollo's default car.
    """

    front_m: float = 3.89
    back_m: float = 1.043
    width_m: float = 2.11

    @property
    def length_m(self) -> float:
        """The length from bumper to bumper in metres."""
        return self.front_m + self.back_m

    @classmethod
    def of(cls, length_m: float, width_m: float) -> Body:
        """Returns a body of the given size with the default rear overhang."""
        back_m = cls().back_m
        return cls(length_m - back_m, back_m, width_m)


EGO = "ego"

COLOURS = {1: Colour.RED, 2: Colour.YELLOW, 3: Colour.GREEN, 4: Colour.OFF}
"""The colours of traffic lights, by their numbers in Apollo's perception messages."""
TURN_SIGNALS = (
    TurnSignal.OFF, TurnSignal.LEFT, TurnSignal.RIGHT, TurnSignal.HAZARD
)  # fmt: skip
"""The turn signals, by their numbers in Apollo's chassis messages."""

_MOVABLE, _PEDESTRIAN, _BICYCLE, _VEHICLE = 1, 3, 4, 5
_ASIDE_M = 0.7  # a vehicle this far outside a lane still counts as on it
_COURSE = math.radians(60.0)
_PREFERENCE_M = 0.5
_FIRST_STEPS = (2, 4, 6)
_LATERAL = 0.3  # m/s; less is normal lane keeping
_ROUTE_HOLDS_S = 1.0


class Anywhere:
    """The edges of an unknown route: every edge counts as part of the route."""

    def __contains__(self, edge: object) -> bool:
        return True


class ApolloScene(Scene):
    """All road users at one point in time.

    Args:
        network: The map's lanes under the names that `roads` uses.
        roads: The roads.
        body: The dimensions of the ego vehicle.
    """

    def __init__(self, network: Network, roads: Roads, body: Body) -> None:
        super().__init__(roads, EGO)
        self.network, self.body = network, body
        ego = Mover(EGO, 0.0, 0.0, 0.0, 0.0, body.length_m, body.width_m)
        self.vehicles[EGO] = ego
        self.time_s = 0.0
        self.route_lanes: frozenset[str] = frozenset()
        self._foretold: dict[str, Any] = {}
        self._taken: dict[str, tuple[str, float, Container[str]]] = {}
        self._lights: dict[str, Any] = {}
        self._before: tuple[Point, str] = (0.0, 0.0), ""

    # -- the interface for the senses
    # ----------------------------------------------------------

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """Returns the edges on a vehicle's predicted path.

        The result is reused for up to 1 s while the vehicle stays in its lane.
        """
        known = self._taken.get(vehicle.name)
        if known and known[0] == vehicle.lane:
            if self.time_s - known[1] < _ROUTE_HOLDS_S:
                return known[2]
        if len(self._taken) > 2 * len(self.vehicles) + 16:
            self._taken = {n: k for n, k in self._taken.items() if n in self.vehicles}
        edges = self.edges_ahead(self.foretold(vehicle.name))
        self._taken[vehicle.name] = vehicle.lane, self.time_s, edges
        return edges

    def next_crosswalk(self, person: Mover) -> str:
        """Returns the crosswalk that a pedestrian is predicted to reach; empty if
        none.
        """
        for point in self.foretold(person.name):
            if found := self.crosswalks.at(*point):
                return found
        return ""

    def light(self, name: LightName) -> Light:
        light = self._light(name)
        if light is None:
            return Light(Colour.UNKNOWN)
        return Light(COLOURS[light.color], bool(light.blink))

    def light_age_s(self, name: LightName) -> float:
        light = self._light(name)
        age_s: float = 0.0 if light is None else light.tracking_time
        return age_s if math.isfinite(age_s) else 0.0

    def _light(self, name: LightName) -> Any:
        """Returns the perceived state of a traffic light; None if it is not
        perceived.
        """
        governing = self.network.governs.get(name[0], ())
        seen = [self._lights[n] for n in governing if n in self._lights]
        return next((light for light in seen if light.color in COLOURS), None)

    # -- reading messages --------------------------------------------------------

    def see_ego(self, time_s: float, pose: Any, speed: float, chassis: Any) -> None:
        """Updates the position and lights of the ego. The ego's lane is empty if the
        ego is off the map.
        """
        body, ego = self.body, self.ego
        heading = pose.heading
        ego.x = pose.position.x + body.front_m * math.cos(heading)
        ego.y = pose.position.y + body.front_m * math.sin(heading)
        ego.heading, ego.speed = heading, speed
        passed_s, self.time_s = time_s - self.time_s, time_s
        place = self._place(ego, self.route_lanes)
        ego.lane, ego.lateral = "", 0.0
        if place is not None:
            ego.lane = self.network.name_of[place.lane]
            ego.at_m = place.along_m
            if passed_s > 0.0:
                self._drift(place, passed_s)
        self._before = (ego.x, ego.y), "" if place is None else place.lane
        shown = chassis.signal
        ego.signal = TURN_SIGNALS[shown.turn_signal]
        ego.lamps = Lamps(bool(shown.low_beam), bool(shown.high_beam))

    def _drift(self, place: LanePoint, passed_s: float) -> None:
        """Computes the ego's lateral speed from its previous position."""
        point, lane = self._before
        if not lane or place.lane in self.network.map.lanes[lane].after:
            return  # the ego has changed lanes, and lanes need not join smoothly
        was = self.network.map.on(place.lane, *point)
        aside = (place.left_m - was.left_m) / passed_s
        self.ego.lateral = aside if abs(aside) > _LATERAL else 0.0

    def see_others(self, obstacles: Any, prediction: Any, lights: Any) -> None:
        """Updates the other road users and the traffic lights.

        Raises:
            SignalFault: A road user's position, heading, speed or size is unknown.
        """
        self._foretold = {
            str(each.perception_obstacle.id): each.trajectory
            for each in (() if prediction is None else prediction.prediction_obstacle)
        }
        seen = () if lights is None else lights.traffic_light
        self._lights = {light.id: light for light in seen}
        vehicles = {EGO: self.ego}
        people: dict[str, Mover] = {}
        for obstacle in () if obstacles is None else obstacles.perception_obstacle:
            kind = obstacle.type
            if kind == _PEDESTRIAN:
                mover = mover_of(obstacle)
                people[mover.name] = mover
            elif kind in (_VEHICLE, _BICYCLE, _MOVABLE):
                mover = mover_of(obstacle)
                mover.x += mover.length / 2.0 * math.cos(mover.heading)
                mover.y += mover.length / 2.0 * math.sin(mover.heading)
                self._settle(mover, self.vehicles.get(mover.name))
                vehicles[mover.name] = mover
        self.vehicles, self.people = vehicles, people

    def foretold(self, name: str) -> list[Point]:
        """Returns the most probable path predicted for a road user; empty if there is
        none.
        """
        trajectories = self._foretold.get(name)
        if not trajectories:
            return []
        likely = max(trajectories, key=lambda way: way.probability)
        paths = (point.path_point for point in likely.trajectory_point)
        return [(p.x, p.y) for p in paths if math.isfinite(p.x + p.y)]

    def _settle(self, mover: Mover, before: Mover | None) -> None:
        """Finds the lane of a road user. Where lanes overlap inside a junction, the
        previous lane is kept or the predicted path decides.
        """
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
                way = self.foretold(mover.name)
                best = min(fitting, key=lambda f: f[0] - 2.0 * self._led(f[1], way))[1]
        mover.lane = self.network.name_of[best.lane]
        mover.at_m = best.along_m

    def _fitting(self, mover: Mover) -> list[tuple[float, LanePoint]]:
        """Returns the lanes that a road user may be on, with a cost for each."""
        found: list[tuple[float, LanePoint]] = []
        lanes = self.network.map.lanes
        for off, place in self.network.map.near(mover.x, mover.y):
            turned = abs(math.remainder(mover.heading - place.heading, math.tau))
            width = lanes[place.lane].width_m
            if turned < _COURSE and off < width / 2.0 + _ASIDE_M:
                found.append((off + 0.5 * turned, place))
        return found

    def _place(self, mover: Mover, prefers: frozenset[str]) -> LanePoint | None:
        fitting = self._fitting(mover)
        if not fitting:
            return None
        return min(
            fitting,
            key=lambda f: f[0] - (_PREFERENCE_M if f[1].lane in prefers else 0.0),
        )[1]

    def _led(self, place: LanePoint, way: Sequence[Point]) -> int:
        """Returns how many of the first predicted points are on a lane or its
        successors.
        """
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
        """Returns the edges along a path, or `Anywhere` if the path does not leave its
        first edge.
        """
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


def check_obstacles(obstacles: Any) -> None:
    """Raises `SignalFault` unless all relevant road users have a position, heading,
    speed and size.
    """
    for obstacle in () if obstacles is None else obstacles.perception_obstacle:
        if obstacle.type in (_PEDESTRIAN, _VEHICLE, _BICYCLE, _MOVABLE):
            mover_of(obstacle)


def mover_of(obstacle: Any) -> Mover:
    """Converts a perceived obstacle to a road user, positioned at its centre.

    Raises:
        SignalFault: The position, heading, speed or size is unknown.
    """
    at, velocity = obstacle.position, obstacle.velocity
    speed = math.hypot(velocity.x, velocity.y)
    mover = Mover(
        str(obstacle.id), at.x, at.y, obstacle.theta, speed, obstacle.length,
        obstacle.width, on_foot=obstacle.type == _PEDESTRIAN,
    )  # fmt: skip
    size = mover.length + mover.width
    if not math.isfinite(mover.x + mover.y + mover.heading + speed + size):
        raise SignalFault(
            f"obstacle {obstacle.id} has no valid position, heading, speed or size"
        )
    return mover
