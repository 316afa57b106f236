"""What happens on the road: lights are run, things collide, nobody saves the ego."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from forewarn.abstractions.errors import InvalidInput
from forewarn.abstractions.frame import Frame
from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.contracts import World
from forewarn.plugins.driving.sense import PROVIDES
from forewarn.plugins.registry import make_world
from forewarn.plugins.sumo.bridge import SumoWorld
from forewarn.plugins.sumo.pilots import SumoDriver
from forewarn.plugins.sumo.sense import SumoScene
from forewarn.plugins.sumo.traffic import Car, Ego, Flow, Halt, Light, Queue, Walkers
from forewarn.scenarios.schema import load_scenario

pytestmark = pytest.mark.needs("libsumo")

STRAIGHT = Ego(route=["west_in", "east_out"], lane=2, position_m=100)
LEFT = Ego(route=["west_in", "north_out"], lane=2, position_m=100)
KEEP = Action("control", {"acceleration": 0.0})


def drive(world: World, action: Action | None = KEEP, steps: int = 400) -> list[Frame]:
    frames = [world.reset(1)]
    while world.ended() is None and len(frames) <= steps:
        frames.append(world.step(action))
    world.close()
    return frames


def column(frames: list[Frame], name: str) -> list[Any]:
    return [frame.values[name] for frame in frames]


def test_every_signal_that_can_be_known_is_there() -> None:
    world = SumoWorld(ego=STRAIGHT)
    assert set(world.reset(0).values) == set(PROVIDES)
    world.close()


def test_a_red_light_is_run_if_the_ego_is_driven_through_it() -> None:
    frames = drive(SumoWorld(ego=STRAIGHT, light=Light(phase=0, left_s=100)))
    line = column(frames, "stop_line_distance")
    last = max(i for i, d in enumerate(line) if d is not None)
    crossed, before = frames[last + 1].values, frames[last].values
    assert before["traffic_light"] == "red" and before["speed"] == pytest.approx(40)
    assert not before["past_stop_line"] and crossed["past_stop_line"]
    assert crossed["in_junction"] and crossed["lane_count"] == 0
    assert crossed["traffic_light"] == "red", "the light that stood at the line"
    assert frames[-1].values["traffic_light"] is None
    assert frames[-1].values["past_stop_line"]


def test_distances_and_foresight_before_a_red_light() -> None:
    frames = drive(SumoWorld(ego=STRAIGHT, light=Light(phase=0, left_s=100)), steps=30)
    values = frames[-1].values
    assert values["junction_distance"] == values["stop_line_distance"]
    v, d = values["speed"] / 3.6, values["stop_line_distance"]
    assert values["required_deceleration"] == pytest.approx(v * v / 2 / d, rel=1e-3)
    assert values["time_to_stop_line"] == pytest.approx(d / v, rel=1e-3)
    assert d <= values["crosswalk_distance"] < d + 4


def test_the_light_has_its_colours_and_ages() -> None:
    frames = drive(SumoWorld(ego=STRAIGHT, light=Light(phase=5, left_s=2)), None, 80)
    seen = [
        (frame.values["traffic_light"], frame.values["traffic_light_age"])
        for frame in frames
    ]
    turned = next(i for i, (colour, _) in enumerate(seen) if colour == "yellow")
    assert seen[turned] == ("yellow", 0.0)
    assert seen[turned + 10] == ("yellow", pytest.approx(1.0))
    assert seen[turned + 35] == ("red", pytest.approx(0.5))


def test_vehicle_ahead_is_hit_without_braking() -> None:
    standing = Car(
        route=["west_in"], lane=2, position_m=180,
        halts=[Halt(edge="west_in", lane=2, position_m=180.1, for_s=100)],
    )  # fmt: skip
    world = SumoWorld(ego=STRAIGHT, cars=[standing])
    frames = [world.reset(1)]
    assert frames[0].values["lead_distance"] == pytest.approx(180 - 4.6 - 100, abs=1.5)
    while world.ended() is None:
        frames.append(world.step(KEEP))
    assert world.ended() == "the ego and a vehicle collided"
    assert frames[-1].values["collision"] and not frames[-2].values["collision"]
    collides = frames[-10].values["time_to_collision"]
    assert collides == pytest.approx(0.9, abs=0.15)
    world.close()


def test_collisions_of_others_are_counted_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = SumoWorld(ego=STRAIGHT)
    world.reset(1)
    crashes = [("a", "b"), ("b", "a"), ("a", "c")]
    found = [SimpleNamespace(collider=a, victim=b) for a, b in crashes]
    monkeypatch.setattr(world.sumo.simulation, "getCollisions", lambda: found)
    world.step(KEEP)
    world.step(KEEP)
    assert world.ended() is None and world.facts == {"others_collided": 2}
    world.reset(1)
    assert world.facts == {"others_collided": 0}
    world.close()


def test_traffic_does_not_save_an_ego_that_blocks_the_road() -> None:
    flow = Flow(routes=[["east_in", "west_out"]], per_hour=900, lane=2)
    world = SumoWorld(ego=LEFT, flows=[flow], light=Light(phase=4, left_s=60))
    frame = world.reset(1)
    while world.ended() is None and frame.time_s < 30:
        v = frame.values
        entered = v["in_junction"] and (v["crosswalk_distance"] or 99) < 7
        frame = world.step(Action("cut" if entered else "control"))
    assert world.ended() == "the ego and a vehicle collided"
    world.close()


def test_a_collision_course_shows_before_the_collision() -> None:
    flow = Flow(routes=[["east_in", "west_out"]], per_hour=1200, lane=2)
    for seed in range(30):
        world = SumoWorld(ego=LEFT, flows=[flow], light=Light(phase=4, left_s=60))
        frames = [world.reset(seed)]
        while world.ended() is None:
            frames.append(world.step(KEEP))
        if frames[-1].values["collision"]:
            break
    else:
        pytest.fail("nobody collided")
    second_before = frames[-11].values
    assert second_before["arrival_gap"] == 0.0
    assert second_before["oncoming_distance"] is not None
    world.close()


def test_pedestrians_are_seen_and_hit() -> None:
    walkers = Walkers(
        walks=[["west_in", "west_out"]],
        per_hour=900,
        start_m=(200.0, 215.0),
        ignore_lights=1.0,
    )
    hits = 0
    for seed in range(30):
        world = SumoWorld(
            ego=STRAIGHT, walkers=[walkers], light=Light(phase=4, left_s=60)
        )
        frames = [world.reset(seed)]
        while world.ended() is None:
            frames.append(world.step(KEEP))
        hit = world.ended() == "the ego and a pedestrian collided"
        hits += hit
        if hit:
            assert frames[-5].values["pedestrian_arrival_gap"] == 0.0
            assert frames[-5].values["priority_pedestrian"]
    assert hits >= 1


def test_a_jam_behind_the_junction_is_a_jam() -> None:
    queue = Queue(edge="east_out", lanes=[1, 2], head_m=28, count=4, until_s=60)
    frames = drive(SumoWorld(ego=STRAIGHT, queues=[queue]), steps=80)
    assert not frames[0].values["traffic_jam"]
    assert frames[80].values["traffic_jam"]


def test_a_stop_ends_before_the_line_and_not_in_the_junction() -> None:
    world = SumoWorld(ego=STRAIGHT, light=Light(phase=4, left_s=60))
    frame = world.reset(1)
    while not frame.values["in_junction"]:
        frame = world.step(KEEP)
    stops = world.actuator()
    for _ in range(100):
        frame = world.step(stops.fallback(frame))
    assert frame.values["speed"] < 0.5 and not frame.values["in_junction"]
    world = SumoWorld(ego=STRAIGHT, light=Light(phase=0, left_s=60))
    frame = world.reset(1)
    while frame.values["stop_line_distance"] > 18:
        frame = world.step(KEEP)
    stops = world.actuator()
    for _ in range(60):
        frame = world.step(stops.fallback(frame))
    assert frame.values["speed"] < 0.5 and 0 < frame.values["stop_line_distance"] < 3
    world.close()


def test_a_cap_is_kept_and_a_cut_is_final() -> None:
    world = SumoWorld(ego=STRAIGHT)
    world.reset(1)
    full = {"acceleration": 3.0, "speed_cap_kmh": 20.0}
    for _ in range(40):
        frame = world.step(Action("control", full))
    assert frame.values["speed"] == pytest.approx(20.0, abs=1.0)
    world.step(Action("cut"))
    for _ in range(20):
        frame = world.step(Action("control", {"acceleration": 3.0}))
    assert frame.values["speed"] == 0.0
    world.close()


def test_a_planner_moves_the_car_freely() -> None:
    world = SumoWorld(ego=STRAIGHT)
    world.reset(1)
    before = world.things()[0]
    for _ in range(10):
        frame = world.step(Action("pose", {"forward_m": 0.8, "left_m": 0.05}))
    after = world.things()[0]
    assert after.x - before.x == pytest.approx(8.0, abs=0.1)
    assert after.y - before.y == pytest.approx(0.5, abs=0.1)
    assert frame.values["speed"] == pytest.approx(0.8 * 36, abs=1.5)
    world.close()


def test_a_planner_that_leaves_the_road_ends_the_episode() -> None:
    world = SumoWorld(ego=STRAIGHT)
    world.reset(1)
    while world.ended() is None:
        frame = world.step(Action("pose", {"forward_m": 0.2, "left_m": -0.8}))
    assert world.ended() == "the ego left the road"
    assert not frame.values["destination_reached"]
    world.close()


def digest() -> str:
    world = SumoWorld(
        ego=LEFT,
        flows=[Flow(routes=[["east_in", "west_out"]], per_hour=900)],
        walkers=[Walkers(walks=[["north_in", "south_out"]], per_hour=400)],
        light=Light(phase=4, left_s=12),
    )
    driver = SumoDriver()
    seen = hashlib.sha256()
    for seed in (7, 8):
        frame = world.reset(seed)
        driver.reset(seed)
        while world.ended() is None and frame.sequence < 300:
            seen.update(json.dumps(dict(frame.values), sort_keys=True).encode())
            frame = world.step(driver.propose(frame))
    world.close()
    return seen.hexdigest()


def test_the_same_seed_gives_the_same_bytes_in_another_process() -> None:
    program = "from tests.plugins.sumo.test_world import digest\nprint(digest())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == digest()


@pytest.mark.parametrize(
    ("ego", "settings", "problem"),
    [
        (Ego(), {}, "the ego requires `route` or `vehicle`"),
        (STRAIGHT, {"map": "crosing"}, "did you mean crossing"),
        (Ego(route=["west_in", "nowhere"]), {}, "nowhere"),
    ],
)
def test_invalid_settings_are_rejected_with_the_reason(
    ego: Ego, settings: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        SumoWorld(ego=ego, **settings).reset(1)
    world = SumoWorld(ego=STRAIGHT)
    assert world.reset(1).values["speed"] == pytest.approx(40), "and harms nobody"
    world.close()


@pytest.mark.parametrize(
    "action",
    [
        Action("fly"),
        Action("control", {"acceleration": float("nan")}),
        Action("control", {"turn_signal": "up"}),
        Action("control", {"lane_change": "up"}),
    ],
)
def test_unknown_actions_are_rejected(action: Action) -> None:
    world = SumoWorld(ego=STRAIGHT)
    world.reset(1)
    with pytest.raises(InvalidInput):
        world.step(action)
    world.close()


@pytest.mark.parametrize("name", ["s4", "merge"])
def test_reading_only_the_needed_vehicles_changes_no_frame(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading every vehicle whole, needed or not, leaves all frames as they are."""
    scenario = load_scenario(name)
    settings = scenario.settings(scenario.world, 2)
    sparing = drive(make_world("sumo", settings), None)
    look = SumoScene.look

    def whole(scene: SumoScene) -> None:
        look(scene)
        for vehicle in scene.vehicles.values():
            scene.watch(vehicle)

    monkeypatch.setattr(SumoScene, "look", whole)
    thorough = drive(make_world("sumo", settings), None)
    assert len(sparing) > 50
    assert [f.values for f in sparing] == [f.values for f in thorough]


def test_who_drives_on_where_the_ego_will_turn_is_ahead_at_a_red_light_too() -> None:
    """SUMO itself names those that cross the ego's way, and forgets who is ahead."""
    flow = Flow(routes=[["north_in", "south_out"]], per_hour=1500, lane=1)
    ego = Ego(route=["west_in", "south_out"], lane=1, position_m=180, departs_s=30)
    world = SumoWorld(ego=ego, flows=[flow], light=Light(phase=0, left_s=60))
    frame = world.reset(1)
    sumo = world._sumo
    start_m = world._senses.scene.way().start_m
    inside_m = start_m["south_out_1"] - sumo.lane.getLength("west_in_1")
    seen = 0
    while world.ended() is None and frame.time_s < 12.0:
        frame = world.step(Action("stop"))
        values = frame.values
        assert values["traffic_light"] == "red"
        to_exit = values["stop_line_distance"] + inside_m
        rears = [
            sumo.vehicle.getLanePosition(name) - sumo.vehicle.getLength(name)
            for name in sumo.lane.getLastStepVehicleIDs("south_out_1")
        ]
        gaps = [to_exit + rear for rear in rears if to_exit + rear < 100.0]
        if gaps:
            seen += 1
            assert values["lead_distance"] == pytest.approx(min(gaps), abs=0.01)
    world.close()
    assert seen > 30
