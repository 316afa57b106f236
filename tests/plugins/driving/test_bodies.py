"""Bodies without lanes: who leads, when they meet, who took whose place."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.driving.bodies import PROVIDES, BodySenses, meeting_s
from forewarn.plugins.driving.encroachment import Encroachments
from forewarn.plugins.driving.scene import Mover, gap_m, touches

EAST, NORTH, WEST = 0.0, math.pi / 2.0, math.pi


def car(x: float, y: float, heading: float = EAST, speed: float = 10.0) -> Mover:
    return Mover(f"{x} {y}", x, y, heading, speed, 4.0, 2.0)


def moved(body: Mover, time_s: float) -> Mover:
    far = body.speed * time_s
    x, y = body.x + far * math.cos(body.heading), body.y + far * math.sin(body.heading)
    return replace(body, x=x, y=y)


def test_lead_vehicle_is_reported_and_neighbour_is_not() -> None:
    ego = car(0.0, 0.0)
    lead, beside = car(34.0, 0.5, speed=4.0), car(20.0, 3.5, speed=0.0)
    found = BodySenses(0.1).values(0.0, ego, [beside, lead])
    assert set(found) == set(PROVIDES)
    assert found["lead_distance"] == 30.0 and found["lead_speed"] == 14.4
    assert found["time_to_collision"] == 5.0
    assert found["headway"] == 3.0
    assert found["deceleration_to_avoid_crash"] == pytest.approx(0.6)
    assert found["collision"] is False


def test_oncoming_car_is_met_but_is_not_the_lead_vehicle() -> None:
    found = BodySenses(0.1).values(0.0, car(0.0, 0.0), [car(40.0, 0.0, WEST)])
    assert found["lead_distance"] is None
    assert found["time_to_collision"] == 2.0


def test_the_gap_is_from_body_to_body() -> None:
    ego = car(0.0, 0.0)
    assert gap_m(ego, car(34.0, 0.0)) == pytest.approx(30.0)
    assert gap_m(ego, car(0.0, 5.0)) == pytest.approx(3.0)
    assert gap_m(ego, car(7.0, 6.0)) == pytest.approx(5.0), "from corner to corner"
    # Across the ego's path: its side is 2 m wide.
    assert gap_m(ego, car(11.0, 0.0, NORTH)) == pytest.approx(10.0)
    assert gap_m(ego, car(2.0, 1.0)) == 0.0


place = st.floats(-40, 40)


@given(place, place, st.floats(-3.1, 3.1), st.floats(0, 20), st.booleans())
def test_bodies_touch_when_they_are_said_to(
    x: float, y: float, heading: float, speed: float, on_foot: bool
) -> None:
    ego, other = car(0.0, 0.0), car(x, y, heading, speed)
    other.on_foot = on_foot
    meets_s = meeting_s(ego, other)

    def touch(time_s: float) -> bool:
        return touches(moved(ego, time_s), moved(other, time_s))

    if meets_s is None:
        assert not any(touch(0.25 * step) for step in range(40))
        return
    if meets_s > 1e-3:
        assert not any(touch(meets_s * share) for share in (0.0, 0.5, 0.9, 0.999))
    assert any(touch(meets_s + more) for more in (1e-6, 1e-4, 1e-3, 1e-2))


def drive(ego: Mover, other: Mover, until_s: float) -> list[float | None]:
    told = Encroachments()
    return [
        told.since_s(0.1 * step, moved(ego, 0.1 * step), [moved(other, 0.1 * step)])
        for step in range(round(until_s * 10))
    ]


def test_first_car_to_leave_a_crossing_and_its_follower_count() -> None:
    # The other's rear leaves the ego's strip, y = 1, at 2.5 s; the ego's front comes
    # to where it was, x = 19, at 3.4 s.
    ego, other = car(-15.0, 0.0), car(20.0, -20.0, NORTH)
    times = drive(ego, other, 6.0)
    first = next(i for i, each in enumerate(times) if each is not None)
    assert first == pytest.approx(34, abs=1)
    # Seen ten times a second, it is up to two frames longer.
    assert 0.9 <= (times[first] or 0.0) <= 1.1 + 1e-9
    assert min(each for each in times if each is not None) == times[first]
    # The other way round it is as long.
    back = drive(other, ego, 6.0)
    assert min(each for each in back if each is not None) == times[first]


def test_followers_and_distant_cars_do_not_block_a_path() -> None:
    assert set(drive(car(0.0, 0.0), car(12.0, 0.0), 4.0)) == {None}
    assert set(drive(car(0.0, 0.0), car(60.0, 9.0, WEST), 6.0)) == {None}
