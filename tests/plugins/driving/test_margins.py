"""RSS's margins on the road: behind a car, beside one, before one that crosses."""

from __future__ import annotations

import pytest

from forewarn.abstractions.frame import Frame
from forewarn.abstractions.vocabularies.vocabulary import load_vocabulary
from forewarn.plugins.driving.rss import SIGNALS, behind
from forewarn.plugins.driving.sense import PROVIDES
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Light
from tests.plugins.sumo.test_world import KEEP, LEFT, drive

pytestmark = pytest.mark.needs("libsumo")


def margins(frame: Frame) -> tuple[float, float]:
    along, across = (frame.values[name] for name in SIGNALS)
    assert isinstance(along, float) and isinstance(across, float)
    return along, across


def test_safety_margins_are_provided_on_request_only() -> None:
    world = SumoWorld(ego=LEFT, rss=True)
    frame = world.reset(0)
    assert set(frame.values) == {*PROVIDES, *SIGNALS} == set(world.source.provides)
    for name in SIGNALS:
        load_vocabulary("driving").signals[name].check(frame.values[name])
    assert frame.values[SIGNALS[0]] is None, "there is nobody"
    world.close()
    assert not set(SIGNALS) & set(SumoWorld(ego=LEFT).source.provides)


def test_behind_a_slower_car_it_is_the_gap_less_the_safe_distance() -> None:
    ahead = Car(
        route=["road"],
        lane=1,
        position_m=140,
        speed_kmh=60,
        top_speed_kmh=60,
        departs_s=1,
    )
    ego = Ego(route=["road"], lane=1, position_m=60, speed_kmh=100, departs_s=1)
    frames = drive(SumoWorld(map="highway", ego=ego, cars=[ahead], rss=True), steps=60)
    for frame in frames[5:20]:
        values = frame.values
        needed = behind(values["speed"] / 3.6, values["lead_speed"] / 3.6)
        along, across = margins(frame)
        assert along == pytest.approx(values["lead_distance"] - needed, abs=0.2)
        assert across < -1.0, "it is in the ego's own lane"
    assert margins(frames[20])[0] < margins(frames[5])[0]


def test_beside_a_car_in_the_next_lane_the_side_keeps_the_ego_safe() -> None:
    beside = Car(
        route=["road"],
        lane=2,
        position_m=62,
        speed_kmh=80,
        top_speed_kmh=80,
        departs_s=1,
    )
    ego = Ego(route=["road"], lane=1, position_m=60, speed_kmh=80, departs_s=1)
    world = SumoWorld(map="highway", ego=ego, cars=[beside], rss=True)
    for frame in drive(world, steps=30)[2:]:
        along, across = margins(frame)
        assert along < 0.0 < across < 2.0


def test_rss_is_violated_before_a_collision_at_a_crossing() -> None:
    light = Light(phase=4, left_s=60)
    stream = Flow(routes=[["east_in", "west_out"]], per_hour=1500.0)
    world = SumoWorld(ego=LEFT, light=light, flows=[stream], rss=True)
    for seed in range(6):
        frame, unsafe = world.reset(seed), 0
        while world.ended() is None:
            frame = world.step(KEEP)
            if None not in (frame.values[name] for name in SIGNALS):
                unsafe += max(margins(frame)) < 0.0
        if frame.values["collision"]:
            assert unsafe > 10, "at 40 km/h it cannot stop for a second and more"
            break
    else:
        pytest.fail("nobody was hit")
    world.close()
