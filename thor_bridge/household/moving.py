"""Actions that set up the scene or move the robot, and the arguments of actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from forewarn.abstractions.frame import is_number
from forewarn.thor_bridge.household.objects import Object
from forewarn.thor_bridge.household.world import (
    AGENT_HEIGHT_M,
    ActionRejected,
    World,
)

Arguments = Mapping[str, Any]


def thrown(exception: str, message: str) -> ActionRejected:
    """Returns a rejection that AI2-THOR reports as an exception, with an extra full
    stop.
    """
    return ActionRejected(f"{exception}: {message}.")


def number(action: Arguments, key: str, default: float | None = None) -> float:
    value = action.get(key, default)
    if value is None:
        raise ActionRejected(f"Missing arguments: {key}", "MissingArguments")
    if not is_number(value):
        raise ActionRejected(f"Invalid argument: {key}", "InvalidArgument")
    if not math.isfinite(value):
        raise ActionRejected(f"Invalid argument: {key}", "InvalidArgument")
    return float(value)


def point(action: Arguments, key: str) -> tuple[float, float, float]:
    """Reads an argument with three numbers: a position, or angles about three axes."""
    value = action.get(key)
    if value is None:
        raise ActionRejected(f"Missing arguments: {key}", "MissingArguments")
    if not isinstance(value, Mapping):
        raise ActionRejected(f"Invalid argument: {key}", "InvalidArgument")
    return number(value, "x", 0.0), number(value, "y", 0.0), number(value, "z", 0.0)


def target(world: World, action: Arguments) -> Object:
    """Returns the object of an action, which must be in view unless the action is
    forced.
    """
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
        raise ActionRejected("Missing arguments: objectId", "MissingArguments")
    thing = world.objects.get(str(identity))
    if thing is None:
        raise thrown(
            "ArgumentException",
            f"objectId: {identity} is not the objectId on any object in the scene!",
        )
    return thing


LOWEST, HIGHEST = 60.0, -30.0
"""The lowest and highest pitch of the camera in degrees; positive is downwards."""


def initialize(world: World, action: Arguments) -> dict[str, float]:
    world.reach_m = number(action, "visibilityDistance", 1.5)
    world.grid_m = number(action, "gridSize", 0.25)
    world.fov = number(action, "fieldOfView", 90.0)
    world.seed = int(number(action, "seed", world.seed))
    if action.get("agentMode") == "arm":
        raise ActionRejected(
            "the household does not support the agent mode 'arm'", "InvalidArgument"
        )
    return {"cameraNearPlane": 0.1, "cameraFarPlane": 20.0}


def reset(world: World, action: Arguments) -> None:
    world.load(str(action.get("sceneName") or world.scene_name))


def scenes(world: World, _: Arguments) -> list[str]:
    floor_plans = (
        f"{name}_physics" if name.startswith("FloorPlan") else name
        for name in world.scenes
    )
    return sorted(floor_plans)


def resolution(world: World, action: Arguments) -> None:
    width, height = int(number(action, "x")), int(number(action, "y"))
    if not (0 < width <= 4096 and 0 < height <= 4096):
        raise ActionRejected("Invalid argument: x, y", "InvalidArgument")
    world.width, world.height = width, height


def nothing(_: World, __: Arguments) -> None:
    return None


def reachable(world: World, _: Arguments) -> list[dict[str, float]]:
    return world.positions()


def teleport(world: World, action: Arguments) -> None:
    x, y, z = (number(action, key) for key in "xyz")
    rotation = action.get("rotation")
    if isinstance(rotation, Mapping):
        rotation = rotation.get("y", 0.0)
    horizon = number(action, "horizon", world.pose.horizon)
    turned = number({"rotation": rotation}, "rotation", world.pose.rotation)
    if not HIGHEST - 1e-3 <= horizon <= LOWEST + 1e-3:
        raise thrown(
            "ArgumentOutOfRangeException",
            "Specified argument was out of the range of valid values.\nParameter name:"
            f" Each horizon must be in [-30:60]. You gave {horizon:.7g}.",
        )
    change = abs(y - AGENT_HEIGHT_M)
    if change > 0.05 and not action.get("forceAction"):
        raise thrown(
            "InvalidOperationException",
            "After teleporting and adjusting agent position to floor, there was too"
            f" large a change({change:.7g} > 0.05) in the y component. Consider using"
            " `forceAction=true` if you'd like to teleport anyway.",
        )
    if gap(world, x, z) > world.grid_m / 2 and not action.get("forceAction"):
        raise thrown(
            "InvalidOperationException", f"Collided with: {obstacle(world, x, z)}"
        )
    pose = world.pose
    pose.x, pose.y, pose.z = x, AGENT_HEIGHT_M, z
    pose.rotation, pose.horizon = turned % 360, horizon
    pose.standing = bool(action.get("standing", pose.standing))
    carry(world)


def gap(world: World, x: float, z: float) -> float:
    """Returns the distance from a point to the nearest position where the robot can
    stand.
    """
    gaps = np.hypot(world.cells[:, 0] - x, world.cells[:, 1] - z)
    return float(gaps.min())


def obstacle(world: World, x: float, z: float) -> str:
    """Returns the obstacle at a point: the nearest object that cannot be picked up."""
    nearest, best = "Floor", math.inf
    for thing in world.objects.values():
        if thing["pickupable"] or thing["objectType"] == "Floor":
            continue
        place = thing["position"]
        gap = math.hypot(place["x"] - x, place["z"] - z)
        if gap < best:
            nearest, best = thing["objectId"], gap
    return nearest


def walk(angle: float) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        length = number(action, "moveMagnitude", 0.0) or world.grid_m
        turn = math.radians(world.pose.rotation + angle)
        step_x, step_z = length * math.sin(turn), length * math.cos(turn)
        x, z = world.pose.x + step_x, world.pose.z + step_z
        if gap(world, x, z) > world.grid_m / 2:
            name = obstacle(world, x, z).split("|")[0]
            raise ActionRejected(
                f"{name} is blocking Agent 0 from moving by"
                f" ({step_x:.4f}, 0.0000, {step_z:.4f})."
            )
        world.pose.x, world.pose.z = x, z
        carry(world)

    return act


def turn(sign: float) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        degrees = number(action, "degrees", 90.0) or 90.0
        world.pose.rotation = (world.pose.rotation + sign * degrees) % 360
        carry(world)

    return act


def tilt(sign: float) -> Callable[[World, Arguments], None]:
    def act(world: World, action: Arguments) -> None:
        degrees = number(action, "degrees", 30.0) or 30.0
        horizon = world.pose.horizon + sign * degrees
        if horizon > LOWEST + 1e-3:
            raise ActionRejected(
                "can't look down beyond 60 degrees below the forward horizon",
                "LookDownCantExceedMin",
            )
        if horizon < HIGHEST - 1e-3:
            raise ActionRejected(
                "can't look up beyond 30 degrees above the forward horizon",
                "LookUpCantExceedMax",
            )
        world.pose.horizon = horizon

    return act


def posture(standing: bool) -> Callable[[World, Arguments], None]:
    def act(world: World, _: Arguments) -> None:
        world.pose.standing = standing

    return act


def ahead(world: World, length: float) -> tuple[float, float]:
    turn = math.radians(world.pose.rotation)
    return (
        world.pose.x + length * math.sin(turn),
        world.pose.z + length * math.cos(turn),
    )


def carry(world: World) -> None:
    """Moves the held object with the robot."""
    if world.held is not None:
        world.move(world.held, *world.hand())
