"""Road networks: lanes, the links between them, and paths along them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple, Protocol

Point = tuple[float, float]
Line = Sequence[Point]

_NEAR_M = 1.5
_CLEAR_M = 2.3  # minimum distance between the centres of two passing cars
_STEP_M = 0.25


def crossing(one: Line, other: Line) -> tuple[float, float, float] | None:
    """Finds where two lines first cross, or merge at their ends.

    Returns:
        The distance along each line, and the sine of the angle between the lines; None
        if they do not meet.
    """
    along = 0.0
    for (ax, ay), (bx, by) in zip(one, one[1:], strict=False):
        rx, ry = bx - ax, by - ay
        length = math.hypot(rx, ry)
        beside = 0.0
        for (cx, cy), (dx, dy) in zip(other, other[1:], strict=False):
            sx, sy = dx - cx, dy - cy
            across = rx * sy - ry * sx
            if abs(across) > 1e-9:
                t = ((cx - ax) * sy - (cy - ay) * sx) / across
                u = ((cx - ax) * ry - (cy - ay) * rx) / across
                if 0.0 <= t <= 1.0 and 0.0 <= u <= 1.0:
                    its = math.hypot(sx, sy)
                    sine = abs(across) / (length * its)
                    return along + t * length, beside + u * its, sine
            beside += math.hypot(sx, sy)
        along += length
    if one and other and math.dist(one[-1], other[-1]) < _NEAR_M:
        return length_of(one), length_of(other), 0.0
    return None


def length_of(line: Line) -> float:
    return sum(math.dist(a, b) for a, b in zip(line, line[1:], strict=False))


def heading_of(line: Line) -> float:
    """Returns the direction from the first to the last point of a line in radians."""
    (ax, ay), (bx, by) = line[0], line[-1]
    return math.atan2(by - ay, bx - ax)


def point_at(line: Line, along: float) -> tuple[Point, Point]:
    """Returns the point at a distance along a line, and the line's direction there."""
    point, direction = (line[0][0], line[0][1]), (1.0, 0.0)
    for (ax, ay), (bx, by) in zip(line, line[1:], strict=False):
        length = math.hypot(bx - ax, by - ay)
        if length > 0.0:
            point, direction = (bx, by), ((bx - ax) / length, (by - ay) / length)
            if along <= length:
                share = along / length
                return (ax + share * (bx - ax), ay + share * (by - ay)), direction
        along -= length
    return point, direction


def apart(one: tuple[Point, Point], other: tuple[Point, Point]) -> float:
    """Returns the distance between two line segments that do not cross."""
    (a, b), (c, d) = one, other
    return min(
        from_segment(a, c, d), from_segment(b, c, d),
        from_segment(c, a, b), from_segment(d, a, b),
    )  # fmt: skip


def from_segment(point: Point, a: Point, b: Point) -> float:
    (x, y), (ax, ay), (bx, by) = point, a, b
    dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
    along, length = px * dx + py * dy, dx * dx + dy * dy
    if along <= 0.0:
        return math.hypot(px, py)
    share = 1.0 if along >= length else along / length
    return math.hypot(px - share * dx, py - share * dy)


def beside(one: Line, other: Line, met_m: float) -> float:
    """Returns how far two cars can follow two converging lines side by side.

    Args:
        one: The line along which the distance is measured.
        other: A line that meets the first one.
        met_m: The distance along the first line at which the two meet.
    """
    along = 0.0
    for (ax, ay), (bx, by) in pairwise(one):
        length = math.hypot(bx - ax, by - ay)
        for step in range(math.ceil(length / _STEP_M)):
            share = step * _STEP_M / length
            point = ax + share * (bx - ax), ay + share * (by - ay)
            gaps = (from_segment(point, c, d) for c, d in pairwise(other))
            if min(gaps, default=math.inf) < _CLEAR_M:
                return min(met_m, along + step * _STEP_M)
        along += length
    return met_m


LightName = tuple[str, int]
"""Identifies a traffic light: its signal program, and its index in that program."""


class LinkDirection(StrEnum):
    """The direction of a link; the values are those of the signal `direction`."""

    FORWARD = "forward"
    LEFT = "left"
    RIGHT = "right"
    U_TURN = "u_turn"

    @property
    def crosses(self) -> bool:
        """Whether the turn crosses the path of oncoming traffic."""
        return self in (LinkDirection.LEFT, LinkDirection.U_TURN)


class Link(NamedTuple):
    """A link from one lane to the next, through the lane `via` inside a junction."""

    to: str
    via: str
    turn: LinkDirection
    stops: bool = False
    """Whether there is a stop sign."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of a map.

    Args:
        name: The lane's name.
        edge: The name shared by adjacent lanes in the same direction.
        number: The index among the lanes of the edge, from the right and including
            sidewalks.
        length: The length in m.
        width: The width in m.
        limit_kmh: The speed limit in km/h.
        junction: The junction that contains the lane; empty if the lane is outside
            junctions.
        for_cars: Whether cars may drive on the lane.
        links: The links to the next lanes.
        shape: The points of the centre line.
        is_crosswalk: Whether the lane is a crosswalk.
    """

    name: str
    edge: str
    number: int
    length: float
    width: float
    limit_kmh: float
    junction: str
    for_cars: bool
    links: tuple[Link, ...]
    shape: Line
    is_crosswalk: bool = False

    @property
    def inside(self) -> bool:
        """Whether the lane is inside a junction."""
        return self.junction != ""


class Net(Protocol):
    """The interface through which a world provides its map."""

    def lanes(self) -> Iterable[Lane]:
        """Returns all lanes, including crosswalks and lanes inside junctions."""

    def lights(self) -> Mapping[str, LightName]:
        """Returns the traffic light that governs each lane inside a junction."""

    def meets(self, inside: str) -> Collection[str]:
        """Returns the lanes and crosswalks in a junction that an inner lane crosses."""

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        """Returns the incoming lanes that have right of way over a movement.

        The movement leads from the lane `lane` to the lane `to`.
        """

    def approaches(self, edge: str) -> Iterable[str]:
        """Returns the edges that lead into the same junction as this edge."""


@dataclass(frozen=True, slots=True)
class Footway:
    """A crosswalk on the ego's path.

    Args:
        edge: The edge of the crosswalk.
        near_m: The distance from the stop line to the near side of the crosswalk, in m.
        at_m: The distance from the stop line to the middle of the crosswalk, in m.
        point: The point where the ego's path crosses the middle of the crosswalk.
        axis: The direction of the crosswalk.
        onward: The direction in which the ego drives over the crosswalk.
    """

    edge: str
    near_m: float
    at_m: float
    point: Point
    axis: Point
    onward: Point


@dataclass(frozen=True, slots=True)
class Foe:
    """A movement through a junction that conflicts with the ego's.

    Args:
        target: The edge to which the movement leads.
        ego_m: The distance from the ego's stop line to the conflict point in m.
        foe_m: The distance from the stop line of this movement to the conflict point in
            m.
        half_m: Half the length of the section around the conflict point in which two
            vehicles would touch, in m.
        beside_m: The distance from the ego's stop line, in m, beyond which two cars no
            longer fit side by side.
        first: Whether the movement has right of way over the ego's.
        light: The traffic light that governs the movement, if any.
        before_m: For each lane that leads to the conflict point, the distance in m from
            the lane's start to the stop line.
    """

    target: str
    ego_m: float
    foe_m: float
    half_m: float
    beside_m: float
    first: bool
    light: LightName | None
    before_m: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Passage:
    """A junction on the ego's path.

    Args:
        line_m: The position of the stop line along the path in m; without a stop line,
            that of the junction's start.
        end_m: The position of the junction's end along the path in m.
        turn: The direction of the ego's turn.
        light: The traffic light that governs the ego's movement, if any.
        stops: Whether there is a stop sign.
        is_junction: Whether there is a traffic light, a crosswalk or a conflicting
            movement.
        has_line: Whether the ego may have to stop for a traffic light or for other
            traffic.
        exit: The edge on which the ego leaves the junction.
        junction: The name of the junction.
        foes: The movements that conflict with the ego's.
        foes_on: The conflicting movements, by the lanes that lead to them.
        footways: The crosswalks on the path, in order.
    """

    line_m: float
    end_m: float
    turn: LinkDirection
    light: LightName | None
    stops: bool
    is_junction: bool
    has_line: bool
    exit: str
    junction: str
    foes: tuple[Foe, ...]
    foes_on: Mapping[str, tuple[Foe, ...]]
    footways: tuple[Footway, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """The ego's path from its current lane to its destination."""

    start_m: Mapping[str, float]
    passages: tuple[Passage, ...]
    length_m: float


UPSTREAM_M = 120.0
"""The distance to a junction within which approaching vehicles are considered.
"""

_MERGE_M = 0.5
_LONGEST_M = 3.0
_HALF_CAR_M = 0.7  # slightly less than half a car's width, because corners seldom meet


class Roads:
    """The road network of a map.

    The attribute `entries` maps each lane inside a junction to the lanes from which
    vehicles enter it.
    """

    def __init__(self, net: Net) -> None:
        self.lanes: dict[str, Lane] = {lane.name: lane for lane in net.lanes()}
        self.lanes_of: dict[str, list[Lane]] = {}
        for lane in self.lanes.values():
            self.lanes_of.setdefault(lane.edge, []).append(lane)
        self._before: dict[str, list[str]] = {}
        for lane in self.lanes.values():
            for link in lane.links:
                if not lane.inside and not self.lanes[link.to].inside:
                    self._before.setdefault(link.to, []).append(lane.name)
        self.entries: dict[str, set[str]] = {}
        for lane in self.lanes.values():
            for link in () if lane.inside else lane.links:
                for inner in self.inner(link):
                    self.entries.setdefault(inner.name, set()).add(lane.name)
        self._lights = net.lights()
        self._ways: dict[tuple[str, tuple[str, ...]], Way] = {}
        self._net = net

    def on(self, net: Net) -> Roads:
        """Connects this road network to the reloaded map, and returns the network."""
        self._net = net
        return self

    def neighbour(self, lane: Lane, side: int) -> Lane | None:
        """Returns the lane `side` lanes to the left on the same edge, or None."""
        number = lane.number + side
        return next((o for o in self.lanes_of[lane.edge] if o.number == number), None)

    def from_here(self, lane: Lane, route: Sequence[str]) -> tuple[str, ...]:
        """Returns the part of a route that is ahead of a lane.

        It starts with the edge of the lane or, if the lane is inside a junction, with
        the edge before the junction.
        """
        edges = {lane.edge}
        if lane.inside:
            edges = {self.lanes[n].edge for n in self.entries.get(lane.name, ())}
        at = next((i for i, edge in enumerate(route) if edge in edges), 0)
        return tuple(route[at:])

    def lane_count(self, edge: str) -> int:
        """Returns the number of lanes for cars on an edge."""
        return sum(lane.for_cars for lane in self.lanes_of[edge])

    def way(self, lane: str, edges: tuple[str, ...]) -> Way:
        """Returns the path from a lane along the rest of the route.

        Args:
            lane: The ego's lane, which is on the first edge or inside the junction
                after that edge.
            edges: The edges of the route, starting with the one that the ego is on or
                has just left.
        """
        key = lane, edges
        known = self._ways.get(key)
        if known is None:
            known = self._ways[key] = self._make_way(lane, edges)
        return known

    def _make_way(self, name: str, edges: tuple[str, ...]) -> Way:
        start_m: dict[str, float] = {}
        passages: list[Passage] = []
        at = 0.0
        lane = self.lanes[name]
        taken: tuple[Lane, Link] | None = None
        if lane.inside:
            # The path starts before the junction that the ego is in.
            taken = self._entry(name, edges[0])
            if taken is None:
                return Way({name: 0.0}, (), lane.length)
            lane = taken[0]
        for following in (*edges[1:], None):
            if lane.name in start_m:
                break  # the route returns to this lane, so stop here
            start_m[lane.name] = at
            at += lane.length
            if following is None:
                break
            taken = taken or self._link_to(lane, following)
            if taken is None:
                break
            source, link = taken
            taken = None
            inner = self.inner(link)
            passages.append(self._passage(source, link, inner, at))
            for inside in inner:
                start_m[inside.name] = at
                at += inside.length
            lane = self.lanes[link.to]
        return Way(start_m, tuple(passages), at)

    def _entry(self, inside: str, edge: str) -> tuple[Lane, Link] | None:
        """Returns the lane and the link by which vehicles enter a junction from an
        edge.
        """
        for lane in self.lanes_of[edge]:
            for link in lane.links:
                if any(inner.name == inside for inner in self.inner(link)):
                    return lane, link
        return None

    def _link_to(self, lane: Lane, edge: str) -> tuple[Lane, Link] | None:
        """Returns a link to an edge from this lane or, failing that, from the nearest
        lane.
        """
        beside = sorted(
            self.lanes_of[lane.edge], key=lambda other: abs(other.number - lane.number)
        )
        for other in beside:
            for link in other.links:
                if other.for_cars and self.lanes[link.to].edge == edge:
                    return other, link
        return None

    def light_of(self, link: Link) -> LightName | None:
        """Returns the traffic light that governs a link, if any."""
        return self._lights.get(link.via)

    def inner(self, link: Link) -> list[Lane]:
        """Returns the lanes of a link inside the junction, in order."""
        inner: list[Lane] = []
        name = link.via
        while name:
            lane = self.lanes[name]
            inner.append(lane)
            name = next((onward.via for onward in lane.links), "")
        return inner

    # -- conflicts with other paths ---------------------------------------------------

    def _passage(self, lane: Lane, link: Link, inner: list[Lane], at: float) -> Passage:
        length = sum(part.length for part in inner)
        light = self._lights.get(link.via)
        shape = _joined(inner)
        meets = set()
        for part in inner:
            meets |= set(self._net.meets(part.name))
        footways = [
            footway
            for name in sorted(meets)
            if self.lanes[name].is_crosswalk
            and (footway := self._footway(self.lanes[name], shape)) is not None
        ]
        first = set(self._net.goes_first(lane.name, link.to))
        foes = tuple(self._foes(lane, shape, meets, first))
        foes_on: dict[str, list[Foe]] = {}
        for foe in foes:
            for name in foe.before_m:
                foes_on.setdefault(name, []).append(foe)
        is_junction = bool(light or footways or foes)
        yields = any(foe.first for foe in foes)
        return Passage(
            at, at + length, link.turn, light, link.stops, is_junction,
            is_junction and (light is not None or yields), self.lanes[link.to].edge,
            inner[0].junction if inner else "", foes,
            {name: tuple(group) for name, group in foes_on.items()},
            tuple(sorted(footways, key=lambda footway: footway.at_m)),
        )  # fmt: skip

    def _footway(self, crosswalk: Lane, way: Line) -> Footway | None:
        met = crossing(way, crosswalk.shape)
        if met is None:
            return None
        at, along, _ = met
        point, axis = point_at(crosswalk.shape, along)
        near = max(0.0, at - crosswalk.width / 2.0)
        return Footway(crosswalk.edge, near, at, point, axis, point_at(way, at)[1])

    def _foes(
        self, lane: Lane, shape: Line, meets: set[str], first: set[str]
    ) -> Iterator[Foe]:
        for edge in self._net.approaches(lane.edge):
            for other in self.lanes_of.get(edge, ()):
                if other.inside or not other.for_cars or other.name == lane.name:
                    continue
                for its in other.links:
                    inner = self.inner(its)
                    if not meets & {part.name for part in inner}:
                        continue
                    theirs = _joined(inner)
                    met = crossing(shape, theirs)
                    if met is None:
                        continue
                    yield Foe(
                        self.lanes[its.to].edge, met[0], met[1], _half(met[2]),
                        beside(shape, theirs, met[0]), other.name in first,
                        self._lights.get(its.via), self._upstream(other, inner),
                    )  # fmt: skip

    def _upstream(self, lane: Lane, inner: list[Lane]) -> dict[str, float]:
        before_m: dict[str, float] = {}
        at = 0.0
        for part in inner:
            before_m[part.name] = -at
            at += part.length
        todo = [(lane.name, 0.0)]
        while todo:
            name, to_line = todo.pop()
            if name in before_m:
                continue
            to_line += self.lanes[name].length
            before_m[name] = to_line
            if to_line < UPSTREAM_M:
                for earlier in self._before.get(name, ()):
                    todo.append((earlier, to_line + self._gap(earlier, name)))
        return before_m

    def _gap(self, before: str, after: str) -> float:
        """Returns the length in m of the path between two lanes of a junction."""
        for link in self.lanes[before].links:
            if link.to == after:
                return sum(part.length for part in self.inner(link))
        return 0.0


def _joined(parts: Sequence[Lane]) -> list[Point]:
    points: list[Point] = []
    for part in parts:
        points += part.shape if not points else part.shape[1:]
    return points


def _half(sine: float) -> float:
    """Returns the distance from a crossing point within which two cars touch, in m."""
    if sine < 0.3:
        return _MERGE_M
    cosine = math.sqrt(1.0 - min(1.0, sine * sine))
    return min(_LONGEST_M, _HALF_CAR_M * (1.0 + cosine) / sine)
