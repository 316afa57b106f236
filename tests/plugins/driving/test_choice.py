"""What an agent chooses: read strictly, and driven without hitting who is ahead."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.errors import InvalidInput
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.driving.act import (
    BRAKE_LIMIT,
    FASTEST_KMH,
    HALT,
    DrivingChoice,
    as_control,
    choice_in,
    schema_text,
)

DT = 0.1


@pytest.mark.parametrize(
    ("text", "speed"),
    [
        ('{"speed_kmh": 30}', 30.0),
        ('```json\n{"speed_kmh": 12.5, "stop": "at_line"}\n```', 12.5),
        ('I was at {"speed_kmh": 50}, now: {"speed_kmh": 20}', 20.0),
    ],
)
def test_a_reply_is_read_wherever_the_choice_stands(text: str, speed: float) -> None:
    assert choice_in(text).speed_kmh == speed


@pytest.mark.parametrize(
    "text",
    [
        "", "no", "{}", "[30]", '{"speed_kmh": "30"}', '{"speed_kmh": -1}',
        '{"speed_kmh": 131}', '{"speed_kmh": NaN}', '{"speed_kmh": 1e999}',
        '{"speed_kmh": true}', '{"speed_kmh": 30, "stop": true}',
        '{"speed_kmh": 30, "acceleration": 9}', '{"speed_kmh": 30, "lane": "up"}',
        '{"speed_kmh": 30, "speed_kmh": 50}', '{"speed_kmh": {"a": 1}}',
    ],
)  # fmt: skip
def test_invalid_choice_is_rejected(text: str) -> None:
    with pytest.raises(InvalidInput):
        choice_in(text)


@given(st.text(alphabet='{}[]":,speed_kmhtop0123456789.eE-nul ', max_size=200))
def test_any_text_is_a_choice_or_refused(text: str) -> None:
    try:
        found = choice_in(text)
    except InvalidInput:
        return
    assert 0.0 <= found.speed_kmh <= FASTEST_KMH


def test_the_schema_says_what_is_accepted() -> None:
    schema = json.loads(schema_text())
    assert schema["required"] == ["speed_kmh"]
    assert set(schema["properties"]) == set(DrivingChoice.model_fields)
    assert schema["properties"]["speed_kmh"]["maximum"] == FASTEST_KMH


def test_other_actions_are_unchanged() -> None:
    for action in (None, Action("stop"), Action("control", {"acceleration": 1.0})):
        assert as_control(action, {}) is action


def test_a_car_that_knows_no_speed_is_not_driven() -> None:
    with pytest.raises(InvalidInput, match="requires the signal `speed`"):
        as_control(HALT.action, {})


def test_only_chosen_signals_are_described() -> None:
    choice = DrivingChoice(speed_kmh=30, turn_signal="left", lane="left")
    told = as_control(choice.action, {"speed": 30.0})
    assert told == Action(
        "control", {"acceleration": 0.0, "turn_signal": "left", "lane_change": "left"}
    )
    told = as_control(choice.held.action, {"speed": 30.0})
    assert told is not None and "lane_change" not in told.arguments
    capped = Action("drive", {**HALT.action.arguments, "speed_cap_kmh": 20.0})
    told = as_control(capped, {"speed": 30.0})
    assert told is not None and told.arguments["speed_cap_kmh"] == 20.0


def accelerations(choice: DrivingChoice, **values: Any) -> float:
    told = as_control(choice.action, values)
    assert told is not None
    acceleration: float = told.arguments["acceleration"]
    return acceleration


@given(
    speed=st.floats(0, 200),
    wanted=st.floats(0, FASTEST_KMH),
    stop=st.sampled_from(["no", "at_line", "now"]),
    line=st.none() | st.floats(0, 200),
    gap=st.none() | st.floats(0, 100),
    its=st.floats(0, 200),
)
def test_commands_to_the_car_are_bounded(
    speed: float,
    wanted: float,
    stop: Any,
    line: float | None,
    gap: float | None,
    its: float,
) -> None:
    a = accelerations(
        DrivingChoice(speed_kmh=wanted, stop=stop),
        speed=speed,
        stop_line_distance=line,
        lead_distance=gap,
        lead_speed=None if gap is None else its,
    )
    assert math.isfinite(a) and -BRAKE_LIMIT <= a <= 2.0
    if stop == "now":
        assert a < 0.0


@given(speed=st.floats(10, 60), line=st.floats(40, 150))
def test_at_the_line_means_a_little_before_it(speed: float, line: float) -> None:
    choice, v, hardest = (
        DrivingChoice(speed_kmh=speed, stop="at_line"),
        speed / 3.6,
        0.0,
    )
    for _ in range(900):
        a = accelerations(choice, speed=3.6 * v, stop_line_distance=line)
        before, v = v, max(0.0, v + a * DT)
        line -= (before + v) / 2.0 * DT
        hardest = min(hardest, a)
    assert v < 0.1 and 0.2 < line < 3.0
    assert hardest > -5.0, "it had the room"


@given(
    speed=st.floats(0, 100),
    wanted=st.floats(0, FASTEST_KMH),
    its=st.floats(0, 80),
    room_s=st.floats(1.5, 4.0),
)
def test_car_ahead_is_not_counted_as_met(
    speed: float, wanted: float, its: float, room_s: float
) -> None:
    """The vehicle ahead brakes as hard as usual, and then stands."""
    v, lead = speed / 3.6, its / 3.6
    gap = 5.0 + room_s * v + max(0.0, v * v - lead * lead) / 8.0
    choice = DrivingChoice(speed_kmh=wanted)
    for step in range(600):
        a = accelerations(
            choice, speed=3.6 * v, lead_distance=max(gap, 0.0), lead_speed=3.6 * lead
        )
        slower = max(0.0, lead - 4.0 * DT) if step > 50 else lead
        before, v = v, max(0.0, v + a * DT)
        gap += ((lead + slower) - (before + v)) / 2.0 * DT
        lead = slower
        assert gap > 0.0
