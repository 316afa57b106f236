"""The loaded simulation as a scene: who is there, and what the lights show."""

from __future__ import annotations

import math
from collections.abc import Container
from typing import Any

from forewarn.plugins.driving.roads.lanes import LightName
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.scene import (
    FOLLOWER_SEEN_M,
    Behind,
    Colour,
    Lamps,
    Light,
    Mover,
    Near,
    Scene,
    TurnSignal,
)

_LIGHTS = {
    "r": Light(Colour.RED), "u": Light(Colour.RED), "y": Light(Colour.YELLOW),
    "Y": Light(Colour.YELLOW), "g": Light(Colour.GREEN), "G": Light(Colour.GREEN),
    "s": Light(Colour.GREEN), "o": Light(Colour.YELLOW, blinking=True),
    "O": Light(Colour.OFF),
}  # fmt: skip
_UNKNOWN = Light(Colour.UNKNOWN)
_RIGHT, _LEFT, _HAZARD = 1, 2, 4
_LOW_BEAM, _HIGH_BEAM, _FOG = 16, 64, 32


class SumoScene(Scene):
    """Everyone in the simulation; SUMO itself says who comes from behind.

    Args:
        sumo: libsumo, with an episode loaded.
        roads: Its net.
        ego: The ego's name.
    """

    def __init__(self, sumo: Any, roads: Roads, ego: str) -> None:
        super().__init__(roads, ego)
        self._sumo = sumo
        of = sumo.vehicle
        self._tells = of.getAngle, of.getSpeed, of.getLaneID, of.getLanePosition
        self._edges: dict[str, frozenset[str]] = {}
        self._shown: dict[str, str] = {}
        self._signals = 0
        self.route = tuple(sumo.vehicle.getRoute(ego))

    def look(self) -> None:
        """Takes in the simulation as it is now."""
        vehicle = self._sumo.vehicle
        self.vehicles = self._placed(vehicle, self.vehicles)
        person = self._sumo.person
        self.people = self._placed(person, self.people)
        for name, walker in self.people.items():
            walker.heading = math.radians(90.0 - person.getAngle(name))
            walker.speed = person.getSpeed(name)
        self._shown.clear()
        ego = self.vehicles.get(self.name)
        if ego is not None:
            self.watch(ego)
            ego.lateral = vehicle.getLateralSpeed(self.name)
            signals = vehicle.getSignals(self.name)
            if signals != self._signals:
                self._signals = signals
                ego.signal, ego.lamps = _turn_signal(signals), _lamps(signals)

    @staticmethod
    def _placed(group: Any, before: dict[str, Mover]) -> dict[str, Mover]:
        """Where the vehicles or the people are; those of before have their sizes."""
        there, position = {}, group.getPosition
        for name in group.getIDList():
            mover = before.get(name)
            if mover is None:
                length, width = group.getLength(name), group.getWidth(name)
                mover = Mover(name, 0.0, 0.0, 0.0, 0.0, length, width)
            mover.x, mover.y = position(name)
            there[name] = mover
        return there

    def watch(self, other: Mover) -> Mover:
        """Asks for the rest of a vehicle: nobody needs it of those out of sight."""
        (angle, speed, lane, at_m), name = self._tells, other.name
        other.heading = math.radians(90.0 - angle(name))
        other.speed, other.lane, other.at_m = speed(name), lane(name), at_m(name)
        return other

    # -- what a world tells -----------------------------------------------------------

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """SUMO's vehicles keep to their routes."""
        edges = self._edges.get(vehicle.name)
        if edges is None:
            edges = frozenset(self._sumo.vehicle.getRoute(vehicle.name))
            self._edges[vehicle.name] = edges
        return edges

    def light(self, name: LightName) -> Light:
        programme, index = name
        letters = self._shown.get(programme)
        if letters is None:
            letters = self._sumo.trafficlight.getRedYellowGreenState(programme)
            self._shown[programme] = letters
        return _LIGHTS.get(letters[index], _UNKNOWN)

    def light_age_s(self, name: LightName) -> float:
        age_s: float = self._sumo.trafficlight.getSpentDuration(name[0])
        return age_s

    def route_ahead(self) -> tuple[str, ...]:
        at = self._sumo.vehicle.getRouteIndex(self.name)
        return self.route[max(0, at) :]

    def on_crosswalk(self, person: Mover) -> str:
        edge: str = self._sumo.person.getRoadID(person.name)
        return edge

    def next_crosswalk(self, person: Mover) -> str:
        if not self.on_crosswalk(person).startswith(":"):
            return ""  # still on the sidewalk
        edge: str = self._sumo.person.getNextEdge(person.name)
        return edge

    def behind(self) -> Behind | None:
        who, gap = self._sumo.vehicle.getFollower(self.name, FOLLOWER_SEEN_M)
        if not who:
            return None
        return Behind(max(0.0, gap), self.watch(self.vehicles[who]).speed)

    def beside(self, side: int) -> list[Near]:
        found = self._sumo.vehicle.getNeighbors(self.name, 0 if side > 0 else 1)
        return [Near(self.watch(self.vehicles[who]), gap) for who, gap in found]


def _turn_signal(signals: int) -> TurnSignal:
    both = signals & (_LEFT | _RIGHT)
    if signals & _HAZARD or both == _LEFT | _RIGHT:
        return TurnSignal.HAZARD
    return {_LEFT: TurnSignal.LEFT, _RIGHT: TurnSignal.RIGHT}.get(both, TurnSignal.OFF)


def _lamps(signals: int) -> Lamps:
    return Lamps(*(signals & bit != 0 for bit in (_LOW_BEAM, _HIGH_BEAM, _FOG)))
