"""The loaded simulation as the senses of driving read it: its net, and who is there."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

from forewarn.plugins.driving.roads import Lane, Link
from forewarn.plugins.driving.scene import Routes


class SumoNet:
    """What libsumo tells of its net.

    Args:
        sumo: libsumo, with the net loaded.
    """

    def __init__(self, sumo: Any) -> None:
        self._sumo = sumo

    def lanes(self) -> Iterable[Lane]:
        of = self._sumo.lane
        for name in of.getIDList():
            links = tuple(
                Link(link[0], link[4], link[6], link[5]) for link in of.getLinks(name)
            )
            allowed = of.getAllowed(name)
            edge, _, number = name.rpartition("_")
            yield Lane(
                name, edge, int(number), of.getLength(name), of.getWidth(name),
                3.6 * of.getMaxSpeed(name), name.startswith(":"),
                not allowed or "passenger" in allowed, links, of.getShape(name),
            )  # fmt: skip

    def lights(self) -> Mapping[str, tuple[str, int]]:
        lights: dict[str, tuple[str, int]] = {}
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


class SumoScene:
    """The loaded simulation.

    Args:
        sumo: libsumo, with an episode loaded.
    """

    def __init__(self, sumo: Any) -> None:
        self.vehicle, self.person = sumo.vehicle, sumo.person
        self.trafficlight = sumo.trafficlight
        self.routes: Routes = _Known(sumo.vehicle)


class _Known(dict[str, Container[str]]):
    """SUMO's vehicles keep to their routes."""

    def __init__(self, vehicle: Any) -> None:
        super().__init__()
        self._vehicle = vehicle

    def __missing__(self, name: str) -> Container[str]:
        route = self[name] = frozenset(self._vehicle.getRoute(name))
        return route
