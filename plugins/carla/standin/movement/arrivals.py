"""Who comes onto SUMO's roads by themselves, where no scenario says it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from forewarn.plugins.carla.standin import blueprints
from forewarn.plugins.carla.standin.movement.choice import Busy
from forewarn.plugins.driving.roads.network import Roads

CARS: Final = (
    "vehicle.audi.tt", "vehicle.citroen.c3", "vehicle.ford.mustang",
    "vehicle.lincoln.mkz_2020", "vehicle.mercedes.coupe_2020",
    "vehicle.nissan.patrol", "vehicle.seat.leon", "vehicle.toyota.prius",
)  # fmt: skip
TRUCK: Final = "vehicle.carlamotors.european_hgv"
GUEST, STRANGER = "guest", "stranger"
"""SUMO's types of what clients spawn, and of who walks."""

_ONWARD: Final = 4
_WAITING: Final = 4
_BEGINS_M: Final = (20.0, 60.0)
_TRUCKS: Final = 0.08


class Comers:
    """Who else comes onto the roads, and which ways lead where."""

    def __init__(self, sumo: Any, roads: Roads, luck: Random, busy: Busy) -> None:
        self._sumo, self._luck = sumo, luck
        self._straight: dict[str, str] = {}
        entered: set[str] = set()
        edges = [e for e in roads.lanes_of if not e.startswith(":")]
        leads: dict[str, set[str]] = {edge: set() for edge in edges}
        for edge in edges:
            for lane in roads.lanes_of[edge]:
                for link in lane.links if lane.for_cars else ():
                    to = link.to.rpartition("_")[0]
                    if to in leads:
                        leads[edge].add(to)
                        entered.add(to)
                        if link.turn == "s" or edge not in self._straight:
                            self._straight[edge] = to
        drivable = [e for e in edges if any(ln.for_cars for ln in roads.lanes_of[e])]
        self._routes = self._ways(drivable, leads, entered)
        self._walkable = [
            e for e in edges if any(not lane.for_cars for lane in roads.lanes_of[e])
        ]
        self._next = {
            "vehicle": self._wait(busy.vehicles_per_hour if self._routes else 0.0),
            "walker": self._wait(busy.walkers_per_hour if self._walkable else 0.0),
        }
        self._busy = busy
        self._count = 0
        self._from: dict[str, str] = {}  # where those who wait come in

    def onward(self, edge: str) -> list[str]:
        """The way straight on from an edge."""
        way = [edge]
        while len(way) < _ONWARD and way[-1] in self._straight:
            way.append(self._straight[way[-1]])
        return way

    def depart(self, now_s: float) -> None:
        """Sends those off whose time has come."""
        while self._next["vehicle"] <= now_s:
            self._next["vehicle"] += self._wait(self._busy.vehicles_per_hour)
            self._drive()
        while self._next["walker"] <= now_s:
            self._next["walker"] += self._wait(self._busy.walkers_per_hour)
            self._walk()

    @property
    def can_walk(self) -> bool:
        """Whether there is any way for pedestrians."""
        return bool(self._walkable)

    def enter(self, name: str) -> None:
        """Puts a client's walker somewhere; it is moved at once."""
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
            return  # this way in is full
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
        low, high = _BEGINS_M
        # Not the whole way from the edge of the map: people live near junctions.
        back = low + (high - low) * share
        to_end = length - back if len(edges) > 1 else back
        sumo.person.add(name, start, max(1.0, min(length - 1.0, to_end)),
                        typeID=STRANGER)  # fmt: skip
        sumo.person.appendWalkingStage(name, edges, -1.0)


def kinds() -> str:
    """SUMO's vehicle types: one for each blueprint that the traffic uses."""
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
