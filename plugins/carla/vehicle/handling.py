"""Keeping a car on its way: where to steer, and what pedals an acceleration takes."""

from __future__ import annotations

import math
from typing import Any

from forewarn.plugins.driving.roads.lines import Point
from forewarn.plugins.driving.roads.network import Roads
from forewarn.plugins.driving.roads.places import Places
from forewarn.plugins.driving.roads.ways import Way
from forewarn.plugins.driving.scene import Mover

THRUST = 4.0  # m/s² that the full throttle gives, about
BRAKE = 9.0  # m/s² of the full brake
_AHEAD_S, _AHEAD_M = 0.45, 3.0
_CHANGES_S = 1.2
_LEARNS = 0.5  # how fast it learns what the pedals of this car do, per second
_MOST = 3.0  # m/s² that a car may differ by
_STANDS = 0.05


class Steering:
    """Follows the middle of the way's lanes, as a driver looks ahead.

    Args:
        roads: The map's roads.
        places: Its lanes by place.
        half_m: Half the car's length.
        wheelbase_m: From axle to axle.
    """

    def __init__(
        self, roads: Roads, places: Places, half_m: float, wheelbase_m: float
    ) -> None:
        self._roads, self._places = roads, places
        self._half_m, self._wheelbase_m = half_m, wheelbase_m
        self._wanted = ""

    def change_to(self, lane: str) -> None:
        """Goes over to a lane beside the present one."""
        self._wanted = lane

    def angle(self, mover: Mover, way: Way) -> float:
        """The angle of the wheels in radians, to the right."""
        changes = bool(self._wanted) and self._wanted != mover.lane
        if not changes:
            self._wanted = ""
        look_s = _CHANGES_S if changes else _AHEAD_S
        rear_m = self._half_m + self._wheelbase_m / 2.0
        look_m = rear_m + max(_AHEAD_M, look_s * mover.speed)
        x, y = self._rear(mover, rear_m)
        target = self._target(mover, way, look_m - rear_m, changes)
        dx, dy = target[0] - x, target[1] - y
        off = math.atan2(dy, dx) - mover.heading
        reach = max(0.5, math.hypot(dx, dy))
        return -math.atan2(2.0 * self._wheelbase_m * math.sin(off), reach)

    def _rear(self, mover: Mover, rear_m: float) -> Point:
        x = mover.x - rear_m * math.cos(mover.heading)
        return x, mover.y - rear_m * math.sin(mover.heading)

    def _target(self, mover: Mover, way: Way, ahead_m: float, changes: bool) -> Point:
        """A point so far ahead of the car's front on its way."""
        if changes:
            return self._places.at(self._wanted, mover.at_m + ahead_m)[0]
        start = way.start_m.get(mover.lane)
        if start is None:
            return self._places.at(mover.lane, mover.at_m + ahead_m)[0]
        at = start + mover.at_m + ahead_m
        names = [name for name, begins in way.start_m.items() if begins <= at]
        last = max(names, key=lambda name: way.start_m[name])
        return self._places.at(last, at - way.start_m[last])[0]


class Pedals:
    """Turns an acceleration into throttle and brake, and learns the car's answer."""

    def __init__(self) -> None:
        self._wanted: float | None = None
        self._more = 0.0

    def press(
        self, control: Any, wanted: float, measured: float, dt: float, speed: float
    ) -> Any:
        """Sets a `carla.VehicleControl`'s pedals for an acceleration.

        Args:
            control: Whose steering is kept.
            wanted: The acceleration that is to be, in m/s².
            measured: What the car has done since the call before.
            dt: How long that is.
            speed: Its speed in m/s.
        """
        if self._wanted is not None and speed > _STANDS:
            missed = self._wanted - measured
            self._more += _LEARNS * dt * max(-_MOST, min(_MOST, missed))
            self._more = max(-_MOST, min(_MOST, self._more))
        self._wanted = wanted
        push = wanted + (self._more if wanted > -BRAKE / 2.0 else 0.0)
        control.throttle = max(0.0, min(1.0, push / THRUST))
        control.brake = max(0.0, min(1.0, -push / BRAKE))
        if wanted < 0.0:
            control.throttle = 0.0
        if speed < _STANDS and wanted < 0.0:
            control.brake = 1.0
        control.hand_brake = False
        return control

    def lift(self) -> None:
        """Somebody else has the pedals: what was learned is forgotten."""
        self._wanted, self._more = None, 0.0
