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
    Actor,
    TrafficLight,
    Vehicle,
    compose,
    turned,
)
from forewarn.standins.carla.lights import Group, Phase
from forewarn.standins.carla.motion import SIDEWAYS, move, overlapping, ray
from forewarn.standins.carla.roads import SIGNS

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
def test_a_step_goes_as_far_as_the_mean_speed(
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
def test_no_turn_is_sharper_than_the_tyres_would_bear(
    speed: float, steer: float
) -> None:
    body = car(speed=speed)
    body.constant = (speed, 0.0, 0.0)
    body.control[1] = steer
    move(body, DT)
    sideways = abs(math.radians(body.spin[2])) * speed
    assert sideways <= SIDEWAYS + 1e-6
    if abs(steer) > 1e-3:
        assert math.copysign(1, body.spin[2]) == math.copysign(1, steer)


@given(steer=st.floats(0.05, 1), speed=st.floats(1, 5))
def test_a_circle_closes(steer: float, speed: float) -> None:
    body = car()
    body.constant, body.control[1] = (speed, 0.0, 0.0), steer
    move(body, 0.01)
    whole = 360.0 / abs(body.spin[2])
    steps = 200
    body = car()
    body.constant, body.control[1] = (speed, 0.0, 0.0), steer
    for _ in range(steps):
        move(body, whole / steps)
    assert math.hypot(*body.at[:2]) < 0.02 * speed * whole


@given(x=places, y=places, one=angles, other=angles)
def test_touching_is_mutual_and_never_far(
    x: float, y: float, one: float, other: float
) -> None:
    a = car((0.0, 0.0, one))
    b = car((x, y, other))
    b.number = 2
    touch = bool(list(overlapping(a, [b])))
    assert touch == bool(list(overlapping(b, [a])))
    if touch:
        assert math.hypot(x, y) <= 2 * math.hypot(2.4, 1.0)
    if math.hypot(x, y) < 2.0:
        assert touch


@given(away=st.floats(3, 100), yaw=angles)
def test_a_ray_meets_a_box_on_its_near_side(away: float, yaw: float) -> None:
    box = Actor(1, "static.prop.box01", (away, 0.0, 0.0, 0.0, yaw, 0.0), half=(1, 1, 1))
    met = ray((0.0, 0.0), (1.0, 0.0), box)
    assert met is not None
    assert away - math.sqrt(2.0) - 1e-6 <= met <= away - 1.0 + 1e-6
    assert ray((0.0, 0.0), (-1.0, 0.0), box) is None


@given(yaw=angles, x=places, y=places)
def test_what_is_mounted_keeps_its_distance(yaw: float, x: float, y: float) -> None:
    parent = (3.0, -2.0, 0.5, 0.0, yaw, 0.0)
    at = compose(parent, (x, y, 1.0, 0.0, 30.0, 0.0))
    assert math.dist(at[:2], parent[:2]) == pytest.approx(math.hypot(x, y), abs=1e-6)
    assert at[2] == 1.5
    assert abs(turned(at[4] - yaw - 30.0)) < 1e-6


@pytest.mark.parametrize("path", sorted(MAPS.glob("*.xodr")), ids=lambda p: p.stem)
def test_a_prepared_map_has_what_clients_look_for(path: Path) -> None:
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


def test_a_programme_runs_and_is_changed() -> None:
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
    group.last(lights[1], GREEN, 6.0)
    assert [phase.duration_s for phase in group.phases] == [2.0, 1.0, 1.0, 6.0]
    group.force(lights[1], GREEN)
    assert lights[1].colour == GREEN and group.letters() == "GG"
    group.freeze(True)
    group.step(100.0)
    assert lights[1].colour == GREEN and lights[1].frozen


def test_green_goes_on_through_the_programmes_end() -> None:
    lights = {0: TrafficLight(1, "a", (0.0,) * 6)}
    group = Group("", lights, [Phase(4.0, "G"), Phase(1.0, "r"), Phase(6.0, "g")])
    assert [[p.duration_s for p in run] for run in group.runs(0, GREEN)] == [[6.0, 4.0]]
