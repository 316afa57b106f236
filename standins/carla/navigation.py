"""Where pedestrians can walk, in the client's format: a Detour mesh.

The client's library moves the walkers of `controller.ai.walker` by itself; what it
needs is a file with convex polygons and their neighbours (a set `MSET` with one tile
`DNAV`, version 7). Ours are squares on a grid over sidewalks and crosswalks. In
Detour's frame the second axis points up.
"""

from __future__ import annotations

import math
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from forewarn.standins.carla.roads import LOOP, Roads

SIDEWALK, CROSSWALK = 1, 2
"""Kinds of ground; a polygon's flag is two to their power."""

_GRAIN_M = 1.0
_STEP_M = 0.4
_MOST: Final = 30_000
_MAGIC_SET, _MAGIC_TILE = 0x4D534554, 0x444E4156
_TILE_BITS_ROOM = 1 << 15
_ROOM_M = 5.0

Cell = tuple[int, int]


def mesh(roads: Roads) -> bytes:
    """The mesh of a map; empty if it has no walkable area."""
    cells = dict.fromkeys(_sidewalks(roads), SIDEWALK)
    crossing = dict.fromkeys(_crosswalks(roads), CROSSWALK)
    kinds = {**crossing, **cells} if cells else {}
    return _encoded(kinds) if 0 < len(kinds) <= _MOST else b""


def _cell(x: float, y: float) -> Cell:
    return math.floor(x / _GRAIN_M), math.floor(y / _GRAIN_M)


def _sidewalks(roads: Roads) -> Iterator[Cell]:
    for road in ET.fromstring(roads.text).iter("road"):  # noqa: S314  our own text
        if road.get("name") == LOOP:
            continue
        lanes = [
            int(lane.get("id", "0"))
            for lane in road.iter("lane")
            if lane.get("type") == "sidewalk"
        ]
        length = float(road.get("length", "0"))
        for lane in lanes:
            for n in range(int(length / _STEP_M) + 1):
                along = min(length - 1e-3, n * _STEP_M + 1e-3)
                point = roads.map.get_waypoint_xodr(
                    int(road.get("id", "0")), lane, along
                )
                if point is None:
                    continue
                place = point.transform.location
                heading = math.radians(point.transform.rotation.yaw)
                half = max(0.0, point.lane_width / 2.0 - _STEP_M / 2.0)
                for k in range(-3, 4):
                    aside = half * k / 3.0
                    yield _cell(
                        place.x - math.sin(heading) * aside,
                        place.y + math.cos(heading) * aside,
                    )


def _crosswalks(roads: Roads) -> Iterator[Cell]:
    """The ground of each crosswalk, and a cell around it, to meet the sidewalks."""
    corners = [(corner.x, corner.y) for corner in roads.map.get_crosswalks()]
    for zone in _zones(corners):
        xs, ys = [x for x, _ in zone], [y for _, y in zone]
        first, last = _cell(min(xs), min(ys)), _cell(max(xs), max(ys))
        for i in range(first[0] - 1, last[0] + 2):
            for j in range(first[1] - 1, last[1] + 2):
                middle = (i + 0.5) * _GRAIN_M, (j + 0.5) * _GRAIN_M
                if _near(zone, middle):
                    yield i, j


def _zones(corners: list[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """The client gives the corners of all crosswalks in a row, four or five of each."""
    at = 0
    while at + 4 <= len(corners):
        zone = corners[at : at + 4]
        at += 4
        if at < len(corners) and math.dist(corners[at], zone[0]) < 0.1:
            at += 1  # the first once more
        yield zone


def _near(zone: list[tuple[float, float]], point: tuple[float, float]) -> bool:
    """Whether a point is inside a convex zone, or less than a cell outside."""
    sides = []
    for (ax, ay), (bx, by) in zip(zone, zone[1:] + zone[:1], strict=True):
        length = math.hypot(bx - ax, by - ay) or 1.0
        cross = (bx - ax) * (point[1] - ay) - (by - ay) * (point[0] - ax)
        sides.append(cross / length)
    return min(sides) > -_GRAIN_M or max(sides) < _GRAIN_M


# -- Detour's format ------------------------------------------------------------------


def _encoded(kinds: Mapping[Cell, int]) -> bytes:
    cells = sorted(kinds)
    number = {cell: n for n, cell in enumerate(cells)}
    corners = sorted({corner for cell in cells for corner in _corners(cell)})
    vertex = {corner: n for n, corner in enumerate(corners)}
    polygons, links = [], 0
    for cell in cells:
        shape = [vertex[corner] for corner in _corners(cell)]
        beside = [number.get(other, -1) + 1 for other in _neighbours(cell)]
        links += sum(n > 0 for n in beside)
        polygons.append(
            struct.pack(
                "<I6H6HHBB",
                0xFFFFFFFF,
                *shape,
                0,
                0,
                *beside,
                0,
                0,
                1 << kinds[cell],
                4,
                kinds[cell],
            )  # fmt: skip
        )
    low = [_GRAIN_M * min(c[k] for c in corners) - _ROOM_M for k in (0, 1)]
    high = [_GRAIN_M * max(c[k] for c in corners) + _ROOM_M for k in (0, 1)]
    count = len(cells)
    head = struct.pack(
        "<II3iI9i10f", _MAGIC_TILE, 7, 0, 0, 0, 0, count, len(corners), links, count, 0,
        2 * count, 0, 0, count, 2.0, 0.3, 0.5, low[0], -1.0, low[1], high[0], 3.0,
        high[1], 1.0,
    )  # fmt: skip
    places = b"".join(
        struct.pack("<3f", i * _GRAIN_M, 0.0, j * _GRAIN_M) for i, j in corners
    )
    details = b"".join(struct.pack("<IIBBH", 0, 2 * n, 0, 2, 0) for n in range(count))
    # Two triangles a square, with the marks of the edges that are the square's own.
    triangles = bytes([0, 1, 2, 0b000101, 0, 2, 3, 0b010100]) * count
    tile = b"".join((head, places, *polygons, bytes(12 * links), details, triangles))
    params = struct.pack(
        "<5f2i", low[0], -1.0, low[1], high[0] - low[0], high[1] - low[1], 1,
        _TILE_BITS_ROOM,
    )  # fmt: skip
    salted = 1 << (_bits(1) + _bits(_TILE_BITS_ROOM))
    return (
        struct.pack("<3i", _MAGIC_SET, 1, 1)
        + params
        + struct.pack("<Ii", salted, len(tile))
        + tile
    )


def _bits(count: int) -> int:
    return max(0, (count - 1).bit_length())


def _corners(cell: Cell) -> Iterable[Cell]:
    """The corners of the square, in Detour's order."""
    i, j = cell
    return (i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)


def _neighbours(cell: Cell) -> Iterable[Cell]:
    """Beyond each side, in the order of the corners."""
    i, j = cell
    return (i - 1, j), (i, j + 1), (i + 1, j), (i, j - 1)
