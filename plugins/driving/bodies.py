"""Bodies on the road: whether two touch, and how far apart they are."""

from __future__ import annotations

import math

from forewarn.plugins.driving.roads.lines import Point, apart
from forewarn.plugins.driving.scene import EGO_WIDTH_M, Mover

_NEAR_M = 15.0


def touches(
    vehicle: Mover, other: Mover, *, on_foot: bool, within_m: float = 0.0
) -> bool:
    """Whether a vehicle's body meets another's, or comes so near to it.

    Args:
        vehicle: The one.
        other: The other.
        on_foot: Whether that is a pedestrian.
        within_m: How near.
    """
    if abs(other.x - vehicle.x) + abs(other.y - vehicle.y) > (
        _NEAR_M + vehicle.length + other.length
    ):
        return False
    ax, ay = _middle(vehicle)
    bx, by = (other.x, other.y) if on_foot else _middle(other)
    dx, dy = bx - ax, by - ay
    for axis in (vehicle.heading, other.heading):
        for turned in (axis, axis + math.pi / 2.0):
            apart = abs(dx * math.cos(turned) + dy * math.sin(turned))
            reach = _half(vehicle, turned) + _half(other, turned)
            if apart >= reach + within_m:
                return False
    return True


def clearance(one: Mover, other: Mover, most_m: float = math.inf) -> float | None:
    """The distance between two vehicles, each taken to be as wide as the ego.

    Args:
        one: The one.
        other: The other.
        most_m: None if it is more.
    """
    longest_m = most_m + EGO_WIDTH_M + one.length + other.length
    if max(abs(other.x - one.x), abs(other.y - one.y)) > longest_m:
        return None
    found_m = max(0.0, apart(_spine(one), _spine(other)) - EGO_WIDTH_M)
    return None if found_m > most_m else found_m


def _spine(vehicle: Mover) -> tuple[Point, Point]:
    """From its front to its rear."""
    back_x = vehicle.length * math.cos(vehicle.heading)
    back_y = vehicle.length * math.sin(vehicle.heading)
    return (vehicle.x, vehicle.y), (vehicle.x - back_x, vehicle.y - back_y)


def _middle(vehicle: Mover) -> Point:
    back = vehicle.length / 2.0
    return (
        vehicle.x - back * math.cos(vehicle.heading),
        vehicle.y - back * math.sin(vehicle.heading),
    )


def _half(mover: Mover, axis: float) -> float:
    """Half of how much room a body takes along an axis."""
    turned = mover.heading - axis
    along = mover.length * abs(math.cos(turned))
    return (along + mover.width * abs(math.sin(turned))) / 2.0
