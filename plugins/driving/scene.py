"""The scene: the road users at one moment, their lanes, and the traffic lights.

Each world fills in a scene in its own way. The senses read nothing else, so all worlds
have the same signals. A vehicle's position is that of its front, y points to the left
of x, and headings are in radians counterclockwise from x.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, NamedTuple

from forewarn.plugins.contracts import Shape, Thing
from forewarn.plugins.driving.places import Crosswalks, Place, Places
from forewarn.plugins.driving.roads import (
    Lane,
    LightName,
    Point,
    Roads,
    Turn,
    Way,
    apart,
)

EGO_WIDTH_M = 1.8
LEAD_SEEN_M = 100.0
FOLLOWER_SEEN_M = 60.0

_MIN_GAP_M = 2.5  # minimum distance that followers keep, even at a standstill
_WALKING = 0.2  # m/s: a slower pedestrian is not about to cross


class Colour(StrEnum):
    """The colour of a traffic light, with the values of the signal `traffic_light`."""

    RED = "red"
    YELLOW = "yellow"
    GREEN = "green"
    OFF = "off"
    UNKNOWN = "unknown"


class Light(NamedTuple):
    """A traffic light at one moment."""

    colour: Colour
    blinking: bool = False


class TurnSignal(StrEnum):
    """A vehicle's turn signals."""

    OFF = "off"
    LEFT = "left"
    RIGHT = "right"
    HAZARD = "hazard"


class Lamps(NamedTuple):
    """Which lamps of a vehicle are lit."""

    low_beam: bool = False
    high_beam: bool = False
    fog: bool = False


DARK = Lamps()


@dataclass(slots=True)
class Mover:
    """A vehicle, positioned by its front, or a pedestrian, positioned by the centre.

    Args:
        heading: In radians, counterclockwise from east.
        speed: In m/s.
        lane: The lane's name; empty if unknown.
        at_m: The distance from the lane's start.
        lateral: The speed across the lane in m/s.
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


class Near(NamedTuple):
    """A road user near the ego, and the gap to it."""

    who: Mover
    room_m: float


@dataclass(frozen=True, slots=True)
class Behind:
    """The vehicle that follows the ego, and its gap."""

    gap_m: float
    speed: float


class Scene(ABC):
    """All road users at one moment; updated in place for the next moment.

    Args:
        roads: The map's roads.
        ego: The ego's name.
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

    # -- what a world tells -----------------------------------------------------------

    @abstractmethod
    def edges_of(self, vehicle: Mover) -> Container[str]:
        """The edges that a vehicle may take next, as far as known."""

    @abstractmethod
    def light(self, name: LightName) -> Light:
        """The state of a traffic light."""

    @abstractmethod
    def light_age_s(self, name: LightName) -> float:
        """How long a light has been in its state."""

    @abstractmethod
    def next_crosswalk(self, person: Mover) -> str:
        """The edge of the crosswalk that a pedestrian is about to enter, or empty."""

    def watch(self, other: Mover) -> Mover:
        """A vehicle with all its values; before this, a world may have read only its
        position.
        """
        return other

    # -- what follows from it ---------------------------------------------------------

    def route_ahead(self) -> tuple[str, ...]:
        """The route from the ego's present or last edge on."""
        return self.roads.from_here(self.roads.lanes[self.ego.lane], self.route)

    def way(self) -> Way:
        """The ego's path."""
        return self.roads.way(self.ego.lane, self.route_ahead())

    def lead(self, way: Way, at_m: float, near: Iterable[Mover]) -> Near | None:
        """The next vehicle on the ego's path, including one that is turning off it.

        Args:
            way: The ego's path.
            at_m: The ego's position along it.
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
        # It is turning off the ego's path, and its rear may still be on it.
        if other.at_m < other.length:
            for entry in self.roads.entries.get(other.lane, ()):
                start = way.start_m.get(entry)
                if start is not None:
                    before = start + self.roads.lanes[entry].length
                    rear = before + other.at_m - other.length
                    return rear - at_m if rear > at_m else None
        return None

    def behind(self) -> Behind | None:
        """The next vehicle behind the ego in its lane, if one is near."""
        near = self._next_on(self.ego.lane)
        if near is None or near.room_m > FOLLOWER_SEEN_M:
            return None
        return Behind(max(0.0, near.room_m), near.who.speed)

    def beside(self, side: int) -> list[Near]:
        """The vehicle approaching from behind, `side` lanes to the left of the ego's
        lane.
        """
        lane = self.roads.neighbour(self.roads.lanes[self.ego.lane], side)
        near = None if lane is None else self._next_on(lane.name)
        return [] if near is None else [near]

    def _next_on(self, lane: str) -> Near | None:
        """The next vehicle behind in a lane; its gap excludes the minimum distance."""
        ego = self.ego
        behind = (
            Near(other, ego.at_m - ego.length - other.at_m - _MIN_GAP_M)
            for other in self.vehicles.values()
            if lane and other.lane == lane and other.at_m <= ego.at_m
            if other is not ego
        )
        return min(behind, key=lambda near: near.room_m, default=None)

    def on_crosswalk(self, person: Mover) -> str:
        """The edge of the crosswalk that a pedestrian is on, or empty."""
        return self.crosswalks.at(person.x, person.y)

    def crosswalks_of(self, person: Mover) -> Iterator[str]:
        """The edges of the crosswalks that a pedestrian is on or about to enter."""
        yield self.on_crosswalk(person)
        if person.speed >= _WALKING:
            yield self.next_crosswalk(person)


_NEAR_M = 15.0


def touches(
    vehicle: Mover, other: Mover, *, on_foot: bool, within_m: float = 0.0
) -> bool:
    """Whether a vehicle's body touches another, or comes within a distance of it.

    Args:
        vehicle: The vehicle.
        other: The other road user.
        on_foot: Whether the other is a pedestrian.
        within_m: The distance.
    """
    if abs(other.x - vehicle.x) + abs(other.y - vehicle.y) > (
        _NEAR_M + vehicle.length + other.length
    ):
        return False
    ax, ay = middle(vehicle)
    bx, by = (other.x, other.y) if on_foot else middle(other)
    dx, dy = bx - ax, by - ay
    for axis in (vehicle.heading, other.heading):
        for turned in (axis, axis + math.pi / 2.0):
            apart = abs(dx * math.cos(turned) + dy * math.sin(turned))
            reach = half_extent(vehicle, turned) + half_extent(other, turned)
            if apart >= reach + within_m:
                return False
    return True


def clearance(one: Mover, other: Mover, most_m: float = math.inf) -> float | None:
    """The distance between two vehicles, both assumed as wide as the ego.

    Args:
        one: A vehicle.
        other: The other vehicle.
        most_m: The maximum; beyond it the result is None.
    """
    longest_m = most_m + EGO_WIDTH_M + one.length + other.length
    if max(abs(other.x - one.x), abs(other.y - one.y)) > longest_m:
        return None
    found_m = max(0.0, apart(_spine(one), _spine(other)) - EGO_WIDTH_M)
    return None if found_m > most_m else found_m


def _spine(vehicle: Mover) -> tuple[Point, Point]:
    """The line from a vehicle's front to its rear."""
    back_x = vehicle.length * math.cos(vehicle.heading)
    back_y = vehicle.length * math.sin(vehicle.heading)
    return (vehicle.x, vehicle.y), (vehicle.x - back_x, vehicle.y - back_y)


def middle(vehicle: Mover) -> Point:
    back = vehicle.length / 2.0
    return (
        vehicle.x - back * math.cos(vehicle.heading),
        vehicle.y - back * math.sin(vehicle.heading),
    )


def half_extent(mover: Mover, axis: float) -> float:
    """Half the extent of a body along an axis."""
    turned = mover.heading - axis
    along = mover.length * abs(math.cos(turned))
    return (along + mover.width * abs(math.sin(turned))) / 2.0


_TURNS = {
    TurnSignal.LEFT: (Turn.LEFT, Turn.U_TURN), TurnSignal.RIGHT: (Turn.RIGHT,),
}  # fmt: skip
_LANE_KEEPING_M = 0.6  # a vehicle keeps its lane until another fits better by this much
_WAY_EDGES = 4
_CORNER_M = 1.6  # a pedestrian this near a crosswalk's end is about to cross,
_AWAY = -0.4  # unless walking away from it


class SeenScene(Scene):
    """A scene built from positions and headings alone.

    Args:
        roads: The map's roads.
        ego: The ego's name.
        places: Finds the lanes at a position.
    """

    def __init__(self, roads: Roads, ego: str, places: Places) -> None:
        super().__init__(roads, ego)
        self.places = places

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """The edges that a vehicle may take next, from its lane and turn signal."""
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
        """The lanes that a vehicle may take next, the most likely first."""
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
        wanted = _TURNS.get(vehicle.signal, (Turn.FORWARD,))
        fits = [link for link in lane.links if link.turn in wanted]
        return [link.via or link.to for link in fits or lane.links]

    def straight_on(self, mover: Mover) -> tuple[str, ...]:
        """The edges ahead of a vehicle that follows its turn signal or its lane."""
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
        """The crosswalk that a pedestrian at its corner walks towards."""
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

    def settle(self, mover: Mover) -> Place | None:
        """The lane that a road user is on; the most likely one if several fit."""
        lane = self.roads.lanes.get(mover.lane)
        x, y, heading = mover.x, mover.y, math.degrees(mover.heading)
        fitting = list(self.places.near(x, y, heading))
        if not fitting:
            return None
        best = min(fitting, key=lambda place: place.off)
        if lane is None:
            return best
        own = next((p for p in fitting if p.lane == lane.name), None)
        if own is not None and own.along_m < lane.length - 1e-3:
            # Paths diverge slowly inside a junction, so a vehicle keeps its lane there.
            keeps = math.inf if lane.inside else _LANE_KEEPING_M
            if own.off < best.off + keeps:
                return own
        likely = self.onward(mover, lane)
        return next((p for name in likely for p in fitting if p.lane == name), best)


_BAR_M = 0.6
"""The thickness of the bar that shows a light at the stop line."""


class SceneShown:
    """Shows a scene in live views; implements `Scenic`.

    Args:
        roads: The map's roads.
        scene: Returns the current scene, or None before the first one.
    """

    def __init__(self, roads: Roads, scene: Callable[[], Scene | None]) -> None:
        self._roads, self._scene = roads, scene

    @cached_property
    def _bars(self) -> list[tuple[list[LightName], Thing]]:
        return list(_bars(self._roads))

    def ground(self) -> list[Shape]:
        """The map's lanes and crosswalks."""
        return list(ground(self._roads))

    def things(self) -> list[Thing]:
        """The ego, then the other vehicles, pedestrians and lights."""
        scene = self._scene()
        if scene is None or scene.name not in scene.vehicles:
            return []
        seen = [_shown(scene.ego, "ego")]
        for mover in scene.vehicles.values():
            if mover is not scene.ego:
                seen.append(_shown(mover, "vehicle"))
        seen += [_shown(mover, "pedestrian") for mover in scene.people.values()]
        for place, (lights, bar) in enumerate(self._bars):
            # If several lights govern a lane, the first with a known state is shown.
            shown = [scene.light(light).colour for light in lights]
            known = [colour for colour in shown if colour is not Colour.UNKNOWN]
            state = (known or shown)[0].name.lower()
            if bar.state != state:
                self._bars[place] = lights, replace(bar, state=state)
        return seen + [bar for _, bar in self._bars]


def ground(roads: Roads) -> Iterator[Shape]:
    """The lanes outside junctions, and the paths through junctions."""
    for lane in roads.lanes.values():
        points = tuple((float(x), float(y)) for x, y in lane.shape)
        if lane.is_crosswalk:
            yield Shape("crosswalk", points, lane.width)
        elif lane.inside:
            yield Shape("junction", points, lane.width)
        else:
            yield Shape("lane" if lane.for_cars else "sidewalk", points, lane.width)


def _shown(mover: Mover, kind: Literal["ego", "vehicle", "pedestrian"]) -> Thing:
    x, y = mover.x, mover.y
    if kind != "pedestrian":
        # A vehicle's position is that of its front.
        x -= mover.length / 2.0 * math.cos(mover.heading)
        y -= mover.length / 2.0 * math.sin(mover.heading)
    angle = (90.0 - math.degrees(mover.heading)) % 360.0
    return Thing(mover.name, kind, x, y, angle, mover.length, mover.width)


def _bars(roads: Roads) -> Iterator[tuple[list[LightName], Thing]]:
    """A bar across each lane that leads to a light."""
    for lane in roads.lanes.values():
        governing = {roads.light_of(link) for link in lane.links}
        lights = sorted(light for light in governing if light is not None)
        if lane.inside or not lane.for_cars or not lights or len(lane.shape) < 2:
            continue
        (ax, ay), (bx, by) = lane.shape[-2:]
        angle = math.degrees(math.atan2(bx - ax, by - ay)) % 360.0
        bar = Thing(f"{lane.name} light", "light", bx, by, angle, _BAR_M, lane.width)
        yield lights, bar
