"""RSS's safe distances against Intel's library, `ad-rss`."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.rss import (
    ACCELERATES,
    BRAKES_LEAST,
    BRAKES_MOST,
    RESPONSE_S,
    SIDEWAYS,
    SIDEWAYS_BRAKES,
    behind,
    beside,
    stopping,
    towards,
)

pytestmark = pytest.mark.needs("ad_rss")

SPEEDS = st.integers(0, 500).map(lambda n: n / 10)
DRIFTS = st.integers(-100, 100).map(lambda n: n / 10)


def library() -> Any:
    with warnings.catch_warnings():
        # The library registers a converter twice, which causes a warning.
        warnings.simplefilter("ignore", RuntimeWarning)
        return import_module("ad_rss")


def someone(along: float = 0.0, across: float = 0.0) -> Any:
    """A road user of the library; it also validates the fields that it does not use."""
    rss = library()
    physics = rss.physics
    who = rss.rss.core.RelativeObjectState()
    who.object_type = rss.rss.world.ObjectType.OtherVehicle
    dynamics = who.dynamics
    dynamics.alpha_lon.accel_max = physics.Acceleration(ACCELERATES)
    dynamics.alpha_lon.brake_max = physics.Acceleration(-BRAKES_MOST)
    dynamics.alpha_lon.brake_min = physics.Acceleration(-BRAKES_LEAST)
    dynamics.alpha_lon.brake_min_correct = physics.Acceleration(-BRAKES_LEAST)
    dynamics.alpha_lat.accel_max = physics.Acceleration(SIDEWAYS)
    dynamics.alpha_lat.brake_min = physics.Acceleration(-SIDEWAYS_BRAKES)
    dynamics.lateral_fluctuation_margin = physics.Distance(0.0)
    dynamics.response_time = physics.Duration(RESPONSE_S)
    dynamics.max_speed_on_acceleration = physics.Speed(100.0)
    fill(physics, dynamics.unstructured_settings)
    fill(physics, who.unstructured_object_state)
    state = who.structured_object_state
    for name, speed in (("lon", along), ("lat", across)):
        for end in ("min", "max"):
            setattr(state.velocity, f"speed_{name}_{end}", physics.Speed(speed))
    state.has_priority, state.is_in_correct_lane = False, True
    state.distance_to_enter_intersection = physics.Distance(0.0)
    state.distance_to_leave_intersection = physics.Distance(0.0)
    return who


def fill(physics: Any, record: Any) -> None:
    quantities = (
        physics.Angle, physics.AngularAcceleration, physics.AngularVelocity,
        physics.Distance, physics.Duration, physics.Speed,
    )  # fmt: skip
    for name in dir(record):
        if not name.startswith("_") and name != "assign":
            value = getattr(record, name)
            if isinstance(value, quantities):
                setattr(record, name, type(value)(1.0))
            elif not isinstance(value, int):
                fill(physics, value)


def by_library(formula: str, one: Any, other: Any) -> float:
    rss = library()
    found = rss.physics.Distance(0.0)
    assert getattr(rss.rss.structured, formula)(one, other, found)
    return float(found.mDistance)


@given(speed=SPEEDS, other=SPEEDS)
def test_along_the_way(speed: float, other: float) -> None:
    one, two = someone(along=speed), someone(along=other)
    same = by_library("calculateSafeLongitudinalDistanceSameDirection", two, one)
    assert behind(speed, other) == pytest.approx(same, abs=1e-3)
    opposite = by_library(
        "calculateSafeLongitudinalDistanceOppositeDirection", one, two
    )
    assert towards(speed, other) == pytest.approx(opposite, abs=1e-3)
    assert stopping(speed) == pytest.approx(towards(speed, speed) / 2.0)


@given(left=DRIFTS, right=DRIFTS)
def test_side_by_side(left: float, right: float) -> None:
    one, two = someone(across=left), someone(across=right)
    wanted = by_library("calculateSafeLateralDistance", one, two)
    assert beside(left, right) == pytest.approx(wanted, abs=1e-3)


def test_car_moving_sideways_needs_more_lateral_distance() -> None:
    # Each may gain 0.2 m/s for a second, then brakes by 0.8 m/s².
    each = 0.1 + 0.2**2 / 1.6
    assert beside(0.0, 0.0) == pytest.approx(2 * each)
    drifting = 0.6 + 0.7**2 / 1.6
    assert beside(0.5, 0.0) == pytest.approx(drifting + each)
    assert beside(0.0, -0.5) == pytest.approx(drifting + each)
    assert beside(-2.0, 2.0) == 0.0
