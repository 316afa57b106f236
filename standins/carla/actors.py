"""Encodes data as CARLA 0.9.16 does: call results, stream tokens, frames and actors.

Call results are msgpack arrays; stream data is packed in little-endian order. Angles
are in degrees and distances in metres. The y axis points right, and yaw increases
clockwise.
"""

from __future__ import annotations

import math
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from forewarn import ForewarnError

VERSION = "0.9.16"

WORLD_STREAM = 1
NO_TOKEN = b""

COLLISION, DEPTH, GNSS, IMU = 0, 1, 4, 5
SEMANTIC_LIDAR, LIDAR, RGB, SEMANTIC, OBSERVER = 10, 11, 13, 14, 17
"""The indices of the sensor types in CARLA's list of sensors."""

MAP_CHANGES = 1
"""The snapshot flag that tells clients that a new map has been loaded."""

_FURTHEST = 1e7

_HEADER = struct.Struct("<QQd6f")
_EPISODE = struct.Struct("<Qdf3iI")
_TOKEN = struct.Struct("<IHBB4s12s")

Vector = tuple[float, float, float]
Pose = tuple[float, float, float, float, float, float]
"""A pose: x, y, z, pitch, yaw and roll."""


class Refusal(ForewarnError):
    """Raised if a call fails; the client raises an exception with the same message."""


def result(value: object) -> list[Any]:
    """Returns the answer to a successful call that returns a value."""
    return [[1, value]]


def refused(message: str) -> list[Any]:
    """Returns the error answer to a call that normally returns a value."""
    return [[0, [message]]]


DONE: list[Any] = [[False]]
"""The answer to a successful call that returns nothing."""


def failed(message: str) -> list[Any]:
    """Returns the error answer to a call that normally returns nothing."""
    return [[True, [message]]]


# -- decoding data from clients -------------------------------------------------------


def number(value: object) -> float:
    """Converts a value to a float.

    Raises:
        Refusal: The value is not a number, or its magnitude exceeds 1e7.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Refusal(f"{value!r:.40} is not a number")
    if not -_FURTHEST <= value <= _FURTHEST:
        raise Refusal(f"{value!r:.40} is not between -{_FURTHEST:g} and {_FURTHEST:g}")
    return float(value)


def vector(value: Sequence[object]) -> Vector:
    x, y, z = value
    return number(x), number(y), number(z)


def pose(value: Sequence[Sequence[object]]) -> Pose:
    location, rotation = value
    return *vector(location), *vector(rotation)


# -- encoding data for clients --------------------------------------------------------


def transform(at: Pose) -> list[list[float]]:
    return [list(at[:3]), list(at[3:])]


def token(host: str, port: int, stream: int) -> bytes:
    """Returns the token with which a client subscribes to a stream."""
    address = socket.inet_aton(host)
    return _TOKEN.pack(stream, port, 1, 1, address, b"")


def header(sensor: int, frame: int, time_s: float, at: Pose) -> bytes:
    """Returns the header that every frame of a stream begins with."""
    return _HEADER.pack(sensor, frame, time_s, *at)


_NOWHERE: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def snapshot_header(
    episode: int, frame: int, time_s: float, wall_s: float, delta_s: float, change: int
) -> bytes:
    """Returns the header of a world snapshot; the states of the actors follow it."""
    return header(OBSERVER, frame, time_s, _NOWHERE) + _EPISODE.pack(
        episode, wall_s, delta_s, 0, 0, 0, change
    )


# -- geometry -------------------------------------------------------------------------


def forward(yaw: float) -> tuple[float, float]:
    """Returns the unit vector in the direction of a yaw angle."""
    return math.cos(math.radians(yaw)), math.sin(math.radians(yaw))


def compose(parent: Pose, child: Pose) -> Pose:
    """Converts a pose relative to an upright parent to world coordinates."""
    x, y, z, pitch, yaw, roll = child
    turn = math.radians(parent[4])
    cosine, sine = math.cos(turn), math.sin(turn)
    return (
        parent[0] + cosine * x - sine * y,
        parent[1] + sine * x + cosine * y,
        parent[2] + z,
        parent[3] + pitch,
        turned(parent[4] + yaw),
        parent[5] + roll,
    )


def turned(degrees: float) -> float:
    """Normalises an angle to the range from -180 to 180 degrees."""
    return (degrees + 180.0) % 360.0 - 180.0


RED, YELLOW, GREEN, OFF, UNKNOWN = 0, 1, 2, 3, 4

_VEHICLE = struct.Struct("<IB15f3f3?ifB?IB24x")
_WALKER = struct.Struct("<IB15f4f?37x")
_LIGHT = struct.Struct("<IB15f32s")
_SHOWN = struct.Struct("<4fI?B")
_SIGN = struct.Struct("<IB15f32s22x")
_OTHER = struct.Struct("<IB15f54x")
_ACTIVE = 1

CAR, TRUCK, BUS, MOTORCYCLE, BICYCLE = 14, 15, 16, 18, 19
PEDESTRIAN, ROAD, LAMP, BOARD, STATIC = 12, 1, 7, 8, 20
_STILL: Vector = (0.0, 0.0, 0.0)

STANDARD_CONTROL: Final[list[Any]] = [0.0, 0.0, 0.0, False, False, False, 0]
"""A vehicle's control: throttle, steer, brake, hand brake, reverse, manual gears and
gear.
"""


@dataclass(slots=True)
class Actor:
    """An object in the world, with an id and a pose.

    Args:
        number: The actor's id.
        kind: The blueprint's name.
        at: The pose of the centre at ground level, where the wheels or feet are.
        attributes: The attributes of the blueprint, as sent to clients.
        half: Half the length, width and height in metres.
        centre: The centre of the bounding box, relative to `at`.
        parent: The id of the actor that this actor is attached to; 0 for none.
        mount: The pose relative to the parent.
        ours: Whether the actor was created by the world rather than by a client.
    """

    number: int
    kind: str
    at: Pose
    attributes: list[list[Any]] = field(default_factory=list)
    half: Vector = _STILL
    centre: Vector = _STILL
    tags: bytes = b""
    parent: int = 0
    mount: Pose | None = None
    blueprint: int = 0
    ours: bool = False
    velocity: Vector = _STILL
    spin: Vector = _STILL
    acceleration: Vector = _STILL
    token: bytes = NO_TOKEN

    def attribute(self, name: str, default: str = "") -> str:
        for key, _, value in self.attributes:
            if key == name:
                return str(value)
        return default

    def described(self) -> list[Any]:
        """Returns the actor's description as sent to clients."""
        return [
            self.number, self.parent, [self.blueprint, self.kind, self.attributes],
            self.box(), self.tags, self.token,
        ]  # fmt: skip

    def box(self) -> list[Any]:
        return [list(self.centre), list(self.half), [0.0, 0.0, 0.0], self.number]

    def state(self) -> bytes:
        return _OTHER.pack(*self._common())

    def _common(self) -> tuple[Any, ...]:
        return (
            self.number, _ACTIVE, *self.at, *self.velocity, *self.spin,
            *self.acceleration,
        )  # fmt: skip


@dataclass(slots=True)
class Vehicle(Actor):
    """A vehicle that is driven by a client or by the traffic simulation.

    Args:
        control: The last control that a client applied.
        ackermann: The steering angle, steering speed, speed, acceleration and jerk that
            a client requested; they apply until the next control command.
        speed: The speed along the heading in m/s; negative when reversing.
        steer_deg: The angle of the front wheels in degrees.
        physical: Whether the vehicle moves by simulated physics.
        light: The traffic light whose stop line the vehicle is close to.
        looked_at: The vehicle's position when it last searched for traffic lights.
        road: The id of the road that the vehicle was on at position `mapped_at`.
        bumped: The ids of the actors that the vehicle is touching.
        name: The vehicle's name in the traffic simulation.
    """

    control: list[Any] = field(default_factory=lambda: list(STANDARD_CONTROL))
    ackermann: list[float] | None = None
    speed: float = 0.0
    steer_deg: float = 0.0
    physical: bool = True
    solid: bool = True
    speed_limit: float = 50.0
    light: TrafficLight | None = None
    lamps: int = 0
    autopilot: bool = False
    wheelbase: float = 2.9
    looked_at: tuple[float, float] | None = None
    road: int = -1
    mapped_at: tuple[float, float] | None = None
    bumped: frozenset[int] = frozenset()
    name: str = ""

    def state(self) -> bytes:
        light = self.light
        x, y, z, pitch, yaw, roll = self.at
        throttle, steer, brake, hand_brake, reverse, manual, gear = self.control
        return _VEHICLE.pack(
            self.number, _ACTIVE, x, y, z, pitch, yaw, roll, *self.velocity,
            *self.spin, *self.acceleration, throttle, steer, brake, hand_brake,
            reverse, manual, gear, self.speed_limit,
            GREEN if light is None else light.colour, light is not None,
            0 if light is None else light.number, 0,
        )  # fmt: skip


@dataclass(slots=True)
class Walker(Actor):
    """A pedestrian.

    Args:
        direction: The walking direction that a client has set.
        pace: The walking speed in m/s.
        name: The pedestrian's name in the traffic simulation.
    """

    direction: Vector = (1.0, 0.0, 0.0)
    pace: float = 0.0
    jump: bool = False
    physical: bool = True
    solid: bool = True
    name: str = ""

    def state(self) -> bytes:
        return _WALKER.pack(*self._common(), *self.direction, self.pace, self.jump)


@dataclass(slots=True)
class TrafficLight(Actor):
    """A traffic light of the map.

    Args:
        signal: The signal's name in the map.
        pole: The index of the light in its group.
        since_s: How long the light has shown its current colour, in seconds.
    """

    signal: str = ""
    colour: int = RED
    green_s: float = 10.0
    yellow_s: float = 3.0
    red_s: float = 2.0
    since_s: float = 0.0
    pole: int = 0
    frozen: bool = False

    def state(self) -> bytes:
        return _LIGHT.pack(*self._common(), self.signal.encode()[:31]) + _SHOWN.pack(
            self.green_s, self.yellow_s, self.red_s, self.since_s, self.pole,
            self.frozen, self.colour,
        )  # fmt: skip


@dataclass(slots=True)
class TrafficSign(Actor):
    """A traffic sign of the map."""

    signal: str = ""

    def state(self) -> bytes:
        return _SIGN.pack(*self._common(), self.signal.encode()[:31])


@dataclass(slots=True)
class Sensor(Actor):
    """A sensor that a client has attached.

    Args:
        stream: The id of the stream of sensor data; 0 if the client computes the data.
        period_s: The minimum time between two frames in seconds.
        angle: The current angle of a rotating sensor in radians.
    """

    stream: int = 0
    period_s: float = 0.0
    next_s: float = 0.0
    angle: float = 0.0


def along(actor: Actor, speed: float) -> Vector:
    """Returns the velocity vector for a speed along the actor's heading."""
    x, y = forward(actor.at[4])
    return speed * x, speed * y, 0.0
