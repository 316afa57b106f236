"""When the ego gets somewhere, and how close two bodies are."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarn.plugins.driving.roads import Line, Point

TURN_PACE = {"l": 8.0, "L": 8.0, "r": 7.0, "R": 7.0, "t": 5.0}  # m/s

_CLEAR_M = 2.3  # between the middles of two cars that pass each other
_STEP_M = 0.25
_SLOW = 6.0  # m/s
_TURN_M = 12.0  # of a turn's conflict points, the usual distance behind the line


def arrival_s(distance: float, speed: float, turn: float) -> float:
    """When the ego gets there: at its speed, or, when slow, setting off at 2 m/s².

    Where it turns it slows down to `turn` on the way, at 2.5 m/s² just before it must.
    """
    if distance <= 0.0:
        return 0.0
    if speed > turn:
        slowing = (speed * speed - turn * turn) / 5.0
        # How much of the way is left once it drives as slowly as in the turn.
        straight = max(0.0, distance - slowing - _TURN_M)
        rest = distance - straight
        if rest > slowing:
            return straight / speed + (speed - turn) / 2.5 + (rest - slowing) / turn
        return straight / speed + 2.0 * rest / (speed + turn)
    if speed >= _SLOW:
        return distance / speed
    return math.sqrt(speed * speed / 4.0 + distance) - speed / 2.0


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def from_body(
    x: float,
    y: float,
    front_x: float,
    front_y: float,
    ux: float,
    uy: float,
    length: float,
) -> float:
    """How far a point is from the middle line of a body that looks along (ux, uy)."""
    dx, dy = front_x - x, front_y - y
    back = dx * ux + dy * uy
    if back < 0.0:
        back = 0.0
    elif back > length:
        back = length
    return math.hypot(dx - back * ux, dy - back * uy)


def from_segment(point: Point, a: Point, b: Point) -> float:
    dx, dy = b[0] - a[0], b[1] - a[1]
    length = dx * dx + dy * dy
    share = 0.0
    if length > 0.0:
        share = ((point[0] - a[0]) * dx + (point[1] - a[1]) * dy) / length
        share = min(1.0, max(0.0, share))
    return math.hypot(point[0] - a[0] - share * dx, point[1] - a[1] - share * dy)


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
