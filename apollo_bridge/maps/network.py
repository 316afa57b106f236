"""Apollo's map in the terms that the senses of driving read roads in.

Lanes that lie side by side make an edge. Outside of junctions a lane is called `e3_0`,
counted from the right; in one `:j2_5_0`, and a crosswalk `:j2_c0_0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property

from forewarn.apollo_bridge.maps.hdmap import Lane, RoadMap
from forewarn.plugins.driving.roads.junctions import Junctions, Movement
from forewarn.plugins.driving.roads.lanes import Lane as RoadLane
from forewarn.plugins.driving.roads.lanes import LightName, Link, Turn
from forewarn.plugins.driving.roads.lines import Line

_DEEPEST = 8
"""So many lanes one after another may a way through a junction have."""


class Network(Junctions[str, Movement]):
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
        super().__init__(
            dict(self._insides()), self._all_movements(), self.edge_of.__getitem__
        )

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

    def _insides(self) -> Iterator[tuple[str, tuple[str, Line]]]:
        for name, lane in self.lane_of.items():
            if lane.junction:
                yield name, (lane.junction, lane.shape)
        for name, walk in self.crosswalks.items():
            crosswalk = self.map.crosswalks[walk]
            yield name, (crosswalk.junction, crosswalk.line)

    def _all_movements(self) -> Iterator[tuple[str, Movement]]:
        for name, lane in self.lane_of.items():
            for via in () if lane.junction else self.after(lane):
                to = self._exit(via) if via.junction else ""
                if to:
                    (ax, ay), (bx, by) = lane.shape[-2:]
                    movement = Movement(
                        name, self.name_of[via.name], to, via.turn,
                        math.atan2(by - ay, bx - ax),
                        lane.stops or via.stops, lane.yields or via.yields,
                    )  # fmt: skip
                    yield via.junction, movement

    @cached_property
    def governs(self) -> dict[str, tuple[str, ...]]:
        """The lights of Apollo's map that govern each way into a junction."""
        found: dict[str, tuple[str, ...]] = {}
        for movement in self.movements:
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
                3.6 * lane.limit_mps,
                self._node(lane.junction) if lane.junction else "", True,
                tuple(self._links(lane)), lane.shape,
            )  # fmt: skip
        for name, walk in self.crosswalks.items():
            crosswalk = self.map.crosswalks[walk]
            yield RoadLane(
                name, name.rpartition("_")[0], 0, math.dist(*crosswalk.line),
                crosswalk.width_m, 0.0, self._node(crosswalk.junction), False, (),
                crosswalk.line, is_crosswalk=True,
            )  # fmt: skip

    def _node(self, junction: str) -> str:
        """What a junction is called; crosswalks may be outside of any."""
        return f":{self._junction_names.get(junction, 'none')}"

    def _links(self, lane: Lane) -> Iterator[Link]:
        for onward in self.after(lane):
            to = self._exit(onward)
            if to:
                via = self.name_of[onward.name] if onward.junction else ""
                inside = lane if lane.junction else onward
                turn = inside.turn if inside.junction else Turn.FORWARD
                yield Link(to, via, turn, onward.stops or lane.stops)

    def lights(self) -> Mapping[str, LightName]:
        return {via: (via, 0) for via in self.governs}
