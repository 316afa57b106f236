"""Random SUMO traffic, and clients' actors as part of SUMO's traffic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from forewarn.standins.carla import blueprints
from forewarn.standins.carla.actors import Vehicle, Walker

CARS: Final = (
    "vehicle.audi.tt", "vehicle.citroen.c3", "vehicle.ford.mustang",
    "vehicle.lincoln.mkz_2020", "vehicle.mercedes.coupe_2020",
    "vehicle.nissan.patrol", "vehicle.seat.leon", "vehicle.toyota.prius",
)  # fmt: skip
TRUCK: Final = "vehicle.carlamotors.european_hgv"
GUEST, STRANGER = "guest", "stranger"
"""The names of SUMO's types for clients' vehicles and for pedestrians."""

_ONWARD: Final = 4
_WAITING: Final = 4
_START_M: Final = (20.0, 60.0)
_TRUCKS: Final = 0.08


@dataclass(frozen=True, slots=True)
class Busy:
    """The amount of random traffic."""

    vehicles_per_hour: float = 900.0
    walkers_per_hour: float = 200.0


class Comers:
    """Random vehicles and pedestrians that enter the roads, with their routes."""

    def __init__(self, sumo: Any, luck: Random, busy: Busy) -> None:
        self._sumo, self._luck = sumo, luck
        self._straight: dict[str, str] = {}
        lanes: dict[str, list[str]] = {}
        for name in sumo.lane.getIDList():
            if not name.startswith(":"):
                lanes.setdefault(name.rpartition("_")[0], []).append(name)
        entered: set[str] = set()
        leads: dict[str, set[str]] = {edge: set() for edge in lanes}
        drivable, self._walkable = [], []
        for edge, names in lanes.items():
            for_cars = [name for name in names if self._for_cars(name)]
            if for_cars:
                drivable.append(edge)
            if len(for_cars) < len(names):
                self._walkable.append(edge)
            for link in (
                link for name in for_cars for link in sumo.lane.getLinks(name)
            ):
                to = link[0].rpartition("_")[0]
                if to in leads:
                    leads[edge].add(to)
                    entered.add(to)
                    if link[6] == "s" or edge not in self._straight:
                        self._straight[edge] = to
        self._routes = self._ways(drivable, leads, entered)
        self._next = {
            "vehicle": self._wait(busy.vehicles_per_hour if self._routes else 0.0),
            "walker": self._wait(busy.walkers_per_hour if self._walkable else 0.0),
        }
        self._busy = busy
        self._count = 0
        self._from: dict[str, str] = {}  # the entry edge of each waiting vehicle

    def _for_cars(self, lane: str) -> bool:
        allowed = self._sumo.lane.getAllowed(lane)
        return not allowed or "passenger" in allowed

    def onward(self, edge: str) -> list[str]:
        """Returns a route that goes straight on from an edge."""
        way = [edge]
        while len(way) < _ONWARD and way[-1] in self._straight:
            way.append(self._straight[way[-1]])
        return way

    def depart(self, now_s: float) -> None:
        """Starts the vehicles and pedestrians that are due."""
        while self._next["vehicle"] <= now_s:
            self._next["vehicle"] += self._wait(self._busy.vehicles_per_hour)
            self._drive()
        while self._next["walker"] <= now_s:
            self._next["walker"] += self._wait(self._busy.walkers_per_hour)
            self._walk()

    @property
    def can_walk(self) -> bool:
        """Whether the map has any lanes for pedestrians."""
        return bool(self._walkable)

    def enter(self, name: str) -> None:
        """Adds a client's walker to SUMO. The caller must then set the walker's
        position.
        """
        person = self._sumo.person
        person.add(name, self._walkable[0], 1.0, typeID=STRANGER)
        person.appendWaitingStage(name, 1e6)

    def _wait(self, per_hour: float) -> float:
        return self._luck.expovariate(per_hour / 3600.0) if per_hour > 0 else math.inf

    def _ways(
        self, edges: Sequence[str], leads: dict[str, set[str]], entered: set[str]
    ) -> list[Sequence[str]]:
        starts = [edge for edge in edges if edge not in entered] or list(edges)
        ends = [edge for edge in edges if not leads[edge]] or list(edges)
        found: list[Sequence[str]] = []
        for start in starts:
            for end in ends:
                if start == end and leads[start]:
                    continue
                way = self._sumo.simulation.findRoute(start, end).edges
                if way:
                    found.append(tuple(way))
        return found

    def _drive(self) -> None:
        sumo = self._sumo
        route = self._routes[self._luck.randrange(len(self._routes))]
        kind = TRUCK if self._luck.random() < _TRUCKS else self._luck.choice(CARS)
        waiting = {
            name: self._from[name]
            for name in sumo.simulation.getPendingVehicles()
            if name in self._from
        }
        self._from = waiting
        if list(waiting.values()).count(route[0]) >= _WAITING:
            return  # no space on this entry edge
        self._count += 1
        way = f"way{self._routes.index(route)}"
        if way not in sumo.route.getIDList():
            sumo.route.add(way, list(route))
        name = f"npc{self._count}"
        self._from[name] = route[0]
        sumo.vehicle.add(
            name, way, typeID=kind, departLane="best",
            departSpeed="desired",
        )  # fmt: skip

    def _walk(self) -> None:
        sumo = self._sumo
        start, end = (
            self._luck.choice(self._walkable),
            self._luck.choice(self._walkable),
        )
        share = self._luck.random()
        stages = sumo.simulation.findIntermodalRoute(start, end, "")
        edges = [edge for stage in stages for edge in stage.edges]
        if start == end or not edges:
            return
        self._count += 1
        name = f"npc{self._count}"
        length = sumo.lane.getLength(f"{start}_0")
        low, high = _START_M
        # Pedestrians start near junctions, not at the edge of the map.
        back = low + (high - low) * share
        to_end = length - back if len(edges) > 1 else back
        sumo.person.add(name, start, max(1.0, min(length - 1.0, to_end)),
                        typeID=STRANGER)  # fmt: skip
        sumo.person.appendWalkingStage(name, edges, -1.0)


def kinds() -> str:
    """Returns a SUMO route file with all vehicle types, one for each blueprint in
    use.
    """
    rows = [
        f'<vType id="{GUEST}" minGap="0" accel="4" decel="9" emergencyDecel="9"'
        ' sigma="0" speedFactor="4" speedDev="0" maxSpeed="80"/>',
        f'<vType id="{STRANGER}" vClass="pedestrian"'
        ' speedFactor="normc(1,0.15,0.6,1.5)"/>',
    ]
    for name in (*CARS, TRUCK):
        half = blueprints.find(name).half
        lorry = name == TRUCK
        rows.append(
            f'<vType id="{name}" vClass="{"truck" if lorry else "passenger"}"'
            f' length="{2 * half[0]:.2f}" width="{2 * half[1]:.2f}"'
            f' accel="{1.3 if lorry else 2.4}" decel="4.5" sigma="0.4"'
            ' speedFactor="normc(1,0.1,0.7,1.2)"/>'
        )
    return f"<routes>{''.join(rows)}</routes>"


_FREE: Final = 2  # for moveToXY: use the exact position, on or off the road
_ENTRY_M: Final = 2.0
_EXIT_M: Final = 8.0
_CHECKED_FOR_M: Final = 2.0
_WALKS_M: Final = 12.0

Point = tuple[float, float]


Guest = Vehicle | Walker
"""A client's vehicle or walker, which SUMO's traffic reacts to."""


@dataclass(slots=True)
class SumoGuest:
    """The SUMO vehicle or person that represents a guest.

    Args:
        name: The name in SUMO. A guest gets a new name each time it enters SUMO's
            roads.
        leads: Whether the guest is given a route that goes straight on.
        edge: The first edge of the guest's route.
    """

    name: str
    leads: bool = True
    edge: str = ""


class Guests:
    """Copies clients' vehicles and walkers ("guests") into SUMO.

    Args:
        sumo: libsumo, with an episode loaded.
        comers: The random traffic, which also provides routes for guests.
        hero: The SUMO name of the scenario's ego vehicle, which SUMO already contains;
            empty if there is none.
        give_up_checks: Turns off SUMO's speed checks and lane changes for a vehicle
            that a client drives.
    """

    def __init__(
        self,
        sumo: Any,
        comers: Comers,
        hero: str,
        give_up_checks: Callable[[Any, str], None],
    ) -> None:
        self._sumo, self._comers = sumo, comers
        self._give_up_checks = give_up_checks
        self._in: dict[str, SumoGuest] = {}
        self._checked: dict[str, tuple[Point, float]] = {}
        self._entered = 0
        self.names: set[str] = set()
        """The SUMO names of all guests."""
        if hero:
            self._in[hero] = SumoGuest(hero, leads=False)
            self.names.add(hero)

    def put(self, guests: Sequence[Guest]) -> None:
        """Moves the guests to their current positions in SUMO."""
        for guest in guests:
            try:
                if isinstance(guest, Vehicle):
                    self._drive(guest)
                else:
                    self._walk(guest)
            except self._sumo.TraCIException:
                self.remove(guest.name)

    def after(self) -> None:
        """Updates the guests after a SUMO step."""
        vehicle = self._sumo.vehicle
        for name in self._sumo.simulation.getArrivedIDList():
            self._gone(name)
        there = set(vehicle.getIDList())
        for place in self._in.values():
            if place.leads and place.name in there:
                self._lead_on(place)

    def remove(self, name: str) -> None:
        """Removes a guest from SUMO, if SUMO contains it."""
        self._checked.pop(name, None)
        place = self._in.pop(name, None)
        if place is None:
            return
        self.names.discard(place.name)
        if place.name in self._sumo.vehicle.getLoadedIDList():
            self._sumo.vehicle.remove(place.name)
        elif place.name in self._sumo.person.getIDList():
            self._sumo.person.removeStages(place.name)

    # -- vehicles ---------------------------------------------------------------------

    def _drive(self, car: Vehicle) -> None:
        x, y, _, _, yaw, _ = car.at
        heading, half = math.radians(yaw), car.half[0]
        front = x + half * math.cos(heading), -(y + half * math.sin(heading))
        place = self._in.get(car.name)
        if self._off_m(car.name, front) > _EXIT_M:
            if place is not None:
                self.remove(car.name)
            return
        if place is None:
            # Do not use the cached distance: SUMO must find a lane for the car now, and
            # keeps the car on that lane.
            if self._measured(front) > _ENTRY_M:
                return
            place = self._enter(car)
        angle = (yaw + 90.0) % 360.0
        self._sumo.vehicle.moveToXY(place.name, "", -1, *front, angle, _FREE)

    def _off_m(self, name: str, at: Point) -> float:
        """Returns the distance from a guest to the nearest SUMO lane in metres.

        The distance is measured again when the guest has moved by more than 2 m.
        """
        known = self._checked.get(name)
        if known is None or math.dist(known[0], at) > _CHECKED_FOR_M:
            known = self._checked[name] = at, self._measured(at)
        return known[1]

    def _measured(self, at: Point) -> float:
        simulation = self._sumo.simulation
        edge, along, lane = simulation.convertRoad(*at, False, "passenger")
        return math.dist(at, simulation.convert2D(edge, along, lane))

    def _enter(self, car: Vehicle) -> SumoGuest:
        vehicle = self._sumo.vehicle
        place = self._in[car.name] = self._place(car.name)
        vehicle.add(place.name, "", typeID=GUEST)
        vehicle.setLength(place.name, 2.0 * car.half[0])
        vehicle.setWidth(place.name, 2.0 * car.half[1])
        self._give_up_checks(self._sumo, place.name)
        return place

    def _place(self, name: str) -> SumoGuest:
        self._entered += 1
        place = SumoGuest(f"{name}.{self._entered}")
        self.names.add(place.name)
        return place

    def _lead_on(self, place: SumoGuest) -> None:
        """Gives a guest a route that goes straight on, so that other vehicles yield to
        it.
        """
        # getRoadID would crash for a vehicle that is not on a lane.
        edge: str = self._sumo.vehicle.getLaneID(place.name).rpartition("_")[0]
        if edge and edge != place.edge and not edge.startswith(":"):
            place.edge = edge
            try:
                self._sumo.vehicle.setRoute(place.name, self._comers.onward(edge))
            except self._sumo.TraCIException:
                pass  # the guest keeps its previous route

    def _gone(self, name: str) -> None:
        for guest, place in list(self._in.items()):
            if place.name == name:
                del self._in[guest]
                self.names.discard(name)

    # -- walkers ----------------------------------------------------------------------

    def _walk(self, walker: Walker) -> None:
        x, y, yaw = walker.at[0], -walker.at[1], walker.at[4]
        place = self._in.get(walker.name)
        if self._off_m(walker.name, (x, y)) > _WALKS_M:
            if place is not None:
                self.remove(walker.name)
            return
        if place is None:
            if not self._comers.can_walk:
                return
            place = self._in[walker.name] = self._place(walker.name)
            place.leads = False
            self._comers.enter(place.name)
        angle = (yaw + 90.0) % 360.0
        self._sumo.person.moveToXY(place.name, "", x, y, angle, _FREE)
