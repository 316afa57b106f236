"""How a stop brakes: for what is ahead, behind, and across the way."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action, Decision
from forewarn.plugins.driving.act import (
    BRAKE_LIMIT,
    COMFORT,
    THRUST_LIMIT,
    CarActuator,
    CarSurroundings,
    stopping_acceleration,
    wanted_acceleration,
)
from forewarn.plugins.driving.others import Conflict
from forewarn.plugins.driving.roads import beside
from forewarn.plugins.driving.scene import Behind

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
    return stopping_acceleration(
        FREE | values, CarSurroundings(speed, behind, conflicts)
    )


def test_a_free_road_is_a_comfortable_stop() -> None:
    assert stop(14.0) == -COMFORT


def test_a_red_line_is_stopped_at_as_hard_as_it_takes() -> None:
    at_red: dict[str, Any] = {"traffic_light": "red", "stop_line_distance": 16.0}
    assert stop(14.0, **at_red) == pytest.approx(-(14.0**2) / 2 / 15.0)
    assert stop(14.0, traffic_light="green", stop_line_distance=16.0) == -COMFORT


def test_close_follower_limits_the_braking() -> None:
    close, far = Behind(2.0, 16.0), Behind(60.0, 14.0)
    assert -COMFORT < stop(14.0, behind=close) < 0
    assert stop(14.0, behind=far) == -COMFORT


def test_danger_ahead_outweighs_following_traffic() -> None:
    danger: dict[str, Any] = {"time_to_collision": 1.2, "required_deceleration": 6.0}
    assert stop(14.0, behind=Behind(4.0, 14.0), **danger) == pytest.approx(-7.2)
    hopeless: dict[str, Any] = {"time_to_collision": 0.3, "required_deceleration": 40.0}
    assert stop(14.0, **hopeless) == -BRAKE_LIMIT


def test_car_leaves_the_junction_if_it_is_clear() -> None:
    assert stop(2.0, in_junction=True) > 0
    assert stop(12.0, in_junction=True) < 0, "slowly, though"


def test_car_holds_before_the_path_of_crossing_traffic() -> None:
    comes = Conflict(3.0, 20.0, 2.0, 3.0)
    assert stop(7.0, comes, in_junction=True) == pytest.approx(-(7.0**2) / 6.0)
    assert stop(0.0, Conflict(0.5, 10.0, 0.5, 1.5), in_junction=True) <= 0


def test_a_junction_is_left_if_somebody_comes_only_in_the_next_one() -> None:
    next_one = Conflict(20.0, 30.0, 2.0, 3.0, later=True)
    assert stop(2.0, next_one, in_junction=True) > 0
    assert stop(2.0, next_one._replace(later=False), in_junction=True) < 0
    close = next_one._replace(to_m=0.5)
    assert stop(2.0, close, in_junction=True) <= -COMFORT, "it could not stop later"


def test_stopped_car_does_not_roll_towards_crossing_traffic() -> None:
    far = Conflict(30.0, 40.0, 2.0, 3.0)
    assert stop(0.3, far, in_junction=True) <= -COMFORT
    assert stop(8.0, far, in_junction=True) <= -COMFORT
    slowly: dict[str, Any] = {"in_junction": True, "time_to_collision": 3.9}
    assert stop(0.2, Conflict(1.0, 9.0, 2.0, 3.0), **slowly) <= -COMFORT


def test_a_vehicle_ahead_counts_more_than_the_line_behind_it() -> None:
    at_red: dict[str, Any] = {"traffic_light": "red", "stop_line_distance": 33.0}
    queue: dict[str, Any] = {
        "lead_distance": 10.0,
        "lead_speed": 0.0,
        "lead_acceleration": 0.0,
    }
    needs = 9.0**2 / 2 / 8.0
    assert stop(9.0, **at_red) == -COMFORT
    assert -BRAKE_LIMIT < stop(9.0, **at_red, **queue) <= -needs
    assert stop(9.0, **queue) <= -needs
    assert stop(3.0, in_junction=True, **queue | {"lead_distance": 1.0}) < -COMFORT


def test_the_braking_of_a_vehicle_ahead_is_answered_before_it_is_close() -> None:
    steady: dict[str, Any] = {
        "lead_distance": 25.0,
        "lead_speed": 104.0,
        "lead_acceleration": 0.0,
    }
    brakes = steady | {"lead_acceleration": -7.0}
    assert stop(30.0, **brakes) < stop(30.0, **steady) - 2.0
    away: dict[str, Any] = {
        "lead_distance": 25.0,
        "lead_speed": 130.0,
        "lead_acceleration": 0.0,
    }
    assert stop(30.0, **away) == -COMFORT


def test_stopping_slightly_past_the_line_counts_as_stopping() -> None:
    at_red: dict[str, Any] = {"traffic_light": "red", "stop_line_distance": 5.0}
    assert 9.0**2 / 2 / 4.0 > BRAKE_LIMIT
    assert stop(9.0, **at_red) == -BRAKE_LIMIT
    assert stop(14.0, **at_red) == -COMFORT, "too late: it is driven over"


def test_car_overruns_the_line_only_up_to_crossing_traffic() -> None:
    near: dict[str, Any] = {"stop_line_distance": 4.0, "priority_vehicle": True}
    assert stop(9.0, Conflict(7.0, 15.0, 2.0, 3.0), **near) == -BRAKE_LIMIT
    in_time = Conflict(4.0, 12.0, 3.0, 4.0)
    assert stop(9.0, in_time, **near) == THRUST_LIMIT, "it cannot stand, and goes first"
    at_once = Conflict(4.0, 12.0, 0.4, 1.5)
    assert stop(9.0, at_once, **near) == -BRAKE_LIMIT


def test_ways_that_merge_are_too_close_long_before_they_meet() -> None:
    main = [(0.0, 0.0), (60.0, 0.0)]
    ramp = [(0.0, 6.0), (60.0, 0.0)]
    assert beside(ramp, main, 60.0) == pytest.approx(37.0, abs=0.5)
    across = [(30.0, -20.0), (30.0, 20.0)]
    assert beside(across, main, 20.0) == pytest.approx(17.75, abs=0.3)
    apart = [(0.0, 9.0), (60.0, 9.0)]
    assert beside(apart, main, 60.0) == 60.0


def test_a_stop_before_a_free_junction_does_not_end_in_it() -> None:
    at_green: dict[str, Any] = {"traffic_light": "green", "stop_line_distance": 15.0}
    assert stop(10.0, **at_green) == pytest.approx(-(10.0**2) / 28.0)
    jammed: dict[str, Any] = {"traffic_jam": True, "stop_line_distance": 6.0}
    assert stop(9.0, **jammed) == pytest.approx(-(9.0**2) / 10.0)


def test_a_stop_remembers_how_far_beyond_its_line_it_is() -> None:
    speed, times = 6.0, count()
    once = CarActuator(lambda: CarSurroundings(speed))

    def stopping(values: dict[str, Any]) -> float:
        frame = Frame(next(times) / 10, 0, values | {"speed": 3.6 * speed})
        return float(once.fallback(frame).arguments["acceleration"])

    before = FREE | {"traffic_light": "red", "stop_line_distance": 0.5}
    inside = FREE | {"traffic_light": "red", "in_junction": True}
    stopping(before)
    assert stopping(inside) <= -6.0
    speed = 0.0
    assert stopping(inside) < 0, "and there it stands"
    assert stopping(inside | {"traffic_light": "green"}) > 0
    once.let_go()
    speed = 3.0
    assert stopping(inside) > 0, "it began in the junction"


def test_car_in_the_next_lane_causes_no_stop() -> None:
    assert -COMFORT < stop(26.0, side_margin=-3.0) < -0.5
    assert stop(26.0, side_margin=3.0) == -COMFORT
    danger: dict[str, Any] = {"time_to_collision": 1.5, "required_deceleration": 6.0}
    assert stop(26.0, side_margin=-3.0, **danger) == pytest.approx(-7.2)


def test_the_turn_signal_stays_the_drivers() -> None:
    wish = {"acceleration": 1.0, "turn_signal": "left", "lane_change": "left"}
    decision, frame = Decision("stop", 0, 0.0), Frame(0.0, 0, {})
    stopped = CarActuator().carry_out(decision, Action("control", wish), frame)
    assert stopped == Action("stop", {"turn_signal": "left"})
    assert CarActuator().carry_out(decision, None, frame) == Action("stop")


def test_a_car_that_cannot_stop_clears_the_conflict_first() -> None:
    too_close = Conflict(1.0, 9.0, 3.0, 4.0)
    assert stop(10.0, too_close, in_junction=True) == THRUST_LIMIT
    no_way_out = Conflict(1.0, 9.0, 0.3, 1.5)
    assert stop(10.0, no_way_out, in_junction=True) == -BRAKE_LIMIT


def test_car_clears_the_path_of_another_without_blocking_a_third() -> None:
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
