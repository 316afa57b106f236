"""Figures of docs/carla.md and docs/carla-guard.md, measured with CARLA's own client.

    python benchmarks/run.py carla_client
    python benchmarks/carla_client.py [--runs 100] [--seed 700000] [SCENARIO ...]

The first command prints the stand-in's ticks per second: with sensors, without them,
and with a guard. The second runs each driving scenario unguarded in two worlds
(embedded SUMO, and the stand-in through CARLA's client), and compares which runs
violate each law.
"""

from __future__ import annotations

import queue
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from run import Row, command_line, each_call, installed, markdown, serving

from forewarn.scenarios.running.plan import plan, runner_of
from forewarn.scenarios.schema import load_scenario, shipped_scenarios

STEP_S = 0.05
WEST_IN = 56  # the road from the west, in the crossing's OpenDRIVE
EQUAL, APART = 0.9, 0.05
LIDAR = {
    "channels": 32, "range": 50, "points_per_second": 600_000, "rotation_frequency": 20,
}  # fmt: skip
SENSORS: Sequence[tuple[str, dict[str, int]]] = (
    *[("sensor.camera.rgb", {"image_size_x": 800, "image_size_y": 600})] * 3,
    *[("sensor.lidar.ray_cast", LIDAR)] * 2,
)


def rows(quick: bool) -> Iterator[Row]:
    if not installed("carla", "msgpack", "libsumo"):
        yield Row("the stand-in for CARLA", 0.0, peer="carla or SUMO is not installed")
        return
    with served("--kinematic") as world:
        (car, *_) = spawned(world, 12)
        bare, rate = sensor_rates(world, car, 60 if quick else 400)
    what = "CARLA ticks: three cameras of 800 x 600 and two lidars of 600,000 points/s"
    yield Row(what, rate, 20, "bare ticks", bare, rate=True)
    signals_s, rate, cars = guarded(500 if quick else 3_000)
    yield Row(f"signals of a CARLA snapshot, {cars} vehicles", signals_s, 300e-6)
    what = f"CARLA ticks with SUMO's traffic and the guard, {cars} vehicles"
    yield Row(what, rate, 500, rate=True)


@contextmanager
def served(*options: str) -> Iterator[Any]:
    """Provides the world of a stand-in in a separate process, in synchronous mode."""
    import carla

    with serving("carla", "serve", "--port", "0", *options) as said:
        port = int(said["listening"].rpartition(":")[2])
        client = carla.Client("127.0.0.1", port)
        client.set_timeout(60.0)
        world = client.get_world()
        settings = world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, STEP_S
        world.apply_settings(settings)
        yield world


def spawned(world: Any, count: int) -> list[Any]:
    """Spawns cars that drive in circles at 29 km/h."""
    import carla

    points = world.get_map().get_spawn_points()
    model = world.get_blueprint_library().find("vehicle.tesla.model3")
    cars = []
    for point in points[:: max(1, len(points) // count)][:count]:
        car = world.spawn_actor(model, point)
        cars.append(car)
        control = carla.VehicleAckermannControl(steer=0.3, speed=8.0, acceleration=4.0)
        car.apply_ackermann_control(control)
    return cars


def sensor_rates(world: Any, car: Any, ticks: int) -> tuple[float, float]:
    """Returns the tick rates without and with sensors; a tick includes all sensor
    frames.
    """
    import carla

    library = world.get_blueprint_library()
    frames: list[queue.Queue[Any]] = []

    def rate(ticks: int) -> float:
        began_s = time.perf_counter()
        for _ in range(ticks):
            frame = world.tick()
            for waiting in frames:
                while waiting.get(timeout=30.0).frame != frame:
                    pass
        return ticks / (time.perf_counter() - began_s)

    bare, sensors = rate(ticks), []
    for number, (kind, values) in enumerate(SENSORS):
        blueprint = library.find(kind)
        for name, value in values.items():
            blueprint.set_attribute(name, str(value))
        turn = carla.Rotation(yaw=120.0 * number)
        at = carla.Transform(carla.Location(x=1.0, z=1.7), turn)
        sensors.append(world.spawn_actor(blueprint, at, attach_to=car))
        frames.append(queue.Queue())
        sensors[-1].listen(frames[-1].put)
    rate(5)
    found = rate(ticks)
    for sensor in sensors:
        sensor.destroy()
    return bare, found


def guarded(ticks: int) -> tuple[float, float, int]:
    """Returns the median time to compute signals, the rate of guarded ticks, and the
    number of vehicles.
    """
    import carla

    from forewarn.monitors.guarding.policy import load_policy
    from forewarn.plugins.carla.guarded import GuardedVehicle
    from forewarn.plugins.loop.guarding import Guarding
    from forewarn.scenarios.shipped import FOLDER, Shipped

    files = Shipped.in_folder(FOLDER, "s2")
    guarding = Guarding.load(files.model, load_policy(files.policy))
    with served("--map", "crossing", "--traffic", "2400") as world:
        kind = world.get_blueprint_library().find("vehicle.tesla.model3")
        place = world.get_map().get_waypoint_xodr(WEST_IN, -1, 20.0).transform
        place.location.z = 0.3
        car = world.spawn_actor(kind, place)
        world.tick()
        sensing: list[float] = []
        with GuardedVehicle(world, car, guarding) as vehicle:
            began = time.perf_counter()
            for _ in range(ticks):
                world.tick()
                sensing += each_call(lambda _: vehicle.watching.frame(), [None])
                car.apply_control(vehicle.filter(carla.VehicleControl(brake=0.1)))
            took = time.perf_counter() - began
            count = len(world.get_actors().filter("vehicle.*"))
    return statistics.median(sensing), ticks / took, count


# -- agreement of two worlds


DRIVING = [n for n, p in shipped_scenarios().items() if p.parent.name == "driving"]


def agreement(
    scenarios: Sequence[str] = DRIVING, *, runs: int = 100, seed: int = 700_000
) -> Iterator[str]:
    """Yields the table of violation rates in both worlds."""
    rows, short = list[tuple[str, ...]](), list[str]()
    for name in scenarios:
        for law, rates, equal in compare(name, seed, runs):
            if equal < EQUAL or abs(rates[0] - rates[1]) > APART:
                short.append(f"{name}, {law}")
            rows.append((name, law, *(f"{each:.2f}" for each in (*rates, equal))))
    head = ("scenario", "law", "broken in SUMO", "in CARLA", "equal verdicts")
    yield from markdown(head, rows)
    yield (
        f"\nRates within {APART}, verdicts equal in {EQUAL:.0%}: "
        + ("all." if not short else f"all but {'; '.join(short)}.")
    )


def compare(
    name: str, first: int, runs: int
) -> list[tuple[str, tuple[float, float], float]]:
    """Returns for each law the violation rates in both worlds and the fraction of runs
    with equal verdicts.
    """
    here = load_scenario(name)
    worlds = [runner_of(plan(scenario)) for scenario in (here, here.on("carla"))]
    broken: list[list[frozenset[str]]] = [[], []]
    for seed in range(first, first + runs):
        for runner, found in zip(worlds, broken, strict=True):
            episode = runner.run(seed)
            if episode.error:
                sys.exit(f"{name}, seed {seed}: {episode.error}")
            found.append(frozenset(v.law for v in episode.violations))
    rows = []
    for law in (law.name for law in here.laws):
        there = [[law in run for run in found] for found in broken]
        equal = sum(a == b for a, b in zip(*there, strict=True)) / runs
        rows.append((law, (sum(there[0]) / runs, sum(there[1]) / runs), equal))
    return rows


if __name__ == "__main__":
    command_line(__doc__, agreement)
