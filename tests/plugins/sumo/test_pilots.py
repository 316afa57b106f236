"""Drivers: bold ones break laws that careful ones keep; anyone's own can drive."""

from __future__ import annotations

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.plugins.registry import make_pilot
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.pilots import FunctionPilot, PlannerPilot, SumoDriver
from forewarn.plugins.sumo.traffic import Ego, Flow, Light

pytestmark = pytest.mark.needs("libsumo")


def steady(frame: Frame) -> float:
    return 0.5 if frame.values["speed"] < 30 else -0.5


def glide(frame: Frame) -> tuple[float, float, float]:
    return 1.0, 0.0, 0.0


NOT_A_FUNCTION = 3


def stands_at_red(driver: SumoDriver, seed: int) -> bool:
    world = SumoWorld(
        ego=Ego(route=["west_in", "east_out"], lane=2, position_m=60),
        light=Light(phase=5, left_s=3.0 + seed % 5),
    )
    frame = world.reset(seed)
    driver.reset(seed)
    while world.ended() is None and frame.time_s < 22:
        frame = world.step(driver.propose(frame))
        if frame.values["in_junction"] and frame.values["traffic_light"] == "red":
            return False
    return True


def test_careful_drivers_stop_at_red_and_bold_ones_less_often() -> None:
    seeds = range(20)
    careful = SumoDriver(profile="cautious")
    bold = SumoDriver(profile="reckless", looks_away_per_s=0.2)
    kept = sum(stands_at_red(careful, seed) for seed in seeds)
    assert kept >= 18
    assert sum(stands_at_red(bold, seed) for seed in seeds) < kept


def test_a_driver_comes_to_stand_at_the_line_within_its_law() -> None:
    world = SumoWorld(
        ego=Ego(route=["west_in", "east_out"], lane=2, position_m=60),
        light=Light(phase=7, left_s=25),
    )
    driver = SumoDriver(profile="cautious", boldness=0.0, looks_away_per_s=0.0)
    frame = world.reset(1)
    driver.reset(1)
    hardest = 0.0
    while frame.values["speed"] > 0.5 or frame.time_s < 1:
        frame = world.step(driver.propose(frame))
        hardest = min(hardest, frame.values["acceleration"])
    assert 0.3 < frame.values["stop_line_distance"] < 4
    assert hardest > -6, "an unhurried stop"
    world.close()


def test_traits_are_hidden_and_drawn_from_the_seed() -> None:
    one, other = SumoDriver(), SumoDriver()
    one.reset(5)
    other.reset(5)
    assert one.traits == other.traits
    other.reset(6)
    assert one.traits != other.traits
    world = SumoWorld(ego=Ego(route=["west_in", "east_out"], lane=2))
    assert not {"boldness", "attends"} & set(world.reset(1).values)
    world.close()


def test_a_driver_changes_lanes_with_its_signal_on() -> None:
    world = SumoWorld(
        map="highway",
        ego=Ego(route=["road"], lane=1, speed_kmh=90),
        flows=[Flow(routes=[["road"]], per_hour=300, lane=0, top_speed_kmh=90)],
    )
    driver = SumoDriver(speed_kmh=95, lane_changes_per_s=0.3)
    frame = world.reset(3)
    driver.reset(3)
    signalled = changed = False
    while frame.time_s < 30:
        frame = world.step(driver.propose(frame))
        signalled = signalled or frame.values["turn_signal"] != "off"
        changed = changed or frame.values["lane_changing"]
        assert signalled or not changed
    assert changed
    world.close()


@pytest.mark.parametrize("kind", ["function", "planner"])
def test_ones_own_function_drives(kind: str) -> None:
    name = "steady" if kind == "function" else "glide"
    pilot = make_pilot(f"sumo-{kind}", {"function": f"{__name__}:{name}"})
    world = SumoWorld(ego=Ego(route=["west_in", "east_out"], lane=2, position_m=100))
    frame = world.reset(1)
    pilot.reset(1)
    while world.ended() is None and frame.time_s < 60:
        frame = world.step(pilot.propose(frame))
    assert world.ended() == "the ego arrived"
    world.close()


@pytest.mark.parametrize("adapter", [FunctionPilot, PlannerPilot])
@pytest.mark.parametrize(
    "place", ["no.such:thing", "math", f"{__name__}:NOT_A_FUNCTION"]
)
def test_invalid_function_is_reported(
    adapter: type[FunctionPilot] | type[PlannerPilot], place: str
) -> None:
    with pytest.raises(InvalidInput, match="function"):
        adapter(function=place)
