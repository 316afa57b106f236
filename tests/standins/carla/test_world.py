"""How vehicles, walkers and lights move in the world of the stand-in."""

from __future__ import annotations

import pytest

from tests.standins.carla.clients import Serve, Standin

FRESH = """
world = client.reload_world()
synchronous()
road_map, library = world.get_map(), world.get_blueprint_library()
def put(x, y, kind="vehicle.tesla.model3"):
    at = road_map.get_waypoint(carla.Location(x, y, 0)).transform
    at.location.z = 0.3
    return world.spawn_actor(library.find(kind), at)
def ticks(count):
    for _ in range(count):
        world.tick()
"""


@pytest.fixture(scope="module")
def standin(serve: Serve) -> Standin:
    return serve("--map", "crossing", "--kinematic")


def test_throttle_and_brake_give_the_documented_accelerations(standin: Standin) -> None:
    told = standin.script(
        FRESH
        + """
car = put(-200, 1.6)
def after(count, **pedals):
    car.apply_control(carla.VehicleControl(**pedals))
    ticks(count)
    return car.get_velocity().length()
tell([after(20, throttle=1.0), after(10), after(10, brake=0.5), after(20, brake=1.0)])
tell(car.get_acceleration().length())
tell([after(10, throttle=0.5, reverse=True), car.get_control().reverse])
tell(car.get_velocity().x < 0)
"""
    )
    speeds, rest, (back, reverse), backwards = told
    assert speeds == pytest.approx([4.0, 3.9, 1.65, 0.0], abs=1e-4)
    assert rest == 0.0
    assert back == pytest.approx(1.0, abs=1e-4) and reverse and backwards


def test_ackermann_control_reaches_the_target_speed_at_the_given_acceleration(
    standin: Standin,
) -> None:
    told = standin.script(
        FRESH
        + """
car = put(-200, 1.6)
wanted = carla.VehicleAckermannControl(speed=5.0, acceleration=2.5)
car.apply_ackermann_control(wanted)
ticks(20)
tell(car.get_velocity().length())
ticks(40)
tell(car.get_velocity().length())
car.apply_ackermann_control(carla.VehicleAckermannControl(speed=0.0, acceleration=5.0))
ticks(10)
tell(car.get_velocity().length())
"""
    )
    assert told == pytest.approx([2.5, 5.0, 2.5], abs=1e-4)


def test_walkers_move_as_their_control_says(standin: Standin) -> None:
    told = standin.script(
        FRESH
        + """
walker = put(-100, 1.6, "walker.pedestrian.0005")
world.tick()
start = walker.get_location()
walker.apply_control(carla.WalkerControl(carla.Vector3D(0, 1, 0), 1.5))
ticks(20)
tell([walker.get_location().y - start.y, walker.get_velocity().length()])
walker.apply_control(carla.WalkerControl(speed=0.0))
ticks(2)
tell(walker.get_velocity().length())
"""
    )
    assert told[0] == pytest.approx([1.5, 1.5], abs=1e-4)
    assert told[1] == 0.0


def test_lights_follow_their_program_or_the_client(standin: Standin) -> None:
    told = standin.script(
        FRESH
        + """
lights = list(world.get_actors().filter("traffic.traffic_light"))
world.reset_all_traffic_lights()
world.tick()
green = [l for l in lights if l.state == carla.TrafficLightState.Green]
one = green[0]
tell([len(green), one.get_green_time(), one.get_yellow_time()])
world.reset_all_traffic_lights()
shown = []
for _ in range(680):
    world.tick()
    if not shown or shown[-1][0] != str(one.state):
        shown.append([str(one.state), 0])
    shown[-1][1] += 1
tell(shown)
one.set_state(carla.TrafficLightState.Green)
one.freeze(True)
ticks(100)
tell([str(one.state), all(l.is_frozen() for l in one.get_group_traffic_lights())])
one.freeze(False)
ticks(10)
tell(one.is_frozen())
"""
    )
    (green, green_s, yellow_s), shown, (state, frozen), still = told
    assert 0 < green < 16 and green_s == 30.0 and yellow_s == 3.0
    assert [name for name, _ in shown] == ["Green", "Yellow", "Red"]
    assert shown[0][1] in (599, 600, 601) and shown[1][1] == 60
    assert (state, frozen, still) == ("Green", True, False)


def test_a_vehicle_has_a_traffic_light_while_it_is_before_the_stop_line(
    standin: Standin,
) -> None:
    told = standin.script(
        FRESH
        + """
car = put(-60, 1.6)
landmark = road_map.get_waypoint(car.get_location()) and road_map.get_waypoint(
    carla.Location(-60, 1.6, 0)).get_landmarks_of_type(100.0, "1000001")[0]
light = world.get_traffic_light(landmark)
seen = []
car.set_target_velocity(carla.Vector3D(10, 0, 0))
car.apply_ackermann_control(carla.VehicleAckermannControl(speed=10))
for _ in range(120):
    world.tick()
    front = car.get_location().x + car.bounding_box.extent.x
    seen.append([front, car.is_at_traffic_light()])
before = [x for x, at in seen if at]
tell([min(before), max(before), -16.0])
tell(light.get_stop_waypoints()[0].transform.location.x)
"""
    )
    (first, last, line), stop = told
    assert line - 25 < first < line - 10, "soon enough to brake"
    assert line < last < line + 4, "until it has passed the line"
    assert stop == pytest.approx(line, abs=3.0)


def test_the_traffic_manager_drives_without_collisions(serve: Serve) -> None:
    told = serve("--map", "crossing", "--kinematic").script(
        """
import socket
synchronous()
with socket.socket() as line:
    line.bind(("127.0.0.1", 0))
    port = line.getsockname()[1]
manager = client.get_trafficmanager(port)
manager.set_synchronous_mode(True)
manager.set_random_device_seed(1)
points = world.get_map().get_spawn_points()[::10][:12]
model = world.get_blueprint_library().find("vehicle.seat.leon")
command = carla.command
batch = [
    command.SpawnActor(model, at).then(
        command.SetAutopilot(command.FutureActor, True, port))
    for at in points
]
ids = [r.actor_id for r in client.apply_batch_sync(batch, True) if not r.error]
cars = list(world.get_actors(ids))
bumps = []
kind = world.get_blueprint_library().find("sensor.other.collision")
for car in cars:
    world.spawn_actor(kind, carla.Transform(), attach_to=car).listen(bumps.append)
ran = 0
was = {}
for tick in range(700):
    world.tick()
    for car in cars:
        x, y = car.get_location().x, car.get_location().y
        inside = max(abs(x), abs(y)) < 13
        red = car.is_at_traffic_light() and str(car.get_traffic_light_state()) == "Red"
        if inside and was.get(car.id) == (False, True):
            ran += car.get_velocity().length() > 3
        was[car.id] = (inside, red)
moved = sum(car.get_velocity().length() > 1 for car in cars)
off = max(
    car.get_location().distance_2d(
        world.get_map().get_waypoint(car.get_location()).transform.location)
    for car in cars
)
tell([len(cars), moved, len(bumps), ran, off])
manager.shut_down()
"""
    )
    cars, moving, bumps, ran, off = told[0]
    assert cars == 12 and moving >= 3
    assert bumps == 0 and ran == 0
    assert off < 1.5


@pytest.mark.parametrize("name", ["crossing", "tee", "roundabout", "boulevard"])
def test_every_road_continues(serve: Serve, name: str) -> None:
    told = serve("--map", name, "--kinematic").script(
        """
ends = [p for p in world.get_map().generate_waypoints(5.0) if not p.next(5.0)]
tell(len(ends))
points = world.get_map().get_spawn_points()
tell(len(points))
gaps = [
    q.transform.location.distance(p.transform.location)
    for p in world.get_map().generate_waypoints(20.0) for q in p.next(0.5)
]
tell(max(gaps))
""",
    )
    ends, points, gap = told
    assert ends == 0
    assert points >= 40
    assert gap < 1.0


def test_landmarks_lead_to_the_actors_of_signs(serve: Serve) -> None:
    told = serve("--map", "tee", "--kinematic").script(
        FRESH
        + """
world.tick()
(sign,) = world.get_actors().filter("traffic.yield")
(landmark,) = road_map.get_all_landmarks_of_type("205")
found = world.get_traffic_sign(landmark)
tell(found is not None and found.id == sign.id)
line = road_map.get_waypoint_xodr(landmark.road_id, -1, landmark.s - 1.0)
box, at = sign.trigger_volume, sign.get_transform()
def inside(place):
    place.z = at.location.z
    return box.contains(place, at)
tell([inside(line.previous(m)[0].transform.location) for m in (1.0, 3.0, 8.0)])
# It is in nobody's way.
car = put(line.transform.location.x, line.transform.location.y)
hits = []
bumper = library.find("sensor.other.collision")
sensor = world.spawn_actor(bumper, carla.Transform(), car)
sensor.listen(hits.append)
ticks(5)
car.apply_control(carla.VehicleControl(throttle=1.0))
ticks(40)
sensor.stop()
tell([len(hits), car.get_velocity().length() > 3.0])
"""
    )
    assert told == [True, [True, True, False], [0, True]]


def test_another_client_sees_the_same_world(standin: Standin) -> None:
    standin.script(FRESH + "put(-150, 1.6)\nworld.tick()\n")
    told = standin.script(
        """
tell(len(world.get_actors().filter("vehicle.*")))
tell(world.get_settings().synchronous_mode)
"""
    )
    assert told == [1, True]


def test_a_user_map_is_loaded_and_an_invalid_map_is_rejected(serve: Serve) -> None:
    told = serve("--map", "tee", "--kinematic").script(
        """
text = world.get_map().to_opendrive()
client.load_world("crossing")
one = client.generate_opendrive_world(text)
tell([one.get_map().name, len(one.get_map().get_spawn_points())])
for wrong in ("<OpenDRIVE></OpenDRIVE>", "nonsense", "<!DOCTYPE x><OpenDRIVE/>"):
    try:
        client.generate_opendrive_world(wrong)
        tell("taken")
    except RuntimeError as error:
        tell(str(error))
tell(client.get_world().get_map().name)
try:
    client.load_world("Town99")
except RuntimeError as error:
    tell(str(error))
"""
    )
    assert told[0] == ["Carla/Maps/OpenDriveMap", 42]
    assert "header" in told[1] and "OpenDRIVE" in told[2] and "types" in told[3]
    assert told[4] == "Carla/Maps/OpenDriveMap"
    assert "Town99" in told[5] and "crossing" in told[5]


def test_actor_ids_are_not_reused_in_another_world(serve: Serve) -> None:
    """Nor does it in CARLA: clients keep what they once heard of a number."""
    before, after = serve("--kinematic").script(
        """
        spawn()
        world.wait_for_tick()
        tell(sorted(actor.id for actor in world.get_actors()))
        world = client.load_world("tee")
        world.wait_for_tick()
        tell(sorted(actor.id for actor in world.get_actors()))
        """
    )
    assert before and after and before[-1] < after[0]


def test_a_traffic_manager_that_is_shut_down_survives_another_world(
    serve: Serve,
) -> None:
    """One that is not may end the client, against any server: see the page."""
    told = serve("--kinematic").script(
        """
        synchronous()
        car, port = spawn(), int(sys.argv[1]) + 10
        manager = client.get_trafficmanager(port)
        car.set_autopilot(True, port)
        car.set_autopilot(False, port)
        for _ in range(40):
            world.tick()
        manager.shut_down()
        world = client.load_world("tee")
        tell(world.get_map().name)
        """
    )
    assert told == ["Carla/Maps/tee"]
