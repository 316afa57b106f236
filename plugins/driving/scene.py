"""The scene: who is on the roads at one moment, on which lanes, and what lights show.

Each world fills one in its own way; the senses look at nothing else, so that all of
them have the same signals. Vehicles are placed by their fronts, y points to the left of
x, and headings are in radians counterclockwise from x.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from forewarn.plugins.driving.roads.crosswalks import Crosswalks
from forewarn.plugins.driving.roads.lanes import LightName
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.roads.ways import Way

EGO_WIDTH_M = 1.8
LEAD_SEEN_M = 100.0
FOLLOWER_SEEN_M = 60.0

_KEEPS_M = 2.5  # that followers keep even when they stand
_STROLLS = 0.2  # m/s: who walks more slowly is not about to cross


class Colour(StrEnum):
    """What a traffic light shows, in the words of the signal `traffic_light`."""

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
    """What a vehicle's blinkers say."""

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
    """A vehicle, placed by its front, or a pedestrian, placed by the middle.

    Args:
        heading: In radians, counterclockwise from east.
        speed: In m/s.
        lane: Empty where no lane is known.
        at_m: From where the lane begins.
        lateral: How fast it moves across the lane, in m/s.
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
    """Somebody near the ego, and how much room there is between."""

    who: Mover
    room_m: float


@dataclass(frozen=True, slots=True)
class Behind:
    """Who follows the ego, and how closely."""

    gap_m: float
    speed: float


class Scene(ABC):
    """Everyone at one moment; the next one is filled into the same scene.

    Args:
        roads: The map's.
        ego: The ego's name.
    """

    def __init__(self, roads: Roads, ego: str) -> None:
        self.roads, self.name = roads, ego
        self.vehicles: dict[str, Mover] = {}
        """By name, the ego among them."""
        self.people: dict[str, Mover] = {}
        self.route: tuple[str, ...] = ()
        """The ego's edges."""

    @cached_property
    def crosswalks(self) -> Crosswalks:
        """The map's."""
        return Crosswalks(self.roads)

    @property
    def ego(self) -> Mover:
        return self.vehicles[self.name]

    # -- what a world tells -----------------------------------------------------------

    @abstractmethod
    def edges_of(self, vehicle: Mover) -> Container[str]:
        """The edges that somebody may take, as far as one can tell."""

    @abstractmethod
    def light(self, name: LightName) -> Light:
        """What a light shows."""

    @abstractmethod
    def light_age_s(self, name: LightName) -> float:
        """For how long it has shown that."""

    @abstractmethod
    def next_crosswalk(self, person: Mover) -> str:
        """The edge of the crosswalk that somebody is about to enter; empty for none."""

    def watch(self, other: Mover) -> Mover:
        """A vehicle as it is now; a world may have told no more than its place."""
        return other

    # -- what follows from it ---------------------------------------------------------

    def route_ahead(self) -> tuple[str, ...]:
        """The route from the edge that the ego is on, or was on last."""
        return self.roads.from_here(self.roads.lanes[self.ego.lane], self.route)

    def way(self) -> Way:
        """What is before the ego."""
        return self.roads.way(self.ego.lane, self.route_ahead())

    def lead(self, way: Way, at_m: float, near: Iterable[Mover]) -> Near | None:
        """Who is next on the ego's way, or with its rear still on it.

        Args:
            way: The ego's way.
            at_m: How far along it the ego is.
            near: Everybody else within sight.
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
        # It turns off the ego's way, and its rear may still be on it.
        if other.at_m < other.length:
            for entry in self.roads.entries.get(other.lane, ()):
                start = way.start_m.get(entry)
                if start is not None:
                    before = start + self.roads.lanes[entry].length
                    rear = before + other.at_m - other.length
                    return rear - at_m if rear > at_m else None
        return None

    def behind(self) -> Behind | None:
        """Who is next behind on the ego's lane, if anyone is near."""
        near = self._next_on(self.ego.lane)
        if near is None or near.room_m > FOLLOWER_SEEN_M:
            return None
        return Behind(max(0.0, near.room_m), near.who.speed)

    def beside(self, side: int) -> list[Near]:
        """Who comes from behind on the lane so many to the left of the ego's."""
        lane = self.roads.neighbour(self.roads.lanes[self.ego.lane], side)
        near = None if lane is None else self._next_on(lane.name)
        return [] if near is None else [near]

    def _next_on(self, lane: str) -> Near | None:
        """Who is next behind on a lane, with the room beyond what followers keep."""
        ego = self.ego
        behind = (
            Near(other, ego.at_m - ego.length - other.at_m - _KEEPS_M)
            for other in self.vehicles.values()
            if lane and other.lane == lane and other.at_m <= ego.at_m
            if other is not ego
        )
        return min(behind, key=lambda near: near.room_m, default=None)

    def on_crosswalk(self, person: Mover) -> str:
        """The edge of the crosswalk that somebody is on; empty for none."""
        return self.crosswalks.at(person.x, person.y)

    def crosswalks_of(self, person: Mover) -> Iterator[str]:
        """The edges of the crosswalks that somebody is on, or about to be on."""
        yield self.on_crosswalk(person)
        if person.speed >= _STROLLS:
            yield self.next_crosswalk(person)
