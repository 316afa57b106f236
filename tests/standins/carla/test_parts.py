"""Parts of the stand-in by themselves: bicycles, boxes, rays, maps, programmes."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.plugins.sumo.support import MAPS
from forewarn.standins.carla import roads
from forewarn.standins.carla.actors import (
    GREEN,
    RED,
    TrafficLight,
    Vehicle,
    compose,
    turned,
)
from forewarn.standins.carla.lights import Group, Phase
from forewarn.standins.carla.motion import MAX_STEER_DEG, SIDEWAYS, move, touching
from forewarn.standins.carla.roads import SIGNS


def held(speed: float, steer: float) -> list[float]:
    """An Ackermann control that keeps a speed."""
    return [math.radians(MAX_STEER_DEG * steer), 0.0, speed, 0.0, 0.0]


shares = st.floats(0, 1)
angles = st.floats(-180, 180)
places = st.floats(-50, 50)
DT = 0.05


def car(
    at: tuple[float, float, float] = (0.0, 0.0, 0.0), speed: float = 0.0
) -> Vehicle:
    x, y, yaw = at
    return Vehicle(
        1, "vehicle.tesla.model3", (x, y, 0.0, 0.0, yaw, 0.0), half=(2.4, 1.0, 0.75),
        speed=speed,
    )  # fmt: skip


@given(throttle=shares, brake=shares, speed=st.floats(0, 60), steer=st.floats(-1, 1))
def test_a_step_moves_by_the_mean_speed(
    throttle: float, brake: float, speed: float, steer: float
) -> None:
    body = car(speed=speed)
    body.control[:3] = [throttle, steer, brake]
    move(body, DT)
    assert 0.0 <= body.speed <= 70.0
    assert body.speed <= speed + 4.0 * DT + 1e-9
    assert body.speed >= speed - 9.2 * DT - 1e-9
    if steer == 0.0:
        way = math.hypot(*body.at[:2])
        assert way == pytest.approx((speed + body.speed) / 2.0 * DT, abs=1e-9)


@given(speed=st.floats(1, 60), steer=st.floats(-1, 1))
def test_no_turn_exceeds_the_grip_of_the_tyres(speed: float, steer: float) -> None:
    body = car(speed=speed)
    body.ackermann = held(speed, steer)
    move(body, DT)
    sideways = abs(math.radians(body.spin[2])) * speed
    assert sideways <= SIDEWAYS + 1e-6
    if abs(steer) > 1e-3:
        assert math.copysign(1, body.spin[2]) == math.copysign(1, steer)


@given(steer=st.floats(0.05, 1), speed=st.floats(1, 5))
def test_a_full_circle_ends_where_it_began(steer: float, speed: float) -> None:
    body = car(speed=speed)
    body.ackermann = held(speed, steer)
    move(body, 0.01)
    whole = 360.0 / abs(body.spin[2])
    steps = 200
    body = car(speed=speed)
    body.ackermann = held(speed, steer)
    for _ in range(steps):
        move(body, whole / steps)
    assert math.hypot(*body.at[:2]) < 0.02 * speed * whole


@given(x=places, y=places, one=angles, other=angles)
def test_contact_is_mutual_and_only_at_short_distance(
    x: float, y: float, one: float, other: float
) -> None:
    a = car((0.0, 0.0, one))
    b = car((x, y, other))
    b.number = 2
    touch = any(met for _, met in touching([a], [b]))
    assert touch == any(met for _, met in touching([b], [a]))
    if touch:
        assert math.hypot(x, y) <= 2 * math.hypot(2.4, 1.0)
    if math.hypot(x, y) < 2.0:
        assert touch


@given(yaw=angles, x=places, y=places)
def test_a_mounted_sensor_keeps_its_distance_to_the_vehicle(
    yaw: float, x: float, y: float
) -> None:
    parent = (3.0, -2.0, 0.5, 0.0, yaw, 0.0)
    at = compose(parent, (x, y, 1.0, 0.0, 30.0, 0.0))
    assert math.dist(at[:2], parent[:2]) == pytest.approx(math.hypot(x, y), abs=1e-6)
    assert at[2] == 1.5
    assert abs(turned(at[4] - yaw - 30.0)) < 1e-6


@pytest.mark.parametrize("path", sorted(MAPS.glob("*.xodr")), ids=lambda p: p.stem)
def test_a_prepared_map_has_everything_that_clients_query(path: Path) -> None:
    text = roads.prepared(path.read_text(encoding="utf-8"))
    root = ET.fromstring(text)  # noqa: S314  ours
    assert "lat_0" in (root.findtext("header/geoReference") or "")
    types = {signal.get("type") for signal in root.iter("signal")}
    assert types <= {roads.TRAFFIC_LIGHT, *SIGNS}
    loops = [r for r in root.iter("road") if r.get("name") == roads.LOOP]
    again = ET.fromstring(roads.prepared(text))  # noqa: S314  ours
    assert len(loops) == len(
        [r for r in again.iter("road") if r.get("name") == roads.LOOP]
    )
    numbers = [road.get("id") for road in root.iter("road")]
    assert len(numbers) == len(set(numbers))


def test_a_light_program_runs_and_can_be_changed() -> None:
    lights = {0: TrafficLight(1, "a", (0.0,) * 6), 1: TrafficLight(2, "b", (0.0,) * 6)}
    group = Group(
        "", lights,
        [Phase(2.0, "Gr"), Phase(1.0, "yr"), Phase(1.0, "rr"), Phase(3.0, "rG")],
    )  # fmt: skip
    group.reset()
    shown = []
    for _ in range(70):
        shown.append((lights[0].colour, lights[1].colour))
        group.step(0.1)
    assert shown.count((GREEN, RED)) == 20 and shown.count((RED, GREEN)) == 30
    group.reset()
    group.force(lights[1], GREEN)
    assert lights[1].colour == GREEN and group.letters() == "GG"
    group.freeze(True)
    group.step(100.0)
    assert lights[1].colour == GREEN and lights[1].frozen
