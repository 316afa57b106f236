"""The net that libsumo has loaded, as the senses of driving read roads."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from forewarn.plugins.driving.roads.lanes import Lane, LightName, Link, Turn

_CROSSWALK = re.compile(r"^:.*_c\d+_\d+$")
_TURNS = {
    "l": Turn.LEFT, "L": Turn.LEFT, "r": Turn.RIGHT, "R": Turn.RIGHT, "t": Turn.U_TURN,
}  # fmt: skip
_STOP = "s"


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
                Link(
                    link[0], link[4], _TURNS.get(link[6], Turn.FORWARD),
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
    """The junction that a lane is inside of: `:centre` of `:centre_4_0`, or none."""
    return lane.rsplit("_", 2)[0] if lane.startswith(":") else ""
