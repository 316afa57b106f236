"""CARLA's own client with cameras and lidars on a car: ticks a second.

Takes a port and how many ticks; prints JSON. A tick counts when every sensor's frame
of it has come.
"""

import json
import queue
import sys
import time

import carla

SENSORS = (
    [("sensor.camera.rgb", {"image_size_x": 800, "image_size_y": 600})] * 3
    + [
        ("sensor.lidar.ray_cast",
         {"channels": 32, "range": 50, "points_per_second": 600_000,
          "rotation_frequency": 20})
    ] * 2
)  # fmt: skip


def main() -> None:
    port, ticks = map(int, sys.argv[1:])
    client = carla.Client("127.0.0.1", port)
    client.set_timeout(60.0)
    world = client.get_world()
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    library = world.get_blueprint_library()
    points = world.get_map().get_spawn_points()
    model = library.find("vehicle.tesla.model3")
    cars = [world.try_spawn_actor(model, point) for point in points[:12]]
    car = cars[0]
    car.enable_constant_velocity(carla.Vector3D(5.0, 0.0, 0.0))
    rates = {"bare": rate(world, [], ticks)}
    sensors, frames = [], []
    for number, (kind, values) in enumerate(SENSORS):
        blueprint = library.find(kind)
        for name, value in values.items():
            blueprint.set_attribute(name, str(value))
        turn = carla.Rotation(yaw=120.0 * number)
        at = carla.Transform(carla.Location(x=1.0, z=1.7), turn)
        sensor = world.spawn_actor(blueprint, at, attach_to=car)
        frames.append(queue.Queue())
        sensor.listen(frames[-1].put)
        sensors.append(sensor)
    rate(world, frames, 5)
    rates["sensors"] = rate(world, frames, ticks)
    for sensor in sensors:
        sensor.destroy()
    print(json.dumps(rates))


def rate(world, frames, ticks):
    began_s = time.perf_counter()
    for _ in range(ticks):
        frame = world.tick()
        for waiting in frames:
            while waiting.get(timeout=30.0).frame != frame:
                pass
    return ticks / (time.perf_counter() - began_s)


if __name__ == "__main__":
    main()
