"""Reads Apollo's maps from the files base_map.bin and base_map.txt."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import read_bytes
from forewarn.apollo_bridge.channels import messages
from forewarn.plugins.driving.places import Junctions, Movement, exits, movements
from forewarn.plugins.driving.roads import Lane as RoadLane
from forewarn.plugins.driving.roads import (
    LightName,
    Link,
    LinkDirection,
    Point,
    length_of,
    point_at,
)

FILES = ("base_map.bin", "base_map.txt")
MAX_BYTES = 512 << 20

_TURNS = {2: LinkDirection.LEFT, 3: LinkDirection.RIGHT, 4: LinkDirection.U_TURN}
_DRIVING = 2
_USUAL_WIDTH_M = 3.5
_LONGEST_M = 10_000.0
_MOST_M = 5_000_000.0
"""The maximum length of all lanes together."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of an Apollo map.

    Args:
        name: The lane's id in the map.
        shape: The centre line.
        length_m: The length of the centre line in metres.
        width_m: The mean width in metres.
        limit_mps: The speed limit in m/s; 0 if there is none.
        turn: The direction of the turn.
        junction: The junction that contains the lane; empty outside junctions.
        driving: Whether the lane is for cars.
        after: The ids of the lane's successors.
        left: The adjacent lane to the left in the same direction, if any.
        right: The adjacent lane to the right in the same direction, if any.
        lights: The traffic lights that govern the lane.
        stops: Whether there is a stop sign at the start of the lane.
        yields: Whether there is a yield sign at the start of the lane.
    """

    name: str
    shape: tuple[Point, ...]
    length_m: float
    width_m: float
    limit_mps: float
    turn: LinkDirection
    junction: str
    driving: bool
    after: tuple[str, ...]
    left: str
    right: str
    lights: tuple[str, ...]
    stops: bool
    yields: bool


@dataclass(frozen=True, slots=True)
class Crosswalk:
    """A crosswalk: its centre line and its width."""

    name: str
    junction: str
    line: tuple[Point, Point]
    width_m: float


@dataclass(frozen=True, slots=True)
class RoadMap:
    """The lanes and crosswalks of a map, by id."""

    lanes: Mapping[str, Lane]
    crosswalks: Mapping[str, Crosswalk]


# -- reading --------------------------------------------------------------------------


def load_map(path: Path) -> RoadMap:
    """Loads a map from a file or from the folder of an Apollo map."""
    found = path
    if path.is_dir():
        inside = [path / name for name in FILES if (path / name).is_file()]
        if not inside:
            raise InvalidInput(
                "the folder does not contain an Apollo map",
                source=str(path),
                mend=f"choose the folder that contains {' or '.join(FILES)}",
            )
        found = inside[0]
    return read_map(_parsed(found), str(found))


def _parsed(path: Path) -> Any:
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    data = read_bytes(path, MAX_BYTES)
    made = messages()["apollo.hdmap.Map"]()
    try:
        if path.suffix == ".txt":
            text_format.Parse(data, made, allow_unknown_field=True)
        else:
            made.ParseFromString(data)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"the file is not an Apollo map: {str(error) or 'it cannot be decoded'}",
            source=str(path),
            mend="give base_map.bin, base_map.txt, or their folder",
        ) from error
    return made


def read_map(message: Any, source: str = "") -> RoadMap:
    """Creates a road map from an `apollo.hdmap.Map` message of any generated class."""
    governs = _Overlaps(message)
    junctions = {j.id.id: _polygon(j.polygon) for j in message.junction}
    lanes = {}
    for each in message.lane:
        lane = _lane(each, governs, junctions)
        if lane is not None:
            lanes[lane.name] = lane
    if not lanes:
        raise InvalidInput("the map has no lanes", source=source)
    total_m = sum(length_of(lane.shape) for lane in lanes.values())
    if not total_m < _MOST_M:
        raise InvalidInput(
            f"the lanes are {total_m / 1000:.3g} km long in all; the limit is "
            f"{_MOST_M / 1000:g} km",
            source=source,
            mend="check the coordinates of the lanes",
        )
    crosswalks = {}
    for each in message.crosswalk:
        walk = _crosswalk(each, junctions)
        if walk is not None:
            crosswalks[walk.name] = walk
    for name in _names(lanes.values(), crosswalks.values()):
        if not isinstance(name, str):  # protobuf returns other bytes unchanged
            raise InvalidInput(
                f"the name {name!r:.60} is not UTF-8 text", source=source
            )
    return RoadMap(lanes, crosswalks)


def _names(lanes: Iterable[Lane], crosswalks: Iterable[Crosswalk]) -> Iterator[object]:
    for lane in lanes:
        yield from (lane.name, lane.junction, lane.left, lane.right)
        yield from (*lane.after, *lane.lights)
    for walk in crosswalks:
        yield from (walk.name, walk.junction)


class _Overlaps:
    """The traffic lights, signs and junctions that overlap each lane."""

    def __init__(self, message: Any) -> None:
        self.lights: dict[str, list[str]] = {}
        self.stops: set[str] = set()
        self.yields: set[str] = set()
        self.junctions: dict[str, str] = {}
        for overlap in message.overlap:
            kinds = [(o.id.id, o.WhichOneof("overlap_info")) for o in overlap.object]
            lanes = [name for name, kind in kinds if kind == "lane_overlap_info"]
            for name, kind in kinds:
                for lane in lanes:
                    if kind == "signal_overlap_info":
                        self.lights.setdefault(lane, []).append(name)
                    elif kind == "stop_sign_overlap_info":
                        self.stops.add(lane)
                    elif kind == "yield_sign_overlap_info":
                        self.yields.add(lane)
                    elif kind == "junction_overlap_info":
                        self.junctions.setdefault(lane, name)


def _lane(
    each: Any, governs: _Overlaps, junctions: Mapping[str, Sequence[Point]]
) -> Lane | None:
    name = each.id.id
    shape = _curve(each.central_curve)
    if len(shape) < 2:
        return None
    drawn = length_of(shape)
    length = each.length if 0.0 < each.length < _LONGEST_M else drawn
    junction = each.junction_id.id
    if not junction and name in governs.junctions:
        # A lane that overlaps a junction belongs to it if its midpoint is inside.
        over = governs.junctions[name]
        outline = junctions.get(over, ())
        middle, _ = point_at(shape, drawn / 2.0)
        junction = over if not outline or inside(middle, outline) else ""
    widths = [s.width for s in (*each.left_sample, *each.right_sample) if s.width > 0.0]
    width = 2.0 * sum(widths) / len(widths) if widths else _USUAL_WIDTH_M
    return Lane(
        name, shape, length, width, max(0.0, each.speed_limit),
        _TURNS.get(each.turn, LinkDirection.FORWARD), junction,
        not each.HasField("type") or each.type == _DRIVING,
        tuple(i.id for i in each.successor_id),
        _first(each.left_neighbor_forward_lane_id),
        _first(each.right_neighbor_forward_lane_id),
        tuple(governs.lights.get(name, ())),
        name in governs.stops, name in governs.yields,
    )  # fmt: skip


def _first(ids: Any) -> str:
    return ids[0].id if ids else ""


def _curve(curve: Any) -> tuple[Point, ...]:
    points: list[Point] = []
    for segment in curve.segment:
        for point in segment.line_segment.point:
            at = (point.x, point.y)
            if all(map(math.isfinite, at)) and (not points or points[-1] != at):
                points.append(at)
    return tuple(points)


def _polygon(polygon: Any) -> tuple[Point, ...]:
    return tuple(
        (p.x, p.y) for p in polygon.point if math.isfinite(p.x) and math.isfinite(p.y)
    )


def _crosswalk(each: Any, junctions: Mapping[str, Sequence[Point]]) -> Crosswalk | None:
    """Returns a crosswalk whose centre line runs between its two short sides."""
    corners = _polygon(each.polygon)
    if len(corners) < 3:
        return None
    sides = list(zip(corners, (*corners[1:], corners[0]), strict=True))
    x = sum(p[0] for p in corners) / len(corners)
    y = sum(p[1] for p in corners) / len(corners)
    a, b = max(sides, key=lambda side: math.dist(*side))
    size = math.dist(a, b)
    if size <= 0.0:
        return None
    ux, uy = (b[0] - a[0]) / size, (b[1] - a[1]) / size
    along = [(p[0] - x) * ux + (p[1] - y) * uy for p in corners]
    across = [(p[1] - y) * ux - (p[0] - x) * uy for p in corners]
    aside = (max(across) + min(across)) / 2.0
    ends = [
        (x + s * ux - aside * uy, y + s * uy + aside * ux)
        for s in (min(along), max(along))
    ]
    junction = min(
        junctions,
        key=lambda name: _away((x, y), junctions[name]),
        default="",
    )
    return Crosswalk(
        each.id.id, junction, (ends[0], ends[1]), max(across) - min(across)
    )


def _away(point: Point, outline: Sequence[Point]) -> float:
    if not outline or inside(point, outline):
        return 0.0 if outline else math.inf
    return min(math.dist(point, corner) for corner in outline)


def inside(point: Point, outline: Sequence[Point]) -> bool:
    """Whether a point is inside a polygon."""
    x, y = point
    found = False
    for (ax, ay), (bx, by) in zip(outline, (*outline[1:], outline[0]), strict=True):
        if (ay > y) != (by > y) and x < (bx - ax) * (y - ay) / (by - ay) + ax:
            found = not found
    return found


class Network(Junctions[Movement]):
    """The lanes of a map under SUMO-style names; implements the protocol `Net`.

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
        lanes = {lane.name: lane for lane in self._all_lanes()}
        super().__init__(lanes, movements(lanes, self._yields))

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
        """Yields a lane and the adjacent lanes in the same direction, from right to
        left.
        """
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
        """Returns a lane if it is outside junctions and has no SUMO-style name yet,
        else None.
        """
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

    # -- paths through junctions -------------------------------------------------------

    def _after(self, name: str) -> Iterator[str]:
        """Yields the successors of a lane that are for cars."""
        return (n for n in self.map.lanes[name].after if n in self.name_of)

    def _is_inside(self, name: str) -> bool:
        return bool(self.map.lanes[name].junction)

    def _yields(self, lane: RoadLane, link: Link) -> bool:
        return self.lane_of[lane.name].yields or self.lane_of[link.via].yields

    @cached_property
    def governs(self) -> dict[str, tuple[str, ...]]:
        """The ids of the traffic lights that govern each path into a junction."""
        found: dict[str, tuple[str, ...]] = {}
        for movement in self.movements:
            names = self.lane_of[movement.via].lights
            names = names or self.lane_of[movement.lane].lights
            if names:
                found[movement.via] = names
        return found

    # -- the interface for `Roads`
    # -------------------------------------------------------

    def _all_lanes(self) -> Iterator[RoadLane]:
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
        """Returns the SUMO-style name of a junction. Crosswalks may be outside
        junctions.
        """
        return f":{self._junction_names.get(junction, 'none')}"

    def _links(self, lane: Lane) -> Iterator[Link]:
        for name, to in exits(lane.name, self._after, self._is_inside):
            onward = self.map.lanes[name]
            via = self.name_of[name] if onward.junction else ""
            inside = lane if lane.junction else onward
            turn = inside.turn if inside.junction else LinkDirection.FORWARD
            yield Link(self.name_of[to], via, turn, onward.stops or lane.stops)

    def lights(self) -> Mapping[str, LightName]:
        return {via: (via, 0) for via in self.governs}
