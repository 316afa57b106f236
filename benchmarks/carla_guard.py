"""The guard on a CARLA client: signals of a snapshot, and guarded ticks in traffic."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from measuring import Row

STEP_S = 0.05
WEST_IN = 56  # the road from the west, in the crossing's OpenDRIVE


def rows(quick: bool) -> Iterator[Row]:
    lacking = [n for n in ("carla", "msgpack", "libsumo") if find_spec(n) is None]
    if lacking:
        what = "signals of a CARLA snapshot"
        yield Row(what, 0.0, peer=f"{lacking[0]} is not installed")
        return
    signals_s, rate, vehicles = guarded(500 if quick else 3_000)
    yield Row(f"signals of a CARLA snapshot, {vehicles} vehicles", signals_s, 300e-6)
    what = f"CARLA ticks with SUMO's traffic and the guard, {vehicles} vehicles"
    yield Row(what, rate, 500, rate=True)


def guarded(ticks: int) -> tuple[float, float, int]:
    """The median time to sense, the rate of guarded ticks, and the most vehicles."""
    import carla

    from forewarn.monitors.chains.model import load_model
    from forewarn.monitors.guarding.guard import Guard
    from forewarn.monitors.guarding.policy import load_policy
    from forewarn.monitors.guarding.watch import load_watch
    from forewarn.plugins.carla.guarded import PROVIDES, GuardedVehicle
    from forewarn.plugins.carla.wire import StandIn, connect
    from forewarn.scenarios.schema import load_scenario
    from forewarn.scenarios.shipped import shipped_with

    scenario = load_scenario("s2")
    shipped = shipped_with(scenario)
    assert shipped is not None
    policy = load_policy(shipped.policy)
    watch = load_watch(
        load_model(shipped.model),
        horizon_s=policy.horizon_s,
        laws=[law.reference for law in scenario.laws],
        provides=PROVIDES,
    )
    server = StandIn(["--map", "crossing", "--traffic", "2400"])
    sensing: list[float] = []
    vehicles = 0
    try:
        world = connect("127.0.0.1", server.port).get_world()
        settings = world.get_settings()
        settings.synchronous_mode, settings.fixed_delta_seconds = True, STEP_S
        world.apply_settings(settings)
        kind = world.get_blueprint_library().find("vehicle.tesla.model3")
        place = world.get_map().get_waypoint_xodr(WEST_IN, -1, 20.0).transform
        place.location.z = 0.3
        car = world.spawn_actor(kind, place)
        world.tick()
        with GuardedVehicle(
            world, car, Guard(watch, policy, provides=PROVIDES)
        ) as guarded:
            began = time.perf_counter()
            for _ in range(ticks):
                world.tick()
                sensing.append(_took(guarded.watching.frame))
                car.apply_control(guarded.filter(carla.VehicleControl(brake=0.1)))
            took = time.perf_counter() - began
            vehicles = len(world.get_actors().filter("vehicle.*"))
    finally:
        server.stop()
    return statistics.median(sensing), ticks / took, vehicles


def _took(sense: Any) -> float:
    began = time.perf_counter()
    sense()
    return time.perf_counter() - began
