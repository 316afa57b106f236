"""Foresight: ages that begin and end, what is asked and not done, the car ahead."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.plugins.driving.foresight import NAMES, Foresight

DRIVING = load_vocabulary("driving")
CALM: dict[str, Any] = {
    "speed": 36.0, "acceleration": 0.0, "braking": False, "stop_line_distance": None,
    "required_deceleration": None, "turn_signal": "off", "priority_vehicle": False,
    "priority_pedestrian": False, "traffic_jam": False, "lead_distance": None,
    "lead_speed": None,
}  # fmt: skip


def seen(*changes: dict[str, Any]) -> list[dict[str, Any]]:
    foresight = Foresight(0.1)
    return [foresight.of({**CALM, **change}) for change in changes]


def test_without_a_road_user_ahead_signals_are_none() -> None:
    (found,) = seen({})
    assert tuple(found) == NAMES
    assert {name for name, value in found.items() if value is not None} == {
        "unanswered_age"
    }
    assert found["unanswered_age"] == 0.0


def test_the_line_asks_whatever_the_light() -> None:
    (found,) = seen({"stop_line_distance": 10.0, "acceleration": -2.0})
    assert found["line_deceleration"] == 5.0
    assert found["line_shortfall"] == 3.0
    (on_it,) = seen({"stop_line_distance": 0.0, "speed": 300.0})
    assert on_it["line_deceleration"] == 1000.0


def test_a_demand_is_unanswered_until_the_car_brakes() -> None:
    asks = {"required_deceleration": 3.0}
    brakes = {**asks, "braking": True, "acceleration": -1.0}
    found = seen(asks, asks, asks, brakes, asks, {"required_deceleration": 1.0})
    assert [each["unanswered_age"] for each in found] == [0, 0.1, 0.2, 0, 0, 0]
    assert [each["shortfall"] for each in found] == [3, 3, 3, 2, 3, 1]


def test_ages_count_from_when_it_began() -> None:
    left, right = {"turn_signal": "left"}, {"turn_signal": "right"}
    found = seen({}, left, left, right, right, {"turn_signal": "hazard"})
    assert [e["turn_signal_age"] for e in found] == [None, 0, 0.1, 0, 0.1, None]
    found = seen({"speed": 0.4}, {"speed": 0.0}, {"speed": 0.5}, {"speed": 0.1})
    assert [each["standing_age"] for each in found] == [0, 0.1, None, 0]
    person, car = {"priority_pedestrian": True}, {"priority_vehicle": True}
    found = seen(person, car, {}, {"traffic_jam": True})
    assert [each["giving_way_age"] for each in found] == [0, 0.1, None, None]
    assert found[3]["jam_age"] == 0


def test_the_car_ahead_brakes_and_another_one_is_not_its_braking() -> None:
    def ahead(distance: float, speed: float) -> dict[str, Any]:
        return {"lead_distance": distance, "lead_speed": speed}

    slowing = [ahead(30, 36.0 - 1.8 * i) for i in range(20)]
    found = seen(*slowing, ahead(60, 90.0), {}, ahead(60, 90.0))
    assert found[0]["lead_acceleration"] == 0.0
    assert found[19]["lead_acceleration"] < -4.9
    assert [each["lead_acceleration"] for each in found[20:]] == [0.0, None, 0.0]
    assert found[0]["headway"] == 3.0
    (slow,) = seen({**ahead(5, 0.0), "speed": 1.0})
    assert slow["headway"] is None


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "speed": st.floats(0, 300),
                "acceleration": st.floats(-500, 500),
                "stop_line_distance": st.none() | st.floats(0, 1000),
                "required_deceleration": st.none() | st.floats(0, 1000),
                "lead_distance": st.none() | st.floats(0, 1000),
                "lead_speed": st.none() | st.floats(0, 300),
                "turn_signal": st.sampled_from(["off", "left", "right", "hazard"]),
                "priority_vehicle": st.booleans(),
            }
        ),
        max_size=20,
    )
)
def test_foresight_signals_are_in_their_ranges(frames: list[dict[str, Any]]) -> None:
    for found in seen(*frames):
        for name, value in found.items():
            DRIVING.check_value(name, value)
