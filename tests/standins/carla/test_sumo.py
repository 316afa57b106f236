"""The stand-in's world is SUMO's: the same traffic, lights and cars, seed by seed."""

from __future__ import annotations

from typing import Any

import pytest

from forewarn.monitors.guarding.decision import Action
from forewarn.plugins.registry import make_world
from forewarn.scenarios.schema import load_scenario
from tests.standins.carla.clients import Serve

pytestmark = pytest.mark.needs("libsumo")

WATCH = """
import hashlib
def positions():
    actors = world.get_actors()
    found = [a for kind in ("vehicle.*", "walker.*") for a in actors.filter(kind)]
    return sorted(
        [round(v, 3) for v in (a.get_location().x, a.get_location().y)] for a in found
    )
"""


def test_a_seed_gives_the_same_traffic_whenever_it_starts(serve: Serve) -> None:
    body = (
        WATCH
        + """
import time
time.sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
synchronous()
car = spawn(point=40)
car.apply_control(carla.VehicleControl(throttle=0.3))
digest = hashlib.sha256()
for n in range(400):
    world.tick()
    if n % 20 == 0:
        digest.update(json.dumps(positions()).encode())
    if n == 200:
        for light in list(world.get_actors().filter("traffic.traffic_light"))[:3]:
            light.set_state(carla.TrafficLightState.Red)
tell([digest.hexdigest(), len(positions())])
"""
    )
    slept = body.replace("time.sleep(float", "time.sleep(0.7 + float")
    one, other, third = (
        serve("--seed", seed).script(text)
        for seed, text in (("4", body), ("4", slept), ("5", body))
    )
    assert one == other
    assert one != third
    assert one[0][1] > 5


def test_traffic_stops_for_an_obstacle_that_a_client_spawned(serve: Serve) -> None:
    told = serve("--seed", "1", "--traffic", "2400", "--walkers", "0").script(
        """
synchronous()
road_map = world.get_map()
# Standing in each lane of one way into the junction.
parked = []
first = road_map.get_waypoint(carla.Location(-100, 1.6, 0))
for lane in (first, first.get_right_lane()):
    at = lane.transform
    at.location.z = 0.3
    blueprint = world.get_blueprint_library().find("vehicle.tesla.model3")
    parked.append(world.spawn_actor(blueprint, at))
hits = []
for car in parked:
    kind = world.get_blueprint_library().find("sensor.other.collision")
    world.spawn_actor(kind, carla.Transform(), attach_to=car).listen(hits.append)
for _ in range(900):
    world.tick()
waiting = [
    v for v in world.get_actors().filter("vehicle.*")
    if v.attributes["role_name"] == "traffic"
    and v.get_location().x < -100 and abs(v.get_location().y - 3.2) < 3
]
tell(len(waiting))
tell(max(v.get_velocity().length() for v in waiting
         if v.get_location().x > -120))
tell(len(hits))
"""
    )
    waiting, fastest, hits = told
    assert waiting >= 4
    assert fastest < 1.0
    assert hits == 0


def test_actor_spawned_onto_traffic_replaces_it(serve: Serve) -> None:
    told = serve("--seed", "2").script(
        """
synchronous()
for _ in range(400):
    world.tick()
other = world.get_actors().filter("vehicle.*")[0]
at = other.get_transform()
at.location.z += 0.3
car = world.spawn_actor(
    world.get_blueprint_library().find("vehicle.tesla.model3"), at)
world.tick()
ids = [a.id for a in world.get_actors()]
tell([other.id in ids, car.id in ids])
again = world.try_spawn_actor(
    world.get_blueprint_library().find("vehicle.tesla.model3"), at)
tell(again is None)
"""
    )
    assert told == [[False, True], True]


def test_sumo_controls_a_light_until_a_client_sets_it(serve: Serve) -> None:
    told = serve("--seed", "2", "--traffic", "1800").script(
        """
synchronous()
lights = world.get_actors().filter("traffic.traffic_light")
seen = set()
for _ in range(900):
    world.tick()
    seen.add(tuple(str(light.state) for light in lights))
tell(len(seen) >= 4)
world.freeze_all_traffic_lights(True)
for light in lights:
    light.set_state(carla.TrafficLightState.Red)
for _ in range(600):
    world.tick()
tell(sorted({str(light.state) for light in lights}))
inside = [
    v for v in world.get_actors().filter("vehicle.*")
    if max(abs(v.get_location().x), abs(v.get_location().y)) < 12
]
tell(len(inside))
"""
    )
    changes, shown, inside = told
    assert changes
    assert shown == ["Red"]
    assert inside == 0, "everyone waits"


PROGRAMME = [0.5, 1.5, -1.0, 0.0, 2.0, -3.0, -0.2, 0.4] * 8


@pytest.mark.parametrize(("name", "seed"), [("chain-braking", 3), ("s1", 5)])
def test_a_scenario_runs_as_it_does_in_sumo(serve: Serve, name: str, seed: int) -> None:
    scenario = load_scenario(name)
    sumo: Any = make_world("sumo", scenario.settings(scenario.world, seed))
    try:
        sumo.reset(seed)
        for wanted in PROGRAMME:
            sumo.step(Action("control", {"acceleration": wanted}))
        expected = sorted(
            [round(thing.x, 2), round(thing.y, 2)]
            for thing in sumo.things()
            if thing.kind in ("vehicle", "ego")
        )
    finally:
        sumo.close()
    told = serve("--scenario", name, "--seed", str(seed)).script(
        f"""
hero = [v for v in world.get_actors().filter("vehicle.*")
        if v.attributes["role_name"] == "hero"][0]
for a in {PROGRAMME}:
    pedals = dict(throttle=a / 4.0) if a > 0 else dict(brake=-a / 9.0)
    if a == 0:
        pedals = dict(throttle=1e-9)
    hero.apply_control(carla.VehicleControl(**pedals))
    world.tick()
tell(sorted([v.get_location().x, -v.get_location().y]
            for v in world.get_actors().filter("vehicle.*")))
tell([world.get_settings().synchronous_mode,
      world.get_settings().fixed_delta_seconds])
"""
    )
    places, settings = told
    assert settings == [True, 0.1]
    assert len(places) == len(expected)
    for (x, y), (sx, sy) in zip(places, expected, strict=True):
        assert abs(x - sx) < 0.05 and abs(y - sy) < 0.05


def test_another_seed_restarts_the_scenario_in_the_same_server(
    serve: Serve,
) -> None:
    restart = """
import socket, msgpack
def restart(seed):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10) as line:
        call = [0, 1, "forewarn_restart", [[False], seed]]
        line.sendall(msgpack.packb(call))
        assert msgpack.unpackb(line.recv(1000))[2:] == [None, [[False]]]
"""
    look = """
def look():
    cars = world.get_actors().filter("vehicle.*")
    return sorted([round(v.get_location().x, 3), round(v.get_location().y, 3)]
                  for v in cars)
"""
    told = serve("--scenario", "s1", "--seed", "5").script(
        restart
        + look
        + """
first = look()
old = world.id
for seed in (6, 5):
    restart(seed)
    while world.id == old:
        world = client.get_world()
        time.sleep(0.02)
    old = world.id
    while world.get_snapshot().frame == 0 or world.get_snapshot().id != world.id:
        time.sleep(0.01)
    tell(look() == first)
for _ in range(5):
    world.tick()
tell(len(look()) == len(first))
"""
    )
    assert told[:2] == [False, True]


def test_blocked_entry_leaves_other_entries_open(serve: Serve) -> None:
    (counts,) = serve("--map", "crossing", "--traffic", "2400").script(
        WATCH
        + """
synchronous(0.1)
entry = world.get_map().get_waypoint_xodr(56, -1, 20.0).transform
entry.location.z = 0.3
kind = world.get_blueprint_library().find("vehicle.tesla.model3")
car = world.spawn_actor(kind, entry)
car.apply_control(carla.VehicleControl(brake=1.0))
counts = []
for n in range(900):
    world.tick()
    if n >= 600 and n % 100 == 0:
        counts.append(len(positions()))
tell(counts)
"""
    )
    assert min(counts) > 8
