"""Where somebody will go, as points: along lanes, or over a crosswalk."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forewarn.plugins.driving.roads.network import Roads

Point = tuple[float, float]

_WALK_STEP_M = 1.0


class Way:
    """The lanes before someone as one line."""

    def __init__(self, roads: Roads, lane: str, edges: tuple[str, ...]) -> None:
        way = roads.way(lane, edges)
        names = list(way.start_m)
        if lane in way.start_m:
            # Inside a junction the way begins in the lane before it.
            begin = names.index(lane)
            names = names[begin:]
        self.lanes = names
        points: list[Point] = []
        for name in names:
            shape = roads.lanes[name].shape
            points += shape if not points else shape[1:]
        self._points = points
        self._at = [0.0]
        for a, b in zip(points, points[1:], strict=False):
            self._at.append(self._at[-1] + math.dist(a, b))

    def points(self, begin: float, step: float, length: float) -> list[Point]:
        """Points along it, from a place on its first lane on."""
        found: list[Point] = []
        at, index = begin, 0
        end = min(begin + length, self._at[-1])
        while at <= end:
            while index + 2 < len(self._at) and self._at[index + 1] < at:
                index += 1
            (ax, ay), (bx, by) = self._points[index], self._points[index + 1]
            span = self._at[index + 1] - self._at[index]
            share = (at - self._at[index]) / span if span > 0.0 else 0.0
            found.append((ax + share * (bx - ax), ay + share * (by - ay)))
            at += step
        return found


def across(at: Point, theta: float, shape: Sequence[Point], on_it: bool) -> list[Point]:
    """A walker's way over a crosswalk.

    Args:
        at: Where the walker is.
        theta: Where the walker looks.
        shape: The crosswalk's middle line.
        on_it: Whether the walker is on it already.
    """
    cos, sin = math.cos(theta), math.sin(theta)
    (ax, ay), (bx, by) = shape[0], shape[-1]
    if on_it:
        back = (bx - ax) * cos + (by - ay) * sin < 0.0
    else:
        back = math.dist(at, (bx, by)) < math.dist(at, (ax, ay))
    if back:
        (ax, ay), (bx, by) = (bx, by), (ax, ay)
    # On it, the walker keeps to its own side.
    length = math.dist((ax, ay), (bx, by))
    ux, uy = (bx - ax) / length, (by - ay) / length
    on = (at[0] - ax) * ux + (at[1] - ay) * uy
    aside = (at[1] - ay) * ux - (at[0] - ax) * uy if on_it else 0.0
    begin = max(0.0, on)
    steps = max(1, math.ceil((length - begin) / _WALK_STEP_M))
    way = [begin + (length - begin) * i / steps for i in range(steps + 1)]
    line = [(ax + s * ux - aside * uy, ay + s * uy + aside * ux) for s in way]
    return line if on_it else [at, *line]
