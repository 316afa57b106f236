"""Where lights and signs hang, where they have cars stop, and which light is whose.

Their trigger volumes lie across their lanes just before the line, as agents expect
that look for it; a light is a vehicle's own from so far away that it can brake.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from forewarn.plugins.carla.standin.actors import (
    BOARD,
    LAMP,
    TrafficLight,
    TrafficSign,
    Vehicle,
)
from forewarn.plugins.carla.standin.encoding import Pose, Vector, turned
from forewarn.plugins.carla.standin.ground.roads import SIGNS, Roads, Signal

_LOOKS_AGAIN_M = 0.5
_MAPPED_FOR_M = 3.0
_PAST_M = 3.0
_FACING_DEG = 60.0
_HALF_LANE_M = 1.7
_TRIGGER_M = 5.0
_BRAKES = 6.0  # m/s²
_LEAST_M = 8.0


def hang(signal: Signal) -> TrafficLight:
    """The light of a signal. It looks across the road, as CARLA's do."""
    at, half, centre = _stands(signal)
    return TrafficLight(
        0, "traffic.traffic_light", at, tags=bytes([LAMP]), ours=True, half=half,
        centre=centre, signal=signal.name,
    )  # fmt: skip


def put_up(sign: Signal) -> TrafficSign:
    """The actor of a sign, which looks and is found as a light is."""
    at, half, centre = _stands(sign)
    return TrafficSign(
        0, SIGNS[sign.kind], at, tags=bytes([BOARD]), ours=True, half=half,
        centre=centre, signal=sign.name,
    )  # fmt: skip


def _stands(signal: Signal) -> tuple[Pose, Vector, Vector]:
    """Where a signal is, and its trigger volume from there: half of it, its middle."""
    first, last = signal.lines[0], signal.lines[-1]
    across = math.dist(first[:2], last[:2]) / 2.0
    x, y, z, pitch, yaw, roll = signal.at
    middle = (
        (first[0] + last[0]) / 2.0, (first[1] + last[1]) / 2.0, 0.0, 0.0, first[4], 0.0
    )  # fmt: skip
    at = x, y, z, pitch, turned(yaw + 90.0), roll
    half = across + _HALF_LANE_M - 0.1, _TRIGGER_M / 2.0, 1.0
    return at, half, _seen_from(at, middle, -_TRIGGER_M / 2.0)


class StopLines:
    """The stop lines of a map, and whose they are.

    Args:
        roads: The map.
        lights: The light of each of its signals.
    """

    def __init__(self, roads: Roads, lights: Sequence[TrafficLight]) -> None:
        self._roads = roads
        self._lines: dict[int, list[tuple[Pose, float, TrafficLight]]] = {}
        for signal, light in zip(roads.signals, lights, strict=True):
            for line in signal.lines:
                limit = roads.limit_at(line[0], line[1]) / 3.6
                reach = max(_LEAST_M, limit * limit / (2.0 * _BRAKES) + 3.0)
                rows = self._lines.setdefault(signal.road, [])
                rows.append((line, reach, light))

    def look(self, car: Vehicle) -> bool:
        """Finds a car's light and speed limit anew, if it has moved since."""
        x, y = car.at[:2]
        seen = car.looked_at
        if seen and abs(x - seen[0]) + abs(y - seen[1]) < _LOOKS_AGAIN_M:
            return False
        car.looked_at = x, y
        mapped = car.mapped_at
        if not mapped or abs(x - mapped[0]) + abs(y - mapped[1]) > _MAPPED_FOR_M:
            self._map(car)
        car.light = None
        for line, reach, light in self._lines.get(car.road, ()):
            if _before(car, line, reach):
                car.light = light
                break
        return True

    def _map(self, car: Vehicle) -> None:
        """Finds the road that a car is on."""
        x, y = car.mapped_at = car.at[:2]
        point = self._roads.waypoint(x, y)
        if point is not None:
            car.road = point.road_id
            car.speed_limit = self._roads.limit_kmh(car.road, point.lane_id)


def _before(car: Vehicle, line: Pose, reach: float) -> bool:
    """Whether the car's front is before the line, on its lane, and near."""
    if abs(turned(car.at[4] - line[4])) > _FACING_DEG:
        return False
    heading = math.radians(line[4])
    dx, dy = line[0] - car.at[0], line[1] - car.at[1]
    ahead = dx * math.cos(heading) + dy * math.sin(heading) - car.half[0]
    aside = dy * math.cos(heading) - dx * math.sin(heading)
    return -_PAST_M < ahead < reach and abs(aside) < _HALF_LANE_M


def _seen_from(frame: Pose, point: Pose, ahead: float) -> Vector:
    """A point moved along its own heading, in another's frame."""
    heading = math.radians(point[4])
    x = point[0] + ahead * math.cos(heading) - frame[0]
    y = point[1] + ahead * math.sin(heading) - frame[1]
    turn = math.radians(frame[4])
    return (
        x * math.cos(turn) + y * math.sin(turn),
        y * math.cos(turn) - x * math.sin(turn),
        point[2] - frame[2] + 1.0,
    )
