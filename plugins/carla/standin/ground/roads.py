"""The map as the server needs it: its text, spawn points, limits and signals.

The client's own map library reads the OpenDRIVE text, so that server and client mean
the same by a lane.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from forewarn.abstractions.errors import InvalidInput, MissingDependency, near_miss
from forewarn.abstractions.files import read_text
from forewarn.plugins.carla.standin.encoding import Pose
from forewarn.plugins.carla.standin.ground.opendrive import (
    LOOP,
    TRAFFIC_LIGHT,
    prepared,
)
from forewarn.plugins.sumo.support import MAPS

LARGEST: Final = 12 << 20
"""Bytes of an OpenDRIVE text."""

_SPACING_M = 24
_MARGIN_M = 12


SIGNS = {"206": "traffic.stop", "205": "traffic.yield"}
"""What CARLA calls the signs that have an actor, by their types in OpenDRIVE."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A light or a sign of the map.

    Args:
        name: The map's own.
        kind: Its type in OpenDRIVE.
        at: Where it hangs, facing against those who come.
        lines: Where the stop line crosses each lane that it is for.
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
"""Which map answers to the name of one of CARLA's towns: one of the same kind."""


def shipped() -> dict[str, Path]:
    """The maps that ship, by name."""
    return {path.stem: path for path in sorted(MAPS.glob("*.xodr"))}


class Roads:
    """One map.

    Args:
        name: What clients see.
        text: OpenDRIVE.
        net: The SUMO net of the same roads, if there is one.
    """

    def __init__(self, name: str, text: str, net: Path | None = None) -> None:
        self.name = name
        self.net = net
        self.text = prepared(text)
        carla = _carla()
        try:
            self.map = carla.Map(name, self.text)
        except (RuntimeError, ValueError) as error:
            raise InvalidInput(
                f"CARLA's map library cannot read the map: {error}", source=name
            ) from error
        self._carla = carla
        self._limits = _limits(self.text)
        self.spawn_points = _spawn_points(self.map, _loops(self.text))
        self.signals = tuple(_signals(self.map, TRAFFIC_LIGHT))
        self.signs = tuple(_signals(self.map, *SIGNS))

    @cached_property
    def mesh(self) -> bytes:
        """Where pedestrians can walk; empty if nowhere."""
        from forewarn.plugins.carla.standin.ground import navigation

        return navigation.mesh(self)

    @property
    def mesh_name(self) -> str:
        """The name of the mesh's file, another for another content: clients keep it."""
        return f"forewarn/{zlib.crc32(self.mesh):08x}/{self.name}.bin"

    def waypoint(self, x: float, y: float) -> Any:
        """The nearest place on a lane for cars, as the client's library has it."""
        return self.map.get_waypoint(self._carla.Location(x, y, 0.0))

    def limit_kmh(self, road: int, lane: int) -> float:
        return self._limits.get((road, lane), self._limits.get((road, 0), 50.0))

    def limit_at(self, x: float, y: float) -> float:
        """The speed limit in km/h on the nearest lane."""
        point = self.waypoint(x, y)
        return 50.0 if point is None else self.limit_kmh(point.road_id, point.lane_id)

    def geolocation(self, x: float, y: float, z: float) -> tuple[float, float, float]:
        """Latitude, longitude and altitude."""
        found = self.map.transform_to_geolocation(self._carla.Location(x, y, z))
        return found.latitude, found.longitude, found.altitude


def load(name: str) -> Roads:
    """A map that ships, by name, or a file, by path.

    A file `NAME.xodr` with `NAME.net.xml` beside it has SUMO's traffic too.
    """
    bare = name.rpartition("/")[2]
    maps = shipped()
    path = maps.get(TOWNS.get(bare, bare))
    if path is None:
        path = Path(name)
        if path.suffix != ".xodr":
            known = f"known are {', '.join(maps)}, or a path to an .xodr file"
            raise InvalidInput(
                f"no map {name!r:.80}", mend=near_miss(bare, maps) or known
            )
    text = read_text(path, limit=LARGEST)
    net = path.with_name(f"{path.stem}.net.xml")
    return Roads(
        bare if bare in TOWNS else path.stem, text, net if net.is_file() else None
    )


def _carla() -> Any:
    try:
        import carla
    except ImportError as error:
        raise MissingDependency("the stand-in for CARLA", "carla") from error
    return carla


def _limits(text: str) -> dict[tuple[int, int], float]:
    """The speed limit in km/h of each lane; lane 0 stands for the whole road."""
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
    """The roads that lead back at the map's edge."""
    root = ET.fromstring(text)  # noqa: S314
    found = (road for road in root.iter("road") if road.get("name") == LOOP)
    return frozenset(_integer(road.get("id")) for road in found)


def _spawn_points(road_map: Any, loops: frozenset[int]) -> tuple[Pose, ...]:
    """A place every so often on each lane, away from junctions and the map's edge."""
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
    """Every signal of these kinds once, with where it has those who come stop."""
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
