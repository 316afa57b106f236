"""How a stop brakes: where it will stand, for whom, and how hard.

It stands before the line, before the ways of those who come and behind the vehicle
ahead; not in a junction whose way out is free, and no harder than whoever follows can
brake unless something is ahead. Comfortably where there is room, firmly where others
go first, and as hard as it takes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forewarn.plugins.driving.scene import Behind
from forewarn.plugins.driving.seeing.arriving import Conflict

BRAKE_LIMIT = 9.0  # m/s²
THRUST_LIMIT = 4.0  # m/s²
COMFORT = 3.0  # m/s²
CLEARS_KMH = 20.0
"""How fast it leaves a junction that it must not stand in."""

_FIRM = 6.0  # m/s², where somebody would have to brake for the ego
_EASES = 1.0  # m/s², while somebody passes in the lane that it signals for
_FOLLOWER_REACTS_S = 1.0
_FOLLOWER_BRAKES = 4.5  # m/s²
_LEAD_BRAKES = 6.0  # m/s²
_MARGIN_M = 1.0
_OVER_M = 3.0  # a line is held if the car stands so little beyond it
_BUMPER_M = 2.0
_KEEPS_S = 0.5  # to the vehicle ahead
_SOON_S = 6.0
_GET_OUT_S = 1.5
_IN_IT_M = 1.2  # so far into a conflict there is no holding before it
_ROLLS = 1.0  # m/s


class Stop:
    """One stop after another: each remembers how far beyond its line it has come."""

    def __init__(self) -> None:
        self._line_m: float | None = None
        self._over_m: float | None = None

    def let_go(self) -> None:
        """The car is its driver's again."""
        self._line_m = self._over_m = None

    def acceleration(
        self,
        values: Mapping[str, Any],
        speed: float,
        behind: Behind | None,
        conflicts: Sequence[Conflict],
        dt: float,
    ) -> float:
        """What `stopping_acceleration` says of the next frame of this stop.

        Args:
            values: As there; so are the speed, who is behind, and the conflicts.
            dt: The time since the frame before.
        """
        if not values.get("in_junction"):
            self._over_m, self._line_m = None, values.get("stop_line_distance")
        elif self._over_m is not None:
            self._over_m += speed * dt
        elif self._line_m is not None:
            self._over_m = max(0.0, speed * dt - self._line_m)
        return stopping_acceleration(values, speed, behind, conflicts, self._over_m)


def stopping_acceleration(
    values: Mapping[str, Any],
    speed: float,
    behind: Behind | None,
    conflicts: Sequence[Conflict],
    over_m: float | None = None,
) -> float:
    """How to come to stand from here, in m/s².

    Args:
        values: The signals of the frame before.
        speed: The ego's speed in m/s.
        behind: Who follows, if anyone is near.
        conflicts: Where others cross the ego's way soon.
        over_m: How far beyond the line this stop has come that was to stand before it.
    """
    soon = [c for c in conflicts if c.clear_m > 0.0 and c.comes_s < _SOON_S]
    within = [c for c in soon if c.to_m <= -_IN_IT_M]
    ahead = [c for c in soon if c.to_m > -_IN_IT_M]
    first = min(ahead, key=lambda c: c.to_m, default=None)
    if within:
        pressing_s = min(c.comes_s for c in within)
        waits = first is not None and first.leaves_s + _GET_OUT_S < pressing_s
        if first is None or all(_avoided(c, speed) for c in ahead) or not waits:
            return THRUST_LIMIT  # in someone's way: get out of it
        return _hold_or_pass(first, speed)
    asked = _asked(values, speed)
    held = first is not None or values.get("traffic_light") in ("red", "yellow")
    if values.get("in_junction"):
        if over_m is not None and held:
            needs = _to_stand(speed, _OVER_M - over_m)
            if needs <= BRAKE_LIMIT or speed < _ROLLS:
                return -max(needs, asked, _FIRM)
        if first is not None:
            return _hold_or_pass(first, speed, asked)
        # Nobody comes: leave the junction, do not stand in it.
        clears = max(-COMFORT, min(1.5, 1.5 * (CLEARS_KMH / 3.6 - speed)))
        return min(clears, -asked) if asked > 0.0 else clears
    line = values.get("stop_line_distance")
    if line is not None:
        needs = _to_stand(speed, line - _MARGIN_M)
        room = line + _OVER_M if first is None else min(first.to_m, line + _OVER_M)
        over = _to_stand(speed, max(room, line))
        if held or values.get("traffic_jam"):
            if over <= BRAKE_LIMIT or speed < _ROLLS:
                return -min(BRAKE_LIMIT, max(COMFORT, needs, asked))
        elif COMFORT < needs <= _FIRM:
            return -max(needs, asked)  # else it would stand in the junction
    if first is not None:
        return _hold_or_pass(first, speed, asked)
    if asked > COMFORT:
        return -asked
    if (values.get("side_margin") or 0.0) < 0.0:
        # Who comes there is let pass from the ego's own lane; it need not stand for it.
        return -max(asked, _EASES)
    if behind is not None:
        bearable = max(_bearable(behind, speed), 0.5 * COMFORT)
        return -max(asked, min(COMFORT, bearable))
    return -COMFORT


def _asked(values: Mapping[str, Any], speed: float) -> float:
    """The braking that those ahead ask for; 0 if nothing is near."""
    asked = 0.0
    course = values.get("time_to_collision")
    if course is not None and course < 4.0:
        asked = 1.2 * (values.get("required_deceleration") or 0.0)
    gap = values.get("lead_distance")
    if gap is not None:
        its = (values.get("lead_speed") or 0.0) / 3.6
        stands = _to_stand(speed, gap - _BUMPER_M + its * its / (2.0 * _LEAD_BRAKES))
        brakes = max(0.0, -(values.get("lead_acceleration") or 0.0))
        closing = max(0.0, speed - its)
        follows = closing * closing / (2.0 * max(gap - _KEEPS_S * speed, 0.1))
        if closing or brakes or gap < _KEEPS_S * speed + _BUMPER_M:
            asked = max(asked, stands, min(follows, BRAKE_LIMIT) + brakes)
    return min(BRAKE_LIMIT, asked)


def _hold_or_pass(first: Conflict, speed: float, asked: float = 0.0) -> float:
    """Stands before the conflict; where that is too late, goes before the other."""
    needs = _to_stand(speed, first.to_m)
    if needs <= BRAKE_LIMIT or speed < _ROLLS:
        return -min(BRAKE_LIMIT, max(needs, asked, _FIRM))
    return THRUST_LIMIT if _avoided(first, speed) else -BRAKE_LIMIT


def _avoided(conflict: Conflict, speed: float) -> bool:
    """Whether an ego that speeds up now is through before or comes after."""
    if _covers_s(conflict.clear_m, speed) < conflict.comes_s:
        return True
    return _covers_s(conflict.to_m, speed) > conflict.leaves_s


def _covers_s(distance: float, speed: float) -> float:
    """How long the way takes at full thrust."""
    way = 2.0 * THRUST_LIMIT * max(0.0, distance)
    return (math.sqrt(speed * speed + way) - speed) / THRUST_LIMIT


def _to_stand(speed: float, room: float) -> float:
    return speed * speed / (2.0 * max(room, 0.1))


def _bearable(behind: Behind, speed: float) -> float:
    """The hardest braking after which the follower still comes to stand in time."""
    follower = behind.speed
    needs = follower * _FOLLOWER_REACTS_S + follower * follower / (2 * _FOLLOWER_BRAKES)
    room = needs - behind.gap_m
    return BRAKE_LIMIT if room <= 0.0 else speed * speed / (2.0 * room)
