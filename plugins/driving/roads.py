"""The road network as the ego meets it: its way, and where others cross that way.

All geometry comes from the net's lanes, those inside junctions included: where two
of them cross is a conflict point, with its distance along each.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from forewarn.plugins.driving.lines import Line, Point, beside, crossing, point_at

UPSTREAM_M = 120.0
"""How far before a junction vehicles on their way to it are known."""

_CROSSWALK = re.compile(r"^:.*_c\d+_0$")
_MERGE_M = 0.5
_LONGEST_M = 3.0
_HALF_CAR_M = 0.7  # a little less than half: corners seldom meet


class Link(NamedTuple):
    """A way from one lane to the next, through the lane `via` inside a junction."""

    to: str
    via: str
    turn: str
    sign: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane of the net; `number` counts from the right, the sidewalk included."""

    name: str
    edge: str
    number: int
    length: float
    width: float
    limit_kmh: float
    inside: bool
    for_cars: bool
    links: tuple[Link, ...]
    shape: Line


@dataclass(frozen=True, slots=True)
class Crosswalk:
    """Where pedestrians cross the ego's way.

    Args:
        edge: The crossing's edge.
        near_m: The distance from the stop line to its near side, along the way.
        at_m: To its middle.
        point: The conflict point.
        axis: The direction in which it runs.
        onward: The direction in which the ego crosses it.
    """

    edge: str
    near_m: float
    at_m: float
    point: Point
    axis: Point
    onward: Point


@dataclass(frozen=True, slots=True)
class Foe:
    """Another movement through the junction that meets the ego's.

    Args:
        target: The edge that it leads to.
        ego_m: The conflict point's distance from the ego's stop line.
        foe_m: Its distance from the movement's own stop line.
        half_m: How far before and after the point the two would touch.
        beside_m: From where on, from the ego's stop line, the two ways are so close
            that two cars do not fit beside each other.
        first: Whether that movement has right of way over the ego's.
        light: The light that governs it: the programme's name and the index.
        before_m: For each lane of its way, the stop line's distance from its start.
    """

    target: str
    ego_m: float
    foe_m: float
    half_m: float
    beside_m: float
    first: bool
    light: tuple[str, int] | None
    before_m: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Passage:
    """One junction on the ego's way.

    Args:
        line_m: Where it begins, along the way: the stop line, if there is one.
        end_m: Where it ends.
        turn: SUMO's letter of the direction.
        light: The light that governs it.
        sign: SUMO's letter of the right of way.
        is_junction: Whether anything crosses here at all.
        has_line: Whether one may have to stop here.
        exit: The edge that it leads to.
        node: The junction's name.
    """

    line_m: float
    end_m: float
    turn: str
    light: tuple[str, int] | None
    sign: str
    is_junction: bool
    has_line: bool
    exit: str
    node: str
    foes: tuple[Foe, ...]
    foes_on: Mapping[str, tuple[Foe, ...]]
    crosswalks: tuple[Crosswalk, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """The lanes before the ego, from the one that it is on to its destination."""

    start_m: Mapping[str, float]
    passages: tuple[Passage, ...]
    length_m: float


class Net(Protocol):
    """A map as its source tells it, in the terms of SUMO's nets."""

    def lanes(self) -> Iterable[Lane]:
        """Every lane, those inside junctions and crosswalks included."""

    def lights(self) -> Mapping[str, tuple[str, int]]:
        """By the lane inside the junction: the light that governs it, and the index."""

    def meets(self, inside: str) -> Collection[str]:
        """The lanes inside the junction, and crosswalks, that a lane there meets."""

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        """The lanes before the junction that have right of way over this movement."""

    def approaches(self, edge: str) -> Iterable[str]:
        """The edges that lead into the junction to which this edge leads."""


class Roads:
    """The road network of a map.

    `entries` says from which lanes one comes to a lane inside a junction.
    """

    def __init__(self, net: Net) -> None:
        self.lanes: dict[str, Lane] = {lane.name: lane for lane in net.lanes()}
        self.lanes_of: dict[str, list[Lane]] = {}
        for lane in self.lanes.values():
            self.lanes_of.setdefault(lane.edge, []).append(lane)
        self._before: dict[str, list[str]] = {}
        for lane in self.lanes.values():
            for link in lane.links:
                if not lane.inside and not link.to.startswith(":"):
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
        """The same roads, their source loaded again."""
        self._net = net
        return self

    def lane_count(self, edge: str) -> int:
        """How many of an edge's lanes are for cars."""
        return sum(lane.for_cars for lane in self.lanes_of[edge])

    def way(self, lane: str, edges: tuple[str, ...]) -> Way:
        """The way from a lane along the edges that remain of the route.

        Args:
            lane: Where the ego is: on the first edge, or inside the junction after it.
            edges: The first is the one that the ego is on, or was last.
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
            # The way begins before the junction that the ego is in.
            taken = self._entry(name, edges[0])
            if taken is None:
                return Way({name: 0.0}, (), lane.length)
            lane = taken[0]
        for following in (*edges[1:], None):
            if lane.name in start_m:
                break  # a route that comes back: enough for now
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
        """Where one comes from the edge to a lane inside a junction."""
        for lane in self.lanes_of[edge]:
            for link in lane.links:
                if any(inner.name == inside for inner in self.inner(link)):
                    return lane, link
        return None

    def _link_to(self, lane: Lane, edge: str) -> tuple[Lane, Link] | None:
        """A link to the edge, from this lane or else the nearest beside it."""
        beside = sorted(
            self.lanes_of[lane.edge], key=lambda other: abs(other.number - lane.number)
        )
        for other in beside:
            for link in other.links:
                if other.for_cars and self.lanes[link.to].edge == edge:
                    return other, link
        return None

    def inner(self, link: Link) -> list[Lane]:
        """The lanes inside the junction that a link leads through."""
        inner: list[Lane] = []
        name = link.via
        while name:
            lane = self.lanes[name]
            inner.append(lane)
            name = next((onward.via for onward in lane.links), "")
        return inner

    # -- where others cross the way ---------------------------------------------------

    def _passage(self, lane: Lane, link: Link, inner: list[Lane], at: float) -> Passage:
        length = sum(part.length for part in inner)
        light = self._lights.get(link.via)
        shape = _joined(inner)
        meets = set()
        for part in inner:
            meets |= set(self._net.meets(part.name))
        crosswalks = tuple(
            crosswalk
            for name in sorted(meets)
            if _CROSSWALK.match(name)
            and (crosswalk := self._crosswalk(name, shape)) is not None
        )
        first = set(self._net.goes_first(lane.name, link.to))
        foes = tuple(self._foes(lane, link, shape, meets, first))
        foes_on: dict[str, list[Foe]] = {}
        for foe in foes:
            for name in foe.before_m:
                foes_on.setdefault(name, []).append(foe)
        is_junction = bool(light or crosswalks or foes)
        yields = any(foe.first for foe in foes)
        return Passage(
            at, at + length, link.turn, light, link.sign, is_junction,
            is_junction and (light is not None or yields), self.lanes[link.to].edge,
            inner[0].edge.rpartition("_")[0] if inner else "", foes,
            {name: tuple(group) for name, group in foes_on.items()},
            tuple(sorted(crosswalks, key=lambda crosswalk: crosswalk.at_m)),
        )  # fmt: skip

    def _crosswalk(self, name: str, way: Line) -> Crosswalk | None:
        lane = self.lanes[name]
        met = crossing(way, lane.shape)
        if met is None:
            return None
        at, along, _ = met
        point, axis = point_at(lane.shape, along)
        near = max(0.0, at - lane.width / 2.0)
        return Crosswalk(lane.edge, near, at, point, axis, point_at(way, at)[1])

    def _foes(
        self, lane: Lane, link: Link, shape: Line, meets: set[str], first: set[str]
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
        """The length of the way inside the junction between two lanes."""
        for link in self.lanes[before].links:
            if link.to == after:
                return sum(part.length for part in self.inner(link))
        return 0.0


def _joined(parts: Sequence[Lane]) -> list[Point]:
    points: list[Point] = []
    for part in parts:
        shape = [(point[0], point[1]) for point in part.shape]
        points += shape if not points else shape[1:]
    return points


def _half(sine: float) -> float:
    """How far around their crossing two cars touch, by the angle between their ways."""
    if sine < 0.3:
        return _MERGE_M
    cosine = math.sqrt(1.0 - min(1.0, sine * sine))
    return min(_LONGEST_M, _HALF_CAR_M * (1.0 + cosine) / sine)
