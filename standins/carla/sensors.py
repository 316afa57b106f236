"""Computes sensor data in the frame format of each type of sensor."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

from forewarn.standins.carla import actors
from forewarn.standins.carla.actors import Actor, Sensor, Vehicle
from forewarn.standins.carla.wire import packed

if TYPE_CHECKING:
    from forewarn.standins.carla.surroundings import Ground
    from forewarn.standins.carla.world import World


FIRST_STREAM = 1000
_RAYS = ("sensor.camera.", "sensor.lidar.")
GRAVITY = 9.81


class Sight(Protocol):
    """Computes the body of a frame with a sensor's current data."""

    def __call__(self, sensor: Sensor) -> bytes: ...


class Sensors:
    """The sensors of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rests_until_s = 0.0
        self._ground: Ground | None = None
        self._threads = ThreadPoolExecutor(os.cpu_count(), "rays")
        self._all: dict[int, Sensor] = {}
        self._by_stream: dict[int, Sensor] = {}
        self._see: dict[str, tuple[int, Sight]] = {
            "sensor.other.gnss": (actors.GNSS, self._gnss),
            "sensor.other.imu": (actors.IMU, self._imu),
        }

    def add(self, sensor: Sensor) -> None:
        if sensor.kind.startswith(_RAYS):
            from forewarn.standins.carla.sights import check

            check(sensor)
        self._all[sensor.number] = sensor
        if sensor.kind != "sensor.other.lane_invasion":
            # Clients detect lane invasions themselves, so that sensor has no stream.
            sensor.stream = FIRST_STREAM + sensor.number
            self._by_stream[sensor.stream] = sensor
        period = sensor.attribute("sensor_tick", "0")
        sensor.period_s = max(0.0, actors.number(float(period)))

    def remove(self, sensor: Sensor) -> None:
        self._all.pop(sensor.number, None)
        if sensor.stream:
            self._by_stream.pop(sensor.stream, None)
            self._world.streams.end(sensor.stream)

    def has(self, stream: int) -> bool:
        return stream in self._by_stream

    def mounted(self) -> Iterator[Actor]:
        return iter(self._all.values())

    def see(self, dt: float, hurried: bool) -> None:
        """Sends the current data of all sensors that are due and have readers."""
        world = self._world
        rests = hurried and time.monotonic() < self._rests_until_s
        casting: list[Sensor] = []
        for sensor in list(self._all.values()):
            if not world.streams.read(sensor.stream):
                continue
            if sensor.period_s and world.time_s + 1e-9 < sensor.next_s:
                continue
            casts = sensor.kind.startswith(_RAYS)
            if casts and rests:
                continue
            sensor.next_s = max(sensor.next_s + sensor.period_s, world.time_s)
            if casts:
                casting.append(sensor)
            elif sensor.kind in self._see:
                number, sight = self._see[sensor.kind]
                self._send(sensor, number, sight(sensor))
        if casting:
            began_s = time.monotonic()
            for sensor, number, body in self._cast(casting, dt):
                self._send(sensor, number, body)
            now_s = time.monotonic()
            self._rests_until_s = now_s + 2.0 * (now_s - began_s)

    def collided(self, actor: Vehicle, other: Actor) -> None:
        """Sends a collision event to the collision sensors of a vehicle."""
        mass = 1500.0
        impulse = [
            mass * (b - a) for a, b in zip(actor.velocity, other.velocity, strict=True)
        ]
        for sensor in self._all.values():
            if (
                sensor.kind == "sensor.other.collision"
                and sensor.parent == actor.number
            ):
                body = packed([actor.described(), other.described(), impulse])
                self._send(sensor, actors.COLLISION, body)

    def _send(self, sensor: Sensor, number: int, body: bytes) -> None:
        world = self._world
        head = actors.header(number, world.frame, world.time_s, sensor.at)
        world.streams.send(sensor.stream, head, body)

    def _cast(
        self, sensors: list[Sensor], dt: float
    ) -> Iterator[tuple[Sensor, int, bytes]]:
        """Computes the data of ray-casting sensors in parallel threads. The threads
        share the scene, and NumPy releases the global interpreter lock.
        """
        from forewarn.standins.carla.sights import SIGHTS
        from forewarn.standins.carla.surroundings import Ground, Surroundings

        world = self._world
        if self._ground is None:
            self._ground = Ground(world.roads)
        scene = Surroundings(self._ground, world.actors.values())

        def seen(sensor: Sensor) -> tuple[Sensor, int, bytes]:
            number, sight = SIGHTS[sensor.kind]
            return sensor, number, sight(sensor, scene, dt)

        return self._threads.map(seen, sensors)

    # -- kinds ------------------------------------------------------------------------

    def _gnss(self, sensor: Sensor) -> bytes:
        x, y, z = sensor.at[:3]
        return packed(list(self._world.roads.geolocation(x, y, z)))

    def _imu(self, sensor: Sensor) -> bytes:
        carrier = self._world.actors.get(sensor.parent, sensor)
        ax, ay, _ = carrier.acceleration
        yaw = math.radians(sensor.at[4])
        ahead = ax * math.cos(yaw) + ay * math.sin(yaw)
        right = ay * math.cos(yaw) - ax * math.sin(yaw)
        turns = [math.radians(rate) for rate in carrier.spin]
        compass = (yaw + math.pi / 2.0) % (2.0 * math.pi)
        return packed([[ahead, right, GRAVITY], turns, compass])
