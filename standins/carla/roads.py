"""Maps: their OpenDRIVE text, spawn points, speed limits and signals.

The OpenDRIVE text is parsed with the client's map library, so that server and client
agree on the lanes.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from forewarn import InvalidInput, MissingDependency
from forewarn.standins.carla.actors import Pose

try:
    import carla
except ImportError as error:
    raise MissingDependency("the stand-in for CARLA", "carla") from error

LARGEST: Final = 12 << 20
"""Maximum size of an OpenDRIVE document in bytes."""

_SPACING_M = 24
_MARGIN_M = 12


SIGNS = {"206": "traffic.stop", "205": "traffic.yield"}
"""CARLA's names for the traffic signs that become actors, by OpenDRIVE type."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A traffic light or traffic sign of the map.

    Args:
        name: The signal's name in the map.
        kind: The signal's type in OpenDRIVE.
        at: The pose of the signal, which faces the traffic that it applies to.
        lines: The pose of the stop line in each lane that the signal applies to.
    """

    name: str
    kind: str
    road: int
    junction: int
    at: Pose
    lines: tuple[Pose, ...]


TOWNS: Final = {
    "Town01": "tee", "Town02": "crossing", "Town03": "roundabout", "Town04": "highway",
    "Town05": "boulevard",
}  # fmt: skip
"""The name of the map that is used in place of each of CARLA's towns."""


class Roads:
    """One map.

    Args:
        name: The map's name, as clients see it.
        text: The OpenDRIVE text.
        net: The SUMO net of the same roads, if there is one.
    """

    def __init__(self, name: str, text: str, net: Path | None = None) -> None:
        self.name = name
        self.net = net
        self.text = prepared(text)
        try:
            self.map = carla.Map(name, self.text)
        except (RuntimeError, ValueError) as error:
            raise InvalidInput(
                f"CARLA's map library cannot read the map: {error}", source=name
            ) from error
        self._limits = _limits(self.text)
        self.spawn_points = _spawn_points(self.map, _loops(self.text))
        self.signals = tuple(_signals(self.map, TRAFFIC_LIGHT))
        self.signs = tuple(_signals(self.map, *SIGNS))

    def waypoint(self, x: float, y: float) -> Any:
        """Returns the nearest waypoint on a driving lane, from the client's map
        library.
        """
        return self.map.get_waypoint(carla.Location(x, y, 0.0))

    def limit_kmh(self, road: int, lane: int) -> float:
        return self._limits.get((road, lane), self._limits.get((road, 0), 50.0))

    def limit_at(self, x: float, y: float) -> float:
        """Returns the speed limit of the nearest lane in km/h."""
        point = self.waypoint(x, y)
        return 50.0 if point is None else self.limit_kmh(point.road_id, point.lane_id)

    def geolocation(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """Returns the latitude, longitude and altitude of a position."""
        found = self.map.transform_to_geolocation(carla.Location(x, y, z))
        return found.latitude, found.longitude, found.altitude


class Maps:
    """The maps that can be loaded.

    Args:
        shipped: The included OpenDRIVE files, by map name. A file `NAME.net.xml` in the
            same folder contains the SUMO net of the map.
    """

    def __init__(self, shipped: Mapping[str, Path]) -> None:
        self._shipped = shipped
        self.names = (*shipped, *TOWNS)

    def load(self, name: str) -> Roads:
        """Loads an included map by name, or any other map by the path of its file.

        SUMO traffic is available if the folder of `NAME.xodr` also contains
        `NAME.net.xml`.
        """
        bare = name.rpartition("/")[2]
        path = self._shipped.get(TOWNS.get(bare, bare))
        if path is None:
            path = Path(name)
            if path.suffix != ".xodr":
                raise InvalidInput(
                    f"there is no map {name!r:.80}",
                    mend=f"use {', '.join(self._shipped)}, or a path to an .xodr file",
                )
        text = text_of(path, LARGEST)
        net = path.with_name(f"{path.stem}.net.xml")
        return Roads(
            bare if bare in TOWNS else path.stem, text, net if net.is_file() else None
        )


def text_of(path: Path, limit: int) -> str:
    """Reads a text file.

    Raises:
        InvalidInput: The file cannot be read, is not UTF-8 text, or is larger than
            `limit` bytes.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(error.strerror or str(error), source=str(path)) from error
    except UnicodeDecodeError as error:
        raise InvalidInput("the file is not UTF-8 text", source=str(path)) from error
    if len(data) > limit:
        raise InvalidInput(f"the file is larger than {limit} bytes", source=str(path))
    return text


def _limits(text: str) -> dict[tuple[int, int], float]:
    """Returns the speed limits in km/h, by road and lane id; lane 0 applies to the
    whole road.
    """
    limits: dict[tuple[int, int], float] = {}
    for road in ET.fromstring(text).iter("road"):  # noqa: S314
        number = _integer(road.get("id"))
        for speed in road.findall("type/speed"):
            limits[number, 0] = _kmh(speed)
        for lane in road.iter("lane"):
            for speed in lane.findall("speed"):
                limits[number, _integer(lane.get("id"))] = _kmh(speed)
    return limits


def _integer(text: str | None) -> int:
    try:
        return int(text or "0")
    except ValueError:
        return 0


def _kmh(speed: ET.Element) -> float:
    try:
        value = float(speed.get("max", "13.89"))
    except ValueError:
        value = 13.89
    unit = speed.get("unit", "m/s")
    factor = {"mph": 1.609344, "km/h": 1.0}.get(unit, 3.6)
    return round(value * factor, 1)


def _pose(transform: Any) -> Pose:
    place, turn = transform.location, transform.rotation
    return place.x, place.y, place.z, turn.pitch, turn.yaw, turn.roll


def _loops(text: str) -> frozenset[int]:
    """Returns the ids of the roads that are turning loops at the edge of the map."""
    root = ET.fromstring(text)  # noqa: S314
    found = (road for road in root.iter("road") if road.get("name") == LOOP)
    return frozenset(_integer(road.get("id")) for road in found)


def _spawn_points(road_map: Any, loops: frozenset[int]) -> tuple[Pose, ...]:
    """Returns evenly spaced poses on each lane, away from junctions and the ends of
    roads.
    """
    lanes: dict[tuple[int, int, int], list[Any]] = {}
    for point in road_map.generate_waypoints(1.0):
        if not point.is_junction and point.road_id not in loops:
            key = point.road_id, point.section_id, point.lane_id
            lanes.setdefault(key, []).append(point)
    found: list[Pose] = []
    for key in sorted(lanes):
        points = sorted(lanes[key], key=lambda point: point.s)
        for point in points[_MARGIN_M : len(points) - _MARGIN_M : _SPACING_M]:
            x, y, z, pitch, yaw, roll = _pose(point.transform)
            found.append((x, y, z + 0.3, pitch, yaw, roll))
    return tuple(found)


def _signals(road_map: Any, *kinds: str) -> list[Signal]:
    """Returns the signals of the given OpenDRIVE types that have stop lines."""
    found: dict[str, Signal] = {}
    marks = (
        each for kind in kinds for each in road_map.get_all_landmarks_of_type(kind)
    )
    for mark in marks:
        if mark.id in found:
            continue
        lines = tuple(_lines(road_map, mark))
        if not lines:
            continue
        ahead = road_map.get_waypoint_xodr(mark.road_id, *_lane_and_s(mark))
        junction = -1
        for onward in () if ahead is None else ahead.next(4.0):
            if onward.is_junction:
                junction = onward.junction_id
        found[mark.id] = Signal(
            mark.id, mark.type, mark.road_id, junction, _pose(mark.transform), lines
        )
    return [found[name] for name in sorted(found, key=_natural)]


def _natural(name: str) -> list[tuple[int, str]]:
    return [(int(part or 0), "") if part.isdigit() else (0, part)
            for part in re.split(r"(\d+)", name)]  # fmt: skip


def _lanes(mark: Any) -> Sequence[int]:
    positive = str(mark.orientation) == "Positive"
    lanes: list[int] = []
    for first, last in mark.get_lane_validities():
        for lane in range(min(first, last), max(first, last) + 1):
            if lane and (lane < 0) == positive:
                lanes.append(lane)
    return lanes


def _lane_and_s(mark: Any) -> tuple[int, float]:
    lanes = _lanes(mark)
    return (lanes[0] if lanes else -1), max(0.01, mark.s - 0.01)


def _lines(road_map: Any, mark: Any) -> list[Pose]:
    lines: list[Pose] = []
    for lane in _lanes(mark):
        point = road_map.get_waypoint_xodr(mark.road_id, lane, max(0.01, mark.s - 0.01))
        if point is not None:
            lines.append(_pose(point.transform))
    return lines


TRAFFIC_LIGHT: Final = "1000001"
LOOP: Final = "turning loop"
"""The name of the roads that are turning loops at the edge of the included maps."""

_ARROWS: Final = frozenset({"1000002", "1000009", "1000010", "1000011"})
_REFERENCE: Final = (
    "+proj=tmerc +lat_0=49 +lon_0=8 +k=1 +x_0=0 +y_0=0 +datum=WGS84 +units=m +no_defs"
)
_HAIR_M = 5e-4


def prepared(text: str) -> str:
    """Adapts an OpenDRIVE document so that the stand-in can serve it.

    Raises:
        InvalidInput: The text is not a valid OpenDRIVE document.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise InvalidInput(
            "an OpenDRIVE map must not declare document types or entities"
        )
    try:
        root = ET.fromstring(text)  # noqa: S314  without document types it is harmless
        if root.tag != "OpenDRIVE":
            raise InvalidInput(
                "the map is not an OpenDRIVE document: its root element is "
                f"<{root.tag:.40}>"
            )
        _refer(root)
        for signal in root.iter("signal"):
            if signal.get("type") in _ARROWS:
                signal.set("type", TRAFFIC_LIGHT)
        _name_controllers(root)
        for road in root.iter("road"):
            _shorten(road)
    except (ET.ParseError, ValueError, TypeError) as error:
        raise InvalidInput(
            f"the map is not a valid OpenDRIVE document: {error}"
        ) from error
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _refer(root: ET.Element) -> None:
    header = root.find("header")
    if header is None:
        raise InvalidInput("the OpenDRIVE map has no header")
    found = header.find("geoReference")
    if found is None:
        found = ET.SubElement(header, "geoReference")
    if not (found.text or "").strip():
        found.text = _REFERENCE


def _name_controllers(root: ET.Element) -> None:
    """Adds the missing references from junctions to the controllers of their lights."""
    known = {controller.get("id") for controller in root.findall("controller")}
    for junction in root.findall("junction"):
        if junction.get("name") in known and junction.find("controller") is None:
            ET.SubElement(junction, "controller", id=junction.get("name", ""), type="0")


def _shorten(road: ET.Element) -> None:
    """Shortens a road slightly, so that it ends before its lanes do.

    The client's `next_until_lane_end` fails if a step ends exactly at the end of the
    road, as on roads whose length is a whole number of metres.
    """
    length = float(road.get("length", "0"))
    road.set("length", f"{max(_HAIR_M, length - _HAIR_M):.6f}")
