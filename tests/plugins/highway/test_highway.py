"""highway-env's roads: who crashes there, what is seen coming, what the guard does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from forewarn import load_vocabulary
from forewarn.monitors.guarding.decision import Action

pytest.importorskip("highway_env", reason="highway-env is not installed")

import numpy as np
from highway_env.road.lane import StraightLane
from highway_env.road.road import Road, RoadNetwork
from highway_env.vehicle.controller import ControlledVehicle

from forewarn.plugins.driving.courses import Course
from forewarn.plugins.driving.drivers import CAP, STOP, Driver, slower
from forewarn.plugins.highway.bridge import HighwayWorld, make
from forewarn.plugins.highway.sense import RoadSenses, course


@pytest.mark.parametrize(
    ("road", "config"),
    [
        ("highway", {"vehicles_count": 5}),
        ("merge", {}),
        ("roundabout", {}),
        ("intersection", {"initial_vehicle_count": 3}),
    ],
)
def test_each_road_shows_signals_of_the_driving_vocabulary(
    road: Any, config: dict[str, Any]
) -> None:
    world = HighwayWorld(road=road, config=config)
    vocabulary = load_vocabulary("driving")
    frame = world.reset(1)
    driver = Driver()
    driver.reset(1)
    for _ in range(3):
        assert set(frame.values) == set(world.source.provides)
        for key, value in frame.values.items():
            vocabulary.check_value(key, value)
        frame = world.step(Action("act", {"action": driver.command()}))
    assert frame.values["speed"] > 0.0
    world.close()


def test_a_stop_and_a_cap_are_kept() -> None:
    world = HighwayWorld(road="highway", config={"vehicles_count": 1})
    world.reset(2)
    capped = {"action": slower([40.0, 1.0, 1.0, 40.0, 6.0], 36.0)}
    for _ in range(25):
        frame = world.step(Action("act", capped))
    assert frame.values["speed"] == pytest.approx(36.0, abs=1.0)
    for _ in range(12):
        frame = world.step(world.actuator().fallback())
    assert frame.values["speed"] < 1.0
    assert capped["action"][CAP] == pytest.approx(10.0)
    world.close()


def test_stopped_car_stands_and_does_not_roll_back() -> None:
    env: Any = make("intersection", initial_vehicle_count=1, spawn_probability=0.0)
    for pace in (9.0, 9.7, 10.0):
        env.reset(seed=2)
        ego = env.unwrapped.vehicle
        ego.speed = pace
        for _ in range(12):
            env.step(STOP)
        stood = np.array(ego.position)
        for _ in range(10):
            env.step(STOP)
        assert ego.speed == pytest.approx(0.0, abs=1e-9)
        assert np.hypot(*(ego.position - stood)) < 0.01
    env.close()


@pytest.mark.parametrize(
    ("road", "seed"), [("roundabout", 8_210_019), ("intersection", 8_210_037)]
)
def test_no_car_reverses_from_a_standing_car_ahead(road: Any, seed: int) -> None:
    env: Any = make(road, duration=40)
    env.reset(seed=seed)
    for step in range(60):
        env.step(STOP if step > 20 else [12.0, 1.0, 0.0, 40.0, 6.0])
        assert min(each.speed for each in env.unwrapped.road.vehicles) > -0.01
    env.close()


@pytest.mark.parametrize(
    ("road", "config"),
    [
        ("highway", {"vehicles_count": 1}),
        ("intersection", {"initial_vehicle_count": 1}),
    ],
)
def test_passing_the_road_ends_the_episode_as_arrived(
    road: Any, config: dict[str, Any]
) -> None:
    world = HighwayWorld(road=road, config={**config, "duration": 60})
    frame = world.reset(5)
    act = Action("act", {"action": [25.0, 1.5, 1.0, 40.0, 6.0]})
    while world.ended() is None:
        assert not frame.values["destination_reached"]
        frame = world.step(act)
    assert frame.values["destination_reached"] is not frame.values["collision"]
    assert frame.time_s < 40.0
    world.close()


def test_no_episode_begins_in_a_crash() -> None:
    env: Any = make("intersection", initial_vehicle_count=7)
    for seed in (3, 4, 5):  # in highway-env itself the second begins in one
        env.reset(seed=seed)
        ego, *_ = env.unwrapped.controlled_vehicles
        others = [each for each in env.unwrapped.road.vehicles if each is not ego]
        gaps = [np.hypot(*(each.position - ego.position)) for each in others]
        assert min(gaps, default=20.0) >= 20.0
    env.close()


def test_others_brake_now_and_then_and_drive_on() -> None:
    env: Any = make("highway", vehicles_count=6, duration=30)
    env.reset(seed=1)
    others = env.unwrapped.road.vehicles[1:]
    wanted = {id(each): each.target_speed for each in others}
    slowed, drove_on = set(), set()
    for _ in range(100):
        env.step(STOP)
        for each in others:
            if each.target_speed < wanted[id(each)]:
                slowed.add(id(each))
            elif id(each) in slowed:
                drove_on.add(id(each))
    assert drove_on
    env.close()


def lanes(**ways: tuple[tuple[float, float], tuple[float, float]]) -> Road:
    """A road of straight lanes, each by itself, from here to there."""
    network = RoadNetwork()
    for name, (here, there) in ways.items():
        network.add_lane(name, f"{name}'s end", StraightLane(here, there))
    return Road(network)


def driving(road: Road, way: str, along_m: float, aside_m: float = 0.0) -> Any:
    """Somebody who drives there at 10 m/s."""
    at = road.network.get_lane((way, f"{way}'s end", 0))
    return ControlledVehicle(
        road, at.position(along_m, aside_m), at.heading_at(along_m), 10.0,
        target_lane_index=(way, f"{way}'s end", 0),
    )  # fmt: skip


def test_simultaneous_crossing_collides_and_passing_does_not() -> None:
    road = lanes(
        east=((-20, 0), (80, 0)), north=((0, -20), (0, 80)), beside=((-20, 4), (80, 4))
    )
    ego = course(driving(road, "east", 0.0))
    crossing = course(driving(road, "north", 0.0))
    beside = course(driving(road, "beside", 0.0))
    assert ego.apart(crossing).min() < 1.0
    assert np.diagonal(ego.apart(crossing)).argmin() == 5  # after 2 s
    assert ego.apart(beside).min() == pytest.approx(4.0)


def test_car_changing_lanes_is_predicted_in_its_target_lane() -> None:
    road = lanes(east=((0, 0), (200, 0)), beside=((0, 4), (200, 4)))
    ego = course(driving(road, "east", 0.0))
    changing = course(driving(road, "east", 0.0, aside_m=4.0))
    apart_m = np.diagonal(ego.apart(changing))
    assert apart_m[0] == pytest.approx(4.0) and apart_m[-1] < 0.1
    assert (np.diff(apart_m) < 0.0).all()


@pytest.mark.parametrize("road", ["roundabout", "intersection"])
def test_a_way_that_is_kept_to_is_the_same_a_moment_later(road: Any) -> None:
    env: Any = make(road)
    env.reset(seed=8_200_000)
    before: dict[int, tuple[float, Course]] = {}
    compared = 0
    for _ in range(40):
        env.step([12.0, 1.5, 1.0, 40.0, 6.0])
        now = {id(v): (v.speed, course(v)) for v in env.unwrapped.road.vehicles}
        for who in before.keys() & now.keys():
            (then, foretold), (speed, way) = before[who], now[who]
            if abs(speed - then) < 0.3:
                # A step is half of what lies between two points of a course.
                half = (foretold.at[:-1] + foretold.at[1:]) / 2.0
                assert np.hypot(*(half - way.at[:-1]).T).max() < 5.0  # a car
                compared += 1
        before = now
    assert compared > 50
    env.close()


def test_changing_lead_vehicle_keeps_the_signal_in_its_range() -> None:
    road = lanes(east=((0, 0), (200, 0)))
    env: Any = SimpleNamespace(vehicle=driving(road, "east", 0.0), road=road)
    senses = RoadSenses()
    senses.reset(env)
    vocabulary = load_vocabulary("driving")
    told = []
    for speed in (0.0, 30.0):
        other = driving(road, "east", 20.0)
        other.speed = speed
        road.vehicles = [env.vehicle, other]
        values = senses(None, {})
        vocabulary.check_value("lead_acceleration", values["lead_acceleration"])
        told.append(values["lead_acceleration"])
    assert told == [0.0, 100.0]


def test_one_episode_does_not_change_another_on_another_road() -> None:
    def episode() -> list[Any]:
        world = HighwayWorld(road="merge")
        frames = [world.reset(3)]
        act = Action("act", {"action": [30.0, 1.0, 1.0, 40.0, 6.0]})
        frames += [world.step(act) for _ in range(4)]
        world.close()
        return frames

    before = episode()
    world = HighwayWorld(road="intersection", config={"initial_vehicle_count": 2})
    world.reset(1)
    world.close()
    assert episode() == before


def test_traits_follow_from_the_seed_and_the_distracted_look_away() -> None:
    def looks(seed: int, share: float) -> list[float]:
        driver = Driver(distracted=share)
        driver.reset(seed)
        return [driver.command()[2] for _ in range(60)]

    assert looks(1, 1.0) == looks(1, 1.0) != looks(2, 1.0)
    assert 0.0 in looks(1, 1.0) and set(looks(1, 0.0)) == {1.0}
