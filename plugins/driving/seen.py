"""Scenes of which no more is known than what is to be seen: nobody says where they go.

Lanes and turn signals tell it, and a pedestrian's place and heading.
"""

from __future__ import annotations

import math
from collections.abc import Container

from forewarn.plugins.driving.roads.lanes import Lane, Turn
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.roads.places import Place, Places
from forewarn.plugins.driving.scene import Mover, Scene, TurnSignal

_TURNS = {
    TurnSignal.LEFT: (Turn.LEFT, Turn.U_TURN), TurnSignal.RIGHT: (Turn.RIGHT,),
}  # fmt: skip
_STAYS_M = 0.6  # so much worse a lane fits before it is left
_WAY_EDGES = 4
_CORNER_M = 1.6  # so near a crosswalk's end one is about to cross,
_AWAY = -0.4  # unless one walks away from it


class SeenScene(Scene):
    """Everyone at one moment, as an onlooker sees them.

    Args:
        roads: The map's.
        ego: The ego's name.
        places: The lanes by place.
    """

    def __init__(self, roads: Roads, ego: str, places: Places) -> None:
        super().__init__(roads, ego)
        self.places = places

    def edges_of(self, vehicle: Mover) -> Container[str]:
        """The edges that somebody may take: what its lane and signals tell."""
        lane = self.roads.lanes.get(vehicle.lane)
        edges: set[str] = set()
        if lane is None:
            return edges
        edges.add(lane.edge)
        for name in self.onward(vehicle, lane):
            exits = self._exits(self.roads.lanes[name])
            edges |= exits
            for edge in exits:
                for beyond in self.roads.lanes_of.get(edge, ()):
                    edges |= {self.roads.lanes[k.to].edge for k in beyond.links}
        return edges

    def onward(self, vehicle: Mover, lane: Lane) -> list[str]:
        """The next lanes that somebody may take, the likeliest first."""
        if lane.inside or not lane.links:
            return [link.via or link.to for link in lane.links] or [lane.name]
        if self.route and vehicle.name == self.name:
            on_route = [
                link
                for link in lane.links
                if self.roads.lanes[link.to].edge in self.route
            ]
            if on_route:
                return [link.via or link.to for link in on_route]
        wanted = _TURNS.get(vehicle.signal, (Turn.FORWARD,))
        fits = [link for link in lane.links if link.turn in wanted]
        return [link.via or link.to for link in fits or lane.links]

    def straight_on(self, mover: Mover) -> tuple[str, ...]:
        """The edges before somebody who goes on as the lane leads, or as it signals."""
        lane = self.roads.lanes[mover.lane]
        edges: list[str] = []
        if lane.inside:
            entries = sorted(self.roads.entries.get(lane.name, ()))
            edges += [self.roads.lanes[name].edge for name in entries[:1]]
        else:
            edges.append(lane.edge)
        for _ in range(_WAY_EDGES):
            following = self.onward(mover, lane)
            lane = self.roads.lanes[following[0]]
            while lane.inside and lane.links:
                lane = self.roads.lanes[lane.links[0].via or lane.links[0].to]
            if lane.edge in edges or lane.inside:
                break
            edges.append(lane.edge)
        return tuple(edges)

    def _exits(self, lane: Lane) -> set[str]:
        if not lane.inside:
            return {lane.edge}
        return {self.roads.lanes[link.to].edge for link in lane.links}

    def next_crosswalk(self, person: Mover) -> str:
        """The crosswalk that somebody walks to from its corner."""
        ux, uy = math.cos(person.heading), math.sin(person.heading)
        for crosswalk in self.crosswalks.near(person.x, person.y):
            along, aside = crosswalk.place(person.x, person.y)
            (ax, ay), (bx, by) = crosswalk.ends
            towards = ((bx - ax) * ux + (by - ay) * uy) / crosswalk.length_m
            if along > crosswalk.length_m / 2.0:
                along, towards = crosswalk.length_m - along, -towards
            near = -_CORNER_M < along < 0.0 and abs(aside) <= crosswalk.half_m
            if near and towards > _AWAY:
                return crosswalk.edge
        return ""

    def settle(self, mover: Mover) -> Place | None:
        """The lane that somebody is on; where several fit, the likely one."""
        lane = self.roads.lanes.get(mover.lane)
        x, y, heading = mover.x, mover.y, math.degrees(mover.heading)
        fitting = list(self.places.near(x, y, heading))
        if not fitting:
            return None
        best = min(fitting, key=lambda place: place.off)
        if lane is None:
            return best
        own = next((p for p in fitting if p.lane == lane.name), None)
        if own is not None and own.along_m < lane.length - 1e-3:
            # Inside a junction ways part slowly: one keeps to the one taken.
            keeps = math.inf if lane.inside else _STAYS_M
            if own.off < best.off + keeps:
                return own
        likely = self.onward(mover, lane)
        return next((p for name in likely for p in fitting if p.lane == name), best)
