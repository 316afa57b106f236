"""CommonRoad's lanelets as the senses read roads: lanes, links, who goes first.

Lanelets side by side that lead the same way make an edge, counted from the right, which
is called by the least id among them: `101_0`, `101_1`. Inside an intersection each is
an edge of its own: `:501_201_0`, and a crosswalk there `:501_c0_0`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from forewarn.plugins.commonroad.recorded import Lanelet, Recorded
from forewarn.plugins.driving.roads.junctions import Junctions, Movement
from forewarn.plugins.driving.roads.lanes import Lane, LightName, Link, Turn
from forewarn.plugins.driving.roads.lines import crossing, length_of

_USUAL_LIMIT_KMH = 50.0
_OTHERS = frozenset(
    ("sidewalk", "bicycleLane", "busLane", "border", "parking", "restricted",
     "restricted_area", "busStop", "shoulder")
)  # fmt: skip
_CROSSWALK = "crosswalk"
_SHOWS = {Turn.LEFT: "left", Turn.RIGHT: "right", Turn.FORWARD: "straight"}


class CommonRoadNet(Junctions[int, Movement]):
    """The roads of a file.

    Args:
        told: What it says.
    """

    def __init__(self, told: Recorded) -> None:
        self._told = told
        self.names = dict(self._named())
        """The name of each lanelet's lane; crosswalks have none."""
        self._lanes = {
            name: self._lane(told.lanelets[number], name)
            for number, name in self.names.items()
        }
        movements = list(self._all_movements())
        inside = {
            self.names[number]: (node, self._lanes[self.names[number]].shape)
            for number, (node, _) in told.turns.items()
            if number in self.names
        }
        for lane, node in self._crosswalks():
            self._lanes[lane.name] = lane
            inside[lane.name] = node, lane.shape
        super().__init__(inside, movements, lambda lane: self._lanes[lane].edge)

    def lanes(self) -> Iterable[Lane]:
        return self._lanes.values()

    def lights(self) -> Mapping[str, LightName]:
        numbers = {name: number for number, name in self.names.items()}
        found: dict[str, LightName] = {}
        for movement in self.movements:
            for name in (movement.lane, movement.via):
                for number in self._told.lanelets[numbers[name]].lights:
                    light = self._told.lights.get(number)
                    if light is not None and _governs(light.direction, movement.turn):
                        found.setdefault(movement.via, (str(number), 0))
        return found

    def _named(self) -> Iterator[tuple[int, str]]:
        lanelets, inside = self._told.lanelets, self._told.turns
        left_of = {
            each.right: number
            for number, each in lanelets.items()
            if each.right in lanelets
        }
        for number, lanelet in lanelets.items():
            if _CROSSWALK in lanelet.kinds:
                continue
            if number in inside:
                yield number, f":{inside[number][0]}_{number}_0"
                continue
            row = [number]
            while (right := lanelets[row[0]].right) is not None:
                if right not in lanelets or right in row:
                    break
                row.insert(0, right)
            while (left := left_of.get(row[-1])) is not None and left not in row:
                row.append(left)
            row = [n for n in row if n not in inside]
            yield number, f"{min(row)}_{row.index(number)}"

    def _lane(self, lanelet: Lanelet, name: str) -> Lane:
        edge, _, place = name.rpartition("_")
        inside = self._told.turns.get(lanelet.number)
        limits = [self._told.limits_kmh.get(number) for number in lanelet.signs]
        limit = lanelet.limit_kmh or next(filter(None, limits), _USUAL_LIMIT_KMH)
        return Lane(
            name, edge, int(place), length_of(lanelet.middle), lanelet.width,
            round(limit, 1), "" if inside is None else f":{inside[0]}",
            not lanelet.kinds & _OTHERS, tuple(self._links(lanelet)), lanelet.middle,
        )  # fmt: skip

    def _links(self, lanelet: Lanelet) -> Iterator[Link]:
        turns = self._told.turns
        for number in lanelet.after:
            if number not in self.names:
                continue
            via = self.names[number] if number in turns else ""
            to = self._behind(number)
            if to is not None:
                turn = turns[number][1] if via else Turn.FORWARD
                stops = bool(lanelet.signs & self._told.stops)
                yield Link(self.names[to], via, turn, stops and bool(via))

    def _behind(self, number: int) -> int | None:
        """The first lanelet from here on that is outside of intersections."""
        seen: set[int] = set()
        while number in self._told.turns:
            after = [n for n in self._told.lanelets[number].after if n in self.names]
            if number in seen or not after:
                return None
            seen.add(number)
            number = after[0]
        return number

    def _all_movements(self) -> Iterator[tuple[int, Movement]]:
        for number, name in self.names.items():
            lane, signs = self._lanes[name], self._told.lanelets[number].signs
            (ax, ay), (bx, by) = lane.shape[-2:]
            for link in () if lane.inside else lane.links:
                if link.via:
                    yield (
                        int(self._lanes[link.via].junction[1:]),
                        Movement(
                            name, link.via, link.to, link.turn,
                            math.atan2(by - ay, bx - ax), link.stops,
                            bool(signs & self._told.yields),
                        ),
                    )  # fmt: skip

    def _crosswalks(self) -> Iterator[tuple[Lane, int]]:
        """Those that lead over an intersection; elsewhere nobody has a line."""
        count: dict[int, int] = {}
        for lanelet in self._told.lanelets.values():
            if _CROSSWALK not in lanelet.kinds:
                continue
            ends = lanelet.middle[0], lanelet.middle[-1]
            for number, (node, _) in self._told.turns.items():
                if number not in self.names:
                    continue
                if crossing(self._lanes[self.names[number]].shape, ends) is not None:
                    place = count[node] = count.get(node, -1) + 1
                    edge = f":{node}_c{place}"
                    yield (
                        Lane(
                            f"{edge}_0", edge, 0, math.dist(*ends), lanelet.width, 0.0,
                            f":{node}", False, (), ends, is_crosswalk=True,
                        ),
                        node,
                    )  # fmt: skip
                    break


def _governs(direction: str, turn: Turn) -> bool:
    return direction == "all" or _SHOWS[turn] in direction.lower()
