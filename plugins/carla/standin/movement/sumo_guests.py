"""Clients' actors in SUMO: where they are, for its traffic to see.

SUMO takes a vehicle from outside at any pose, but may end the whole process if it is
far from every lane. So a guest is in SUMO only while it is on its roads: it enters
when its front comes onto a lane, and leaves when it is well off.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from forewarn.plugins.carla.standin.actors import Vehicle, Walker
from forewarn.plugins.carla.standin.movement.arrivals import GUEST, Comers
from forewarn.plugins.carla.standin.movement.traffic import Guest
from forewarn.plugins.sumo.episode import give_up_checks

_FREE: Final = 2  # moveToXY: exactly there, on a road or not
_ENTERS_M: Final = 2.0
_LEAVES_M: Final = 8.0
_CHECKED_FOR_M: Final = 2.0
_WALKS_M: Final = 12.0

Point = tuple[float, float]


@dataclass(slots=True)
class Place:
    """One guest in SUMO.

    Args:
        name: SUMO's name of it, another each time that it enters.
        leads: Whether it is given a way straight on.
        edge: The edge that this way begins on.
    """

    name: str
    leads: bool = True
    edge: str = ""


class Guests:
    """All of them.

    Args:
        sumo: libsumo, with an episode loaded.
        comers: Who knows the ways.
        hero: SUMO's name of a scenario's own car; it is there already.
    """

    def __init__(self, sumo: Any, comers: Comers, hero: str) -> None:
        self._sumo, self._comers = sumo, comers
        self._in: dict[str, Place] = {}
        self._checked: dict[str, tuple[Point, float]] = {}
        self._entered = 0
        self.names: set[str] = set()
        """What SUMO calls those that are in it."""
        if hero:
            self._in[hero] = Place(hero, leads=False)
            self.names.add(hero)

    def put(self, guests: Sequence[Guest]) -> None:
        """Tells SUMO where they are now."""
        for guest in guests:
            try:
                if isinstance(guest, Vehicle):
                    self._drive(guest)
                else:
                    self._walk(guest)
            except self._sumo.TraCIException:
                self.remove(guest.name)

    def after(self) -> None:
        """What is to be done when SUMO has made its step."""
        vehicle = self._sumo.vehicle
        for name in self._sumo.simulation.getArrivedIDList():
            self._gone(name)
        there = set(vehicle.getIDList())
        for place in self._in.values():
            if place.leads and place.name in there:
                self._lead_on(place)

    def remove(self, name: str) -> None:
        """Takes a guest out of SUMO, if it is in it."""
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
        if self._off_m(car.name, front) > _LEAVES_M:
            if place is not None:
                self.remove(car.name)
            return
        if place is None:
            # Exactly now: SUMO must find a lane for it, and this one it keeps.
            if self._measured(front) > _ENTERS_M:
                return
            place = self._enter(car)
        angle = (yaw + 90.0) % 360.0
        self._sumo.vehicle.moveToXY(place.name, "", -1, *front, angle, _FREE)

    def _off_m(self, name: str, at: Point) -> float:
        """How far a place is from SUMO's lanes, measured every few metres."""
        known = self._checked.get(name)
        if known is None or math.dist(known[0], at) > _CHECKED_FOR_M:
            known = self._checked[name] = at, self._measured(at)
        return known[1]

    def _measured(self, at: Point) -> float:
        simulation = self._sumo.simulation
        edge, along, lane = simulation.convertRoad(*at, False, "passenger")
        return math.dist(at, simulation.convert2D(edge, along, lane))

    def _enter(self, car: Vehicle) -> Place:
        vehicle = self._sumo.vehicle
        place = self._in[car.name] = self._place(car.name)
        vehicle.add(place.name, "", typeID=GUEST)
        vehicle.setLength(place.name, 2.0 * car.half[0])
        vehicle.setWidth(place.name, 2.0 * car.half[1])
        give_up_checks(self._sumo, place.name)
        return place

    def _place(self, name: str) -> Place:
        self._entered += 1
        place = Place(f"{name}.{self._entered}")
        self.names.add(place.name)
        return place

    def _lead_on(self, place: Place) -> None:
        """Gives a guest a way straight on, so that others know to yield to it."""
        # Not getRoadID, which a vehicle that is off every lane brings down.
        edge: str = self._sumo.vehicle.getLaneID(place.name).rpartition("_")[0]
        if edge and edge != place.edge and not edge.startswith(":"):
            place.edge = edge
            try:
                self._sumo.vehicle.setRoute(place.name, self._comers.onward(edge))
            except self._sumo.TraCIException:
                pass  # It stays on the way that it has.

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
