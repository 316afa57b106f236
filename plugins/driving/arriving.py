"""When the ego gets somewhere."""

from __future__ import annotations

import math

TURN_PACE = {"l": 8.0, "L": 8.0, "r": 7.0, "R": 7.0, "t": 5.0}  # m/s

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
