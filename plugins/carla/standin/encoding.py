"""What CARLA 0.9.16 sends and is sent: results, geometry, tokens, frames.

Results of calls are arrays that msgpack carries; what streams carry is packed, little
endian. Angles are degrees, distances metres; y points right and yaw turns clockwise.
"""

from __future__ import annotations

import math
import socket
import struct
from collections.abc import Sequence
from typing import Any

from forewarn.abstractions.errors import ForewarnError
from forewarn.abstractions.frame import is_number

VERSION = "0.9.16"

WORLD_STREAM = 1
NO_TOKEN = b""

COLLISION, DEPTH, NORMALS, EVENTS, GNSS, IMU, OBSTACLE = 0, 1, 2, 3, 4, 5, 7
FLOW, RADAR, SEMANTIC_LIDAR, LIDAR, RGB, SEMANTIC, INSTANCE = 8, 9, 10, 11, 13, 14, 15
OBSERVER, AWARENESS, CUSTOM = 17, 20, 21
"""Which sensor a frame is from: its place in CARLA's list of sensors."""

MAP_CHANGES, LIGHTS_CHANGED = 1, 2
"""What a snapshot can say has happened to the world."""

_FURTHEST = 1e7

_HEADER = struct.Struct("<QQd6f")
_EPISODE = struct.Struct("<Qdf3iI")
_TOKEN = struct.Struct("<IHBB4s12s")

Vector = tuple[float, float, float]
Pose = tuple[float, float, float, float, float, float]
"""x, y, z, pitch, yaw, roll."""


class Refusal(ForewarnError):
    """A call cannot be done; the client sees the message as an exception."""


def result(value: object) -> list[Any]:
    """The answer of a call that returns something."""
    return [[1, value]]


def refused(message: str) -> list[Any]:
    """The answer of such a call that cannot be done."""
    return [[0, [message]]]


DONE: list[Any] = [[False]]
"""The answer of a call that returns nothing."""


def failed(message: str) -> list[Any]:
    """The answer of such a call that cannot be done."""
    return [[True, [message]]]


# -- what clients send ----------------------------------------------------------------


def number(value: object) -> float:
    """A finite number of a sensible size."""
    if not is_number(value):
        raise Refusal(f"{value!r:.40} is not a number")
    if not -_FURTHEST <= value <= _FURTHEST:
        raise Refusal(f"{value!r:.40} is out of range")
    return float(value)


def vector(value: Sequence[object]) -> Vector:
    x, y, z = value
    return number(x), number(y), number(z)


def pose(value: Sequence[Sequence[object]]) -> Pose:
    location, rotation = value
    return *vector(location), *vector(rotation)


# -- what clients are sent ------------------------------------------------------------


def transform(at: Pose) -> list[list[float]]:
    return [list(at[:3]), list(at[3:])]


def token(host: str, port: int, stream: int) -> bytes:
    """Where a stream is to be had."""
    address = socket.inet_aton(host)
    return _TOKEN.pack(stream, port, 1, 1, address, b"")


def header(sensor: int, frame: int, time_s: float, at: Pose) -> bytes:
    """What every frame of a stream begins with."""
    return _HEADER.pack(sensor, frame, time_s, *at)


_NOWHERE: Pose = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def snapshot_header(
    episode: int, frame: int, time_s: float, wall_s: float, delta_s: float, change: int
) -> bytes:
    """What a frame of the world's own stream begins with; actors follow."""
    return header(OBSERVER, frame, time_s, _NOWHERE) + _EPISODE.pack(
        episode, wall_s, delta_s, 0, 0, 0, change
    )


# -- geometry -------------------------------------------------------------------------


def forward(yaw: float) -> tuple[float, float]:
    """The direction in which something looks."""
    return math.cos(math.radians(yaw)), math.sin(math.radians(yaw))


def compose(parent: Pose, child: Pose) -> Pose:
    """A pose given relative to a parent that stands upright, in the world."""
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
    """The same direction, from -180 to 180."""
    return (degrees + 180.0) % 360.0 - 180.0
