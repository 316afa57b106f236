"""Translates decisions into commands for a car: slow down, stop, or follow the driver.

`slow` caps the speed. `stop` brakes comfortably, or harder if necessary: the car stops
before the line, before the paths of crossing road users and behind the vehicle ahead.
It does not stop in a junction whose exit is free. Unless something is ahead, it brakes
no harder than the vehicle behind it can. `cut` permanently takes control from the
driver. `drive` is a high-level action: it sets the target speed, the turn signal and
the lane, or stops the car. In every frame it is converted to a `control` action that
does so without hitting the vehicle ahead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.frame import Frame
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action, Decision, Kind
from forewarn.plugins.actions import CAP, Actions, ActionSpec, number, switch, word
from forewarn.plugins.driving.others import Conflict
from forewarn.plugins.driving.scene import Behind

BRAKE_LIMIT = 9.0  # m/s²
THRUST_LIMIT = 4.0  # m/s²
COMFORT = 3.0  # m/s²
CLEARS_KMH = 20.0
"""The speed at which the car leaves a junction in which it must not stop."""

_FIRM = 6.0  # m/s², if another road user would have to brake for the ego
_EASING = 1.0  # m/s², while a vehicle passes in the lane that the ego is about to enter
_FOLLOWER_REACTS_S = 1.0
_FOLLOWER_BRAKES = 4.5  # m/s²
_LEAD_BRAKES = 6.0  # m/s²
_MARGIN_M = 1.0
_OVER_M = 3.0  # stopping up to this far past a line still counts as stopping
_BUMPER_M = 2.0
_MIN_GAP_S = 0.5  # minimum time gap to the vehicle ahead
_SOON_S = 6.0
_GET_OUT_S = 1.5
_IN_IT_M = 1.2  # when the ego is this far into a conflict, it is too late to stop
_CREEPING = 1.0  # m/s


@dataclass(frozen=True, slots=True)
class CarSurroundings:
    """The car's surroundings, which a stop needs in addition to the frame's signals.

    Args:
        speed: The ego's speed in m/s, as the world reports it.
        behind: The following vehicle, if one is near.
        conflicts: The places where other road users will soon cross the ego's path.
    """

    speed: float
    behind: Behind | None = None
    conflicts: Sequence[Conflict] = ()


def stopping_acceleration(
    values: Mapping[str, Any], around: CarSurroundings, over_m: float | None = None
) -> float:
    """Returns the acceleration for a stop, in m/s².

    The acceleration is positive where the car must first clear a junction or a path
    that another road user is about to cross.

    Args:
        values: The signals of the newest frame.
        around: The surroundings of the ego.
        over_m: How far the car is past the stop line, in m; None if it has passed none
            during this stop.
    """
    speed, behind = around.speed, around.behind
    soon = [c for c in around.conflicts if c.clear_m > 0.0 and c.comes_s < _SOON_S]
    within = [c for c in soon if c.to_m <= -_IN_IT_M]
    ahead = [c for c in soon if c.to_m > -_IN_IT_M]
    first = min(ahead, key=lambda c: c.to_m, default=None)
    if within:
        pressing_s = min(c.comes_s for c in within)
        waits = first is not None and first.leaves_s + _GET_OUT_S < pressing_s
        if first is None or all(_avoided(c, speed) for c in ahead) or not waits:
            return THRUST_LIMIT  # leave the path of the crossing road user
        return _hold_or_pass(first, speed)
    if first is not None and first.later and _to_stand(speed, first.to_m) <= COMFORT:
        first = None  # the car can still stop after it has left the junction
    asked = _asked(values, speed)
    held = first is not None or values.get("traffic_light") in ("red", "yellow")
    if values.get("in_junction"):
        if over_m is not None and held:
            needs = _to_stand(speed, _OVER_M - over_m)
            if needs <= BRAKE_LIMIT or speed < _CREEPING:
                return -max(needs, asked, _FIRM)
        if first is not None:
            return _hold_or_pass(first, speed, asked)
        # Nobody is coming: leave the junction instead of stopping in it.
        clears = max(-COMFORT, min(1.5, 1.5 * (CLEARS_KMH / 3.6 - speed)))
        return min(clears, -asked) if asked > 0.0 else clears
    line = values.get("stop_line_distance")
    if line is not None:
        needs = _to_stand(speed, line - _MARGIN_M)
        room = line + _OVER_M if first is None else min(first.to_m, line + _OVER_M)
        over = _to_stand(speed, max(room, line))
        if held or values.get("traffic_jam"):
            if over <= BRAKE_LIMIT or speed < _CREEPING:
                return -min(BRAKE_LIMIT, max(COMFORT, needs, asked))
        elif COMFORT < needs <= _FIRM:
            return -max(needs, asked)  # otherwise the car would stop in the junction
    if first is not None:
        return _hold_or_pass(first, speed, asked)
    if asked > COMFORT:
        return -asked
    if (values.get("side_margin") or 0.0) < 0.0:
        # The ego yields from its own lane, so it need not stop.
        return -max(asked, _EASING)
    if behind is not None:
        bearable = max(_bearable(behind, speed), 0.5 * COMFORT)
        return -max(asked, min(COMFORT, bearable))
    return -COMFORT


def _asked(values: Mapping[str, Any], speed: float) -> float:
    """Returns the braking that the vehicle ahead requires, in m/s²; 0 if no vehicle is
    near.
    """
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
        follows = closing * closing / (2.0 * max(gap - _MIN_GAP_S * speed, 0.1))
        if closing or brakes or gap < _MIN_GAP_S * speed + _BUMPER_M:
            asked = max(asked, stands, min(follows, BRAKE_LIMIT) + brakes)
    return min(BRAKE_LIMIT, asked)


def _hold_or_pass(first: Conflict, speed: float, asked: float = 0.0) -> float:
    """Returns the acceleration to stop before the conflict or, if too late, to pass."""
    needs = _to_stand(speed, first.to_m)
    if needs <= BRAKE_LIMIT or speed < _CREEPING:
        return -min(BRAKE_LIMIT, max(needs, asked, _FIRM))
    return THRUST_LIMIT if _avoided(first, speed) else -BRAKE_LIMIT


def _avoided(conflict: Conflict, speed: float) -> bool:
    """Whether the ego can accelerate now without meeting the other road user."""
    if _time_to_cover_s(conflict.clear_m, speed) < conflict.comes_s:
        return True
    return _time_to_cover_s(conflict.to_m, speed) > conflict.leaves_s


def _time_to_cover_s(distance: float, speed: float) -> float:
    """Returns the time in seconds to cover a distance at full acceleration."""
    way = 2.0 * THRUST_LIMIT * max(0.0, distance)
    return (math.sqrt(speed * speed + way) - speed) / THRUST_LIMIT


def _to_stand(speed: float, room: float) -> float:
    return speed * speed / (2.0 * max(room, 0.1))


def _bearable(behind: Behind, speed: float) -> float:
    """Returns the hardest braking that still lets the vehicle behind stop in time, in
    m/s².
    """
    follower = behind.speed
    needs = follower * _FOLLOWER_REACTS_S + follower * follower / (2 * _FOLLOWER_BRAKES)
    room = needs - behind.gap_m
    return BRAKE_LIMIT if room <= 0.0 else speed * speed / (2.0 * room)


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

_ROLLING = 0.2  # m/s², a car in gear without a driver
_STANDSTILL_KMH = 0.5


class CarActuator:
    """Slows and stops the car; `cut` permanently takes control from the driver.

    Args:
        look: Returns the car's surroundings at the newest frame. Without it, a stop
            uses only the signals of the frame.
    """

    can: frozenset[Kind] = frozenset({"alert", "slow", "stop", "cut"})
    _line_m: float | None
    _over_m: float | None
    _last_s: float

    def __init__(self, look: Callable[[], CarSurroundings] | None = None) -> None:
        self._look = look
        self.let_go()

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
        # The driver still sets the turn signals, so that others can see where it wants
        # to go.
        signal = None if proposal is None else proposal.arguments.get("turn_signal")
        if signal is None:
            return stop
        return Action("stop", {**stop.arguments, "turn_signal": signal})

    def fallback(self, frame: Frame | None = None) -> Action:
        if frame is None or not isinstance(frame.values.get("speed"), float):
            return Action("stop")
        values = frame.values
        around = (
            CarSurroundings(values["speed"] / 3.6)
            if self._look is None
            else self._look()
        )
        passed_s = round(frame.time_s - self._last_s, 6)
        self._last_s = frame.time_s
        self._see_line(values, around.speed * passed_s if passed_s > 0.0 else 0.0)
        wanted = stopping_acceleration(values, around, self._over_m)
        return Action("stop", {"acceleration": wanted})

    def _see_line(self, values: Mapping[str, Any], moved_m: float) -> None:
        """Updates how far the car is past the stop line."""
        if not values.get("in_junction"):
            self._over_m, self._line_m = None, values.get("stop_line_distance")
        elif self._over_m is not None:
            self._over_m += moved_m
        elif self._line_m is not None:
            self._over_m = max(0.0, moved_m - self._line_m)

    def let_go(self) -> None:
        """Ends the stop, so that the driver has control again."""
        self._line_m = self._over_m = None
        self._last_s = math.nan

    def obeyed(self, decision: Decision, frame: Frame) -> bool | None:
        def stops(speed: float, acceleration: float) -> bool:
            clears = frame.values.get("in_junction") is True and speed <= CLEARS_KMH + 1
            return acceleration < -0.5 or clears

        return shown(decision, frame, stops)


def shown(
    decision: Decision, frame: Frame, stops: Callable[[float, float], bool]
) -> bool | None:
    """Whether a frame shows that a car obeys a decision; None if its motion is unknown.

    Args:
        decision: The decision.
        frame: The frame.
        stops: Whether a moving car stops, given its speed in km/h and its acceleration
            in m/s².
    """
    speed, acceleration = frame.values.get("speed"), frame.values.get("acceleration")
    if not isinstance(speed, float) or not isinstance(acceleration, float):
        return None
    if decision.kind in ("stop", "cut"):
        return speed < _STANDSTILL_KMH or stops(speed, acceleration)
    if decision.kind == "slow" and decision.cap_kmh is not None:
        return speed <= decision.cap_kmh + 1.0 or acceleration < -0.5
    return True


def wanted_acceleration(action: Action | None, speed: float) -> float:
    """Returns the acceleration that an action asks for, in m/s².

    Without an action, the car coasts.
    """
    if action is None:
        return -_ROLLING
    unsaid = -COMFORT if action.name == "stop" else -_ROLLING
    wanted = amount(action, "acceleration", unsaid)
    over = speed - amount(action, CAP, math.inf) / 3.6
    if over > -0.5:
        # Slow down comfortably to the speed cap, and do not exceed it again.
        wanted = min(wanted, max(-COMFORT, -1.5 * over))
    return max(-BRAKE_LIMIT, min(THRUST_LIMIT, wanted))


def amount(action: Action, name: str, default: float) -> float:
    """Returns a numeric argument of an action, or the default if it is missing."""
    value = action.arguments.get(name)
    return default if value is None else float(value)


class Wheel:
    """Interprets the actions of an episode, and remembers if the driver is cut off."""

    def __init__(self) -> None:
        self._cut = False

    def take(
        self, action: Action | None, values: Mapping[str, Any], speed: float
    ) -> tuple[Action | None, float]:
        """Returns the action that takes effect, and the acceleration in m/s².

        After a `cut`, no action takes effect, and the car brakes.

        Args:
            action: The action to carry out.
            values: The signals of the current frame.
            speed: The ego's speed in m/s.
        """
        self._cut = self._cut or (action is not None and action.name == CUT.name)
        if self._cut:
            return None, -BRAKE_LIMIT
        action = as_control(action, values)
        return action, wanted_acceleration(action, speed)


FASTEST_KMH = 130.0

DRIVE = ActionSpec(
    "drive",
    {
        "speed_kmh": number(0.0, FASTEST_KMH, "km/h", required=True),
        "stop": word("no", "at_line", "now"),
        "turn_signal": word("auto", *TURN_SIGNALS),
        "lane": word("keep", "left", "right"),
        CAP: number(0.0, unit="km/h"),
    },
)
CAR_ACTIONS = Actions(CONTROL, DRIVE, STOP, CUT)

_FLAT = re.compile(r"\{[^{}]*\}")
_THRUST = 2.0  # m/s²
_HEADWAY_S, _ROOM_M = 1.5, 2.0
_SETTLING_S = 0.8
_LINE_BRAKES = 2.0  # m/s²
_SHORT_OF_LINE_M = 1.0


class DrivingChoice(Strict):
    """The speed, turn signal and lane that a driver chooses until the next choice."""

    speed_kmh: float = Field(
        ge=0, le=FASTEST_KMH, description="the speed to drive at, km/h"
    )
    stop: Literal["no", "at_line", "now"] = Field(
        default="no", description="stop before the stop line ahead, or at once"
    )
    turn_signal: Literal["auto", "off", "left", "right", "hazard"] = Field(
        default="auto", description="auto: before a turn, as everyone does"
    )
    lane: Literal["keep", "left", "right"] = Field(
        default="keep", description="go over to the next lane, once"
    )

    @property
    def action(self) -> Action:
        return Action(DRIVE.name, self.model_dump(exclude_defaults=True))

    @property
    def held(self) -> DrivingChoice:
        """The same choice without its lane change, for the frames after the first."""
        return self.model_copy(update={"lane": "keep"})


HALT = DrivingChoice(speed_kmh=0.0, stop="now", turn_signal="auto", lane="keep")


def schema_text() -> str:
    """Returns the JSON schema of a choice as text, for prompts."""
    properties = {
        name: {key: value for key, value in about.items() if key != "title"}
        for name, about in DrivingChoice.model_json_schema()["properties"].items()
    }
    return json.dumps(
        {
            "type": "object",
            "properties": properties,
            "required": ["speed_kmh"],
            "additionalProperties": False,
        }
    )


def choice_in(text: str) -> DrivingChoice:
    """Parses the last JSON object of a reply as a choice; other text is ignored.

    Raises:
        InvalidInput: The reply contains no choice.
    """
    found = _FLAT.findall(text)
    return validated(DrivingChoice, parse_json((found or [""])[-1], "reply"), "reply")


def as_control(action: Action | None, values: Mapping[str, Any]) -> Action | None:
    """Converts a `drive` action to the `control` action for the current frame.

    Other actions are returned unchanged.

    Args:
        action: The action to carry out.
        values: The signals of the current frame.
    """
    if action is None or action.name != DRIVE.name:
        return action
    arguments = dict(action.arguments)
    cap = {CAP: arguments.pop(CAP)} if CAP in arguments else {}
    choice = validated(DrivingChoice, arguments, "the action drive")
    control: dict[str, Any] = {"acceleration": _acceleration(choice, values), **cap}
    if choice.turn_signal != "auto":
        control["turn_signal"] = choice.turn_signal
    if choice.lane != "keep":
        control["lane_change"] = choice.lane
    return Action("control", control)


def _acceleration(choice: DrivingChoice, values: Mapping[str, Any]) -> float:
    speed = _number(values, "speed")
    if speed is None:
        raise InvalidInput(
            "the action `drive` requires the signal `speed`, which is missing"
        )
    v = speed / 3.6
    wanted = (choice.speed_kmh / 3.6 - v) / _SETTLING_S
    a = max(-COMFORT, min(_THRUST, wanted))
    gap = _number(values, "lead_distance")
    if gap is not None:
        a = min(a, _behind(v, gap, (_number(values, "lead_speed") or 0.0) / 3.6))
    if choice.stop == "now":
        a = min(a, -COMFORT)
    line = _number(values, "stop_line_distance")
    if choice.stop == "at_line" and line is not None:
        a = min(a, _before(v, line))
    return max(-BRAKE_LIMIT, a)


def _behind(v: float, gap: float, its: float) -> float:
    """Returns the intelligent driver model's acceleration behind a vehicle, in m/s²."""
    closing = v * (v - its) / (2.0 * math.sqrt(_THRUST * COMFORT))
    room = _ROOM_M + max(0.0, v * _HEADWAY_S + closing)
    return _THRUST * (1.0 - (room / max(gap, 0.3)) ** 2)


def _before(v: float, line: float) -> float:
    """Returns the acceleration that stops the car just before the line, in m/s²."""
    room = max(line - _SHORT_OF_LINE_M, 0.0)
    if room < 0.1 or v < 0.1 and room < _SHORT_OF_LINE_M:
        return -COMFORT
    needs = v * v / (2.0 * room)
    if needs >= _LINE_BRAKES:
        return -1.05 * needs
    return (math.sqrt(2.0 * _LINE_BRAKES * room) - v) / _SETTLING_S


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else None
