"""CARLA's own client against a stand-in: ticks a second, each snapshot read whole.

Takes a port, how many cars to drive and how many ticks; prints JSON.
"""

import json
import sys
import time

import carla

ROUNDS = 5


def main() -> None:
    port, cars, ticks = map(int, sys.argv[1:])
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    points = world.get_map().get_spawn_points()
    model = world.get_blueprint_library().find("vehicle.tesla.model3")
    for point in points[:: max(1, len(points) // max(1, cars))][:cars]:
        car = world.spawn_actor(model, point)
        # Round and round, at 29 km/h.
        car.apply_control(carla.VehicleControl(steer=0.3))
        car.enable_constant_velocity(carla.Vector3D(8.0, 0.0, 0.0))
    for _ in range(400):
        world.tick()  # until the traffic has come
    rates = []
    seen = 0
    for _ in range(ROUNDS):
        began_s = time.perf_counter()
        for _ in range(ticks // ROUNDS):
            world.tick()
            snapshot = world.get_snapshot()
            for actor in snapshot:
                actor.get_transform()
                actor.get_velocity()
        rates.append(ticks // ROUNDS / (time.perf_counter() - began_s))
        seen = max(seen, len(world.get_actors().filter("vehicle.*")))
    print(json.dumps({"rates": rates, "vehicles": seen}))


if __name__ == "__main__":
    main()
