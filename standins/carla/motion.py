"""Simulates the motion of vehicles and walkers.

A vehicle follows a kinematic bicycle model on level ground. The acceleration depends on
the pedals: 4 m/s² at full throttle and -9 m/s² at full brake. Without throttle and
brake, the vehicle coasts. Speed is integrated as in the embedded SUMO world, so that
the same accelerations result in the same distance. Tyres, gears, slopes and suspension
are not modelled; instead, a limit on lateral acceleration keeps a car from turning too
sharply.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from forewarn.standins.carla.actors import (
    Actor,
    Sensor,
    TrafficLight,
    TrafficSign,
    Vehicle,
    Walker,
    along,
    turned,
)
from forewarn.standins.carla.blueprints import Blueprint

THRUST = 4.0  # m/s²
BRAKE = 9.0  # m/s²
HAND_BRAKE = 6.0  # m/s²
ROLLING = 0.2  # m/s²
TOP_SPEED = 70.0  # m/s
TOP_REVERSE = 10.0  # m/s
COMFORT = 3.0  # m/s²
SIDEWAYS = 8.0  # m/s²
MAX_STEER_DEG = 70.0

_STEERING = (0.0, 5.6, 16.7, 33.3), (1.0, 0.9, 0.8, 0.7)
"""Speeds in m/s, and the fraction of the steering command that is applied at each."""


def move(car: Vehicle, dt: float) -> None:
    """Applies a car's control for `dt` seconds."""
    speed = car.speed
    after, way = _longitudinal(car, speed, dt)
    steer = _steer(car, speed, dt)
    was = car.velocity
    if way == 0.0:
        car.spin = (0.0, 0.0, 0.0)
        car.velocity = along(car, after) if after else (0.0, 0.0, 0.0)
    else:
        _roll(car, after, way, steer, dt)
    car.speed = after
    v = car.velocity
    car.acceleration = (v[0] - was[0]) / dt, (v[1] - was[1]) / dt, 0.0


def walk(walker: Walker, dt: float) -> None:
    """Applies a walker's control for `dt` seconds."""
    if not walker.pace or not walker.physical:
        walker.velocity = (0.0, 0.0, 0.0)
        return
    x, y, _ = walker.direction
    length = math.hypot(x, y) or 1.0
    vx, vy = walker.pace * x / length, walker.pace * y / length
    at = walker.at
    yaw = math.degrees(math.atan2(y, x)) if x or y else at[4]
    walker.at = at[0] + vx * dt, at[1] + vy * dt, at[2], at[3], yaw, at[5]
    walker.velocity = (vx, vy, 0.0)


def _longitudinal(car: Vehicle, speed: float, dt: float) -> tuple[float, float]:
    """Returns the speed in m/s at the end of a step and the distance covered in
    metres.
    """
    if car.ackermann is not None:
        return _ackermann(car, speed, dt)
    throttle, _, brake, hand_brake, reverse, manual, gear = car.control
    if not throttle and not brake and not hand_brake and not speed:
        return 0.0, 0.0
    backwards = reverse or (manual and gear < 0)
    thrust = 0.0 if manual and gear == 0 else THRUST * min(1.0, max(0.0, throttle))
    thrust = -thrust if backwards else thrust
    held = BRAKE * min(1.0, max(0.0, brake)) + (HAND_BRAKE if hand_brake else 0.0)
    if not thrust and not held:
        held = ROLLING
    after = speed + thrust * dt
    if held:
        # Braking stops the car but does not reverse its motion.
        slower = held * dt
        if speed > 0.0 or (speed == 0.0 and after > 0.0):
            after = max(0.0, after - slower)
        else:
            after = min(0.0, after + slower)
    after = min(TOP_SPEED, max(-TOP_REVERSE, after))
    return after, (speed + after) / 2.0 * dt


def _ackermann(car: Vehicle, speed: float, dt: float) -> tuple[float, float]:
    """Accelerates towards the target speed; returns the same as `_longitudinal`."""
    assert car.ackermann is not None  # noqa: S101
    wanted, rate = car.ackermann[2], abs(car.ackermann[3]) or COMFORT
    wanted = min(TOP_SPEED, max(-TOP_REVERSE, wanted))
    up = min(rate, THRUST if wanted > speed else BRAKE) * dt
    after = min(wanted, speed + up) if wanted > speed else max(wanted, speed - up)
    a = (after - speed) / dt
    pedals = (a / THRUST, 0.0) if a >= 0.0 else (0.0, -a / BRAKE)
    car.control[0], car.control[2] = pedals
    return after, (speed + after) / 2.0 * dt


def _steer(car: Vehicle, speed: float, dt: float) -> float:
    """Updates the angle of the front wheels, and returns the angle in radians."""
    if car.ackermann is not None:
        wanted = math.degrees(car.ackermann[0])
        rate = math.degrees(car.ackermann[1])
        if rate > 0.0:
            step = rate * dt
            wanted = min(car.steer_deg + step, max(car.steer_deg - step, wanted))
        car.steer_deg = min(MAX_STEER_DEG, max(-MAX_STEER_DEG, wanted))
        car.control[1] = car.steer_deg / MAX_STEER_DEG
    else:
        steer = car.control[1]
        if not steer:
            car.steer_deg = 0.0
            return 0.0
        steer = min(1.0, max(-1.0, steer))
        share = float(np.interp(abs(speed), *_STEERING))
        car.steer_deg = MAX_STEER_DEG * steer * share
    return math.radians(car.steer_deg)


def _roll(car: Vehicle, after: float, way: float, steer: float, dt: float) -> None:
    """Moves the car according to the bicycle model."""
    x, y, z, pitch, yaw, roll = car.at
    curvature = math.tan(steer) / car.wheelbase if steer else 0.0
    if curvature:
        pace = max(abs(after), abs(way) / dt)
        bound = SIDEWAYS / max(pace * pace, 1e-6)
        curvature = min(bound, max(-bound, curvature))
    heading = math.radians(yaw)
    turn = way * curvature
    back = car.wheelbase / 2.0
    if turn:
        middle = heading + turn / 2.0
        end = heading + turn
        x += way * math.cos(middle) + back * (math.cos(end) - math.cos(heading))
        y += way * math.sin(middle) + back * (math.sin(end) - math.sin(heading))
        yaw = turned(math.degrees(end))
        slip = math.atan(curvature * back)
        car.spin = (0.0, 0.0, math.degrees(turn / dt))
    else:
        end, slip = heading, 0.0
        x += way * math.cos(heading)
        y += way * math.sin(heading)
        car.spin = (0.0, 0.0, 0.0)
    car.at = x, y, z, pitch, yaw, roll
    car.velocity = after * math.cos(end + slip), after * math.sin(end + slip), 0.0


_GEARS = ((4.3, 0.5, 0.65), (2.2, 0.5, 0.65), (1.4, 0.5, 0.65), (1.0, 0.5, 0.65))


def physics_of(blueprint: Blueprint) -> list[Any]:
    """Returns a vehicle's engine, gears, mass and wheels as CARLA 0.9.16 encodes
    them.
    """
    length, width, _ = blueprint.half
    radius = 0.35 if blueprint.wheels > 2 else 0.3
    wheels = []
    for n in range(blueprint.wheels):
        front = n < 2 if blueprint.wheels > 2 else n < 1
        side = (-1.0 if n % 2 == 0 else 1.0) * (blueprint.wheels > 2)
        at = [100 * 0.6 * length * (1 if front else -1), 100 * 0.8 * width * side, 0.0]
        steer = MAX_STEER_DEG if front else 0.0
        hand = 0.0 if front else 3000.0
        wheels.append(
            [3.5, 0.25, steer, 100 * radius, 1500.0, hand, 2.0, 17.0, 1000.0, at]
        )
    return [
        [[0.0, 400.0], [1890.0, 500.0], [5729.0, 400.0]], 5800.0, 1.0, 0.15, 2.0, 0.35,
        True, 0.5, 10.0, 4.0, [list(gear) for gear in _GEARS], blueprint.mass, 0.3,
        [0.0, 0.0, 0.0], [[0.0, 1.0], [20.0, 0.9], [60.0, 0.8], [120.0, 0.7]], wheels,
        True,
    ]  # fmt: skip


_LONGEST = 14.0


def _attached(one: Actor, other: Actor) -> bool:
    """Whether one actor is attached to the other."""
    if one.parent and one.parent == other.number:
        return True
    return bool(other.parent) and other.parent == one.number


def touching(
    actors: Sequence[Actor], others: Iterable[Actor]
) -> Iterator[tuple[Actor, frozenset[int]]]:
    """Yields each actor with the ids of the actors that it overlaps."""
    # Sorting by x limits the tests to neighbouring actors.
    bodies = sorted(
        (
            (other.at[0], other.at[1], other.half[0], other.number, other)
            for other in others
            if solid(other)
        ),
        key=itemgetter(0),
    )
    start, count = 0, len(bodies)
    for actor in sorted(actors, key=lambda a: a.at[0]):
        x, y = actor.at[:2]
        half = actor.half[0] + 1.0
        while start < count and bodies[start][0] < x - _LONGEST:
            start += 1
        met: list[int] = []
        for index in range(start, count):
            ox, oy, its, number, other = bodies[index]
            if ox > x + _LONGEST:
                break
            reach = half + its
            if abs(oy - y) > reach or abs(ox - x) > reach or other is actor:
                continue
            if _overlap(actor, other) and not _attached(actor, other):
                met.append(number)
        yield actor, frozenset(met)


def hold_back(car: Vehicle, other: Actor) -> None:
    """Limits the speed of a car that has hit an actor to the speed of that actor."""
    ahead = along(car, 1.0)
    way = sum((b - a) * u for a, b, u in zip(car.at, other.at, ahead[:2], strict=False))
    its = other.velocity[0] * ahead[0] + other.velocity[1] * ahead[1]
    bound = max(0.0, its) if way > 0.0 else min(0.0, its)
    held = car.speed > bound if way > 0.0 else car.speed < bound
    if held:
        car.speed, car.velocity = bound, along(car, bound)


def solid(actor: Actor) -> bool:
    if isinstance(actor, Sensor | TrafficLight | TrafficSign) or not any(actor.half):
        return False
    return bool(getattr(actor, "solid", True))


def _overlap(a: Actor, b: Actor) -> bool:
    """Whether the rectangles of two actors overlap, by the separating axis theorem."""
    dx, dy = b.at[0] - a.at[0], b.at[1] - a.at[1]
    one, other = math.radians(a.at[4]), math.radians(b.at[4])
    turn = other - one
    cosine, sine = abs(math.cos(turn)), abs(math.sin(turn))
    (al, aw, _), (bl, bw, _) = a.half, b.half
    for angle, la, wa, lb, wb in ((one, al, aw, bl, bw), (other, bl, bw, al, aw)):
        c, s = math.cos(angle), math.sin(angle)
        if abs(dx * c + dy * s) > la + lb * cosine + wb * sine:
            return False
        if abs(dy * c - dx * s) > wa + lb * sine + wb * cosine:
            return False
    return True
