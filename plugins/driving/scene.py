"""The scene: the road users at one time, their lanes, and the traffic lights.

Each world fills in the scene from its own data. Signals are computed from the scene
alone, so they are defined the same way in all worlds. The position of a vehicle is the
middle of its front. The y axis points to the left of the x axis, and headings are in
radians, counterclockwise from the x axis.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple

from forewarn.plugins.contracts import HIT, Shape, Thing
from forewarn.plugins.driving.places import Crosswalks, Place, Places
from forewarn.plugins.driving.roads import (
    Lane,
    LightName,
    LinkDirection,
    Point,
    Roads,
    Way,
    apart,
)

EGO_WIDTH_M = 1.8
LEAD_SEEN_M = 100.0
FOLLOWER_SEEN_M = 60.0

_MIN_GAP_M = 2.5  # the gap that followers keep even at a standstill
TOUCH = 0.8  # m/s: below this speed a pedestrian walked into the car
_WALKING = 0.2  # m/s: slower pedestrians are not about to cross


class Colour(StrEnum):
    """The colour of a traffic light, as in the signal `traffic_light`."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    OFF = "off"
    UNKNOWN = "unknown"


class Light(NamedTuple):
    """The state of a traffic light."""

    colour: Colour
    blinking: bool = False


class TurnSignal(StrEnum):
    """The state of a vehicle's turn signals."""

    OFF = "off"
    LEFT = "left"
    RIGHT = "right"
    HAZARD = "hazard"


class Lamps(NamedTuple):
    """The lamps of a vehicle that are on."""

    low_beam: bool = False
    high_beam: bool = False
    fog: bool = False


DARK = Lamps()


@dataclass(slots=True)
class Mover:
    """A vehicle or a pedestrian.

    The position of a vehicle is that of its front, and the position of a pedestrian is
    that of the centre.

    Args:
        heading: The heading in radians, counterclockwise from east.
        speed: The speed in m/s.
        lane: The lane's name; empty if unknown.
        at_m: The distance from the lane's start in m.
        lateral: The lateral speed in the lane in m/s.
        on_foot: Whether it is a pedestrian.
    """

    name: str
    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float
    lane: str = ""
    at_m: float = 0.0
    lateral: float = 0.0
    signal: TurnSignal = TurnSignal.OFF
    lamps: Lamps = DARK
    on_foot: bool = False


class Near(NamedTuple):
    """A road user near the ego, and the gap between them in m."""

    who: Mover
    room_m: float


@dataclass(frozen=True, slots=True)
class Behind:
    """The vehicle that follows the ego: the gap to it in m, and its speed in m/s."""

    gap_m: float
    speed: float


class Scene(ABC):
    """All road users at one time; updated in place in every frame.

    Args:
        roads: The road network of the map.
        ego: The name of the ego.
    """

    def __init__(self, roads: Roads, ego: str) -> None:
        self.roads, self.name = roads, ego
        self.vehicles: dict[str, Mover] = {}
        """The vehicles by name, including the ego."""
        self.people: dict[str, Mover] = {}
        self.route: tuple[str, ...] = ()
        """The edges of the ego's route."""

    @cached_property
    def crosswalks(self) -> Crosswalks:
        """The map's crosswalks."""
        return Crosswalks(self.roads)

    @property
    def ego(self) -> Mover:
        return self.vehicles[self.name]

    # -- what the world reports -------------------------------------------------------

    @abstractmethod
    def edges_of(self, vehicle: Mover) -> Container[str]:
        """Returns the edges that a vehicle may take next, as far as they are known."""

    @abstractmethod
    def light(self, name: LightName) -> Light:
        """Returns the state of a traffic light."""

    @abstractmethod
    def light_age_s(self, name: LightName) -> float:
        """Returns how many seconds ago a traffic light changed its colour."""

    @abstractmethod
    def next_crosswalk(self, person: Mover) -> str:
        """Returns the edge of the crosswalk that a pedestrian is about to enter.

        The result is empty if there is none.
        """

    def watch(self, other: Mover) -> Mover:
        """Returns a vehicle with all attributes up to date.

        A world may read only the positions of vehicles until this method is called.
        """
        return other

    # -- what is derived from the reports ---------------------------------------------

    def route_ahead(self) -> tuple[str, ...]:
        """Returns the rest of the route, starting at the ego's current or last edge."""
        return self.roads.from_here(self.roads.lanes[self.ego.lane], self.route)

    def way(self) -> Way:
        """Returns the ego's path."""
        return self.roads.way(self.ego.lane, self.route_ahead())

    def lead(self, way: Way, at_m: float, near: Iterable[Mover]) -> Near | None:
        """Returns the lead vehicle: the next vehicle on the ego's path, or turning off
        it.

        Args:
            way: The ego's path.
            at_m: The ego's position along the path in m.
            near: The other vehicles within sight.
        """
        nearest: Near | None = None
        for other in near:
            gap = self._gap(way, at_m, other) if other.lane else None
            if gap is not None and (nearest is None or gap < nearest.room_m):
                nearest = Near(other, gap)
        if nearest is None or nearest.room_m >= LEAD_SEEN_M:
            return None
        return Near(nearest.who, max(0.0, nearest.room_m))

    def _gap(self, way: Way, at_m: float, other: Mover) -> float | None:
        start = way.start_m.get(other.lane)
        if start is not None:
            front = start + other.at_m
            return front - other.length - at_m if front > at_m else None
        # The vehicle is turning off the ego's path, but its rear may still be on the
        # path.
        if other.at_m < other.length:
            for entry in self.roads.entries.get(other.lane, ()):
                start = way.start_m.get(entry)
                if start is not None:
                    before = start + self.roads.lanes[entry].length
                    rear = before + other.at_m - other.length
                    return rear - at_m if rear > at_m else None
        return None

    def behind(self) -> Behind | None:
        """Returns the next vehicle behind the ego in the same lane, if one is near."""
        near = self._next_on(self.ego.lane)
        if near is None or near.room_m > FOLLOWER_SEEN_M:
            return None
        return Behind(max(0.0, near.room_m), near.who.speed)

    def beside(self, side: int) -> list[Near]:
        """Returns the next vehicle behind the ego in a neighbouring lane.

        The lane is `side` lanes to the left of the ego's lane.
        """
        lane = self.roads.neighbour(self.roads.lanes[self.ego.lane], side)
        near = None if lane is None else self._next_on(lane.name)
        return [] if near is None else [near]

    def _next_on(self, lane: str) -> Near | None:
        """Returns the next vehicle behind the ego in a lane; the minimum gap is
        subtracted.
        """
        ego = self.ego
        behind = (
            Near(other, ego.at_m - ego.length - other.at_m - _MIN_GAP_M)
            for other in self.vehicles.values()
            if lane and other.lane == lane and other.at_m <= ego.at_m
            if other is not ego
        )
        return min(behind, key=lambda near: near.room_m, default=None)

    def struck(self, moved: float, within_m: float = 0.0) -> Mover | None:
        """Returns a road user that the ego touches, or None.

        Args:
            moved: The speed of the ego before the contact, in m/s. A pedestrian who
                touches a slower car has walked into it, which does not count.
            within_m: A smaller distance between bodies counts as a contact.
        """
        ego = self.ego
        for other in (*self.vehicles.values(), *self.people.values()):
            if other is not ego and not (other.on_foot and moved < TOUCH):
                if touches(ego, other, within_m):
                    return other
        return None

    def on_crosswalk(self, person: Mover) -> str:
        """Returns the edge of the crosswalk that a pedestrian is on; empty if none."""
        return self.crosswalks.at(person.x, person.y)

    def crosswalks_of(self, person: Mover) -> Iterator[str]:
        """Yields the edges of the crosswalks that a pedestrian is on or about to enter.

        An empty name is yielded if there is no such crosswalk.
        """
        yield self.on_crosswalk(person)
        if person.speed >= _WALKING:
            yield self.next_crosswalk(person)


_NEAR_M = 15.0


def touches(vehicle: Mover, other: Mover, within_m: float = 0.0) -> bool:
    """Whether a vehicle touches a road user, or is within a given distance of it."""
    if abs(other.x - vehicle.x) + abs(other.y - vehicle.y) > (
        _NEAR_M + vehicle.length + other.length
    ):
        return False
    ax, ay = middle(vehicle)
    bx, by = middle(other)
    dx, dy = bx - ax, by - ay
    for axis in (vehicle.heading, other.heading):
        for turned in (axis, axis + math.pi / 2.0):
            apart = abs(dx * math.cos(turned) + dy * math.sin(turned))
            reach = half_extent(vehicle, turned) + half_extent(other, turned)
            if apart >= reach + within_m:
                return False
    return True


def gap_m(one: Mover, other: Mover) -> float:
    """Returns the distance in m between two bodies; 0 if they touch."""
    if touches(one, other):
        return 0.0
    return min(apart(a, b) for a in _edges(one) for b in _edges(other))


def _edges(mover: Mover) -> list[tuple[Point, Point]]:
    """Returns the sides of a body."""
    (x, y), cos, sin = middle(mover), math.cos(mover.heading), math.sin(mover.heading)
    along, aside = mover.length / 2.0, mover.width / 2.0
    corners = [
        (x + a * along * cos - b * aside * sin, y + a * along * sin + b * aside * cos)
        for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))
    ]
    return list(zip(corners, [*corners[1:], corners[0]], strict=True))


def clearance(one: Mover, other: Mover, most_m: float = math.inf) -> float | None:
    """Returns the distance in m between two vehicles, both assumed to be as wide as the
    ego.

    Args:
        one: A vehicle.
        other: The other vehicle.
        most_m: The maximum distance in m; None is returned for greater distances.
    """
    longest_m = most_m + EGO_WIDTH_M + one.length + other.length
    if max(abs(other.x - one.x), abs(other.y - one.y)) > longest_m:
        return None
    found_m = max(0.0, apart(_spine(one), _spine(other)) - EGO_WIDTH_M)
    return None if found_m > most_m else found_m


def _spine(vehicle: Mover) -> tuple[Point, Point]:
    """Returns the line from a vehicle's front to its rear."""
    back_x = vehicle.length * math.cos(vehicle.heading)
    back_y = vehicle.length * math.sin(vehicle.heading)
    return (vehicle.x, vehicle.y), (vehicle.x - back_x, vehicle.y - back_y)


def middle(mover: Mover) -> Point:
    back = 0.0 if mover.on_foot else mover.length / 2.0
    return (
        mover.x - back * math.cos(mover.heading),
        mover.y - back * math.sin(mover.heading),
    )


def half_extent(mover: Mover, axis: float) -> float:
    """Returns half the extent of a body along an axis, in m."""
    turned = mover.heading - axis
    along = mover.length * abs(math.cos(turned))
    return (along + mover.width * abs(math.sin(turned))) / 2.0


_TURNS = {
    TurnSignal.LEFT: (LinkDirection.LEFT, LinkDirection.U_TURN),
    TurnSignal.RIGHT: (LinkDirection.RIGHT,),
}
_LANE_KEEPING_M = 0.6  # a vehicle stays on its lane unless another fits better
_SIDEWAYS = 0.3  # m/s; slower lateral motion is normal lane keeping
_WAY_EDGES = 4
_CORNER_M = 1.6  # a pedestrian this near to a crosswalk's end is about to cross,
_AWAY = -0.4  # unless walking away from it


class SeenScene(Scene):
    """A scene built from positions and headings alone.

    Args:
        roads: The road network of the map.
        ego: The name of the ego.
        places: Finds the lanes at a position.
    """

    def __init__(self, roads: Roads, ego: str, places: Places) -> None:
        super().__init__(roads, ego)
        self.places = places

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """Infers the next edges of a vehicle from its lane and turn signal."""
        lane = self.roads.lanes.get(vehicle.lane)
        edges: set[str] = set()
        if lane is None:
            return edges
        edges.add(lane.edge)
        for name in self.onward(vehicle, lane):
            exits = self._exits(self.roads.lanes[name])
            edges |= exits
            for edge in exits:
                for beyond in self.roads.lanes_of.get(edge, ()):
                    edges |= {self.roads.lanes[k.to].edge for k in beyond.links}
        return edges

    def onward(self, vehicle: Mover, lane: Lane) -> list[str]:
        """Returns the lanes that a vehicle may take next, the most likely first."""
        if lane.inside or not lane.links:
            return [link.via or link.to for link in lane.links] or [lane.name]
        if self.route and vehicle.name == self.name:
            on_route = [
                link
                for link in lane.links
                if self.roads.lanes[link.to].edge in self.route
            ]
            if on_route:
                return [link.via or link.to for link in on_route]
        wanted = _TURNS.get(vehicle.signal, (LinkDirection.FORWARD,))
        fits = [link for link in lane.links if link.turn in wanted]
        return [link.via or link.to for link in fits or lane.links]

    def straight_on(self, mover: Mover) -> tuple[str, ...]:
        """Predicts the next edges of a vehicle from its lane and turn signal."""
        lane = self.roads.lanes[mover.lane]
        edges: list[str] = []
        if lane.inside:
            entries = sorted(self.roads.entries.get(lane.name, ()))
            edges += [self.roads.lanes[name].edge for name in entries[:1]]
        else:
            edges.append(lane.edge)
        for _ in range(_WAY_EDGES):
            following = self.onward(mover, lane)
            lane = self.roads.lanes[following[0]]
            while lane.inside and lane.links:
                lane = self.roads.lanes[lane.links[0].via or lane.links[0].to]
            if lane.edge in edges or lane.inside:
                break
            edges.append(lane.edge)
        return tuple(edges)

    def _exits(self, lane: Lane) -> set[str]:
        if not lane.inside:
            return {lane.edge}
        return {self.roads.lanes[link.to].edge for link in lane.links}

    def next_crosswalk(self, person: Mover) -> str:
        """Returns the crosswalk that a nearby pedestrian is about to enter."""
        ux, uy = math.cos(person.heading), math.sin(person.heading)
        for crosswalk in self.crosswalks.near(person.x, person.y):
            along, aside = crosswalk.place(person.x, person.y)
            (ax, ay), (bx, by) = crosswalk.ends
            towards = ((bx - ax) * ux + (by - ay) * uy) / crosswalk.length_m
            if along > crosswalk.length_m / 2.0:
                along, towards = crosswalk.length_m - along, -towards
            near = -_CORNER_M < along < 0.0 and abs(aside) <= crosswalk.half_m
            if near and towards > _AWAY:
                return crosswalk.edge
        return ""

    def locate(self, mover: Mover, vx: float, vy: float) -> None:
        """Updates the lane of a vehicle, and its lateral speed from its velocity."""
        place = self.settle(mover)
        if place is None:
            mover.lane, mover.lateral = "", 0.0
            return
        mover.lane, mover.at_m = place.lane, place.along_m
        _, along_deg = self.places.at(place.lane, place.along_m)
        along = math.radians(along_deg)
        aside = vy * math.cos(along) - vx * math.sin(along)
        mover.lateral = aside if abs(aside) > _SIDEWAYS else 0.0

    def favour_m(self, vehicle: Mover, lane: str) -> float:
        """Returns the distance by which another lane must be nearer to be chosen."""
        return 0.0

    def settle(self, mover: Mover) -> Place | None:
        """Returns the most likely lane of a road user, or None."""
        lane = self.roads.lanes.get(mover.lane)
        x, y, heading = mover.x, mover.y, math.degrees(mover.heading)
        fitting = list(self.places.near(x, y, heading))
        if not fitting:
            return None
        best = min(fitting, key=lambda p: p.off - self.favour_m(mover, p.lane))
        if lane is None:
            return best
        own = next((p for p in fitting if p.lane == lane.name), None)
        if own is not None and own.along_m < lane.length - 1e-3:
            # Paths diverge slowly inside a junction, so a vehicle stays on its lane
            # there.
            keeps = math.inf if lane.inside else _LANE_KEEPING_M
            if own.off < best.off + keeps:
                return own
        likely = self.onward(mover, lane)
        return next((p for name in likely for p in fitting if p.lane == name), best)


_BAR_M = 0.6
"""The thickness of the bar that shows a light at the stop line."""


class SceneShown:
    """Draws a scene in live views; implements `Scenic`.

    Args:
        roads: The road network of the map.
        scene: Returns the current scene, or None before the first one.
    """

    def __init__(self, roads: Roads, scene: Callable[[], Scene | None]) -> None:
        self._roads, self._scene = roads, scene

    @cached_property
    def _bars(self) -> list[tuple[LightName, Thing]]:
        return list(_bars(self._roads))

    def ground(self) -> list[Shape]:
        """Returns the map's lanes and crosswalks."""
        return list(ground(self._roads))

    def things(self, hit: str | None = None) -> list[Thing]:
        """Returns the ego, other vehicles, pedestrians and traffic lights.

        Args:
            hit: The name of the road user that the ego has hit, if any.
        """
        scene = self._scene()
        if scene is None:
            return []
        movers = sorted(scene.vehicles.values(), key=lambda m: m.name != scene.name)
        seen = [
            _shown(scene.watch(m), "ego" if m.name == scene.name else "vehicle", hit)
            for m in movers
        ]
        seen += [_shown(mover, "pedestrian", hit) for mover in scene.people.values()]
        for place, (light, bar) in enumerate(self._bars):
            state = scene.light(light).colour.name.lower()
            if bar.state != state:
                self._bars[place] = light, replace(bar, state=state)
        return seen + [bar for _, bar in self._bars]


def ground(roads: Roads) -> Iterator[Shape]:
    """Yields lanes, sidewalks, crosswalks and the paths through junctions."""
    for lane in roads.lanes.values():
        points = tuple((float(x), float(y)) for x, y in lane.shape)
        if lane.is_crosswalk:
            yield Shape("crosswalk", points, lane.width)
        elif lane.inside:
            yield Shape("junction", points, lane.width)
        else:
            yield Shape("lane" if lane.for_cars else "sidewalk", points, lane.width)


def _shown(
    mover: Mover, kind: Literal["ego", "vehicle", "pedestrian"], hit: str | None
) -> Thing:
    x, y = middle(mover)
    angle = (90.0 - math.degrees(mover.heading)) % 360.0
    state = HIT if mover.name == hit else ""
    return Thing(mover.name, kind, x, y, angle, mover.length, mover.width, state)


def _bars(roads: Roads) -> Iterator[tuple[LightName, Thing]]:
    """Yields a bar for each light of a lane, across a part of the lane's width."""
    for lane in roads.lanes.values():
        governing = {roads.light_of(link) for link in lane.links}
        lights = sorted(light for light in governing if light is not None)
        if lane.inside or not lane.for_cars or not lights or len(lane.shape) < 2:
            continue
        (ax, ay), (bx, by) = lane.shape[-2:]
        angle, width = math.atan2(bx - ax, by - ay), lane.width / len(lights)
        for place, light in enumerate(lights):
            aside = ((len(lights) - 1) / 2.0 - place) * width
            yield light, Thing(
                f"{lane.name} light {place}", "light", bx + aside * math.cos(angle),
                by - aside * math.sin(angle), math.degrees(angle) % 360.0, _BAR_M,
                width,
            )  # fmt: skip
