"""Closes an OpenDRIVE map with turning loops, so that cars can go on at its edge."""

from __future__ import annotations

import copy
import math
import xml.etree.ElementTree as ET
from typing import NamedTuple

from forewarn.standins.carla.roads import LOOP

_MEET_M = 0.5
_ROOM_M = 6.0
_HALF = math.pi


class End(NamedTuple):
    """The start or end of a road, and the road's direction at that point."""

    road: ET.Element
    x: float
    y: float
    heading: float


def closed(text: str) -> str:
    """Returns the text of a map with turning loops."""
    root = ET.fromstring(text)  # noqa: S314  ours
    _close(root)
    found = ET.tostring(root, encoding="unicode", xml_declaration=True)
    return found.replace(" />", "/>")


def _close(root: ET.Element) -> None:
    """Adds a turning loop from each road that leaves the map to the road that enters it
    at the same place.
    """
    roads = root.findall("road")
    _forget_empty_junctions(root, roads)
    ends = [end for road in roads if (end := _end(road)) is not None]
    starts = [start for road in roads if (start := _start(road)) is not None]
    number = max((int(road.get("id", "0")) for road in roads), default=0) + 1000
    place = list(root).index(roads[-1]) + 1 if roads else 0
    for end in ends:
        for start in starts:
            if _fit(end, start):
                root.insert(place, _loop(end, start, number))
                starts.remove(start)
                number += 1
                break


def _forget_empty_junctions(root: ET.Element, roads: list[ET.Element]) -> None:
    """Removes the links to junctions that have no connections; some maps contain such
    links.
    """
    real = {
        junction.get("id")
        for junction in root.findall("junction")
        if junction.find("connection") is not None
    }
    for road in roads:
        link = road.find("link")
        for neighbour in [] if link is None else list(link):
            junction = neighbour.get("elementType") == "junction"
            if junction and neighbour.get("elementId") not in real:
                link.remove(neighbour)  # type: ignore[union-attr]


def _start(road: ET.Element) -> End | None:
    if road.get("junction") != "-1" or road.find("link/predecessor") is not None:
        return None
    first = road.find("planView/geometry")
    if first is None or _right_lanes(road, 0) is None:
        return None
    return End(road, *(float(first.get(key, "0")) for key in ("x", "y", "hdg")))


def _end(road: ET.Element) -> End | None:
    if road.get("junction") != "-1" or road.find("link/successor") is not None:
        return None
    last = road.findall("planView/geometry")[-1:]
    if not last or last[0].find("line") is None or _right_lanes(road, -1) is None:
        return None
    x, y, heading, length = (
        float(last[0].get(key, "0")) for key in ("x", "y", "hdg", "length")
    )
    x += length * math.cos(heading)
    y += length * math.sin(heading)
    return End(road, x, y, heading)


def _right_lanes(road: ET.Element, index: int) -> ET.Element | None:
    """Returns the lane section with this index if all its lanes are on the right side,
    otherwise None.
    """
    sections = road.findall("lanes/laneSection")
    if not sections or sections[index].find("left/lane") is not None:
        return None
    return sections[index] if sections[index].find("right/lane") is not None else None


def _fit(end: End, start: End) -> bool:
    if math.dist((end.x, end.y), (start.x, start.y)) > _MEET_M:
        return False
    turned = (start.heading - end.heading) % (2 * _HALF)
    return abs(turned - _HALF) < 0.1 and _widths(end.road, -1) == _widths(start.road, 0)


def _widths(road: ET.Element, index: int) -> list[tuple[str, str, float]]:
    section = _right_lanes(road, index)
    if section is None:
        return []
    return [
        (lane.get("id", ""), lane.get("type", ""), float(lane.find("width").get("a")))  # type: ignore[union-attr, arg-type]
        for lane in section.findall("right/lane")
    ]


def _loop(end: End, start: End, number: int) -> ET.Element:
    """Returns a drop-shaped road that bears right, loops around to the left, and bears
    right again.
    """
    widths = _widths(end.road, -1)
    radius = sum(width for _, _, width in widths) + _ROOM_M
    bend = math.acos(0.5)
    road = ET.Element("road", name=LOOP, id=str(number), junction="-1")
    link = ET.SubElement(road, "link")
    for way, other, contact in (
        ("predecessor", end.road, "end"), ("successor", start.road, "start"),
    ):  # fmt: skip
        ET.SubElement(
            link, way, elementType="road", elementId=other.get("id", ""),
            contactPoint=contact,
        )  # fmt: skip
    for other, way, contact in (
        (end.road, "successor", "start"), (start.road, "predecessor", "end"),
    ):  # fmt: skip
        _link(other, way, number, contact)
    plan = ET.SubElement(road, "planView")
    x, y, heading, at = end.x, end.y, end.heading, 0.0
    for turn in (-bend, _HALF + 2.0 * bend, -bend):
        curvature = math.copysign(1.0 / radius, turn)
        length = abs(turn) * radius
        piece = ET.SubElement(
            plan, "geometry", s=f"{at:.8f}", x=f"{x:.8f}", y=f"{y:.8f}",
            hdg=f"{heading:.8f}", length=f"{length:.8f}",
        )  # fmt: skip
        ET.SubElement(piece, "arc", curvature=f"{curvature:.8f}")
        x += (math.sin(heading + turn) - math.sin(heading)) / curvature
        y -= (math.cos(heading + turn) - math.cos(heading)) / curvature
        heading += turn
        at += length
    road.set("length", f"{at:.8f}")
    profile = ET.SubElement(road, "elevationProfile")
    ET.SubElement(profile, "elevation", s="0", a="0", b="0", c="0", d="0")
    ET.SubElement(road, "lateralProfile")
    lanes = ET.SubElement(road, "lanes")
    section = copy.deepcopy(_right_lanes(end.road, -1))
    assert section is not None
    section.set("s", "0")
    lanes.append(section)
    for lane in section.findall("right/lane"):
        _link_lane(lane, "predecessor")
        _link_lane(lane, "successor")
    for other, index, way in ((end.road, -1, "successor"),
                              (start.road, 0, "predecessor")):  # fmt: skip
        for lane in _right_lanes(other, index).findall("right/lane"):  # type: ignore[union-attr]
            _link_lane(lane, way)
    ET.SubElement(road, "objects")
    ET.SubElement(road, "signals")
    return road


def _link(road: ET.Element, way: str, number: int, contact: str) -> None:
    link = road.find("link")
    if link is None:
        link = ET.Element("link")
        road.insert(0, link)
    made = ET.Element(
        way, elementType="road", elementId=str(number), contactPoint=contact
    )
    link.insert(0 if way == "predecessor" else len(link), made)


def _link_lane(lane: ET.Element, way: str) -> None:
    link = lane.find("link")
    if link is None:
        link = ET.Element("link")
        lane.insert(0, link)
    for old in link.findall(way):
        link.remove(old)
    link.insert(
        0 if way == "predecessor" else len(link), ET.Element(way, id=lane.get("id", ""))
    )
