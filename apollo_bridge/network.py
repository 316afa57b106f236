"""Apollo's map in the words that the senses ask for roads in: those of libsumo.

The senses of driving look at lanes, links and conflicts; here they are told of them for
any map of Apollo. Lanes that lie side by side make an edge. Outside of junctions a lane
is called `e3_0`, counted from the right; in one `:j2_5_0`, and a crosswalk `:j2_c0_0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from forewarn.apollo_bridge.hdmap import Lane, RoadMap
from forewarn.plugins.sumo.roads import Point, crossing

_TURNS = {"forward": "s", "left": "l", "right": "r", "u_turn": "t"}
_ONCOMING = math.radians(135.0)
_SIDEWAYS = math.radians(45.0)
_DEEPEST = 8
"""So many lanes one after another may a way through a junction have."""

Link = tuple[str, bool, bool, bool, str, str, str, float]


@dataclass(frozen=True, slots=True)
class Movement:
    """A way through a junction: from a lane, over one inside, to an edge."""

    lane: str
    via: str
    to: str
    turn: str
    heading: float
    stops: bool
    yields: bool
    shape: tuple[Point, ...]

    def goes_before(self, other: Movement) -> bool:
        """Whether this one has right of way over another that it meets."""
        if self.stops != other.stops:
            return other.stops
        if self.yields != other.yields:
            return other.yields
        turned = math.remainder(self.heading - other.heading, math.tau)
        if abs(turned) > _ONCOMING:
            return other.turn in ("left", "u_turn") and self.turn not in (
                "left",
                "u_turn",
            )
        # Who comes from the right.
        return _SIDEWAYS < turned


class Network:
    """The lanes of a map by the names that the senses use.

    Its parts `lane`, `edge` and `junction` answer as those of libsumo do.

    Args:
        road_map: The map.
    """

    def __init__(self, road_map: RoadMap) -> None:
        self.map = road_map
        self.name_of: dict[str, str] = {}
        self.lanes: dict[str, Lane] = {}
        self.edge_of: dict[str, str] = {}
        self.lane = self.edge = self.junction = self
        junctions = {lane.junction for lane in road_map.lanes.values()}
        junctions |= {walk.junction for walk in road_map.crosswalks.values()}
        self._junction_names = {
            name: f"j{i}" for i, name in enumerate(sorted(junctions - {""}))
        }
        self._name_lanes()
        self._name_crosswalks()
        self._movements: dict[str, list[Movement]] = {}
        self._to_junction: dict[str, str] = {}
        for movement in self._all_movements():
            node = self.lanes[movement.via].junction
            self._movements.setdefault(node, []).append(movement)
            self._to_junction[self.edge_of[movement.lane]] = node

    # -- names ------------------------------------------------------------------------

    def _name_lanes(self) -> None:
        edges, inner = 0, dict.fromkeys(self._junction_names, 0)
        for lane in self.map.lanes.values():
            if lane.name in self.name_of or not lane.driving:
                continue
            if lane.junction:
                number = inner[lane.junction]
                inner[lane.junction] += 1
                edge = f":{self._junction_names[lane.junction]}_{number}"
                self._call(lane, edge, 0)
                continue
            for number, beside in enumerate(self._beside(lane)):
                self._call(beside, f"e{edges}", number)
            edges += 1

    def _call(self, lane: Lane, edge: str, number: int) -> None:
        name = f"{edge}_{number}"
        self.name_of[lane.name] = name
        self.lanes[name] = lane
        self.edge_of[name] = edge

    def _beside(self, lane: Lane) -> Iterator[Lane]:
        """The lanes that lie beside one and go the same way, from the right."""
        seen = {lane.name}
        while (right := self._free(lane.right)) and right.name not in seen:
            lane = right
            seen.add(lane.name)
        seen = set()
        following: Lane | None = lane
        while following is not None and following.name not in seen:
            seen.add(following.name)
            yield following
            following = self._free(following.left)

    def _free(self, name: str) -> Lane | None:
        """A neighbour, if it is a lane of the road that has no name yet."""
        lane = self.map.lanes.get(name)
        fits = lane is not None and lane.driving and not lane.junction
        return lane if fits and name not in self.name_of else None

    def _name_crosswalks(self) -> None:
        self.crosswalks: dict[str, str] = {}
        count: dict[str, int] = {}
        for walk in self.map.crosswalks.values():
            junction = self._junction_names.get(walk.junction, "none")
            number = count.get(junction, 0)
            count[junction] = number + 1
            self.crosswalks[f":{junction}_c{number}_0"] = walk.name

    # -- ways through junctions -------------------------------------------------------

    def after(self, lane: Lane) -> Iterator[Lane]:
        """The lanes for cars that one leads to."""
        for name in lane.after:
            if name in self.name_of:
                yield self.map.lanes[name]

    def _exit(self, lane: Lane) -> str:
        """The lane behind the junction that one inside it leads to; or none."""
        for _ in range(_DEEPEST):
            if not lane.junction:
                return self.name_of[lane.name]
            onward = next(self.after(lane), None)
            if onward is None:
                return ""
            lane = onward
        return ""

    def _all_movements(self) -> Iterator[Movement]:
        for name, lane in self.lanes.items():
            for via in () if lane.junction else self.after(lane):
                to = self._exit(via) if via.junction else ""
                if to:
                    (ax, ay), (bx, by) = lane.shape[-2:]
                    yield Movement(
                        name, self.name_of[via.name], to, via.turn,
                        math.atan2(by - ay, bx - ax),
                        lane.stops or via.stops, lane.yields or via.yields,
                        via.shape,
                    )  # fmt: skip

    @cached_property
    def lights(self) -> dict[str, tuple[str, ...]]:
        """The lights of Apollo's map that govern each way into a junction."""
        found: dict[str, tuple[str, ...]] = {}
        for movements in self._movements.values():
            for movement in movements:
                names = self.lanes[movement.via].lights
                names = names or self.lanes[movement.lane].lights
                if names:
                    found[movement.via] = names
        return found

    # -- as libsumo answers -----------------------------------------------------------

    def getIDList(self) -> list[str]:
        return [*self.lanes, *self.crosswalks]

    def getLinks(self, name: str) -> list[Link]:
        lane = self.lanes.get(name)
        links: list[Link] = []
        for onward in () if lane is None else self.after(lane):
            to = self._exit(onward)
            if not to:
                continue
            via = self.name_of[onward.name] if onward.junction else ""
            sign = "s" if onward.stops or (lane and lane.stops) else "M"
            turn = _TURNS[onward.turn] if onward.junction else "s"
            links.append((to, True, True, False, via, sign, turn, onward.length_m))
        return links

    def getAllowed(self, name: str) -> tuple[str, ...]:
        return ("pedestrian",) if name in self.crosswalks else ()

    def getLength(self, name: str) -> float:
        if name in self.crosswalks:
            return math.dist(*self.map.crosswalks[self.crosswalks[name]].line)
        return self.lanes[name].length_m

    def getWidth(self, name: str) -> float:
        if name in self.crosswalks:
            return self.map.crosswalks[self.crosswalks[name]].width_m
        return self.lanes[name].width_m

    def getMaxSpeed(self, name: str) -> float:
        return 0.0 if name in self.crosswalks else self.lanes[name].limit_mps

    def getShape(self, name: str) -> tuple[Point, ...]:
        if name in self.crosswalks:
            return self.map.crosswalks[self.crosswalks[name]].line
        return self.lanes[name].shape

    def getInternalFoes(self, name: str) -> list[str]:
        """What crosses a lane inside a junction, or merges with it."""
        own = self.lanes[name]
        foes = [
            other
            for other, lane in self._inside.get(own.junction, ())
            if other != name and crossing(own.shape, lane.shape) is not None
        ]
        for other, walk in self.crosswalks.items():
            crosswalk = self.map.crosswalks[walk]
            if crosswalk.junction == own.junction and crossing(
                own.shape, crosswalk.line
            ):
                foes.append(other)
        return foes

    @cached_property
    def _inside(self) -> dict[str, list[tuple[str, Lane]]]:
        found: dict[str, list[tuple[str, Lane]]] = {}
        for name, lane in self.lanes.items():
            if lane.junction:
                found.setdefault(lane.junction, []).append((name, lane))
        return found

    def getFoes(self, name: str, to: str) -> list[str]:
        """The lanes from which those come that go before who goes that way."""
        node = self._to_junction[self.edge_of[name]]
        own = [m for m in self._movements[node] if (m.lane, m.to) == (name, to)]
        return [
            m.lane
            for m in self._movements[node]
            if m.lane != name and any(m.goes_before(each) for each in own)
        ]

    def getToJunction(self, edge: str) -> str:
        return self._to_junction.get(edge, "")

    def getIncomingEdges(self, node: str) -> list[str]:
        return list(
            dict.fromkeys(self.edge_of[m.lane] for m in self._movements.get(node, ()))
        )
