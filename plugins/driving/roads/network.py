"""The road network as the ego meets it: its way, and where others cross that way.

All geometry comes from the net's lanes, those inside junctions included: where two
of them cross is a conflict point, with its distance along each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from forewarn.plugins.driving.roads.lanes import Lane, LightName, Link, Net
from forewarn.plugins.driving.roads.lines import (
    Line,
    Point,
    beside,
    crossing,
    point_at,
)
from forewarn.plugins.driving.roads.ways import Foe, Footway, Passage, Way

UPSTREAM_M = 120.0
"""How far before a junction vehicles on their way to it are known."""

_MERGE_M = 0.5
_LONGEST_M = 3.0
_HALF_CAR_M = 0.7  # a little less than half: corners seldom meet


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
        """The same roads, their source loaded again."""
        self._net = net
        return self

    def neighbour(self, lane: Lane, side: int) -> Lane | None:
        """The lane so many to the left of one, on the same edge; if there is any."""
        number = lane.number + side
        return next((o for o in self.lanes_of[lane.edge] if o.number == number), None)

    def from_here(self, lane: Lane, route: Sequence[str]) -> tuple[str, ...]:
        """What of a route is left: the first edge is the lane's, or was before it."""
        edges = {lane.edge}
        if lane.inside:
            edges = {self.lanes[n].edge for n in self.entries.get(lane.name, ())}
        at = next((i for i, edge in enumerate(route) if edge in edges), 0)
        return tuple(route[at:])

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

    def light_of(self, link: Link) -> LightName | None:
        """The light that governs a way onward, if one does."""
        return self._lights.get(link.via)

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
        """The length of the way inside the junction between two lanes."""
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
    """How far around their crossing two cars touch, by the angle between their ways."""
    if sine < 0.3:
        return _MERGE_M
    cosine = math.sqrt(1.0 - min(1.0, sine * sine))
    return min(_LONGEST_M, _HALF_CAR_M * (1.0 + cosine) / sine)
