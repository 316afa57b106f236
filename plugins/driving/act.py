"""Decisions to commands, and commands to an acceleration.

`slow` caps the speed; `stop` brakes comfortably, and harder where it must; `cut` takes
the car from its driver for good. A stop looks where it will stand and what is behind:
before the line, before the ways of those who come, not in them and not inside a
junction if the way out is free; and no harder than whoever follows can brake, unless
something is ahead.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind

BRAKE_LIMIT = 9.0  # m/s²
THRUST_LIMIT = 4.0  # m/s²
COMFORT = 3.0  # m/s²

_ROLLING = 0.2  # m/s², a car in gear that nobody drives
_STANDS_KMH = 0.5
_CLEARS_KMH = 20.0
_FOLLOWER_REACTS_S = 1.0
_FOLLOWER_BRAKES = 4.5  # m/s²
_MARGIN_M = 1.0
_SOON_S = 6.0
_GET_OUT_S = 1.5
_IN_IT_M = 1.2  # so far into a conflict there is no holding before it


class CarActuator:
    """Slows and stops the car; `cut` takes it from its driver for good."""

    can: frozenset[Kind] = frozenset({"alert", "slow", "stop", "cut"})

    def carry_out(self, decision: Decision, proposal: Action | None) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            return proposal
        if decision.kind == "slow" and decision.cap_kmh is not None:
            cap = {"speed_cap_kmh": decision.cap_kmh}
            if proposal is None or proposal.name not in ("control", "drive"):
                return Action("control", cap)
            return Action(proposal.name, {**proposal.arguments, **cap})
        return Action("cut") if decision.kind == "cut" else self.fallback()

    def fallback(self) -> Action | None:
        return Action("stop")

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        speed = frame.values.get("speed")
        acceleration = frame.values.get("acceleration")
        if not isinstance(speed, float) or not isinstance(acceleration, float):
            return None
        if decision.kind in ("stop", "cut"):
            clears = (
                frame.values.get("in_junction") is True and speed <= _CLEARS_KMH + 1
            )
            return speed < _STANDS_KMH or acceleration < -0.5 or clears
        if decision.kind == "slow" and decision.cap_kmh is not None:
            return speed <= decision.cap_kmh + 1.0 or acceleration < -0.5
        return True


@dataclass(frozen=True, slots=True)
class Behind:
    """Who follows the ego, and how closely."""

    gap_m: float
    speed: float


@dataclass(frozen=True, slots=True)
class Conflict:
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

    def avoided(self, speed: float) -> bool:
        """Whether an ego that speeds up now is through before or comes after."""
        through_s = _covers_s(self.clear_m, speed)
        return through_s < self.comes_s or _covers_s(self.to_m, speed) > self.leaves_s


def wanted_acceleration(action: Action | None, speed: float) -> float:
    """What a driver's `control` asks for, in m/s²; without one the car rolls."""
    if action is None:
        return -_ROLLING
    wanted = number(action, "acceleration", -_ROLLING)
    over = speed - number(action, "speed_cap_kmh", math.inf) / 3.6
    if over > -0.5:
        # Comes down to the cap at a comfortable pace, and does not pass it again.
        wanted = min(wanted, max(-COMFORT, -1.5 * over))
    return max(-BRAKE_LIMIT, min(THRUST_LIMIT, wanted))


def stopping_acceleration(
    values: Mapping[str, Any],
    speed: float,
    behind: Behind | None,
    conflicts: Sequence[Conflict],
) -> float:
    """How to come to stand from here, in m/s².

    Args:
        values: The signals of the frame before.
        speed: The ego's speed in m/s.
        behind: Who follows, if anyone is near.
        conflicts: Where others cross the ego's way soon.
    """
    soon = [c for c in conflicts if c.clear_m > 0.0 and c.comes_s < _SOON_S]
    within = [c for c in soon if c.to_m <= -_IN_IT_M]
    ahead = [c for c in soon if c.to_m > -_IN_IT_M]
    first = min(ahead, key=lambda c: c.to_m, default=None)
    if within:
        pressing_s = min(c.comes_s for c in within)
        waits = first is not None and first.leaves_s + _GET_OUT_S < pressing_s
        if first is None or all(c.avoided(speed) for c in ahead) or not waits:
            return THRUST_LIMIT  # in someone's way: get out of it
        return _hold_or_pass(first, speed, 0.0)
    course = values.get("time_to_collision")
    danger = course is not None and course < 4.0
    brakes = COMFORT
    if danger:
        brakes = max(brakes, 1.2 * (values.get("required_deceleration") or 0.0))
    if values.get("in_junction"):
        clears = max(-COMFORT, min(1.5, 1.5 * (_CLEARS_KMH / 3.6 - speed)))
        if first is None:
            # Nobody comes: leave the junction, do not stand in it.
            return -min(BRAKE_LIMIT, brakes) if danger else clears
        return _hold_or_pass(first, speed, clears)
    line = values.get("stop_line_distance")
    if line is not None and (values.get("traffic_light") != "green" or first):
        needs = _to_stand(speed, line - _MARGIN_M)
        if needs <= BRAKE_LIMIT:
            return -min(BRAKE_LIMIT, max(COMFORT, needs))
    if first is not None:
        return _hold_or_pass(first, speed, -brakes)
    if behind is not None and not danger:
        brakes = min(brakes, max(_bearable(behind, speed), 0.5 * COMFORT))
    return -min(BRAKE_LIMIT, brakes)


def _hold_or_pass(first: Conflict, speed: float, otherwise: float) -> float:
    """Stands before the conflict; where that is too late, goes before the other."""
    needs = _to_stand(speed, first.to_m)
    if needs <= BRAKE_LIMIT or speed < 1.0:
        return -needs if needs > 1.5 or speed < 1.0 else otherwise
    return THRUST_LIMIT if first.avoided(speed) else -BRAKE_LIMIT


def _covers_s(distance: float, speed: float) -> float:
    """How long the way takes at full thrust."""
    way = 2.0 * THRUST_LIMIT * max(0.0, distance)
    return (math.sqrt(speed * speed + way) - speed) / THRUST_LIMIT


def _to_stand(speed: float, room: float) -> float:
    return speed * speed / (2.0 * max(room, 0.1)) if speed > 0.1 else 1.0


def _bearable(behind: Behind, speed: float) -> float:
    """The hardest braking after which the follower still comes to stand in time."""
    follower = behind.speed
    needs = follower * _FOLLOWER_REACTS_S + follower * follower / (2 * _FOLLOWER_BRAKES)
    room = needs - behind.gap_m
    return BRAKE_LIMIT if room <= 0.0 else speed * speed / (2.0 * room)


def number(action: Action, name: str, default: float) -> float:
    """One of an action's arguments, as a number."""
    value = action.arguments.get(name, default)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or math.isnan(value):
        raise InvalidInput(f"the action's {name} is {value!r:.60}, not a number")
    return float(value)
