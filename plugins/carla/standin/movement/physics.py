"""What a client is told of a vehicle's physics, from its blueprint."""

from __future__ import annotations

import math
from typing import Any

from forewarn.plugins.carla.standin.actors import Vehicle
from forewarn.plugins.carla.standin.blueprints import Blueprint
from forewarn.plugins.carla.standin.movement.kinematics import MAX_STEER_DEG

_GEARS = ((4.3, 0.5, 0.65), (2.2, 0.5, 0.65), (1.4, 0.5, 0.65), (1.0, 0.5, 0.65))


def physics_of(blueprint: Blueprint) -> list[Any]:
    """Engine, gears, mass and wheels, as CARLA 0.9.16 lists them."""
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


def telemetry_of(car: Vehicle) -> list[Any]:
    """Speed, pedals and wheels, as CARLA 0.9.16 lists them; tyres do not slip."""
    throttle, steer, brake = car.control[:3]
    speed = math.hypot(*car.velocity[:2])
    radius = 0.35
    load = car.physics[11] * 9.81 / max(1, len(car.physics[15])) if car.physics else 0.0
    wheel = [3.5, 0.0, 0.0, speed / radius, load, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    count = len(car.physics[15]) if car.physics else 4
    rpm = min(5800.0, 800.0 + 120.0 * speed)
    gear = -1 if car.speed < 0 else 0 if car.speed == 0 else 1 + int(speed / 9.0)
    return [
        speed, steer, throttle, brake, rpm, min(4, gear), 0.3,
        [list(wheel) for _ in range(count)],
    ]  # fmt: skip
