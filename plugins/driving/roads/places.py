"""On which lane somebody is, and how far along it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forewarn.plugins.driving.roads.lanes import Lane
from forewarn.plugins.driving.roads.lines import Point
from forewarn.plugins.driving.roads.network import Roads

_CELL_M = 12.0
_ASIDE_M = 1.2  # so far beside a lane's edge one still drives on it
_COURSE_DEG = 70.0
_TURNED_M = 0.05
"""A degree that one is turned from a lane counts as so many metres beside it."""


class Place(NamedTuple):
    """A place on a lane.

    Args:
        lane: The lane's name.
        along_m: From where it begins.
        left_m: To the left of its middle.
        off: How badly it fits.
    """

    lane: str
    along_m: float
    left_m: float
    off: float


class Places:
    """Finds lanes by place and heading.

    Args:
        roads: The lanes to look among: those for cars.
    """

    def __init__(self, roads: Roads) -> None:
        self._lines = {
            lane.name: _Line(lane) for lane in roads.lanes.values() if lane.for_cars
        }
        self._cells: dict[tuple[int, int], list[str]] = {}
        for name, line in self._lines.items():
            for cell in line.cells():
                names = self._cells.setdefault(cell, [])
                if name not in names:
                    names.append(name)

    def near(self, x: float, y: float, heading_deg: float) -> Iterator[Place]:
        """The lanes that somebody who looks that way may be on."""
        cell = math.floor(x / _CELL_M), math.floor(y / _CELL_M)
        yield from self.among(self._cells.get(cell, ()), x, y, heading_deg)

    def among(
        self, names: Iterable[str], x: float, y: float, heading_deg: float
    ) -> Iterator[Place]:
        """As `near`, of these lanes alone."""
        for name in names:
            line = self._lines[name]
            along, left, heading = line.project(x, y)
            turned = abs((heading_deg - heading + 180.0) % 360.0 - 180.0)
            beyond = max(-along, along - line.length, 0.0)
            if (
                turned < _COURSE_DEG
                and abs(left) < line.half + _ASIDE_M
                and beyond < _ASIDE_M
            ):
                off = abs(left) + _TURNED_M * turned + 2.0 * beyond
                yield Place(name, min(max(along, 0.0), line.length), left, off)

    def at(self, name: str, along_m: float) -> tuple[Point, float]:
        """The place so far along a lane's middle, and the heading there in degrees."""
        return self._lines[name].at(along_m)


class _Line:
    """A lane's middle, ready to be asked."""

    def __init__(self, lane: Lane) -> None:
        self.half = lane.width / 2.0
        parts: list[tuple[float, float, float, float, float, float]] = []
        along = 0.0
        for (ax, ay), (bx, by) in zip(lane.shape, lane.shape[1:], strict=False):
            length = math.hypot(bx - ax, by - ay)
            if length > 0.0:
                parts.append(
                    (ax, ay, (bx - ax) / length, (by - ay) / length, length, along)
                )
                along += length
        self._parts = parts
        self.length = along

    def project(self, x: float, y: float) -> tuple[float, float, float]:
        """The nearest place: along, to the left, and the heading there in degrees."""
        nearest = math.inf
        found = (0.0, 0.0, 1.0, 0.0)
        last = len(self._parts) - 1
        for i, (ax, ay, ux, uy, length, start) in enumerate(self._parts):
            dx, dy = x - ax, y - ay
            ahead = dx * ux + dy * uy
            left = ux * dy - uy * dx
            # Beyond its ends a lane goes on straight.
            over = 0.0
            if ahead < 0.0 and i > 0:
                over, ahead = ahead, 0.0
            elif ahead > length and i < last:
                over, ahead = ahead - length, length
            away = over * over + left * left
            if away < nearest:
                nearest, found = away, (start + ahead, left, ux, uy)
        along, left, ux, uy = found
        return along, left, math.degrees(math.atan2(uy, ux))

    def at(self, along: float) -> tuple[Point, float]:
        part = next((p for p in self._parts if along <= p[5] + p[4]), self._parts[-1])
        ax, ay, ux, uy, _, start = part
        ahead = along - start
        return (ax + ahead * ux, ay + ahead * uy), math.degrees(math.atan2(uy, ux))

    def cells(self) -> Iterator[tuple[int, int]]:
        """The cells in which somebody on the lane may be."""
        reach = self.half + _ASIDE_M
        for ax, ay, ux, uy, length, _ in self._parts:
            steps = max(1, math.ceil(length / (_CELL_M / 2.0)))
            for i in range(steps + 1):
                ahead = length * i / steps
                x, y = ax + ahead * ux, ay + ahead * uy
                for dx in (-reach, reach):
                    for dy in (-reach, reach):
                        yield (
                            math.floor((x + dx) / _CELL_M),
                            math.floor((y + dy) / _CELL_M),
                        )
