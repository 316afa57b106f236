"""Finds the lanes and crosswalks near a point, and the right of way at junctions."""

from __future__ import annotations

import math
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, Self, TypeVar

from forewarn.plugins.driving.roads import (
    Lane,
    Link,
    LinkDirection,
    Point,
    Roads,
    crossing,
    heading_of,
)

_CELL_M = 12.0
_ASIDE_M = 1.2  # a vehicle up to this far outside a lane still counts as being on it
_COURSE_DEG = 70.0
_TURNED_M = 0.05
"""The lateral distance in m that is weighted like a heading error of one degree."""


class Place(NamedTuple):
    """A position on a lane.

    Args:
        lane: The lane's name.
        along_m: The distance from the lane's start in m.
        left_m: The distance to the left of the centre line in m.
        off: The cost of matching the position to the lane; lower is better.
    """

    lane: str
    along_m: float
    left_m: float
    off: float


class Places:
    """Finds lanes for cars by position and heading.

    Args:
        roads: The road network to search.
    """

    def __init__(self, roads: Roads) -> None:
        self._lines = {
            lane.name: _Line(lane) for lane in roads.lanes.values() if lane.for_cars
        }
        self._cells: dict[tuple[int, int], dict[str, list[_Part]]] = {}
        for name, line in self._lines.items():
            for part in line.parts:
                for cell in part.cells(line.reach):
                    lines = self._cells.setdefault(cell, {})
                    lines.setdefault(name, []).append(part)

    def near(self, x: float, y: float, heading_deg: float) -> Iterator[Place]:
        """Yields the lanes that fit the position and heading of a road user."""
        cell = math.floor(x / _CELL_M), math.floor(y / _CELL_M)
        for name, parts in self._cells.get(cell, {}).items():
            yield from self._fitting(name, parts, x, y, heading_deg)

    def on(self, name: str, x: float, y: float, heading_deg: float) -> Place | None:
        """Returns the position on this lane, or None if the lane does not fit."""
        parts = self._lines[name].parts
        return next(self._fitting(name, parts, x, y, heading_deg), None)

    def _fitting(
        self, name: str, parts: Sequence[_Part], x: float, y: float, heading_deg: float
    ) -> Iterator[Place]:
        line, nearest = self._lines[name], math.inf
        for part in parts:
            ahead, over, aside = part.beside(x, y)
            if (away := over * over + aside * aside) < nearest:
                nearest, found = away, (part, part.start + ahead, aside)
        part, along, left = found
        turned = abs((heading_deg - part.heading_deg + 180.0) % 360.0 - 180.0)
        beyond = max(-along, along - line.length, 0.0)
        if turned < _COURSE_DEG and nearest < line.reach**2 and beyond < _ASIDE_M:
            at_m = min(max(along, 0.0), line.length) * line.scale
            cost = abs(left) + _TURNED_M * turned + 2.0 * beyond
            yield Place(name, at_m, left, cost)

    def at(self, name: str, along_m: float) -> tuple[Point, float]:
        """Returns the point at a distance along a lane's centre line, and the heading
        there.

        The distance is in m, and the heading in degrees.
        """
        line = self._lines[name]
        along = along_m / line.scale
        part = next((p for p in line.parts if along <= p.end), line.parts[-1])
        ahead = along - part.start
        return (part.x + ahead * part.ux, part.y + ahead * part.uy), part.heading_deg


class _Part(NamedTuple):
    """A straight part of a lane's centre line.

    Args:
        x: The x coordinate of the start.
        y: The y coordinate of the start.
        ux: The x component of the direction.
        uy: The y component of the direction.
        start: The position of the start along the line in m.
        end: The position of the end along the line in m.
        low: The lowest distance from the start of a point beside the part, in m; the
            first part is extended straight before the line.
        high: The highest such distance in m; the last part is extended, too.
    """

    x: float
    y: float
    ux: float
    uy: float
    start: float
    end: float
    low: float
    high: float

    @property
    def heading_deg(self) -> float:
        return math.degrees(math.atan2(self.uy, self.ux))

    def beside(self, x: float, y: float) -> tuple[float, float, float]:
        """Returns a point's distances along the part, beyond its ends, and to its left,
        in m.
        """
        dx, dy = x - self.x, y - self.y
        ahead = dx * self.ux + dy * self.uy
        near = min(max(ahead, self.low), self.high)
        return near, ahead - near, self.ux * dy - self.uy * dx

    def cells(self, reach: float) -> set[tuple[int, int]]:
        """Returns the grid cells in which a road user on this part may be."""
        length = self.end - self.start
        steps = max(1, math.ceil(length / (_CELL_M / 2.0)))
        aheads = [length * i / steps for i in range(steps + 1)]
        return {
            (
                math.floor((self.x + ahead * self.ux + dx) / _CELL_M),
                math.floor((self.y + ahead * self.uy + dy) / _CELL_M),
            )
            for ahead in aheads
            for dx in (-reach, reach)
            for dy in (-reach, reach)
        }


class _Line:
    """The centre line of a lane.

    A map may give a lane a length other than that of its line. The attribute `scale` is
    the ratio of the two.
    """

    def __init__(self, lane: Lane) -> None:
        self.reach = lane.width / 2.0 + _ASIDE_M
        pairs = [(a, b) for a, b in pairwise(lane.shape) if math.dist(a, b) > 0.0]
        self.parts: list[_Part] = []
        self.length = 0.0
        for i, ((ax, ay), (bx, by)) in enumerate(pairs):
            size = math.hypot(bx - ax, by - ay)
            begin, self.length = self.length, self.length + size
            self.parts.append(
                _Part(
                    ax, ay, (bx - ax) / size, (by - ay) / size, begin, self.length,
                    -math.inf if i == 0 else 0.0,
                    math.inf if i == len(pairs) - 1 else size,
                )
            )  # fmt: skip
        given = lane.length > 0.0 and not math.isclose(lane.length, self.length)
        self.scale = lane.length / self.length if given else 1.0


_CROSSWALK_CELL_M = 16.0
_AROUND_M = 2.0


@dataclass(frozen=True, slots=True)
class Crosswalk:
    """A crosswalk: its end points and half its width."""

    edge: str
    ends: tuple[Point, Point]
    half_m: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Returns a point's position along the crosswalk and across it, in m."""
        (ax, ay), (bx, by) = self.ends
        length = self.length_m
        ux, uy = (bx - ax) / length, (by - ay) / length
        return (x - ax) * ux + (y - ay) * uy, (y - ay) * ux - (x - ax) * uy

    @property
    def length_m(self) -> float:
        return math.dist(*self.ends)

    def cells(self) -> Iterator[tuple[int, int]]:
        """Yields the grid cells that the crosswalk touches."""
        (ax, ay), (bx, by) = self.ends
        reach = self.half_m + _AROUND_M
        for i in _cells(min(ax, bx) - reach, max(ax, bx) + reach):
            for j in _cells(min(ay, by) - reach, max(ay, by) + reach):
                yield i, j


class Crosswalks:
    """Finds the crosswalks of a map by position.

    Args:
        roads: The road network of the map.
    """

    def __init__(self, roads: Roads) -> None:
        self._in: dict[tuple[int, int], list[Crosswalk]] = {}
        for lane in roads.lanes.values():
            if lane.is_crosswalk and len(lane.shape) > 1:
                ends = lane.shape[0], lane.shape[-1]
                crosswalk = Crosswalk(lane.edge, ends, lane.width / 2.0)
                for cell in crosswalk.cells():
                    self._in.setdefault(cell, []).append(crosswalk)

    def near(self, x: float, y: float) -> Sequence[Crosswalk]:
        """Returns the crosswalks near a point."""
        return self._in.get(
            (math.floor(x / _CROSSWALK_CELL_M), math.floor(y / _CROSSWALK_CELL_M)), ()
        )

    def at(self, x: float, y: float) -> str:
        """Returns the edge of the crosswalk at a point, or an empty string."""
        for crosswalk in self.near(x, y):
            along, aside = crosswalk.place(x, y)
            if 0.0 <= along <= crosswalk.length_m and abs(aside) <= crosswalk.half_m:
                return crosswalk.edge
        return ""


def _cells(low: float, high: float) -> range:
    return range(
        math.floor(low / _CROSSWALK_CELL_M), math.floor(high / _CROSSWALK_CELL_M) + 1
    )


SIDEWAYS = math.radians(45.0)
_ONCOMING = math.radians(135.0)


@dataclass(frozen=True, slots=True)
class Movement:
    """A path through a junction, with its right of way.

    Args:
        lane: The lane on which the path begins.
        via: The first lane inside the junction.
        to: The lane after the junction.
        turn: The direction of the turn.
        heading: The heading at the entry, in radians.
        stops: Whether there is a stop sign.
        yields: Whether there is a yield sign.
    """

    lane: str
    via: str
    to: str
    turn: LinkDirection
    heading: float
    stops: bool
    yields: bool

    def goes_before(self, other: Self) -> bool:
        """Whether this movement has right of way over a conflicting one."""
        if self.stops != other.stops:
            return other.stops
        if self.yields != other.yields:
            return other.yields
        turned = math.remainder(self.heading - other.heading, math.tau)
        if abs(turned) > _ONCOMING:
            return other.turn.crosses and not self.turn.crosses
        return self.unsigned(other, turned)

    def unsigned(self, other: Self, turned: float) -> bool:
        """Whether this movement has right of way in the absence of signs.

        By default, traffic from the right has right of way.

        Args:
            other: The other movement, which must not be oncoming.
            turned: The angle in radians by which this movement's heading is to the left
                of the other's.
        """
        return turned > SIDEWAYS


Key = TypeVar("Key", bound=Hashable)


def exits(
    lane: Key, after: Callable[[Key], Iterable[Key]], inside: Callable[[Key], bool]
) -> Iterator[tuple[Key, Key]]:
    """Yields each lane that follows a lane, and the first lane after the junction to
    which it leads. Paths that do not leave their junction are omitted.

    Args:
        lane: The lane.
        after: Returns the successors of a lane.
        inside: Whether a lane is inside a junction.
    """
    for onward in after(lane):
        to: Key | None = onward
        seen: set[Key] = set()
        while to is not None and inside(to):
            seen.add(to)
            following = next(iter(after(to)), None)
            to = None if following in seen else following
        if to is not None:
            yield onward, to


def movements(
    lanes: Mapping[str, Lane], yields: Callable[[Lane, Link], bool]
) -> Iterator[Movement]:
    """Yields the movements along all links through junctions.

    Args:
        lanes: The lanes by name.
        yields: Returns whether there is a yield sign for a link of a lane.
    """
    for lane in lanes.values():
        for link in () if lane.inside else lane.links:
            if link.via:
                yield Movement(
                    lane.name, link.via, link.to, link.turn,
                    heading_of(lane.shape[-2:]), link.stops, yields(lane, link),
                )  # fmt: skip


Way = TypeVar("Way", bound=Movement)


class Junctions(Generic[Way]):
    """Implements the methods of a `Net` that concern lanes and junctions.

    Args:
        lanes: The lanes by name, including crosswalks and lanes inside junctions.
        movements: The movements through the junctions.
    """

    def __init__(self, lanes: Mapping[str, Lane], movements: Iterable[Way]) -> None:
        self._by_name = lanes
        self._inside: dict[str, list[Lane]] = {}
        for lane in lanes.values():
            if lane.inside:
                self._inside.setdefault(lane.junction, []).append(lane)
        self._through: dict[str, list[Way]] = {}
        self._into: dict[str, str] = {}
        for movement in movements:
            junction = lanes[movement.via].junction
            self._through.setdefault(junction, []).append(movement)
            self._into[lanes[movement.lane].edge] = junction
        self.movements = [each for group in self._through.values() for each in group]

    def lanes(self) -> Iterable[Lane]:
        return self._by_name.values()

    def meets(self, inside: str) -> Collection[str]:
        lane = self._by_name[inside]
        return [
            other.name
            for other in self._inside[lane.junction]
            if other is not lane and crossing(lane.shape, other.shape) is not None
        ]

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        group = self._group(self._by_name[lane].edge)
        own = [m for m in group if (m.lane, m.to) == (lane, to)]
        return {
            m.lane
            for m in group
            if m.lane != lane and any(m.goes_before(each) for each in own)
        }

    def approaches(self, edge: str) -> Iterable[str]:
        group = self._group(edge)
        return list(dict.fromkeys(self._by_name[m.lane].edge for m in group))

    def _group(self, edge: str) -> list[Way]:
        junction = self._into.get(edge)
        return [] if junction is None else self._through[junction]
