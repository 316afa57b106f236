"""Crosswalks by place: who walks where."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forewarn.plugins.driving.roads.lines import Point
from forewarn.plugins.driving.roads.network import Roads

_CELL_M = 16.0
_AROUND_M = 2.0


@dataclass(frozen=True, slots=True)
class Crosswalk:
    """A crosswalk: where it begins and ends, and half its width."""

    edge: str
    ends: tuple[Point, Point]
    half_m: float

    def place(self, x: float, y: float) -> tuple[float, float]:
        """How far along it somebody is, and how far to its side."""
        (ax, ay), (bx, by) = self.ends
        length = self.length_m
        ux, uy = (bx - ax) / length, (by - ay) / length
        return (x - ax) * ux + (y - ay) * uy, (y - ay) * ux - (x - ax) * uy

    @property
    def length_m(self) -> float:
        return math.dist(*self.ends)

    def cells(self) -> Iterator[tuple[int, int]]:
        """The cells of the ground around it."""
        (ax, ay), (bx, by) = self.ends
        reach = self.half_m + _AROUND_M
        for i in _cells(min(ax, bx) - reach, max(ax, bx) + reach):
            for j in _cells(min(ay, by) - reach, max(ay, by) + reach):
                yield i, j


class Crosswalks:
    """A map's crosswalks.

    Args:
        roads: The map's.
    """

    def __init__(self, roads: Roads) -> None:
        self._in: dict[tuple[int, int], list[Crosswalk]] = {}
        for lane in roads.lanes.values():
            if lane.is_crosswalk and len(lane.shape) > 1:
                ends = lane.shape[0], lane.shape[-1]
                crosswalk = Crosswalk(lane.edge, ends, lane.width / 2.0)
                for cell in crosswalk.cells():
                    self._in.setdefault(cell, []).append(crosswalk)

    def near(self, x: float, y: float) -> Sequence[Crosswalk]:
        """The crosswalks around a point."""
        return self._in.get((math.floor(x / _CELL_M), math.floor(y / _CELL_M)), ())

    def at(self, x: float, y: float) -> str:
        """The edge of the crosswalk at a point; empty for none."""
        for crosswalk in self.near(x, y):
            along, aside = crosswalk.place(x, y)
            if 0.0 <= along <= crosswalk.length_m and abs(aside) <= crosswalk.half_m:
                return crosswalk.edge
        return ""


def _cells(low: float, high: float) -> range:
    return range(math.floor(low / _CELL_M), math.floor(high / _CELL_M) + 1)
