"""CARLA's map as the senses read roads: lanes, links, who goes first, which light.

Lanes that lie side by side make an edge, counted from the right. Outside of junctions a
lane is called `12.0_1` (road, section, number); inside one `:7_69.0_0` (junction, road,
section, number), and a crosswalk `:7_c0_0`. CARLA's y points right; here it points
left, as on paper.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.carla.maps.lanes import (
    Key,
    axis_of,
    heading_of,
    lane_names,
    limits_of,
    outlines,
    shape_of,
    topology,
    turn_of,
)
from forewarn.plugins.driving.roads.junctions import SIDEWAYS, Junctions, Movement
from forewarn.plugins.driving.roads.lanes import Lane, LightName, Link, Turn
from forewarn.plugins.driving.roads.lines import crossing

LONGEST_TEXT = 64 << 20
"""Characters of an OpenDRIVE text."""

_LIGHTS = frozenset({"1000001", "1000002", "1000009", "1000010", "1000011"})
_STOP, _YIELD = "206", "205"
_ARROWS = {"10": Turn.LEFT, "20": Turn.RIGHT, "30": Turn.FORWARD}
_DEEPEST = 8  # so many lanes one after another may a way through a junction have
_USUAL_LIMIT_KMH = 50.0


@dataclass(frozen=True, slots=True)
class _Movement(Movement):
    """A way through a junction, with what tells who goes first where no sign does.

    Args:
        inner: All lanes inside.
        beside: How many lanes the road has.
        straight: Whether the lane goes on straight behind the junction.
        lit: Whether a light governs it.
    """

    inner: tuple[str, ...]
    beside: int
    straight: bool
    lit: bool

    def unsigned(self, other: Self, turned: float) -> bool:
        if self.lit and abs(turned) > SIDEWAYS:
            return True  # either crosses at red, and whoever does goes last
        if self.straight != other.straight:
            return self.straight  # the other's road ends here
        if (self.turn is Turn.FORWARD) != (other.turn is Turn.FORWARD):
            return self.turn is Turn.FORWARD
        if abs(turned) < SIDEWAYS:
            return self.beside > other.beside  # merging: the wider road goes on
        return turned > 0.0  # who comes from the right


class CarlaNet(Junctions[int, _Movement]):
    """The roads of a CARLA map.

    Args:
        road_map: A `carla.Map`.
    """

    def __init__(self, road_map: Any) -> None:
        text: str = road_map.to_opendrive()
        if len(text) > LONGEST_TEXT:
            raise InvalidInput("the OpenDRIVE text of the map is too long")
        self._map, self._limits = road_map, limits_of(text)
        first, after = topology(road_map)
        self._names = lane_names(first)
        self._junction: dict[str, int] = {
            self._names[key]: w.junction_id for key, w in first.items() if w.is_junction
        }
        self._lanes = {
            self._names[key]: self._lane(key, first[key], after.get(key, ()))
            for key in first
        }
        self._link()
        self._signals = _Signals(road_map)
        self._keys = {name: key for key, name in self._names.items()}
        movements = list(self._all_movements())
        self._cross(road_map)
        inside = {n: (j, self._lanes[n].shape) for n, j in self._junction.items()}
        super().__init__(inside, movements, lambda lane: self._lanes[lane].edge)

    # -- as the roads ask -------------------------------------------------------------

    def lanes(self) -> Iterable[Lane]:
        return self._lanes.values()

    def lights(self) -> Mapping[str, LightName]:
        found: dict[str, LightName] = {}
        for movement in self.movements:
            for name in (movement.lane, *movement.inner):
                light = self._signals.light(self._keys[name], movement.turn)
                if light:
                    found.setdefault(movement.via, (light, 0))
        return found

    # -- lanes and links --------------------------------------------------------------

    def _lane(self, key: Key, start: Any, after: Sequence[Key]) -> Lane:
        name = self._names[key]
        edge, _, number = name.rpartition("_")
        shape = shape_of(self._map, start)
        length = sum(math.dist(a, b) for a, b in zip(shape, shape[1:], strict=False))
        links = tuple(Link(self._names[n], "", Turn.FORWARD) for n in after)
        limit = self._limits.get((key.road, key.lane), _USUAL_LIMIT_KMH)
        return Lane(
            name, edge, int(number), length, start.lane_width, limit,
            f":{start.junction_id}" if start.is_junction else "", True, links, shape,
        )  # fmt: skip

    def _link(self) -> None:
        """Makes links lead through junctions, as those of SUMO's nets do."""
        lanes = self._lanes
        linked: dict[str, tuple[Link, ...]] = {}
        for name, lane in lanes.items():
            links: list[Link] = []
            for link in lane.links:
                to = self._exit(link.to)
                if to is None:
                    continue
                via = link.to if lanes[link.to].inside else ""
                turn = turn_of(lane.shape, lanes[to].shape) if via else Turn.FORWARD
                links.append(Link(to, via, turn))
            linked[name] = tuple(links)
        for name, found in linked.items():
            lanes[name] = replace(lanes[name], links=found)

    def _exit(self, name: str) -> str | None:
        """The lane behind the junction that one inside it leads to."""
        for _ in range(_DEEPEST):
            lane = self._lanes[name]
            if not lane.inside:
                return name
            if not lane.links:
                return None
            name = lane.links[0].to if lane.links[0].via == "" else lane.links[0].via
        return None

    def _all_movements(self) -> Iterator[tuple[int, _Movement]]:
        stops: set[str] = set()
        for lane in self._lanes.values():
            straight = any(link.turn is Turn.FORWARD for link in lane.links)
            beside = sum(
                other.edge == lane.edge and not other.inside
                for other in self._lanes.values()
            )
            for link in () if lane.inside else lane.links:
                if not link.via:
                    continue
                inner = tuple(self._onward(link.via))
                signs = self._signals.signs(self._keys[n] for n in (lane.name, *inner))
                if _STOP in signs:
                    stops.add(lane.name)
                yield (
                    self._junction[link.via],
                    _Movement(
                        lane.name, link.via, link.to, link.turn,
                        math.radians(heading_of(lane.shape[-2:])),
                        _STOP in signs, _YIELD in signs, inner, beside, straight,
                        any(
                            self._signals.light(self._keys[n], link.turn)
                            for n in (lane.name, *inner)
                        ),
                    ),
                )  # fmt: skip
        for name in stops:
            lane = self._lanes[name]
            signed = tuple(link._replace(stops=True) for link in lane.links)
            self._lanes[name] = replace(lane, links=signed)

    def _onward(self, via: str) -> Iterator[str]:
        for _ in range(_DEEPEST):
            yield via
            via = next((link.via for link in self._lanes[via].links), "")
            if not via:
                return

    # -- crosswalks -------------------------------------------------------------------

    def _cross(self, road_map: Any) -> None:
        inside = [lane for lane in self._lanes.values() if lane.inside]
        count: dict[int, int] = {}
        for outline in outlines(road_map):
            axis, width = axis_of(outline)
            node = next(
                (
                    self._junction[lane.name]
                    for lane in inside
                    if crossing(lane.shape, axis) is not None
                ),
                None,
            )
            if node is None:
                continue  # between junctions: nobody has a line there
            number = count[node] = count.get(node, -1) + 1
            name = f":{node}_c{number}_0"
            self._junction[name] = node
            self._lanes[name] = Lane(
                name,
                name[:-2],
                0,
                math.dist(*axis),
                width,
                0.0,
                f":{node}",
                False,
                (),
                axis,
                is_crosswalk=True,
            )


class _Signals:
    """Lights and signs, by the lane that they are for."""

    def __init__(self, road_map: Any) -> None:
        self._on: dict[int, list[tuple[str, str, str, list[tuple[int, int]]]]] = {}
        for mark in road_map.get_all_landmarks():
            if mark.type in _LIGHTS or mark.type in (_STOP, _YIELD):
                valid = [tuple(pair) for pair in mark.get_lane_validities()]
                self._on.setdefault(mark.road_id, []).append(
                    (mark.type, mark.sub_type, mark.id, valid)
                )

    def _of(self, key: Key) -> Iterator[tuple[str, str, str]]:
        for kind, arrow, name, valid in self._on.get(key.road, ()):
            if not valid or any(low <= key.lane <= high for low, high in valid):
                yield kind, arrow, name

    def light(self, key: Key, turn: Turn) -> str:
        """The light that governs a way from or on this lane; empty for none."""
        found = {
            _ARROWS.get(arrow): name
            for kind, arrow, name in self._of(key)
            if kind in _LIGHTS
        }
        return found.get(turn) or found.get(None) or next(iter(found.values()), "")

    def signs(self, keys: Iterable[Key]) -> set[str]:
        return {kind for key in keys for kind, _, _ in self._of(key)} - _LIGHTS
