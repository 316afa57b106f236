"""What the senses ask of the traffic: routes, pedestrians and lights.

They answer as SUMO's do.
"""

from __future__ import annotations

import math
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from forewarn.apollo_bridge.maps.network import Network
from forewarn.plugins.driving.movers import People

if TYPE_CHECKING:
    from forewarn.apollo_bridge.traffic import Traffic

EGO = "ego"

_LETTERS = {1: "r", 2: "y", 3: "G", 4: "O"}
_ROUTE_HOLDS_S = 1.0


class Routes:
    """Where the others go, as prediction has it; foretold anew while they drive."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._known: dict[str, tuple[str, float, Container[str]]] = {}

    def __getitem__(self, vehicle: str) -> Container[str]:
        everyone, time_s = self._traffic.now.vehicles, self._traffic.time_s
        lane = everyone[vehicle].lane
        known = self._known.get(vehicle)
        if known and known[0] == lane and time_s - known[1] < _ROUTE_HOLDS_S:
            return known[2]
        if len(self._known) > 2 * len(everyone) + 16:
            self._known = {n: k for n, k in self._known.items() if n in everyone}
        edges = self._traffic.edges_ahead(self._traffic.way(vehicle))
        self._known[vehicle] = lane, time_s, edges
        return edges


class Pedestrians(People):
    """The pedestrians: on a crosswalk, about to be on one, or elsewhere."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__(traffic.now, traffic.roads)
        self._traffic = traffic

    def getNextEdge(self, name: str) -> str:
        """The crosswalk that somebody is foretold to come to; empty for none."""
        for point in self._traffic.way(name):
            if found := self.crosswalk_at(*point):
                return found
        return ""


class Lights:
    """The lights: one for each way into a junction that has any."""

    def __init__(self, network: Network) -> None:
        self._governs = network.governs
        self._seen: dict[str, Any] = {}

    def see(self, detection: Any) -> None:
        """Takes in the lights that perception sees."""
        lights = () if detection is None else detection.traffic_light
        self._seen = {light.id: light for light in lights}

    def light(self, via: str) -> Any:
        """What is seen of the light before a way; None if nothing is."""
        seen = [self._seen[n] for n in self._governs.get(via, ()) if n in self._seen]
        return next((light for light in seen if light.color in _LETTERS), None)

    def getRedYellowGreenState(self, via: str) -> str:
        light = self.light(via)
        if light is None:
            return "?"
        return "o" if light.blink and light.color == 2 else _LETTERS[light.color]

    def getSpentDuration(self, via: str) -> float:
        light = self.light(via)
        age_s: float = 0.0 if light is None else light.tracking_time
        return age_s if math.isfinite(age_s) else 0.0
