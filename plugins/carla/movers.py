"""The vehicles of a CARLA world at one moment, and where they may go."""

from __future__ import annotations

from collections.abc import Container

from forewarn.plugins.driving.movers import Moment, Mover, Vehicles
from forewarn.plugins.driving.roads import Lane, Roads

_RIGHT, _LEFT = 1, 2


class CarlaVehicles(Vehicles):
    """The vehicles, and the edges that each may take.

    Args:
        now: Everyone.
        ego: The ego's name.
        roads: The map's.
    """

    def __init__(self, now: Moment, ego: str, roads: Roads) -> None:
        super().__init__(now, roads)
        self._ego = ego

    def __getitem__(self, vehicle: str) -> Container[str]:
        """The edges that somebody may take: what its lane and signals tell."""
        mover = self._now.vehicles[vehicle]
        lane = self._roads.lanes.get(mover.lane)
        edges: set[str] = set()
        if lane is None:
            return edges
        edges.add(lane.edge)
        first = self.onward(mover, lane)
        for name in first:
            exits = self._exits(self._roads.lanes[name])
            edges |= exits
            for edge in exits:
                for beyond in self._roads.lanes_of.get(edge, ()):
                    edges |= {self._roads.lanes[k.to].edge for k in beyond.links}
        return edges

    def onward(self, mover: Mover, lane: Lane) -> list[str]:
        """The next lanes that somebody may take, the likeliest first."""
        if lane.inside or not lane.links:
            return [link.via or link.to for link in lane.links] or [lane.name]
        if self.route and mover is self._now.vehicles.get(self._ego):
            on_route = [
                link
                for link in lane.links
                if self._roads.lanes[link.to].edge in self.route
            ]
            if on_route:
                return [link.via or link.to for link in on_route]
        wanted = {_RIGHT: "r", _LEFT: "lt"}.get(mover.signals & 3, "s")
        fits = [link for link in lane.links if link.turn in wanted]
        return [link.via or link.to for link in fits or lane.links]

    def _exits(self, lane: Lane) -> set[str]:
        if not lane.inside:
            return {lane.edge}
        return {self._roads.lanes[link.to].edge for link in lane.links}
