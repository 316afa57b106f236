"""Apollo's map in the terms that the senses of driving read roads in.

Lanes that lie side by side make an edge. Outside of junctions a lane is called `e3_0`,
counted from the right; in one `:j2_5_0`, and a crosswalk `:j2_c0_0`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from forewarn.apollo_bridge.hdmap import Crosswalk, Lane, RoadMap
from forewarn.plugins.driving.roads import Lane as RoadLane
from forewarn.plugins.driving.roads import Link, Point, crossing

_TURNS = {"forward": "s", "left": "l", "right": "r", "u_turn": "t"}
_ONCOMING = math.radians(135.0)
_SIDEWAYS = math.radians(45.0)
_CELL_M = 16.0
_DEEPEST = 8
"""So many lanes one after another may a way through a junction have."""


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
    """The lanes of a map by the names that the senses use; a `Net` for `Roads`.

    Args:
        road_map: The map.
    """

    def __init__(self, road_map: RoadMap) -> None:
        self.map = road_map
        self.name_of: dict[str, str] = {}
        self.lane_of: dict[str, Lane] = {}
        self.edge_of: dict[str, str] = {}
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
            node = self.lane_of[movement.via].junction
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
        self.lane_of[name] = lane
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

    def walks_near(self, x: float, y: float) -> Iterator[tuple[str, Crosswalk]]:
        """The crosswalks around a point, by the names that they have here."""
        cell = math.floor(x / _CELL_M), math.floor(y / _CELL_M)
        for name in self._walk_cells.get(cell, ()):
            yield name, self.map.crosswalks[self.crosswalks[name]]

    @cached_property
    def _walk_cells(self) -> dict[tuple[int, int], list[str]]:
        cells: dict[tuple[int, int], list[str]] = {}
        for name, walk in self.crosswalks.items():
            crosswalk = self.map.crosswalks[walk]
            (ax, ay), (bx, by) = crosswalk.line
            reach = crosswalk.width_m
            for i in range(
                math.floor((min(ax, bx) - reach) / _CELL_M),
                math.floor((max(ax, bx) + reach) / _CELL_M) + 1,
            ):
                for j in range(
                    math.floor((min(ay, by) - reach) / _CELL_M),
                    math.floor((max(ay, by) + reach) / _CELL_M) + 1,
                ):
                    cells.setdefault((i, j), []).append(name)
        return cells

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
        for name, lane in self.lane_of.items():
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
    def governs(self) -> dict[str, tuple[str, ...]]:
        """The lights of Apollo's map that govern each way into a junction."""
        found: dict[str, tuple[str, ...]] = {}
        for movements in self._movements.values():
            for movement in movements:
                names = self.lane_of[movement.via].lights
                names = names or self.lane_of[movement.lane].lights
                if names:
                    found[movement.via] = names
        return found

    # -- what roads are made of -------------------------------------------------------

    def lanes(self) -> Iterator[RoadLane]:
        for name, lane in self.lane_of.items():
            edge = self.edge_of[name]
            yield RoadLane(
                name, edge, int(name.rpartition("_")[2]), lane.length_m, lane.width_m,
                3.6 * lane.limit_mps, bool(lane.junction), True,
                tuple(self._links(lane)), lane.shape,
            )  # fmt: skip
        for name, walk in self.crosswalks.items():
            line = self.map.crosswalks[walk].line
            width = self.map.crosswalks[walk].width_m
            edge = name.rpartition("_")[0]
            yield RoadLane(
                name, edge, 0, math.dist(*line), width, 0.0, True, False, (), line
            )

    def _links(self, lane: Lane) -> Iterator[Link]:
        for onward in self.after(lane):
            to = self._exit(onward)
            if to:
                via = self.name_of[onward.name] if onward.junction else ""
                sign = "s" if onward.stops or lane.stops else "M"
                inside = lane if lane.junction else onward
                turn = _TURNS[inside.turn] if inside.junction else "s"
                yield Link(to, via, turn, sign)

    def lights(self) -> Mapping[str, tuple[str, int]]:
        return {via: (via, 0) for via in self.governs}

    def meets(self, inside: str) -> Collection[str]:
        own = self.lane_of[inside]
        foes = [
            other
            for other, lane in self._inside.get(own.junction, ())
            if other != inside and crossing(own.shape, lane.shape) is not None
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
        for name, lane in self.lane_of.items():
            if lane.junction:
                found.setdefault(lane.junction, []).append((name, lane))
        return found

    def goes_first(self, lane: str, to: str) -> Collection[str]:
        node = self._to_junction.get(self.edge_of[lane], "")
        movements = self._movements.get(node, [])
        own = [m for m in movements if (m.lane, m.to) == (lane, to)]
        return [
            m.lane
            for m in movements
            if m.lane != lane and any(m.goes_before(each) for each in own)
        ]

    def approaches(self, edge: str) -> Iterable[str]:
        movements = self._movements.get(self._to_junction.get(edge, ""), [])
        return dict.fromkeys(self.edge_of[m.lane] for m in movements)
