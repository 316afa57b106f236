"""Completes routes, start lanes and initial speeds on the user's network."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

from forewarn.abstractions.errors import InvalidInput, suggest
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Route, Traffic

Starting = TypeVar("Starting", Ego, Car)

_ROOM = 0.9  # fraction of the speed limit, which may differ between lanes


@lru_cache(maxsize=4)
def _network(path: Path) -> Any:
    import sumolib

    return sumolib.net.readNet(str(path))


class Routes:
    """Completes the routes, lanes and speeds that a scenario omits, for one network.

    Args:
        path: The `.net.xml` file of the network.
    """

    def __init__(self, path: Path) -> None:
        self._net = _network(path)

    def ego(self, ego: Ego) -> Ego:
        """Returns the ego with a complete route and an existing start lane."""
        return ego if ego.vehicle else self._starting(ego, "ego")

    def traffic(self, traffic: Traffic) -> Traffic:
        """Returns the traffic with complete routes."""
        flows = tuple(self._flow(flow) for flow in traffic.flows)
        cars = tuple(self._starting(car, "cars") for car in traffic.cars)
        return Traffic(flows, cars, traffic.queues, traffic.walkers)

    def _flow(self, flow: Flow) -> Flow:
        routes = [self._route(route, "flows") for route in flow.routes]
        changed: dict[str, Any] = {"routes": routes}
        if "speed_kmh" not in flow.model_fields_set:
            slowest = min(self._limit_kmh(route[0]) for route in routes)
            # The speeds in a flow vary and can be up to 15 % higher.
            changed["speed_kmh"] = min(flow.speed_kmh, slowest / 1.15)
        return flow.model_copy(update=changed)

    def _starting(self, one: Starting, what: str) -> Starting:
        route = self._route(one.route, what)
        edge = self._edge(route[0], what)
        lanes, length_m = edge.getLaneNumber(), edge.getLength()
        given = one.model_fields_set
        changed: dict[str, Any] = {"route": route}
        if "lane" not in given:
            changed["lane"] = min(one.lane, lanes - 1)
        elif one.lane >= lanes:
            raise InvalidInput(
                f"{what}: the edge {route[0]} has no lane {one.lane}",
                mend="the edge has only lane 0"
                if lanes == 1
                else f"lanes are numbered from 0 (right) to {lanes - 1} (left)",
            )
        if "position_m" not in given:
            changed["position_m"] = min(one.position_m, length_m / 2)
        elif one.position_m > length_m:
            raise InvalidInput(
                f"{what}: {one.position_m:g} m is beyond the edge {route[0]}",
                mend=f"the edge is {length_m:g} m long",
            )
        if "speed_kmh" not in given:
            limit_kmh = self._limit_kmh(route[0])
            changed["speed_kmh"] = min(one.speed_kmh, limit_kmh)
        return one.model_copy(update=changed)

    def _route(self, route: Route, what: str) -> Route:
        """Fills in the missing edges of a route."""
        whole = route[:1]
        edges = [self._edge(name, what) for name in route]
        for here, there in pairwise(edges):
            found, _ = self._net.getShortestPath(here, there, vClass="passenger")
            if not found:
                raise InvalidInput(
                    f"{what}: there is no connection from {here.getID()} to "
                    f"{there.getID()}",
                    mend="list connected edges in the direction of travel",
                )
            whole += [each.getID() for each in found[1:]]
        return whole

    def _limit_kmh(self, name: str) -> float:
        return float(self._net.getEdge(name).getSpeed()) * 3.6 * _ROOM

    def _edge(self, name: str, what: str) -> Any:
        if not self._net.hasEdge(name):
            known = sorted(each.getID() for each in self._net.getEdges())
            raise InvalidInput(
                f"{what}: the map has no edge {name!r:.60}", mend=suggest(name, known)
            )
        return self._net.getEdge(name)
