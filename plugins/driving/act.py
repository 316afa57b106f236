"""What a car is told, and decisions to that.

`slow` caps the speed; `stop` brakes comfortably, and harder where it must (`stopping`);
`cut` takes the car from its driver for good.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import CAP, ActionSpec, number, switch, word
from forewarn.plugins.driving.scene import Behind
from forewarn.plugins.driving.seeing.arriving import Conflict
from forewarn.plugins.driving.stopping import (
    BRAKE_LIMIT,
    CLEARS_KMH,
    COMFORT,
    THRUST_LIMIT,
    Stop,
)

TURN_SIGNALS = ("off", "left", "right", "hazard")

CONTROL = ActionSpec(
    "control",
    {
        "acceleration": number(unit="m/s²"),
        CAP: number(0.0, unit="km/h"),
        "turn_signal": word(*TURN_SIGNALS),
        "lane_change": word("left", "right"),
        "horn": switch(),
    },
)
STOP = ActionSpec(
    "stop",
    {"acceleration": number(unit="m/s²"), "turn_signal": word(*TURN_SIGNALS)},
)
CUT = ActionSpec("cut")

_ROLLING = 0.2  # m/s², a car in gear that nobody drives
_STANDS_KMH = 0.5


@dataclass(frozen=True, slots=True)
class Around:
    """What a stop looks at beside the frame.

    Args:
        speed: The ego's, in m/s, as the world has it.
        behind: Who follows, if anyone is near.
        conflicts: Where others cross the ego's way soon.
    """

    speed: float
    behind: Behind | None = None
    conflicts: Sequence[Conflict] = ()


class CarActuator:
    """Slows and stops the car; `cut` takes it from its driver for good.

    Args:
        look: What is around the car as the newest frame shows it; without it a stop
            goes by the frame alone.
    """

    can: frozenset[Kind] = frozenset({"alert", "slow", "stop", "cut"})

    def __init__(self, look: Callable[[], Around] | None = None) -> None:
        self._look = look
        self._stop = Stop()
        self._last_s = math.nan

    def carry_out(
        self, decision: Decision, proposal: Action | None, frame: Frame
    ) -> Action | None:
        if decision.kind in ("proceed", "alert"):
            self.let_go()
            return proposal
        if decision.kind == "slow" and decision.cap_kmh is not None:
            self.let_go()
            cap = {CAP: decision.cap_kmh}
            if proposal is None or proposal.name not in ("control", "drive"):
                return Action("control", cap)
            return Action(proposal.name, {**proposal.arguments, **cap})
        if decision.kind == "cut":
            return Action("cut")
        stop = self.fallback(frame)
        # The blinkers stay the driver's: what it is up to is to be seen.
        signal = None if proposal is None else proposal.arguments.get("turn_signal")
        if signal is None:
            return stop
        return Action("stop", {**stop.arguments, "turn_signal": signal})

    def fallback(self, frame: Frame | None = None) -> Action:
        if frame is None or not isinstance(frame.values.get("speed"), float):
            return Action("stop")
        values = frame.values
        around = Around(values["speed"] / 3.6) if self._look is None else self._look()
        passed_s = round(frame.time_s - self._last_s, 6)
        self._last_s = frame.time_s
        wanted = self._stop.acceleration(
            values,
            around.speed,
            around.behind,
            around.conflicts,
            passed_s if passed_s > 0.0 else 0.0,
        )
        return Action("stop", {"acceleration": wanted})

    def let_go(self) -> None:
        """The car is its driver's again."""
        self._stop.let_go()
        self._last_s = math.nan

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
    """What an action asks for, in m/s²; without one the car rolls."""
    if action is None:
        return -_ROLLING
    unsaid = -COMFORT if action.name == "stop" else -_ROLLING
    wanted = amount(action, "acceleration", unsaid)
    over = speed - amount(action, CAP, math.inf) / 3.6
    if over > -0.5:
        # Comes down to the cap at a comfortable pace, and does not pass it again.
        wanted = min(wanted, max(-COMFORT, -1.5 * over))
    return max(-BRAKE_LIMIT, min(THRUST_LIMIT, wanted))


def amount(action: Action, name: str, default: float) -> float:
    """A number among an action's arguments, or what counts where it is left out."""
    value = action.arguments.get(name)
    return default if value is None else float(value)
