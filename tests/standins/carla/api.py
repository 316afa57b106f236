"""A client that makes every call of the rows, and prints a line for each.

Run as a program it prints the table for the docs. With a port, the number of a row and
a folder it plays the rows from there on.
"""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

from tests.standins.carla.rows import LOADS, ROWS, table


def _play(port: int, first: int, scratch: str) -> None:
    import carla

    client = carla.Client("127.0.0.1", port)
    client.set_timeout(10.0)
    world = client.get_world()
    if first >= LOADS:
        text = world.get_map().to_opendrive()
        _judge(range(first, len(ROWS)), SimpleNamespace(client=client, text=text))
        return
    settings = world.get_settings()
    settings.synchronous_mode, settings.fixed_delta_seconds = True, 0.05
    world.apply_settings(settings)
    road_map = world.get_map()
    points = road_map.get_spawn_points()
    library = world.get_blueprint_library()
    model3 = library.find("vehicle.tesla.model3")
    car = world.spawn_actor(model3, points[0])
    walker = world.spawn_actor(library.find("walker.pedestrian.0001"), points[20])
    gnss = world.spawn_actor(library.find("sensor.other.gnss"), carla.Transform(), car)
    world.tick()
    before = road_map.get_waypoint(points[0].location)
    landmark = before.get_landmarks_of_type(300.0, "1000001")[0]
    inside = before
    while not inside.is_junction:
        inside = inside.next(2.0)[0]
    beyond = inside
    while beyond.is_junction:
        beyond = beyond.next(2.0)[0]
    beyond = beyond.next(20.0)[0]
    light = world.get_traffic_light(landmark)

    def ticks(count: int) -> list[int]:
        return [world.tick() for _ in range(count)]

    def after_a_tick(look: Any) -> Any:
        world.tick()
        return look()

    def moved(act: Any, where: Any) -> bool:
        act()
        world.tick()
        return bool(car.get_location().distance_2d(where) < 1.0)

    def sped(act: Any, speed: float) -> bool:
        act()
        world.tick()
        return bool(abs(car.get_velocity().length() - speed) < 0.2)

    def became(act: Any, state: Any) -> bool:
        act()
        world.tick()
        return bool(light.state == state)

    def ticked() -> bool:
        frames: list[int] = []
        key = world.on_tick(lambda snapshot: frames.append(snapshot.frame))
        last = [world.tick() for _ in range(3)][-1]
        _until(lambda: last in frames)
        world.remove_on_tick(key)
        return last in frames

    def heard(sensor: Any) -> bool:
        seen: list[int] = []
        sensor.listen(lambda data: seen.append(data.frame))
        _until(lambda: seen or not world.tick())
        return bool(seen)

    def driven(act: Any) -> Any:
        car.set_autopilot(True, tm_port)
        for _ in range(5):
            world.tick()
        return act()

    def in_async(act: Any) -> Any:
        settings.synchronous_mode = False
        world.apply_settings(settings)
        done = act()
        settings.synchronous_mode = True
        world.apply_settings(settings)
        return done

    def batch(wanted: Any) -> bool:
        (response,) = client.apply_batch_sync([wanted])
        if response.error:
            raise RuntimeError(response.error)
        return True

    def spawned(point: int) -> Any:
        actor = world.spawn_actor(model3, points[point])
        world.tick()
        return actor

    tm_port = _free_port()
    tm = client.get_trafficmanager(tm_port)
    tm.set_synchronous_mode(True)
    hand = SimpleNamespace(**locals())
    hand.command, hand.control = carla.command, carla.VehicleControl()
    hand.cone = library.find("static.prop.trafficcone01")
    hand.junction = inside.get_junction()
    hand.lights = world.get_actors().filter("traffic.traffic_light*")
    hand.seen = lambda actor: world.get_snapshot().find(actor.id)
    _judge(range(first, LOADS), hand)


def _judge(numbers: range, hand: SimpleNamespace) -> None:
    for number in numbers:
        try:
            value = ROWS[number][1](hand)
            outcome = "false" if value is False else "works"
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        print(json.dumps([number, outcome]), flush=True)


def _until(done: Any, seconds: float = 5.0) -> None:
    import time

    end = time.monotonic() + seconds
    while not done() and time.monotonic() < end:
        time.sleep(0.005)


def _free_port() -> int:
    import socket

    with socket.socket() as line:
        line.bind(("127.0.0.1", 0))
        port: int = line.getsockname()[1]
    return port


if __name__ == "__main__":
    if len(sys.argv) == 1:
        print("\n".join(table()))
        sys.exit()
    _play(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
