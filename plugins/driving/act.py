"""Decisions to commands, and commands to an acceleration.

`slow` caps the speed; `stop` brakes comfortably, and harder where it must (`stopping`);
`cut` takes the car from its driver for good.
"""

from __future__ import annotations

import math

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind

BRAKE_LIMIT = 9.0  # m/s²
THRUST_LIMIT = 4.0  # m/s²
COMFORT = 3.0  # m/s²
CLEARS_KMH = 20.0
"""How fast it leaves a junction that it must not stand in."""

_ROLLING = 0.2  # m/s², a car in gear that nobody drives
_STANDS_KMH = 0.5


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
        if decision.kind == "cut":
            return Action("cut")
        stop = self.fallback()
        if stop is None or proposal is None:
            return stop
        # The blinkers stay the driver's: what it is up to is to be seen.
        signal = proposal.arguments.get("turn_signal")
        return stop if signal is None else Action("stop", {"turn_signal": signal})

    def fallback(self) -> Action | None:
        return Action("stop")

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        speed = frame.values.get("speed")
        acceleration = frame.values.get("acceleration")
        if not isinstance(speed, float) or not isinstance(acceleration, float):
            return None
        if decision.kind in ("stop", "cut"):
            clears = frame.values.get("in_junction") is True and speed <= CLEARS_KMH + 1
            return speed < _STANDS_KMH or acceleration < -0.5 or clears
        if decision.kind == "slow" and decision.cap_kmh is not None:
            return speed <= decision.cap_kmh + 1.0 or acceleration < -0.5
        return True


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


def number(action: Action, name: str, default: float) -> float:
    """One of an action's arguments, as a number."""
    value = action.arguments.get(name, default)
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    if not fits or math.isnan(value):
        raise InvalidInput(f"the action's {name} is {value!r:.60}, not a number")
    return float(value)
