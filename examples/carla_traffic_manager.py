"""Guards a car that the Traffic Manager drives, through the manager's own settings.

    forewarn carla serve --map crossing --kinematic
    python examples/carla_traffic_manager.py

The car is configured to ignore traffic lights, as in many traffic set-ups.
"""

import argparse
from functools import partial

import carla

from forewarn import Guarding, Policy, load_scenario, shipped_with
from forewarn.plugins.carla import (
    GuardedVehicle,
    TrafficManagerActuator,
    connect,
    control_of,
    kept_settings,
)

POLICY = {
    "format": "forewarn.policy/1",
    "rules": [{"law": "*", "thresholds": {"slow": 0.3, "stop": 0.6}}],
    "horizon_s": 4.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=2000)
    parser.add_argument("--manager-port", type=int, default=8000)
    options = parser.parse_args()

    shipped = shipped_with(load_scenario("s2"))  # trained for red lights
    policy = Policy.from_dict(POLICY, "the example")
    guarding = Guarding.load(shipped.model, policy)

    client = connect("127.0.0.1", options.port)
    world = client.get_world()
    manager = client.get_trafficmanager(options.manager_port)
    with kept_settings(world) as settings:
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        world.apply_settings(settings)
        manager.set_synchronous_mode(True)
        kind = world.get_blueprint_library().find("vehicle.tesla.model3")
        place = world.get_map().get_waypoint_xodr(56, -1, 120.0).transform
        place.location.z = 0.3
        car = world.spawn_actor(kind, place)
        world.tick()
        for light in world.get_actors().filter("traffic.traffic_light*"):
            light.set_state(carla.TrafficLightState.Red)
            light.freeze(True)
        manager.ignore_lights_percentage(car, 100.0)
        car.set_autopilot(True, options.manager_port)
        actuator = partial(TrafficManagerActuator, manager, car)
        with GuardedVehicle(world, car, guarding, actuator=actuator) as guarded:
            said = ""
            for _ in range(400):
                world.tick()
                action = guarded.review(None)
                if action is not None:
                    car.apply_control(control_of(action))
                if guarded.outcome.kind != said:
                    said = guarded.outcome.kind
                    frame = guarded.last
                    line = frame.values.get("stop_line_distance")
                    where = "" if line is None else f", {line:.1f} m before the line"
                    speed = frame.values.get("speed", 0.0)
                    print(f"{frame.time_s:5.1f} s  {said:8}{speed:.0f} km/h{where}")
        car.destroy()
        manager.set_synchronous_mode(False)


if __name__ == "__main__":
    main()
