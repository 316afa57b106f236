"""Converts CARLA's map to a road network with links, right of way and traffic lights.

Adjacent lanes form an edge, and are numbered from the right. A lane outside junctions
is named like `12.0_1` (road, section, number), and a lane inside a junction like
`:7_69.0_0` (junction, road, section, number). A crosswalk is named like `:7_c0_0`.
CARLA's y axis points to the right. The y axis of the road network points to the left,
as in mathematics.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

from forewarn.abstractions.errors import InvalidInput
from forewarn.plugins.driving.places import SIDEWAYS, Junctions, Movement, exits
from forewarn.plugins.driving.roads import (
    Lane,
    LightName,
    Link,
    LinkDirection,
    Point,
    crossing,
    heading_of,
    length_of,
)

_STEP_M, _FAR_M, _ENDS_M = 1.0, 50.0, 0.001
_STRAIGHT_M = 0.02  # tolerance of a simplified lane
_STRAIGHT_ON, _TURNED_ROUND = 55.0, 150.0


class Key(NamedTuple):
    road: int
    section: int
    lane: int


def topology(road_map: Any) -> tuple[dict[Key, Any], dict[Key, list[Key]]]:
    """Returns the first waypoint of each lane, and the successors of each lane."""
    first: dict[Key, Any] = {}
    after: dict[Key, list[Key]] = {}
    for start, end in road_map.get_topology():
        keys = []
        for waypoint in (start, end):
            key = Key(waypoint.road_id, waypoint.section_id, waypoint.lane_id)
            first.setdefault(key, waypoint)
            keys.append(key)
        if keys[0] != keys[1]:
            after.setdefault(keys[0], []).append(keys[1])
    # CARLA's topology omits roads without predecessors and successors.
    lonely: dict[Key, Any] = {}
    for waypoint in road_map.generate_waypoints(_FAR_M):
        key = Key(waypoint.road_id, waypoint.section_id, waypoint.lane_id)
        if key not in first:
            known = lonely.setdefault(key, waypoint)
            if (waypoint.s < known.s) == (key.lane < 0):
                lonely[key] = waypoint
    return first | lonely, after


def lane_names(first: Mapping[Key, Any]) -> dict[Key, str]:
    edges: dict[tuple[int, int, bool], list[Key]] = {}
    for key in first:
        edges.setdefault((key.road, key.section, key.lane > 0), []).append(key)
    names: dict[Key, str] = {}
    for (road, section, backwards), keys in edges.items():
        inside = first[keys[0]]
        edge = f"{road}.{section}" + ("r" if backwards else "")
        if inside.is_junction:
            edge = f":{inside.junction_id}_{edge}"
        for number, key in enumerate(sorted(keys, key=lambda k: -abs(k.lane))):
            names[key] = f"{edge}_{number}"
    return names


def shape_of(road_map: Any, start: Any) -> tuple[Point, ...]:
    """Returns the centre line of a lane from start to end.

    The map is queried point by point, because CARLA's functions for following a lane
    crash at dead ends.
    """
    key = Key(start.road_id, start.section_id, start.lane_id)
    onward = 1.0 if key.lane < 0 else -1.0

    def at(s: float) -> Point | None:
        found = road_map.get_waypoint_xodr(key.road, key.lane, s) if s >= 0.0 else None
        if found is None or found.section_id != key.section:
            return None
        place = found.transform.location
        return place.x, -place.y

    s = start.s
    place = start.transform.location
    points: list[Point] = [(place.x, -place.y)]
    step = _STEP_M
    while step > _ENDS_M:
        point = at(s + onward * step)
        if point is None:
            step /= 2.0
            continue
        s += onward * step
        points.append(point)
    if len(points) == 1:
        yaw = math.radians(start.transform.rotation.yaw)
        x, y = points[0]
        points.append((x + 0.1 * math.cos(yaw), y - 0.1 * math.sin(yaw)))
    return tuple(_simplified(points))


def _simplified(points: Sequence[Point]) -> list[Point]:
    """Reduces the number of points of a line, within a tolerance."""
    if len(points) < 3:
        return list(points)
    (ax, ay), (bx, by) = points[0], points[-1]
    length = math.hypot(bx - ax, by - ay)
    off, at = 0.0, 0
    for i, (x, y) in enumerate(points[1:-1], 1):
        if length > 0.0:
            away = abs((bx - ax) * (y - ay) - (by - ay) * (x - ax)) / length
        else:
            away = math.hypot(x - ax, y - ay)
        if away > off:
            off, at = away, i
    if off <= _STRAIGHT_M:
        return [points[0], points[-1]]
    return _simplified(points[: at + 1])[:-1] + _simplified(points[at:])


def limits_of(text: str) -> dict[tuple[int, int], float]:
    """Returns the speed limits of lanes in km/h, by road and lane."""
    limits: dict[tuple[int, int], float] = {}
    for road in ET.fromstring(text).iter("road"):  # noqa: S314  entities are off in expat
        everywhere = next((_kmh(s) for s in road.findall("type/speed")), None)
        for lane in road.iter("lane"):
            own = next((_kmh(speed) for speed in lane.findall("speed")), everywhere)
            if own is not None:
                limits[int(road.get("id", "0")), int(lane.get("id", "0"))] = own
    return limits


def _kmh(speed: ET.Element) -> float | None:
    try:
        most = float(speed.get("max", ""))
    except ValueError:
        return None
    factor = {"km/h": 1.0, "mph": 1.609344}.get(speed.get("unit", "m/s"), 3.6)
    return round(most * factor, 1)


def outlines(road_map: Any) -> Iterator[list[Point]]:
    """Yields the outlines of the crosswalks.

    CARLA lists their corners in sequence: an outline ends when it is closed or has four
    corners.
    """
    outline: list[Point] = []
    for at in road_map.get_crosswalks():
        point = at.x, -at.y
        if len(outline) >= 3 and math.dist(outline[0], point) < 1e-3:
            yield outline
            outline = []
        elif len(outline) == 4:
            yield outline
            outline = [point]
        else:
            outline.append(point)
    if len(outline) >= 3:
        yield outline


def axis_of(outline: Sequence[Point]) -> tuple[tuple[Point, Point], float]:
    """Returns the axis along which pedestrians cross, and the crosswalk's width."""
    a, b, c = outline[:3]
    d = outline[3] if len(outline) > 3 else c
    if math.dist(a, b) > math.dist(b, c):
        a, b, c, d = b, c, d, a
    ends = (
        ((a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0),
        ((c[0] + d[0]) / 2.0, (c[1] + d[1]) / 2.0),
    )
    return ends, math.dist(a, b)


def turn_of(before: Sequence[Point], behind: Sequence[Point]) -> LinkDirection:
    turned = heading_of(behind[:2]) - heading_of(before[-2:])
    turned = (math.degrees(turned) + 180.0) % 360.0 - 180.0
    if abs(turned) < _STRAIGHT_ON:
        return LinkDirection.FORWARD
    if abs(turned) > _TURNED_ROUND:
        return LinkDirection.U_TURN
    return LinkDirection.LEFT if turned > 0.0 else LinkDirection.RIGHT


LONGEST_TEXT = 64 << 20
"""The maximum length of an OpenDRIVE text in characters."""

_LIGHTS = frozenset({"1000001", "1000002", "1000009", "1000010", "1000011"})
_STOP, _YIELD = "206", "205"
_ARROWS = {
    "10": LinkDirection.LEFT,
    "20": LinkDirection.RIGHT,
    "30": LinkDirection.FORWARD,
}
_DEEPEST = 8  # maximum number of consecutive lanes of a path through a junction
_USUAL_LIMIT_KMH = 50.0


@dataclass(frozen=True, slots=True)
class _Movement(Movement):
    """A path through a junction, with the facts that decide right of way without signs.

    Args:
        inner: The lanes of the path inside the junction.
        beside: The number of lanes of the road before the junction.
        straight: Whether the lane continues straight through the junction.
        lit: Whether a traffic light governs the path.
    """

    inner: tuple[str, ...]
    beside: int
    straight: bool
    lit: bool

    def unsigned(self, other: Self, turned: float) -> bool:
        if self.lit and abs(turned) > SIDEWAYS:
            return True  # a vehicle that crosses at red must give way
        if self.straight != other.straight:
            return self.straight  # the road of the other movement ends at the junction
        if (self.turn is LinkDirection.FORWARD) != (
            other.turn is LinkDirection.FORWARD
        ):
            return self.turn is LinkDirection.FORWARD
        if abs(turned) < SIDEWAYS:
            return self.beside > other.beside  # at a merge, the wider road goes first
        return turned > 0.0  # priority to the right


class CarlaNet(Junctions[_Movement]):
    """The lanes, links and traffic lights of a CARLA map.

    Args:
        road_map: A `carla.Map`.
    """

    def __init__(self, road_map: Any) -> None:
        text: str = road_map.to_opendrive()
        if len(text) > LONGEST_TEXT:
            raise InvalidInput(
                f"the OpenDRIVE text of the map exceeds {LONGEST_TEXT} characters"
            )
        self._map, self._limits = road_map, limits_of(text)
        first, after = topology(road_map)
        self._names = lane_names(first)
        self._lanes = {self._names[key]: self._lane(key, first[key]) for key in first}
        onward = {
            self._names[key]: [self._names[each] for each in keys]
            for key, keys in after.items()
        }
        self._lanes |= {n: self._linked(e, onward) for n, e in self._lanes.items()}
        self._signals = _Signals(road_map)
        self._keys = {name: key for key, name in self._names.items()}
        movements = list(self._all_movements())
        self._cross(road_map)
        super().__init__(self._lanes, movements)

    # -- methods of a `Net` -----------------------------------------------------------

    def lights(self) -> Mapping[str, LightName]:
        found: dict[str, LightName] = {}
        for movement in self.movements:
            for name in (movement.lane, *movement.inner):
                light = self._signals.light(self._keys[name], movement.turn)
                if light:
                    found.setdefault(movement.via, (light, 0))
        return found

    # -- lanes and links --------------------------------------------------------------

    def _lane(self, key: Key, start: Any) -> Lane:
        name = self._names[key]
        edge, _, number = name.rpartition("_")
        shape = shape_of(self._map, start)
        limit = self._limits.get((key.road, key.lane), _USUAL_LIMIT_KMH)
        return Lane(
            name, edge, int(number), length_of(shape), start.lane_width, limit,
            f":{start.junction_id}" if start.is_junction else "", True, (), shape,
        )  # fmt: skip

    def _linked(self, lane: Lane, after: Mapping[str, Sequence[str]]) -> Lane:
        """Adds the links from a lane, which lead through junctions as in SUMO nets."""
        lanes, links = self._lanes, []
        for onward, to in exits(
            lane.name, lambda n: after.get(n, ()), lambda n: lanes[n].inside
        ):
            if lanes[onward].inside:
                turn = turn_of(lane.shape, lanes[to].shape)
                links.append(Link(to, onward, turn))
            else:
                links.append(Link(to, "", LinkDirection.FORWARD))
        return replace(lane, links=tuple(links))

    def _all_movements(self) -> Iterator[_Movement]:
        stops: set[str] = set()
        for lane in self._lanes.values():
            straight = any(link.turn is LinkDirection.FORWARD for link in lane.links)
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
                yield _Movement(
                    lane.name, link.via, link.to, link.turn,
                    heading_of(lane.shape[-2:]),
                    _STOP in signs, _YIELD in signs, inner, beside, straight,
                    any(
                        self._signals.light(self._keys[n], link.turn)
                        for n in (lane.name, *inner)
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
        count: dict[str, int] = {}
        for outline in outlines(road_map):
            axis, width = axis_of(outline)
            met = (n.junction for n in inside if crossing(n.shape, axis) is not None)
            junction = next(met, None)
            if junction is None:
                continue  # a crosswalk between junctions has no stop line
            number = count[junction] = count.get(junction, -1) + 1
            edge = f"{junction}_c{number}"
            self._lanes[f"{edge}_0"] = Lane(
                f"{edge}_0", edge, 0, math.dist(*axis), width, 0.0, junction, False, (),
                axis, is_crosswalk=True,
            )  # fmt: skip


class _Signals:
    """Traffic lights and signs by the lane to which they apply."""

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

    def light(self, key: Key, turn: LinkDirection) -> str:
        """Returns the traffic light for a turn from this lane; empty if none."""
        found = {
            _ARROWS.get(arrow): name
            for kind, arrow, name in self._of(key)
            if kind in _LIGHTS
        }
        return found.get(turn) or found.get(None) or next(iter(found.values()), "")

    def signs(self, keys: Iterable[Key]) -> set[str]:
        return {kind for key in keys for kind, _, _ in self._of(key)} - _LIGHTS
