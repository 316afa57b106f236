"""Converts the loaded simulation to a road network, a scene and driving signals."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from forewarn.plugins.driving.roads import Lane, LightName, Link, LinkDirection, Roads
from forewarn.plugins.driving.rss import rss_margins
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
from forewarn.plugins.driving.sense import Senses, Surroundings

_CROSSWALK = re.compile(r"^:.*_c\d+_\d+$")
_TURNS = {
    "l": LinkDirection.LEFT,
    "L": LinkDirection.LEFT,
    "r": LinkDirection.RIGHT,
    "R": LinkDirection.RIGHT,
    "t": LinkDirection.U_TURN,
}
_STOP = "s"


class SumoNet:
    """The map of the loaded simulation.

    Args:
        sumo: The module libsumo, with the net loaded.
    """

    def __init__(self, sumo: Any) -> None:
        self._sumo = sumo

    def lanes(self) -> Iterable[Lane]:
        of = self._sumo.lane
        for name in of.getIDList():
            links = tuple(
                Link(
                    link[0], link[4], _TURNS.get(link[6], LinkDirection.FORWARD),
                    link[5] == _STOP,
                )
                for link in of.getLinks(name)
            )  # fmt: skip
            allowed = of.getAllowed(name)
            edge, _, number = name.rpartition("_")
            yield Lane(
                name, edge, int(number), of.getLength(name), of.getWidth(name),
                3.6 * of.getMaxSpeed(name), junction_of(name),
                not allowed or "passenger" in allowed, links,
                tuple((p[0], p[1]) for p in of.getShape(name)),
                _CROSSWALK.match(name) is not None,
            )  # fmt: skip

    def lights(self) -> Mapping[str, LightName]:
        lights: dict[str, LightName] = {}
        for light in self._sumo.trafficlight.getIDList():
            links = self._sumo.trafficlight.getControlledLinks(light)
            for index, group in enumerate(links):
                for _, _, via in group:
                    lights[via] = light, index
        return lights

    def meets(self, inside: str) -> Collection[str]:
        found: Collection[str] = self._sumo.lane.getInternalFoes(inside)
        return found

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        found: Collection[str] = self._sumo.lane.getFoes(lane, to)
        return found

    def approaches(self, edge: str) -> Iterable[str]:
        node = self._sumo.edge.getToJunction(edge)
        found: Iterable[str] = self._sumo.junction.getIncomingEdges(node)
        return found


def junction_of(lane: str) -> str:
    """Returns the junction that contains a lane; empty if there is none.

    For example, the lane `:centre_4_0` is in the junction `:centre`.
    """
    return lane.rsplit("_", 2)[0] if lane.startswith(":") else ""


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
    """The scene of the loaded simulation.

    Args:
        sumo: The module libsumo, with an episode loaded.
        roads: The road network.
        ego: The name of the ego.
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
        """Reads the current state of the simulation."""
        vehicle = self._sumo.vehicle
        self.vehicles = self._placed(vehicle, self.vehicles, False)
        person = self._sumo.person
        self.people = self._placed(person, self.people, True)
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
    def _placed(
        group: Any, before: dict[str, Mover], on_foot: bool
    ) -> dict[str, Mover]:
        """Updates the positions of vehicles or pedestrians; queries sizes only once."""
        there, position = {}, group.getPosition
        for name in group.getIDList():
            mover = before.get(name)
            if mover is None:
                length, width = group.getLength(name), group.getWidth(name)
                mover = Mover(name, 0.0, 0.0, 0.0, 0.0, length, width, on_foot=on_foot)
            mover.x, mover.y = position(name)
            there[name] = mover
        return there

    def watch(self, other: Mover) -> Mover:
        """Queries the remaining attributes of a vehicle that is within sight."""
        (angle, speed, lane, at_m), name = self._tells, other.name
        other.heading = math.radians(90.0 - angle(name))
        other.speed, other.lane, other.at_m = speed(name), lane(name), at_m(name)
        return other

    # -- what the world reports -------------------------------------------------------

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """Returns the edges of the vehicle's route, which is known in SUMO."""
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
            return ""  # still on a sidewalk
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


class SumoSenses(Senses):
    """Computes the signals of one episode, step by step.

    Args:
        sumo: The module libsumo, with the episode loaded.
        ego: The name of the ego.
        roads: The road network.
        period_s: The time between frames in seconds.
        surroundings: Weather, time of day and traffic rules.
        rss: Whether to add the RSS margins.
        criticality: Whether to add the signals of `CRITICALITY`.
    """

    scene: SumoScene

    def __init__(
        self,
        sumo: Any,
        ego: str,
        roads: Roads,
        period_s: float,
        surroundings: Surroundings,
        *,
        rss: bool = False,
        criticality: bool = False,
    ) -> None:
        scene = SumoScene(sumo, roads, ego)
        super().__init__(scene, surroundings, period_s, criticality=criticality)
        self._rss = rss

    def values(
        self, time_s: float, collision: bool = False, horn: bool = False
    ) -> dict[str, Any]:
        """Returns the signals of this step; empty if the ego is not on a road."""
        self.scene.look()
        ego = self.scene.vehicles.get(self.scene.name)
        if ego is None or not ego.lane:
            return {}
        values = super().values(time_s, collision, horn)
        if self._rss:
            values |= rss_margins(self.scene, self.conflicts)
        return values
