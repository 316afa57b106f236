"""Sensors: what each sends, in the client's own classes, and that it is right."""

from __future__ import annotations

import pytest

from tests.standins.carla.clients import Serve, Standin

PLACE = """
import numpy as np
world = client.reload_world()
synchronous()
library, road_map = world.get_blueprint_library(), world.get_map()
def put(x, y, kind="vehicle.tesla.model3"):
    at = road_map.get_waypoint(carla.Location(x, y, 0)).transform
    at.location.z = 0.3
    return world.spawn_actor(library.find(kind), at)
def attach(kind, car, x=2.5, z=0.8, **attributes):
    blueprint = library.find(kind)
    for name, value in attributes.items():
        blueprint.set_attribute(name, str(value))
    at = carla.Transform(carla.Location(x=x, z=z))
    sensor = world.spawn_actor(blueprint, at, attach_to=car)
    sensor.seen = []
    sensor.listen(sensor.seen.append)
    return sensor
def until(done):
    end = time.monotonic() + 10
    while not done() and time.monotonic() < end:
        time.sleep(0.01)
    assert done()
def frames(*sensors, ticks=1):
    for _ in range(ticks):
        last = world.tick()
    until(lambda: all(s.seen and s.seen[-1].frame == last for s in sensors))
    return [s.seen[-1] for s in sensors]
"""


@pytest.fixture(scope="module")
def standin(serve: Serve) -> Standin:
    return serve("--map", "crossing", "--kinematic")


def test_cameras_see_the_vehicle_ahead(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car, other = put(-60, 1.6), put(-40, 1.6)
size = dict(image_size_x=160, image_size_y=120, fov=60)
kinds = ["rgb", "depth", "semantic_segmentation"]
cameras = [attach("sensor.camera." + k, car, z=1.2, **size) for k in kinds]
images = frames(*cameras)
def pixels(image):
    flat = np.frombuffer(image.raw_data, np.uint8)
    return flat.reshape(image.height, image.width, 4).astype(int)
rgb, depth, label = (pixels(image)[60, 80] for image in images)
tell([i.frame for i in images] == [images[0].frame] * 3)
tell([images[0].width, images[0].height, images[0].fov])
far = (depth[2] + 256 * depth[1] + 65536 * depth[0]) / (2**24 - 1) * 1000
gap = other.get_location().x - other.bounding_box.extent.x - car.get_location().x - 2.5
tell([float(far), float(gap)])
tell(int(label[2]))
tell(int(pixels(images[2])[0, 0][2]))
"""
    )
    same, size, (far, gap), label, sky = told
    assert same
    assert size == [160, 120, 60.0]
    assert far == pytest.approx(gap, abs=0.05)
    assert (label, sky) == (14, 11)


def test_lidars_agree_on_the_distance(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car, other = put(-60, 1.6), put(-45, 1.6)
lidar = attach("sensor.lidar.ray_cast", car, range=50, rotation_frequency=20,
               upper_fov=0, lower_fov=0, channels=1, points_per_second=72000)
tags = attach("sensor.lidar.ray_cast_semantic", car, range=50, rotation_frequency=20)
cloud, tagged = frames(lidar, tags)
points = np.frombuffer(cloud.raw_data, np.float32).reshape(-1, 4)
ahead = points[(abs(points[:, 1]) < 0.5) & (points[:, 0] > 0)]
tell(float(ahead[:, 0].min()))
gap = other.get_location().x - other.bounding_box.extent.x - car.get_location().x - 2.5
tell(gap)
tell(sorted({d.object_tag for d in tagged}))
tell(other.id in {d.object_idx for d in tagged})
"""
    )
    cloud, gap, tags, seen = told
    assert cloud == pytest.approx(gap, abs=0.1)
    assert seen and 14 in tags and 1 in tags


def test_the_imu_measures_the_cars_acceleration_and_rotation(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car = put(-100, 1.6)
imu = attach("sensor.other.imu", car)
gnss = attach("sensor.other.gnss", car)
car.apply_control(carla.VehicleControl(throttle=0.5))
feels, place = frames(imu, gnss, ticks=5)
tell([feels.accelerometer.x, feels.accelerometer.y, feels.accelerometer.z])
here = road_map.transform_to_geolocation(gnss.get_location())
tell([place.latitude - here.latitude, place.longitude - here.longitude])
car.apply_control(carla.VehicleControl(throttle=0.5, steer=0.2))
(turning,) = frames(imu, ticks=5)
tell([turning.accelerometer.y > 0.1, turning.gyroscope.z > 0.01])
tell(turning.compass)
"""
    )
    felt, place, turning, compass = told
    assert felt == pytest.approx([2.0, 0.0, 9.81], abs=1e-3)
    assert place == pytest.approx([0.0, 0.0], abs=1e-9)
    assert turning == [True, True]
    assert 1.57 < compass < 2.2


def test_each_side_gets_one_collision_event(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car, other = put(-80, 1.6), put(-66, 1.6)
bumps = attach("sensor.other.collision", car)
theirs = attach("sensor.other.collision", other)
car.set_target_velocity(carla.Vector3D(12, 0, 0))
for _ in range(60):
    world.tick()
until(lambda: bumps.seen)
event = bumps.seen[0]
tell([len(bumps.seen), len(theirs.seen)])
tell([event.actor.id == car.id, event.other_actor.id == other.id])
tell(event.normal_impulse.length() > 1000)
tell(car.get_velocity().length())
tell(other.get_location().x - car.get_location().x)
"""
    )
    assert told[:3] == [[1, 1], [True, True], True]
    assert told[3] == 0.0, "who runs into something stands"
    assert told[4] > 4.0


def test_a_sensor_keeps_its_own_period(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car = put(-80, 1.6)
slow = attach("sensor.other.gnss", car, sensor_tick=0.2)
fast = attach("sensor.other.gnss", car)
frames(fast, ticks=40)
tell([len(slow.seen), len(fast.seen)])
slow.stop()
fast.destroy()
world.tick()
tell(len(world.get_actors().filter("sensor.*")))
"""
    )
    (slow, fast), left = told
    assert fast == 40
    assert 9 <= slow <= 11
    assert left == 1


def test_in_asynchronous_mode_all_cameras_deliver_equally_often(
    standin: Standin,
) -> None:
    (told,) = standin.script(
        PLACE
        + """
settings = world.get_settings()
settings.synchronous_mode = False
world.apply_settings(settings)
car = put(8, 0)
size = dict(image_size_x=640, image_size_y=480)
cameras = [attach("sensor.camera.rgb", car, **size) for _ in range(3)]
until(lambda: max(len(camera.seen) for camera in cameras) >= 12)
tell([len(camera.seen) for camera in cameras])
"""
    )
    assert min(told) >= 9


def test_the_client_detects_a_lane_invasion(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
car = put(-180, 1.6)
lines = attach("sensor.other.lane_invasion", car)
car.set_target_velocity(carla.Vector3D(8, 0, 0))
car.apply_control(carla.VehicleControl(throttle=0.1, steer=0.03))
for _ in range(80):
    world.tick()
time.sleep(0.3)
tell(len(lines.seen) > 0)
"""
    )
    assert told == [True]


@pytest.mark.parametrize(
    ("kind", "attribute", "value"),
    [
        ("sensor.camera.rgb", "image_size_x", "100000"),
        ("sensor.lidar.ray_cast", "channels", "0"),
        ("sensor.camera.depth", "image_size_y", "-5"),
        ("sensor.other.gnss", "sensor_tick", "1e30"),
    ],
)
def test_a_request_that_would_take_too_long_is_rejected(
    standin: Standin, kind: str, attribute: str, value: str
) -> None:
    told = standin.script(
        PLACE
        + f"""
car = put(-60, 1.6)
blueprint = library.find({kind!r})
blueprint.set_attribute({attribute!r}, {value!r})
try:
    world.spawn_actor(blueprint, carla.Transform(), attach_to=car)
    tell("spawned")
except RuntimeError as error:
    tell(str(error))
tell(world.tick() > 0)
"""
    )
    assert told[0] != "spawned"
    assert told[1]


def test_a_listener_that_ticks_at_once_misses_no_data(standin: Standin) -> None:
    told = standin.script(
        PLACE
        + """
import queue
for _ in range(5):
    car = put(-60, 1.6)
    images = queue.Queue()
    blueprint = library.find("sensor.camera.rgb")
    blueprint.set_attribute("image_size_x", "64")
    blueprint.set_attribute("image_size_y", "48")
    camera = world.spawn_actor(blueprint, carla.Transform(), attach_to=car)
    camera.listen(images.put)
    frames_seen = [(world.tick(), images.get(timeout=10).frame) for _ in range(3)]
    tell(all(a == b for a, b in frames_seen))
    camera.destroy()
    car.destroy()
"""
    )
    assert told == [True] * 5


def test_a_map_can_be_loaded_by_the_name_of_a_carla_town(serve: Serve) -> None:
    own = serve("--map", "crossing", "--kinematic")
    told = own.script(
        """
tell([m for m in client.get_available_maps() if "Town" in m])
world = client.load_world("Town03")
tell(world.get_map().name)
tell(len(world.get_map().get_spawn_points()) > 0)
"""
    )
    assert told[0] == [f"/Game/Carla/Maps/Town0{n}" for n in range(1, 6)]
    assert told[1] == "Carla/Maps/Town03"
    assert told[2]
