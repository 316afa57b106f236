"""Guards any CARLA driving agent with one line: `guarded.filter`.

    forewarn carla serve --map crossing --kinematic
    python examples/carla_agent.py

The agent in this example keeps a constant speed and ignores traffic lights. Replace it
with BasicAgent, a neural policy or anything else that returns a `carla.VehicleControl`.
"""

import argparse

import carla

from forewarn import Guarding, Policy, load_scenario, shipped_with
from forewarn.plugins.carla import GuardedVehicle, connect, kept_settings

POLICY = {
    "format": "forewarn.policy/1",
    "rules": [{"law": "*", "thresholds": {"slow": 0.3, "stop": 0.6}}],
    "horizon_s": 4.0,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=2000)
    options = parser.parse_args()

    shipped = shipped_with(load_scenario("s2"))  # trained for red lights
    policy = Policy.from_dict(POLICY, "the example")
    guarding = Guarding.load(shipped.model, policy)

    world = connect("127.0.0.1", options.port).get_world()
    with kept_settings(world) as settings:
        settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
        world.apply_settings(settings)
        car = spawn(world)
        with GuardedVehicle(world, car, guarding) as guarded:
            for _ in range(300):
                world.tick()
                car.apply_control(guarded.filter(agent(car)))
                tell(guarded)
        car.destroy()


def agent(car: carla.Vehicle) -> carla.VehicleControl:
    """Drives at 40 km/h and ignores traffic lights."""
    velocity = car.get_velocity()
    speed = (velocity.x**2 + velocity.y**2) ** 0.5
    return carla.VehicleControl(throttle=max(0.0, min(1.0, 0.5 * (11.0 - speed))))


def spawn(world: carla.World) -> carla.Vehicle:
    """Spawns a car that approaches red lights from the west."""
    kind = world.get_blueprint_library().find("vehicle.tesla.model3")
    place = world.get_map().get_waypoint_xodr(56, -1, 120.0).transform
    place.location.z = 0.3
    car = world.spawn_actor(kind, place)
    world.tick()
    for light in world.get_actors().filter("traffic.traffic_light*"):
        light.set_state(carla.TrafficLightState.Red)
        light.freeze(True)
    return car


def tell(guarded: GuardedVehicle, said: list[str] = []) -> None:  # noqa: B006
    """Prints each change of the guard's decision."""
    decision, frame = guarded.decision, guarded.last
    if said[-1:] != [decision.kind]:
        said.append(decision.kind)
        risk = "" if decision.risk is None else f"risk {decision.risk.point:.2f}, "
        speed = frame.values.get("speed", 0.0)
        line = frame.values.get("stop_line_distance")
        where = "" if line is None else f", {line:.1f} m before the line"
        print(f"{frame.time_s:5.1f} s  {decision.kind:8}{risk}{speed:.0f} km/h{where}")


if __name__ == "__main__":
    main()
