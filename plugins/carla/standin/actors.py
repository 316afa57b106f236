"""Who is in the world, and what a snapshot says of each: 119 bytes.

The last bytes of a state differ by kind: a vehicle's control and light, a walker's
control, a traffic light's times and colour, a sign's name.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from forewarn.plugins.carla.standin.encoding import (
    NO_TOKEN,
    Pose,
    Vector,
    forward,
)

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
"""Throttle, steer, brake, hand brake, reverse, manual gears, gear."""


@dataclass(slots=True)
class Actor:
    """Anything that has an identity and a place.

    Args:
        number: Its identity.
        kind: The blueprint's name.
        at: Where its middle is, at the height of its wheels or feet.
        attributes: As the blueprint gave them, encoded.
        half: Half its length, width and height.
        centre: The middle of its bounding box, seen from `at`.
        parent: Whom it is attached to; 0 for nobody.
        mount: Where on the parent.
        ours: Whether the world made it, not a client.
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
        """The actor as calls return it."""
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
    """A car, by a client's pedals or by the traffic.

    Args:
        control: What a client applied last.
        ackermann: Steer, steer speed, speed, acceleration, jerk; it has the wheel
            until a control comes.
        speed: Along its heading, negative backwards.
        steer_deg: How far its wheels are turned.
        constant: The velocity, in its own frame, that it is held at.
        physical: Whether it moves by itself.
        light: The traffic light whose stop line it is before.
        looked_at: Where it was when lights were last looked for.
        road: The road that it is on, as found at `mapped_at`.
        bumped: Whom it touches.
        name: What the traffic calls it.
    """

    control: list[Any] = field(default_factory=lambda: list(STANDARD_CONTROL))
    ackermann: list[float] | None = None
    speed: float = 0.0
    steer_deg: float = 0.0
    constant: Vector | None = None
    physical: bool = True
    solid: bool = True
    speed_limit: float = 50.0
    light: TrafficLight | None = None
    lamps: int = 0
    failure: int = 0
    autopilot: bool = False
    physics: list[Any] = field(default_factory=list)
    ackermann_settings: list[float] = field(
        default_factory=lambda: [0.15, 0.0, 0.25, 0.01, 0.0, 0.01]
    )
    push: float = 0.0
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
            0 if light is None else light.number, self.failure,
        )  # fmt: skip


@dataclass(slots=True)
class Walker(Actor):
    """A pedestrian.

    Args:
        direction: Where a client has it walk.
        pace: How fast.
        placed_s: When a client put it there last.
        name: What the traffic calls it.
    """

    direction: Vector = (1.0, 0.0, 0.0)
    pace: float = 0.0
    jump: bool = False
    physical: bool = True
    solid: bool = True
    placed_s: float = -math.inf
    name: str = ""

    def state(self) -> bytes:
        return _WALKER.pack(*self._common(), *self.direction, self.pace, self.jump)


@dataclass(slots=True)
class TrafficLight(Actor):
    """One signal of the map.

    Args:
        signal: The map's name of it.
        pole: Its place in the group.
        fixed: What does not change of its state.
        since_s: For how long it has had its colour.
    """

    signal: str = ""
    colour: int = RED
    green_s: float = 10.0
    yellow_s: float = 3.0
    red_s: float = 2.0
    since_s: float = 0.0
    pole: int = 0
    frozen: bool = False
    fixed: bytes = b""

    def state(self) -> bytes:
        # It stands where it stands, and is told of at every tick.
        if not self.fixed:
            self.fixed = _LIGHT.pack(*self._common(), self.signal.encode()[:31])
        return self.fixed + _SHOWN.pack(
            self.green_s, self.yellow_s, self.red_s, self.since_s, self.pole,
            self.frozen, self.colour,
        )  # fmt: skip


@dataclass(slots=True)
class TrafficSign(Actor):
    """A sign of the map that does not change."""

    signal: str = ""

    def state(self) -> bytes:
        return _SIGN.pack(*self._common(), self.signal.encode()[:31])


@dataclass(slots=True)
class Sensor(Actor):
    """Something that a client attached to see with.

    Args:
        stream: Where what it sees goes; 0 for one that the client works out.
        period_s: The least time between two frames.
        angle: How far it has turned, if it turns.
        luck: Where its noise comes from.
        seen: What the last frame leaves for the next one.
    """

    stream: int = 0
    period_s: float = 0.0
    next_s: float = 0.0
    angle: float = 0.0
    luck: Random | None = None
    seen: Any = None


def along(actor: Actor, speed: float) -> Vector:
    """A velocity of that speed in the direction in which the actor looks."""
    x, y = forward(actor.at[4])
    return speed * x, speed * y, 0.0
