"""The vehicles of a CARLA world at one moment, in TraCI's terms."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, field

from forewarn.plugins.driving.roads import Lane, Point, Roads, Way

_RIGHT, _LEFT = 1, 2


@dataclass(slots=True)
class Mover:
    """A vehicle or a pedestrian.

    Args:
        number: The actor's.
        half: Half its length and half its width.
        middle_m: How far ahead of the actor's place its body's middle is.
        x: Of the front of a vehicle, the middle of a pedestrian.
        heading_deg: Counterclockwise from east.
        signals: SUMO's bits of its lights.
    """

    number: int
    half: tuple[float, float]
    middle_m: float = 0.0
    x: float = 0.0
    y: float = 0.0
    heading_deg: float = 0.0
    speed: float = 0.0
    lateral: float = 0.0
    lane: str = ""
    at_m: float = 0.0
    signals: int = 0

    @property
    def angle(self) -> float:
        return (90.0 - self.heading_deg) % 360.0


@dataclass(slots=True)
class Moment:
    """Everyone at one moment."""

    vehicles: dict[str, Mover] = field(default_factory=dict)
    people: dict[str, Mover] = field(default_factory=dict)


class Vehicles:
    """The vehicles, the ego among them, in TraCI's terms."""

    def __init__(self, now: Moment, ego: str, roads: Roads) -> None:
        self._now, self._ego, self._roads = now, ego, roads
        self.route: tuple[str, ...] = ()

    def __getitem__(self, vehicle: str) -> Container[str]:
        """The edges that somebody may take: what its lane and signals tell."""
        mover = self._now.vehicles[vehicle]
        lane = self._roads.lanes.get(mover.lane)
        edges: set[str] = set()
        if lane is None:
            return edges
        edges.add(lane.edge)
        first = self.onward(mover, lane)
        for name in first:
            exits = self._exits(self._roads.lanes[name])
            edges |= exits
            for edge in exits:
                for beyond in self._roads.lanes_of.get(edge, ()):
                    edges |= {self._roads.lanes[k.to].edge for k in beyond.links}
        return edges

    def onward(self, mover: Mover, lane: Lane) -> list[str]:
        """The next lanes that somebody may take, the likeliest first."""
        if lane.inside or not lane.links:
            return [link.via or link.to for link in lane.links] or [lane.name]
        if str(mover.number) == self._ego and self.route:
            on_route = [
                link
                for link in lane.links
                if self._roads.lanes[link.to].edge in self.route
            ]
            if on_route:
                return [link.via or link.to for link in on_route]
        wanted = {_RIGHT: "r", _LEFT: "lt"}.get(mover.signals & 3, "s")
        fits = [link for link in lane.links if link.turn in wanted]
        return [link.via or link.to for link in fits or lane.links]

    def _exits(self, lane: Lane) -> set[str]:
        if not lane.inside:
            return {lane.edge}
        return {self._roads.lanes[link.to].edge for link in lane.links}

    def getIDList(self) -> Collection[str]:
        return self._now.vehicles

    def getPosition(self, name: str) -> Point:
        mover = self._now.vehicles[name]
        return mover.x, mover.y

    def getAngle(self, name: str) -> float:
        return self._now.vehicles[name].angle

    def getSpeed(self, name: str) -> float:
        return self._now.vehicles[name].speed

    def getLength(self, name: str) -> float:
        return 2.0 * self._now.vehicles[name].half[0]

    def getLaneID(self, name: str) -> str:
        return self._now.vehicles[name].lane

    def getLanePosition(self, name: str) -> float:
        return self._now.vehicles[name].at_m

    def getLateralSpeed(self, name: str) -> float:
        return self._now.vehicles[name].lateral

    def getSignals(self, name: str) -> int:
        return self._now.vehicles[name].signals

    def getRoute(self, name: str) -> Sequence[str]:
        return self.route

    def getRouteIndex(self, name: str) -> int:
        """Where on its route the ego is."""
        lane = self._roads.lanes[self._now.vehicles[name].lane]
        if not lane.inside:
            return self.route.index(lane.edge) if lane.edge in self.route else 0
        entries = {
            self._roads.lanes[n].edge for n in self._roads.entries.get(lane.name, ())
        }
        found = [i for i, edge in enumerate(self.route) if edge in entries]
        return found[0] if found else 0

    def getLeader(self, name: str, seen_m: float) -> tuple[str, float] | None:
        """Who is next on the ego's way, and the gap."""
        ego = self._now.vehicles[name]
        way = self.way(ego)
        at = way.start_m.get(ego.lane, 0.0) + ego.at_m
        nearest: tuple[float, str] | None = None
        for other, mover in self._now.vehicles.items():
            if other == name or not mover.lane:
                continue
            gap = self._gap(way, at, mover)
            if gap is not None and gap < seen_m and (not nearest or gap < nearest[0]):
                nearest = gap, other
        return None if nearest is None else (nearest[1], nearest[0])

    def way(self, mover: Mover) -> Way:
        return self._roads.way(mover.lane, self.route[self.getRouteIndex(self._ego) :])

    def _gap(self, way: Way, at: float, mover: Mover) -> float | None:
        length = 2.0 * mover.half[0]
        start = way.start_m.get(mover.lane)
        if start is not None:
            front = start + mover.at_m
            return front - length - at if front > at else None
        # It turns off the ego's way, and its rear may still be on it.
        for entry in self._roads.entries.get(mover.lane, ()):
            start = way.start_m.get(entry)
            if start is not None and mover.at_m < length:
                rear = start + self._roads.lanes[entry].length + mover.at_m - length
                return rear - at if rear > at else None
        return None

    def getNeighbors(self, name: str, side: int) -> list[tuple[str, float]]:
        """Who follows on the lane to the left (0) or right (1), and how far behind."""
        ego = self._now.vehicles[name]
        edge, _, number = ego.lane.rpartition("_")
        beside = f"{edge}_{int(number) + (1 if side == 0 else -1)}"
        behind = [
            (ego.at_m - 2.0 * ego.half[0] - mover.at_m, other)
            for other, mover in self._now.vehicles.items()
            if mover.lane == beside and mover.at_m <= ego.at_m
        ]
        return [(n, gap) for gap, n in [min(behind)]] if behind else []
