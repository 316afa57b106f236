"""What CARLA's map library and the OpenDRIVE text tell of lanes and crosswalks.

CARLA's y points right; here it points left, as on paper.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from forewarn.plugins.driving.roads.lanes import Turn
from forewarn.plugins.driving.roads.lines import Point

_STEP_M, _FAR_M, _ENDS_M = 1.0, 50.0, 0.001
_STRAIGHT_M = 0.02  # a lane's middle is told no more exactly
_STRAIGHT_ON, _TURNED_ROUND = 55.0, 150.0


class Key(NamedTuple):
    road: int
    section: int
    lane: int


def topology(road_map: Any) -> tuple[dict[Key, Any], dict[Key, list[Key]]]:
    """Where each lane begins, and to which ones it leads."""
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
    # Roads that lead nowhere and come from nowhere are not in the topology.
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
    """A lane's middle, from where it begins to its end.

    It is asked for place by place: the client's own ways to go along a lane crash
    where a road leads nowhere.
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
    """The same line with fewer points, nowhere further off than so much."""
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
    """The speed limit of each lane that has one, in km/h."""
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
    """The outlines of the crosswalks; each ends where it began, or has four corners."""
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
    """The line along which people cross, and the crosswalk's width."""
    a, b, c = outline[:3]
    d = outline[3] if len(outline) > 3 else c
    if math.dist(a, b) > math.dist(b, c):
        a, b, c, d = b, c, d, a
    ends = (
        ((a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0),
        ((c[0] + d[0]) / 2.0, (c[1] + d[1]) / 2.0),
    )
    return ends, math.dist(a, b)


def heading_of(line: Sequence[Point]) -> float:
    (ax, ay), (bx, by) = line[0], line[-1]
    return math.degrees(math.atan2(by - ay, bx - ax))


def turn_of(before: Sequence[Point], behind: Sequence[Point]) -> Turn:
    turned = (heading_of(behind[:2]) - heading_of(before[-2:]) + 180.0) % 360.0 - 180.0
    if abs(turned) < _STRAIGHT_ON:
        return Turn.FORWARD
    if abs(turned) > _TURNED_ROUND:
        return Turn.U_TURN
    return Turn.LEFT if turned > 0.0 else Turn.RIGHT
