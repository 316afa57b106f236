"""When the ego gets somewhere, and who else is there then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from forewarn.plugins.driving.roads.lanes import Turn
from forewarn.plugins.driving.roads.ways import Passage

TURN_PACE = {Turn.LEFT: 8.0, Turn.RIGHT: 7.0, Turn.U_TURN: 5.0}  # m/s

_SLOW = 6.0  # m/s
_TURN_M = 12.0  # of a turn's conflict points, the usual distance behind the line
_COURSE_S = 0.5  # smaller gaps are a collision course


class Conflict(NamedTuple):
    """A stretch of the ego's way that somebody else is about to take.

    Args:
        to_m: The way to its beginning, with some room; negative while the ego is in it.
        clear_m: The way until the ego's rear has left it.
        comes_s: When the other comes to it.
        leaves_s: When the other has left it.
    """

    to_m: float
    clear_m: float
    comes_s: float
    leaves_s: float


@dataclass(slots=True)
class Demand:
    """What those ahead ask of the ego.

    Args:
        speed: The ego's, in m/s.
        deceleration: How hard it is to brake, in m/s².
        collision_s: When it would run into somebody.
    """

    speed: float
    deceleration: float = 0.0
    collision_s: float = math.inf

    def brake_within(self, room_m: float) -> None:
        """Asks it to stand after so much room."""
        self.deceleration = max(self.deceleration, braking(self.speed, room_m))

    def collide_in(self, time_s: float) -> None:
        """Tells of a collision course."""
        self.collision_s = min(self.collision_s, time_s)

    def meet(self, passage: Passage, met: Conflict) -> float:
        """Takes in somebody whose way crosses the ego's.

        Args:
            passage: Where that is.
            met: When each of them is there.

        Returns:
            The time between the two being there; 0 where they overlap.
        """
        pace = TURN_PACE.get(passage.turn, math.inf)
        come_s = arrival_s(met.to_m, self.speed, pace)
        leave_s = arrival_s(met.clear_m, self.speed, pace)
        gap_s = max(0.0, met.comes_s - leave_s, come_s - met.leaves_s)
        if gap_s < _COURSE_S and met.to_m > 0.0:
            self.collide_in(come_s)
            self.brake_within(met.to_m)
        return gap_s


def braking(speed: float, room_m: float) -> float:
    """How hard one brakes, in m/s², to stand after so much room."""
    return speed * speed / (2.0 * max(room_m, 0.1))


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
