"""What an agent that drives chooses, and how the car then keeps to it.

The action `drive` carries a choice of the kind that people speak of: a speed, a stop,
a turn signal, a lane. A world makes `control` of it in every frame. The car keeps to
what was chosen and runs into nobody ahead of it; lights, people and those who go first
are the agent's to look at.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.files import parse_json
from forewarn.abstractions.serial import Strict, validated
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.actions import CAP, ActionSpec, number, word
from forewarn.plugins.driving.act import TURN_SIGNALS
from forewarn.plugins.driving.stopping import BRAKE_LIMIT, COMFORT

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

_FLAT = re.compile(r"\{[^{}]*\}")
_THRUST = 2.0  # m/s²
_HEADWAY_S, _ROOM_M = 1.5, 2.0
_SETTLES_S = 0.8
_LINE_BRAKES = 2.0  # m/s²
_STOPS_SHORT_M = 1.0


class Choice(Strict):
    """How to drive until something else is chosen."""

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
    def held(self) -> Choice:
        """The choice from the next frame on: a lane is changed once."""
        return self.model_copy(update={"lane": "keep"})


HALT = Choice(speed_kmh=0.0, stop="now", turn_signal="auto", lane="keep")


def schema_text() -> str:
    """The JSON schema of a choice, for who must write one."""
    properties = {
        name: {key: value for key, value in about.items() if key != "title"}
        for name, about in Choice.model_json_schema()["properties"].items()
    }
    return json.dumps(
        {
            "type": "object",
            "properties": properties,
            "required": ["speed_kmh"],
            "additionalProperties": False,
        }
    )


def choice_in(text: str) -> Choice:
    """The choice that a reply ends with, after whatever words.

    Raises:
        InvalidInput: It holds none.
    """
    found = _FLAT.findall(text)
    return validated(Choice, parse_json((found or [""])[-1], "reply"), "reply")


def as_control(action: Action | None, values: Mapping[str, Any]) -> Action | None:
    """A `drive` as the `control` that keeps to it now; any other action as it is.

    Args:
        action: What is carried out.
        values: The signals of the frame on which it is.
    """
    if action is None or action.name != DRIVE.name:
        return action
    arguments = dict(action.arguments)
    cap = {CAP: arguments.pop(CAP)} if CAP in arguments else {}
    choice = validated(Choice, arguments, "the action drive")
    control: dict[str, Any] = {"acceleration": _acceleration(choice, values), **cap}
    if choice.turn_signal != "auto":
        control["turn_signal"] = choice.turn_signal
    if choice.lane != "keep":
        control["lane_change"] = choice.lane
    return Action("control", control)


def _acceleration(choice: Choice, values: Mapping[str, Any]) -> float:
    speed = _number(values, "speed")
    if speed is None:
        raise InvalidInput("the car does not know its speed")
    v = speed / 3.6
    wanted = (choice.speed_kmh / 3.6 - v) / _SETTLES_S
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
    """The intelligent driver model's braking for what is ahead."""
    closing = v * (v - its) / (2.0 * math.sqrt(_THRUST * COMFORT))
    room = _ROOM_M + max(0.0, v * _HEADWAY_S + closing)
    return _THRUST * (1.0 - (room / max(gap, 0.3)) ** 2)


def _before(v: float, line: float) -> float:
    """Braking that ends a little before the line: evenly, or as hard as it takes."""
    room = max(line - _STOPS_SHORT_M, 0.0)
    if room < 0.1 or v < 0.1 and room < _STOPS_SHORT_M:
        return -COMFORT
    needs = v * v / (2.0 * room)
    if needs >= _LINE_BRAKES:
        return -1.05 * needs
    return (math.sqrt(2.0 * _LINE_BRAKES * room) - v) / _SETTLES_S


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else None
