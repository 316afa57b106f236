"""What an action is given: numbers and objects, checked as AI2-THOR checks them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from forewarn.abstractions.frame import is_number
from forewarn.thor_bridge.household.objects import Object
from forewarn.thor_bridge.household.world import Refused, World

Arguments = Mapping[str, Any]


def thrown(exception: str, message: str) -> Refused:
    """A refusal that AI2-THOR reports as an exception: with one more full stop."""
    return Refused(f"{exception}: {message}.")


def number(action: Arguments, key: str, default: float | None = None) -> float:
    value = action.get(key, default)
    if value is None:
        raise Refused(f"Missing arguments: {key}", "MissingArguments")
    if not is_number(value):
        raise Refused(f"Invalid argument: {key}", "InvalidArgument")
    if not math.isfinite(value):
        raise Refused(f"Invalid argument: {key}", "InvalidArgument")
    return float(value)


def point(action: Arguments, key: str) -> tuple[float, float, float]:
    """Three numbers: of a place, or angles about three axes."""
    value = action.get(key)
    if value is None:
        raise Refused(f"Missing arguments: {key}", "MissingArguments")
    if not isinstance(value, Mapping):
        raise Refused(f"Invalid argument: {key}", "InvalidArgument")
    return number(value, "x", 0.0), number(value, "y", 0.0), number(value, "z", 0.0)


def target(world: World, action: Arguments) -> Object:
    """The object that the action names, which must be in view unless forced."""
    thing = named(world, action)
    identity = thing["objectId"]
    if action.get("forceAction"):
        return thing
    if not thing["visible"] or world.failures.strikes(
        world, str(action["action"]), identity
    ):
        raise thrown(
            "NullReferenceException",
            "Target object not found within the specified visibility.",
        )
    return thing


def named(world: World, action: Arguments) -> Object:
    identity = action.get("objectId")
    if identity is None:
        raise Refused("Missing arguments: objectId", "MissingArguments")
    thing = world.objects.get(str(identity))
    if thing is None:
        raise thrown(
            "ArgumentException",
            f"objectId: {identity} is not the objectId on any object in the scene!",
        )
    return thing
