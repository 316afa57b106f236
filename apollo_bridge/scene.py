"""The road users around Apollo: their lanes and predicted paths."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from forewarn.abstractions.errors import SignalFault
from forewarn.apollo_bridge.maps import Network
from forewarn.plugins.driving.places import Place, Places
from forewarn.plugins.driving.roads import (
    Lane,
    LightName,
    Link,
    Point,
    Roads,
    heading_of,
)
from forewarn.plugins.driving.scene import (
    Colour,
    Lamps,
    Light,
    Mover,
    SeenScene,
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
_LATERAL = 0.3  # m/s; less is normal lane keeping
_ROUTE_HOLDS_S = 1.0
_ON_ROUTE_M, _PREDICTED_M = 0.5, 2.0
"""How much farther a lane may be than another and still be chosen, because it is on the
ego's route or on the predicted path of a vehicle.
"""


class Anywhere:
    """The edges of an unknown route: every edge counts as part of the route."""

    def __contains__(self, edge: object) -> bool:
        return True


class ApolloScene(SeenScene):
    """All road users at one point in time.

    Args:
        network: The map's lanes under the names that `roads` uses.
        roads: The roads.
        places: Finds the lanes at a position.
        body: The dimensions of the ego vehicle.
    """

    def __init__(
        self, network: Network, roads: Roads, places: Places, body: Body
    ) -> None:
        super().__init__(roads, EGO, places)
        self.network, self.body = network, body
        ego = Mover(EGO, 0.0, 0.0, 0.0, 0.0, body.length_m, body.width_m)
        self.vehicles[EGO] = ego
        self.time_s = 0.0
        self.route_lanes: frozenset[str] = frozenset()
        self._foretold: dict[str, Any] = {}
        self._taken: dict[str, tuple[str, float, Container[str]]] = {}
        self._lights: dict[str, Any] = {}

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
        edges = self._edges_ahead(vehicle)
        self._taken[vehicle.name] = vehicle.lane, self.time_s, edges
        return edges

    def onward(self, vehicle: Mover, lane: Lane) -> list[str]:
        """Returns the lanes that a vehicle may take next: those of the route for the
        ego, and for another vehicle those of the predicted path, if it is known.
        """
        if vehicle.name == EGO:
            return super().onward(vehicle, lane)
        stays = {link.via or link.to: self._stays(vehicle, link) for link in lane.links}
        return [name for name in sorted(stays, key=lambda n: -stays[n]) if stays[name]]

    def favour_m(self, vehicle: Mover, lane: str) -> float:
        if vehicle.name == EGO:
            return _ON_ROUTE_M if lane in self.route_lanes else 0.0
        there = self.roads.lanes[lane]
        entered = there.inside and not vehicle.lane
        leads = entered and any(self._stays(vehicle, link) for link in there.links)
        return _PREDICTED_M if leads else 0.0

    def _stays(self, vehicle: Mover, link: Link) -> int:
        """Returns how many points of a vehicle's predicted path are on the edge to
        which a link leads.
        """
        edges = self.edges_of(vehicle)
        edge = self.roads.lanes[link.to].edge
        return edges[edge] if isinstance(edges, Counter) else 0

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
        point, lane = (ego.x, ego.y), ego.lane
        heading = pose.heading
        ego.x = pose.position.x + body.front_m * math.cos(heading)
        ego.y = pose.position.y + body.front_m * math.sin(heading)
        ego.heading, ego.speed = heading, speed
        passed_s, self.time_s = time_s - self.time_s, time_s
        place = self.settle(ego)
        ego.lane, ego.lateral = "", 0.0
        if place is not None:
            ego.lane, ego.at_m = place.lane, place.along_m
            if lane and passed_s > 0.0:
                ego.lateral = self._drift_m(place, point, lane) / passed_s
                ego.lateral = ego.lateral if abs(ego.lateral) > _LATERAL else 0.0
        shown = chassis.signal
        ego.signal = TURN_SIGNALS[shown.turn_signal]
        ego.lamps = Lamps(bool(shown.low_beam), bool(shown.high_beam))

    def _drift_m(self, place: Place, point: Point, lane: str) -> float:
        """Returns how far the ego has moved to the left since it was at a point of a
        lane; 0 if it has left the edge, because lanes need not join smoothly.
        """
        lanes, heading = self.roads.lanes, math.degrees(self.ego.heading)
        if lanes[lane].edge != lanes[place.lane].edge:
            return 0.0
        was = self.places.on(place.lane, *point, heading)
        return 0.0 if was is None else place.left_m - was.left_m

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
                before = self.vehicles.get(mover.name)
                mover.lane = "" if before is None else before.lane
                self.locate(mover, obstacle.velocity.x, obstacle.velocity.y)
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

    def _edges_ahead(self, vehicle: Mover) -> Container[str]:
        """Returns the edges along a vehicle's predicted path with the number of points
        on each, or `Anywhere` if the path does not leave the vehicle's edge.
        """
        edges: Counter[str] = Counter()
        for a, b in pairwise(self.foretold(vehicle.name)):
            heading = math.degrees(heading_of((a, b)))
            for place in self.places.near(*b, heading):
                lane = self.roads.lanes[place.lane]
                if not lane.inside and abs(place.left_m) < lane.width / 2.0:
                    edges[lane.edge] += 1
        own = {self.roads.lanes[vehicle.lane].edge} if vehicle.lane else set()
        return edges if edges.keys() - own else Anywhere()


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
