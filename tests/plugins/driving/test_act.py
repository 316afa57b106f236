"""How a stop brakes: for what is ahead, behind, and across the way."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.driving.act import (
    BRAKE_LIMIT,
    COMFORT,
    THRUST_LIMIT,
    Behind,
    Conflict,
    stopping_acceleration,
    wanted_acceleration,
)

FREE: dict[str, Any] = {
    "in_junction": False,
    "stop_line_distance": None,
    "traffic_light": None,
    "time_to_collision": None,
    "required_deceleration": None,
}


def stop(
    speed: float,
    *conflicts: Conflict,
    behind: Behind | None = None,
    **values: Any,
) -> float:
    return stopping_acceleration(FREE | values, speed, behind, conflicts)


def test_a_free_road_is_a_comfortable_stop() -> None:
    assert stop(14.0) == -COMFORT


def test_a_red_line_is_stopped_at_as_hard_as_it_takes() -> None:
    at_red = {"traffic_light": "red", "stop_line_distance": 16.0}
    assert stop(14.0, **at_red) == pytest.approx(-(14.0**2) / 2 / 15.0)
    assert stop(14.0, traffic_light="green", stop_line_distance=16.0) == -COMFORT


def test_whoever_follows_closely_is_not_braked_into() -> None:
    close, far = Behind(2.0, 16.0), Behind(60.0, 14.0)
    assert -COMFORT < stop(14.0, behind=close) < 0
    assert stop(14.0, behind=far) == -COMFORT


def test_danger_ahead_counts_more_than_who_follows() -> None:
    danger = {"time_to_collision": 1.2, "required_deceleration": 6.0}
    assert stop(14.0, behind=Behind(4.0, 14.0), **danger) == pytest.approx(-7.2)
    hopeless = {"time_to_collision": 0.3, "required_deceleration": 40.0}
    assert stop(14.0, **hopeless) == -BRAKE_LIMIT


def test_a_junction_is_left_if_nobody_comes() -> None:
    assert stop(2.0, in_junction=True) > 0
    assert stop(12.0, in_junction=True) < 0, "slowly, though"


def test_it_holds_before_the_way_of_those_who_come() -> None:
    comes = Conflict(10.0, 20.0, 2.0, 3.0)
    assert stop(7.0, comes, in_junction=True) == pytest.approx(-(7.0**2) / 20.0)
    assert stop(0.0, Conflict(0.5, 10.0, 0.5, 1.5), in_junction=True) <= 0


def test_it_goes_first_where_it_can_no_longer_hold() -> None:
    too_close = Conflict(1.0, 9.0, 3.0, 4.0)
    assert stop(10.0, too_close, in_junction=True) == THRUST_LIMIT
    no_way_out = Conflict(1.0, 9.0, 0.3, 1.5)
    assert stop(10.0, no_way_out, in_junction=True) == -BRAKE_LIMIT


def test_it_gets_out_of_somebodys_way_but_not_into_another() -> None:
    inside = Conflict(-3.0, 6.0, 2.0, 3.0)
    assert stop(3.0, inside, in_junction=True) == THRUST_LIMIT
    later = Conflict(-3.0, 6.0, 5.5, 6.5)
    next_one = Conflict(4.0, 13.0, 0.8, 1.8)
    assert stop(3.0, later, next_one, in_junction=True) <= 0


def test_a_cap_is_approached_gently_and_not_passed() -> None:
    def capped(speed: float) -> float:
        wish = {"acceleration": 2.0, "speed_cap_kmh": 36.0}
        return wanted_acceleration(Action("control", wish), speed)

    assert capped(20.0) == -COMFORT
    assert capped(5.0) == 2.0
    assert capped(10.0) == 0.0
    assert wanted_acceleration(None, 10.0) < 0
