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
from typing import Generic, NamedTuple, Self, TypeVar

from forewarn.plugins.driving.roads import (
    Lane,
    Line,
    LinkDirection,
    Point,
    Roads,
    crossing,
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
        self._cells: dict[tuple[int, int], list[str]] = {}
        for name, line in self._lines.items():
            for cell in line.cells():
                names = self._cells.setdefault(cell, [])
                if name not in names:
                    names.append(name)

    def near(self, x: float, y: float, heading_deg: float) -> Iterator[Place]:
        """Yields the lanes that fit the position and heading of a road user."""
        cell = math.floor(x / _CELL_M), math.floor(y / _CELL_M)
        yield from self.among(self._cells.get(cell, ()), x, y, heading_deg)

    def among(
        self, names: Iterable[str], x: float, y: float, heading_deg: float
    ) -> Iterator[Place]:
        """Like `near`, but searches only these lanes."""
        for name in names:
            line = self._lines[name]
            along, left, heading = line.project(x, y)
            turned = abs((heading_deg - heading + 180.0) % 360.0 - 180.0)
            beyond = max(-along, along - line.length, 0.0)
            if (
                turned < _COURSE_DEG
                and abs(left) < line.half + _ASIDE_M
                and beyond < _ASIDE_M
            ):
                off = abs(left) + _TURNED_M * turned + 2.0 * beyond
                yield Place(name, min(max(along, 0.0), line.length), left, off)

    def at(self, name: str, along_m: float) -> tuple[Point, float]:
        """Returns the point at a distance along a lane's centre line, and the heading
        there.

        The distance is in m, and the heading in degrees.
        """
        return self._lines[name].at(along_m)


class _Line:
    """The centre line of a lane, onto which points can be projected."""

    def __init__(self, lane: Lane) -> None:
        self.half = lane.width / 2.0
        parts: list[tuple[float, float, float, float, float, float]] = []
        along = 0.0
        for (ax, ay), (bx, by) in zip(lane.shape, lane.shape[1:], strict=False):
            length = math.hypot(bx - ax, by - ay)
            if length > 0.0:
                parts.append(
                    (ax, ay, (bx - ax) / length, (by - ay) / length, length, along)
                )
                along += length
        self._parts = parts
        self.length = along

    def project(self, x: float, y: float) -> tuple[float, float, float]:
        """Returns a point's distances along the line and to its left, and the line's
        heading.

        The distances are in m, and the heading in degrees.
        """
        nearest = math.inf
        found = (0.0, 0.0, 1.0, 0.0)
        last = len(self._parts) - 1
        for i, (ax, ay, ux, uy, length, start) in enumerate(self._parts):
            dx, dy = x - ax, y - ay
            ahead = dx * ux + dy * uy
            left = ux * dy - uy * dx
            # A lane is extended straight beyond its ends.
            over = 0.0
            if ahead < 0.0 and i > 0:
                over, ahead = ahead, 0.0
            elif ahead > length and i < last:
                over, ahead = ahead - length, length
            away = over * over + left * left
            if away < nearest:
                nearest, found = away, (start + ahead, left, ux, uy)
        along, left, ux, uy = found
        return along, left, math.degrees(math.atan2(uy, ux))

    def at(self, along: float) -> tuple[Point, float]:
        part = next((p for p in self._parts if along <= p[5] + p[4]), self._parts[-1])
        ax, ay, ux, uy, _, start = part
        ahead = along - start
        return (ax + ahead * ux, ay + ahead * uy), math.degrees(math.atan2(uy, ux))

    def cells(self) -> Iterator[tuple[int, int]]:
        """Yields the grid cells in which a road user on the lane may be."""
        reach = self.half + _ASIDE_M
        for ax, ay, ux, uy, length, _ in self._parts:
            steps = max(1, math.ceil(length / (_CELL_M / 2.0)))
            for i in range(steps + 1):
                ahead = length * i / steps
                x, y = ax + ahead * ux, ay + ahead * uy
                for dx in (-reach, reach):
                    for dy in (-reach, reach):
                        yield (
                            math.floor((x + dx) / _CELL_M),
                            math.floor((y + dy) / _CELL_M),
                        )


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


Node = TypeVar("Node", bound=Hashable)
Way = TypeVar("Way", bound=Movement)


class Junctions(Generic[Node, Way]):
    """Implements the methods of a `Net` that concern junctions.

    Args:
        inside: For each crosswalk and each lane inside a junction, the junction and the
            centre line.
        movements: Pairs of a junction and a movement through it.
        edge_of: Returns the edge of a lane.
    """

    def __init__(
        self,
        inside: Mapping[str, tuple[Node, Line]],
        movements: Iterable[tuple[Node, Way]],
        edge_of: Callable[[str], str],
    ) -> None:
        self._place, self._edge_of = inside, edge_of
        self._inside: dict[Node, list[tuple[str, Line]]] = {}
        for name, (node, line) in inside.items():
            self._inside.setdefault(node, []).append((name, line))
        self._through: dict[Node, list[Way]] = {}
        self._into: dict[str, Node] = {}
        for node, movement in movements:
            self._through.setdefault(node, []).append(movement)
            self._into[edge_of(movement.lane)] = node
        self.movements = [each for group in self._through.values() for each in group]

    def meets(self, inside: str) -> Collection[str]:
        node, line = self._place[inside]
        return [
            name
            for name, other in self._inside[node]
            if name != inside and crossing(line, other) is not None
        ]

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        group = self._group(self._edge_of(lane))
        own = [m for m in group if (m.lane, m.to) == (lane, to)]
        return {
            m.lane
            for m in group
            if m.lane != lane and any(m.goes_before(each) for each in own)
        }

    def approaches(self, edge: str) -> Iterable[str]:
        return list(dict.fromkeys(self._edge_of(m.lane) for m in self._group(edge)))

    def _group(self, edge: str) -> list[Way]:
        node = self._into.get(edge)
        return [] if node is None else self._through[node]
