"""Points, lines and the bodies along them: where they cross, and how near they come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

Point = tuple[float, float]
Line = Sequence[Point]

_NEAR_M = 1.5
_CLEAR_M = 2.3  # between the middles of two cars that pass each other
_STEP_M = 0.25


def crossing(one: Line, other: Line) -> tuple[float, float, float] | None:
    """Where two lines first cross, or merge at their ends.

    Returns:
        The distances along each, and the sine of the angle between them.
    """
    along = 0.0
    for (ax, ay), (bx, by) in zip(one, one[1:], strict=False):
        rx, ry = bx - ax, by - ay
        length = math.hypot(rx, ry)
        beside = 0.0
        for (cx, cy), (dx, dy) in zip(other, other[1:], strict=False):
            sx, sy = dx - cx, dy - cy
            across = rx * sy - ry * sx
            if abs(across) > 1e-9:
                t = ((cx - ax) * sy - (cy - ay) * sx) / across
                u = ((cx - ax) * ry - (cy - ay) * rx) / across
                if 0.0 <= t <= 1.0 and 0.0 <= u <= 1.0:
                    its = math.hypot(sx, sy)
                    sine = abs(across) / (length * its)
                    return along + t * length, beside + u * its, sine
            beside += math.hypot(sx, sy)
        along += length
    if one and other and math.dist(one[-1], other[-1]) < _NEAR_M:
        return length_of(one), length_of(other), 0.0
    return None


def length_of(line: Line) -> float:
    return sum(math.dist(a, b) for a, b in zip(line, line[1:], strict=False))


def point_at(line: Line, along: float) -> tuple[Point, Point]:
    """The point so far along a line, and the line's direction there."""
    point, direction = (line[0][0], line[0][1]), (1.0, 0.0)
    for (ax, ay), (bx, by) in zip(line, line[1:], strict=False):
        length = math.hypot(bx - ax, by - ay)
        if length > 0.0:
            point, direction = (bx, by), ((bx - ax) / length, (by - ay) / length)
            if along <= length:
                share = along / length
                return (ax + share * (bx - ax), ay + share * (by - ay)), direction
        along -= length
    return point, direction


def apart(one: tuple[Point, Point], other: tuple[Point, Point]) -> float:
    """How far apart two straight lines are that do not cross."""
    (a, b), (c, d) = one, other
    return min(
        from_segment(a, c, d), from_segment(b, c, d),
        from_segment(c, a, b), from_segment(d, a, b),
    )  # fmt: skip


def from_segment(point: Point, a: Point, b: Point) -> float:
    (x, y), (ax, ay), (bx, by) = point, a, b
    dx, dy, px, py = bx - ax, by - ay, x - ax, y - ay
    along, length = px * dx + py * dy, dx * dx + dy * dy
    if along <= 0.0:
        return math.hypot(px, py)
    share = 1.0 if along >= length else along / length
    return math.hypot(px - share * dx, py - share * dy)


def beside(one: Line, other: Line, met_m: float) -> float:
    """How far along a line the other has come too near for two cars beside each other.

    Args:
        one: The line.
        other: The other, which meets it.
        met_m: Where on the line that is.
    """
    along = 0.0
    for (ax, ay), (bx, by) in pairwise(one):
        length = math.hypot(bx - ax, by - ay)
        for step in range(math.ceil(length / _STEP_M)):
            share = step * _STEP_M / length
            point = ax + share * (bx - ax), ay + share * (by - ay)
            gaps = (from_segment(point, c, d) for c, d in pairwise(other))
            if min(gaps, default=math.inf) < _CLEAR_M:
                return min(met_m, along + step * _STEP_M)
        along += length
    return met_m
