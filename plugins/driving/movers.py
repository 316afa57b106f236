"""Vehicles and people at one moment, in TraCI's terms, where no SUMO has them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from forewarn.plugins.driving.lines import Point
from forewarn.plugins.driving.roads import Roads, Way

_KEEPS_M = 2.5  # that followers keep even when they stand
_WALKING = ":walking"
_CELL_M = 16.0
_AROUND_M = 2.0
_NEAR_M = 15.0


@dataclass(slots=True)
class Mover:
    """A vehicle, placed by its front, or a pedestrian, placed by the middle.

    Args:
        heading: In radians, counterclockwise from east.
        lane: Empty where no lane is known.
        at_m: From where the lane begins.
        lateral: How fast it moves across the lane, in m/s.
        signals: SUMO's bits of its lights.
    """

    x: float
    y: float
    heading: float
    speed: float
    length: float
    width: float
    lane: str = ""
    at_m: float = 0.0
    lateral: float = 0.0
    signals: int = 0

    @property
    def angle(self) -> float:
        """The heading as a compass has it."""
        return (90.0 - math.degrees(self.heading)) % 360.0


@dataclass(slots=True)
class Moment:
    """Everyone at one moment."""

    vehicles: dict[str, Mover] = field(default_factory=dict)
    people: dict[str, Mover] = field(default_factory=dict)


class Vehicles:
    """The vehicles, the ego among them.

    Args:
        now: Everyone.
        roads: The map's.
    """

    def __init__(self, now: Moment, roads: Roads) -> None:
        self._now, self._roads = now, roads
        self.route: tuple[str, ...] = ()
        """The ego's edges."""

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
        return self._now.vehicles[name].length

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

    def way(self, name: str) -> Way:
        """What is before the ego."""
        lane = self._now.vehicles[name].lane
        return self._roads.way(lane, self.route[self.getRouteIndex(name) :])

    def getLeader(self, name: str, seen_m: float) -> tuple[str, float] | None:
        """Who is next on the ego's way, or with its rear still on it, and the gap."""
        ego, way = self._now.vehicles[name], self.way(name)
        at = way.start_m.get(ego.lane, 0.0) + ego.at_m
        nearest: tuple[float, str] | None = None
        for other, mover in self._now.vehicles.items():
            if other == name or not mover.lane:
                continue
            gap = self._gap(way, at, mover)
            if gap is not None and gap < seen_m and (not nearest or gap < nearest[0]):
                nearest = gap, other
        return None if nearest is None else (nearest[1], nearest[0])

    def _gap(self, way: Way, at: float, mover: Mover) -> float | None:
        start = way.start_m.get(mover.lane)
        if start is not None:
            front = start + mover.at_m
            return front - mover.length - at if front > at else None
        # It turns off the ego's way, and its rear may still be on it.
        for entry in self._roads.entries.get(mover.lane, ()):
            start = way.start_m.get(entry)
            if start is not None and mover.at_m < mover.length:
                before = start + self._roads.lanes[entry].length
                rear = before + mover.at_m - mover.length
                return rear - at if rear > at else None
        return None

    def getFollower(self, name: str, seen_m: float) -> tuple[str, float]:
        """Who is next behind on the ego's lane, and the room it has; or an empty name.

        Room is what is left of the gap that followers keep even when they stand.
        """
        ego = self._now.vehicles[name]
        found = self._behind(ego, ego.lane)
        return found[0] if found and found[0][1] <= seen_m else ("", -1.0)

    def getNeighbors(self, name: str, side: int) -> list[tuple[str, float]]:
        """Who follows on the lane to the left (0) or right (1), and the room it has."""
        ego = self._now.vehicles[name]
        edge, _, number = ego.lane.rpartition("_")
        beside = f"{edge}_{int(number) + (1 if side == 0 else -1)}"
        return self._behind(ego, beside)

    def _behind(self, ego: Mover, lane: str) -> list[tuple[str, float]]:
        behind = [
            (ego.at_m - ego.length - mover.at_m - _KEEPS_M, other)
            for other, mover in self._now.vehicles.items()
            if mover is not ego and mover.lane == lane and mover.at_m <= ego.at_m
        ]
        return [(other, room) for room, other in [min(behind)]] if behind else []


@dataclass(frozen=True, slots=True)
class Crosswalk:
    """A crosswalk: where it begins and ends, and half its width."""

    edge: str
    ends: tuple[Point, Point]
    half_m: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """How far along it somebody is, and how far to its side."""
        (ax, ay), (bx, by) = self.ends
        length = self.length_m
        ux, uy = (bx - ax) / length, (by - ay) / length
        return (x - ax) * ux + (y - ay) * uy, (y - ay) * ux - (x - ax) * uy

    @property
    def length_m(self) -> float:
        return math.dist(*self.ends)

    def cells(self) -> Iterator[tuple[int, int]]:
        """The cells of the ground around it."""
        (ax, ay), (bx, by) = self.ends
        reach = self.half_m + _AROUND_M
        for i in _cells(min(ax, bx) - reach, max(ax, bx) + reach):
            for j in _cells(min(ay, by) - reach, max(ay, by) + reach):
                yield i, j


class People:
    """The pedestrians: on a crosswalk, or elsewhere.

    Args:
        now: Everyone.
        roads: The map's.
    """

    def __init__(self, now: Moment, roads: Roads) -> None:
        self._now = now
        self._crosswalks: dict[tuple[int, int], list[Crosswalk]] = {}
        for lane in roads.lanes.values():
            if not lane.inside or lane.for_cars or len(lane.shape) < 2:
                continue
            ends = lane.shape[0], lane.shape[-1]
            crosswalk = Crosswalk(lane.edge, ends, lane.width / 2.0)
            for cell in crosswalk.cells():
                self._crosswalks.setdefault(cell, []).append(crosswalk)

    def getIDList(self) -> Collection[str]:
        return self._now.people

    def getPosition(self, name: str) -> Point:
        mover = self._now.people[name]
        return mover.x, mover.y

    def getAngle(self, name: str) -> float:
        return self._now.people[name].angle

    def getSpeed(self, name: str) -> float:
        return self._now.people[name].speed

    def getRoadID(self, name: str) -> str:
        """The crosswalk that somebody is on; else where one walks."""
        return self.crosswalk_at(*self.getPosition(name)) or _WALKING

    def near(self, x: float, y: float) -> Sequence[Crosswalk]:
        """The crosswalks around a point."""
        cell = math.floor(x / _CELL_M), math.floor(y / _CELL_M)
        return self._crosswalks.get(cell, ())

    def crosswalk_at(self, x: float, y: float) -> str:
        """The crosswalk at a point; empty for none."""
        for crosswalk in self.near(x, y):
            along, aside = crosswalk.place(x, y)
            if 0.0 <= along <= crosswalk.length_m and abs(aside) <= crosswalk.half_m:
                return crosswalk.edge
        return ""


def _cells(low: float, high: float) -> range:
    return range(math.floor(low / _CELL_M), math.floor(high / _CELL_M) + 1)


# -- bodies ---------------------------------------------------------------------------


def touches(
    vehicle: Mover, other: Mover, *, on_foot: bool, within_m: float = 0.0
) -> bool:
    """Whether a vehicle's body meets another's, or comes so near to it.

    Args:
        vehicle: The one.
        other: The other.
        on_foot: Whether that is a pedestrian.
        within_m: How near.
    """
    if abs(other.x - vehicle.x) + abs(other.y - vehicle.y) > (
        _NEAR_M + vehicle.length + other.length
    ):
        return False
    ax, ay = _middle(vehicle)
    bx, by = (other.x, other.y) if on_foot else _middle(other)
    dx, dy = bx - ax, by - ay
    for axis in (vehicle.heading, other.heading):
        for turned in (axis, axis + math.pi / 2.0):
            apart = abs(dx * math.cos(turned) + dy * math.sin(turned))
            reach = _half(vehicle, turned) + _half(other, turned)
            if apart >= reach + within_m:
                return False
    return True


def _middle(vehicle: Mover) -> Point:
    back = vehicle.length / 2.0
    return (
        vehicle.x - back * math.cos(vehicle.heading),
        vehicle.y - back * math.sin(vehicle.heading),
    )


def _half(mover: Mover, axis: float) -> float:
    """Half of how much room a body takes along an axis."""
    turned = mover.heading - axis
    along = mover.length * abs(math.cos(turned))
    return (along + mover.width * abs(math.sin(turned))) / 2.0
